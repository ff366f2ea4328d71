//! Counts of one function as `/metrics` shows them.

use mfaas_delivery::Kill;
use mfaas_ident::{FunctionName, TenantName};

/// Upper bounds of the histograms' buckets in nanoseconds, with the label of each in seconds: 1 µs to 10 s.
pub(super) const BUCKETS: [(u64, &str); 20] = [
    (1_000, "0.000001"),
    (2_000, "0.000002"),
    (5_000, "0.000005"),
    (10_000, "0.00001"),
    (20_000, "0.00002"),
    (50_000, "0.00005"),
    (100_000, "0.0001"),
    (200_000, "0.0002"),
    (500_000, "0.0005"),
    (1_000_000, "0.001"),
    (2_000_000, "0.002"),
    (5_000_000, "0.005"),
    (10_000_000, "0.01"),
    (20_000_000, "0.02"),
    (50_000_000, "0.05"),
    (100_000_000, "0.1"),
    (500_000_000, "0.5"),
    (1_000_000_000, "1"),
    (5_000_000_000, "5"),
    (10_000_000_000, "10"),
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
    pub(super) counts: [u64; BUCKETS.len() + 1],
    pub(super) sum_ns: u64,
}

impl Histogram {
    pub(super) fn add(&mut self, ns: u64) {
        self.counts[BUCKETS.partition_point(|(edge_ns, _)| *edge_ns < ns)] += 1;
        self.sum_ns = self.sum_ns.saturating_add(ns);
    }
}

/// Reasons that were seen.
pub(super) fn by_reason(kills: &[u64; Kill::ALL.len()]) -> impl Iterator<Item = (Kill, u64)> + '_ {
    Kill::ALL.into_iter().zip(kills.iter().copied()).filter(|(_, kills)| *kills > 0)
}
