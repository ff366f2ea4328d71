//! A run: machines under one policy, queries that arrive, and what came of them.
//!
//! A query goes to one row of machines and to every column of it. Where there are several columns a mid-level
//! aggregator, which is a thread of the primary on one of these machines, merges their answers when the last is there,
//! and a top-level aggregator, on a machine of its own, passes on what it says. The network takes no time.

use rand::rngs::SmallRng;
use rand::{Rng as _, SeedableRng as _};

use crate::agenda::{Agenda, Event, Ns};
use crate::machine::{Machine, Thread, Totals};
use crate::policy::{Controller, Policy};
use crate::workload::{BULLIES, CORES, MERGE_NS, WORKERS, Workload, exponential};

/// What is not measured at the beginning.
const WARM_UP_NS: Ns = 500_000_000;

/// What is simulated.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Plan {
    /// How machines are shared.
    pub(crate) policy: Policy,
    /// Idle cores take what waits elsewhere.
    pub(crate) balances: bool,
    /// What queries do.
    pub(crate) workload: Workload,
    /// Queries a second, over all rows.
    pub(crate) queries_per_s: u32,
    /// Machines that a query goes to.
    pub(crate) columns: usize,
    /// Groups of so many machines.
    pub(crate) rows: usize,
    /// How long queries arrive, after the warm-up.
    pub(crate) measured_ns: Ns,
    /// Where the random numbers begin.
    pub(crate) seed: u64,
}

/// What came of it.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    /// Milliseconds of each query on each machine.
    pub(crate) machine_ms: Vec<f64>,
    /// Milliseconds until the mid-level aggregator has answered.
    pub(crate) mid_ms: Vec<f64>,
    /// Milliseconds until the top-level aggregator has answered.
    pub(crate) top_ms: Vec<f64>,
    /// Part of all CPU time that the primary used.
    pub(crate) primary: f64,
    /// Part of all CPU time that the secondary used.
    pub(crate) secondary: f64,
    /// Part of the primary's wake-ups that found no idle core.
    pub(crate) queued: f64,
    /// Changes of limits per second and machine.
    pub(crate) changes_per_s: f64,
}

/// A query.
#[derive(Debug, Clone, Copy)]
struct Query {
    arrived: Ns,
    row: usize,
    columns_left: u32,
}

/// What a thread works for.
#[derive(Debug, Clone, Copy)]
enum Part {
    /// A query on one machine.
    Column { query: u32, workers_left: u32 },
    /// The merge of a query.
    Merge { query: u32 },
}

struct World {
    plan: Plan,
    agenda: Agenda,
    machines: Vec<Machine>,
    controllers: Vec<Controller>,
    queries: Vec<Query>,
    parts: Vec<Part>,
    /// For arrivals and sizes.
    random: SmallRng,
    changes: u64,
    outcome: Outcome,
}

/// Runs the plan.
pub(crate) fn run(plan: Plan) -> anyhow::Result<Outcome> {
    let mut world = World::new(plan)?;
    let end = WARM_UP_NS + plan.measured_ns;
    let mut at_warm_up = None;
    while let Some((now, event)) = world.agenda.next() {
        if at_warm_up.is_none() && now >= WARM_UP_NS {
            at_warm_up = Some(world.totals(now));
        }
        if now >= end {
            world.close(end, at_warm_up.unwrap_or_default());
            break;
        }
        world.handle(now, event)?;
    }
    Ok(world.outcome)
}

impl World {
    fn new(plan: Plan) -> anyhow::Result<Self> {
        let count = plan.columns * plan.rows;
        let secondary = if plan.policy.has_secondary() { BULLIES } else { 0 };
        let controllers =
            (0..count).map(|_| plan.policy.controller(CORES)).collect::<anyhow::Result<Vec<_>>>()?;
        let mut world = Self {
            plan,
            agenda: Agenda::default(),
            machines: (0..count)
                .map(|index| Machine::new(index as u16, CORES, secondary, plan.balances))
                .collect(),
            controllers,
            queries: Vec::new(),
            parts: Vec::new(),
            random: SmallRng::seed_from_u64(plan.seed),
            changes: 0,
            outcome: Outcome::default(),
        };
        for (index, machine) in world.machines.iter_mut().enumerate() {
            machine.lend(plan.policy.first_cores(CORES), 0, &mut world.agenda);
            if world.controllers[index].looks() {
                // Controllers of different machines do not look at the same moment.
                let phase = index as Ns * 7_919 % 100_000;
                world.agenda.at(phase, Event::Poll { machine: index as u16 });
            }
        }
        world.plan_arrival(0);
        Ok(world)
    }

    fn plan_arrival(&mut self, now: Ns) {
        let gap = exponential(1e9 / f64::from(self.plan.queries_per_s), &mut self.random);
        self.agenda.at(now + gap, Event::Arrival);
    }

    fn handle(&mut self, now: Ns, event: Event) -> anyhow::Result<()> {
        match event {
            Event::Arrival => {
                self.arrive(now);
                self.plan_arrival(now);
            }
            Event::Wake { machine, thread } => {
                self.machines[usize::from(machine)].wake(thread, now, &mut self.agenda);
            }
            Event::Timer { machine, core, setting } => {
                let index = usize::from(machine);
                let done = self.machines[index].timer(usize::from(core), setting, now, &mut self.agenda);
                if let Some(thread) = done {
                    self.burst_done(index, thread, now);
                }
            }
            Event::Poll { machine } => {
                let index = usize::from(machine);
                let look = self.controllers[index].look(&mut self.machines[index], now)?;
                if let Some((time, cores)) = look.change {
                    self.changes += 1;
                    self.agenda.at(time, Event::Apply { machine, cores });
                }
                self.agenda.at(look.next, Event::Poll { machine });
            }
            Event::Apply { machine, cores } => {
                self.machines[usize::from(machine)].lend(cores, now, &mut self.agenda);
            }
        }
        Ok(())
    }

    /// A query wakes its workers on every column of a row.
    fn arrive(&mut self, now: Ns) {
        let row = self.random.random_range(0..self.plan.rows);
        let query = self.queries.len() as u32;
        self.queries.push(Query { arrived: now, row, columns_left: self.plan.columns as u32 });
        let size = self.plan.workload.size(&mut self.random);
        for column in 0..self.plan.columns {
            let index = row * self.plan.columns + column;
            let part = self.parts.len() as u32;
            self.parts.push(Part::Column { query, workers_left: WORKERS });
            for worker in 0..WORKERS {
                let mut random = self.own_random(query, index as u32 * (WORKERS + 1) + worker);
                let bursts = self.plan.workload.bursts(size, &mut random);
                let remaining = self.plan.workload.burst(&mut random);
                let at = now + Workload::offset(&mut random);
                self.wake_new(index, Thread::new(part, bursts - 1, remaining, random), at);
            }
        }
    }

    /// The random numbers of one thread of a query, whatever happens around it.
    fn own_random(&self, query: u32, thread: u32) -> SmallRng {
        let own = u64::from(query) << 32 | u64::from(thread);
        SmallRng::seed_from_u64(own ^ self.plan.seed.rotate_left(17))
    }

    fn wake_new(&mut self, index: usize, thread: Thread, at: Ns) {
        let thread = self.machines[index].spawn(thread);
        self.agenda.at(at, Event::Wake { machine: index as u16, thread });
    }

    /// A thread reads for its next burst, or has ended.
    fn burst_done(&mut self, index: usize, thread: u32, now: Ns) {
        let state = self.machines[index].thread(thread);
        if state.bursts_left > 0 {
            state.bursts_left -= 1;
            state.remaining = self.plan.workload.burst(&mut state.random);
            let at = now + self.plan.workload.read(&mut state.random);
            self.agenda.at(at, Event::Wake { machine: index as u16, thread });
            return;
        }
        let part = state.part as usize;
        self.machines[index].end(thread);
        match &mut self.parts[part] {
            Part::Column { query, workers_left } => {
                *workers_left -= 1;
                if *workers_left == 0 {
                    let query = *query;
                    self.column_done(query, now);
                }
            }
            Part::Merge { query } => {
                let query = *query;
                let arrived = self.queries[query as usize].arrived;
                let top = now + exponential(MERGE_NS, &mut self.own_random(query, u32::MAX));
                if arrived >= WARM_UP_NS {
                    self.outcome.mid_ms.push(ms(now - arrived));
                    self.outcome.top_ms.push(ms(top - arrived));
                }
            }
        }
    }

    /// A machine has answered; when the last one has, their answers are merged.
    fn column_done(&mut self, query: u32, now: Ns) {
        let state = &mut self.queries[query as usize];
        state.columns_left -= 1;
        let Query { arrived, row, columns_left } = *state;
        if arrived >= WARM_UP_NS {
            self.outcome.machine_ms.push(ms(now - arrived));
        }
        if self.plan.columns > 1 && columns_left == 0 {
            let index = row * self.plan.columns + query as usize % self.plan.columns;
            let part = self.parts.len() as u32;
            self.parts.push(Part::Merge { query });
            let mut random = self.own_random(query, index as u32 * (WORKERS + 1) + WORKERS);
            let remaining = exponential(MERGE_NS, &mut random);
            self.wake_new(index, Thread::new(part, 0, remaining, random), now);
        }
    }

    fn totals(&mut self, now: Ns) -> (Totals, u64) {
        let mut sum = Totals::default();
        for machine in &mut self.machines {
            machine.book_all(now);
            sum.primary_ns += machine.totals.primary_ns;
            sum.secondary_ns += machine.totals.secondary_ns;
            sum.wakes += machine.totals.wakes;
            sum.queued += machine.totals.queued;
        }
        (sum, self.changes)
    }

    fn close(&mut self, now: Ns, (before, changes): (Totals, u64)) {
        let (after, changes_after) = self.totals(now);
        let all = self.plan.measured_ns as f64 * (CORES * self.machines.len()) as f64;
        self.outcome.primary = (after.primary_ns - before.primary_ns) as f64 / all;
        self.outcome.secondary = (after.secondary_ns - before.secondary_ns) as f64 / all;
        self.outcome.queued = (after.queued - before.queued) as f64 / (after.wakes - before.wakes) as f64;
        let seconds = self.plan.measured_ns as f64 / 1e9 * self.machines.len() as f64;
        self.outcome.changes_per_s = (changes_after - changes) as f64 / seconds;
    }
}

fn ms(ns: Ns) -> f64 {
    ns as f64 / 1e6
}

#[cfg(test)]
mod tests;
