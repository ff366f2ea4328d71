//! What the engine shows of itself to other threads.

use std::sync::{Arc, Mutex, PoisonError};

use mfaas_dispatch::{FunctionId, Scheduler, Snapshot};
use mfaas_ring::clock::Rate;

use super::clock::Pace;

/// Counts are shown to others this often while there is no rest, in microseconds.
const PUBLISH_US: u64 = 10_000;

/// What others may see of the dispatcher.
#[derive(Debug, Default)]
pub(crate) struct Published {
    pub(crate) snapshot: Snapshot,
    pub(crate) banned: Vec<(FunctionId, u32)>,
}

/// The writing end.
#[derive(Debug)]
pub(super) struct Publisher {
    published: Arc<Mutex<Published>>,
    pace: Pace,
}

impl Publisher {
    pub(super) fn new(rate: Rate) -> Self {
        Self { published: Arc::default(), pace: Pace::new(rate, PUBLISH_US) }
    }

    pub(super) fn published(&self) -> Arc<Mutex<Published>> {
        Arc::clone(&self.published)
    }

    /// Whether others have not been shown anything for a while at `now`, in ticks.
    #[inline]
    pub(super) fn is_due(&mut self, now: u64) -> bool {
        self.pace.is_due(now)
    }

    /// Shows what is now; so many calls have run and are not answered. Looking for bans goes through all functions, so that is done only when they changed.
    pub(super) fn publish(&mut self, scheduler: &Scheduler, concluding: usize, bans_changed: bool) {
        self.pace.restart();
        let mut published = self.published.lock().unwrap_or_else(PoisonError::into_inner);
        published.snapshot = scheduler.snapshot();
        // They wait, like those that are suspended.
        published.snapshot.suspended += concluding;
        if bans_changed {
            published.banned.clear();
            published.banned.extend(scheduler.banned());
        }
    }
}
