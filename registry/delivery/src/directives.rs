//! What the server wants of one node beside the serving set, and the bans that nodes report.
//!
//! Directives are not signed and need not be: they can only take away. Whoever forges them makes a node refuse what it
//! serves, which a server that signs nothing can do as well; nothing is ever loaded because of them.

use chrono::{DateTime, Utc};
use mfaas_ident::{Digest, FunctionName, TenantName, VersionNumber};
use serde::{Deserialize, Serialize};
use strum::IntoStaticStr;

use crate::message::{MessageError, bound, check_protocol};

/// Bans in one message to a node.
pub const DIRECTIVES_BANS_MAX: usize = 20_000;

/// The desired state of one node beside the serving set. A node is given it whole, never in steps.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Directives {
    /// [`crate::SERVER_PROTOCOL`].
    pub protocol: u32,
    /// What the node takes.
    pub availability: Availability,
    /// Artifacts that must not run, at most [`DIRECTIVES_BANS_MAX`].
    pub bans: Vec<Ban>,
}

/// What an operator wants a node to take.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize, IntoStaticStr)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum Availability {
    /// Everything.
    #[default]
    Active,
    /// Calls of what it serves; no versions that it does not have yet.
    Cordoned,
    /// Neither; what it accepted is still answered.
    Draining,
}

impl Availability {
    /// Every one of them.
    pub const ALL: [Self; 3] = [Self::Active, Self::Cordoned, Self::Draining];

    /// The word on the wire and in the database.
    pub fn as_str(self) -> &'static str {
        self.into()
    }

    /// The availability of that word.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|availability| availability.as_str() == text)
    }
}

impl std::fmt::Display for Availability {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// How far a node has followed its directives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize, IntoStaticStr)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum Condition {
    /// It takes calls and versions. What a node of the release before says by not saying it.
    #[default]
    Active,
    /// It takes calls and no new versions.
    Cordoned,
    /// It takes neither, and some accepted call is not answered yet.
    Draining,
    /// It takes neither and has answered every call.
    Drained,
}

impl Condition {
    /// The word on the wire.
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

/// An artifact that must not run on any node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ban {
    /// Owner.
    pub tenant: TenantName,
    /// Function.
    pub function: FunctionName,
    /// The version that crashed. Another version of the same bytes is banned with it.
    pub version: VersionNumber,
    /// Artifact.
    pub digest: Digest,
    /// Crashes that led to it.
    pub crashes: u32,
    /// Since when.
    pub since: DateTime<Utc>,
}

/// A node banned an artifact.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BanNotice {
    /// [`crate::NODE_PROTOCOL`].
    pub protocol: u32,
    /// Made by the node for this ban; reporting it again changes nothing, also after the ban was lifted.
    #[serde(rename = "told")]
    pub notice_id: uuid::Uuid,
    /// What is banned, and since when by the node's clock.
    pub ban: Ban,
}

/// What a server makes of a [`BanNotice`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BanAnswer {
    /// [`crate::SERVER_PROTOCOL`].
    pub protocol: u32,
    /// Whether the ban is the server's from now on: it holds while directives name it. If not, it holds on the node that
    /// reported it, until that node starts again.
    pub everywhere: bool,
}

impl Directives {
    /// Checks protocol number and limits.
    pub fn check(&self) -> Result<(), MessageError> {
        check_protocol(self.protocol)?;
        bound("bans", self.bans.len(), DIRECTIVES_BANS_MAX)
    }
}

impl BanNotice {
    /// Checks protocol number and that there was a reason.
    pub fn check(&self) -> Result<(), MessageError> {
        check_protocol(self.protocol)?;
        match self.ban.crashes {
            0 => Err(MessageError::Contradiction { what: "a ban without a crash" }),
            _ => Ok(()),
        }
    }
}
