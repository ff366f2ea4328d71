//! A node with bulk functions: two schedulers side by side. A flood of bulk calls, of the same tenant and of others, changes
//! nothing for micro calls; in one scheduler it would.

use std::collections::{BTreeMap, VecDeque};

use super::*;

/// How long the node is watched, in microseconds.
const WATCHED_US: u64 = 20_000_000;
/// Every so often tenant 1 has two micro calls at once, of so much time each, in microseconds.
const MICRO_EVERY_US: u64 = 10_000;
const MICRO_RUN_US: u64 = 3_000;
/// What a bulk call takes, in microseconds.
const BULK_RUN_US: u64 = 2_000_000;
/// Who floods the node, and the functions' numbers: tenant, and tenant and this.
const FLOODERS: std::ops::RangeInclusive<u32> = 1..=3;
const BULK: u32 = 10;

/// One scheduler with workers that take the time that a call takes.
struct Lane {
    scheduler: Scheduler,
    /// What each worker has, in order, with its run time.
    held: BTreeMap<u16, (WorkerId, VecDeque<(JobId, u64)>)>,
    /// When the first call of a worker ends.
    ends: BTreeMap<u16, u64>,
    submitted: BTreeMap<JobId, (u64, u32)>,
    /// How long the calls of each function waited, and how many were refused or gave up.
    waited: BTreeMap<u32, Vec<u64>>,
    turned_away: BTreeMap<u32, u64>,
}

impl Lane {
    fn new(limits: Limits) -> Self {
        let (held, ends, submitted, waited, turned_away) = Default::default();
        Self { scheduler: Scheduler::new(limits), held, ends, submitted, waited, turned_away }
    }

    fn call(&mut self, at: u64, number: u32) {
        let mut commands = Commands::new();
        match self.scheduler.submit(Moment(at), FunctionId(number), None, &mut commands) {
            Ok(job) => drop(self.submitted.insert(job, (at, number))),
            Err(_) => *self.turned_away.entry(number).or_default() += 1,
        }
        self.follow(at, commands);
    }

    fn follow(&mut self, at: u64, mut commands: Commands) {
        while !commands.is_empty() {
            let mut after = Commands::new();
            for command in commands.drain(..) {
                match command {
                    // A worker is there at once: what starting takes is no matter of accounting.
                    Command::Spawn { worker, slab, .. } => {
                        self.held.insert(worker.place, (worker, VecDeque::new()));
                        self.scheduler.worker_ready(Moment(at), worker, slab, &mut after).unwrap();
                    }
                    Command::Stop { worker } => {
                        self.held.remove(&worker.place);
                        self.scheduler.worker_died(Moment(at), worker, &mut after);
                    }
                    Command::Start { worker, job, .. } => {
                        let (since, number) = self.submitted[&job];
                        self.waited.entry(number).or_default().push(at - since);
                        let run_us = if number > BULK { BULK_RUN_US } else { MICRO_RUN_US };
                        let jobs = &mut self.held.get_mut(&worker.place).unwrap().1;
                        jobs.push_back((job, run_us));
                        if jobs.len() == 1 {
                            self.ends.insert(worker.place, at + run_us);
                        }
                    }
                    Command::Answer { job, outcome } if outcome != Outcome::Finished => {
                        *self.turned_away.entry(self.submitted[&job].1).or_default() += 1;
                    }
                    Command::Answer { .. } => {}
                    Command::CloseSlab { .. } => {}
                    other => panic!("{other:?}"),
                }
            }
            commands = after;
        }
    }

    /// Lets everything happen that happens until `at`.
    fn until(&mut self, at: u64) {
        loop {
            let ends = self.ends.iter().map(|(place, ends)| (*ends, Some(*place))).min();
            let due = self.scheduler.next_deadline().map(|due| (due.0, None));
            let Some((when, place)) = ends.into_iter().chain(due).min().filter(|(when, _)| *when <= at)
            else {
                return;
            };
            let mut commands = Commands::new();
            match place {
                None => self.scheduler.tick(Moment(when), &mut commands),
                Some(place) => {
                    self.ends.remove(&place);
                    let (worker, jobs) = self.held.get_mut(&place).unwrap();
                    let (job, run_us) = jobs.pop_front().unwrap();
                    if let Some((_, next_us)) = jobs.front() {
                        self.ends.insert(place, when + next_us);
                    }
                    let worker = *worker;
                    self.scheduler.completed(Moment(when), worker, job, run_us, false, &mut commands);
                }
            }
            self.follow(when, commands);
        }
    }
}

fn micro(tenant: u32) -> Loaded {
    Loaded { budget: Budget::from_micros(10_000).unwrap(), ..own(tenant) }
}

fn bulk(tenant: u32) -> Loaded {
    let pool = PoolKey { slab: tenant, kind: PoolKind::Long };
    Loaded { budget: Budget::MAX, pool, ..own(tenant) }
}

/// A node of two cores for these calls; what became of those of each function. `apart`: bulk functions have a scheduler of their own.
fn node(apart: bool, floods: bool) -> (Lane, Lane) {
    let mut first = Lane::new(Limits { cores: 2, ..Limits::NODE });
    let mut second = Lane::new(Limits { cores: 2, workers_max: 2, ..Limits::BULK });
    FLOODERS.for_each(|tenant| define_as(&mut first.scheduler, tenant, micro(tenant)));
    for tenant in FLOODERS {
        let lane = if apart { &mut second } else { &mut first };
        define_as(&mut lane.scheduler, BULK + tenant, bulk(tenant));
    }
    for at in (0..WATCHED_US).step_by(MICRO_EVERY_US as usize) {
        first.until(at);
        second.until(at);
        let lane = if apart { &mut second } else { &mut first };
        for tenant in FLOODERS.filter(|_| floods) {
            (0..5).for_each(|_| lane.call(at, BULK + tenant));
        }
        first.call(at, 1);
        first.call(at, 1);
    }
    (first, second)
}

/// The longest wait once the pool has the workers that it needs.
fn longest(lane: &Lane, number: u32) -> u64 {
    lane.waited[&number].iter().skip(20).copied().max().unwrap()
}

#[test]
fn a_flood_of_bulk_calls_changes_nothing_for_micro_calls() {
    let (quiet, _) = node(true, false);
    let (flooded, bulk) = node(true, true);
    assert_eq!(flooded.waited[&1], quiet.waited[&1], "to the microsecond");
    assert_eq!((longest(&flooded, 1), &flooded.turned_away), (0, &BTreeMap::new()));
    for tenant in FLOODERS {
        let ran = bulk.waited[&(BULK + tenant)].len();
        assert!((4..=10).contains(&ran), "tenant {tenant} has its share of 20 calls: {ran}");
        assert!(bulk.turned_away[&(BULK + tenant)] > 0, "and the queue has an end");
    }
}

/// Without a scheduler of their own: bulk calls take cores from the accounting of micro calls, and fill what may wait of a tenant.
#[test]
fn in_one_scheduler_the_same_flood_delays_micro_calls_and_turns_some_away() {
    let (mixed, _) = node(false, true);
    assert!(longest(&mixed, 1) >= MICRO_RUN_US, "{}", longest(&mixed, 1));
    assert!(mixed.turned_away.get(&1).is_some_and(|count| *count > 0), "{:?}", mixed.turned_away);
}
