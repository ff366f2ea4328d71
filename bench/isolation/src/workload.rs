//! The load: an index server as the paper describes it, and where each number comes from.
//!
//! Stated by the paper (abstract and section 1): machines at 21 % of their CPU off-peak, 15 threads of a query that become ready
//! within 5 µs. Stated by its evaluation: 48 logical cores, 2,000 and 4,000 queries a second, a CPU bully of 48
//! threads. From these follows what a query costs: 21 % of 48 cores at 2,000 queries a second are
//! 5.04 ms of CPU.
//!
//! Chosen by us, since the paper does not say it: that workers alternate between short bursts and reads
//! of the disk, how many, and how queries differ. These are set by the latency of the machine alone (a median of 4 ms and a
//! 99th percentile of 12 ms) and by nothing else: no run with a secondary was looked at to choose them. How much hangs on
//! them the variants of [`crate::scenario`] show.

use rand::Rng as _;
use rand::rngs::SmallRng;

use crate::agenda::Ns;

/// Logical cores of a machine.
pub(crate) const CORES: usize = 48;
/// Threads of the secondary, a bully that computes without end.
pub(crate) const BULLIES: usize = 48;
/// Part of a machine's CPU that 2,000 queries a second use.
const UTILISATION: f64 = 0.21;
const UTILISATION_QUERIES_PER_S: f64 = 2_000.0;
/// Threads that a query wakes.
pub(crate) const WORKERS: u32 = 15;
/// Within how long they wake.
const WORKERS_WITHIN_NS: Ns = 5_000;
/// CPU time of a query on one machine, on average.
pub(crate) const QUERY_CPU_NS: f64 = UTILISATION * CORES as f64 / UTILISATION_QUERIES_PER_S * 1e9;
/// The median latency of a machine alone, which fixes the reads.
const MEDIAN_NS: f64 = 4e6;
/// 99th percentile by median, which fixes how much queries differ.
const P99_BY_MEDIAN: f64 = 3.0;
/// The 99th percentile of the standard normal distribution.
const NORMAL_P99: f64 = 2.326;
/// CPU time of an aggregator for a query: what a worker needs for one on average.
pub(crate) const MERGE_NS: f64 = QUERY_CPU_NS / WORKERS as f64;

/// What a query does on a machine.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Workload {
    /// Bursts of a worker, on average.
    bursts: f64,
    burst_ns: f64,
    read_ns: f64,
    /// Standard deviation of the logarithm of a query's size.
    sigma: f64,
}

impl Workload {
    /// Workers with so many bursts on average; the rest follows.
    pub(crate) fn with_bursts(bursts: f64) -> Self {
        let sigma = P99_BY_MEDIAN.ln() / NORMAL_P99;
        let median_bursts = (bursts * (-sigma * sigma / 2.0).exp()).max(1.0);
        let burst_ns = QUERY_CPU_NS / f64::from(WORKERS) / bursts;
        // The last of the workers decides. A worker's time is a sum of exponential times, whose largest of 15 lies 1.74
        // standard deviations above the mean if there are many of them.
        let slowest = median_bursts + 1.74 * median_bursts.sqrt();
        let read_ns = (MEDIAN_NS / slowest - burst_ns).max(0.0);
        Self { bursts, burst_ns, read_ns, sigma }
    }

    /// The size of a query, 1 on average: log-normal.
    pub(crate) fn size(&self, random: &mut SmallRng) -> f64 {
        let (radius, angle): (f64, f64) = (random.random(), random.random());
        let normal = (-2.0 * (1.0 - radius).ln()).sqrt() * (std::f64::consts::TAU * angle).cos();
        (self.sigma * normal - self.sigma * self.sigma / 2.0).exp()
    }

    /// Bursts of a worker of a query of this size, at least one; so that the mean is right, the fraction is a
    /// chance.
    pub(crate) fn bursts(&self, size: f64, random: &mut SmallRng) -> u32 {
        let exact = self.bursts * size;
        (exact.floor() as u32 + u32::from(random.random::<f64>() < exact.fract())).max(1)
    }

    /// CPU time of a burst.
    pub(crate) fn burst(&self, random: &mut SmallRng) -> Ns {
        exponential(self.burst_ns, random)
    }

    /// How long a worker waits for the disk between two bursts.
    pub(crate) fn read(&self, random: &mut SmallRng) -> Ns {
        exponential(self.read_ns, random)
    }

    /// How long after its query a worker wakes up.
    pub(crate) fn offset(random: &mut SmallRng) -> Ns {
        random.random_range(0..=WORKERS_WITHIN_NS)
    }
}

/// A time of an exponential distribution, at least a nanosecond.
pub(crate) fn exponential(mean_ns: f64, random: &mut SmallRng) -> Ns {
    ((-(1.0 - random.random::<f64>()).ln() * mean_ns) as Ns).max(1)
}

#[cfg(test)]
mod tests;
