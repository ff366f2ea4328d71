//! The objects of the API as callers see them. Names of the vocabulary are the checked types of
//! `mfaas-ident`: a client that reads them has parsed them.

use chrono::{DateTime, Utc};
use mfaas_ident::{
    Access, AliasName, Bindings, BuildVersion, Callers, Class, CrateName, DeploymentId, Digest, FunctionName,
    IdentitySource, Isolation, NodeName, PersonName, Role, Scope, TenantName, ToolchainId, VersionNumber,
};
use serde::{Deserialize, Serialize};
use strum::IntoStaticStr;
use utoipa::ToSchema;

use crate::schema;
use crate::{Availability, Condition, DeploymentState, Diagnostic, IsolationView, Problem, RequestView};

/// One page of a list.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Page<T> {
    /// The objects of this page, in the order that the route promises.
    pub items: Vec<T>,
    /// Give this as `after` for the next page; absent when the list ended. It means nothing else.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// Answer to an accepted upload.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct DeploymentAccepted {
    /// The deployment as it stands.
    pub deployment: DeploymentView,
    /// The path of its event stream on this server.
    pub events_url: String,
}

/// One upload and what came of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct DeploymentView {
    /// Its name for ever.
    #[schema(value_type = Uuid)]
    pub id: DeploymentId,
    /// The owner.
    #[schema(value_type = schema::TenantName)]
    pub tenant: TenantName,
    /// The function it is for.
    #[schema(value_type = schema::FunctionName)]
    pub function: FunctionName,
    /// Where it is.
    pub state: DeploymentState,
    /// When the upload was complete.
    pub created_at: DateTime<Utc>,
    /// When it reached its present state, by the database's clock.
    pub updated_at: DateTime<Utc>,
    /// SHA-256 of the uploaded bytes, as this server counted them.
    #[schema(value_type = schema::Digest)]
    pub source_digest: Digest,
    /// Size of the upload, in bytes.
    pub source_bytes: u64,
    /// How often a builder has claimed it.
    pub attempts: u32,
    /// The version it became, once admitted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<schema::VersionNumber>)]
    pub version: Option<VersionNumber>,
    /// Why it was refused, waits or failed.
    #[serde(default)]
    pub diagnostics: Vec<Diagnostic>,
    /// Why there is no version, once that is certain: refused, waiting or failed. The places are
    /// in `diagnostics`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<Problem>,
    /// Where a reviewer decides, when it waits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub review_url: Option<String>,
    /// What it waits for; only in the answer about one deployment.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub requests: Vec<RequestView>,
}

/// A function.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct FunctionView {
    /// The owner.
    #[schema(value_type = schema::TenantName)]
    pub tenant: TenantName,
    /// Unique within the owner.
    #[schema(value_type = schema::FunctionName)]
    pub name: FunctionName,
    /// When its first version was admitted.
    pub created_at: DateTime<Utc>,
    /// The version that `live` names, once there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<schema::VersionNumber>)]
    pub live_version: Option<VersionNumber>,
    /// The class of that version: `micro` or `bulk`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<schema::Class>)]
    pub class: Option<Class>,
    /// The newest version.
    #[schema(value_type = schema::VersionNumber)]
    pub latest_version: VersionNumber,
}

/// An immutable version of a function.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct VersionView {
    /// 1, 2, 3, …
    #[schema(value_type = schema::VersionNumber)]
    pub version: VersionNumber,
    /// The upload it came from.
    #[schema(value_type = Uuid)]
    pub deployment: DeploymentId,
    /// SHA-256 of the artifact.
    #[schema(value_type = schema::Digest)]
    pub artifact_digest: Digest,
    /// Size of the artifact, in bytes.
    pub artifact_bytes: u64,
    /// SHA-256 of the signed statement's envelope.
    #[schema(value_type = schema::Digest)]
    pub statement_digest: Digest,
    /// SHA-256 of the uploaded source.
    #[schema(value_type = schema::Digest)]
    pub source_digest: Digest,
    /// The toolchain that compiled it.
    #[schema(value_type = schema::Digest)]
    pub toolchain: ToolchainId,
    /// When it was admitted.
    pub created_at: DateTime<Utc>,
    /// CPU time for one invocation, in microseconds.
    pub budget_us: u64,
    /// Size of its arena, in bytes.
    pub memory_bytes: u64,
    /// Declared: running a call a second time does no harm, so a node may when its worker died with it.
    #[serde(default)]
    pub idempotent: bool,
    /// Declared: `shared` workers, or those of its tenant's own `process`.
    #[serde(default)]
    #[schema(value_type = schema::Isolation)]
    pub isolation: Isolation,
    /// Who may call it: `public`, `tenant` or `token`.
    #[serde(default)]
    #[schema(value_type = schema::Access)]
    pub access: Access,
    /// The other tenants whose functions may call it by a binding; those of a `public` function all may. Absent when it names none.
    #[serde(default, skip_serializing_if = "Callers::is_empty")]
    #[schema(value_type = Vec<schema::TenantName>)]
    pub callers: Callers,
    /// What kind of calls it has: `micro`, or long ones, which is `bulk`.
    #[serde(default)]
    #[schema(value_type = schema::Class)]
    pub class: Class,
    /// What data it may reach: the resource behind each name that it has for one. Absent when it reaches none.
    #[serde(default, skip_serializing_if = "Bindings::is_empty")]
    #[schema(value_type = std::collections::BTreeMap<schema::BindingName, schema::Binding>)]
    pub bindings: Bindings,
    /// The handler's path in the tenant's crate.
    pub handler: String,
    /// The interface between artifact and worker.
    pub abi_version: u32,
    /// The version of the allowlist by which it was admitted.
    pub policy_version: i64,
    /// Whether nodes must not load it any more.
    pub revoked: bool,
    /// The aliases that name it now.
    #[schema(value_type = Vec<schema::AliasName>)]
    pub aliases: Vec<AliasName>,
}

/// A movable name for a version.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct AliasView {
    /// For example `live`.
    #[schema(value_type = schema::AliasName)]
    pub alias: AliasName,
    /// What it names.
    #[schema(value_type = schema::VersionNumber)]
    pub version: VersionNumber,
    /// When it was last moved.
    pub updated_at: DateTime<Utc>,
}

/// Body of the request that moves an alias.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct MoveAlias {
    /// The version that the alias shall name.
    #[serde(deserialize_with = "crate::whole::required")]
    #[schema(value_type = schema::VersionNumber)]
    pub version: VersionNumber,
}

/// Answer to a deletion.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Removed {
    /// What was removed, as a person would write it.
    pub removed: String,
}

/// Where one node stands for one function.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Endpoint {
    /// The node.
    #[schema(value_type = schema::NodeName)]
    pub node: NodeName,
    /// `http://host:port/f/{tenant}/{name}`; absent while the node has not reported an address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// The version that the node says `live` is; absent when it serves none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<schema::VersionNumber>)]
    pub live_version: Option<VersionNumber>,
    /// The versions that the node has loaded, by what it says; none before it has come to the newest change of the function.
    /// Those that an alias names alone while it refuses more versions of the site than it can list.
    #[schema(value_type = Vec<schema::VersionNumber>)]
    pub loaded_versions: Vec<VersionNumber>,
    /// Every version that the node says it does not serve, and why.
    #[serde(default)]
    pub refused_versions: Vec<NodeRefusal>,
    /// When the node last reported; absent when it never did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reported_at: Option<DateTime<Utc>>,
    /// Whether the node takes calls.
    pub ready: bool,
}

/// A version that a node does not serve.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct NodeRefusal {
    /// The version.
    #[schema(value_type = schema::VersionNumber)]
    pub version: VersionNumber,
    /// Stable code.
    #[schema(value_type = schema::ErrorCode)]
    pub code: String,
    /// What the node says about it, sanitised.
    pub message: String,
    /// What to do about it.
    pub hint: String,
}

/// How a node is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema, IntoStaticStr)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum NodeState {
    /// Reports and serves what is desired.
    Ready,
    /// Reports, and has not reached the desired epoch yet.
    Behind,
    /// Has not reported for a while.
    Silent,
    /// Registered, has never reported.
    Joined,
}

impl NodeState {
    /// The word on the wire.
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

/// A serving machine: what it should run against what it says it runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct NodeView {
    /// Its name, the CN of its certificate.
    #[schema(value_type = schema::NodeName)]
    pub name: NodeName,
    /// How it is doing.
    pub state: NodeState,
    /// Whether it is to take less than everything: `availability` is not `active`.
    pub cordoned: bool,
    /// What an operator wants it to take.
    #[serde(default)]
    pub availability: Availability,
    /// Since when, if that was ever changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub availability_since: Option<DateTime<Utc>>,
    /// How far it says that it has followed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub condition: Option<Condition>,
    /// When it joined.
    pub joined_at: DateTime<Utc>,
    /// The epoch that it should serve.
    pub desired_epoch: u64,
    /// The epoch that it says it serves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reported_epoch: Option<u64>,
    /// When it last reported.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reported_at: Option<DateTime<Utc>>,
    /// Where it answers invocations, `http://host:port`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ingress_url: Option<String>,
    /// How many function versions it says are loaded.
    pub loaded: u32,
    /// How many workers it says are alive.
    pub workers: u32,
    /// The build of its program, when it last reported; none from releases up to 0.2.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<schema::BuildVersion>)]
    pub build: Option<BuildVersion>,
    /// What it says holds the calls of its workers, and whether tenants share them, sanitised.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub protection: Option<String>,
    /// How its machine stands; absent without an isolation controller.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub isolation: Option<IsolationView>,
    /// What the node complains about, sanitised.
    #[serde(default)]
    pub problems: Vec<String>,
}

/// What the allowlist says about a crate version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema, IntoStaticStr)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum CrateStatus {
    /// May be used.
    Allowed,
    /// May not be used.
    Denied,
    /// Was allowed and is not any more.
    Revoked,
    /// A deployment waits for a decision.
    Waiting,
}

impl CrateStatus {
    /// The word on the wire.
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

/// A row of the allowlist, or a request for one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct CrateView {
    /// The crate.
    #[schema(value_type = schema::CrateName)]
    pub name: CrateName,
    /// The exact version that is offered; on a waiting request, what was asked for.
    pub version: String,
    /// The features that are offered; on a waiting request, those asked for.
    pub features: Vec<String>,
    /// Whether functions may name it; otherwise it is only there for other crates.
    pub direct: bool,
    /// What was decided.
    pub status: CrateStatus,
    /// Who decided; `seed` means that it shipped with the product.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decided_by: Option<String>,
    /// Whether a person of this site has looked at it. Rows of `seed` have not been.
    pub reviewed: bool,
    /// Why.
    #[serde(default)]
    pub reason: String,
    /// The crates.io checksum of the source, absent on a waiting request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<schema::Digest>)]
    pub checksum: Option<String>,
}

/// An access token without its secret.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct TokenView {
    /// The public half of the token.
    #[schema(value_type = uuid::Uuid)]
    pub id: String,
    /// What the token opens.
    #[schema(value_type = schema::TenantName)]
    pub tenant: TenantName,
    /// What its owner calls it.
    pub name: String,
    /// The person that it acts for.
    #[schema(value_type = schema::PersonName)]
    pub person: PersonName,
    /// Who says that it is them: `nobody` for a token that acts for itself and never votes, `admin`, or
    /// the OpenID `provider`.
    #[schema(value_type = schema::IdentitySource)]
    pub identity_source: IdentitySource,
    /// Who made it, as audit rows name them.
    #[serde(default)]
    pub made_by: String,
    /// `viewer`, `deployer`, `reviewer`, `operator` or `admin`; absent when the scopes make none of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<schema::Role>)]
    pub role: Option<Role>,
    /// What it may do.
    #[schema(value_type = Vec<schema::Scope>)]
    pub scopes: Vec<Scope>,
    /// When it was made.
    pub created_at: DateTime<Utc>,
    /// When it stops working; never when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<DateTime<Utc>>,
    /// When it was withdrawn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revoked_at: Option<DateTime<Utc>>,
}

/// A new token. This answer is the only place where the secret ever appears.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct TokenCreated {
    /// The token as it will be listed.
    pub token: TokenView,
    /// `mfaas_<id>_<secret>`.
    pub secret: String,
}

/// Body of the request that makes a token.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CreateToken {
    /// What to call it, 1 to 80 characters.
    #[schema(min_length = 1, max_length = 80)]
    pub name: String,
    /// What it may do: `viewer`, `deployer`, `reviewer`, `operator` or `admin`. Either this or `scopes`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<schema::Role>)]
    pub role: Option<Role>,
    /// The same scope by scope; nothing that the calling token may not.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = Vec<schema::Scope>)]
    pub scopes: Vec<Scope>,
    /// The tenant that it opens; the caller's own when absent, another only for `admin`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<schema::TenantName>)]
    pub tenant: Option<TenantName>,
    /// The person that it acts for. A token that reviews has to name one; others act for themselves, as
    /// `tenant/name`, when it is absent. Two tokens of one person are one vote.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<schema::PersonName>)]
    pub person: Option<PersonName>,
}

/// One line that a function logged, or that its node says about it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct LogLine {
    /// Grows; give it as `after` for what comes behind.
    pub seq: i64,
    /// When the node took it.
    pub at: DateTime<Utc>,
    /// The node that ran the invocation.
    #[schema(value_type = schema::NodeName)]
    pub node: NodeName,
    /// The version that spoke.
    #[schema(value_type = schema::VersionNumber)]
    pub version: VersionNumber,
    /// `error`, `warn`, `info` or `debug`.
    pub level: String,
    /// What it said, sanitised.
    pub message: String,
}

/// Who a token is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct WhoAmI {
    /// The tenant that it opens.
    #[schema(value_type = schema::TenantName)]
    pub tenant: TenantName,
    /// The token's public half.
    #[schema(value_type = uuid::Uuid)]
    pub token_id: String,
    /// What its owner calls it.
    pub token_name: String,
    /// The person that it acts for.
    #[schema(value_type = schema::PersonName)]
    pub person: PersonName,
    /// Who says that it is them: `nobody`, `admin` or `provider`.
    #[schema(value_type = schema::IdentitySource)]
    pub identity_source: IdentitySource,
    /// `viewer`, `deployer`, `reviewer`, `operator` or `admin`; absent when the scopes make none of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<schema::Role>)]
    pub role: Option<Role>,
    /// What it may do.
    #[schema(value_type = Vec<schema::Scope>)]
    pub scopes: Vec<Scope>,
    /// The version of the server.
    pub server_version: String,
}

/// One row of the audit chain.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct AuditEntry {
    /// Grows without gaps.
    pub seq: i64,
    /// When, by the database's clock.
    pub at: DateTime<Utc>,
    /// The database role that wrote the row.
    pub role: String,
    /// Who is answerable: a token, a node, a program, `seed`.
    pub actor: String,
    /// What was done, for example `alias.moved`.
    pub action: String,
    /// Whose thing; empty for things of nobody.
    pub tenant: String,
    /// What it was done to.
    pub subject: String,
    /// More about it.
    #[schema(value_type = Object)]
    pub detail: serde_json::Value,
    /// SHA-256 over the previous row's hash and this row.
    #[schema(value_type = schema::Digest)]
    pub hash: String,
}
