//! Random steps in random order, with a world that knows only the promises.
//!
//! I7: every accepted call gets exactly one answer. I9: what answers a call is the image of its own
//! function, so no tenant's canary is in another's answer. Both are asserted in every step, and the
//! scheduler's tables are checked after it. `MFAAS_SIMULATION_SEEDS=n` runs n more seeds.

use std::collections::BTreeMap;

use mfaas_ident::Budget;

use super::super::{
    Command, Commands, FunctionId, JobId, Limits, Loaded, Misuse, Outcome, PoolKey, PoolKind, Residency,
    SHARED_SLAB, Scheduler, TenantId, WorkerId,
};
use super::check::check;
use super::world::{Promise, Rest, World};

const LIMITS: Limits = Limits {
    waiting_max: 24,
    waiting_per_tenant: 14,
    wait_us_max: 60_000,
    suspended_max: 4,
    suspended_per_tenant: 2,
    call_us_max: 90_000,
    in_worker_max: 4,
    pipeline_budget_us_max: 400,
    backstop_factor: 3,
    backstop_slack_us: 4_000,
    crashes_before_ban: 3,
    tenant_crashes_before_ban: 6,
    crash_window_us: 600_000,
    suspect_us: 90_000,
    resident_bytes_max: 70,
    functions_max: FUNCTIONS as usize,
    tenants_max: 4,
    pools_max: 64,
    shared_workers: 2,
    cores: 4,
    workers_max: 6,
    grow_after_us: 300,
    surplus_idle_us: 3_000,
    parked_idle_us: 6_000,
};
const STEPS: u64 = 500_000;
const SEEDS: [u64; 5] = [1, 2, 0xfeed, 0x5eed_cafe, u64::MAX / 3];
const FUNCTIONS: u64 = 16;
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

struct Run {
    dice: Dice,
    scheduler: Scheduler,
    world: World,
    commands: Commands,
    suspects: usize,
}

impl Run {
    fn new(seed: u64) -> Self {
        let mut run = Self {
            dice: Dice(seed),
            scheduler: Scheduler::new(LIMITS),
            world: World::new(LIMITS),
            commands: Commands::new(),
            suspects: 0,
        };
        (0..FUNCTIONS as u32).for_each(|function| run.define(FunctionId(function)));
        run
    }

    fn step(&mut self) {
        self.world.now = self.world.now.plus(self.dice.below(150));
        if self.dice.one_in(4) {
            self.tell_unloaded();
        }
        match self.dice.below(1_000) {
            0..400 => self.submit(),
            400..760 => self.complete(),
            760..790 => self.resume(),
            790..792 if self.dice.one_in(4) => self.die(),
            792..850 => self.serve_workers(),
            850..930 => self.serve_loader(),
            930..945 => self.redefine(),
            945..946 => self.withdraw(),
            946..951 => self.ban_or_lift(),
            951..955 if self.dice.one_in(20) => self.lie(),
            955..957 => self.pause(),
            957..960 if self.dice.one_in(20) => self.renew(),
            960..975 => self.lend(),
            _ => self.tick(),
        }
        self.execute();
        let snapshot = self.scheduler.snapshot();
        assert_eq!(snapshot.waiting + snapshot.running + snapshot.suspended, self.world.open.len());
        check(&self.scheduler, self.world.now);
        self.look();
    }

    /// What no command is about but must happen too.
    fn look(&mut self) {
        let suspects = self.scheduler.snapshot().suspects;
        if suspects < self.suspects {
            self.world.count("Cleared");
        }
        self.suspects = suspects;
        if self.scheduler.pools.waiting_for_room() > 0 {
            self.world.count("Waited for room");
        }
    }

    fn execute(&mut self) {
        let mut commands = std::mem::take(&mut self.commands);
        self.world.execute(&mut commands);
        self.commands = commands;
        self.world.suspend();
        assert_eq!(self.world.completing, None, "a completion is answered at once");
        assert_eq!(self.world.stuck, None, "what is given up is answered at once");
    }

    fn any_function(&mut self) -> FunctionId {
        FunctionId(self.dice.below(FUNCTIONS) as u32)
    }

    fn submit(&mut self) {
        let (function, now) = (self.any_function(), self.world.now);
        let deadline = self.dice.one_in(8).then(|| now.plus(1 + self.dice.below(600)));
        let budget_us = self.world.defined[&function].budget.as_micros();
        if let Ok(job) = self.scheduler.submit(now, function, deadline, &mut self.commands) {
            let rest = Rest::Never;
            let (starts, runs) = (0, 0);
            let promise =
                Promise { function, accepted: now, since: now, deadline, budget_us, starts, runs, rest };
            assert!(self.world.open.insert(job, promise).is_none(), "{job:?} is open already");
        }
    }

    /// The worker with the oldest news answers its first call with what lies in the slot.
    fn complete(&mut self) {
        let busy = self.world.processes.values().filter(|process| !process.jobs.is_empty());
        let busy: Vec<_> = busy.map(|process| process.id).collect();
        let Some(worker) = self.dice.pick(&busy) else { return };
        let on_core = self.world.process(worker).jobs[0].0;
        // Some functions end the process now and then.
        if self.world.open[&on_core].function.0.is_multiple_of(5) && self.dice.one_in(25) {
            self.end(worker);
        } else {
            self.complete_one(worker);
        }
    }

    fn complete_one(&mut self, worker: WorkerId) {
        let process = self.world.process(worker);
        let Some((job, slot)) = process.jobs.pop_front() else { return };
        process.loans.clear();
        let slab = process.slab;
        let canary = self.world.slabs.get(&(slab, slot)).copied();
        assert_eq!(canary, Some(self.world.open[&job].function), "another function's answer");
        let cpu_us = self.dice.below(400);
        if self.dice.one_in(4) {
            self.world.suspending = Some((job, slab, slot));
            let (now, commands) = (self.world.now, &mut self.commands);
            let moved_us = cpu_us % 7;
            let is_suspended = self.scheduler.suspended(now, worker, job, cpu_us, moved_us, commands);
            let answer =
                |command: &Command| matches!(command, Command::Answer { job: other, .. } if *other == job);
            assert!(is_suspended != commands.iter().any(answer));
            if is_suspended {
                let promise = self.world.open.get_mut(&job).expect("it is owed");
                let left_us = u64::from(self.scheduler.budget_us(job));
                assert!(left_us < promise.budget_us, "no part of a call costs nothing");
                promise.budget_us = left_us;
            }
            return;
        }
        self.world.completing = Some(job);
        let over_budget = self.dice.one_in(10);
        self.scheduler.completed(self.world.now, worker, job, cpu_us, over_budget, &mut self.commands);
    }

    /// A call on a core wants to call another function there, which may be any.
    fn lend(&mut self) {
        let busy = self.world.processes.values().filter(|process| !process.jobs.is_empty());
        let busy: Vec<_> = busy.map(|process| (process.id, process.jobs[0].0)).collect();
        let Some((worker, job)) = self.dice.pick(&busy) else { return };
        let (function, caller) = (self.any_function(), self.world.open[&job].function);
        let Some(slot) = self.scheduler.lend(worker, job, function) else { return };
        let [loaded, of_caller] = [function, caller].map(|one| self.world.defined[&one]);
        assert_eq!(loaded.tenant, of_caller.tenant, "of its tenant");
        assert!(function != caller && !self.world.banned.contains(&function));
        let process = &self.world.processes[&worker.place];
        assert!(!matches!(process.pool.kind, PoolKind::Alone(_)) && process.pool == loaded.pool);
        assert!(!process.leaves && self.world.current.get(&process.slab.number) == Some(&process.slab));
        assert_eq!(
            self.world.slabs.get(&(process.slab, slot)),
            Some(&function),
            "the image is the function's"
        );
        let process = self.world.process(worker);
        process.loans.insert(slot);
        process.ran.insert(function);
        self.world.count("Lent");
    }

    /// What a call waited for is there, or can never come; sometimes the news are of a call that is not suspended.
    fn resume(&mut self) {
        let is_suspended = |promise: &Promise| matches!(promise.rest, Rest::Suspended(..));
        let (suspended, others): (Vec<_>, Vec<_>) = self
            .world
            .open
            .iter()
            .map(|(job, promise)| (*job, *promise))
            .partition(|(_, one)| is_suspended(one));
        if let Some((other, _)) = self.dice.pick(&others).filter(|_| self.dice.one_in(8)) {
            self.scheduler.resume(self.world.now, other, &mut self.commands);
            self.scheduler.give_up(other, Outcome::Stuck, &mut self.commands);
            assert!(self.commands.is_empty(), "it is not suspended");
        }
        let Some((job, promise)) = self.dice.pick(&suspended) else { return };
        if self.dice.one_in(20) {
            self.world.stuck = Some(job);
            return self.scheduler.give_up(job, Outcome::Stuck, &mut self.commands);
        }
        let Rest::Suspended(slab, slot) = promise.rest else { unreachable!("chosen so") };
        let (rest, since) = (Rest::Resumed(slab, slot), self.world.now);
        self.world.open.insert(job, Promise { rest, since, ..promise });
        self.scheduler.resume(self.world.now, job, &mut self.commands);
        self.world.count("Resumed");
    }

    /// A worker dies by itself, or because it was ordered to; the news may arrive twice.
    fn die(&mut self) {
        let all: Vec<_> = self.world.processes.values().map(|process| process.id).collect();
        let victim = self.leaving().or_else(|| self.dice.pick(&all));
        victim.into_iter().for_each(|worker| self.bury(worker));
    }

    fn leaving(&mut self) -> Option<WorkerId> {
        let leaving = self.world.processes.values().filter(|process| process.leaves && !process.starting);
        let leaving: Vec<_> = leaving
            .filter(|process| process.killed || process.jobs.is_empty())
            .map(|process| process.id)
            .collect();
        self.dice.pick(&leaving)
    }

    /// Sometimes it had completed more than was received so far.
    fn bury(&mut self, worker: WorkerId) {
        if self.dice.one_in(2) {
            self.scheduler.worker_dying(worker);
            self.world.process(worker).leaves = true;
            for _ in 0..self.dice.below(3) {
                self.complete_one(worker);
                self.execute();
            }
            check(&self.scheduler, self.world.now);
        }
        self.end(worker);
    }

    /// The process is gone.
    fn end(&mut self, worker: WorkerId) {
        let process = self.world.processes.remove(&worker.place).expect("it lived");
        self.world.died_with_a_call(&process);
        for (job, _) in &process.jobs {
            // What runs again waits anew from here.
            self.world.open.get_mut(job).expect("it is owed").since = self.world.now;
        }
        self.scheduler.worker_died(self.world.now, worker, &mut self.commands);
        self.execute();
        self.world.author = None;
        self.scheduler.worker_died(self.world.now, worker, &mut self.commands);
        assert!(self.commands.is_empty(), "the dead die once");
    }

    /// Who is to leave does, and who was asked for comes, sometimes late or not at all.
    fn serve_workers(&mut self) {
        if let Some(worker) = self.leaving() {
            self.bury(worker);
            self.execute();
        }
        let starting = self.world.processes.values().filter(|process| process.starting);
        let starting: Vec<_> = starting.map(|process| process.id).collect();
        let Some(worker) = self.dice.pick(&starting) else { return };
        if self.dice.one_in(80) || self.world.process(worker).killed {
            self.world.count("Failed start");
            return self.end(worker);
        }
        if self.dice.one_in(200) {
            // It says something that nobody says before it is there.
            return self.scheduler.violated(worker, &mut self.commands);
        }
        let number = self.world.process(worker).slab.number;
        let current = self.world.current.get(&number).copied();
        let process = self.world.process(worker);
        process.starting = false;
        if current != Some(process.slab) {
            match current {
                Some(current) if self.dice.one_in(2) => self.world.process(worker).slab = current,
                _ => self.world.count("Outdated"),
            }
        }
        let slab = self.world.process(worker).slab;
        self.scheduler.worker_ready(self.world.now, worker, slab, &mut self.commands).unwrap();
        let again = self.scheduler.worker_ready(self.world.now, worker, slab, &mut self.commands);
        assert_eq!(again, Err(Misuse::NotExpected(worker)));
    }

    /// The loader executes its next command, or a death is reported late.
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
                let taken = |slot: &u32| {
                    self.world.slabs.contains_key(&(slab, *slot))
                        || self.world.left.contains_key(&(slab, *slot))
                };
                let slot = (0..).find(|slot| !taken(slot)).unwrap();
                self.world.slabs.insert((slab, slot), function);
                let bytes = self.world.defined[&function].bytes - 1;
                self.scheduler.loaded(now, function, slab, slot, bytes, &mut self.commands);
            }
            Some(Command::Unload { function, slot, slab }) => {
                self.world.trap(function, slot, slab);
            }
            Some(Command::Reclaim { slot, slab }) => self.world.give_away(slot, slab),
            Some(Command::CloseSlab { slab }) => {
                assert!(self.world.slabs.keys().all(|(other, _)| *other != slab), "nothing lies in it");
            }
            _ => {}
        }
    }

    /// The scheduler hears that traps stand, sometimes when the slab is gone, sometimes twice.
    fn tell_unloaded(&mut self) {
        let Some((slab, slot)) = self.world.unloaded.pop_front() else { return };
        let means_something = self.world.tell(slot, slab);
        self.scheduler.unloaded(slab, slot, &mut self.commands);
        if !means_something {
            let reclaims = self.commands.iter().any(|command| matches!(command, Command::Reclaim { .. }));
            assert!(!reclaims, "news of an old slab free nothing");
            self.world.count("stale Unloaded");
        }
        self.execute();
        self.scheduler.unloaded(slab, slot, &mut self.commands);
        assert!(self.commands.is_empty(), "it is told once");
    }

    fn define(&mut self, function: FunctionId) {
        let tenant = function.0 % 4;
        let kind = if self.dice.one_in(4) { PoolKind::Long } else { PoolKind::Short };
        // Two tenants share, two do not; sometimes a site changes its mind about one function.
        let shared = (tenant < 2) != self.dice.one_in(10);
        let pool = PoolKey { slab: if shared { SHARED_SLAB } else { tenant + 1 }, kind };
        // A definition never changes whether a call may run twice while one is open.
        let idempotent = function.0.is_multiple_of(3) || function.0.is_multiple_of(5);
        let budget =
            if self.dice.one_in(4) { 500 + self.dice.below(2_000) } else { 10 + self.dice.below(150) };
        let residency = match self.dice.below(8) {
            0 if function.0 == 5 => Residency::Pinned,
            0..3 => Residency::Preloaded,
            _ => Residency::OnDemand,
        };
        let loaded = Loaded {
            tenant: TenantId(tenant),
            pool,
            budget: Budget::from_micros(budget).unwrap(),
            idempotent,
            // A little more than what loading then takes, so that the memory budget holds exactly.
            bytes: 2 + u64::from(function.0) * 5 % 14,
            residency,
        };
        let before = self.world.defined.insert(function, loaded);
        let moves = before.is_some_and(|before| before.pool.slab != loaded.pool.slab);
        match self.scheduler.define(function, loaded, &mut self.commands) {
            Ok(()) => self.world.count(if moves { "Moved" } else { "Defined" }),
            Err(misuse) => {
                assert!(moves && misuse == Misuse::NoSuchPool(pool), "{misuse}");
                self.world.defined.insert(function, before.expect("it moves"));
            }
        }
        self.execute();
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
        self.execute();
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
            if self.dice.one_in(2) {
                let said =
                    self.scheduler.suspended(self.world.now, worker, claimed, 5, 1, &mut self.commands);
                assert!(!said, "a lie suspends nothing");
            } else {
                self.scheduler.completed(self.world.now, worker, claimed, 5, false, &mut self.commands);
            }
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
        self.scheduler.tick(self.world.now, &mut self.commands);
    }

    /// The loader dies with its commands; its slabs stay with the workers that map them.
    fn renew(&mut self) {
        self.world.renewed();
        self.scheduler.renew(&mut self.commands);
    }

    /// Everything stops: whatever is open must still be answered.
    fn finish(mut self) -> World {
        self.scheduler.stop(&mut self.commands);
        self.execute();
        for _ in 0..10_000 {
            if self.scheduler.is_idle() {
                break;
            }
            self.serve_loader();
            self.execute();
            self.tell_unloaded();
            self.complete();
            self.execute();
            self.world.now = self.world.now.plus(1_000);
            self.tick();
            self.execute();
            self.serve_workers();
            self.execute();
            check(&self.scheduler, self.world.now);
        }
        assert!(self.world.open.is_empty(), "{:?}", self.world.open);
        self.world
    }
}

const SEEN: [&str; 48] = [
    "Lent",
    "Suspended",
    "Resumed",
    "Start resumed",
    "OverBudget at suspension",
    "TooManySuspended at suspension",
    "Banned at suspension",
    "Withdrawn at suspension",
    "Lost at suspension",
    "TookTooLong suspended",
    "Banned suspended",
    "Withdrawn suspended",
    "Lost suspended",
    "Stuck suspended",
    "stale",
    "stale Unloaded",
    "Came before the traps",
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
    "Reclaim at once",
    "Reclaim later",
    "Ban",
    "Ban by tenant",
    "Suspect",
    "Cleared",
    "Spawn shared",
    "Spawn short",
    "Spawn long",
    "Spawn alone",
    "Stop",
    "Failed start",
    "Outdated",
    "CloseSlab",
    "Moved",
    "Waited for room",
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
        assert!(seen.get(what).is_some_and(|count| *count >= 3), "{what} was hardly seen: {seen:?}");
    }
}
