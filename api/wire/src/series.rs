//! What charts are drawn from: functions, tenants, nodes and builds over time.
//!
//! The points of an answer are steps of one length, one behind the other, each with when it begins; lists of numbers have
//! one for each point. `null` is a step of which nothing is known, which is not the same as nothing.

use chrono::{DateTime, Utc};
use mfaas_ident::{FunctionName, NodeName, TenantName, VersionNumber};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::schema;

/// The steps of an answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SeriesSteps {
    /// The beginning of the first.
    pub since: DateTime<Utc>,
    /// Where the last ends, or now.
    pub until: DateTime<Utc>,
    /// How long each is, in seconds: 60, 900 or 21600.
    pub step_s: u32,
}

/// Between which edges a share of the times lies: a quantile is known as far as its bucket is narrow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct QuantileView {
    /// It is longer than this.
    pub above: u64,
    /// And at most this long; `null` above the last edge.
    pub up_to: Option<u64>,
}

/// A function over time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct FunctionSeriesView {
    /// Whose it is.
    #[schema(value_type = schema::TenantName)]
    pub tenant: TenantName,
    /// The function.
    #[schema(value_type = schema::FunctionName)]
    pub function: FunctionName,
    /// The one version that was asked for.
    #[schema(value_type = Option<schema::VersionNumber>)]
    pub version: Option<VersionNumber>,
    /// The steps.
    #[serde(flatten)]
    pub steps: SeriesSteps,
    /// Upper edges of the buckets of `runs`, in nanoseconds; a last bucket is above them all.
    pub run_edges_ns: Vec<u64>,
    /// Each step.
    pub points: Vec<FunctionPointView>,
    /// The versions with the most calls, at most five.
    pub versions: Vec<VersionSeriesView>,
}

/// A function in one step.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct FunctionPointView {
    /// When it begins.
    pub at: DateTime<Utc>,
    /// How much of it is over, in seconds.
    pub over_s: u32,
    /// Calls that reached a worker; `null` where no node was heard.
    pub calls: Option<u64>,
    /// CPU time of the handler, in nanoseconds; `null` as well.
    pub cpu_ns: Option<u64>,
    /// The most memory that one call had at once, in bytes; `null` without a call.
    pub memory_bytes_max: Option<u64>,
    /// Calls by run time; zeros at the end are left out, and nodes of the release before tell none.
    pub runs: Vec<u64>,
    /// The run time, in nanoseconds, that half of the calls do not pass.
    pub run_ns_p50: Option<QuantileView>,
    /// The one that 99 of 100 do not pass.
    pub run_ns_p99: Option<QuantileView>,
}

/// Calls of one version over time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct VersionSeriesView {
    /// The version.
    #[schema(value_type = schema::VersionNumber)]
    pub version: VersionNumber,
    /// Its calls in each step.
    pub calls: Vec<Option<u64>>,
}

/// What tenants use over time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TenantSeriesView {
    /// The steps.
    #[serde(flatten)]
    pub steps: SeriesSteps,
    /// Each step, of all tenants that were asked for together.
    pub points: Vec<TenantPointView>,
    /// Those with the most CPU time, at most five.
    pub tenants: Vec<OneTenantSeriesView>,
}

/// What is used in one step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TenantPointView {
    /// When it begins.
    pub at: DateTime<Utc>,
    /// How much of it is over, in seconds.
    pub over_s: u32,
    /// Calls that reached a worker; `null` where no node was heard.
    pub calls: Option<u64>,
    /// CPU time of handlers, in nanoseconds; `null` as well.
    pub cpu_ns: Option<u64>,
    /// The most memory that one call had at once, in bytes; `null` without a call.
    pub memory_bytes_max: Option<u64>,
    /// Calls of versions that are in no series of a function: too many were called at once.
    pub calls_left_out: u64,
}

/// One tenant over time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct OneTenantSeriesView {
    /// The tenant.
    #[schema(value_type = schema::TenantName)]
    pub tenant: TenantName,
    /// CPU time of its handlers in each step, in nanoseconds.
    pub cpu_ns: Vec<Option<u64>>,
    /// The most memory that one of its calls had at once, in bytes.
    pub memory_bytes_max: Vec<Option<u64>>,
}

/// Builds over time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct BuildSeriesView {
    /// The steps.
    #[serde(flatten)]
    pub steps: SeriesSteps,
    /// Upper edges of the buckets of `queue_counts` and `build_counts`, in milliseconds; a last bucket is above them all.
    pub edges_ms: Vec<u64>,
    /// Each step.
    pub points: Vec<BuildPointView>,
}

/// Builds that ended in one step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct BuildPointView {
    /// When it begins.
    pub at: DateTime<Utc>,
    /// How much of it is over, in seconds.
    pub over_s: u32,
    /// How many ended, whatever came of them.
    pub builds: u64,
    /// By the time that they were queued; those that were queued again after they had begun are in neither.
    pub queue_counts: Vec<u64>,
    /// By the time from the first builder to the end.
    pub build_counts: Vec<u64>,
    /// Time in the queue, in milliseconds, that half of them do not pass; and so on.
    pub queue_ms_p50: Option<QuantileView>,
    /// 99 of 100.
    pub queue_ms_p99: Option<QuantileView>,
    /// Time with builders.
    pub build_ms_p50: Option<QuantileView>,
    /// 99 of 100.
    pub build_ms_p99: Option<QuantileView>,
}

/// How busy nodes are over time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct NodeSeriesView {
    /// The steps.
    #[serde(flatten)]
    pub steps: SeriesSteps,
    /// When each step begins.
    pub at: Vec<DateTime<Utc>>,
    /// Each node that was heard, by name, at most 200.
    pub nodes: Vec<OneNodeSeriesView>,
    /// Whether there are more nodes than one answer holds.
    pub truncated: bool,
}

/// One node over time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct OneNodeSeriesView {
    /// The node.
    #[schema(value_type = schema::NodeName)]
    pub node: NodeName,
    /// Each step; `null` where it was not heard.
    pub points: Vec<Option<NodePointView>>,
}

/// One node in one step. What is not load is the most of the moments at which it reported, every ten seconds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct NodePointView {
    /// CPU time of handlers, of the time that its cores had: 0 to 1.
    pub load: f64,
    /// Cores that run calls.
    pub cores: u32,
    /// Calls in workers.
    pub running_max: u64,
    /// Calls that waited for a worker.
    pub waiting_max: u64,
    /// Worker processes.
    pub processes_max: u64,
    /// Pools with workers.
    pub pools_max: u64,
    /// Pools with calls.
    pub pools_busy_max: u64,
    /// Functions in memory.
    pub resident_max: u64,
    /// Their images, in bytes.
    pub resident_bytes_max: u64,
}
