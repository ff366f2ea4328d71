//! Worker pools, and the queues of the tenants that call in them.
//!
//! There is one queue for each tenant of a pool, not one for each worker: no worker idles while a
//! call waits that it may run. Where several tenants share a pool they take turns by deficit round
//! robin over CPU time (Shreedhar and Varghese, SIGCOMM 1995): a turn lasts until what the tenant's
//! calls took is more than what its turns gave it, so a tenant of long calls gets fewer of them.
//!
//! Rounds are counted, not walked: what a tenant used says in which round it has its next turn. So
//! finding the next one does not cost more where thousands wait, however far each is overdrawn. Only
//! those who wait at the same time are compared: what a tenant used while nobody waited, and what it
//! used before the round that the others are in now, is nobody's loss and is not held against it.

use std::collections::BTreeSet;

use crate::jobs::List;
use crate::{FunctionId, Moment, PoolKey, PoolKind};

/// CPU time that one turn gives a tenant, in microseconds: what a short call takes, so that nobody
/// waits for many calls of another tenant while it may run.
pub(crate) const QUANTUM_US: u64 = 100;
/// A call is charged when it starts with what its tenant's calls took lately, and corrected when it
/// ends. One part in this many of the average is new.
const AVERAGE_PARTS: i64 = 8;

/// What waits of one tenant in one pool, first come first served.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Queue {
    pub(crate) tenant: u32,
    pub(crate) pool: u32,
    pub(crate) jobs: List,
    /// Its turn among the tenants of its pool, while it has jobs.
    pub(crate) turn: Option<Turn>,
    /// CPU time that its calls used by the clock of its pool, in microseconds.
    pub(crate) used_us: u64,
    /// What its calls took lately, in microseconds.
    average_us: i64,
}

/// In which round a queue runs, and after how many others of that round.
pub(crate) type Turn = (u64, u64);

impl Queue {
    pub(crate) fn new(tenant: u32, pool: u32) -> Self {
        Self { tenant, pool, jobs: List::EMPTY, turn: None, used_us: 0, average_us: 0 }
    }

    /// A call starts: what it is charged until it ends.
    fn charge(&mut self) -> u32 {
        let charged = u32::try_from(self.average_us.max(1)).unwrap_or(u32::MAX);
        self.used_us = self.used_us.saturating_add(u64::from(charged));
        charged
    }

    /// A call that was charged `charged_us` took `used_us`. At least one microsecond: a call that
    /// takes less costs the host as much.
    fn settle(&mut self, charged_us: u32, used_us: u64) {
        let used = used_us.max(1);
        self.refund(charged_us);
        self.used_us = self.used_us.saturating_add(used);
        let used = i64::try_from(used).unwrap_or(i64::MAX);
        self.average_us += (used - self.average_us) / AVERAGE_PARTS;
        self.average_us = self.average_us.max(1);
    }

    /// A call that was charged did not run.
    fn refund(&mut self, charged_us: u32) {
        self.used_us = self.used_us.saturating_sub(u64::from(charged_us));
    }

    /// The round in which it has credit.
    pub(crate) fn round(&self) -> u64 {
        self.used_us / QUANTUM_US
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
    /// Queues with jobs, in the order of their turns.
    pub(crate) turns: BTreeSet<(Turn, u32)>,
    /// What a tenant that begins to wait now counts as having used, and the most that any has, in
    /// microseconds.
    pub(crate) clock_us: u64,
    pub(crate) latest_us: u64,
    /// Turns given so far.
    turns_given: u64,
    /// Jobs that wait or run, for their images too.
    pub(crate) open: usize,
    /// Functions that run here and whose calls are accepted.
    pub(crate) functions: usize,
    /// No worker is started before this, and how long the next pause is, in microseconds.
    pub(crate) start_after: Moment,
    pub(crate) pause_us: u64,
    /// It waits for other processes to leave, and since when.
    pub(crate) waits_for_room: bool,
    pub(crate) room_since: Moment,
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
            turns: BTreeSet::new(),
            clock_us: 0,
            latest_us: 0,
            turns_given: 0,
            open: 0,
            functions: 0,
            start_after: Moment(0),
            pause_us: 0,
            waits_for_room: false,
            room_since: Moment(0),
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

    /// Whether it has a use for a worker.
    pub(crate) fn wants_worker(&self) -> bool {
        self.queued > 0 || self.workers() < self.kept
    }

    /// Workers that have something to do.
    pub(crate) fn busy(&self) -> usize {
        self.members.len() - self.idle.len()
    }

    /// A queue has jobs: it gets a turn, unless it has one.
    pub(crate) fn enter(&mut self, number: u32, queue: &mut Queue) {
        if queue.turn.is_some() {
            return;
        }
        if self.turns.is_empty() {
            // Nobody waited for what was used so far.
            self.clock_us = self.clock_us.max(self.latest_us);
        }
        queue.used_us = queue.used_us.max(self.clock_us);
        self.give_turn(number, queue);
    }

    /// A queue has no jobs any more.
    pub(crate) fn leave(&mut self, number: u32, queue: &mut Queue) {
        if let Some(turn) = queue.turn.take() {
            self.turns.remove(&(turn, number));
        }
    }

    /// A call of a queue starts: what it is charged until it ends.
    pub(crate) fn charge(&mut self, number: u32, queue: &mut Queue) -> u32 {
        let charged = queue.charge();
        self.used(number, queue);
        charged
    }

    /// A call of a queue that was charged took so long, or did not run.
    pub(crate) fn settle(&mut self, number: u32, queue: &mut Queue, charged_us: u32, used_us: Option<u64>) {
        match used_us {
            Some(used_us) => queue.settle(charged_us, used_us),
            None => queue.refund(charged_us),
        }
        self.used(number, queue);
    }

    /// What a queue used has changed. It keeps its turn while it stays in its round.
    fn used(&mut self, number: u32, queue: &mut Queue) {
        self.latest_us = self.latest_us.max(queue.used_us);
        if queue.turn.is_some_and(|(round, _)| round != queue.round()) {
            self.leave(number, queue);
            self.give_turn(number, queue);
        }
    }

    fn give_turn(&mut self, number: u32, queue: &mut Queue) {
        self.turns_given += 1;
        let turn = (queue.round(), self.turns_given);
        queue.turn = Some(turn);
        self.turns.insert((turn, number));
    }

    /// The next queue to take a job from. `holds_too_much` says who must leave a worker to the
    /// others: where there are workers enough, one of them at most, so this looks at few.
    pub(crate) fn next_queue(&mut self, holds_too_much: impl Fn(u32) -> bool) -> Option<u32> {
        let alone = self.turns.len() == 1;
        let next = self.turns.iter().find(|(_, number)| alone || !holds_too_much(*number));
        let ((round, _), number) = *next?;
        self.clock_us = self.clock_us.max(round * QUANTUM_US);
        Some(number)
    }
}
