//! The world around the scheduler in the simulation: processes, slabs, the loader, and what was
//! promised. It knows only the promises and asserts them with every command.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::super::{
    Command, Commands, FunctionId, JobId, Limits, Loaded, Moment, Outcome, PoolKey, PoolKind, SHARED_SLAB,
    SlabId, WorkerId,
};

/// What was promised to a caller.
#[derive(Debug, Clone, Copy)]
pub(super) struct Promise {
    pub(super) function: FunctionId,
    /// When it was accepted, and since when it waits.
    pub(super) accepted: Moment,
    pub(super) since: Moment,
    pub(super) deadline: Option<Moment>,
    pub(super) budget_us: u64,
    pub(super) starts: u32,
    /// How often it went to a worker: what goes on there is not what was there before.
    pub(super) runs: u32,
    pub(super) rest: Rest,
}

/// Whether a call is or was suspended, and in which image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Rest {
    Never,
    Suspended(SlabId, u32),
    /// It may go on, and has not begun to.
    Resumed(SlabId, u32),
    /// It goes on.
    Over,
}

/// A worker process.
#[derive(Debug, Clone)]
pub(super) struct Process {
    pub(super) id: WorkerId,
    pub(super) pool: PoolKey,
    pub(super) slab: SlabId,
    pub(super) jobs: VecDeque<(JobId, u32)>,
    /// It was asked for and has not said yet that it is there.
    pub(super) starting: bool,
    /// Takes nothing any more.
    pub(super) leaves: bool,
    pub(super) killed: bool,
    pub(super) ran: BTreeSet<FunctionId>,
    /// Slots of functions that the first of its jobs may call.
    pub(super) loans: BTreeSet<u32>,
}

/// A call in a worker, and which run of it.
type At = (WorkerId, JobId, u32);

/// A slot that an image leaves or left.
#[derive(Debug)]
pub(super) struct Left {
    /// The calls that workers of the slab had when it was decided.
    decided: BTreeSet<At>,
    /// The same when the loader put the traps there: each may have jumped into the image before, also one that
    /// stood behind another, since an end is told later than it is.
    inside: Option<BTreeSet<At>>,
    /// The scheduler was told that the traps stand.
    told: bool,
}

#[derive(Default)]
pub(super) struct World {
    pub(super) limits: Option<Limits>,
    pub(super) now: Moment,
    pub(super) open: BTreeMap<JobId, Promise>,
    pub(super) processes: BTreeMap<u16, Process>,
    lives: BTreeMap<u16, u32>,
    /// What lies in each slot of each life of a slab.
    pub(super) slabs: BTreeMap<(SlabId, u32), FunctionId>,
    /// Slots that an image leaves and that were not reclaimed.
    pub(super) left: BTreeMap<(SlabId, u32), Left>,
    /// What the loader has unloaded and not told yet.
    pub(super) unloaded: VecDeque<(SlabId, u32)>,
    /// The life of each slab that a command has named, and the least that the next one may have.
    pub(super) current: BTreeMap<u32, SlabId>,
    next_life: BTreeMap<u32, u32>,
    pub(super) loader: VecDeque<Command>,
    /// The commands of a loader when it died.
    pub(super) stale: Vec<Command>,
    pub(super) defined: BTreeMap<FunctionId, Loaded>,
    pub(super) banned: BTreeSet<FunctionId>,
    /// The only function that the worker which is being buried ever ran, if it was on its core.
    pub(super) author: Option<FunctionId>,
    /// Crashes of workers that ran one function, or those of one tenant, alone.
    own_crashes: BTreeMap<FunctionId, u32>,
    tenant_crashes: BTreeMap<u32, Vec<Moment>>,
    /// The job that a completion is being reported of.
    pub(super) completing: Option<JobId>,
    /// The job that is being suspended, and in which image.
    pub(super) suspending: Option<(JobId, SlabId, u32)>,
    /// The job that the node gives up.
    pub(super) stuck: Option<JobId>,
    pub(super) outcomes: BTreeMap<String, u64>,
}

impl World {
    pub(super) fn new(limits: Limits) -> Self {
        Self { limits: Some(limits), ..Self::default() }
    }

    pub(super) fn limits(&self) -> Limits {
        self.limits.expect("set at the start")
    }

    pub(super) fn count(&mut self, what: &str) {
        match self.outcomes.get_mut(what) {
            Some(count) => *count += 1,
            None => drop(self.outcomes.insert(what.to_owned(), 1)),
        }
    }

    pub(super) fn execute(&mut self, commands: &mut Commands) {
        for command in commands.drain(..) {
            match command {
                Command::Start { worker, job, slot } => self.started(worker, job, slot),
                Command::Answer { job, outcome } => self.answered(job, outcome),
                Command::Kill { worker, .. } => {
                    let process = self.process(worker);
                    (process.leaves, process.killed) = (true, true);
                }
                Command::Spawn { worker, pool, slab } => self.spawned(worker, pool, slab),
                Command::Stop { worker } => self.stopped(worker),
                Command::Load { function, slab } => {
                    self.is_known(slab);
                    assert_eq!(slab.number, self.slab_of(function));
                    self.loader.push_back(command);
                }
                Command::Unload { function, slot, slab } => self.unload(command, function, slot, slab),
                Command::Reclaim { slot, slab } => self.reclaimed(command, slot, slab),
                Command::CloseSlab { slab } => self.closed(command, slab),
                Command::Suspect { function } => {
                    assert!(!self.banned.contains(&function));
                    self.count("Suspect");
                }
                Command::Ban { function, crashes } => self.ban(function, crashes),
            }
        }
    }

    pub(super) fn process(&mut self, worker: WorkerId) -> &mut Process {
        let process = self.processes.get_mut(&worker.place).expect("commands go to the living");
        assert_eq!(process.id, worker);
        process
    }

    fn slab_of(&self, function: FunctionId) -> u32 {
        self.defined[&function].pool.slab
    }

    /// A slab is one and the same until it is closed or its loader dies.
    fn is_known(&mut self, slab: SlabId) {
        let least = self.next_life.get(&slab.number).copied().unwrap_or(0);
        assert!(slab.life >= least, "{slab:?} is gone");
        assert_eq!(*self.current.entry(slab.number).or_insert(slab), slab);
    }

    /// The loader is gone, and its commands.
    pub(super) fn renewed(&mut self) {
        for (number, slab) in std::mem::take(&mut self.current) {
            self.next_life.insert(number, slab.life + 1);
        }
        self.stale = self.loader.drain(..).collect();
        self.count("Renew");
    }

    fn spawned(&mut self, id: WorkerId, pool: PoolKey, slab: SlabId) {
        self.is_known(slab);
        assert_eq!(pool.slab, slab.number);
        let last = self.lives.insert(id.place, id.life);
        assert!(last.is_none_or(|last| last < id.life), "news of the dead are told from news of the living");
        let (jobs, ran, starting, leaves, killed) = (VecDeque::new(), BTreeSet::new(), true, false, false);
        let loans = BTreeSet::new();
        let process = Process { id, pool, slab, jobs, starting, leaves, killed, ran, loans };
        assert!(self.processes.insert(id.place, process).is_none(), "one worker at a place");
        assert!(self.processes.len() <= self.limits().workers_max);
        self.count(&format!("Spawn {}", if pool.is_shared() { "shared" } else { kind(pool.kind) }));
    }

    fn stopped(&mut self, worker: WorkerId) {
        let process = self.process(worker);
        assert!(process.jobs.is_empty(), "who is asked to leave has nothing to do");
        assert!(!process.starting && !process.leaves, "it is asked once");
        process.leaves = true;
        self.count("Stop");
    }

    fn started(&mut self, worker: WorkerId, job: JobId, slot: u32) {
        let promise = self.open.get_mut(&job).expect("only what is owed an answer starts");
        promise.runs += 1;
        match promise.rest {
            Rest::Never => promise.starts += 1,
            Rest::Resumed(..) => {}
            Rest::Suspended(..) | Rest::Over => panic!("{job:?} starts, and was suspended: {promise:?}"),
        }
        let Promise { function, deadline, starts, rest, .. } = *promise;
        if rest != Rest::Never {
            promise.rest = Rest::Over;
        }
        let loaded = self.defined[&function];
        assert!(deadline.is_none_or(|deadline| deadline > self.now), "not after its deadline");
        assert!(!self.banned.contains(&function), "a banned function is never started");
        assert!(starts == 1 || starts == 2 && loaded.idempotent, "{starts} starts");
        let process = &self.processes[&worker.place];
        assert_eq!(self.slabs.get(&(process.slab, slot)), Some(&function), "the image is the function's");
        let goes_on = matches!(rest, Rest::Resumed(..));
        assert!(
            !goes_on || rest == Rest::Resumed(process.slab, slot),
            "it goes on in its own image: {rest:?}"
        );
        assert_eq!(self.current.get(&process.slab.number), Some(&process.slab), "and of now");
        assert_eq!(process.pool.slab, loaded.pool.slab);
        if process.pool.slab != SHARED_SLAB {
            assert_eq!(process.pool.slab, loaded.tenant.0 + 1, "no tenant runs in another's process");
        }
        if let PoolKind::Alone(alone) = process.pool.kind {
            assert_eq!(alone, function);
            assert!(process.jobs.is_empty(), "a crash costs it one call");
        }
        assert!(!process.leaves && !process.starting, "{worker:?} takes nothing");
        if !process.jobs.is_empty() {
            self.behind(worker);
        }
        let process = self.process(worker);
        process.jobs.push_back((job, slot));
        process.ran.insert(function);
        self.count(if goes_on { "Start resumed" } else { "Start" });
    }

    /// A call is put behind another.
    fn behind(&mut self, worker: WorkerId) {
        let process = &self.processes[&worker.place];
        let idle = self.processes.values().any(|other| {
            other.pool == process.pool && !other.leaves && !other.starting && other.jobs.is_empty()
        });
        assert!(!idle || !process.pool.is_shared(), "nobody is put behind another while a worker idles");
        assert!(process.jobs.len() < self.limits().in_worker_max);
        let ahead: u64 = process.jobs.iter().map(|(job, _)| self.open[job].budget_us).sum();
        assert!(ahead < self.limits().pipeline_budget_us_max, "nobody sits behind a long call");
        self.count("Behind");
    }

    fn answered(&mut self, job: JobId, outcome: Outcome) {
        let promise = self.open.remove(&job).unwrap_or_else(|| panic!("{job:?} again: {outcome:?}"));
        let at_suspension = self.suspending.take_if(|(suspending, ..)| *suspending == job).is_some();
        let ends = promise.accepted.plus(self.limits().call_us_max);
        match outcome {
            Outcome::OverBudget | Outcome::TooManySuspended => assert!(at_suspension),
            Outcome::TookTooLong => {
                assert!(ends <= self.now);
                assert!(!self.is_in_a_worker(job));
            }
            Outcome::Stuck => assert_eq!(self.stuck.take(), Some(job), "only when the node says so"),
            Outcome::Finished => assert_eq!(self.completing.take(), Some(job), "only when it completed"),
            Outcome::DeadlinePassed => {
                assert!(promise.deadline.expect("it has one") <= self.now);
                assert!(!self.is_in_a_worker(job), "it did not start");
            }
            Outcome::WaitedTooLong => {
                assert!(self.now.since(promise.since) >= self.limits().wait_us_max);
                assert!(!self.is_in_a_worker(job));
            }
            Outcome::Withdrawn | Outcome::Banned | Outcome::LoadFailed => {
                assert!(!self.is_in_a_worker(job));
            }
            Outcome::Lost | Outcome::Overdue => assert!(!self.is_in_a_worker(job), "its worker is gone"),
        }
        let again = if promise.starts == 2 { " again" } else { "" };
        let rest = match promise.rest {
            _ if at_suspension => " at suspension",
            Rest::Suspended(..) => " suspended",
            Rest::Resumed(..) => " resumed",
            Rest::Never | Rest::Over => "",
        };
        self.count(&format!("{outcome:?}{again}{rest}"));
    }

    pub(super) fn is_in_a_worker(&self, job: JobId) -> bool {
        self.processes.values().any(|process| process.jobs.iter().any(|(other, _)| *other == job))
    }

    /// What was done is over: who was not answered when it was to be suspended is.
    pub(super) fn suspend(&mut self) {
        if let Some((job, slab, slot)) = self.suspending.take() {
            self.open.get_mut(&job).expect("it is owed").rest = Rest::Suspended(slab, slot);
            self.count("Suspended");
        }
    }

    fn unload(&mut self, command: Command, function: FunctionId, slot: u32, slab: SlabId) {
        assert_eq!(self.current.get(&slab.number), Some(&slab));
        assert_eq!(self.slabs.get(&(slab, slot)), Some(&function));
        let used = self.processes.values().filter(|process| process.slab == slab).any(|process| {
            process.jobs.iter().any(|(_, other)| *other == slot) || process.loans.contains(&slot)
        });
        assert!(!used, "nothing is unloaded under a call");
        assert!(self.open.values().all(|promise| promise.function != function), "or before one");
        let left = Left { decided: self.calls_in(slab), inside: None, told: false };
        assert!(self.left.insert((slab, slot), left).is_none(), "it left once");
        self.loader.push_back(command);
        self.count("Unload");
    }

    fn calls_in(&self, slab: SlabId) -> BTreeSet<At> {
        let of_it = self.processes.values().filter(|process| process.slab == slab);
        let at = |process: &Process, job: &JobId| (process.id, *job, self.open[job].runs);
        of_it.flat_map(|process| process.jobs.iter().map(move |(job, _)| at(process, job))).collect()
    }

    /// The loader puts traps into the slot.
    pub(super) fn trap(&mut self, function: FunctionId, slot: u32, slab: SlabId) {
        assert_eq!(self.slabs.remove(&(slab, slot)), Some(function));
        let inside = self.calls_in(slab);
        let left = self.left.get_mut(&(slab, slot)).unwrap();
        let came = inside.difference(&left.decided).next().is_some();
        left.inside = Some(inside);
        self.unloaded.push_back((slab, slot));
        if came {
            self.count("Came before the traps");
        }
    }

    /// The scheduler hears of it; whether it means anything.
    pub(super) fn tell(&mut self, slot: u32, slab: SlabId) -> bool {
        self.left.get_mut(&(slab, slot)).unwrap().told = true;
        self.current.get(&slab.number) == Some(&slab)
    }

    /// What comes next into the room is decoded from where it begins, and nobody may be in the middle of it.
    fn assert_nobody_is_inside(&self, slot: u32, slab: SlabId) {
        let inside = self.left[&(slab, slot)].inside.as_ref().expect("traps stand there");
        let calls = self.calls_in(slab);
        let still: Vec<_> = inside.intersection(&calls).collect();
        assert!(still.is_empty(), "{still:?} may stand in it");
    }

    fn reclaimed(&mut self, command: Command, slot: u32, slab: SlabId) {
        assert_eq!(self.current.get(&slab.number), Some(&slab));
        let left = &self.left[&(slab, slot)];
        assert!(left.told, "nobody knows yet that traps stand there");
        let at_once = left.inside.as_ref().is_some_and(BTreeSet::is_empty);
        self.assert_nobody_is_inside(slot, slab);
        self.count(if at_once { "Reclaim at once" } else { "Reclaim later" });
        self.loader.push_back(command);
    }

    /// The loader gives the room away.
    pub(super) fn give_away(&mut self, slot: u32, slab: SlabId) {
        self.assert_nobody_is_inside(slot, slab);
        self.left.remove(&(slab, slot));
    }

    /// The loader receives it after its earlier commands.
    fn closed(&mut self, command: Command, slab: SlabId) {
        assert_ne!(slab.number, SHARED_SLAB);
        assert_eq!(self.current.remove(&slab.number), Some(slab), "it was there");
        self.next_life.insert(slab.number, slab.life + 1);
        assert!(self.processes.values().all(|process| process.slab != slab), "nobody maps it");
        let comes = |sent: &Command| matches!(sent, Command::Load { slab: other, .. } if *other == slab);
        assert!(!self.loader.iter().any(comes), "nothing comes into it");
        self.loader.push_back(command);
        self.count("CloseSlab");
    }

    pub(super) fn died_with_a_call(&mut self, process: &Process) {
        let Some((job, _)) = process.jobs.front() else { return };
        let function = self.open[job].function;
        let tenants: BTreeSet<u32> = process.ran.iter().map(|ran| self.defined[ran].tenant.0).collect();
        if tenants.len() == 1 {
            self.tenant_crashes.entry(self.defined[&function].tenant.0).or_default().push(self.now);
        }
        self.author = (process.ran.len() == 1).then_some(function);
        if self.author.is_some() {
            *self.own_crashes.entry(function).or_default() += 1;
        }
    }

    fn ban(&mut self, function: FunctionId, crashes: u32) {
        assert!(self.banned.insert(function));
        assert_eq!(self.author, Some(function), "it died with a worker of its own just now");
        let (limits, now) = (self.limits(), self.now);
        assert!(crashes <= self.own_crashes[&function]);
        let of_tenant = &self.tenant_crashes[&self.defined[&function].tenant.0];
        let recent = of_tenant.iter().filter(|at| now.since(**at) <= limits.crash_window_us).count();
        let by_tenant = recent > limits.tenant_crashes_before_ban as usize;
        assert!(crashes >= limits.crashes_before_ban || by_tenant, "{crashes} and {recent}");
        self.count(if crashes < limits.crashes_before_ban { "Ban by tenant" } else { "Ban" });
    }
}

fn kind(kind: PoolKind) -> &'static str {
    match kind {
        PoolKind::Short => "short",
        PoolKind::Long => "long",
        PoolKind::Alone(_) => "alone",
    }
}
