//! What changed between two versions of a crate, and how much there is to read of one.
//!
//! Stored once and shown often. A file that could not be compared counts as changed from its first line to its
//! last and says why: nothing that was not compared is a zero.

use mfaas_ident::{CrateName, Digest};
use serde::{Deserialize, Serialize};

use super::{ApiClass, HotspotKind};

/// Names how versions are compared. A stored delta of another revision is made again.
pub const DELTA_REVISION: u32 = 1;

/// A number of files and their lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Volume {
    /// Files.
    pub files: u64,
    /// Lines of them.
    pub lines: u64,
}

/// How much there is to read of a version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Volumes {
    /// What users compile, what the build machine runs, and the manifest.
    pub code: Volume,
    /// All other texts: tests, examples, documents, data.
    pub other: Volume,
    /// Files of the archive that were not kept as texts.
    pub unkept: u64,
}

/// Changed files and lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LineDelta {
    /// Files that differ.
    pub files: u64,
    /// Lines that came.
    pub added: u64,
    /// Lines that went.
    pub removed: u64,
}

/// What became of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FileChange {
    /// It was not there.
    Added,
    /// It is there no more.
    Removed,
    /// It differs.
    Changed,
}

impl FileChange {
    /// Its word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Added => "added",
            Self::Removed => "removed",
            Self::Changed => "changed",
        }
    }
}

/// A file that differs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FileDelta {
    /// Path within the crate, sanitised.
    pub path: String,
    /// What became of it.
    pub change: FileChange,
    /// It is compiled, run by the build machine, or the manifest.
    pub code: bool,
    /// Lines that came.
    pub added: u64,
    /// Lines that went.
    pub removed: u64,
    /// Why it counts as changed from its first line to its last; empty when it was compared.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub whole: String,
}

/// A version that was compared.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeltaSide {
    /// The version.
    pub version: semver::Version,
    /// sha256 of its `.crate` file.
    pub checksum: Digest,
    /// Features that its facts were gathered with.
    pub features: Vec<String>,
    /// Files of its archive that were not kept as texts, and so not compared.
    pub unkept: u64,
}

/// Everything that differs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CrateDelta {
    /// [`DELTA_REVISION`] of whoever compared.
    pub revision: u32,
    /// The version that was decided about before.
    pub from: DeltaSide,
    /// The version that is asked about.
    pub to: DeltaSide,
    /// What users compile, what the build machine runs, and the manifest.
    pub code: LineDelta,
    /// All other texts.
    pub other: LineDelta,
    /// Files that differ, by path.
    pub files: Vec<FileDelta>,
    /// What the two reports say differently.
    pub facts: FactsDelta,
}

/// The same question about both versions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pair<T> {
    /// What held before.
    pub from: T,
    /// What holds now.
    pub to: T,
}

impl<T: PartialEq> Pair<T> {
    /// Whether the answers differ.
    pub fn differs(&self) -> bool {
        self.from != self.to
    }
}

/// What came and what went of a list.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Moves {
    /// In the new version alone.
    pub came: Vec<String>,
    /// In the old version alone.
    pub went: Vec<String>,
}

impl Moves {
    /// Whether the lists are the same.
    pub fn is_empty(&self) -> bool {
        self.came.is_empty() && self.went.is_empty()
    }
}

/// What two reports say differently.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FactsDelta {
    /// Classes of std that are reached for in another number of places.
    pub touches: Vec<ClassDelta>,
    /// Kinds of hotspots, in what users compile and the build machine runs, whose number differs.
    #[serde(rename = "spots")]
    pub hotspots: Vec<HotspotDelta>,
    /// Items that geiger counts as unsafe; `None` where it could not read every file.
    pub geiger: Pair<Option<u64>>,
    /// The compiler's answer.
    pub compiler: Pair<CompilerCount>,
    /// Shapes of soundness holes.
    pub shapes: Pair<u64>,
    /// It is compiled into the compiler.
    pub proc_macro: Pair<bool>,
    /// A program of its own runs on the build machine.
    pub build_script: Pair<bool>,
    /// The native library that it stands for.
    pub links: Pair<Option<String>>,
    /// The edition of its source.
    pub edition: Pair<Option<String>>,
    /// The licence as written.
    pub licence: Pair<Option<String>>,
    /// Features that it was looked at with.
    pub features: Moves,
    /// Macros for other crates.
    pub macros: Moves,
    /// Files that are no text, by path; what they hold is not compared.
    pub binaries: Moves,
    /// Sources for other compilers, by path.
    pub native_sources: Moves,
    /// Direct dependencies that came.
    pub needs_came: Vec<NeedVersion>,
    /// Direct dependencies that went.
    pub needs_went: Vec<NeedVersion>,
    /// Direct dependencies of which another version is taken.
    pub needs_changed: Vec<NeedChange>,
}

/// A class of interfaces of std.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClassDelta {
    /// The class.
    pub class: ApiClass,
    /// Places.
    pub places: Pair<u64>,
}

/// A kind of hotspots.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HotspotDelta {
    /// The kind.
    pub kind: HotspotKind,
    /// Hotspots.
    pub count: Pair<u64>,
}

/// The compiler's answer about unsafe code as a number, or as none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CompilerCount {
    /// It could not say.
    #[default]
    Unknown,
    /// So many errors; zero is a clean crate.
    Errors(u32),
}

/// A dependency.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NeedVersion {
    /// The package.
    pub name: CrateName,
    /// Its version.
    pub version: semver::Version,
}

/// A dependency of which another version is taken.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NeedChange {
    /// The package.
    pub name: CrateName,
    /// Its versions.
    pub version: Pair<semver::Version>,
    /// The archive differs; with the same version that is what differs.
    pub checksum: Pair<Digest>,
}
