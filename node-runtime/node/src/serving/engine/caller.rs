//! The engine in the hands of a caller: its call past the queue, and a short look for the answer.

use mfaas_dispatch::JobId;
use mfaas_ring::clock::ticks;

use super::Engine;
use crate::serving::intake::Call;

/// A caller that turns the engine looks so long for its answer, in microseconds: about what it takes to wake
/// another thread and to be woken by it.
const PATIENCE_US: u64 = 20;
/// Misses in a row that count: after the last of them 14 calls go by the thread.
const MISSES_MAX: u32 = 4;

impl Engine {
    /// Whether a caller may take a call through by itself: whether the last ones that did had their answers
    /// while they looked. After several in a row that did not, some calls go by the thread: twice as many after each
    /// further one.
    pub(in crate::serving) fn is_expected_to_be_quick(&mut self) -> bool {
        let quick = self.slow_calls == 0;
        self.slow_calls = self.slow_calls.saturating_sub(1);
        quick
    }

    /// Takes a call past the queue, in the hands of its caller. What lies in the queue comes first.
    pub(in crate::serving) fn submit_here(&mut self, call: Call) -> Option<JobId> {
        self.receive();
        let job = self.submit(call);
        self.execute_commands();
        job
    }

    /// Turns until the job is answered, for [`PATIENCE_US`] at most.
    pub(in crate::serving) fn look_for(&mut self, job: JobId) {
        let patience = self.rate.ticks_of_us(PATIENCE_US);
        let since = ticks();
        while self.waits(job) {
            if ticks().saturating_sub(since) > patience {
                self.misses = (self.misses + 1).min(MISSES_MAX);
                // One alone says nothing: its worker may have been without its core for a moment.
                self.slow_calls = (1 << self.misses) - 2;
                return;
            }
            self.turn();
            std::hint::spin_loop();
        }
        self.misses = 0;
    }

    fn waits(&self, job: JobId) -> bool {
        self.tickets.get(job.index()).and_then(Option::as_ref).is_some_and(|ticket| ticket.job == job)
    }

    /// Whether nobody has to look before `moment`, in ticks.
    pub(in crate::serving) fn rests_until(&mut self, moment: u64) -> bool {
        let rests = !self.over && self.scheduler.is_idle() && self.has_no_calls();
        if rests {
            self.publish();
        }
        rests && self.after(self.until_next()) >= moment
    }
}
