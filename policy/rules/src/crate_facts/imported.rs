//! What other people's reviewers wrote down about crate versions, from cargo-vet files.
//!
//! A hint for our reviewer, shown with our trust in its source. None of these criteria asks what we
//! ask (a hostile caller of safe interfaces), so none of them admits anything; a violation refuses.

use mfaas_ident::CrateName;
use semver::{Version, VersionReq};
use serde::{Deserialize, Serialize};

/// All that was imported.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AuditSet {
    /// The entries.
    pub audits: Vec<ImportedAudit>,
    /// Files that could not be read, and why: a violation may stand in them.
    pub unread: Vec<String>,
    /// Entries that were left out because they speak of a revision and not of a published version, or
    /// of a name that no crate can have.
    pub left_out: usize,
}

impl AuditSet {
    /// A file that could not be read.
    pub fn unread(reason: &str) -> Self {
        Self { unread: vec![mfaas_ident::sanitise_line(reason, 300)], ..Self::default() }
    }

    /// Takes another set in.
    pub fn extend(&mut self, other: Self) {
        self.audits.extend(other.audits);
        self.unread.extend(other.unread);
        self.left_out += other.left_out;
    }
}

/// One entry of somebody's audits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ImportedAudit {
    /// Whose, for example `mozilla`.
    pub source: String,
    /// The crate.
    pub package: CrateName,
    /// What was looked at.
    pub kind: AuditKind,
    /// Criteria in their words, with all that their table says they imply, sanitised and sorted.
    pub criteria: Vec<String>,
    /// Who, sanitised.
    pub who: Vec<String>,
    /// Their words, sanitised.
    pub notes: Option<String>,
}

/// What was looked at. A revision behind a version (`1.0.0@git:…`) is another source than the
/// published one, so the readers leave such entries out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum AuditKind {
    /// A whole version.
    Full {
        /// Which.
        version: Version,
    },
    /// What changed between two versions.
    Delta {
        /// From this one, whose audit it presumes.
        from: Version,
        /// To this one.
        to: Version,
    },
    /// These versions break the criteria.
    Violation {
        /// Which.
        versions: VersionReq,
    },
}
