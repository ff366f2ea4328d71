//! What calls cost, as a node tells it: totals since its start, so that a lost report loses nothing.
//!
//! A total is monotonic within one start of a node ([`UsageReport::boot`]); the server charges the difference to the
//! total before. High-waters are those since the last report that was taken, so that each belongs to its hour.

use std::collections::BTreeMap;

use mfaas_ident::{FunctionName, TenantName, VersionNumber};
use serde::{Deserialize, Serialize};
use strum::IntoStaticStr;

use crate::message::{MessageError, bound, check_protocol};

/// Rows in one report; a node with more sends several.
pub const USAGE_ROWS_MAX: usize = 5_000;
/// The largest number in a row: 146 years of one core in nanoseconds. A larger one is no count of anything that a
/// node does.
pub const USAGE_NUMBER_MAX: u64 = 1 << 62;
/// Upper edges of the buckets of run times, in nanoseconds: 1 µs to 10 s. Those of `/metrics`, and those that charts are
/// drawn with. A bucket holds what is above the edge before and at most at its own; one more holds what is above all.
pub const RUN_EDGES_NS: [u64; 20] = [
    1_000,
    2_000,
    5_000,
    10_000,
    20_000,
    50_000,
    100_000,
    200_000,
    500_000,
    1_000_000,
    2_000_000,
    5_000_000,
    10_000_000,
    20_000_000,
    50_000_000,
    100_000_000,
    500_000_000,
    1_000_000_000,
    5_000_000_000,
    10_000_000_000,
];
/// Buckets of run times.
pub const RUN_BUCKETS: usize = RUN_EDGES_NS.len() + 1;

/// Totals of the versions that changed since the last report that was taken.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UsageReport {
    /// [`crate::NODE_PROTOCOL`].
    pub protocol: u32,
    /// One start of the node process.
    pub boot: uuid::Uuid,
    /// Counts the reports of this boot from 1; one that is not above the last taken is a repetition.
    pub sequence: u64,
    /// The totals, at most [`USAGE_ROWS_MAX`], each version once.
    pub rows: Vec<UsageRow>,
}

/// What one version used since the node started.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UsageRow {
    /// Owner.
    pub tenant: TenantName,
    /// Function.
    pub function: FunctionName,
    /// Version.
    pub version: VersionNumber,
    /// Calls that reached a worker, however they ended.
    pub calls: u64,
    /// CPU time of the handler, in nanoseconds; at most `run_ns`.
    pub cpu_ns: u64,
    /// Run time of the handler, in nanoseconds.
    pub run_ns: u64,
    /// Time from acceptance to the worker, in nanoseconds.
    pub queue_ns: u64,
    /// The longest run since the last report that was taken, in nanoseconds.
    pub run_ns_max: u64,
    /// The most arena bytes at once since the last report that was taken.
    pub memory_bytes_max: u64,
    /// Calls that did not end well, by reason; together at most `calls`.
    pub kills: BTreeMap<Kill, u64>,
    /// Calls by run time, one number a bucket of [`RUN_EDGES_NS`]; zeros at the end may be left out. Empty from a node of the
    /// release before, and to a server that has not taken a [`crate::LoadReport`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub runs: Vec<u64>,
}

/// Why a call did not end well.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, IntoStaticStr)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum Kill {
    /// It panicked.
    Panicked,
    /// Its CPU time ran past the budget.
    OverBudget,
    /// Its stack ran into the guard.
    StackOverflow,
    /// Its arena was used up.
    OutOfMemory,
    /// It reached for something that it is not offered.
    Denied,
    /// A wild access, an illegal instruction or an arithmetic trap.
    Fault,
    /// It aborted itself.
    Aborted,
    /// What it answered is no answer.
    BadOutput,
    /// Its worker died with it.
    Lost,
    /// It was still running at the wall backstop.
    Overdue,
}

impl Kill {
    /// Every reason, in the order in which they are stored.
    pub const ALL: [Self; 10] = [
        Self::Panicked,
        Self::OverBudget,
        Self::StackOverflow,
        Self::OutOfMemory,
        Self::Denied,
        Self::Fault,
        Self::Aborted,
        Self::BadOutput,
        Self::Lost,
        Self::Overdue,
    ];

    /// The word on the wire, in the database and in metrics.
    pub fn as_str(self) -> &'static str {
        self.into()
    }

    /// The reason of that word.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kill| kill.as_str() == text)
    }
}

impl UsageReport {
    /// Checks protocol number, limits, and that no number contradicts another.
    pub fn check(&self) -> Result<(), MessageError> {
        check_protocol(self.protocol)?;
        bound("rows", self.rows.len(), USAGE_ROWS_MAX)?;
        self.rows.iter().try_for_each(UsageRow::check)?;
        let mut names: Vec<_> = self.rows.iter().map(UsageRow::name).collect();
        names.sort_unstable();
        let rows = names.len();
        names.dedup();
        if names.len() == rows { Ok(()) } else { Err(MessageError::Contradiction { what: "rows" }) }
    }
}

impl UsageRow {
    /// Whose row it is.
    pub fn name(&self) -> (&TenantName, &FunctionName, VersionNumber) {
        (&self.tenant, &self.function, self.version)
    }

    fn check(&self) -> Result<(), MessageError> {
        let Self { calls, cpu_ns, run_ns, queue_ns, run_ns_max, memory_bytes_max, kills, runs, .. } = self;
        bound("buckets of a row", runs.len(), RUN_BUCKETS)?;
        let numbers = [calls, cpu_ns, run_ns, queue_ns, run_ns_max, memory_bytes_max];
        if numbers.into_iter().chain(kills.values()).chain(runs).any(|number| *number > USAGE_NUMBER_MAX) {
            return Err(MessageError::TooLarge { what: "a number of a row" });
        }
        let sum =
            |numbers: &mut dyn Iterator<Item = &u64>| numbers.fold(0, |sum: u64, n| sum.saturating_add(*n));
        if sum(&mut kills.values()) > *calls || sum(&mut runs.iter()) > *calls || cpu_ns > run_ns {
            return Err(MessageError::Contradiction { what: "the numbers of a row" });
        }
        Ok(())
    }
}
