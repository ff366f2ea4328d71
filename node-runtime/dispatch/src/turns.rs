//! Whose turn it is among the tenants of a pool.
//!
//! Tenants take turns by deficit round robin over CPU time (Shreedhar and Varghese, SIGCOMM 1995): a turn
//! lasts until what the tenant's calls took is more than what its turns gave it, so a tenant of long calls
//! gets fewer of them.
//!
//! Rounds are counted, not walked: what a tenant used says in which round it has its next turn. So
//! finding the next one does not cost more where thousands wait, however far each is overdrawn. Only
//! those who wait at the same time are compared: what a tenant used while nobody waited, and what it
//! used before the round that the others are in now, is nobody's loss and is not held against it.

use std::collections::{BTreeMap, BTreeSet};

use crate::TenantId;
use crate::jobs::List;

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
    turn: Option<Turn>,
    /// CPU time that its calls used by the clock of its pool, in microseconds.
    used_us: u64,
    /// What its calls took lately, in microseconds.
    average_us: i64,
}

/// In which round a queue runs, and after how many others of that round.
type Turn = (u64, u64);

impl Queue {
    fn new(tenant: u32, pool: u32) -> Self {
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
    fn round(&self) -> u64 {
        self.used_us / QUANTUM_US
    }

    #[cfg(test)]
    pub(crate) fn used_us(&self) -> u64 {
        self.used_us
    }
}

/// All queues, by their number.
#[derive(Debug, Default)]
pub(crate) struct Queues {
    records: Vec<Queue>,
    by_owner: BTreeMap<(TenantId, u32), u32>,
}

impl Queues {
    /// The number of a tenant's queue in a pool.
    pub(crate) fn find(&self, tenant: TenantId, pool: u32) -> Option<u32> {
        self.by_owner.get(&(tenant, pool)).copied()
    }

    /// The number of a new one.
    pub(crate) fn add(&mut self, tenant: TenantId, pool: u32) -> u32 {
        let number = self.records.len() as u32;
        self.records.push(Queue::new(tenant.0, pool));
        self.by_owner.insert((tenant, pool), number);
        number
    }

    #[cfg(test)]
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &Queue)> {
        (0..).zip(&self.records)
    }

    #[cfg(test)]
    pub(crate) fn get(&self, number: u32) -> Option<&Queue> {
        self.records.get(number as usize)
    }
}

impl std::ops::Index<u32> for Queues {
    type Output = Queue;
    #[inline]
    fn index(&self, number: u32) -> &Queue {
        &self.records[number as usize]
    }
}

impl std::ops::IndexMut<u32> for Queues {
    #[inline]
    fn index_mut(&mut self, number: u32) -> &mut Queue {
        &mut self.records[number as usize]
    }
}

/// The turns of one pool.
#[derive(Debug, Default)]
pub(crate) struct Turns {
    /// Queues with jobs, in the order of their turns.
    order: BTreeSet<(Turn, u32)>,
    /// What a tenant that begins to wait now counts as having used, and the most that any has, in
    /// microseconds.
    clock_us: u64,
    latest_us: u64,
    /// Turns given so far.
    given: u64,
}

impl Turns {
    /// A queue has jobs: it gets a turn, unless it has one.
    pub(crate) fn enter(&mut self, number: u32, queue: &mut Queue) {
        if queue.turn.is_some() {
            return;
        }
        if self.order.is_empty() {
            // Nobody waited for what was used so far.
            self.clock_us = self.clock_us.max(self.latest_us);
        }
        queue.used_us = queue.used_us.max(self.clock_us);
        self.give(number, queue);
    }

    /// A queue has no jobs any more.
    pub(crate) fn leave(&mut self, number: u32, queue: &mut Queue) {
        if let Some(turn) = queue.turn.take() {
            self.order.remove(&(turn, number));
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
            self.give(number, queue);
        }
    }

    fn give(&mut self, number: u32, queue: &mut Queue) {
        self.given += 1;
        let turn = (queue.round(), self.given);
        queue.turn = Some(turn);
        self.order.insert((turn, number));
    }

    /// The next queue to take a job from. `holds_too_much` says who must leave a worker to the
    /// others: where there are workers enough, one of them at most, so this looks at few.
    pub(crate) fn next(&mut self, holds_too_much: impl Fn(u32) -> bool) -> Option<u32> {
        let alone = self.order.len() == 1;
        let next = self.order.iter().find(|(_, number)| alone || !holds_too_much(*number));
        let ((round, _), number) = *next?;
        self.clock_us = self.clock_us.max(round * QUANTUM_US);
        Some(number)
    }

    /// Panics unless exactly the queues with jobs have one turn each, in the round that what they used says.
    #[cfg(test)]
    pub(crate) fn check<'q>(&self, queues: impl Iterator<Item = (u32, &'q Queue)>) {
        let mut waiting = 0;
        for (number, queue) in queues {
            let has_turn = queue
                .turn
                .is_some_and(|turn| turn.0 == queue.round() && self.order.contains(&(turn, number)));
            assert_eq!(queue.turn.is_some(), !queue.jobs.is_empty());
            assert_eq!(has_turn, !queue.jobs.is_empty());
            assert!(queue.used_us <= self.latest_us, "the clock knows the most that anybody used");
            waiting += usize::from(queue.turn.is_some());
        }
        assert_eq!(self.order.len(), waiting, "one turn each");
        assert!(self.clock_us <= self.latest_us, "nobody is charged for what nobody used");
    }
}
