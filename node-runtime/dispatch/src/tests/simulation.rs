//! Random steps in random order, with a world that knows only the promises.
//!
//! I7: every accepted call gets exactly one answer. I9: what answers a call is the image of its own
//! function, so no tenant's canary is in another's answer. Both are asserted in every step, and the
//! scheduler's tables are checked after it. `MFAAS_SIMULATION_SEEDS=n` runs n more seeds.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use mfaas_ident::Budget;

use super::super::{
    Command, Commands, FunctionId, JobId, Limits, Loaded, Moment, Outcome, PoolId, Residency, Scheduler,
    SlabId, TenantId, WorkerId,
};
use super::check::check;

const LIMITS: Limits = Limits {
    waiting_max: 24,
    waiting_per_tenant: 14,
    wait_us_max: 20_000,
    in_worker_max: 4,
    pipeline_budget_us_max: 400,
    backstop_factor: 3,
    backstop_slack_us: 2_000,
    crashes_before_ban: 3,
    crash_window_us: 100_000,
    resident_bytes_max: 70,
    functions_max: FUNCTIONS as usize,
    tenants_max: 4,
    pools_max: 3,
    park_after_us: 3_000,
};
const STEPS: u64 = 500_000;
const SEEDS: [u64; 5] = [1, 2, 0xfeed, 0x5eed_cafe, u64::MAX / 3];
const FUNCTIONS: u64 = 16;
/// Places of workers by pool: three share, the others are of one tenant each.
const PLACES: [u32; 6] = [0, 0, 0, 1, 1, 2];

/// xorshift64*: the same steps for the same seed, everywhere.
pub(super) struct Dice(pub(super) u64);

impl Dice {
    pub(super) fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 11) % n
    }

    fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> Option<T> {
        (!from.is_empty()).then(|| from[self.below(from.len() as u64) as usize])
    }
}

/// What was promised to a caller.
#[derive(Debug, Clone, Copy)]
struct Promise {
    function: FunctionId,
    since: Moment,
    deadline: Option<Moment>,
    budget_us: u64,
    starts: u32,
}

/// A worker process.
#[derive(Debug, Clone)]
struct Process {
    id: WorkerId,
    pool: PoolId,
    slab: SlabId,
    jobs: VecDeque<(JobId, u32)>,
    alone: bool,
    /// Takes nothing any more.
    leaves: bool,
    killed: bool,
}

/// The world around the scheduler: processes, the loader, and what was promised.
#[derive(Default)]
struct World {
    now: Moment,
    open: BTreeMap<JobId, Promise>,
    processes: BTreeMap<u16, Process>,
    /// What lies in each slot of each slab that a living worker still maps.
    slabs: BTreeMap<(SlabId, u32), FunctionId>,
    slab: SlabId,
    loader: VecDeque<Command>,
    /// What a loader had been told when it died.
    stale: Vec<Command>,
    defined: BTreeMap<FunctionId, Loaded>,
    banned: BTreeSet<FunctionId>,
    parked: BTreeSet<u32>,
    /// The job that a completion is being reported of.
    completing: Option<JobId>,
    outcomes: BTreeMap<String, u64>,
}

impl World {
    fn count(&mut self, what: &str) {
        match self.outcomes.get_mut(what) {
            Some(count) => *count += 1,
            None => drop(self.outcomes.insert(what.to_owned(), 1)),
        }
    }

    fn carry_out(&mut self, commands: &mut Commands) {
        for command in commands.drain(..) {
            match command {
                Command::Start { worker, job, slot } => self.started(worker, job, slot),
                Command::Answer { job, outcome } => self.answered(job, outcome),
                Command::Kill { worker, .. } => {
                    let process = self.process(worker);
                    (process.leaves, process.killed) = (true, true);
                }
                Command::Replace { worker } | Command::Park { worker } => {
                    let process = self.process(worker);
                    assert!(process.jobs.is_empty(), "who is asked to leave has nothing to do");
                    process.leaves = true;
                    self.count(match command {
                        Command::Park { .. } => "Park",
                        _ => "Replace",
                    });
                }
                Command::Unpark { pool } => {
                    assert!(self.parked.remove(&pool.0));
                }
                Command::Load { slab, .. } => {
                    assert_eq!(slab, self.slab);
                    self.loader.push_back(command);
                }
                Command::Unload { function, slot, slab } => self.unload(command, function, slot, slab),
                Command::Ban { function, .. } => {
                    assert!(self.banned.insert(function));
                    self.count("Ban");
                }
            }
        }
    }

    fn process(&mut self, worker: WorkerId) -> &mut Process {
        let process = self.processes.get_mut(&worker.place).expect("commands go to the living");
        assert_eq!(process.id, worker);
        process
    }

    fn started(&mut self, worker: WorkerId, job: JobId, slot: u32) {
        let promise = self.open.get_mut(&job).expect("only what is owed an answer starts");
        promise.starts += 1;
        let Promise { function, deadline, starts, .. } = *promise;
        assert!(deadline.is_none_or(|deadline| deadline > self.now), "not after its deadline");
        assert!(!self.banned.contains(&function), "a banned function is never started");
        assert!(starts == 1 || starts == 2 && self.defined[&function].idempotent, "{starts} starts");
        assert_eq!(self.slabs.get(&(self.slab, slot)), Some(&function), "the image is the function's");
        let idle = self.processes.values().any(|process| {
            process.pool == self.processes[&worker.place].pool && !process.leaves && process.jobs.is_empty()
        });
        let process = &self.processes[&worker.place];
        assert!(!process.leaves && process.slab == self.slab, "{worker:?} takes nothing");
        if !process.jobs.is_empty() {
            assert!(!idle, "nobody is put behind another while a worker idles");
            assert!(!process.alone && starts == 1, "who runs again runs alone");
            assert!(process.jobs.len() < LIMITS.in_worker_max);
            let ahead: u64 = process.jobs.iter().map(|(job, _)| self.open[job].budget_us).sum();
            assert!(ahead < LIMITS.pipeline_budget_us_max, "nobody sits behind a long call");
            self.count("Behind");
        }
        let process = self.process(worker);
        process.alone = starts == 2;
        process.jobs.push_back((job, slot));
        self.count("Start");
    }

    fn answered(&mut self, job: JobId, outcome: Outcome) {
        let promise = self.open.remove(&job).unwrap_or_else(|| panic!("{job:?} again: {outcome:?}"));
        match outcome {
            Outcome::Finished => assert_eq!(self.completing.take(), Some(job), "only when it completed"),
            Outcome::DeadlinePassed => {
                assert!(promise.deadline.expect("it has one") <= self.now);
                assert!(!self.is_in_a_worker(job), "it did not start");
            }
            Outcome::WaitedTooLong => {
                assert!(self.now.since(promise.since) >= LIMITS.wait_us_max);
                assert!(!self.is_in_a_worker(job));
            }
            Outcome::Withdrawn | Outcome::Banned | Outcome::LoadFailed => {
                assert!(!self.is_in_a_worker(job));
            }
            Outcome::Lost | Outcome::Overdue => assert!(!self.is_in_a_worker(job), "its worker is gone"),
        }
        let again = if promise.starts == 2 { " again" } else { "" };
        self.count(&format!("{outcome:?}{again}"));
    }

    fn is_in_a_worker(&self, job: JobId) -> bool {
        self.processes.values().any(|process| process.jobs.iter().any(|(other, _)| *other == job))
    }

    fn unload(&mut self, command: Command, function: FunctionId, slot: u32, slab: SlabId) {
        assert_eq!(slab, self.slab);
        assert_eq!(self.slabs.get(&(slab, slot)), Some(&function));
        let used = self
            .processes
            .values()
            .any(|process| process.slab == slab && process.jobs.iter().any(|(_, other)| *other == slot));
        assert!(!used, "nothing is unloaded under a call");
        assert!(self.open.values().all(|promise| promise.function != function), "or before one");
        self.loader.push_back(command);
        self.count("Unload");
    }
}

struct Run {
    dice: Dice,
    scheduler: Scheduler,
    world: World,
    commands: Commands,
    lives: u32,
}

impl Run {
    fn new(seed: u64) -> Self {
        let mut run = Self {
            dice: Dice(seed),
            scheduler: Scheduler::new(LIMITS),
            world: World { parked: BTreeSet::from([1, 2]), ..World::default() },
            commands: Commands::new(),
            lives: 0,
        };
        (0..FUNCTIONS as u32).for_each(|function| run.define(FunctionId(function)));
        run
    }

    fn step(&mut self) {
        self.world.now = self.world.now.plus(self.dice.below(30));
        match self.dice.below(1_000) {
            0..400 => self.submit(),
            400..790 => self.complete(),
            790..800 => self.die(),
            800..850 => self.bring_worker(),
            850..930 => self.serve_loader(),
            930..945 => self.redefine(),
            945..948 => self.withdraw(),
            948..951 => self.ban_or_lift(),
            951..955 => self.lie(),
            955..957 => self.pause(),
            957..960 if self.dice.one_in(20) => self.renew(),
            _ => self.tick(),
        }
        self.carry_out();
        assert_eq!(
            self.scheduler.snapshot().waiting + self.scheduler.snapshot().running,
            self.world.open.len()
        );
        check(&self.scheduler, self.world.now);
    }

    fn carry_out(&mut self) {
        let mut commands = std::mem::take(&mut self.commands);
        self.world.carry_out(&mut commands);
        self.commands = commands;
        assert_eq!(self.world.completing, None, "a completion is answered at once");
    }

    fn any_function(&mut self) -> FunctionId {
        FunctionId(self.dice.below(FUNCTIONS) as u32)
    }

    fn submit(&mut self) {
        let (function, now) = (self.any_function(), self.world.now);
        let deadline = self.dice.one_in(8).then(|| now.plus(1 + self.dice.below(600)));
        let budget_us = self.world.defined[&function].budget.as_micros();
        if let Ok(job) = self.scheduler.submit(now, function, deadline, &mut self.commands) {
            let promise = Promise { function, since: now, deadline, budget_us, starts: 0 };
            assert!(self.world.open.insert(job, promise).is_none(), "{job:?} is open already");
        }
    }

    /// The worker with the oldest news answers its first call with what lies in the slot.
    fn complete(&mut self) {
        let busy = self.world.processes.values().filter(|process| !process.jobs.is_empty());
        let busy: Vec<_> = busy.map(|process| process.id).collect();
        if let Some(worker) = self.dice.pick(&busy) {
            self.complete_one(worker);
        }
    }

    fn complete_one(&mut self, worker: WorkerId) {
        let process = self.world.process(worker);
        let Some((job, slot)) = process.jobs.pop_front() else { return };
        let slab = process.slab;
        process.alone = false;
        let canary = self.world.slabs.get(&(slab, slot)).copied();
        assert_eq!(canary, Some(self.world.open[&job].function), "another function's answer");
        self.world.completing = Some(job);
        let over_budget = self.dice.one_in(10);
        self.scheduler.completed(self.world.now, worker, job, over_budget, &mut self.commands);
    }

    /// A worker dies by itself, or because it was ordered to; the news may arrive twice.
    fn die(&mut self) {
        let all: Vec<_> = self.world.processes.values().map(|process| process.id).collect();
        let victim = self.leaving().or_else(|| self.dice.pick(&all));
        victim.into_iter().for_each(|worker| self.bury(worker));
    }

    fn leaving(&mut self) -> Option<WorkerId> {
        let leaving = self.world.processes.values().filter(|process| process.leaves);
        let leaving: Vec<_> = leaving
            .filter(|process| process.killed || process.jobs.is_empty())
            .map(|process| process.id)
            .collect();
        self.dice.pick(&leaving)
    }

    /// Sometimes it had completed more than was heard of so far.
    fn bury(&mut self, worker: WorkerId) {
        if self.dice.one_in(2) {
            self.scheduler.worker_dying(worker);
            self.world.process(worker).leaves = true;
            for _ in 0..self.dice.below(3) {
                self.complete_one(worker);
                self.carry_out();
            }
            check(&self.scheduler, self.world.now);
        }
        let process = self.world.processes.remove(&worker.place).expect("it lived");
        for (job, _) in &process.jobs {
            // What runs again waits anew from here.
            self.world.open.get_mut(job).expect("it is owed").since = self.world.now;
        }
        self.scheduler.worker_died(self.world.now, worker, &mut self.commands);
        self.carry_out();
        self.scheduler.worker_died(self.world.now, worker, &mut self.commands);
        assert!(self.commands.is_empty(), "the dead die once");
    }

    /// The supervisor fills an empty place, sometimes with a worker that is late.
    fn bring_worker(&mut self) {
        if let Some(worker) = self.leaving() {
            self.bury(worker);
            self.carry_out();
        }
        let place = self.dice.below(PLACES.len() as u64) as u16;
        let pool = PoolId(PLACES[usize::from(place)]);
        let parked = self.world.parked.contains(&pool.0) && !self.dice.one_in(30);
        if self.world.processes.contains_key(&place) || parked {
            return;
        }
        self.lives += 1;
        let id = WorkerId { place, life: self.lives };
        let late = self.world.slab.0 > 0 && self.dice.one_in(20);
        let slab = SlabId(self.world.slab.0 - u32::from(late));
        let (jobs, alone, leaves, killed) = (VecDeque::new(), false, false, false);
        self.world.processes.insert(place, Process { id, pool, slab, jobs, alone, leaves, killed });
        self.scheduler.worker_ready(self.world.now, id, pool, slab, &mut self.commands).unwrap();
    }

    /// The loader does the next thing that it was told, or a dead one is heard of late.
    fn serve_loader(&mut self) {
        let now = self.world.now;
        if let Some(Command::Load { function, slab }) = self.world.stale.pop() {
            self.scheduler.loaded(now, function, slab, 0, 1, &mut self.commands);
            assert!(self.commands.is_empty(), "news of an old slab mean nothing");
            self.world.count("stale");
        }
        match self.world.loader.pop_front() {
            Some(Command::Load { function, slab }) if self.dice.one_in(30) => {
                self.scheduler.load_failed(function, slab, &mut self.commands);
            }
            Some(Command::Load { function, slab }) if self.dice.one_in(30) => {
                self.scheduler.no_room(function, slab, &mut self.commands);
                self.world.count("no room");
            }
            Some(Command::Load { function, slab }) => {
                let slot = (0..).find(|slot| !self.world.slabs.contains_key(&(slab, *slot))).unwrap();
                self.world.slabs.insert((slab, slot), function);
                let bytes = self.world.defined[&function].bytes - 1;
                self.scheduler.loaded(now, function, slab, slot, bytes, &mut self.commands);
            }
            Some(Command::Unload { function, slot, slab }) => {
                assert_eq!(self.world.slabs.remove(&(slab, slot)), Some(function));
            }
            _ => {}
        }
    }

    fn define(&mut self, function: FunctionId) {
        let tenant = function.0 % 4;
        let pool = if tenant < 2 { 0 } else { tenant - 1 };
        // A definition never changes whether a call may run twice while one is open.
        let idempotent = function.0.is_multiple_of(3);
        let budget =
            if self.dice.one_in(4) { 500 + self.dice.below(2_000) } else { 10 + self.dice.below(150) };
        let residency = match self.dice.below(8) {
            0 if function.0 == 5 => Residency::Pinned,
            0..3 => Residency::Preloaded,
            _ => Residency::OnDemand,
        };
        let loaded = Loaded {
            tenant: TenantId(tenant),
            pool: PoolId(pool),
            budget: Budget::from_micros(budget).unwrap(),
            idempotent,
            // A little more than what loading then takes, so that the memory budget holds exactly.
            bytes: 2 + u64::from(function.0) * 5 % 14,
            residency,
        };
        self.world.defined.insert(function, loaded);
        self.scheduler.define(function, loaded, &mut self.commands).unwrap();
        self.carry_out();
    }

    fn redefine(&mut self) {
        let function = self.any_function();
        if self.dice.one_in(3) {
            self.scheduler.retire(function, &mut self.commands);
        } else {
            self.define(function);
        }
    }

    fn withdraw(&mut self) {
        let function = self.any_function();
        self.scheduler.withdraw(function, &mut self.commands);
        self.carry_out();
        let waits = self
            .world
            .open
            .iter()
            .any(|(job, promise)| promise.function == function && !self.world.is_in_a_worker(*job));
        assert!(!waits, "nothing revoked waits");
    }

    fn ban_or_lift(&mut self) {
        let banned: Vec<_> = self.world.banned.iter().copied().collect();
        if let Some(function) = self.dice.pick(&banned) {
            self.scheduler.lift(function);
            self.world.banned.remove(&function);
        } else {
            let function = self.any_function();
            self.world.banned.insert(function);
            self.scheduler.ban(function, 1, &mut self.commands).unwrap();
        }
    }

    /// A hostile worker answers for a job that is not on its core, old or never issued.
    fn lie(&mut self) {
        let all: Vec<_> = self.world.processes.values().map(|process| process.id).collect();
        let Some(worker) = self.dice.pick(&all) else { return };
        let first = self.world.process(worker).jobs.front().map(|(job, _)| *job);
        let open: Vec<_> = self.world.open.keys().copied().collect();
        let claimed = self.dice.pick(&open).unwrap_or(JobId(self.dice.below(1 << 40)));
        if first != Some(claimed) {
            self.scheduler.completed(self.world.now, worker, claimed, false, &mut self.commands);
            let answers = self.commands.iter().any(|command| matches!(command, Command::Answer { .. }));
            assert!(!answers, "a lie is nobody's answer");
        }
    }

    /// The machine stalls, and the clock is looked at before anybody can say anything.
    fn pause(&mut self) {
        self.world.now = self.world.now.plus(self.dice.below(30_000));
        self.tick();
    }

    fn tick(&mut self) {
        let open: BTreeSet<_> = self.world.processes.values().map(|process| process.pool.0).collect();
        self.scheduler.tick(self.world.now, &mut self.commands);
        for command in &self.commands {
            if let Command::Park { worker } = command {
                let pool = PLACES[usize::from(worker.place)];
                assert!(pool != 0 && open.contains(&pool), "the shared pool is never parked");
                self.world.parked.insert(pool);
            }
        }
    }

    /// The loader dies with what it was told; its slab stays with the workers that map it.
    fn renew(&mut self) {
        self.world.slab = SlabId(self.world.slab.0 + 1);
        self.world.stale = self.world.loader.drain(..).collect();
        self.scheduler.renew(self.world.slab, &mut self.commands);
        self.world.count("Renew");
    }

    /// Everything stops: whatever is open must still be answered.
    fn finish(mut self) -> World {
        self.scheduler.stop(&mut self.commands);
        self.carry_out();
        for _ in 0..10_000 {
            if self.scheduler.is_idle() {
                break;
            }
            self.serve_loader();
            self.carry_out();
            self.complete();
            self.carry_out();
            self.world.now = self.world.now.plus(1_000);
            self.tick();
            self.carry_out();
            self.leaving().into_iter().for_each(|worker| self.bury(worker));
            self.carry_out();
            check(&self.scheduler, self.world.now);
        }
        assert!(self.world.open.is_empty(), "{:?}", self.world.open);
        self.world
    }
}

const SEEN: [&str; 19] = [
    "stale",
    "no room",
    "Start",
    "Behind",
    "Finished",
    "Lost",
    "Overdue",
    "WaitedTooLong",
    "DeadlinePassed",
    "Withdrawn",
    "Banned",
    "LoadFailed",
    "Finished again",
    "Lost again",
    "Unload",
    "Ban",
    "Park",
    "Replace",
    "Renew",
];

#[test]
fn every_accepted_call_is_answered_once_by_its_own_function_whatever_happens() {
    let more: u64 = std::env::var("MFAAS_SIMULATION_SEEDS").ok().and_then(|n| n.parse().ok()).unwrap_or(0);
    let mut seen = BTreeMap::<String, u64>::new();
    for seed in SEEDS.into_iter().chain((0..more).map(|n| 0x9e37_79b9_7f4a_7c15_u64.wrapping_mul(n + 7))) {
        let mut run = Run::new(seed);
        for _ in 0..STEPS {
            run.step();
        }
        let world = run.finish();
        world.outcomes.into_iter().for_each(|(what, count)| *seen.entry(what).or_default() += count);
    }
    // Runs in which nothing happened prove nothing.
    for what in SEEN {
        assert!(seen.get(what).is_some_and(|count| *count >= 10), "{what} was hardly seen: {seen:?}");
    }
}
