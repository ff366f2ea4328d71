//! Worker pools: the workers that run the same functions, and what waits for them.
//!
//! There is one queue for each tenant of a pool, not one for each worker: no worker idles while a
//! call waits that it may run. Where several tenants share a pool they take [turns](crate::turns).

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::turns::Turns;
use crate::{FunctionId, Moment, PoolKey, PoolKind};

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
    queued: Queued,
    /// Whose turn it is of the tenants with jobs.
    pub(crate) turns: Turns,
    /// Jobs that wait or run, for their images too.
    open: usize,
    /// Functions that run here and whose calls are accepted.
    pub(crate) functions: usize,
    pub(crate) starts: Starts,
    /// Since when it waits for other processes to leave, if it does.
    room_since: Option<Moment>,
}

/// Jobs in the queues of a pool's tenants.
#[derive(Debug, Clone, Copy, Default)]
struct Queued {
    jobs: usize,
    /// Since when there have been some.
    since: Moment,
}

/// When a pool may start another worker.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Starts {
    /// None is started before this.
    pub(crate) after: Moment,
    /// How long the last pause was, in microseconds.
    pub(crate) pause_us: u64,
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
            queued: Queued::default(),
            turns: Turns::default(),
            open: 0,
            functions: 0,
            starts: Starts::default(),
            room_since: None,
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

    /// Jobs in the queues of its tenants.
    #[inline]
    pub(crate) fn queued(&self) -> usize {
        self.queued.jobs
    }

    /// Since when there have been some.
    pub(crate) fn queued_since(&self) -> Moment {
        self.queued.since
    }

    /// Whether it has a use for a worker.
    pub(crate) fn wants_worker(&self) -> bool {
        self.queued.jobs > 0 || self.workers() < self.kept
    }

    /// Workers that have something to do.
    pub(crate) fn busy(&self) -> usize {
        self.members.len() - self.idle.len()
    }

    /// Whether nobody calls what runs here or may.
    pub(crate) fn is_useless(&self) -> bool {
        self.functions == 0 && self.open == 0
    }

    #[cfg(test)]
    pub(crate) fn open(&self) -> usize {
        self.open
    }

    #[cfg(test)]
    pub(crate) fn waits_for_room(&self) -> bool {
        self.room_since.is_some()
    }
}

/// All pools, by their number, and what is counted over all of them.
#[derive(Debug)]
pub(crate) struct Pools {
    records: Vec<Pool>,
    by_key: BTreeMap<PoolKey, u32>,
    /// Workers that take jobs, and pools that have any.
    ready: usize,
    manned: usize,
    /// Pools of one tenant with open jobs.
    busy: usize,
    /// Pools with jobs that wait for a worker.
    hungry: BTreeSet<u32>,
    /// Pools that wait until another's worker has left, first come first served.
    for_room: VecDeque<u32>,
    /// Pools are not looked at before this.
    pub(crate) scale_after: Moment,
    /// When idle workers are looked at.
    pub(crate) sweep_due: Moment,
}

impl Default for Pools {
    fn default() -> Self {
        let (records, by_key, ready, manned, busy, hungry, for_room) = Default::default();
        let (scale_after, sweep_due) = (Moment(0), Moment::NEVER);
        Self { records, by_key, ready, manned, busy, hungry, for_room, scale_after, sweep_due }
    }
}

impl Pools {
    /// The number of a pool.
    pub(crate) fn find(&self, key: PoolKey) -> Option<u32> {
        self.by_key.get(&key).copied()
    }

    /// The number of a new one.
    pub(crate) fn add(&mut self, pool: Pool) -> u32 {
        let number = self.records.len() as u32;
        self.by_key.insert(pool.key, number);
        self.records.push(pool);
        number
    }

    pub(crate) fn len(&self) -> usize {
        self.records.len()
    }

    pub(crate) fn get(&self, number: u32) -> Option<&Pool> {
        self.records.get(number as usize)
    }

    /// Workers that take jobs.
    pub(crate) fn ready(&self) -> usize {
        self.ready
    }

    /// Pools with workers that take jobs.
    pub(crate) fn manned(&self) -> usize {
        self.manned
    }

    /// Pools of one tenant with open jobs.
    pub(crate) fn busy(&self) -> usize {
        self.busy
    }

    /// Pools with jobs that wait for a worker.
    pub(crate) fn hungry(&self) -> &BTreeSet<u32> {
        &self.hungry
    }

    /// A call came to a pool.
    #[inline]
    pub(crate) fn opened(&mut self, number: u32) {
        let pool = &mut self.records[number as usize];
        pool.open += 1;
        if pool.open == 1 && !pool.key.is_shared() {
            self.busy += 1;
        }
    }

    /// A call left a pool.
    #[inline]
    pub(crate) fn closed(&mut self, number: u32) {
        let pool = &mut self.records[number as usize];
        pool.open -= 1;
        if pool.open == 0 && !pool.key.is_shared() {
            self.busy -= 1;
        }
    }

    /// A worker of a pool takes jobs from now on. It has none.
    pub(crate) fn join(&mut self, number: u32, place: u16) {
        let pool = &mut self.records[number as usize];
        self.manned += usize::from(pool.members.is_empty());
        self.ready += 1;
        pool.members.insert(place);
        pool.idle.insert(place);
    }

    /// A worker that took jobs of a pool takes none any more.
    pub(crate) fn leave(&mut self, number: u32, place: u16) {
        let pool = &mut self.records[number as usize];
        pool.members.remove(place);
        pool.idle.remove(place);
        self.ready -= 1;
        self.manned -= usize::from(pool.members.is_empty());
    }

    /// One more job waits for a worker of a pool.
    pub(crate) fn queued(&mut self, now: Moment, number: u32) {
        let queued = &mut self.records[number as usize].queued;
        queued.jobs += 1;
        if queued.jobs == 1 {
            queued.since = now;
            self.hungry.insert(number);
        }
    }

    /// So many jobs fewer wait for a worker of a pool.
    pub(crate) fn unqueued(&mut self, number: u32, jobs: usize) {
        let queued = &mut self.records[number as usize].queued;
        queued.jobs -= jobs;
        if queued.jobs == 0 {
            self.hungry.remove(&number);
        }
    }

    /// Pools that wait until another's worker has left.
    pub(crate) fn waiting_for_room(&self) -> usize {
        self.for_room.len()
    }

    /// Since when one of them waits; 0 is the first that came.
    pub(crate) fn waits_for_room_since(&self, nth: usize) -> Option<Moment> {
        self.records[*self.for_room.get(nth)? as usize].room_since
    }

    /// A pool waits from now on, unless it does.
    pub(crate) fn wait_for_room(&mut self, now: Moment, number: u32) {
        let since = &mut self.records[number as usize].room_since;
        if since.is_none() {
            *since = Some(now);
            self.for_room.push_back(number);
        }
    }

    /// The first that came waits no more; since when it did.
    pub(crate) fn take_first_for_room(&mut self) -> Option<(u32, Moment)> {
        let number = self.for_room.pop_front()?;
        Some((number, self.records[number as usize].room_since.take()?))
    }

    /// Whether a pool that was the first has come to wait again: it is the first again, as if it had never left.
    pub(crate) fn is_still_first_for_room(&mut self, number: u32, since: Moment) -> bool {
        let room_since = &mut self.records[number as usize].room_since;
        let waits = room_since.is_some();
        if waits {
            *room_since = Some(since);
            self.for_room.rotate_right(1);
        }
        waits
    }

    /// Pools that have no use for a worker any more do not wait for room, and none does when the node stops.
    pub(crate) fn forget_satisfied(&mut self, stopping: bool) {
        let Self { records, for_room, .. } = self;
        for_room.retain(|number| {
            let pool = &mut records[*number as usize];
            let waits = pool.wants_worker() && !stopping;
            if !waits {
                pool.room_since = None;
            }
            waits
        });
    }

    #[cfg(test)]
    pub(crate) fn for_room(&self) -> &VecDeque<u32> {
        &self.for_room
    }

    #[cfg(test)]
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &Pool)> {
        (0..).zip(&self.records)
    }
}

impl std::ops::Index<u32> for Pools {
    type Output = Pool;
    #[inline]
    fn index(&self, number: u32) -> &Pool {
        &self.records[number as usize]
    }
}

impl std::ops::IndexMut<u32> for Pools {
    #[inline]
    fn index_mut(&mut self, number: u32) -> &mut Pool {
        &mut self.records[number as usize]
    }
}
