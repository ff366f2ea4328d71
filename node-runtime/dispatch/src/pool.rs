//! Worker pools, and the queues of the tenants that call in them.
//!
//! There is one queue for each tenant of a pool, not one for each worker: no worker idles while a
//! call waits that it may run. Where several tenants share a pool they take turns by deficit round
//! robin over CPU time (Shreedhar and Varghese, SIGCOMM 1995): a turn lasts until what the tenant's
//! calls took is more than what its turns gave it, so a tenant of long calls gets fewer of them.

use std::collections::VecDeque;

use crate::jobs::List;
use crate::{FunctionId, Moment, PoolKey, PoolKind};

/// CPU time that one turn gives a tenant, in microseconds: what a short call takes, so that nobody
/// waits for many calls of another tenant while it may run.
const QUANTUM_US: i64 = 100;
/// A call is charged when it starts with what its tenant's calls took lately, and corrected when it
/// ends. One part in this many of the average is new.
const AVERAGE_PARTS: i64 = 8;

/// What waits of one tenant in one pool, first come first served.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Queue {
    pub(crate) tenant: u32,
    pub(crate) pool: u32,
    pub(crate) jobs: List,
    /// It is in its pool's round of tenants.
    pub(crate) in_turn: bool,
    /// CPU time that its turns gave it and its calls have not used, in microseconds.
    pub(crate) credit_us: i64,
    /// What its calls took lately, in microseconds.
    average_us: i64,
}

impl Queue {
    pub(crate) fn new(tenant: u32, pool: u32) -> Self {
        Self { tenant, pool, jobs: List::EMPTY, in_turn: false, credit_us: 0, average_us: 0 }
    }

    /// A call starts: what it is charged until it ends.
    pub(crate) fn charge(&mut self) -> u32 {
        let charged = u32::try_from(self.average_us.max(1)).unwrap_or(u32::MAX);
        self.credit_us = self.credit_us.saturating_sub(i64::from(charged));
        charged
    }

    /// A call that was charged `charged_us` took `used_us`. At least one microsecond: a call that
    /// takes less costs the host as much.
    pub(crate) fn settle(&mut self, charged_us: u32, used_us: u64) {
        let used = i64::try_from(used_us).unwrap_or(i64::MAX).max(1);
        self.credit_us = self.credit_us.saturating_add(i64::from(charged_us)).saturating_sub(used);
        self.average_us += (used - self.average_us) / AVERAGE_PARTS;
        self.average_us = self.average_us.max(1);
    }

    /// Turns that it needs until it has credit.
    fn turns_short(&self) -> i64 {
        if self.credit_us > 0 { 0 } else { (-self.credit_us) / QUANTUM_US + 1 }
    }
}

/// Workers, by their place. Few, so they are looked through.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Places(Vec<u16>);

impl Places {
    pub(crate) fn insert(&mut self, place: u16) {
        if !self.0.contains(&place) {
            self.0.push(place);
        }
    }

    pub(crate) fn remove(&mut self, place: u16) {
        if let Some(at) = self.0.iter().position(|other| *other == place) {
            self.0.swap_remove(at);
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = u16> + '_ {
        self.0.iter().copied()
    }
}

/// Workers and what waits for them.
#[derive(Debug)]
pub(crate) struct Pool {
    pub(crate) key: PoolKey,
    /// Workers that take jobs.
    pub(crate) members: Places,
    /// Those of them with nothing to do.
    pub(crate) idle: Places,
    /// Workers that were asked for and are not ready.
    pub(crate) coming: usize,
    /// Workers that it has whether anybody calls or not.
    pub(crate) kept: usize,
    /// Workers that it may have.
    pub(crate) workers_max: usize,
    /// Jobs in the queues of its tenants.
    pub(crate) queued: usize,
    /// Since when there have been some.
    pub(crate) queued_since: Moment,
    /// Queues in the order of their turns. Those whose last job was taken out leave at their turn.
    pub(crate) turn: VecDeque<u32>,
    /// Jobs that wait or run, for their images too.
    pub(crate) open: usize,
    /// Functions that run here and whose calls are accepted.
    pub(crate) functions: usize,
    /// No worker is started before this, and how long the next pause is, in microseconds.
    pub(crate) start_after: Moment,
    pub(crate) pause_us: u64,
    /// It waits for other processes to leave.
    pub(crate) waits_for_room: bool,
}

impl Pool {
    /// A pool without workers.
    pub(crate) fn new(key: PoolKey, kept: usize, workers_max: usize) -> Self {
        Self {
            key,
            members: Places::default(),
            idle: Places::default(),
            coming: 0,
            kept,
            workers_max,
            queued: 0,
            queued_since: Moment(0),
            turn: VecDeque::new(),
            open: 0,
            functions: 0,
            start_after: Moment(0),
            pause_us: 0,
            waits_for_room: false,
        }
    }

    /// Whether it is one function's, which is watched there.
    pub(crate) fn is_alone(&self) -> bool {
        matches!(self.key.kind, PoolKind::Alone(FunctionId(_)))
    }

    /// Workers that are there or on their way.
    pub(crate) fn workers(&self) -> usize {
        self.members.len() + self.coming
    }

    /// Workers that have something to do.
    pub(crate) fn busy(&self) -> usize {
        self.members.len() - self.idle.len()
    }

    /// The next queue to take a job from: one with jobs and credit, which keeps its turn while it has
    /// both. Who has no credit is given some and waits for its next turn; `holds_too_much` says who
    /// must leave a worker to the others.
    pub(crate) fn next_queue(
        &mut self,
        queues: &mut [Queue],
        holds_too_much: impl Fn(u32) -> bool,
    ) -> Option<u32> {
        // Where one round finds nobody, all owe more than one turn gives.
        self.first_with_credit(queues, &holds_too_much).or_else(|| {
            self.give_turns(queues, &holds_too_much);
            self.first_with_credit(queues, &holds_too_much)
        })
    }

    /// One round over the queues.
    fn first_with_credit(
        &mut self,
        queues: &mut [Queue],
        holds_too_much: impl Fn(u32) -> bool,
    ) -> Option<u32> {
        for _ in 0..self.turn.len() {
            let first = *self.turn.front()?;
            let queue = &mut queues[first as usize];
            if queue.jobs.is_empty() {
                // Who has nothing to run keeps no credit for later.
                queue.in_turn = false;
                queue.credit_us = queue.credit_us.min(0);
                self.turn.pop_front();
                continue;
            }
            if self.turn.len() == 1 {
                // Nobody to be fair to.
                queue.credit_us = 0;
                return Some(first);
            }
            let too_much = holds_too_much(first);
            if queue.credit_us > 0 && !too_much {
                return Some(first);
            }
            if !too_much {
                queue.credit_us = queue.credit_us.saturating_add(QUANTUM_US);
            }
            self.turn.rotate_left(1);
        }
        None
    }

    /// Gives everybody as many turns as it takes until one that may run has credit.
    fn give_turns(&mut self, queues: &mut [Queue], holds_too_much: impl Fn(u32) -> bool) {
        let may_run = |number: &&u32| !holds_too_much(**number);
        let short = self.turn.iter().filter(may_run).map(|number| queues[*number as usize].turns_short());
        let Some(turns) = short.min() else { return };
        for number in &self.turn {
            let queue = &mut queues[*number as usize];
            queue.credit_us = queue.credit_us.saturating_add(turns.saturating_mul(QUANTUM_US));
        }
    }
}
