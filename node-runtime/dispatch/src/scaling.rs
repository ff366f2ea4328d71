//! How many workers each pool has.
//!
//! A pool gets its first worker when a call waits, and more while calls go on waiting and cores are
//! not used by other pools. A worker without calls sleeps, which costs memory alone; so all pools
//! together have a number of processes, and when it is reached, whoever was idle longest leaves for
//! whoever waits longest; where nobody is ever idle, whoever served longest leaves after its calls.
//! No call is interrupted for that, and nobody is refused.

use crate::pool::Pool;
use crate::scheduler::Scheduler;
use crate::worker::{State, Worker};
use crate::{
    Command, Commands, KillReason, Misuse, Moment, PoolKey, PoolKind, SlabId, WORKERS_CAP, WorkerId,
};

/// Pools with calls that wait are looked at this often, in microseconds.
const SCALE_PAUSE_US: u64 = 1_000;
/// A pool waits so long for an idle worker to leave before one leaves that has calls, after those and
/// after it has served its pool as long, in microseconds: what starting another costs is a few percent
/// of it.
const ROOM_PATIENCE_US: u64 = 50_000;
/// Idle workers are looked at this often, in microseconds.
const SWEEP_PAUSE_US: u64 = 5_000_000;
/// Between the end of a worker that was not asked to leave and the next start in its pool, in
/// microseconds: doubled with every one that lives less than [`STEADY_US`].
const START_PAUSE_US: std::ops::RangeInclusive<u64> = 20_000..=5_000_000;
const STEADY_US: u64 = 10_000_000;

impl Scheduler {
    /// The number of a pool, made if there is none yet.
    pub(crate) fn pool_number(&mut self, key: PoolKey) -> Result<u32, Misuse> {
        if let Some(number) = self.pool_of.get(&key) {
            return Ok(*number);
        }
        let number = self.pools.len();
        if number >= self.limits.pools_max {
            let limit = self.limits.pools_max as u64;
            return Err(Misuse::TooMany { what: "pool", number: number as u64, limit });
        }
        if key.is_shared() && self.limits.shared_workers == 0 {
            return Err(Misuse::NoSuchPool(key));
        }
        let (kept, workers_max) = match key.kind {
            PoolKind::Alone(_) => (0, 1),
            PoolKind::Short if key.is_shared() => (self.limits.shared_workers, self.limits.shared_workers),
            PoolKind::Short | PoolKind::Long => (0, self.limits.cores.max(1)),
        };
        self.pools.push(Pool::new(key, kept, workers_max));
        self.pool_of.insert(key, number as u32);
        Ok(number as u32)
    }

    /// Calls that a pool may run at a time: cores are shared by the pools that have any.
    pub(crate) fn runs_max(&self, pool: &Pool) -> usize {
        if pool.key.is_shared() {
            return usize::MAX;
        }
        (self.limits.cores / self.busy_pools.max(1)).max(1)
    }

    /// A call came to a pool.
    #[inline]
    pub(crate) fn opened(&mut self, number: u32) {
        let pool = &mut self.pools[number as usize];
        pool.open += 1;
        if pool.open == 1 && !pool.key.is_shared() {
            self.busy_pools += 1;
        }
    }

    /// A call left a pool.
    #[inline]
    pub(crate) fn closed(&mut self, number: u32) {
        let pool = &mut self.pools[number as usize];
        pool.open -= 1;
        if pool.open == 0 && !pool.key.is_shared() {
            self.busy_pools -= 1;
        }
    }

    /// A worker has mapped `slab`, locked itself down and takes calls of the pool that it was asked for.
    ///
    /// One that is not needed any more, because its slab or its pool's functions went away meanwhile, is
    /// asked to leave; it counts as alive until [`Scheduler::worker_died`].
    pub fn worker_ready(
        &mut self,
        now: Moment,
        id: WorkerId,
        slab: SlabId,
        commands: &mut Commands,
    ) -> Result<(), Misuse> {
        let starting = self.workers.get(usize::from(id.place));
        let starting = starting.filter(|w| w.life == id.life && w.state == State::Starting);
        let number = starting.ok_or(Misuse::NotExpected(id))?.pool;
        let pool = &mut self.pools[number as usize];
        pool.coming -= 1;
        let outdated = slab != self.slabs.id(pool.key.slab);
        let useless = pool.kept == 0 && pool.functions == 0 && pool.open == 0;
        // A replacement begins where the others are: it must not get every call until it has caught up.
        let load_us = pool.members.iter().map(|place| self.workers[usize::from(place)].load_us).min();
        let worker = &mut self.workers[usize::from(id.place)];
        (worker.born, worker.idle_since, worker.load_us) = (now, now, load_us.unwrap_or(0));
        if outdated || useless {
            worker.state = State::Leaving;
            commands.push(Command::Stop { worker: id });
        } else {
            worker.state = State::Ready;
            self.manned += usize::from(pool.members.is_empty());
            self.ready += 1;
            pool.members.insert(id.place);
            pool.idle.insert(id.place);
        }
        self.feed(now, number, commands);
        Ok(())
    }

    /// Asks for one more worker of a pool, if it may have one now.
    pub(crate) fn want_worker(&mut self, now: Moment, number: u32, commands: &mut Commands) {
        let pool = &mut self.pools[number as usize];
        if self.stopping || pool.workers() >= pool.workers_max || pool.start_after > now {
            return;
        }
        let workers_max = self.limits.workers_max.min(WORKERS_CAP);
        let place = self.free_places.pop().or_else(|| {
            // As many places as there may be workers, so one is free exactly when there is room.
            let next = self.workers.len();
            (next < workers_max).then(|| {
                self.workers.push(Worker::EMPTY);
                next as u16
            })
        });
        let Some(place) = place else {
            if !std::mem::replace(&mut pool.waits_for_room, true) {
                pool.room_since = now;
                self.for_room.push_back(number);
            }
            return;
        };
        pool.coming += 1;
        let key = pool.key;
        let worker = &mut self.workers[usize::from(place)];
        *worker = Worker::starting(worker.life + 1, number);
        let id = WorkerId { place, life: worker.life };
        self.slabs.ensure(key.slab).workers += 1;
        let slab = self.slabs.named(key.slab);
        if !key.is_shared() || key.kind != PoolKind::Short {
            self.sweep_due = self.sweep_due.min(now.plus(SWEEP_PAUSE_US));
        }
        commands.push(Command::Spawn { worker: id, pool: key, slab });
    }

    /// A worker's place is free, and its slab one worker poorer.
    pub(crate) fn buried(&mut self, now: Moment, place: u16, dead: &Worker, commands: &mut Commands) {
        self.free_places.push(place);
        let slab = self.pools[dead.pool as usize].key.slab;
        self.slabs.ensure(slab).workers -= 1;
        self.slabs.settle(slab, commands);
        self.give_room(now, commands);
    }

    /// A worker is no more: its pool pauses before the next, unless it had announced it or was asked to leave.
    pub(crate) fn lost_worker(&mut self, now: Moment, dead: &Worker) {
        let pool = &mut self.pools[dead.pool as usize];
        let orderly = dead.state == State::Leaving && dead.is_idle();
        if dead.state == State::Starting {
            pool.coming -= 1;
        }
        if !orderly {
            // A call on its core answers for its end: that one is banned, and its neighbours must not wait.
            let lived = dead.state != State::Starting && now.since(dead.born) > STEADY_US;
            let pause = if lived || dead.first().is_some() { 0 } else { pool.pause_us.saturating_mul(2) };
            pool.pause_us = pause.clamp(*START_PAUSE_US.start(), *START_PAUSE_US.end());
            pool.start_after = now.plus(pool.pause_us);
        }
    }

    /// Starts workers of the pools that waited for room, as far as there is some.
    fn give_room(&mut self, now: Moment, commands: &mut Commands) {
        for _ in 0..self.for_room.len() {
            let Some(number) = self.for_room.pop_front() else { return };
            let pool = &mut self.pools[number as usize];
            pool.waits_for_room = false;
            if !pool.wants_worker() {
                continue;
            }
            let since = pool.room_since;
            self.want_worker(now, number, commands);
            let pool = &mut self.pools[number as usize];
            if pool.waits_for_room {
                // Still no room: it stays the first.
                pool.room_since = since;
                self.for_room.rotate_right(1);
                return;
            }
        }
    }

    /// When [`Scheduler::scale`] has something to do.
    pub(crate) fn scaling_due(&self) -> Moment {
        let soon = self.scale_after;
        let waits = (!self.hungry.is_empty() || !self.for_room.is_empty()).then_some(soon);
        let lacks = self.pools.first().filter(|pool| pool.workers() < pool.kept && !self.stopping);
        let lacks = lacks.map(|pool| pool.start_after.max(soon));
        let due = self.sweep_due.min(self.strikes.next_cleared());
        waits.into_iter().chain(lacks).fold(due, Moment::min)
    }

    /// Starts what is missing, stops what nobody needs.
    pub(crate) fn scale(&mut self, now: Moment, commands: &mut Commands) {
        self.scale_after = now.plus(SCALE_PAUSE_US);
        self.keep_shared(now, commands);
        let hungry: Vec<u32> = self.hungry.iter().copied().collect();
        for number in hungry {
            self.feed(now, number, commands);
            self.grow(now, number, commands);
        }
        self.make_room(now, commands);
        for (function, home) in self.strikes.take_cleared(now) {
            self.move_function(now, function, home.home_queue, home.home_pool, commands);
        }
        if self.sweep_due <= now {
            self.sweep(now, commands);
        }
    }

    /// The pool that all share, if there is one, is the first.
    fn keep_shared(&mut self, now: Moment, commands: &mut Commands) {
        let missing = self.pools.first().map_or(0, |pool| pool.kept.saturating_sub(pool.workers()));
        (0..missing).for_each(|_| self.want_worker(now, 0, commands));
    }

    /// One more worker where calls have waited for those that are there.
    fn grow(&mut self, now: Moment, number: u32, commands: &mut Commands) {
        let pool = &self.pools[number as usize];
        let waits = pool.queued > 0 && now.since(pool.queued_since) >= self.limits.grow_after_us;
        let helps = pool.coming == 0 && pool.workers() < self.runs_max(pool);
        if waits && helps {
            self.want_worker(now, number, commands);
        }
    }

    /// Lets as many workers leave as pools wait for room: the longest idle first, and those that are
    /// never idle in turns, so that whoever calls without a pause does not keep others out.
    fn make_room(&mut self, now: Moment, commands: &mut Commands) {
        let Self { pools, for_room, stopping, .. } = self;
        for_room.retain(|number| {
            let pool = &mut pools[*number as usize];
            pool.waits_for_room = pool.wants_worker() && !*stopping;
            pool.waits_for_room
        });
        if self.for_room.is_empty() {
            return;
        }
        let leaves =
            |worker: &&Worker| matches!(worker.state, State::Leaving | State::Dying | State::Doomed(_));
        let leaving = self.workers.iter().filter(leaves).count();
        let patience = Moment(now.0.saturating_sub(ROOM_PATIENCE_US));
        for nth in leaving..self.for_room.len() {
            let idle = (0..).zip(&self.workers).filter(|(_, worker)| self.may_leave(worker));
            let idle = idle.min_by_key(|(_, worker)| worker.idle_since).map(|(place, _)| place);
            let waited = self.pools[self.for_room[nth] as usize].room_since <= patience;
            let place = idle.or_else(|| waited.then(|| self.longest_serving(patience)).flatten());
            let Some(place) = place else { return };
            self.stop_worker(place, commands);
        }
    }

    /// Whether nobody needs the worker now.
    fn may_leave(&self, worker: &Worker) -> bool {
        let pool = &self.pools[worker.pool as usize];
        let spare = pool.queued == 0 || pool.members.len() > self.runs_max(pool);
        worker.state == State::Ready && worker.is_idle() && pool.members.len() > pool.kept && spare
    }

    /// The worker that has served its pool longest, and since before that.
    fn longest_serving(&self, before: Moment) -> Option<u16> {
        let may = |worker: &Worker| {
            let pool = &self.pools[worker.pool as usize];
            worker.state == State::Ready && worker.born <= before && pool.members.len() > pool.kept
        };
        let serving = (0..).zip(&self.workers).filter(|(_, worker)| may(worker));
        serving.min_by_key(|(_, worker)| worker.born).map(|(place, _)| place)
    }

    /// Lets workers leave that have been idle for too long, or whose functions are gone.
    fn sweep(&mut self, now: Moment, commands: &mut Commands) {
        self.sweep_due = Moment::NEVER;
        if self.stopping {
            // Nobody would take the place of one that leaves before what was accepted is answered.
            return;
        }
        for place in 0..self.workers.len() {
            let worker = &self.workers[place];
            let pool = &self.pools[worker.pool as usize];
            if worker.state == State::Empty || pool.kept > 0 {
                continue;
            }
            self.sweep_due = now.plus(SWEEP_PAUSE_US);
            let idle_max =
                if pool.members.len() > 1 { self.limits.surplus_idle_us } else { self.limits.parked_idle_us };
            let useless = pool.functions == 0 && pool.open == 0;
            if self.may_leave(worker) && (useless || now.since(worker.idle_since) >= idle_max) {
                self.stop_worker(place as u16, commands);
            }
        }
    }

    /// Lets a worker take nothing more and leave when it has answered what it has.
    pub(crate) fn stop_worker(&mut self, place: u16, commands: &mut Commands) {
        self.take_out(place);
        let worker = &mut self.workers[usize::from(place)];
        worker.state = State::Leaving;
        if worker.is_idle() {
            commands.push(Command::Stop { worker: WorkerId { place, life: worker.life } });
        }
    }

    /// Lets a worker take nothing more and orders its end, once.
    pub(crate) fn doom(&mut self, place: u16, reason: KillReason, commands: &mut Commands) {
        self.take_out(place);
        let worker = &mut self.workers[usize::from(place)];
        match worker.state {
            State::Doomed(_) => return,
            // It counts as on its way until now.
            State::Starting => self.pools[worker.pool as usize].coming -= 1,
            State::Empty | State::Ready | State::Leaving | State::Dying => {}
        }
        worker.state = State::Doomed(reason);
        commands.push(Command::Kill { worker: WorkerId { place, life: worker.life }, reason });
    }

    /// The worker is not one that takes jobs any more.
    pub(crate) fn take_out(&mut self, place: u16) {
        let worker = &self.workers[usize::from(place)];
        if worker.state != State::Ready {
            return;
        }
        let pool = &mut self.pools[worker.pool as usize];
        pool.members.remove(place);
        pool.idle.remove(place);
        self.ready -= 1;
        self.manned -= usize::from(pool.members.is_empty());
    }
}
