//! How the words of the vocabulary are described: as callers have to spell them, with their bounds.
//!
//! The types that parse them are those of `mfaas-ident` and `mfaas-rules`, which know nothing of descriptions. No value of
//! a type here exists. A test holds both against each other.

use std::borrow::Cow;

use mfaas_ident::{
    Access as AccessWord, Class as ClassWord, DataAccess as DataAccessWord,
    FunctionBinding as FunctionBindingWord, IdentitySource as IdentitySourceWord, Isolation as IsolationWord,
    ResourceKind as ResourceKindWord, Role as RoleWord, Scope as ScopeWord,
};
use mfaas_rules::review::{HotspotState as HotspotStateWord, ReviewState as ReviewStateWord};
use utoipa::openapi::schema::{AnyOfBuilder, ObjectBuilder, Schema, SchemaType, Type};
use utoipa::openapi::{KnownFormat, Ref, RefOr, SchemaFormat};
use utoipa::{PartialSchema, ToSchema};

/// Rows of one page at most, for lists that have `limit`.
pub const PAGE_ROWS_MAX: u32 = 1_000;
/// Rows of one page when the caller names no number.
pub const PAGE_ROWS_DEFAULT: u32 = 100;

/// The longest idempotency key, in bytes.
pub const IDEMPOTENCY_KEY_BYTES_MAX: usize = 200;
/// The name of a feature, in bytes.
pub const FEATURE_BYTES_MAX: usize = 64;

macro_rules! schemas {
    ($($(#[$doc:meta])* $name:ident: $schema:expr;)*) => {$(
        $(#[$doc])*
        #[derive(Debug)]
        pub enum $name {}

        impl PartialSchema for $name {
            fn schema() -> RefOr<Schema> {
                $schema.into()
            }
        }

        impl ToSchema for $name {
            fn name() -> Cow<'static, str> {
                Cow::Borrowed(stringify!($name))
            }
        }
    )*};
}

schemas! {
    /// A tenant.
    TenantName: text("^[a-z][a-z0-9_-]*$", 40);
    /// A function.
    FunctionName: text("^[a-z][a-z0-9_-]*$", 63);
    /// A function that another one calls: of its tenant, or `tenant/function`.
    CalleeName: text("^([a-z][a-z0-9_-]*/)?[a-z][a-z0-9_-]*$", 104);
    /// An alias.
    AliasName: text("^[a-z][a-z0-9_-]*$", 40);
    /// Data of the site.
    ResourceName: text("^[a-z][a-z0-9_-]*$", 63);
    /// What a function calls data that it may reach.
    BindingName: text("^[a-z][a-z0-9_-]*$", 40);
    /// When a function is called by its site.
    ScheduleName: text("^[a-z][a-z0-9_-]*$", 40);
    /// For which changes of objects a function is called by its site.
    TriggerName: text("^[a-z][a-z0-9_-]*$", 40);
    /// A node.
    NodeName: text("^[a-z][a-z0-9_-]*$", 63);
    /// The build of a program: its version, and behind `+` the commit, where it is known.
    BuildVersion: text("^[0-9][A-Za-z0-9.+-]*$", 100);
    /// A crate, as the registry spells it.
    CrateName: text("^[A-Za-z][A-Za-z0-9_-]*$", 64);
    /// A person or a machine account.
    PersonName: text("^[a-z0-9][a-z0-9._@+:/-]*$", 200);
    /// SHA-256 in hexadecimal digits.
    Digest: text("^[0-9a-f]{64}$", 64);
    /// A stable error code.
    ErrorCode: text("^MF[0-9]{4}$", 6);
    /// What a call token opens: a function by name, or `*`.
    CallScopeEntry: text("^([*]|[a-z][a-z0-9_-]*)$", 63);
    /// 1, 2, 3, … within a function.
    VersionNumber: whole(1, i32::MAX.into(), KnownFormat::Int32);
    /// A list of keys; 0 is before the first.
    KeyListVersion: whole(0, u32::MAX.into(), KnownFormat::Int64);
    /// How much a call token allows at most.
    CallLimit: whole(1, u32::MAX.into(), KnownFormat::Int64);
    /// A row's number.
    RowId: whole(1, i64::MAX, KnownFormat::Int64);
    /// Behind which row a page begins.
    RowCursor: whole(0, i64::MAX, KnownFormat::Int64);
    /// A moment (RFC 3339), or how long ago it was, in minutes, hours or days.
    Moment: text("^([0-9]{1,6}[mhd]|[0-9]{4}-[0-9]{2}-[0-9]{2}T[^ ]+)$", 40);
    /// What a repeat of a request is known by.
    IdempotencyKey: text("^[!-~]+$", IDEMPOTENCY_KEY_BYTES_MAX);
    /// A feature of a crate.
    FeatureName: text("^[A-Za-z0-9_+./?:-]+$", FEATURE_BYTES_MAX);
    /// An object whose members are not described.
    OpaqueObject: ObjectBuilder::new().schema_type(SchemaType::new(Type::Object));
    /// Bytes.
    Binary: ObjectBuilder::new().schema_type(SchemaType::new(Type::String)).format(Some(SchemaFormat::KnownFormat(KnownFormat::Binary)));
    /// One event of a stream.
    EventFrame: event_frame();
    /// How many rows a page has.
    PageRows: page_rows();
    /// What a token may do.
    Scope: one_of(ScopeWord::ALL.map(ScopeWord::as_str));
    /// A named set of scopes.
    Role: one_of(RoleWord::ALL.map(RoleWord::as_str));
    /// Who says that a person is who they are.
    IdentitySource: one_of(IdentitySourceWord::ALL.map(IdentitySourceWord::as_str));
    /// Who may call a function.
    Access: one_of(AccessWord::ALL.map(AccessWord::as_str));
    /// What kind of calls a function has.
    Class: one_of(ClassWord::ALL.map(ClassWord::as_str));
    /// In which worker processes a function runs.
    Isolation: one_of(IsolationWord::ALL.map(IsolationWord::as_str));
    /// What a resource is.
    ResourceKind: one_of(ResourceKindWord::ALL.map(ResourceKindWord::as_str));
    /// What may be done with data; the greater includes the less.
    DataAccess: one_of(DataAccessWord::ALL.map(DataAccessWord::as_str));
    /// What stands behind the name of a binding.
    Binding: binding();
    /// Where a review is.
    ReviewState: one_of(ReviewStateWord::ALL.map(ReviewStateWord::as_str));
    /// What a reviewer found at a hotspot.
    HotspotState: one_of(HotspotStateWord::ALL.map(HotspotStateWord::as_str));
    /// Over what usage is summed up.
    UsagePeriod: one_of(["hour", "day", "total"]);
}

fn text(pattern: &str, bytes_max: usize) -> Schema {
    let object = ObjectBuilder::new().schema_type(SchemaType::new(Type::String));
    object.pattern(Some(pattern)).min_length(Some(1)).max_length(Some(bytes_max)).into()
}

/// The fields of a server-sent event; `data` is JSON on the wire.
fn event_frame() -> Schema {
    let json = ObjectBuilder::new()
        .schema_type(SchemaType::new(Type::String))
        .content_media_type("application/json");
    let data = AnyOfBuilder::new().item(json).item(Ref::from_schema_name("Event"));
    ObjectBuilder::new()
        .property("id", text("^[0-9]+$", 20))
        .property("event", Ref::from_schema_name("EventKind"))
        .property("data", data.description(Some("An `Event` in JSON")))
        .required("id")
        .required("event")
        .required("data")
        .into()
}

fn binding() -> Schema {
    let resource = ObjectBuilder::new()
        .property("kind", ResourceKind::schema())
        .property("resource", ResourceName::schema())
        .property("access", DataAccess::schema())
        .required("kind")
        .required("resource")
        .required("access");
    let function = ObjectBuilder::new()
        .property("kind", one_of([FunctionBindingWord::KIND]))
        .property("function", CalleeName::schema())
        .required("kind")
        .required("function");
    AnyOfBuilder::new().item(resource).item(function).into()
}

fn number(min: i64, max: i64, format: KnownFormat) -> ObjectBuilder {
    let object = ObjectBuilder::new().schema_type(SchemaType::new(Type::Integer));
    object.format(Some(SchemaFormat::KnownFormat(format))).minimum(Some(min)).maximum(Some(max))
}

fn whole(min: i64, max: i64, format: KnownFormat) -> Schema {
    number(min, max, format).into()
}

fn page_rows() -> Schema {
    number(1, PAGE_ROWS_MAX.into(), KnownFormat::Int32).default(Some(PAGE_ROWS_DEFAULT.into())).into()
}

fn one_of<const N: usize>(values: [&str; N]) -> Schema {
    let object = ObjectBuilder::new().schema_type(SchemaType::new(Type::String));
    object.enum_values(Some(values)).into()
}
