//! The tables and the steps of every call: submit, start, complete, expire.

use std::collections::BTreeMap;

use crate::cordon::{Cordon, Queue};
use crate::functions::{Functions, Phase};
use crate::jobs::{Job, Jobs, NONE, Place};
use crate::residency::Room;
use crate::strikes::Strikes;
use crate::worker::{State, Worker};
use crate::{
    Command, Commands, CordonId, FunctionId, JobId, KillReason, Limits, Misuse, Moment, Outcome, Refusal,
    SlabId, TenantId, WorkerId,
};

/// Bounds of what a refused caller is told to wait, in seconds.
const RETRY_AFTER_S: std::ops::RangeInclusive<u64> = 1..=30;
/// What waits is looked through at most once in this time, in microseconds: callers choose deadlines,
/// and must not choose how often that costs.
const EXPIRY_PAUSE_US: u64 = 1_000;

/// Counts of the moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Snapshot {
    /// Accepted jobs that wait for a worker or for their image.
    pub waiting: usize,
    /// Accepted jobs in workers.
    pub running: usize,
    /// Workers that take jobs.
    pub workers: usize,
    /// Functions whose image is in the slab.
    pub resident: usize,
    /// Images in the slab or on their way there, together, in bytes.
    pub resident_bytes: u64,
    /// Calls ended because they used up their budget, since the start.
    pub kills: u64,
    /// Workers that died with a call on their core, since the start.
    pub crashes: u64,
}

/// The node's scheduler.
#[derive(Debug)]
pub struct Scheduler {
    pub(crate) limits: Limits,
    pub(crate) jobs: Jobs,
    pub(crate) functions: Functions,
    pub(crate) queues: Vec<Queue>,
    queue_of: BTreeMap<(TenantId, CordonId), u32>,
    /// Jobs that wait, by tenant.
    tenants: Vec<u32>,
    pub(crate) cordons: Vec<Cordon>,
    pub(crate) workers: Vec<Worker>,
    pub(crate) strikes: Strikes,
    pub(crate) room: Room,
    pub(crate) slab: SlabId,
    /// Jobs that wait.
    waiting: usize,
    /// No job that waits expires before this.
    earliest: Moment,
    expired_at: Moment,
    run_us_average: u64,
    pub(crate) kills: u64,
    pub(crate) crashes: u64,
    pub(crate) stopping: bool,
}

/// What the world says and what callers want.
impl Scheduler {
    /// A scheduler without functions and workers. The first slab is `SlabId(0)`.
    pub fn new(limits: Limits) -> Self {
        Self {
            limits,
            jobs: Jobs::default(),
            functions: Functions::default(),
            queues: Vec::new(),
            queue_of: BTreeMap::new(),
            tenants: Vec::new(),
            cordons: vec![Cordon::new(false)],
            workers: Vec::new(),
            strikes: Strikes::default(),
            room: Room::default(),
            slab: SlabId(0),
            waiting: 0,
            earliest: Moment::NEVER,
            expired_at: Moment(0),
            run_us_average: 0,
            kills: 0,
            crashes: 0,
            stopping: false,
        }
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
        let known = self.functions.get(function.0).ok_or(Refusal::NotServed)?;
        known.admits()?;
        let deadline = deadline.unwrap_or(Moment::NEVER);
        if deadline <= now {
            return Err(Refusal::DeadlinePassed);
        }
        let job = Job {
            id: JobId(0),
            expires: deadline.min(now.plus(self.limits.wait_us_max)),
            deadline,
            function: function.0,
            queue: known.queue,
            cordon: known.cordon,
            budget_us: known.budget_us,
            next: NONE,
            place: Place::InWorker,
            alone: false,
        };
        let resident = known.phase == Phase::Resident;
        let at_once = resident && self.cordons[job.cordon as usize].nothing_waits();
        match at_once.then(|| self.choose(job.cordon)).flatten() {
            Some(place) if self.jobs.has_room() => {
                let index = self.open(job);
                self.start(now, place, index, commands);
                Ok(self.jobs.get(index).id)
            }
            Some(_) | None => self.submit_waiting(job, resident, commands),
        }
    }

    /// The worker says that it has finished `job`; `over_budget` when it ended it for its budget.
    ///
    /// A worker that names a job which is not on its core is killed; what it said is nobody's answer.
    #[inline]
    pub fn completed(
        &mut self,
        now: Moment,
        id: WorkerId,
        job: JobId,
        over_budget: bool,
        commands: &mut Commands,
    ) {
        let Some(worker) = living(&mut self.workers, id) else { return };
        let Some(first) = worker.first().filter(|first| self.jobs.get(*first).id == job) else {
            return doom(id.place, worker, KillReason::Violation, &mut self.cordons, commands);
        };
        let run_us = now.since(worker.started);
        worker.pop(self.jobs.get(first).budget_us);
        worker.load_us = worker.load_us.saturating_add(run_us).saturating_add(1);
        worker.alone = false;
        self.run_us_average = self.run_us_average.saturating_mul(15).saturating_add(run_us) / 16;
        self.kills += u64::from(over_budget);
        let (cordon, state) = (worker.cordon, worker.state);
        match worker.first() {
            Some(next) => worker.start(now, self.jobs.get(next).budget_us, &self.limits),
            None if state == State::Ready => self.cordons[cordon as usize].idle.insert(id.place),
            None if state == State::Replacing => commands.push(Command::Replace { worker: id }),
            None => {}
        }
        self.finish(now, first, Outcome::Finished, commands);
        if !self.cordons[cordon as usize].nothing_waits() {
            self.feed(now, cordon, commands);
        }
    }

    /// Wall backstops, waiting limits and idle cordons whose time has come.
    pub fn tick(&mut self, now: Moment, commands: &mut Commands) {
        for place in 0..self.workers.len() {
            let worker = &mut self.workers[place];
            if runs(worker) && worker.backstop <= now {
                doom(place as u16, worker, KillReason::Overdue, &mut self.cordons, commands);
            }
        }
        if self.expiry_due() <= now {
            self.expire(now, commands);
        }
        self.park_idle(now, commands);
    }

    /// When [`Scheduler::tick`] has something to do if nothing else happens.
    pub fn next_deadline(&self) -> Option<Moment> {
        let backstops = self.workers.iter().filter(|worker| runs(worker)).map(|worker| worker.backstop);
        let parking = self.cordons.iter().skip(1).filter(|cordon| parks(cordon));
        let parking = parking.map(|cordon| cordon.park_due(self.limits.park_after_us));
        let next = backstops.chain(parking).fold(self.expiry_due(), Moment::min);
        (next != Moment::NEVER).then_some(next)
    }

    /// Refuses every new call and drains what was accepted. Where no worker is left to drain it, it
    /// is lost.
    pub fn stop(&mut self, now: Moment, commands: &mut Commands) {
        self.stopping = true;
        for cordon in 0..self.cordons.len() as u32 {
            self.give_up_if_abandoned(now, cordon, commands);
        }
    }

    /// Whether every accepted job was answered.
    pub fn is_idle(&self) -> bool {
        self.jobs.open() == 0
    }

    /// Counts of the moment.
    pub fn snapshot(&self) -> Snapshot {
        Snapshot {
            waiting: self.waiting,
            running: self.jobs.open() - self.waiting,
            workers: self.cordons.iter().map(|cordon| cordon.members.len()).sum(),
            resident: self.room.resident(),
            resident_bytes: self.room.bytes(),
            kills: self.kills,
            crashes: self.crashes,
        }
    }
}

/// The leaves: each does one thing to the tables.
impl Scheduler {
    /// The worker for the next job: the idle one that worked least, else the one with the least to do
    /// of those that take more.
    #[inline]
    fn choose(&self, cordon: u32) -> Option<u16> {
        let cordon = &self.cordons[cordon as usize];
        let worker = |place: &u16| &self.workers[usize::from(*place)];
        if !cordon.idle.is_empty() {
            return cordon.idle.iter().min_by_key(|place| worker(place).load_us);
        }
        let open = cordon.members.iter().filter(|place| worker(place).takes_more(&self.limits));
        open.min_by_key(|place| worker(place).budget_us)
    }

    /// Makes the job one that is owed an answer.
    #[inline]
    fn open(&mut self, job: Job) -> u32 {
        let index = self.jobs.add(job);
        let function = &mut self.functions[job.function];
        function.open += 1;
        function.used = self.jobs.sequence();
        self.cordons[job.cordon as usize].open += 1;
        index
    }

    fn submit_waiting(
        &mut self,
        job: Job,
        resident: bool,
        commands: &mut Commands,
    ) -> Result<JobId, Refusal> {
        let tenant = self.queues[job.queue as usize].tenant;
        let share_full = self.tenants[tenant as usize] as usize >= self.limits.waiting_per_tenant;
        if share_full || self.waiting >= self.limits.waiting_max || !self.jobs.has_room() {
            return Err(Refusal::QueueFull { retry_after_s: self.retry_after_s(job.cordon) });
        }
        let index = self.open(job);
        self.count_waiting(index, commands);
        if resident {
            self.enqueue(index);
        } else {
            self.wait_for_image(index, commands);
        }
        Ok(self.jobs.get(index).id)
    }

    /// A job begins to wait, in whatever list.
    pub(crate) fn count_waiting(&mut self, index: u32, commands: &mut Commands) {
        let job = self.jobs.get(index);
        self.waiting += 1;
        self.tenants[self.queues[job.queue as usize].tenant as usize] += 1;
        self.earliest = self.earliest.min(job.expires);
        let cordon = &mut self.cordons[job.cordon as usize];
        if std::mem::replace(&mut cordon.parked, false) {
            commands.push(Command::Unpark { cordon: CordonId(job.cordon) });
        }
    }

    fn uncount_waiting(&mut self, index: u32) {
        self.waiting -= 1;
        self.tenants[self.queues[self.jobs.get(index).queue as usize].tenant as usize] -= 1;
    }

    /// Puts a job that waits at the end of its tenant's queue.
    pub(crate) fn enqueue(&mut self, index: u32) {
        let number = self.jobs.get(index).queue;
        let queue = &mut self.queues[number as usize];
        queue.jobs.push(&mut self.jobs, index, Place::Queued);
        let cordon = &mut self.cordons[queue.cordon as usize];
        cordon.queued += 1;
        if !std::mem::replace(&mut queue.in_turn, true) {
            cordon.turn.push_back(number);
        }
    }

    /// The next job of the tenant whose turn it is.
    fn dequeue(&mut self, cordon: u32) -> Option<u32> {
        let cordon = &mut self.cordons[cordon as usize];
        while let Some(number) = cordon.turn.pop_front() {
            let queue = &mut self.queues[number as usize];
            let index = queue.jobs.pop(&self.jobs);
            queue.in_turn = !queue.jobs.is_empty();
            if queue.in_turn {
                cordon.turn.push_back(number);
            }
            if let Some(index) = index {
                cordon.queued -= 1;
                return Some(index);
            }
        }
        None
    }

    /// Gives waiting jobs to workers until one of the two runs out.
    pub(crate) fn feed(&mut self, now: Moment, cordon: u32, commands: &mut Commands) {
        loop {
            let state = &mut self.cordons[cordon as usize];
            if !state.again.is_empty() {
                // Whoever runs again needs a worker for itself: nothing is put behind anything
                // until one is idle.
                if state.idle.is_empty() {
                    return;
                }
                if let Some(index) = state.again.pop(&self.jobs) {
                    self.start_waiting(now, cordon, index, commands);
                }
            } else if state.queued == 0 || self.choose(cordon).is_none() {
                return;
            } else if let Some(index) = self.dequeue(cordon) {
                self.start_waiting(now, cordon, index, commands);
            }
        }
    }

    /// A job that waited has a worker: it starts, unless its time or its image is gone.
    fn start_waiting(&mut self, now: Moment, cordon: u32, index: u32, commands: &mut Commands) {
        let job = *self.jobs.get(index);
        if job.expires <= now {
            self.uncount_waiting(index);
            return self.finish(now, index, expired(&job, now), commands);
        }
        if self.functions[job.function].phase != Phase::Resident {
            return self.wait_for_image_again(now, index, commands);
        }
        if let Some(place) = self.choose(cordon) {
            self.uncount_waiting(index);
            self.start(now, place, index, commands);
        }
    }

    /// Puts the job into the worker's table. The caller found the worker with [`Self::choose`].
    #[inline]
    fn start(&mut self, now: Moment, place: u16, index: u32, commands: &mut Commands) {
        let job = self.jobs.get_mut(index);
        job.place = Place::InWorker;
        let worker = &mut self.workers[usize::from(place)];
        if worker.is_idle() {
            worker.start(now, job.budget_us, &self.limits);
            worker.alone = job.alone;
            self.cordons[worker.cordon as usize].idle.remove(place);
        }
        worker.push(index, job.budget_us);
        let id = WorkerId { place, life: worker.life };
        commands.push(Command::Start { worker: id, job: job.id, slot: self.functions[job.function].slot });
    }

    /// The only place where a job ends. It is in no list any more.
    #[inline]
    pub(crate) fn finish(&mut self, now: Moment, index: u32, outcome: Outcome, commands: &mut Commands) {
        let Job { id, function, cordon, .. } = *self.jobs.get(index);
        self.jobs.remove(index);
        commands.push(Command::Answer { job: id, outcome });
        let cordon = &mut self.cordons[cordon as usize];
        cordon.open -= 1;
        cordon.idle_since = now;
        let known = &mut self.functions[function];
        known.open -= 1;
        if known.open == 0 {
            self.settle(function, commands);
        }
    }

    /// Ends every waiting job for which `wanted` holds, in every list.
    pub(crate) fn end_waiting(
        &mut self,
        now: Moment,
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
            self.finish(now, *index, outcome(self.jobs.get(*index)), commands);
        }
        // Jobs that run again hold others back; without them there may be room.
        for cordon in 0..self.cordons.len() as u32 {
            if !taken.is_empty() {
                self.feed(now, cordon, commands);
            }
        }
    }

    /// Takes every wanted job out of the list that `job` is in, if it is still in one.
    fn take_from_list(&mut self, job: Job, wanted: impl Fn(&Job) -> bool, taken: &mut Vec<u32>) {
        let before = taken.len();
        let cordon = &mut self.cordons[job.cordon as usize];
        match job.place {
            Place::Queued => {
                self.queues[job.queue as usize].jobs.take_where(&mut self.jobs, wanted, taken);
                cordon.queued -= taken.len() - before;
            }
            Place::Cold => {
                self.functions[job.function].cold.take_where(&mut self.jobs, wanted, taken);
            }
            Place::Alone => cordon.again.take_where(&mut self.jobs, wanted, taken),
            Place::Free | Place::InWorker | Place::Taken => {}
        }
    }

    /// When what waits is looked through next.
    fn expiry_due(&self) -> Moment {
        if self.waiting == 0 {
            return Moment::NEVER;
        }
        self.earliest.max(self.expired_at.plus(EXPIRY_PAUSE_US))
    }

    fn expire(&mut self, now: Moment, commands: &mut Commands) {
        self.expired_at = now;
        self.end_waiting(now, |job| job.expires <= now, |job| expired(job, now), commands);
        let left = self.jobs.iter().filter(|(_, job)| job.waits()).map(|(_, job)| job.expires);
        self.earliest = left.min().unwrap_or(Moment::NEVER);
    }

    fn park_idle(&mut self, now: Moment, commands: &mut Commands) {
        for cordon in self.cordons.iter_mut().skip(1) {
            let due = cordon.park_due(self.limits.park_after_us) <= now;
            if !parks(cordon) || !due {
                continue;
            }
            cordon.parked = true;
            for place in cordon.members.iter() {
                let worker = &mut self.workers[usize::from(place)];
                worker.state = State::Parking;
                commands.push(Command::Park { worker: WorkerId { place, life: worker.life } });
            }
            cordon.members = Default::default();
            cordon.idle = Default::default();
        }
    }

    /// While the node stops nobody replaces workers: without one, what waits is lost.
    pub(crate) fn give_up_if_abandoned(&mut self, now: Moment, cordon: u32, commands: &mut Commands) {
        if self.stopping && self.cordons[cordon as usize].members.is_empty() {
            self.end_waiting(now, |job| job.cordon == cordon, |_| Outcome::Lost, commands);
        }
    }

    /// The queue of a tenant in a cordon, made if there is none yet.
    pub(crate) fn queue(&mut self, tenant: TenantId, cordon: CordonId) -> Result<u32, Misuse> {
        if let Some(queue) = self.queue_of.get(&(tenant, cordon)) {
            return Ok(*queue);
        }
        below("tenant", tenant.0, self.limits.tenants_max)?;
        below("cordon", cordon.0, self.limits.cordons_max)?;
        let (tenants, cordons) = (tenant.0 as usize + 1, cordon.0 as usize + 1);
        if self.tenants.len() < tenants {
            self.tenants.resize(tenants, 0);
        }
        while self.cordons.len() < cordons {
            self.cordons.push(Cordon::new(true));
        }
        let number = self.queues.len() as u32;
        let jobs = Default::default();
        self.queues.push(Queue { tenant: tenant.0, cordon: cordon.0, jobs, in_turn: false });
        self.queue_of.insert((tenant, cordon), number);
        Ok(number)
    }

    /// The time to work off the queue at the pace of late, in whole seconds.
    fn retry_after_s(&self, cordon: u32) -> u32 {
        let workers = self.cordons[cordon as usize].members.len().max(1) as u64;
        let us = self.run_us_average.saturating_mul(self.waiting as u64) / workers;
        let seconds = us.div_ceil(1_000_000).clamp(*RETRY_AFTER_S.start(), *RETRY_AFTER_S.end());
        u32::try_from(seconds).unwrap_or(u32::MAX)
    }
}

/// Names and numbers of a table, for [`Misuse::TooMany`].
pub(crate) fn below(what: &'static str, number: u32, limit: usize) -> Result<(), Misuse> {
    if (number as usize) < limit {
        return Ok(());
    }
    Err(Misuse::TooMany { what, number: u64::from(number), limit: limit as u64 })
}

/// The record of a worker, if that life of it is not over.
pub(crate) fn living(workers: &mut [Worker], id: WorkerId) -> Option<&mut Worker> {
    let worker = workers.get_mut(usize::from(id.place))?;
    (worker.life == id.life && worker.state != State::Empty).then_some(worker)
}

/// Whether something runs there that a backstop can still end.
fn runs(worker: &Worker) -> bool {
    !worker.is_idle() && matches!(worker.state, State::Ready | State::Replacing)
}

/// Whether its workers are kept for nobody.
fn parks(cordon: &Cordon) -> bool {
    !cordon.parked && cordon.open == 0 && !cordon.members.is_empty()
}

fn expired(job: &Job, now: Moment) -> Outcome {
    if job.deadline <= now { Outcome::DeadlinePassed } else { Outcome::WaitedTooLong }
}

/// Lets the worker take nothing more and orders its end, once.
pub(crate) fn doom(
    place: u16,
    worker: &mut Worker,
    reason: KillReason,
    cordons: &mut [Cordon],
    commands: &mut Commands,
) {
    if let State::Doomed(_) = worker.state {
        return;
    }
    worker.state = State::Doomed(reason);
    let cordon = &mut cordons[worker.cordon as usize];
    cordon.members.remove(place);
    cordon.idle.remove(place);
    commands.push(Command::Kill { worker: WorkerId { place, life: worker.life }, reason });
}
