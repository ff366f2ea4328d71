//! The scheduler: one table of jobs, one of workers, one of generations, and the steps on them.

use std::collections::{BTreeMap, HashMap};

use crate::generation::{Generation, Phase};
use crate::strikes::Strikes;
use crate::{
    Command, FunctionId, GenerationId, JobId, KillReason, Limits, Loaded, Misuse, Moment, Outcome, Plan,
    Refusal, TenantId, WorkerId,
};

/// Retry-After never names less or more, in seconds.
const RETRY_AFTER_S: std::ops::RangeInclusive<u64> = 1..=30;

/// The dispatcher's state.
#[derive(Debug)]
pub struct Scheduler {
    limits: Limits,
    jobs: HashMap<JobId, Job>,
    workers: HashMap<WorkerId, Worker>,
    generations: BTreeMap<GenerationId, Generation>,
    strikes: Strikes,
    last_job: u64,
    last_generation: u64,
    stopping: bool,
    /// A slow average of run times, for Retry-After, in microseconds.
    run_us_average: u64,
}

/// An accepted job: it waits in one generation, or is one worker's `running`.
#[derive(Debug, Clone, Copy)]
struct Job {
    function: FunctionId,
    tenant: TenantId,
    accepted: Moment,
}

#[derive(Debug)]
struct Worker {
    generation: GenerationId,
    running: Option<Running>,
    /// Set with [`Command::Kill`]: it gets no job any more.
    doomed: Option<KillReason>,
    busy_us: u64,
}

#[derive(Debug, Clone, Copy)]
struct Running {
    job: JobId,
    started: Moment,
    backstop: Moment,
}

/// Counts for metrics and reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Snapshot {
    /// Jobs without a worker, over all generations.
    pub waiting: usize,
    /// Jobs on a worker.
    pub running: usize,
    /// Ready workers of the current generation.
    pub workers: usize,
    /// Generations that still drain.
    pub draining: usize,
    /// The generation that new calls go to.
    pub current: Option<GenerationId>,
}

impl Scheduler {
    /// An empty scheduler: it refuses every call until a generation is swapped in.
    pub fn new(limits: Limits) -> Self {
        Self {
            limits,
            jobs: HashMap::new(),
            workers: HashMap::new(),
            generations: BTreeMap::new(),
            strikes: Strikes::default(),
            last_job: 0,
            last_generation: 0,
            stopping: false,
            run_us_average: 0,
        }
    }

    /// Accepts or refuses one call of `function`.
    ///
    /// An accepted job is answered by exactly one later [`Command::Answer`]; a `Start` for it may
    /// already be among the commands returned here.
    pub fn submit(&mut self, now: Moment, function: FunctionId) -> Result<(JobId, Vec<Command>), Refusal> {
        let current = self.current().filter(|_| !self.stopping).ok_or(Refusal::NotServing)?;
        let generation = &self.generations[&current];
        let loaded = generation.function(function).ok_or(Refusal::NotLoaded)?;
        if let Some(crashes) = self.strikes.ban(function) {
            return Err(Refusal::Banned { crashes });
        }
        let idle = self.least_loaded(current);
        let full = generation.waiting.of_tenant(loaded.tenant) >= self.limits.waiting_per_tenant
            || generation.waiting.len() >= generation.waiting_max(self.limits.waiting_per_worker);
        if idle.is_none() && full {
            return Err(Refusal::QueueFull { retry_after_s: self.retry_after_s(current) });
        }

        self.last_job += 1;
        let id = JobId(self.last_job);
        let job = Job { function, tenant: loaded.tenant, accepted: now };
        self.jobs.insert(id, job);
        let mut commands = Vec::new();
        match idle {
            Some(worker) => self.start(now, worker, id, loaded, &mut commands),
            None => self.waiting_of(current, |waiting| waiting.push(job.tenant, id)),
        }
        Ok((id, commands))
    }

    /// The worker says that it has finished `job`.
    ///
    /// A worker that names a job which it does not run is killed; what it said is nobody's answer.
    pub fn completed(&mut self, now: Moment, id: WorkerId, job: JobId) -> Vec<Command> {
        let mut commands = Vec::new();
        let Some(worker) = self.workers.get_mut(&id) else { return commands };
        match worker.running {
            Some(running) if running.job == job => {
                let run_us = now.since(running.started);
                worker.running = None;
                worker.busy_us = worker.busy_us.saturating_add(run_us);
                self.run_us_average = (self.run_us_average.saturating_mul(15).saturating_add(run_us)) / 16;
                let generation = worker.generation;
                self.answer(job, Outcome::Finished, &mut commands);
                self.feed(now, generation, &mut commands);
                self.retire_if_drained(generation, &mut commands);
            }
            Some(_) | None => doom(id, worker, KillReason::Violation, &mut commands),
        }
        commands
    }

    /// The process of the worker is gone, for whatever reason.
    pub fn worker_died(&mut self, now: Moment, id: WorkerId) -> Vec<Command> {
        let mut commands = Vec::new();
        let Some(worker) = self.workers.remove(&id) else { return commands };
        if let Some(generation) = self.generations.get_mut(&worker.generation) {
            generation.workers.remove(&id);
        }
        if let Some(running) = worker.running {
            let function = self.jobs.get(&running.job).map(|job| job.function);
            let outcome = match worker.doomed {
                Some(KillReason::Overdue) => Outcome::Overdue,
                Some(KillReason::Violation) | None => Outcome::Lost,
            };
            self.answer(running.job, outcome, &mut commands);
            if let Some(function) = function {
                self.strike(now, function, &mut commands);
            }
        }
        self.give_up_if_abandoned(worker.generation, &mut commands);
        self.retire_if_drained(worker.generation, &mut commands);
        commands
    }

    /// Wall backstops and waiting limits that have passed. Call it a few times a second.
    pub fn tick(&mut self, now: Moment) -> Vec<Command> {
        let mut commands = Vec::new();
        for (id, worker) in &mut self.workers {
            if worker.running.is_some_and(|running| running.backstop <= now) {
                doom(*id, worker, KillReason::Overdue, &mut commands);
            }
        }
        let wait_us_max = self.limits.wait_us_max;
        let jobs = &self.jobs;
        let overdue = |id: JobId| jobs.get(&id).is_none_or(|job| now.since(job.accepted) >= wait_us_max);
        let mut late = Vec::new();
        for generation in self.generations.values_mut() {
            // Within a tenant the first is the oldest: nothing is late when no first is.
            if generation.waiting.fronts().any(overdue) {
                late.extend(generation.waiting.take_where(overdue));
            }
        }
        for job in late {
            self.answer(job, Outcome::WaitedTooLong, &mut commands);
        }
        self.retire_drained(&mut commands);
        commands
    }

    /// Announces a generation whose workers are being started. No call is routed to it yet.
    pub fn stage(&mut self, plan: Plan) -> GenerationId {
        self.last_generation += 1;
        let id = GenerationId(self.last_generation);
        self.generations.insert(id, Generation::staged(plan));
        id
    }

    /// A worker of the generation has loaded everything and locked itself down.
    ///
    /// `false`: the generation is gone, the worker is not wanted and must be stopped.
    pub fn worker_ready(&mut self, now: Moment, id: GenerationId, worker: WorkerId) -> (bool, Vec<Command>) {
        let mut commands = Vec::new();
        let Some(generation) = self.generations.get_mut(&id) else { return (false, commands) };
        generation.workers.insert(worker);
        let fresh = Worker { generation: id, running: None, doomed: None, busy_us: 0 };
        self.workers.insert(worker, fresh);
        self.feed(now, id, &mut commands);
        (true, commands)
    }

    /// Makes a staged generation the one that new calls go to.
    ///
    /// Jobs that wait move with it when the new generation has their function; jobs of `withdrawn`
    /// functions are answered [`Outcome::Withdrawn`]; the others are still run by the old workers,
    /// which retire when they have nothing left.
    pub fn swap(
        &mut self,
        now: Moment,
        id: GenerationId,
        withdrawn: &[FunctionId],
    ) -> Result<Vec<Command>, Misuse> {
        match self.generations.get_mut(&id) {
            Some(generation) if generation.phase == Phase::Staged => {}
            Some(_) | None => return Err(Misuse::NotStaged(id)),
        }
        let mut commands = Vec::new();
        let old = self.current();
        if let Some(generation) = self.generations.get_mut(&id) {
            generation.phase = Phase::Current;
        }
        if let Some(old) = old {
            self.drain(old);
            self.move_waiting(old, id);
            self.give_up_if_abandoned(old, &mut commands);
        }
        self.withdraw(withdrawn, &mut commands);
        self.feed(now, id, &mut commands);
        self.retire_drained(&mut commands);
        Ok(commands)
    }

    /// Gives up a staged generation whose workers could not be started.
    pub fn discard(&mut self, id: GenerationId) -> Vec<Command> {
        let mut commands = Vec::new();
        if self.generations.get(&id).is_some_and(|generation| generation.phase == Phase::Staged) {
            self.retire(id, &mut commands);
        }
        commands
    }

    /// Refuses every new call and drains what was accepted.
    pub fn stop(&mut self) -> Vec<Command> {
        self.stopping = true;
        let mut commands = Vec::new();
        let staged: Vec<_> = self.in_phase(Phase::Staged).collect();
        for id in staged {
            self.retire(id, &mut commands);
        }
        if let Some(current) = self.current() {
            self.drain(current);
            self.give_up_if_abandoned(current, &mut commands);
        }
        self.retire_drained(&mut commands);
        commands
    }

    /// Bans a function for crashes that were counted elsewhere or earlier; what waits for it is answered
    /// [`Outcome::Banned`]. No [`Command::Ban`] follows.
    pub fn ban(&mut self, function: FunctionId, crashes: u32) -> Vec<Command> {
        let mut commands = Vec::new();
        if self.strikes.hold(function, crashes) {
            self.answer_waiting(&[function], Outcome::Banned, &mut commands);
        }
        commands
    }

    /// Lifts the ban of a function, wherever it was spoken; it may crash as often again.
    pub fn lift(&mut self, function: FunctionId) {
        self.strikes.lift(function);
    }

    /// Whether every accepted job was answered.
    pub fn is_idle(&self) -> bool {
        self.jobs.is_empty()
    }

    /// Every banned function with the crashes that led to it.
    pub fn banned(&self) -> Vec<(FunctionId, u32)> {
        self.strikes.banned().collect()
    }

    /// The generation that new calls go to.
    pub fn current(&self) -> Option<GenerationId> {
        self.in_phase(Phase::Current).next()
    }

    /// Counts of the moment.
    pub fn snapshot(&self) -> Snapshot {
        let current = self.current();
        Snapshot {
            waiting: self.generations.values().map(|generation| generation.waiting.len()).sum(),
            running: self.workers.values().filter(|worker| worker.running.is_some()).count(),
            workers: current.map_or(0, |id| self.generations[&id].workers.len()),
            draining: self.in_phase(Phase::Draining).count(),
            current,
        }
    }
}

/// The leaves: each does one thing to the tables.
impl Scheduler {
    fn in_phase(&self, phase: Phase) -> impl Iterator<Item = GenerationId> + '_ {
        self.generations.iter().filter(move |(_, generation)| generation.phase == phase).map(|(id, _)| *id)
    }

    fn waiting_of<R: Default>(
        &mut self,
        id: GenerationId,
        with: impl FnOnce(&mut crate::generation::Waiting) -> R,
    ) -> R {
        self.generations.get_mut(&id).map(|generation| with(&mut generation.waiting)).unwrap_or_default()
    }

    /// The idle worker of the generation that has worked least.
    fn least_loaded(&self, id: GenerationId) -> Option<WorkerId> {
        let workers = self.generations.get(&id)?.workers.iter();
        workers
            .filter_map(|worker| self.workers.get(worker).map(|state| (*worker, state)))
            .filter(|(_, state)| state.running.is_none() && state.doomed.is_none())
            .min_by_key(|(worker, state)| (state.busy_us, *worker))
            .map(|(worker, _)| worker)
    }

    fn start(&mut self, now: Moment, id: WorkerId, job: JobId, loaded: Loaded, commands: &mut Vec<Command>) {
        if let Some(worker) = self.workers.get_mut(&id) {
            let backstop = now.plus(self.limits.backstop_us(loaded.budget.as_micros()));
            worker.running = Some(Running { job, started: now, backstop });
            commands.push(Command::Start { worker: id, job, slot: loaded.slot });
        }
    }

    /// Gives waiting jobs to idle workers until one of the two runs out.
    fn feed(&mut self, now: Moment, id: GenerationId, commands: &mut Vec<Command>) {
        if self.generations.get(&id).is_none_or(|generation| generation.phase == Phase::Staged) {
            return;
        }
        while let Some(worker) = self.least_loaded(id) {
            let Some(job) = self.waiting_of(id, |waiting| waiting.pop()) else { return };
            let function = self.jobs.get(&job).map(|job| job.function);
            match function.and_then(|function| self.generations.get(&id)?.function(function)) {
                Some(loaded) => self.start(now, worker, job, loaded, commands),
                // Cannot be: a job waits only where its function is. Were it so, it is answered.
                None => self.answer(job, Outcome::Lost, commands),
            }
        }
    }

    /// The only place where a job ends.
    fn answer(&mut self, job: JobId, outcome: Outcome, commands: &mut Vec<Command>) {
        if self.jobs.remove(&job).is_some() {
            commands.push(Command::Answer { job, outcome });
        }
    }

    fn strike(&mut self, now: Moment, function: FunctionId, commands: &mut Vec<Command>) {
        let Some(crashes) = self.strikes.crash(now, function, &self.limits) else { return };
        commands.push(Command::Ban { function, crashes });
        self.answer_waiting(&[function], Outcome::Banned, commands);
    }

    fn withdraw(&mut self, functions: &[FunctionId], commands: &mut Vec<Command>) {
        if !functions.is_empty() {
            self.answer_waiting(functions, Outcome::Withdrawn, commands);
        }
    }

    fn answer_waiting(&mut self, functions: &[FunctionId], outcome: Outcome, commands: &mut Vec<Command>) {
        let jobs = &self.jobs;
        let meant = |id: JobId| jobs.get(&id).is_some_and(|job| functions.contains(&job.function));
        let taken: Vec<JobId> = self
            .generations
            .values_mut()
            .flat_map(|generation| generation.waiting.take_where(meant))
            .collect();
        for job in taken {
            self.answer(job, outcome, commands);
        }
    }

    fn drain(&mut self, id: GenerationId) {
        if let Some(generation) = self.generations.get_mut(&id) {
            generation.phase = Phase::Draining;
        }
    }

    /// Moves what waits in `from` and is served by `to`; the order within a tenant stays.
    fn move_waiting(&mut self, from: GenerationId, to: GenerationId) {
        let Some(mut source) = self.generations.remove(&from) else { return };
        if let Some(target) = self.generations.get_mut(&to) {
            let jobs = &self.jobs;
            let moving = source
                .waiting
                .take_where(|id| jobs.get(&id).is_some_and(|job| target.function(job.function).is_some()));
            for id in moving {
                if let Some(job) = jobs.get(&id) {
                    target.waiting.push(job.tenant, id);
                }
            }
        }
        self.generations.insert(from, source);
    }

    /// A draining generation without workers can run nothing: what waits there is lost.
    fn give_up_if_abandoned(&mut self, id: GenerationId, commands: &mut Vec<Command>) {
        let abandoned = self
            .generations
            .get(&id)
            .is_some_and(|generation| generation.phase == Phase::Draining && generation.workers.is_empty());
        if abandoned {
            for job in self.waiting_of(id, |waiting| waiting.take_where(|_| true)) {
                self.answer(job, Outcome::Lost, commands);
            }
        }
    }

    fn retire_drained(&mut self, commands: &mut Vec<Command>) {
        let draining: Vec<_> = self.in_phase(Phase::Draining).collect();
        for id in draining {
            self.retire_if_drained(id, commands);
        }
    }

    fn retire_if_drained(&mut self, id: GenerationId, commands: &mut Vec<Command>) {
        let Some(generation) = self.generations.get(&id) else { return };
        let busy = generation
            .workers
            .iter()
            .any(|worker| self.workers.get(worker).is_some_and(|state| state.running.is_some()));
        if generation.phase == Phase::Draining && generation.waiting.len() == 0 && !busy {
            self.retire(id, commands);
        }
    }

    fn retire(&mut self, id: GenerationId, commands: &mut Vec<Command>) {
        let Some(generation) = self.generations.remove(&id) else { return };
        for worker in &generation.workers {
            self.workers.remove(worker);
        }
        let workers = generation.workers.into_iter().collect();
        commands.push(Command::Retire { generation: id, workers });
    }

    /// The time to work off the queue at the pace of late, in whole seconds.
    fn retry_after_s(&self, id: GenerationId) -> u32 {
        let (waiting, workers) = self
            .generations
            .get(&id)
            .map_or((0, 1), |generation| (generation.waiting.len(), generation.workers.len().max(1)));
        let us = self.run_us_average.saturating_mul(waiting as u64) / workers as u64;
        let seconds = us.div_ceil(1_000_000).clamp(*RETRY_AFTER_S.start(), *RETRY_AFTER_S.end());
        u32::try_from(seconds).unwrap_or(u32::MAX)
    }
}

fn doom(id: WorkerId, worker: &mut Worker, reason: KillReason, commands: &mut Vec<Command>) {
    if worker.doomed.is_none() {
        worker.doomed = Some(reason);
        commands.push(Command::Kill { worker: id, reason });
    }
}
