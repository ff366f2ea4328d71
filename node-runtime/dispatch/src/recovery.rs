//! Workers that come and go, what becomes of the jobs of those that died, and bans.
//!
//! The job on the core of a dead worker is the suspect: it counts as a crash of its function. It, and
//! what stood behind it, is run again only if its function says that a call may run twice, once, and
//! with nothing else in the worker, so that a second crash names one function and costs one call.

use crate::functions::{Functions, Gate};
use crate::jobs::{Job, Place};
use crate::scheduler::{Scheduler, below, doom, living};
use crate::worker::{State, Worker};
use crate::{
    Command, Commands, CordonId, FunctionId, KillReason, Misuse, Moment, Outcome, SlabId, WORKERS_CAP,
    WorkerId,
};

impl Scheduler {
    /// A worker has mapped `slab`, locked itself down and takes calls of `cordon`.
    ///
    /// One that is not wanted, because its slab or its cordon's need went away meanwhile, is told to
    /// leave; it counts as alive until [`Scheduler::worker_died`].
    pub fn worker_ready(
        &mut self,
        now: Moment,
        id: WorkerId,
        cordon: CordonId,
        slab: SlabId,
        commands: &mut Commands,
    ) -> Result<(), Misuse> {
        below("worker", u32::from(id.place), WORKERS_CAP)?;
        below("cordon", cordon.0, self.cordons.len())?;
        let place = usize::from(id.place);
        if self.workers.len() <= place {
            self.workers.resize(place + 1, Worker::EMPTY);
        }
        if self.workers[place].state != State::Empty {
            return Err(Misuse::PlaceTaken(id.place));
        }
        let state = self.state_of_new(id, cordon, slab, commands);
        let load_us = self.least_load(cordon.0);
        self.workers[place] = Worker::new(id.life, cordon.0, state, load_us);
        if state == State::Ready {
            let cordon = &mut self.cordons[cordon.0 as usize];
            cordon.members.insert(id.place);
            cordon.idle.insert(id.place);
            cordon.idle_since = now;
        }
        self.feed(now, cordon.0, commands);
        Ok(())
    }

    /// The process of the worker is gone, and what it had completed is about to be reported: it gets
    /// nothing more meanwhile. [`Scheduler::worker_died`] follows.
    pub fn worker_dying(&mut self, id: WorkerId) {
        let Some(worker) = living(&mut self.workers, id) else { return };
        match worker.state {
            // Why it was to die decides what becomes of its call.
            State::Doomed(_) | State::Empty => {}
            State::Ready | State::Replacing | State::Parking | State::Dying => worker.state = State::Dying,
        }
        let cordon = &mut self.cordons[worker.cordon as usize];
        cordon.members.remove(id.place);
        cordon.idle.remove(id.place);
    }

    /// The process of the worker is gone, for whatever reason. What it had completed was reported
    /// before with [`Scheduler::completed`].
    pub fn worker_died(&mut self, now: Moment, id: WorkerId, commands: &mut Commands) {
        let Some(worker) = living(&mut self.workers, id) else { return };
        let dead = std::mem::replace(worker, Worker::EMPTY);
        let cordon = &mut self.cordons[dead.cordon as usize];
        cordon.members.remove(id.place);
        cordon.idle.remove(id.place);
        if let Some(first) = dead.first() {
            self.crashes += 1;
            let function = FunctionId(self.jobs.get(first).function);
            self.strike(now, function, commands);
        }
        let overdue = dead.state == State::Doomed(KillReason::Overdue);
        for (behind, index) in dead.jobs().enumerate() {
            self.recover(now, index, overdue && behind == 0, commands);
        }
        self.give_up_if_abandoned(now, dead.cordon, commands);
        self.feed(now, dead.cordon, commands);
    }

    /// The worker broke a rule that is not about which job it answers: it is killed like one that did.
    pub fn violated(&mut self, id: WorkerId, commands: &mut Commands) {
        if let Some(worker) = living(&mut self.workers, id) {
            doom(id.place, worker, KillReason::Violation, &mut self.cordons, commands);
        }
    }

    /// Refuses calls of the function from now on; those that wait are answered. `crashes` is at least
    /// 1. A ban holds until [`Scheduler::lift`], also while the function is not defined.
    pub fn ban(
        &mut self,
        now: Moment,
        function: FunctionId,
        crashes: u32,
        commands: &mut Commands,
    ) -> Result<(), Misuse> {
        let limits = self.limits;
        self.functions.ensure(function, &limits)?.banned = crashes.max(1);
        self.end_waiting(now, |job| job.function == function.0, |_| Outcome::Banned, commands);
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

    fn state_of_new(&self, id: WorkerId, cordon: CordonId, slab: SlabId, commands: &mut Commands) -> State {
        if slab != self.slab {
            commands.push(Command::Replace { worker: id });
            State::Replacing
        } else if self.cordons[cordon.0 as usize].parked {
            commands.push(Command::Park { worker: id });
            State::Parking
        } else {
            State::Ready
        }
    }

    /// A replacement begins where the others are: it must not get every call until it has caught up.
    fn least_load(&self, cordon: u32) -> u64 {
        let members = self.cordons[cordon as usize].members.iter();
        members.map(|place| self.workers[usize::from(place)].load_us).min().unwrap_or(0)
    }

    fn strike(&mut self, now: Moment, function: FunctionId, commands: &mut Commands) {
        if self.functions[function.0].banned != 0 {
            return;
        }
        let Some(crashes) = self.strikes.crash(now, function, &self.limits) else { return };
        self.functions[function.0].banned = crashes;
        commands.push(Command::Ban { function, crashes });
        self.end_waiting(now, |job| job.function == function.0, |_| Outcome::Banned, commands);
    }

    /// Answers a job of a dead worker, or lets it wait for a worker of its own.
    fn recover(&mut self, now: Moment, index: u32, overdue: bool, commands: &mut Commands) {
        let job = *self.jobs.get(index);
        if overdue {
            return self.finish(now, index, Outcome::Overdue, commands);
        }
        if self.stopping || !may_run_again(&self.functions, &job) {
            return self.finish(now, index, Outcome::Lost, commands);
        }
        let again = self.jobs.get_mut(index);
        again.alone = true;
        again.expires = now.plus(self.limits.wait_us_max).min(job.deadline);
        self.count_waiting(index, commands);
        self.cordons[job.cordon as usize].again.push(&mut self.jobs, index, Place::Alone);
    }
}

/// A retired function may drain, a revoked one must not start: the two look the same here, so neither
/// runs again.
fn may_run_again(functions: &Functions, job: &Job) -> bool {
    let known = &functions[job.function];
    known.idempotent && known.banned == 0 && known.gate == Gate::Open && !job.alone
}
