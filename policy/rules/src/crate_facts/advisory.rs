//! What the world has found out about crate versions: advisories of the RustSec kind.
//!
//! Read when somebody judges and never stored with a report. A file that could not be read is not an
//! advisory that does not exist: [`AdvisorySet`] keeps what is missing.

use mfaas_ident::CrateName;
use semver::VersionReq;
use serde::{Deserialize, Serialize};

/// One advisory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Advisory {
    /// For example `RUSTSEC-2021-0001`.
    pub id: String,
    /// The crate.
    pub package: CrateName,
    /// What it is about.
    pub kind: AdvisoryKind,
    /// Its headline, sanitised.
    pub title: String,
    /// Versions in which it is fixed. None: in no version.
    pub patched: Vec<VersionReq>,
    /// Versions that never had it.
    pub unaffected: Vec<VersionReq>,
    /// Withdrawn: it matches nothing.
    pub withdrawn: bool,
    /// Where to read more, sanitised.
    pub url: Option<String>,
}

/// What an advisory is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AdvisoryKind {
    /// The crate was published to do harm.
    Malicious,
    /// Safe code that uses it can reach undefined behaviour.
    Unsound,
    /// It can be attacked.
    Vulnerability,
    /// Nobody looks after it.
    Unmaintained,
    /// Something else to know.
    Notice,
}

/// All advisories that are known at one moment. It has no default: a set that nobody read would look
/// like a world without advisories.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AdvisorySet {
    /// Those that could be read.
    pub advisories: Vec<Advisory>,
    /// Those that could not.
    pub unread: Vec<UnreadAdvisory>,
}

impl AdvisorySet {
    /// Where there are no advisories to read: nothing is admitted by itself then.
    pub fn missing(reason: &str) -> Self {
        let reason = mfaas_ident::sanitise_line(reason, 300);
        Self { advisories: Vec::new(), unread: vec![UnreadAdvisory { package: None, reason }] }
    }
}

/// An advisory that could not be read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UnreadAdvisory {
    /// The crate that it is about, if its place says so; `None` may be about any.
    pub package: Option<CrateName>,
    /// The file and why, sanitised.
    pub reason: String,
}
