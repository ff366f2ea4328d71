//! Who pays for the order between "something is published" and "is anybody asleep?".
//!
//! A fence after each answer would make a worker wait until the answer's cache line came over from the
//! node's core, some 50 to 100 ns on each call, for a sleeper that is hardly ever there. So
//! the host, which sleeps seldom, orders memory for both ends before it does: `membarrier(2)` with
//! `GLOBAL_EXPEDITED` makes every core that runs a registered process pass a full barrier. A worker
//! registers when it attaches. Where the kernel has no such call both ends use plain fences.
//!
//! The other direction needs no fence at all: the host looks for a sleeping worker when it submits
//! and again whenever it polls for the answer, and orders memory before it sleeps itself.
//!
//! It must never be assumed that a worker registered: one that did not only delays its own answers, up to the
//! deadline that every wait has.

use std::sync::atomic::{Ordering, compiler_fence, fence};

use rustix::thread::{MembarrierCommand, MembarrierQuery, membarrier, membarrier_query};

use crate::RingError;

/// Whether this kernel can order memory for other processes.
pub(crate) fn host_can_order() -> bool {
    membarrier_query()
        .contains(MembarrierQuery::GLOBAL_EXPEDITED | MembarrierQuery::REGISTER_GLOBAL_EXPEDITED)
}

/// What an end does between publishing and looking for a sleeper.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Order {
    /// It passes a full fence itself.
    Fence,
    /// The sleeper passes one for both.
    Sleeper,
}

impl Order {
    /// The worker's choice: registers this process if the host offers to order memory.
    pub(crate) fn of_worker(host_orders: bool) -> Self {
        if host_orders && membarrier(MembarrierCommand::RegisterGlobalExpedited).is_ok() {
            Self::Sleeper
        } else {
            Self::Fence
        }
    }

    /// Stands between publishing and looking.
    pub(crate) fn pass(self) {
        match self {
            Self::Fence => fence(Ordering::SeqCst),
            Self::Sleeper => compiler_fence(Ordering::SeqCst),
        }
    }
}

/// Stands between announcing a sleep and the last look: a full barrier here and, if `everywhere`,
/// on every core that runs a registered process.
pub(crate) fn before_sleep(everywhere: bool) -> Result<(), RingError> {
    fence(Ordering::SeqCst);
    if !everywhere {
        return Ok(());
    }
    membarrier(MembarrierCommand::GlobalExpedited)
        .map_err(|errno| RingError::System { step: "membarrier", source: errno.into() })
}
