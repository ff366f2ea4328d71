//! What a node and the server say to each other over the mTLS listener.
//!
//! Every message names its protocol number; an unknown number is refused. The number of the release before is still
//! taken, since nodes are updated after their server. Everything that a node
//! sends is checked against the limits here before it is used ([`Report::check`],
//! [`LogBatch::check`]): a taken-over node must not fill the database.

use chrono::{DateTime, Utc};
use mfaas_ident::{Digest, Epoch, FunctionName, NodeName, TenantName, VersionNumber};
use mfaas_rules::Code;
use serde::{Deserialize, Serialize};
use strum::IntoStaticStr;

use crate::directives::Condition;
use crate::message::{MessageError, bound, check_protocol};

/// Rows in one report of protocol 2 or before.
const REPORT_ROWS_MAX: usize = 100_000;
/// Versions in one report that are not loaded.
pub const REPORT_REFUSED_MAX: usize = 1_000;
/// Problems in one report.
pub const REPORT_PROBLEMS_MAX: usize = 16;
/// Lines in one batch.
pub const LOG_LINES_MAX: usize = 1_000;
/// Bytes of one log line.
pub const LOG_LINE_BYTES_MAX: usize = 4_096;
/// Bytes of a name, an address or a message in a report.
const TEXT_BYTES_MAX: usize = 500;

/// The largest certificate request, in bytes.
const CSR_BYTES_MAX: usize = 16 << 10;

/// Asks for a certificate. The only message without a client certificate.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JoinRequest {
    /// [`crate::NODE_PROTOCOL`].
    pub protocol: u32,
    /// The name that it wants.
    pub name: NodeName,
    /// The join token.
    pub token: String,
    /// PKCS#10 certificate request in PEM; its subject is ignored, the name above counts.
    pub csr_pem: String,
}

/// Hand-written so that the token never reaches a log.
impl std::fmt::Debug for JoinRequest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("JoinRequest")
            .field("protocol", &self.protocol)
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

/// Asks for another certificate, by the one that the node has.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RenewalRequest {
    /// [`crate::NODE_PROTOCOL`].
    pub protocol: u32,
    /// PKCS#10 certificate request in PEM; its subject is ignored, the name of the node that asks counts.
    pub csr_pem: String,
}

/// The node's certificate.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JoinResponse {
    /// [`crate::SERVER_PROTOCOL`].
    pub protocol: u32,
    /// The certificate in PEM.
    pub certificate_pem: String,
    /// The private CA in PEM.
    pub ca_pem: String,
}

/// Which set is in force on a node, and what of it is not. Sent after every change and every 10 s.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Report {
    /// [`crate::NODE_PROTOCOL`].
    pub protocol: u32,
    /// One start of the node process.
    pub boot: uuid::Uuid,
    /// Counts the reports of this boot; older ones are dropped.
    pub sequence: u64,
    /// The epoch whose set is in force; 0 before the first.
    pub epoch: Epoch,
    /// The digest of that set's envelope.
    #[serde(default)]
    pub set_digest: Option<Digest>,
    /// How the node stands to its set.
    pub set: SetState,
    /// Where invocations go, for example `http://127.0.0.1:7800`.
    pub ingress_url: String,
    /// How far the node has followed its directives.
    #[serde(default)]
    pub condition: Condition,
    /// Live workers.
    pub workers: u32,
    /// How workers are held, for example `full`.
    #[serde(rename = "cage_level")]
    pub protection: String,
    /// Functions of the set that the node follows. While it comes to it, `epoch` is still the one before.
    #[serde(default)]
    pub functions: u32,
    /// How many versions answer now.
    #[serde(default)]
    pub versions: u32,
    /// The versions that answer now, from a node of the release before.
    #[serde(default)]
    pub loaded: Vec<LoadedVersion>,
    /// Versions of the set that the node has not loaded, at most [`REPORT_REFUSED_MAX`].
    pub refused: Vec<RefusedVersion>,
    /// How many there are, listed or not.
    #[serde(default)]
    pub refused_total: u32,
    /// How many of them are banned, or named by an alias. They come first in the list.
    #[serde(default)]
    pub refused_first: Option<u32>,
    /// What is wrong with the set as a whole, or with the node; at most [`REPORT_PROBLEMS_MAX`].
    pub problems: Vec<NodeProblem>,
}

/// How a node stands to the serving set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SetState {
    /// None received yet.
    #[default]
    None,
    /// Loaded and valid.
    Current,
    /// Serving what it has; loads nothing new until a valid set arrives.
    Expired,
}

/// One version that answers, as a node of the release before lists it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LoadedVersion {
    /// Owner.
    pub tenant: TenantName,
    /// Function.
    pub function: FunctionName,
    /// Version.
    pub version: VersionNumber,
    /// Artifact.
    pub digest: Digest,
}

/// One version that was refused on the node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RefusedVersion {
    /// Owner.
    pub tenant: TenantName,
    /// Function.
    pub function: FunctionName,
    /// Version.
    pub version: VersionNumber,
    /// Artifact.
    pub digest: Digest,
    /// Why, MF07xx or what the inspection found.
    pub code: Code,
    /// One sentence.
    pub message: String,
}

/// Something wrong with a whole document (another key, an older epoch, expired) or with the node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NodeProblem {
    /// MF07xx.
    pub code: Code,
    /// One sentence.
    pub message: String,
}

/// Log lines of functions, oldest first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LogBatch {
    /// [`crate::NODE_PROTOCOL`].
    pub protocol: u32,
    /// One start of the node process.
    pub boot: uuid::Uuid,
    /// Number of the first line since this boot; a repeated batch is stored once.
    pub first: u64,
    /// Lines the node had to drop since the last batch.
    pub dropped: u64,
    /// The lines.
    pub lines: Vec<LogLine>,
}

/// One line that a function logged, or that the node logged about it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LogLine {
    /// When, by the node's clock.
    pub at: DateTime<Utc>,
    /// Owner.
    pub tenant: TenantName,
    /// Function.
    pub function: FunctionName,
    /// Version.
    pub version: VersionNumber,
    /// How loud.
    pub level: LogLevel,
    /// The text, hostile until sanitised for whoever reads it.
    pub text: String,
}

/// How loud a line is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, IntoStaticStr)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum LogLevel {
    /// Chatter.
    Debug,
    /// Normal.
    Info,
    /// Odd.
    Warn,
    /// Wrong; panics and kills are written at this level.
    Error,
}

impl LogLevel {
    /// The word on the wire and in the database.
    pub fn as_str(self) -> &'static str {
        self.into()
    }

    /// The level of that word.
    pub fn parse(text: &str) -> Option<Self> {
        [Self::Debug, Self::Info, Self::Warn, Self::Error].into_iter().find(|level| level.as_str() == text)
    }
}

impl Report {
    /// How many versions answer.
    pub fn versions(&self) -> u32 {
        self.versions.max(u32::try_from(self.loaded.len()).unwrap_or(u32::MAX))
    }

    /// Whether every version that is not loaded is listed.
    pub fn lists_all_refused(&self) -> bool {
        self.refused.len() as u64 >= u64::from(self.refused_total)
    }

    /// Whether every version that an alias names and that is not loaded is listed.
    pub fn lists_what_aliases_name(&self) -> bool {
        self.lists_all_refused()
            || self.refused_first.is_some_and(|first| self.refused.len() as u64 >= u64::from(first))
    }

    /// Checks protocol number and limits.
    pub fn check(&self) -> Result<(), MessageError> {
        check_protocol(self.protocol)?;
        let rows_max = if self.protocol < 3 { REPORT_ROWS_MAX } else { REPORT_REFUSED_MAX };
        bound("rows", self.loaded.len() + self.refused.len(), rows_max)?;
        bound("ingress_url", self.ingress_url.len(), TEXT_BYTES_MAX)?;
        bound("cage_level", self.protection.len(), TEXT_BYTES_MAX)?;
        bound("problems", self.problems.len(), REPORT_PROBLEMS_MAX)?;
        let problems = self.problems.iter().map(|problem| &problem.message);
        let messages = self.refused.iter().map(|refused| &refused.message).chain(problems);
        messages.into_iter().try_for_each(|message| bound("message", message.len(), TEXT_BYTES_MAX))
    }
}

impl LogBatch {
    /// Checks protocol number and limits.
    pub fn check(&self) -> Result<(), MessageError> {
        check_protocol(self.protocol)?;
        bound("lines", self.lines.len(), LOG_LINES_MAX)?;
        self.lines.iter().try_for_each(|line| bound("text", line.text.len(), LOG_LINE_BYTES_MAX))
    }
}

impl JoinRequest {
    /// Checks protocol number and limits.
    pub fn check(&self) -> Result<(), MessageError> {
        check_protocol(self.protocol)?;
        bound("token", self.token.len(), TEXT_BYTES_MAX)?;
        bound("csr_pem", self.csr_pem.len(), CSR_BYTES_MAX)
    }
}

impl RenewalRequest {
    /// Checks protocol number and limits.
    pub fn check(&self) -> Result<(), MessageError> {
        check_protocol(self.protocol)?;
        bound("csr_pem", self.csr_pem.len(), CSR_BYTES_MAX)
    }
}
