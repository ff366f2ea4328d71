//! How busy the node is, told for charts.

use std::time::Instant;

use mfaas_delivery::{LOAD_CORES_MAX, LOAD_INTERVAL_MS_MAX, LoadReport, NODE_PROTOCOL};
use mfaas_dispatch::Snapshot;

use crate::upstream::{Upstream, UpstreamError};

/// How the dispatcher stands now.
type Standing = Box<dyn Fn() -> Snapshot + Send + Sync>;

/// What was told last.
pub(crate) struct Load {
    standing: Standing,
    cores: u32,
    since: Instant,
    cpu_ns: u64,
}

impl Load {
    /// From now on, on so many cores.
    pub(crate) fn of(standing: impl Fn() -> Snapshot + Send + Sync + 'static, cores: usize) -> Self {
        let cores = u32::try_from(cores).unwrap_or(u32::MAX).clamp(1, LOAD_CORES_MAX);
        Self { standing: Box::new(standing), cores, since: Instant::now(), cpu_ns: 0 }
    }

    /// Tells the load since the last report that was answered, with the CPU time of all calls since the start; `false` when
    /// the server does not know of load.
    pub(super) async fn report(&mut self, cpu_ns: u64, upstream: &Upstream) -> Result<bool, UpstreamError> {
        let (now, snapshot) = (Instant::now(), (self.standing)());
        let interval_ms = u64::try_from(now.duration_since(self.since).as_millis()).unwrap_or(u64::MAX);
        let report = LoadReport {
            protocol: NODE_PROTOCOL,
            interval_ms: interval_ms.clamp(1, LOAD_INTERVAL_MS_MAX),
            cpu_ns: cpu_ns.saturating_sub(self.cpu_ns),
            cores: self.cores,
            running: snapshot.running as u64,
            waiting: snapshot.waiting as u64,
            processes: snapshot.processes as u64,
            pools: snapshot.pools as u64,
            pools_busy: snapshot.pools_busy as u64,
            resident: snapshot.resident as u64,
            resident_bytes: snapshot.resident_bytes,
        };
        let is_taken = upstream.load(&report).await;
        // After an hour without an answer the hour is given up, too: its mean says nothing.
        if is_taken.is_ok() || interval_ms >= LOAD_INTERVAL_MS_MAX {
            (self.since, self.cpu_ns) = (now, cpu_ns);
        }
        is_taken
    }
}
