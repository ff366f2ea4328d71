//! What was seen, without a judgement. `mfaas-audit` and `mfaas-inspect` fill these in.

use mfaas_ident::{
    Access, Bindings, Budget, Callers, Class, CrateName, FunctionName, HandlerPath, Isolation, MemoryLimit,
};
use serde::{Deserialize, Serialize};

use crate::Span;

/// What Cargo.toml says.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ManifestFacts {
    /// `[package] name`, if it is a function name.
    pub name: Option<FunctionName>,
    /// `[package.metadata.mfaas] handler`.
    pub handler: Option<HandlerPath>,
    /// `[package.metadata.mfaas] budget`.
    pub budget: Option<Budget>,
    /// `[package.metadata.mfaas] memory`.
    pub memory: Option<MemoryLimit>,
    /// `[package.metadata.mfaas] idempotent`: running a call a second time does no harm.
    pub idempotent: Option<bool>,
    /// `[package.metadata.mfaas] isolation`.
    pub isolation: Option<Isolation>,
    /// `[package.metadata.mfaas] access`: who may call it; what the site says if absent.
    pub access: Option<Access>,
    /// `[package.metadata.mfaas] callers`: the other tenants whose functions may call it.
    pub callers: Callers,
    /// `[package.metadata.mfaas] class`.
    pub class: Option<Class>,
    /// `[package.metadata.mfaas.bindings]`: what data it may reach.
    pub bindings: Bindings,
    /// `[dependencies]`, registry dependencies only.
    pub dependencies: Vec<DependencyRequest>,
    /// Everything else, in file order.
    pub facts: Vec<(ManifestFact, Option<Span>)>,
}

/// One thing in Cargo.toml that the rules have to look at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ManifestFact {
    /// A key, as its full path, for example `["profile", "release", "panic"]`. Every leaf and
    /// every table is reported once. The names of dependencies, features and targets appear as
    /// written.
    Key(Vec<String>),
    /// A dependency that does not come from the configured registry.
    ForeignDependency {
        /// The name in the table.
        name: String,
        /// `git`, `path`, `registry`, `workspace`, …: the key that makes it foreign.
        source: String,
    },
    /// The budget that the function asks for, which its class bounds.
    Budget(Budget),
    /// The memory that the function asks for, which its class bounds.
    Memory(MemoryLimit),
    /// A value that does not parse as what its key demands.
    BadValue {
        /// The key's path, joined by dots.
        key: String,
        /// Why, as a sentence fragment.
        reason: String,
    },
    /// The file is not TOML, not UTF-8, or over a limit.
    Unreadable(String),
    /// A mandatory key is missing.
    Missing(String),
    /// A file that cargo would obey lies in the tree (`build.rs`, `.cargo/…`).
    ObeyedFile(String),
}

/// A dependency as the tenant asks for it.
#[derive(Debug, Clone, PartialEq)]
pub struct DependencyRequest {
    /// The package name in the registry.
    pub name: CrateName,
    /// The name in the tenant's source when it differs (`foo = { package = "bar" }`).
    pub rename: Option<String>,
    /// The version requirement.
    pub requirement: semver::VersionReq,
    /// Features asked for.
    pub features: Vec<String>,
    /// Whether the default features are asked for.
    pub default_features: bool,
    /// Where it stands.
    pub span: Option<Span>,
}

/// What the lexer saw in the tenant's files.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SourceFacts {
    /// Number of `.rs` files.
    pub files: usize,
    /// Their size together.
    pub bytes: usize,
    /// Tokens, white space and comments not counted.
    pub tokens: usize,
    /// Names of macros that the tenant defines.
    pub own_macros: Vec<String>,
    /// What the rules have to look at.
    pub facts: Vec<(SourceFact, Span)>,
}

/// One thing in the tenant's source that the rules have to look at.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum SourceFact {
    /// The keyword `unsafe`, in any position, inside macro bodies too.
    Unsafe,
    /// `static mut`.
    StaticMut,
    /// `extern { … }` or `extern "abi" { … }`.
    ExternBlock,
    /// `extern fn` or `extern "abi" fn`, declared or as a type.
    ExternFn,
    /// `extern crate name` or `extern crate name as alias`. What is no plain word (a macro's
    /// fragment) is empty.
    ExternCrate {
        /// The crate.
        name: String,
        /// The alias, if there is one.
        alias: Option<String>,
    },
    /// An attribute. `path` has no spaces (`cfg_attr`, `rustfmt::skip`); `unsafe(no_mangle)` is
    /// reported as path `no_mangle` with `in_unsafe`; what `cfg_attr` carries is reported too.
    Attribute {
        /// The attribute's path.
        path: String,
        /// Written as `#![…]`.
        inner: bool,
        /// Written inside `unsafe(…)`.
        in_unsafe: bool,
        /// Its tokens behind the path, without spaces, cut to 200 bytes.
        tokens: String,
    },
    /// `path!(…)`: the path as written without spaces and without a leading `::`.
    MacroCall(String),
    /// A derive: one for each path in `#[derive(…)]`.
    Derive(String),
    /// `macro name` (declarative macros 2.0).
    MacroItem(String),
    /// A path rooted at `std`, `core` or `alloc` (raw spelling included), as segments from the
    /// root on. A glob import ends with `*`; the root by itself (`use std as s`, `use std::{self}`)
    /// has one segment.
    StdPath(Vec<String>),
    /// A number that a limit may refuse: `what` names the field of `limits::LexerLimits`.
    Measure {
        /// The limit's field name, for example `nesting_max`.
        what: &'static str,
        /// What was measured.
        value: usize,
    },
    /// Bytes that are not a Rust source: not UTF-8, NUL, an unterminated literal, an unknown
    /// character, bidi control characters.
    Unreadable(String),
}

/// What the lexer saw in the macro-expanded source.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ExpansionFacts {
    /// Regions and paths, in text order.
    pub facts: Vec<ExpansionFact>,
    /// The printed text was not understood: reason. Refused.
    pub unreadable: Option<String>,
}

/// One thing in the expanded source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ExpansionFact {
    /// An `unsafe` region, or an item or attribute with the same power.
    Privileged {
        /// What it is.
        kind: PrivilegedKind,
        /// The macros that emitted it, outermost first: `["thread_local",
        /// "$crate::thread::local_impl::thread_local_inner"]`. Empty = the tenant wrote it.
        chain: Vec<MacroOrigin>,
        /// The innermost macro of the chain is defined in std, core or alloc.
        by_std: bool,
        /// Tokens inside that are, or may be, the tenant's: those with the root mark, and those
        /// that carry no mark (literals, `as`, `_`). Spelled out, cut to 8.
        tenant_tokens: Vec<String>,
        /// Tokens of the tenant in type position: between the `<` and `>` of a path, behind the
        /// `:` of a static, behind the `for` of an impl. Spelled out, cut to 8.
        type_tokens: Vec<String>,
        /// Where in the tenant's source, if it can be told.
        span: Option<Span>,
    },
    /// A path of the tenant (or of its own macros) rooted at `std`, `core` or `alloc`.
    TenantStdPath {
        /// Segments from the root on.
        path: Vec<String>,
        /// Where in the tenant's source, if it can be told.
        span: Option<Span>,
    },
}

/// The forms of power that an expansion can contain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PrivilegedKind {
    /// `unsafe { … }`.
    Block,
    /// `unsafe fn`.
    Fn,
    /// `unsafe impl`.
    Impl,
    /// `unsafe trait`.
    Trait,
    /// `extern { … }`, with or without `unsafe`.
    ExternBlock,
    /// `#[unsafe(…)]`, `no_mangle`, `export_name`, `link_section`, `naked`, `link`, `used`, `global_allocator`.
    Attribute,
    /// `asm!`, `global_asm!`, `naked_asm!`.
    Assembly,
    /// `static mut`.
    StaticMut,
}

/// One step of an expansion chain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MacroOrigin {
    /// The name as rustc prints it, for example `thread_local` or `std::pin::pin`.
    pub name: String,
    /// `Bang`, `Attr` or `Derive`.
    pub kind: String,
    /// Declared in the tenant's own source.
    pub own: bool,
    /// The name may be that of a macro of another crate: its path does not lead into std, or a
    /// `use` gives that name to something from elsewhere. The compiler's table does not say.
    pub borrowed: bool,
}

/// What the expanded source has in common with the compiler's open soundness holes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SoundnessFacts {
    /// Shapes, by kind.
    pub facts: Vec<SoundnessFact>,
    /// The printed text was not understood: reason. Refused.
    pub unreadable: Option<String>,
}

/// One shape at one place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SoundnessFact {
    /// Which.
    pub shape: SoundnessShape,
    /// The item's name.
    pub subject: String,
    /// What it implies or does, as a sentence fragment.
    pub detail: String,
    /// Where in the tenant's source, if it can be told.
    pub span: Option<Span>,
}

/// The shapes; `profiles::lints` has a row for each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SoundnessShape {
    /// A function whose types imply a relation between lifetimes that its body may use, and that
    /// is used as a value.
    WitnessAsValue,
    /// The type of a function pointer, `Fn` bound or closure with such types.
    WitnessInFunctionType,
    /// A bound for all lifetimes on a type that implies a relation between them.
    HigherRankedWitness,
    /// An impl whose header is a projection, or implies a relation through one.
    ProjectionInHeader,
    /// A function whose types imply a relation through a projection.
    ProjectionWitness,
    /// A value of the type `P::X` where `P` is known to outlive a lifetime, and `P::X` is not.
    OutlivedProjection,
    /// `impl Fn(…) + 'static` whose type names a lifetime.
    StaticClosure,
    /// A blanket impl that covers a trait object which has an opinion of its own.
    BlanketOverObject,
    /// `pin!` where a type is expected of it.
    PinWhereExpected,
}

/// What `--emit=dep-info` lists.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DepInfoFacts {
    /// Files read, as rustc printed them.
    pub files: Vec<String>,
    /// Environment variables read.
    pub variables: Vec<String>,
    /// The text was not understood: reason. Refused.
    pub unreadable: Option<String>,
}

/// What an ELF image is.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct BinaryFacts {
    /// Size of the file.
    pub file_bytes: u64,
    /// Address space from the lowest to the highest byte of all PT_LOAD segments.
    pub image_bytes: u64,
    /// Bytes in writable segments that are not RELRO.
    pub writable_bytes: u64,
    /// Size of the TLS template in memory.
    pub tls_bytes: u64,
    /// ELF64, little endian, x86-64, ET_DYN.
    pub is_x86_64_shared_object: bool,
    /// A PT_LOAD that is writable and executable.
    pub writable_and_executable: bool,
    /// GNU_STACK missing or executable.
    pub executable_stack: bool,
    /// DT_TEXTREL or DF_TEXTREL.
    pub text_relocations: bool,
    /// No PT_GNU_RELRO.
    pub relro_missing: bool,
    /// PT_INTERP present.
    pub interpreter: bool,
    /// Segments that overlap, leave the file or wrap around: what exactly.
    pub segment_faults: Vec<String>,
    /// DT_NEEDED, in order.
    pub needed: Vec<String>,
    /// DT_RPATH, DT_RUNPATH, DT_AUXILIARY, DT_FILTER: tag names.
    pub search_paths: Vec<String>,
    /// Entries of DT_INIT_ARRAY.
    pub init_array: usize,
    /// Entries of DT_FINI_ARRAY, DT_PREINIT_ARRAY, and DT_INIT, DT_FINI present.
    pub other_constructors: usize,
    /// Symbols or relocations of type IFUNC.
    pub ifuncs: usize,
    /// GNU_UNIQUE symbols.
    pub unique_symbols: usize,
    /// Defined dynamic symbols.
    pub exports: Vec<String>,
    /// Undefined dynamic symbols.
    pub imports: Vec<String>,
    /// Relocation types met, as numbers of the x86-64 psABI.
    pub relocation_types: Vec<u32>,
    /// `wrpkru`, `xrstor`, `xrstors` at any offset of executable bytes: mnemonic and virtual address.
    pub key_instructions: Vec<(String, u64)>,
    /// `syscall`, `sysenter`, `int n` at instruction boundaries: mnemonic and virtual address.
    pub system_instructions: Vec<(String, u64)>,
}
