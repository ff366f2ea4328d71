//! Usage, bans, and what nodes are to take.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use mfaas_delivery::Availability;
use mfaas_ident::{Digest, FunctionName, NodeName, TenantName, VersionNumber};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::schema;

/// What calls used, summed up.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct UsageView {
    /// The first hour that is counted.
    pub since: DateTime<Utc>,
    /// Where the hours that are counted end.
    pub until: DateTime<Utc>,
    /// `hour`, `day` (of UTC) or `total`.
    pub by: String,
    /// The newest period first, within it by name.
    pub rows: Vec<UsageRowView>,
    /// Whether there are more rows than one answer holds.
    pub truncated: bool,
}

/// What one version used in one period.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct UsageRowView {
    /// When the period begins; of a total, the first hour in which the version was used.
    pub from: DateTime<Utc>,
    /// Whose it is.
    #[schema(value_type = schema::TenantName)]
    pub tenant: TenantName,
    /// The function.
    #[schema(value_type = schema::FunctionName)]
    pub function: FunctionName,
    /// The version.
    #[schema(value_type = schema::VersionNumber)]
    pub version: VersionNumber,
    /// Calls that reached a worker, however they ended.
    pub calls: u64,
    /// CPU time of the handler, in nanoseconds.
    pub cpu_ns: u64,
    /// Run time of the handler, in nanoseconds.
    pub run_ns: u64,
    /// The longest such time, in nanoseconds.
    pub run_ns_max: u64,
    /// Time from acceptance to the worker, in nanoseconds.
    pub queue_ns: u64,
    /// The most memory that one call had at once, in bytes.
    pub memory_bytes_max: u64,
    /// Calls that did not end well, by reason, for example `panicked` or `over_budget`.
    pub kills: BTreeMap<String, u64>,
}

impl UsageRowView {
    /// The mean run time, in nanoseconds; 0 without a call.
    pub fn run_ns_mean(&self) -> u64 {
        self.run_ns.checked_div(self.calls).unwrap_or(0)
    }

    /// Kills by reason, `-` for none.
    pub fn kills_text(&self) -> String {
        let texts: Vec<_> = self.kills.iter().map(|(reason, kills)| format!("{kills} {reason}")).collect();
        if texts.is_empty() { "-".to_owned() } else { texts.join(", ") }
    }
}

/// A time for people: three digits and the unit that fits.
pub fn duration_text(ns: u64) -> String {
    const UNITS: &[(u64, &str)] = &[
        (3_600_000_000_000, "h"),
        (60_000_000_000, "min"),
        (1_000_000_000, "s"),
        (1_000_000, "ms"),
        (1_000, "µs"),
    ];
    let Some((unit_ns, unit)) = UNITS.iter().find(|(unit_ns, _)| ns >= *unit_ns) else {
        return format!("{ns} ns");
    };
    let number = ns as f64 / *unit_ns as f64;
    let decimals = if number < 10.0 { 2 } else { usize::from(number < 100.0) };
    format!("{number:.decimals$} {unit}")
}

/// An artifact that no node runs because it crashed workers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct BanView {
    /// Its number, with which it is lifted.
    pub id: i64,
    /// Whose it is.
    #[schema(value_type = schema::TenantName)]
    pub tenant: TenantName,
    /// The function.
    #[schema(value_type = schema::FunctionName)]
    pub function: FunctionName,
    /// The version that crashed.
    #[schema(value_type = schema::VersionNumber)]
    pub version: VersionNumber,
    /// The artifact; another version of the same bytes is banned with it.
    #[schema(value_type = schema::Digest)]
    pub digest: Digest,
    /// The node on which it crashed.
    #[schema(value_type = schema::NodeName)]
    pub node: NodeName,
    /// How often its worker crashed there.
    pub crashes: u32,
    /// Since when.
    pub since: DateTime<Utc>,
}

/// Body of the request that says what a node is to take.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SetAvailability {
    /// `active`, `cordoned` (no new versions) or `draining` (no new calls either).
    pub availability: Availability,
}

/// Nodes that may join with one token, at most.
pub const JOIN_TOKEN_USES_MAX: u32 = 1_000;

/// Hours for which a join token is good, at most: thirty days.
pub const JOIN_TOKEN_HOURS_MAX: u32 = 720;

/// Body of the request that makes a join token.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CreateJoinToken {
    /// How many nodes may join with it; one when absent.
    #[serde(default = "one_use")]
    #[schema(minimum = 1, maximum = 1_000)]
    pub uses: u32,
    /// For how many hours; a day when absent.
    #[serde(default = "one_day")]
    #[schema(minimum = 1, maximum = 720)]
    pub hours: u32,
    /// The only name that it lets join, also in the place of a node that has it. Any name that no node has when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<schema::NodeName>)]
    pub node: Option<NodeName>,
}

fn one_use() -> u32 {
    1
}

fn one_day() -> u32 {
    24
}

/// A join token, without what it is shown by.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct JoinTokenView {
    /// What it is revoked by.
    pub id: String,
    /// The only name that it lets join; any that no node has when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<schema::NodeName>)]
    pub node: Option<NodeName>,
    /// How many nodes may join with it.
    pub uses: u32,
    /// How many more may.
    pub uses_left: u32,
    /// Who made it, as the audit log names them; empty if a server of release 0.2 did.
    pub created_by: String,
    /// When it was made.
    pub created_at: DateTime<Utc>,
    /// When it stops working, or stopped because it was revoked.
    pub expires_at: DateTime<Utc>,
    /// When it was revoked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revoked_at: Option<DateTime<Utc>>,
}

/// A new join token. This answer is the only place where it ever appears.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct JoinTokenCreated {
    /// What it is revoked by.
    #[serde(default)]
    pub id: String,
    /// The token, for `mfaas-node join --token-file`.
    pub token: String,
    /// How many nodes may join with it.
    pub uses: u32,
    /// When it stops working.
    pub expires_at: DateTime<Utc>,
    /// The only name that it lets join; any that no node has when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<schema::NodeName>)]
    pub node: Option<NodeName>,
}
