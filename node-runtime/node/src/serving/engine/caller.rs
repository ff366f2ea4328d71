//! The engine in the hands of a caller: its call past the queue, and a short look for the answer.

use mfaas_dispatch::JobId;
use mfaas_ring::clock::ticks;

use super::Engine;
use crate::serving::intake::Call;

/// A caller that turns the engine looks so long for its answer, in microseconds: about what it takes to wake
/// another thread and to be woken by it.
const PATIENCE_US: u64 = 20;

impl Engine {
    /// Takes a call past the queue, in the hands of its caller. What lies in the queue comes first.
    pub(in crate::serving) fn submit_here(&mut self, call: Call) -> Option<JobId> {
        self.receive();
        let job = self.submit(call);
        self.execute_commands();
        job
    }

    /// Turns until the job is answered, for [`PATIENCE_US`] at most; whether it is.
    pub(in crate::serving) fn look_for(&mut self, job: JobId) -> bool {
        let patience = self.clock.rate().ticks_of_us(PATIENCE_US);
        let since = ticks();
        while self.calls.contains(job) {
            if ticks().saturating_sub(since) > patience {
                return false;
            }
            self.turn();
            std::hint::spin_loop();
        }
        true
    }

    /// Whether nobody has to look before `moment`, in ticks.
    pub(in crate::serving) fn rests_until(&mut self, moment: u64) -> bool {
        let rests = !self.over
            && self.scheduler.is_at_rest()
            && !self.workers.is_busy()
            && self.calls.is_broker_watched();
        if rests {
            self.publish();
        }
        rests && self.after(self.until_next()) >= moment
    }
}
