//! Cordons, and the queues of their tenants.
//!
//! There is one queue for each tenant of a cordon, not one for each worker: no worker idles while a
//! job waits. Tenants take turns, so a tenant that fills its share delays its own calls first.

use std::collections::VecDeque;

use crate::Moment;
use crate::jobs::List;
use crate::worker::Places;

/// What waits of one tenant in one cordon, first come first served.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Queue {
    pub(crate) tenant: u32,
    pub(crate) cordon: u32,
    pub(crate) jobs: List,
    /// It is in its cordon's line of tenants.
    pub(crate) in_turn: bool,
}

/// Workers and what waits for them.
#[derive(Debug, Default)]
pub(crate) struct Cordon {
    /// Workers that take jobs.
    pub(crate) members: Places,
    /// Those of them with nothing to do.
    pub(crate) idle: Places,
    /// Jobs in the queues of its tenants.
    pub(crate) queued: usize,
    /// Queues with jobs, in the order of their turns.
    pub(crate) turn: VecDeque<u32>,
    /// Jobs that are run again, each with nothing else in its worker.
    pub(crate) again: List,
    /// Jobs that wait or run, for their images too.
    pub(crate) open: usize,
    /// When the last of them ended.
    pub(crate) idle_since: Moment,
    /// Functions that run here and whose calls are accepted.
    pub(crate) functions: usize,
    /// Nobody keeps workers for it at the moment.
    pub(crate) parked: bool,
}

impl Cordon {
    /// The shared one is never parked, every other starts so.
    pub(crate) fn new(parked: bool) -> Self {
        Self { parked, ..Self::default() }
    }

    /// When its workers are kept for nobody, while it has none to keep busy: at once when no function is
    /// left that could call for them.
    pub(crate) fn park_due(&self, park_after_us: u64) -> Moment {
        if self.functions == 0 { self.idle_since } else { self.idle_since.plus(park_after_us) }
    }

    /// Whether a new job may go to a worker at once, past nobody.
    pub(crate) fn nothing_waits(&self) -> bool {
        self.queued == 0 && self.again.is_empty()
    }
}
