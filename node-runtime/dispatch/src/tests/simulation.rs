//! Random steps in random order, with a model that knows only the promises.

use std::collections::{BTreeMap, BTreeSet};

use super::super::{
    Command, FunctionId, GenerationId, JobId, Limits, Loaded, Moment, Plan, Scheduler, TenantId, WorkerId,
};
use mfaas_ident::Budget;

const LIMITS: Limits = Limits {
    waiting_per_worker: 8,
    waiting_per_tenant: 10,
    wait_us_max: 20_000,
    backstop_factor: 3,
    backstop_slack_us: 2_000,
    crashes_before_ban: 40,
    crash_window_us: 500_000,
};
const STEPS: u64 = 150_000;
const SEEDS: [u64; 4] = [1, 0xfeed, 0x5eed_cafe, u64::MAX / 3];
const FUNCTIONS: u64 = 12;

/// xorshift64*: the same steps for the same seed, everywhere.
struct Dice(u64);

impl Dice {
    fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) % n
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> Option<T> {
        (!from.is_empty()).then(|| from[self.below(from.len() as u64) as usize])
    }
}

/// The world around the scheduler: processes, and what was promised to callers.
#[derive(Default)]
struct World {
    open: BTreeMap<JobId, FunctionId>,
    answered: BTreeSet<JobId>,
    /// Living workers and what each one runs.
    alive: BTreeMap<WorkerId, (GenerationId, Option<JobId>)>,
    doomed: BTreeSet<WorkerId>,
    served: BTreeMap<GenerationId, BTreeMap<FunctionId, u32>>,
    retired: BTreeSet<GenerationId>,
    banned: BTreeSet<FunctionId>,
    staged: Option<GenerationId>,
    starts: u64,
    outcomes: BTreeMap<String, u64>,
}

impl World {
    fn carry_out(&mut self, commands: Vec<Command>) {
        for command in commands {
            match command {
                Command::Start { worker, job, slot } => self.started(worker, job, slot),
                Command::Answer { job, outcome } => {
                    assert!(self.open.remove(&job).is_some(), "{job:?} was not open: {outcome:?}");
                    assert!(self.answered.insert(job), "{job:?} answered twice");
                    *self.outcomes.entry(format!("{outcome:?}")).or_default() += 1;
                }
                Command::Kill { worker, .. } => {
                    assert!(self.alive.contains_key(&worker));
                    self.doomed.insert(worker);
                }
                Command::Retire { generation, workers } => {
                    for worker in workers {
                        let (_, running) = self.alive.remove(&worker).unwrap();
                        assert_eq!(running, None, "a retired worker has nothing to do");
                    }
                    assert!(self.retired.insert(generation));
                }
                Command::Ban { function, .. } => assert!(self.banned.insert(function)),
            }
        }
    }

    fn started(&mut self, worker: WorkerId, job: JobId, slot: u32) {
        assert!(!self.doomed.contains(&worker), "a doomed worker gets no job");
        let function = self.open[&job];
        let (generation, running) = self.alive.get_mut(&worker).expect("starts go to the living");
        assert_eq!(*running, None, "one job at a time");
        assert!(!self.retired.contains(generation), "no call to a retired generation");
        assert!(!self.banned.contains(&function), "a banned function is never started");
        assert_eq!(self.served[generation][&function], slot, "the image is the function's");
        *running = Some(job);
        self.starts += 1;
    }
}

struct Run {
    dice: Dice,
    now: Moment,
    scheduler: Scheduler,
    world: World,
    last_worker: u64,
}

impl Run {
    fn new(seed: u64) -> Self {
        let scheduler = Scheduler::new(LIMITS);
        Self { dice: Dice(seed), now: Moment(0), scheduler, world: World::default(), last_worker: 0 }
    }

    fn step(&mut self) {
        self.now = self.now.plus(self.dice.below(40));
        match self.dice.below(1_000) {
            0..450 => self.submit(),
            450..900 => self.complete(),
            900..930 => self.die(),
            930..970 => self.replace(),
            970..973 => self.lie(),
            973..980 => self.stage_or_swap(),
            980..982 => self.pause(),
            _ => self.world.carry_out(self.scheduler.tick(self.now)),
        }
        let snapshot = self.scheduler.snapshot();
        assert_eq!(snapshot.waiting + snapshot.running, self.world.open.len(), "no job is forgotten");
    }

    fn submit(&mut self) {
        let function = FunctionId(self.dice.below(FUNCTIONS) as u32);
        if let Ok((job, commands)) = self.scheduler.submit(self.now, function) {
            self.world.open.insert(job, function);
            self.world.carry_out(commands);
        }
    }

    fn complete(&mut self) {
        let busy: Vec<_> =
            self.world.alive.iter().filter_map(|(worker, (_, job))| Some((*worker, (*job)?))).collect();
        if let Some((worker, job)) = self.dice.pick(&busy) {
            self.world.alive.get_mut(&worker).unwrap().1 = None;
            let commands = self.scheduler.completed(self.now, worker, job);
            assert!(self.answers(&commands, job), "a completion is answered at once");
            self.world.carry_out(commands);
        }
    }

    fn answers(&self, commands: &[Command], wanted: JobId) -> bool {
        commands.iter().any(|command| matches!(command, Command::Answer { job, .. } if *job == wanted))
    }

    /// A worker dies by itself, or because it was ordered to; the news may arrive twice.
    fn die(&mut self) {
        let alive: Vec<_> = self.world.alive.keys().copied().collect();
        let doomed: Vec<_> = self.world.doomed.iter().copied().filter(|id| alive.contains(id)).collect();
        let victim = self.dice.pick(&doomed).or_else(|| self.dice.pick(&alive));
        if let Some(worker) = victim {
            self.world.alive.remove(&worker);
            let commands = self.scheduler.worker_died(self.now, worker);
            self.world.carry_out(commands);
            assert!(self.scheduler.worker_died(self.now, worker).is_empty());
        }
    }

    fn replace(&mut self) {
        let generations: Vec<_> = self.world.served.keys().copied().collect();
        let recent = &generations[generations.len().saturating_sub(4)..];
        if let Some(generation) = self.dice.pick(recent) {
            self.last_worker += 1;
            let worker = WorkerId(self.last_worker);
            self.world.alive.insert(worker, (generation, None));
            let (wanted, commands) = self.scheduler.worker_ready(self.now, generation, worker);
            assert_eq!(wanted, !self.world.retired.contains(&generation));
            if !wanted {
                self.world.alive.remove(&worker);
            }
            self.world.carry_out(commands);
        }
    }

    /// The machine stalls, and the clock is looked at before anybody can say anything.
    fn pause(&mut self) {
        self.now = self.now.plus(self.dice.below(30_000));
        let commands = self.scheduler.tick(self.now);
        self.world.carry_out(commands);
    }

    /// A hostile worker answers for a job that is not on its core, old or never issued.
    fn lie(&mut self) {
        let alive: Vec<_> = self.world.alive.iter().map(|(worker, (_, job))| (*worker, *job)).collect();
        if let Some((worker, running)) = self.dice.pick(&alive) {
            let claimed = JobId(self.dice.below(200_000));
            if running != Some(claimed) {
                let commands = self.scheduler.completed(self.now, worker, claimed);
                assert!(!commands.iter().any(|command| matches!(command, Command::Answer { .. })));
                self.world.carry_out(commands);
            }
        }
    }

    fn stage_or_swap(&mut self) {
        let Some(staged) = self.world.staged.take() else { return self.stage() };
        if self.dice.below(5) == 0 {
            let commands = self.scheduler.discard(staged);
            return self.world.carry_out(commands);
        }
        let withdrawn: Vec<_> = (0..self.dice.below(3)).map(|n| FunctionId(n as u32)).collect();
        let commands = self.scheduler.swap(self.now, staged, &withdrawn).unwrap();
        self.world.carry_out(commands);
        assert_eq!(self.scheduler.current(), Some(staged));
    }

    fn stage(&mut self) {
        let mut functions = BTreeMap::new();
        for function in 0..FUNCTIONS as u32 {
            if self.dice.below(3) > 0 {
                let budget = Budget::from_micros(10 + self.dice.below(2_000)).unwrap();
                let slot = functions.len() as u32;
                functions
                    .insert(FunctionId(function), Loaded { slot, tenant: TenantId(function % 3), budget });
            }
        }
        let slots = functions.iter().map(|(function, loaded)| (*function, loaded.slot)).collect();
        let generation = self.scheduler.stage(Plan { functions, workers: 3 });
        self.world.served.insert(generation, slots);
        self.world.staged = Some(generation);
        for _ in 0..2 {
            self.last_worker += 1;
            let worker = WorkerId(self.last_worker);
            self.world.alive.insert(worker, (generation, None));
            let (_, commands) = self.scheduler.worker_ready(self.now, generation, worker);
            assert!(commands.is_empty(), "a staged generation runs nothing");
        }
    }

    /// Everything stops: whatever is open must still be answered.
    fn finish(mut self) -> World {
        let commands = self.scheduler.stop();
        self.world.carry_out(commands);
        while !self.scheduler.is_idle() {
            self.complete();
            self.now = self.now.plus(1_000);
            let commands = self.scheduler.tick(self.now);
            self.world.carry_out(commands);
            if !self.world.doomed.is_empty() {
                self.die();
            }
        }
        assert!(self.world.open.is_empty());
        self.world
    }
}

#[test]
fn every_accepted_call_is_answered_once_whatever_happens() {
    for seed in SEEDS {
        let mut run = Run::new(seed);
        for _ in 0..STEPS {
            run.step();
        }
        let world = run.finish();
        // A run in which nothing happened proves nothing.
        assert!(world.starts > 10_000 && world.retired.len() > 100, "seed {seed}");
        for outcome in ["Finished", "Lost", "Overdue", "WaitedTooLong", "Withdrawn"] {
            assert!(
                world.outcomes.contains_key(outcome),
                "seed {seed} never saw {outcome}: {:?}",
                world.outcomes
            );
        }
    }
}
