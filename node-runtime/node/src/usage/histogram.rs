//! Counts of one function as `/metrics` shows them.

use mfaas_delivery::{Kill, RUN_BUCKETS, RUN_EDGES_NS};
use mfaas_ident::{FunctionName, TenantName};

/// The labels of [`RUN_EDGES_NS`] in seconds.
pub(super) const EDGE_LABELS: [&str; RUN_EDGES_NS.len()] = [
    "0.000001", "0.000002", "0.000005", "0.00001", "0.00002", "0.00005", "0.0001", "0.0002", "0.0005",
    "0.001", "0.002", "0.005", "0.01", "0.02", "0.05", "0.1", "0.5", "1", "5", "10",
];

/// One function as `/metrics` shows it.
#[derive(Debug, Clone, Default)]
pub(super) struct Shown {
    /// `None` for all the others together.
    pub(super) name: Option<(TenantName, FunctionName)>,
    pub(super) run: Histogram,
    pub(super) queue: Histogram,
    pub(super) cpu_ns: u64,
    pub(super) memory_bytes_max: u64,
    pub(super) kills: [u64; Kill::ALL.len()],
}

/// Counts by bucket; the last one has no upper bound.
#[derive(Debug, Clone, Default)]
pub(super) struct Histogram {
    pub(super) counts: [u64; RUN_BUCKETS],
    pub(super) sum_ns: u64,
}

impl Histogram {
    /// So many that took as long.
    pub(super) fn add(&mut self, ns: u64, count: u64) {
        self.counts[bucket(ns)] += count;
        self.sum_ns = self.sum_ns.saturating_add(ns.saturating_mul(count));
    }
}

/// Where a time is counted.
pub(super) fn bucket(ns: u64) -> usize {
    RUN_EDGES_NS.partition_point(|edge_ns| *edge_ns < ns)
}

/// Reasons that were seen.
pub(super) fn by_reason(kills: &[u64; Kill::ALL.len()]) -> impl Iterator<Item = (Kill, u64)> + '_ {
    Kill::ALL.into_iter().zip(kills.iter().copied()).filter(|(_, kills)| *kills > 0)
}
