//! Everything that is known about one crate version, as it is stored and shown.
//!
//! A report is gathered once and kept by checksum, features, target and [`FACTS_REVISION`]. So it
//! holds only what follows from the bytes: what the world says about them (advisories, other
//! people's audits, whether a licence is permitted) changes while they do not, and is looked up when
//! somebody judges. A missing answer has a word of its own everywhere; none of them is a zero.

use mfaas_ident::{CrateName, Digest};
use serde::{Deserialize, Serialize};

use super::CrateFacts;
use crate::Span;

/// Names how facts are gathered. A stored report of another revision is gathered again, so it must
/// change whenever a reader learns to see more.
pub const FACTS_REVISION: u32 = 1;

/// One crate version with the features and the target that it was looked at with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CrateReport {
    /// [`FACTS_REVISION`] of whoever gathered it.
    pub revision: u32,
    /// The package name.
    pub name: CrateName,
    /// The version.
    pub version: semver::Version,
    /// sha256 of the `.crate` file.
    pub checksum: Digest,
    /// Features, sorted.
    pub features: Vec<String>,
    /// Target triple.
    pub target: String,
    /// What the archive holds.
    pub archive: ArchiveFacts,
    /// The two readers of its source.
    pub source: CrateFacts,
    /// The third: the compiler.
    pub compiler: CompilerVerdict,
    /// What it reaches for in std.
    pub touches: TouchReport,
    /// Shapes of the compiler's open soundness holes: safe code that is not safe.
    pub shapes: ShapeReport,
    /// Its licence, as written.
    pub licence: LicenceFacts,
    /// What kind of crate it is.
    pub kind: KindFacts,
    /// When and by whom; `None` where nobody says so.
    pub published: Option<Published>,
    /// Yanked by its publisher; `None` where that is not known.
    pub yanked: Option<bool>,
    /// Its direct dependencies as resolved with these features on this target, development
    /// dependencies left out.
    pub needs: Vec<Need>,
}

/// What lies in a `.crate` file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ArchiveFacts {
    /// Size of the `.crate` file.
    pub bytes: u64,
    /// Size of all files in it.
    pub unpacked_bytes: u64,
    /// Number of files in it.
    pub files: u64,
    /// Files that are no text.
    pub binaries: Vec<BinaryFile>,
    /// Paths of sources for another compiler or an assembler, sanitised.
    pub native_sources: Vec<String>,
    /// What was not read, and why; sentences.
    pub unread: Vec<String>,
}

/// A file that is no text.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BinaryFile {
    /// Path within the crate, sanitised.
    pub path: String,
    /// What its first bytes say.
    pub kind: BinaryKind,
}

/// Kinds of binary files, told by their first bytes and never by their names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BinaryKind {
    /// Program, library or object of Linux and others.
    Elf,
    /// Program or library of Windows.
    Pe,
    /// Program or library of macOS.
    MachO,
    /// WebAssembly.
    Wasm,
    /// A static library.
    Ar,
    /// Anything else that is no UTF-8 text: pictures, tables, other archives, whatever it may be.
    Unknown,
}

/// What rustc says about the crate itself under `-F unsafe-code`, for these features and this target.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum CompilerVerdict {
    /// It compiled.
    Clean,
    /// It did not, for unsafe code.
    Unsafe {
        /// Errors of that lint.
        errors: u32,
        /// The first of them.
        #[serde(rename = "spots")]
        hotspots: Vec<CompilerHotspot>,
    },
    /// It did not, for another reason: it says nothing about unsafe code.
    Failed {
        /// Why, sanitised.
        reason: String,
    },
    /// Nobody asked the compiler.
    NotRun {
        /// Why, sanitised.
        reason: String,
    },
}

/// One error of the compiler.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CompilerHotspot {
    /// Where.
    pub span: Span,
    /// What it says, sanitised.
    pub message: String,
}

/// What a crate's source names in std, by class. It has no default: nothing would look like nothing
/// touched.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TouchReport {
    /// The classes that are touched, each once, sorted.
    pub classes: Vec<ApiTouch>,
    /// Why a class may be missing here; sentences.
    pub unread: Vec<String>,
}

impl TouchReport {
    /// Where nobody looked.
    pub fn missing(reason: &str) -> Self {
        Self { classes: Vec::new(), unread: vec![mfaas_ident::sanitise_line(reason, 300)] }
    }
}

/// One class, and where.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ApiTouch {
    /// The class.
    pub class: ApiClass,
    /// All places, those past the bound included.
    pub count: usize,
    /// The first places.
    #[serde(rename = "spots")]
    pub hotspots: Vec<ApiHotspot>,
}

/// One place.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ApiHotspot {
    /// The path that it leads to, for example `std::fs::read`, sanitised.
    pub path: String,
    /// Where.
    pub span: Span,
}

/// Where the compiler's open soundness holes could be used, as far as the unexpanded source shows. It has
/// no default, either.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ShapeReport {
    /// The first shapes.
    pub shapes: Vec<ShapeHotspot>,
    /// Why one may be missing here; sentences.
    pub unread: Vec<String>,
}

/// One shape.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ShapeHotspot {
    /// The lint that knows it.
    pub lint: String,
    /// The item and what it implies, sanitised.
    pub text: String,
    /// Where, if it can be told.
    pub span: Option<Span>,
}

impl ShapeReport {
    /// Where nobody looked.
    pub fn missing(reason: &str) -> Self {
        Self { shapes: Vec::new(), unread: vec![mfaas_ident::sanitise_line(reason, 300)] }
    }
}

/// Classes of interfaces to what lies outside of a function's arguments.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ApiClass {
    /// Files.
    Fs,
    /// Sockets and names of hosts.
    Net,
    /// Other processes, and the end of this one.
    Process,
    /// Variables, arguments and directories of the process.
    Env,
    /// Standard input and output.
    Stdio,
    /// Threads.
    Thread,
    /// Clocks.
    Time,
    /// Statics that change, thread-locals, hooks.
    GlobalState,
}

/// The licence as the crate writes it. Whether it is permitted is judged, not gathered: the list of
/// permitted ones changes while the bytes do not.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LicenceFacts {
    /// `package.license`, sanitised; `None` without one.
    pub expression: Option<String>,
    /// `package.license-file`, sanitised; `None` without one.
    pub file: Option<String>,
}

/// What kind of crate it is, from its manifest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KindFacts {
    /// It is compiled into the compiler.
    pub proc_macro: bool,
    /// A program of its own runs on the build machine.
    pub build_script: bool,
    /// `package.links`, sanitised.
    pub links: Option<String>,
    /// `package.edition`, sanitised; `None` without one (which is 2015).
    pub edition: Option<String>,
}

/// Who published it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Published {
    /// When, as the index writes it, sanitised.
    pub at: Option<String>,
    /// The account, sanitised.
    pub by: Option<String>,
}

/// A direct dependency, as resolved.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Need {
    /// The package name.
    pub name: CrateName,
    /// The version.
    pub version: semver::Version,
    /// sha256 of its `.crate` file.
    pub checksum: Digest,
}
