//! What a node gives bulk functions: so many workers, and so much memory for all of them.
//!
//! Must never promise a call more memory than its worker may have, nor all workers together more than the operator gave.

use mfaas_abi::limits::BULK_FRAME_BYTES_MAX;
use mfaas_dispatch::Limits;
use mfaas_ident::{Class, MemoryLimit};

use super::process::WorkerKind;

/// What a worker takes besides the memory of its call: the request and the answer, in its own memory and in the ring, and
/// itself.
pub(super) const WORKER_OVERHEAD_BYTES: u64 = 4 * BULK_FRAME_BYTES_MAX as u64 + (64 << 20);
/// Workers that could give a call less memory than this are none.
const CALL_BYTES_MIN: u64 = 64 << 20;

/// The workers of a node's bulk functions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BulkWorkers {
    /// That may be there at a time; each runs one call.
    count: usize,
    /// What a call may have.
    memory_max: MemoryLimit,
}

impl BulkWorkers {
    /// So many workers that all of them take no more than `bytes`, with as much memory for each call as that gives. Nothing
    /// where that is too little, or there are none.
    pub(crate) fn within(bytes: u64, count: usize) -> Option<Self> {
        let each = bytes.checked_div(u64::try_from(count).ok()?)?.checked_sub(WORKER_OVERHEAD_BYTES)?;
        let each = each.min(MemoryLimit::MAX.as_bytes()) / 4_096 * 4_096;
        let memory_max = MemoryLimit::from_bytes(each).ok().filter(|_| each >= CALL_BYTES_MIN)?;
        Some(Self { count, memory_max })
    }

    /// As many workers as can give every bulk function what it may ask for, and at most `count`; one with less memory where
    /// there is too little for that.
    pub(crate) fn as_many_as_fit(bytes: u64, count: usize) -> Option<Self> {
        let whole = bytes / (WORKER_OVERHEAD_BYTES + MemoryLimit::MAX.as_bytes());
        let whole = usize::try_from(whole).unwrap_or(usize::MAX);
        Self::within(bytes, whole.clamp(1, count))
    }

    /// What its workers are.
    pub(super) fn kind(self) -> WorkerKind {
        WorkerKind { class: Class::Bulk, memory_max: self.memory_max }
    }

    /// What bounds their scheduler.
    pub(super) fn limits(self) -> Limits {
        Limits { cores: self.count, workers_max: self.count, ..Limits::BULK }
    }
}

#[cfg(test)]
mod tests;
