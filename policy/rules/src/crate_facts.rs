//! What can be said about the source of a dependency, for the reviewer who decides about it.
//!
//! Facts and one summary; no verdict. Nothing here admits or refuses a crate: a person does, and
//! these are the hotspots to look at. The summary says `none` only when two readers that know nothing
//! of each other found nothing and left nothing unread.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

mod advisory;
mod delta;
mod imported;
mod report;
mod trial;

pub use advisory::{Advisory, AdvisoryKind, AdvisorySet, UnreadAdvisory};
pub use delta::{
    ClassDelta, CompilerCount, CrateDelta, DELTA_REVISION, DeltaSide, FactsDelta, FileChange, FileDelta,
    HotspotDelta, LineDelta, Moves, NeedChange, NeedVersion, Pair, Volume, Volumes,
};
pub use imported::{AuditKind, AuditSet, ImportedAudit};
pub use report::{
    ApiClass, ApiHotspot, ApiTouch, ArchiveFacts, BinaryFile, BinaryKind, CompilerHotspot, CompilerVerdict,
    CrateReport, FACTS_REVISION, KindFacts, LicenceFacts, Need, Published, ShapeHotspot, ShapeReport,
    TouchReport,
};
pub use trial::TrialBuild;

use crate::Span;

/// Everything about one crate's directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CrateFacts {
    /// `name version` of Cargo.toml, sanitised; `None` without a readable one.
    pub package: Option<String>,
    /// Every file that was read, by path.
    pub files: Vec<FileFacts>,
    /// Macros for other crates.
    pub exported_macros: Vec<ExportedMacro>,
    /// It is compiled into the compiler and writes code when it runs.
    pub proc_macro: bool,
    /// A program of its own runs on the build machine before it is compiled.
    pub build_script: bool,
    /// What was not read, and why; sentences.
    pub unread: Vec<String>,
    /// The short answer.
    pub summary: Summary,
}

/// One file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileFacts {
    /// Path within the crate, sanitised.
    pub path: String,
    /// What it is for.
    pub role: Role,
    /// Size in bytes.
    pub bytes: u64,
    /// What geiger counted.
    pub geiger: GeigerReport,
    /// What the token scan found.
    pub tokens: TokenReport,
}

/// What a file of a crate is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Becomes part of whatever uses the crate.
    Library,
    /// Runs on the build machine.
    BuildScript,
    /// Tests, benches and examples that nothing of the library takes in: not compiled for users.
    Aside,
}

/// geiger's answer about one file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GeigerReport {
    /// It parsed the file.
    Counted {
        /// By kind.
        counts: GeigerCounts,
        /// The file begins with `#![forbid(unsafe_code)]`.
        forbids_unsafe: bool,
    },
    /// It did not: the file may hold any amount of unsafe code.
    Unknown {
        /// Why, sanitised.
        reason: String,
    },
}

/// Safe and unsafe items of each kind, as geiger sees them: no macro bodies, no attributes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct GeigerCounts {
    /// Free functions.
    pub functions: Count,
    /// Expressions.
    pub exprs: Count,
    /// `impl` blocks.
    pub impls: Count,
    /// Traits.
    pub traits: Count,
    /// Methods.
    pub methods: Count,
}

/// One kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Count {
    /// Outside of `unsafe`.
    pub safe: u64,
    /// Inside.
    #[serde(rename = "unsafe")]
    pub unsafe_: u64,
}

impl GeigerCounts {
    /// All kinds.
    pub fn unsafe_total(&self) -> u64 {
        [self.functions, self.exprs, self.impls, self.traits, self.methods]
            .iter()
            .fold(0, |sum, count| sum.saturating_add(count.unsafe_))
    }

    /// Adds another file's.
    pub fn add(&mut self, other: &Self) {
        for (sum, more) in [
            (&mut self.functions, other.functions),
            (&mut self.exprs, other.exprs),
            (&mut self.impls, other.impls),
            (&mut self.traits, other.traits),
            (&mut self.methods, other.methods),
        ] {
            sum.safe = sum.safe.saturating_add(more.safe);
            sum.unsafe_ = sum.unsafe_.saturating_add(more.unsafe_);
        }
    }
}

/// What the token scan found in one file.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct TokenReport {
    /// Tokens, white space and comments not counted.
    pub tokens: usize,
    /// All hotspots by kind, those past the bound included.
    pub counts: BTreeMap<HotspotKind, usize>,
    /// The first hotspots. Stored facts, judgements and deltas keep the field's first name.
    #[serde(rename = "spots")]
    pub hotspots: Vec<Hotspot>,
}

/// A place to look at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hotspot {
    /// What kind.
    pub kind: HotspotKind,
    /// What stands there, in a few words, sanitised.
    pub what: String,
    /// The macro whose body or arguments it stands in, for example `macro_rules! get` or `quote!`.
    /// geiger sees nothing there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inside: Option<String>,
    /// Where.
    pub span: Span,
}

/// Kinds of hotspots.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HotspotKind {
    /// The keyword `unsafe`.
    Unsafe,
    /// `#[unsafe(…)]`.
    UnsafeAttribute,
    /// An attribute about symbols, sections or libraries.
    Linkage,
    /// `extern { … }`, with or without an ABI.
    ExternBlock,
    /// `static mut`.
    StaticMut,
    /// `asm!` and its family, `#[naked]`, `#[target_feature]`.
    MachineCode,
    /// `include!`: another file's tokens.
    Include,
    /// `#[path = …]`: another file's module.
    ModulePath,
    /// `include_str!`, `env!` and their kin: data of the build machine.
    BuildInput,
    /// `OUT_DIR`: what the build script wrote.
    OutDir,
    /// `quote!` and its kin: code that is written for another crate.
    Quote,
    /// The word `unsafe` in a literal: how code is written that is generated from text.
    WordInLiteral,
    /// A control, bidirectional or otherwise invisible character.
    Invisible,
    /// Not Rust as our lexer reads it.
    Unreadable,
}

impl HotspotKind {
    /// Whether it hands out power over memory, symbols or instructions.
    pub fn is_power(self) -> bool {
        match self {
            Self::Unsafe
            | Self::UnsafeAttribute
            | Self::Linkage
            | Self::ExternBlock
            | Self::StaticMut
            | Self::MachineCode => true,
            Self::Include
            | Self::ModulePath
            | Self::BuildInput
            | Self::OutDir
            | Self::Quote
            | Self::WordInLiteral
            | Self::Invisible
            | Self::Unreadable => false,
        }
    }
}

impl TokenReport {
    /// Hotspots of power.
    pub fn power(&self) -> usize {
        self.counts.iter().filter(|(kind, _)| kind.is_power()).map(|(_, count)| count).sum()
    }
}

/// A `#[macro_export]` macro: its body becomes part of other crates, where `-F unsafe-code` does not
/// see it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExportedMacro {
    /// Its name.
    pub name: String,
    /// Kinds of power in its body.
    pub powers: Vec<HotspotKind>,
    /// It puts attributes of its caller on items: `#[$meta]`.
    pub passes_attributes: bool,
    /// It puts tokens of its caller inside of `unsafe`: `unsafe { $expr }`.
    pub wraps_caller: bool,
    /// Where it is defined.
    pub span: Span,
}

/// The short answer about unsafe code in what users of a crate compile.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Summary {
    /// `none`, `counted` or `unknown`.
    #[serde(rename = "unsafe")]
    pub unsafe_code: UnsafeCode,
    /// Why it is unknown; sentences.
    pub reasons: Vec<String>,
    /// geiger's counts over the files that it could parse.
    pub geiger: GeigerCounts,
    /// Hotspots of power that the token scan found.
    #[serde(rename = "token_spots")]
    pub token_hotspots: usize,
}

/// Whether a crate has unsafe code. `Unknown` is what a missing answer means.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UnsafeCode {
    /// Both readers understood every file and found nothing.
    None,
    /// Some, and every file was understood.
    Counted,
    /// Something was not read or not understood.
    #[default]
    Unknown,
}

/// Sums the facts up. Only what users of the crate compile counts, which files [`Role::Aside`] are
/// not.
pub fn summarise(files: &[FileFacts], unread: &[String], proc_macro: bool, build_script: bool) -> Summary {
    let mut summary = Summary { reasons: unread.to_vec(), ..Summary::default() };
    for file in files.iter().filter(|file| file.role != Role::Aside) {
        match &file.geiger {
            GeigerReport::Counted { counts, .. } => summary.geiger.add(counts),
            GeigerReport::Unknown { reason } => {
                summary.reasons.push(format!("{}: geiger: {reason}", file.path));
            }
        }
        if file.tokens.counts.contains_key(&HotspotKind::Unreadable) {
            summary.reasons.push(format!("{}: the token scan could not read all of it", file.path));
        }
        summary.token_hotspots += file.tokens.power();
    }
    if proc_macro {
        let reason = "a procedural macro writes code when it runs: what it writes stands in no file";
        summary.reasons.push(reason.to_owned());
    }
    if !files.iter().any(|file| file.role == Role::Library) {
        summary.reasons.push("no source file of a library was found".to_owned());
    }
    let found = summary.geiger.unsafe_total() > 0 || summary.token_hotspots > 0;
    if summary.reasons.is_empty() && !found && build_script {
        // A build script chooses what is linked and which `cfg`s hold; nothing found is not nothing.
        let reason = "its build script runs on the build machine and may link what is in no file";
        summary.reasons.push(reason.to_owned());
    }
    summary.unsafe_code = match (summary.reasons.is_empty(), found) {
        (false, _) => UnsafeCode::Unknown,
        (true, true) => UnsafeCode::Counted,
        (true, false) => UnsafeCode::None,
    };
    summary
}

#[cfg(test)]
mod tests;
