//! The tables and the steps of every call: submit, start, complete, expire.

use crate::departures::Departures;
use crate::functions::{Functions, Phase};
use crate::jobs::{Job, Jobs, NONE, Place};
use crate::pool::{Pool, Pools};
use crate::room::Room;
use crate::slabs::Slabs;
use crate::strikes::Strikes;
use crate::suspended::Suspended;
use crate::turns::Queues;
use crate::waiting::Waiting;
use crate::worker::{Loan, State, Worker, Workers};
use crate::{
    Command, Commands, FunctionId, JobId, KillReason, Limits, Misuse, Moment, Outcome, PoolKey, Refusal,
    TenantId, WorkerId,
};

/// Counts of the moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Snapshot {
    /// Accepted jobs that wait for a worker or for their image.
    pub waiting: usize,
    /// Accepted jobs in workers.
    pub running: usize,
    /// Accepted jobs that wait for what they asked the node for, in no worker.
    pub suspended: usize,
    /// Workers that take jobs.
    pub workers: usize,
    /// Worker processes that are there or being started or leaving.
    pub processes: usize,
    /// Pools with workers.
    pub pools: usize,
    /// Pools of one tenant with calls that wait or run; the workers of the others sleep.
    pub pools_busy: usize,
    /// Functions that run alone because a worker died that had run them among others.
    pub suspects: usize,
    /// Functions whose image is in the slab.
    pub resident: usize,
    /// Images in the slab or on their way there, together, in bytes.
    pub resident_bytes: u64,
    /// Calls ended because they used up their budget, since the start.
    pub kills: u64,
    /// Workers that died with a call on their core, since the start.
    pub crashes: u64,
}

impl Snapshot {
    /// The counts of two schedulers together.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            waiting: self.waiting + other.waiting,
            running: self.running + other.running,
            suspended: self.suspended + other.suspended,
            workers: self.workers + other.workers,
            processes: self.processes + other.processes,
            pools: self.pools + other.pools,
            pools_busy: self.pools_busy + other.pools_busy,
            suspects: self.suspects + other.suspects,
            resident: self.resident + other.resident,
            resident_bytes: self.resident_bytes + other.resident_bytes,
            kills: self.kills + other.kills,
            crashes: self.crashes + other.crashes,
        }
    }
}

/// The node's scheduler.
#[derive(Debug)]
pub struct Scheduler {
    pub(crate) limits: Limits,
    pub(crate) jobs: Jobs,
    pub(crate) waiting: Waiting,
    pub(crate) suspended: Suspended,
    pub(crate) functions: Functions,
    pub(crate) queues: Queues,
    pub(crate) pools: Pools,
    pub(crate) workers: Workers,
    pub(crate) strikes: Strikes,
    pub(crate) room: Room,
    pub(crate) departures: Departures,
    pub(crate) slabs: Slabs,
    pub(crate) loans: Vec<Loan>,
    pub(crate) stopping: bool,
}

/// What the world says and what callers want.
impl Scheduler {
    /// A scheduler without functions and workers. Those of the shared pool are asked for with the first
    /// [`Scheduler::tick`].
    pub fn new(limits: Limits) -> Self {
        let mut scheduler = Self {
            limits,
            jobs: Jobs::default(),
            waiting: Waiting::default(),
            suspended: Suspended::default(),
            functions: Functions::default(),
            queues: Queues::default(),
            pools: Pools::default(),
            workers: Workers::default(),
            strikes: Strikes::default(),
            room: Room::default(),
            departures: Departures::default(),
            slabs: Slabs::default(),
            loans: Vec::new(),
            stopping: false,
        };
        // The first, if there is one. Without shared workers there is none to refuse.
        let _ = scheduler.pool_number(PoolKey::SHARED);
        scheduler
    }

    /// Accepts a call, or says why not. A job that waits past `deadline` is answered without running.
    #[inline]
    pub fn submit(
        &mut self,
        now: Moment,
        function: FunctionId,
        deadline: Option<Moment>,
        commands: &mut Commands,
    ) -> Result<JobId, Refusal> {
        if self.stopping {
            return Err(Refusal::NotServing);
        }
        self.accept(now, function, deadline.unwrap_or(Moment::NEVER), commands)
    }

    /// Accepts a call that an open one makes: also while the node stops, and for no longer than that one may take.
    pub fn submit_child(
        &mut self,
        now: Moment,
        parent: JobId,
        function: FunctionId,
        commands: &mut Commands,
    ) -> Result<JobId, Refusal> {
        let parent = self.jobs.find(parent).ok_or(Refusal::DeadlinePassed)?;
        let job = self.accept(now, function, self.jobs.get(parent).ends, commands)?;
        if let Some(index) = self.jobs.find(job) {
            self.jobs.get_mut(index).is_child = true;
            self.give_up_if_abandoned(self.jobs.get(index).pool, commands);
        }
        Ok(job)
    }

    #[inline]
    fn accept(
        &mut self,
        now: Moment,
        function: FunctionId,
        deadline: Moment,
        commands: &mut Commands,
    ) -> Result<JobId, Refusal> {
        let known = self.functions.get(function.0).ok_or(Refusal::NotServed)?;
        known.admits()?;
        if deadline <= now {
            return Err(Refusal::DeadlinePassed);
        }
        let job = Job {
            id: JobId(0),
            expires: deadline.min(now.plus(self.limits.wait_us_max)),
            deadline,
            ends: deadline.min(now.plus(self.limits.call_us_max)),
            function: function.0,
            queue: known.queue,
            pool: known.pool,
            budget_us: known.budget_us,
            stamp: 0,
            next: NONE,
            place: Place::InWorker,
            again: false,
            is_child: false,
            has_waited: false,
            charged_us: 0,
        };
        let resident = known.phase == Phase::Resident;
        let at_once = resident && self.pools[job.pool].queued() == 0;
        match at_once.then(|| self.choose(job.pool)).flatten() {
            Some(place) if self.jobs.has_room() => {
                let index = self.open(job);
                self.start(now, place, index, commands);
                Ok(self.jobs.get(index).id)
            }
            Some(_) | None => self.submit_waiting(now, job, resident, commands),
        }
    }

    /// The worker says that it has finished `job` in `cpu_us` of CPU time; `over_budget` when it ended it
    /// for its budget.
    ///
    /// A worker that names a job which is not on its core is killed; its output is nobody's answer.
    /// Its tenant is charged no more than the time that passed.
    #[inline]
    pub fn completed(
        &mut self,
        now: Moment,
        id: WorkerId,
        job: JobId,
        cpu_us: u64,
        over_budget: bool,
        commands: &mut Commands,
    ) {
        let Some((index, _)) = self.take_off_core(now, id, job, cpu_us, over_budget, commands) else {
            return;
        };
        let pool = self.jobs.get(index).pool;
        self.finish(index, Outcome::Finished, commands);
        self.feed_if_queued(now, pool, commands);
    }

    /// Takes the job off the worker's core that it has just answered for, and lets it begin with the next; where the job is and what
    /// it used in microseconds. Nothing where the worker is not to be believed.
    #[inline]
    pub(crate) fn take_off_core(
        &mut self,
        now: Moment,
        id: WorkerId,
        job: JobId,
        cpu_us: u64,
        over_budget: bool,
        commands: &mut Commands,
    ) -> Option<(u32, u64)> {
        let worker = self.workers.living(id)?;
        let Some(first) = worker.first().filter(|first| self.jobs.get(*first).id == job) else {
            self.doom(id.place, KillReason::Violation, commands);
            return None;
        };
        let run_us = now.since(worker.started);
        let used_us = worker.bill(run_us, cpu_us);
        worker.pop(self.jobs.get(first).budget_us);
        worker.load_us = worker.load_us.saturating_add(run_us).saturating_add(1);
        let (pool, state) = (worker.pool, worker.state);
        let next = worker.first();
        self.waiting.ran(run_us);
        self.workers.count_finished(over_budget);
        self.settle_charge(first, Some(used_us));
        let worker = self.workers.living(id)?;
        match next {
            Some(next) => worker.start(now, self.jobs.get(next).budget_us, &self.limits),
            None => {
                worker.idle_since = now;
                self.workers.rests(id.place);
                match state {
                    State::Ready => self.pools[pool].idle.insert(id.place),
                    State::Leaving => commands.push(Command::Stop { worker: id }),
                    State::Empty | State::Starting | State::Dying | State::Doomed(_) => {}
                }
            }
        }
        self.release_loans(id.place, commands);
        self.passed(id.place, 1, commands);
        Some((first, used_us))
    }

    /// After a worker of the pool has got room.
    #[inline]
    pub(crate) fn feed_if_queued(&mut self, now: Moment, pool: u32, commands: &mut Commands) {
        if self.pools[pool].queued() > 0 {
            self.feed(now, pool, commands);
        }
    }

    /// Wall backstops, waiting limits and workers whose time has come.
    pub fn tick(&mut self, now: Moment, commands: &mut Commands) {
        for at in (0..self.workers.busy().len()).rev() {
            let place = self.workers.busy()[at];
            let worker = &self.workers[place];
            if runs(worker) && worker.backstop <= now {
                self.doom(place, KillReason::Overdue, commands);
            }
        }
        if self.waiting.expiry_due() <= now {
            self.expire(now, commands);
        }
        if self.suspended.due() <= now {
            self.expire_suspended(now, commands);
        }
        if self.scaling_due() <= now {
            self.scale(now, commands);
        }
    }

    /// When [`Scheduler::tick`] has something to do if nothing else happens.
    pub fn next_deadline(&self) -> Option<Moment> {
        let busy = self.workers.busy().iter().map(|place| &self.workers[*place]);
        let backstops = busy.filter(|worker| runs(worker)).map(|worker| worker.backstop);
        let due = self.waiting.expiry_due().min(self.scaling_due()).min(self.suspended.due());
        let next = backstops.fold(due, Moment::min);
        (next != Moment::NEVER).then_some(next)
    }

    /// Refuses every new call and drains what was accepted. Where no worker is left to drain it, it
    /// is lost.
    pub fn stop(&mut self, commands: &mut Commands) {
        self.stopping = true;
        for pool in 0..self.pools.len() as u32 {
            self.give_up_if_abandoned(pool, commands);
        }
    }

    /// Whether every accepted job was answered.
    pub fn is_idle(&self) -> bool {
        self.jobs.open() == 0
    }

    /// Whether every accepted job was answered, or is suspended.
    pub fn is_at_rest(&self) -> bool {
        self.jobs.open() == self.suspended.all()
    }

    /// Counts of the moment.
    pub fn snapshot(&self) -> Snapshot {
        Snapshot {
            waiting: self.waiting.all(),
            running: self.jobs.open() - self.waiting.all() - self.suspended.all(),
            suspended: self.suspended.all(),
            workers: self.pools.ready(),
            processes: self.workers.processes(),
            pools: self.pools.manned(),
            pools_busy: self.pools.busy(),
            suspects: self.strikes.suspects.len(),
            resident: self.room.resident(),
            resident_bytes: self.room.bytes(),
            kills: self.workers.kills(),
            crashes: self.workers.crashes(),
        }
    }
}

/// The leaves: each does one thing to the tables.
impl Scheduler {
    /// The worker for the next job: the idle one that worked least, else the one with the least to do
    /// of those that take more.
    #[inline]
    pub(crate) fn choose(&self, pool: u32) -> Option<u16> {
        let pool = &self.pools[pool];
        let worker = |place: &u16| &self.workers[*place];
        if !pool.idle.is_empty() && pool.busy() < self.runs_max(pool) {
            return pool.idle.iter().min_by_key(|place| worker(place).load_us);
        }
        // A crash of a function that is watched costs one call.
        let behind = pool.members.iter().filter(|_| !pool.is_alone());
        let open = behind.filter(|place| !worker(place).is_idle() && worker(place).takes_more(&self.limits));
        open.min_by_key(|place| worker(place).budget_us)
    }

    /// Makes the job one that is owed an answer.
    #[inline]
    fn open(&mut self, job: Job) -> u32 {
        let index = self.jobs.add(job);
        let function = &mut self.functions[job.function];
        function.open += 1;
        function.used = self.jobs.sequence();
        self.pools.opened(job.pool);
        index
    }

    fn submit_waiting(
        &mut self,
        now: Moment,
        job: Job,
        resident: bool,
        commands: &mut Commands,
    ) -> Result<JobId, Refusal> {
        let tenant = self.queues[job.queue].tenant;
        if self.waiting.is_full(tenant, &self.limits) || !self.jobs.has_room() {
            let retry_after_s = self.waiting.retry_after_s(self.pools[job.pool].members.len());
            return Err(Refusal::QueueFull { retry_after_s });
        }
        let index = self.open(job);
        self.count_waiting(index);
        if resident {
            self.enqueue(now, index);
            self.feed(now, job.pool, commands);
        } else {
            self.wait_for_image(index, commands);
        }
        Ok(self.jobs.get(index).id)
    }

    /// A job begins to wait, in whatever list.
    pub(crate) fn count_waiting(&mut self, index: u32) {
        let job = self.jobs.get(index);
        self.waiting.add(self.queues[job.queue].tenant, job.expires, job.has_waited);
    }

    pub(crate) fn uncount_waiting(&mut self, index: u32) {
        let job = self.jobs.get(index);
        self.waiting.remove(self.queues[job.queue].tenant, job.has_waited);
    }

    /// Puts a job that waits at the end of its tenant's queue.
    pub(crate) fn enqueue(&mut self, now: Moment, index: u32) {
        let number = self.jobs.get(index).queue;
        let queue = &mut self.queues[number];
        queue.jobs.push(&mut self.jobs, index, Place::Queued);
        self.pools.queued(now, queue.pool);
        self.pools[queue.pool].turns.enter(number, queue);
    }

    /// A call took so much CPU time, or did not run: its tenant is charged that instead of the guess.
    pub(crate) fn settle_charge(&mut self, index: u32, used_us: Option<u64>) {
        let Job { queue: number, charged_us, .. } = *self.jobs.get(index);
        let queue = &mut self.queues[number];
        self.pools[queue.pool].turns.settle(number, queue, charged_us, used_us);
    }

    /// The next job of the tenant whose turn it is. Nothing while each that waits has all workers but one.
    fn dequeue(&mut self, number: u32) -> Option<u32> {
        let Self { pools, queues, workers, jobs, .. } = self;
        let Pool { members, turns, .. } = &mut pools[number];
        let most = if members.len() < 2 { usize::MAX } else { members.len() - 1 };
        let runs = |place: u16, queue: u32| {
            workers[place].first().is_some_and(|first| jobs.get(first).queue == queue)
        };
        let next = turns.next(|queue| members.iter().filter(|place| runs(*place, queue)).count() >= most)?;
        let queue = &mut queues[next];
        let index = queue.jobs.pop(jobs)?;
        if queue.jobs.is_empty() {
            turns.leave(next, queue);
        }
        self.pools.unqueued(number, 1);
        Some(index)
    }

    /// Gives waiting jobs to workers until one of the two runs out, and asks for a worker where there
    /// is none.
    pub(crate) fn feed(&mut self, now: Moment, pool: u32, commands: &mut Commands) {
        while self.pools[pool].queued() > 0 && self.choose(pool).is_some() {
            let Some(index) = self.dequeue(pool) else { break };
            self.start_waiting(now, pool, index, commands);
        }
        let state = &self.pools[pool];
        if state.queued() > 0 && state.workers() == 0 {
            self.want_worker(now, pool, commands);
        }
    }

    /// A job that waited has a worker: it starts, unless its time or its image is gone.
    fn start_waiting(&mut self, now: Moment, pool: u32, index: u32, commands: &mut Commands) {
        let job = *self.jobs.get(index);
        if job.expires <= now {
            self.uncount_waiting(index);
            return self.finish(index, expired(&job, now), commands);
        }
        if self.functions[job.function].phase != Phase::Resident {
            return self.wait_for_image_again(index, commands);
        }
        if let Some(place) = self.choose(pool) {
            self.uncount_waiting(index);
            self.start(now, place, index, commands);
        }
    }

    /// Puts the job into the worker's table. The caller found the worker with [`Self::choose`].
    #[inline]
    pub(crate) fn start(&mut self, now: Moment, place: u16, index: u32, commands: &mut Commands) {
        let job = self.jobs.get_mut(index);
        job.place = Place::InWorker;
        job.stamp = self.functions[job.function].stamp;
        let queue = &mut self.queues[job.queue];
        job.charged_us = self.pools[queue.pool].turns.charge(job.queue, queue);
        let worker = &mut self.workers[place];
        if worker.is_idle() {
            worker.start(now, job.budget_us, &self.limits);
            self.pools[worker.pool].idle.remove(place);
            self.workers.works(place);
        }
        let worker = &mut self.workers[place];
        worker.push(index, job.budget_us);
        worker.served.note(job.function);
        let id = WorkerId { place, life: worker.life };
        commands.push(Command::Start { worker: id, job: job.id, slot: self.functions[job.function].slot });
    }

    /// The only place where a job ends. It is in no list any more.
    #[inline]
    pub(crate) fn finish(&mut self, index: u32, outcome: Outcome, commands: &mut Commands) {
        let Job { id, function, pool, .. } = *self.jobs.get(index);
        self.jobs.remove(index);
        commands.push(Command::Answer { job: id, outcome });
        self.pools.closed(pool);
        let known = &mut self.functions[function];
        known.open -= 1;
        if known.open == 0 {
            self.settle(function, commands);
        }
    }

    /// Ends every waiting job for which `wanted` holds, in every list.
    pub(crate) fn end_waiting(
        &mut self,
        wanted: impl Fn(&Job) -> bool,
        outcome: impl Fn(&Job) -> Outcome,
        commands: &mut Commands,
    ) {
        let found = self.jobs.iter().filter(|(_, job)| job.waits() && wanted(job));
        let found: Vec<u32> = found.map(|(index, _)| index).collect();
        let mut taken = Vec::new();
        for index in found {
            self.take_from_list(*self.jobs.get(index), &wanted, &mut taken);
        }
        for index in &taken {
            self.uncount_waiting(*index);
            self.finish(*index, outcome(self.jobs.get(*index)), commands);
        }
    }

    /// Takes every wanted job out of the list that `job` is in, if it is still in one.
    pub(crate) fn take_from_list(&mut self, job: Job, wanted: impl Fn(&Job) -> bool, taken: &mut Vec<u32>) {
        let before = taken.len();
        match job.place {
            Place::Queued => {
                let queue = &mut self.queues[job.queue];
                queue.jobs.take_where(&mut self.jobs, wanted, taken);
                if queue.jobs.is_empty() {
                    self.pools[job.pool].turns.leave(job.queue, queue);
                }
                self.pools.unqueued(job.pool, taken.len() - before);
            }
            Place::Cold => {
                self.functions[job.function].cold.take_where(&mut self.jobs, wanted, taken);
            }
            Place::Free | Place::InWorker | Place::Suspended | Place::Taken => {}
        }
    }

    fn expire(&mut self, now: Moment, commands: &mut Commands) {
        self.end_waiting(|job| job.expires <= now, |job| expired(job, now), commands);
        let left = self.jobs.iter().filter(|(_, job)| job.waits()).map(|(_, job)| job.expires);
        let earliest = left.min().unwrap_or(Moment::NEVER);
        self.waiting.looked_through(now, earliest);
    }

    /// While the node stops nobody replaces workers: without one, what waits is lost.
    pub(crate) fn give_up_if_abandoned(&mut self, pool: u32, commands: &mut Commands) {
        if self.stopping && self.pools[pool].workers() == 0 {
            self.end_waiting(|job| job.pool == pool, |_| Outcome::Lost, commands);
        }
    }

    /// The queue of a tenant in a pool, made if there is none yet.
    pub(crate) fn queue(&mut self, tenant: TenantId, pool: u32) -> Result<u32, Misuse> {
        if let Some(queue) = self.queues.find(tenant, pool) {
            return Ok(queue);
        }
        below("tenant", tenant.0, self.limits.tenants_max)?;
        self.waiting.ensure_tenant(tenant.0);
        Ok(self.queues.add(tenant, pool))
    }
}

/// Names and numbers of a table, for [`Misuse::TooMany`].
pub(crate) fn below(what: &'static str, number: u32, limit: usize) -> Result<(), Misuse> {
    if (number as usize) < limit {
        return Ok(());
    }
    Err(Misuse::TooMany { what, number: u64::from(number), limit: limit as u64 })
}

/// Whether something runs there that a backstop can still end.
fn runs(worker: &Worker) -> bool {
    !worker.is_idle() && matches!(worker.state, State::Ready | State::Leaving)
}

fn expired(job: &Job, now: Moment) -> Outcome {
    if job.ends <= now { job.end_at(now) } else { Outcome::WaitedTooLong }
}
