//! Calls that wait for what they have asked their node for: they hold no worker, and nobody else waits for them.
//!
//! What a call was lies with the node meanwhile, in addresses of the image that ran it. So a call that is suspended keeps its
//! image, and goes on with that one or not at all: not with one that was loaded again, not after its function was revoked
//! or banned, and not once more when its worker died.

use mfaas_ident::Budget;

use crate::functions::{Gate, Phase};
use crate::jobs::{Job, Place};
use crate::scheduler::Scheduler;
use crate::{Commands, JobId, Moment, Outcome, WorkerId};

/// Suspended calls that are ended in one tick because they have taken too long.
const EXPIRED_AT_ONCE: usize = 64;

impl Scheduler {
    /// The worker says that `job` waits for something, after `cpu_us` of CPU time. Whether it is suspended now: off the worker's core,
    /// and owed an answer as before. Then [`Scheduler::resume`] or [`Scheduler::give_up`] is expected, unless it is answered before.
    ///
    /// It costs its tenant, and its budget, `moved_us` besides: what the node takes to move its memory. Otherwise a call that does
    /// little but wait could keep the node busy for others' time.
    ///
    /// As with [`Scheduler::completed`], a worker that names another job than the one on its core is killed.
    pub fn suspended(
        &mut self,
        now: Moment,
        id: WorkerId,
        job: JobId,
        cpu_us: u64,
        moved_us: u64,
        commands: &mut Commands,
    ) -> bool {
        let taken = self.take_off_core(now, id, job, cpu_us, false, commands);
        let Some((index, used_us)) = taken else { return false };
        self.jobs.get_mut(index).charged_us = 0;
        self.settle_charge(index, Some(moved_us));
        let pool = self.jobs.get(index).pool;
        let suspended = self.suspend(now, index, used_us.saturating_add(moved_us));
        if let Err(outcome) = suspended {
            self.finish(index, outcome, commands);
        }
        self.feed_if_queued(now, pool, commands);
        suspended.is_ok()
    }

    /// CPU time that an open job may still use, in microseconds.
    pub fn budget_us(&self, job: JobId) -> u32 {
        self.jobs.find(job).map_or(0, |index| self.jobs.get(index).budget_us)
    }

    /// What is believed of a worker that says that `job` took `cpu_us` of CPU time: no more than has passed, and nothing of a job that is
    /// not on its core.
    pub fn believed_us(&self, now: Moment, id: WorkerId, job: JobId, cpu_us: u64) -> Option<u64> {
        let worker = self.workers.get(id.place).filter(|worker| worker.life == id.life);
        let on_core = worker.and_then(|worker| Some((worker, self.jobs.get(worker.first()?).id)));
        match on_core {
            Some((worker, first)) if first == job => {
                Some(worker.believed_us(now.since(worker.started), cpu_us))
            }
            Some(_) | None => None,
        }
    }

    /// A call that this one made took so much CPU time, which is taken from what is left of this one's. Whether it was: not while this one
    /// runs.
    pub fn charge(&mut self, job: JobId, us: u64) -> bool {
        let Some(index) = self.jobs.find(job) else { return true };
        let job = self.jobs.get_mut(index);
        if job.place == Place::InWorker {
            return false;
        }
        job.budget_us = u64::from(job.budget_us).saturating_sub(us) as u32;
        true
    }

    /// What the call waited for is there: it goes on where a worker of its pool has room, behind what waits of its tenant. Means nothing
    /// for a call that was answered, or is not suspended.
    pub fn resume(&mut self, now: Moment, job: JobId, commands: &mut Commands) {
        let Some(index) = self.jobs.find(job).filter(|index| self.jobs.get(*index).place == Place::Suspended)
        else {
            return;
        };
        self.wake(index);
        if !self.is_its_image(index) {
            return self.finish(index, Outcome::Lost, commands);
        }
        let job = self.jobs.get_mut(index);
        if job.ends <= now {
            let outcome = job.end_at(now);
            return self.finish(index, outcome, commands);
        }
        // Calls that it made may have used it up.
        if u64::from(job.budget_us) < Budget::MIN.as_micros() {
            return self.finish(index, Outcome::OverBudget, commands);
        }
        job.expires = job.ends.min(now.plus(self.limits.wait_us_max));
        let pool = job.pool;
        let at_once = self.pools[pool].queued() == 0;
        match at_once.then(|| self.choose(pool)).flatten() {
            Some(place) => self.start(now, place, index, commands),
            None => {
                self.count_waiting(index);
                self.enqueue(now, index);
                self.feed(now, pool, commands);
                self.give_up_if_abandoned(pool, commands);
            }
        }
    }

    /// The node gives a suspended call up, which cannot go on or has no room.
    pub fn give_up(&mut self, job: JobId, outcome: Outcome, commands: &mut Commands) {
        let found = self.jobs.find(job);
        if let Some(index) = found.filter(|index| self.jobs.get(*index).place == Place::Suspended) {
            self.wake(index);
            self.finish(index, outcome, commands);
        }
    }

    /// No worker is there any more to go on with what is suspended.
    pub fn abandon_suspended(&mut self, commands: &mut Commands) {
        self.end_suspended(|_| true, Outcome::Lost, commands);
    }

    /// Puts a job aside that is in no list, or says how it ends instead.
    fn suspend(&mut self, now: Moment, index: u32, used_us: u64) -> Result<(), Outcome> {
        let job = *self.jobs.get(index);
        let known = &self.functions[job.function];
        let tenant = self.queues[job.queue].tenant;
        // A part of a call takes time, however little.
        let left_us = u64::from(job.budget_us).saturating_sub(used_us.max(1));
        if known.banned != 0 {
            return Err(Outcome::Banned);
        }
        if known.gate == Gate::Withdrawn {
            return Err(Outcome::Withdrawn);
        }
        if !self.is_its_image(index) {
            return Err(Outcome::Lost);
        }
        if left_us < Budget::MIN.as_micros() {
            return Err(Outcome::OverBudget);
        }
        if job.ends <= now {
            return Err(job.end_at(now));
        }
        if self.suspended.is_full(tenant, &self.limits) {
            return Err(Outcome::TooManySuspended);
        }
        self.suspended.add(tenant, job.ends, index);
        self.pools.closed(job.pool);
        let job = self.jobs.get_mut(index);
        job.place = Place::Suspended;
        // It only ever shrinks.
        job.budget_us = left_us as u32;
        job.has_waited = true;
        Ok(())
    }

    /// The job is suspended no more, and in no list.
    fn wake(&mut self, index: u32) {
        let job = *self.jobs.get(index);
        self.suspended.remove(self.queues[job.queue].tenant, job.ends, index);
        self.pools.opened(job.pool);
        self.jobs.get_mut(index).place = Place::Taken;
        self.change_pool(index);
    }

    /// Whether the image that ran the job is where it was.
    fn is_its_image(&self, index: u32) -> bool {
        let job = self.jobs.get(index);
        let known = &self.functions[job.function];
        known.phase == Phase::Resident && known.stamp == job.stamp
    }

    /// Ends every suspended job for which `wanted` holds.
    pub(crate) fn end_suspended(
        &mut self,
        wanted: impl Fn(&Job) -> bool,
        outcome: Outcome,
        commands: &mut Commands,
    ) {
        let found: Vec<u32> =
            self.suspended.indexes().filter(|index| wanted(self.jobs.get(*index))).collect();
        for index in found {
            self.wake(index);
            self.finish(index, outcome, commands);
        }
    }

    /// Ends the calls that have taken too long: a part of them, so that nobody else waits for all.
    pub(crate) fn expire_suspended(&mut self, now: Moment, commands: &mut Commands) {
        for _ in 0..EXPIRED_AT_ONCE {
            let Some(index) = self.suspended.first_due(now) else { return };
            let outcome = self.jobs.get(index).end_at(now);
            self.wake(index);
            self.finish(index, outcome, commands);
        }
    }
}
