//! Workers that die, what becomes of their jobs, suspects and bans.
//!
//! The job on the core of a dead worker may be innocent: safe source that got past the compiler can
//! damage a process so that it falls in a stranger's call. So a death counts against a function only
//! where the worker ran nothing else in its life. Otherwise it makes suspects of those that it ran
//! last: each runs in a worker of its own for a while, where the next crash names its author.
//! A job that died with its worker, or stood behind one that did, is run again only if its
//! function says that a call may run twice, or an open job made it, and once.

use crate::functions::{Functions, Gate, Phase};
use crate::jobs::Job;
use crate::scheduler::Scheduler;
use crate::strikes::Suspect;
use crate::worker::{Served, State};
use crate::{
    Command, Commands, FunctionId, KillReason, Misuse, Moment, Outcome, PoolKey, PoolKind, SHARED_SLAB,
    TenantId, WorkerId,
};

impl Scheduler {
    /// The process of the worker is gone, and what it had completed is about to be reported: it gets
    /// nothing more meanwhile. [`Scheduler::worker_died`] follows.
    pub fn worker_dying(&mut self, id: WorkerId) {
        let Some(worker) = self.workers.living(id) else { return };
        match worker.state {
            // Why it was to die decides what becomes of its call.
            State::Doomed(_) | State::Empty | State::Starting | State::Dying => {}
            State::Ready | State::Leaving => {
                self.take_out(id.place);
                self.workers[id.place].state = State::Dying;
            }
        }
    }

    /// The process of the worker is gone, for whatever reason, or could not be started. What it had
    /// completed was reported before with [`Scheduler::completed`].
    pub fn worker_died(&mut self, now: Moment, id: WorkerId, commands: &mut Commands) {
        if self.workers.living(id).is_none() {
            return;
        }
        self.take_out(id.place);
        let dead = self.workers.bury(id.place);
        self.release_loans(id.place, commands);
        self.passed(id.place, dead.len(), commands);
        // First of all, so that what its jobs ask for comes after the pause.
        self.lost_worker(now, &dead);
        if let Some(first) = dead.first() {
            self.workers.count_crash();
            let function = self.jobs.get(first).function;
            self.attribute(now, function, &dead.served, commands);
        }
        let overdue = dead.state == State::Doomed(KillReason::Overdue);
        for (behind, index) in dead.jobs().enumerate() {
            // It cannot say what it used: no more than its budget, and what stood behind it nothing.
            let budget_us = u64::from(self.jobs.get(index).budget_us);
            let used_us = (behind == 0).then(|| now.since(dead.started).min(budget_us));
            self.settle_charge(index, used_us);
            self.recover(now, index, overdue && behind == 0, commands);
        }
        self.buried(now, id.place, &dead, commands);
        self.give_up_if_abandoned(dead.pool, commands);
        self.feed(now, dead.pool, commands);
    }

    /// The worker broke a rule that is not about which job it answers: it is killed like one that did.
    pub fn violated(&mut self, id: WorkerId, commands: &mut Commands) {
        if self.workers.living(id).is_some() {
            self.doom(id.place, KillReason::Violation, commands);
        }
    }

    /// Refuses calls of the function from now on; those that wait are answered. `crashes` is at least
    /// 1. A ban holds until [`Scheduler::lift`], also while the function is not defined.
    pub fn ban(&mut self, function: FunctionId, crashes: u32, commands: &mut Commands) -> Result<(), Misuse> {
        let limits = self.limits;
        self.functions.ensure(function, &limits)?.banned = crashes.max(1);
        self.end_at_rest(function, Outcome::Banned, commands);
        Ok(())
    }

    /// Accepts calls of the function again and forgets its crashes.
    pub fn lift(&mut self, function: FunctionId) {
        self.strikes.forget(function);
        if let Some(known) = self.functions.get_mut(function.0) {
            known.banned = 0;
        }
    }

    /// The crashes that led to the ban of a function, if it is banned.
    pub fn ban_of(&self, function: FunctionId) -> Option<u32> {
        self.functions.get(function.0).map(|known| known.banned).filter(|crashes| *crashes != 0)
    }

    /// Every banned function with the crashes that led to it.
    pub fn banned(&self) -> impl Iterator<Item = (FunctionId, u32)> + '_ {
        let banned = self.functions.iter().filter(|(_, known)| known.banned != 0);
        banned.map(|(index, known)| (FunctionId(index), known.banned))
    }

    /// Whom a death is owed to: the function that the worker ran all its life, or nobody yet.
    fn attribute(&mut self, now: Moment, function: u32, served: &Served, commands: &mut Commands) {
        if served.only() == Some(function) {
            return self.strike(now, FunctionId(function), commands);
        }
        let tenant = self.tenant_of(function);
        let of_it = |other: &u32| self.tenant_of(*other) == tenant;
        let own = self.slab_of(function) != SHARED_SLAB;
        if own || served.is_complete() && served.all().iter().all(of_it) {
            self.strikes.crash_of(now, TenantId(tenant), &self.limits);
        }
        for function in served.all() {
            self.suspect(now, *function, commands);
        }
    }

    fn tenant_of(&self, function: u32) -> u32 {
        self.queues[self.functions[function].queue].tenant
    }

    /// Ends what does not run of a function that may not go on.
    pub(crate) fn end_at_rest(&mut self, function: FunctionId, outcome: Outcome, commands: &mut Commands) {
        let of_it = |job: &Job| job.function == function.0;
        self.end_waiting(of_it, |_| outcome, commands);
        self.end_suspended(of_it, outcome, commands);
    }

    /// Lets a function run alone for a while.
    fn suspect(&mut self, now: Moment, function: u32, commands: &mut Commands) {
        let until = now.plus(self.limits.suspect_us);
        let known = self.functions[function];
        if let Some(suspect) = self.strikes.suspects.get_mut(&function) {
            suspect.until = until;
            return;
        }
        if self.stopping || known.banned != 0 || known.is_leaving() && known.open == 0 {
            return;
        }
        let slab = self.pools[known.pool].key.slab;
        let tenant = TenantId(self.tenant_of(function));
        let alone = self.pool_number(PoolKey { slab, kind: PoolKind::Alone(FunctionId(function)) });
        // Without a pool for it nothing is known of it that was not before.
        let Ok((pool, queue)) = alone.and_then(|pool| Ok((pool, self.queue(tenant, pool)?))) else { return };
        let suspect = Suspect { home_queue: known.queue, home_pool: known.pool, until };
        self.strikes.add_suspect(function, suspect);
        commands.push(Command::Suspect { function: FunctionId(function) });
        self.move_function(now, function, queue, pool, commands);
    }

    /// Moves a function to another pool of the same slab, with all that waits of it.
    pub(crate) fn move_function(
        &mut self,
        now: Moment,
        function: u32,
        queue: u32,
        pool: u32,
        commands: &mut Commands,
    ) {
        self.assign(function, queue, pool, commands);
        let of_it = |job: &Job| job.function == function;
        let waits: Vec<u32> =
            self.jobs.iter().filter(|(_, job)| job.waits() && of_it(job)).map(|(index, _)| index).collect();
        let mut taken = Vec::new();
        for index in waits {
            self.take_from_list(*self.jobs.get(index), of_it, &mut taken);
        }
        for index in taken {
            self.change_pool(index);
            if self.functions[function].phase == Phase::Resident {
                self.enqueue(now, index);
            } else {
                self.wait_for_image(index, commands);
            }
        }
        self.feed(now, pool, commands);
        self.give_up_if_abandoned(pool, commands);
    }

    /// A job that is in no list goes where its function is now.
    pub(crate) fn change_pool(&mut self, index: u32) {
        let job = self.jobs.get_mut(index);
        let (before, known) = (job.pool, &self.functions[job.function]);
        (job.queue, job.pool) = (known.queue, known.pool);
        let after = job.pool;
        self.pools.closed(before);
        self.pools.opened(after);
    }

    fn strike(&mut self, now: Moment, function: FunctionId, commands: &mut Commands) {
        let tenant = TenantId(self.tenant_of(function.0));
        if let Some(suspect) = self.strikes.suspects.get_mut(&function.0) {
            suspect.until = now.plus(self.limits.suspect_us);
        }
        if self.functions[function.0].banned != 0 {
            return;
        }
        let Some(crashes) = self.strikes.crash(now, function, tenant, &self.limits) else { return };
        self.functions[function.0].banned = crashes;
        commands.push(Command::Ban { function, crashes });
        self.end_at_rest(function, Outcome::Banned, commands);
    }

    /// Answers a job of a dead worker, or lets it wait for another worker.
    fn recover(&mut self, now: Moment, index: u32, overdue: bool, commands: &mut Commands) {
        let job = *self.jobs.get(index);
        if overdue {
            return self.finish(index, Outcome::Overdue, commands);
        }
        if self.stopping || !may_run_again(&self.functions, &job) {
            return self.finish(index, Outcome::Lost, commands);
        }
        let again = self.jobs.get_mut(index);
        again.again = true;
        again.expires = now.plus(self.limits.wait_us_max).min(job.deadline);
        self.change_pool(index);
        self.count_waiting(index);
        if self.functions[job.function].phase == Phase::Resident {
            self.enqueue(now, index);
        } else {
            self.wait_for_image(index, commands);
        }
        let pool = self.jobs.get(index).pool;
        self.feed(now, pool, commands);
    }
}

/// What has waited is not what the caller sent, and what its function left with the node is not to be had twice. Of what has not,
/// only its caller could tell two runs apart; one that made it is part of the same call.
fn may_run_again(functions: &Functions, job: &Job) -> bool {
    let known = &functions[job.function];
    let is_harmless = (known.idempotent || job.is_child) && !job.has_waited;
    is_harmless && known.banned == 0 && known.gate == Gate::Open && !job.again
}
