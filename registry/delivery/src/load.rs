//! How busy a node is, for charts: numbers about itself that decide nothing.
//!
//! Not part of a protocol number: a server that does not know the message answers 404, and a node then tells it nothing that
//! is new. Fields that this build does not know are left out, so that a later node may say more.

use serde::{Deserialize, Serialize};

use crate::message::{MessageError, check_protocol};

/// The longest time that one report covers, in milliseconds; a node that could not report covers what it can.
pub const LOAD_INTERVAL_MS_MAX: u64 = 3_600_000;
/// The most cores of a node.
pub const LOAD_CORES_MAX: u32 = 256;
/// The largest count, and a size in bytes that no machine has.
const COUNT_MAX: u64 = 1 << 32;
const BYTES_MAX: u64 = 1 << 50;

/// What a node did since its last report, and how it stands. Sent every ten seconds; one that is lost is lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoadReport {
    /// [`crate::NODE_PROTOCOL`].
    pub protocol: u32,
    /// The time that `cpu_ns` was used in, in milliseconds, at most [`LOAD_INTERVAL_MS_MAX`].
    pub interval_ms: u64,
    /// CPU time of handlers, in nanoseconds.
    pub cpu_ns: u64,
    /// Cores that run calls, at most [`LOAD_CORES_MAX`].
    pub cores: u32,
    /// Calls in workers.
    pub running: u64,
    /// Calls that wait for a worker.
    pub waiting: u64,
    /// Worker processes.
    pub processes: u64,
    /// Pools with workers.
    pub pools: u64,
    /// Pools with calls.
    pub pools_busy: u64,
    /// Functions in memory.
    pub resident: u64,
    /// Their images, in bytes.
    pub resident_bytes: u64,
}

impl LoadReport {
    /// Checks protocol number, limits, and that no more was used than there was.
    pub fn check(&self) -> Result<(), MessageError> {
        check_protocol(self.protocol)?;
        let Self { running, waiting, processes, pools, pools_busy, resident, .. } = *self;
        if [running, waiting, processes, pools, pools_busy, resident]
            .into_iter()
            .any(|count| count > COUNT_MAX)
        {
            return Err(MessageError::TooLarge { what: "a count" });
        }
        if self.resident_bytes > BYTES_MAX {
            return Err(MessageError::TooLarge { what: "resident_bytes" });
        }
        if self.cores == 0 || self.cores > LOAD_CORES_MAX {
            return Err(MessageError::TooLarge { what: "cores" });
        }
        if self.interval_ms == 0 || self.interval_ms > LOAD_INTERVAL_MS_MAX {
            return Err(MessageError::TooLarge { what: "interval_ms" });
        }
        // A call is charged when it ends, with what it used before the interval as well.
        let budget_ns = self.interval_ms.saturating_add(LOAD_INTERVAL_MS_MAX).saturating_mul(1_000_000);
        if self.cpu_ns > budget_ns.saturating_mul(u64::from(self.cores)) {
            return Err(MessageError::Contradiction { what: "cpu_ns" });
        }
        Ok(())
    }
}
