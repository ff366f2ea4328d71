//! A worker as the engine sees it: its ring, its process, and when it is to be looked at again.

use std::os::fd::OwnedFd;

use mfaas_dispatch::{JobId, WorkerId};
use mfaas_ring::clock::{Rate, ticks};
use mfaas_ring::{Bell, Completion, HostEnd, RingError, Submission};
use rustix::process::{Signal, pidfd_send_signal};

use crate::serving::intake::Arrival;

/// While a worker has a call but shows no deadline that lies ahead, it is looked at again after as
/// long as this has lasted, within these bounds, in microseconds.
const LOOK_US: std::ops::RangeInclusive<u64> = 50..=10_000;
/// A worker that shows one passed deadline after the other gets a signal this often at most, in
/// microseconds: it must not decide what its watching costs.
const SIGNAL_PAUSE_US: u64 = 20;

/// A worker and the node's end of its ring.
#[derive(Debug)]
pub(super) struct WorkerSlot {
    id: WorkerId,
    ring: HostEnd,
    process: OwnedFd,
    /// The ring broke the protocol: it is not read again.
    poisoned: bool,
    /// Since when its first call is there, in ticks.
    since: u64,
    /// The deadline that it was signalled for, and when it may be signalled again, in ticks.
    signalled: u64,
    signal_after: u64,
    /// When it must have left, in ticks.
    leave_by: Option<u64>,
    /// It is among those that are looked at.
    is_active: bool,
}

impl WorkerSlot {
    pub(super) fn new(Arrival { id, ring, process, .. }: Arrival) -> Self {
        let (poisoned, since, signalled, signal_after, leave_by, is_active) = Default::default();
        Self { id, ring, process, poisoned, since, signalled, signal_after, leave_by, is_active }
    }

    #[inline]
    pub(super) fn id(&self) -> WorkerId {
        self.id
    }

    /// It is among those that are looked at from now on; whether it was not.
    #[inline]
    pub(super) fn activate(&mut self) -> bool {
        !std::mem::replace(&mut self.is_active, true)
    }

    /// Whether it is among those that are looked at from now on: as long as there is something to hear
    /// from it, or it is to leave.
    #[inline]
    pub(super) fn stays_active(&mut self) -> bool {
        self.is_active = self.is_busy() || self.leave_by.is_some();
        self.is_active
    }

    /// Whether there is something to hear from it.
    #[inline]
    pub(super) fn is_busy(&self) -> bool {
        !self.poisoned && self.ring.in_flight() > 0
    }

    #[inline]
    pub(super) fn submit(&mut self, now: u64, submission: Submission<'_>) -> Result<(), RingError> {
        if self.ring.in_flight() == 0 {
            self.since = now;
        }
        self.ring.submit(submission)
    }

    /// Whether there was a call that it has completed.
    #[inline]
    pub(super) fn collect(&mut self, completion: &mut Completion) -> Result<bool, RingError> {
        if !self.is_busy() || !self.ring.collect(completion)? {
            return Ok(false);
        }
        self.since = ticks();
        Ok(true)
    }

    #[inline]
    pub(super) fn question(&mut self, into: &mut Vec<u8>) -> Result<Option<JobId>, RingError> {
        if !self.is_busy() {
            return Ok(None);
        }
        Ok(self.ring.question(into)?.map(JobId))
    }

    pub(super) fn tell(&mut self, told: Option<&[u8]>) {
        self.ring.tell(told);
    }

    pub(super) fn poison(&mut self) {
        self.poisoned = true;
    }

    /// Asks it to leave after its calls, by `leave_by`, in ticks.
    pub(super) fn let_go(&mut self, leave_by: u64) {
        self.ring.stop();
        self.leave_by = Some(leave_by);
    }

    pub(super) fn bell(&self) -> Bell<'_> {
        self.ring.bell()
    }

    pub(super) fn is_ready(&self) -> bool {
        self.ring.is_ready()
    }

    pub(super) fn signal(&self, signal: Signal) {
        // A failure means that the process is gone, which its supervisor reports.
        let _ = pidfd_send_signal(&self.process, signal);
    }

    /// Signals it if its call's wall deadline has passed, and ends it if it did not leave in time.
    #[inline]
    pub(super) fn watch(&mut self, now: u64, rate: Rate) {
        if self.leave_by.is_some_and(|leave_by| leave_by <= now) {
            self.leave_by = None;
            self.signal(Signal::KILL);
        }
        let deadline = self.ring.watch_deadline();
        let passed = deadline != 0 && deadline <= now && deadline != self.signalled;
        if passed && self.ring.in_flight() > 0 && self.signal_after <= now {
            self.signalled = deadline;
            self.signal_after = now.saturating_add(rate.ticks_of_us(SIGNAL_PAUSE_US));
            self.signal(Signal::ALARM);
        }
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
