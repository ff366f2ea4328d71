//! A worker as the engine sees it: its ring, its process, and when it is to be looked at again.

use std::os::fd::OwnedFd;

use mfaas_dispatch::WorkerId;
use mfaas_ring::HostEnd;
use mfaas_ring::clock::Rate;
use rustix::process::{Signal, pidfd_send_signal};

/// While a worker has a call but shows no deadline that lies ahead, it is looked at again after as
/// long as this has lasted, within these bounds, in microseconds.
const LOOK_US: std::ops::RangeInclusive<u64> = 50..=10_000;

/// A worker and the node's end of its ring.
#[derive(Debug)]
pub(super) struct WorkerSlot {
    pub(super) id: WorkerId,
    pub(super) ring: HostEnd,
    pub(super) process: OwnedFd,
    /// The ring broke the protocol: it is not read again.
    pub(super) poisoned: bool,
    /// Since when its first call is there, in ticks.
    pub(super) since: u64,
    /// The deadline that it was signalled for, and when it may be signalled again, in ticks.
    pub(super) signalled: u64,
    pub(super) signal_after: u64,
    /// When it must have left, in ticks.
    pub(super) leave_by: Option<u64>,
    /// It is among those that are looked at.
    pub(super) is_active: bool,
}

impl WorkerSlot {
    /// Whether there is something to hear from it or to do about it.
    pub(super) fn is_busy(&self) -> bool {
        !self.poisoned && self.ring.in_flight() > 0
    }

    pub(super) fn signal(&self, signal: Signal) {
        // A failure means that the process is gone, which its supervisor reports.
        let _ = pidfd_send_signal(&self.process, signal);
    }

    /// After how many ticks the worker is to be looked at again; `None` when it is idle.
    pub(super) fn next_look(&self, now: u64, rate: Rate) -> Option<u64> {
        let leave = self.leave_by.map(|leave_by| leave_by.saturating_sub(now).max(1));
        if self.ring.in_flight() == 0 {
            return leave;
        }
        let deadline = self.ring.watch_deadline();
        let bounds = (rate.ticks_of_us(*LOOK_US.start()), rate.ticks_of_us(*LOOK_US.end()));
        let again = |since: u64| now.saturating_sub(since).clamp(bounds.0, bounds.1);
        let look = match deadline {
            0 => again(self.since),
            ahead if ahead > now => ahead - now,
            passed => again(passed),
        };
        Some(leave.map_or(look, |leave| leave.min(look)))
    }
}
