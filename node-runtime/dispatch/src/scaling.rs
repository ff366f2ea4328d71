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
use crate::{Command, Commands, KillReason, Misuse, Moment, PoolKey, PoolKind, SlabId, WorkerId};

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
        if let Some(number) = self.pools.find(key) {
            return Ok(number);
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
        Ok(self.pools.add(Pool::new(key, kept, workers_max)))
    }

    /// Calls that a pool may run at a time: cores are shared by the pools that have any.
    pub(crate) fn runs_max(&self, pool: &Pool) -> usize {
        if pool.key.is_shared() {
            return usize::MAX;
        }
        (self.limits.cores / self.pools.busy().max(1)).max(1)
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
        let starting = self.workers.get(id.place);
        let starting = starting.filter(|w| w.life == id.life && w.state == State::Starting);
        let number = starting.ok_or(Misuse::NotExpected(id))?.pool;
        let pool = &mut self.pools[number];
        pool.coming -= 1;
        let outdated = slab != self.slabs.id(pool.key.slab);
        let useless = pool.kept == 0 && pool.is_useless();
        // A replacement begins where the others are: it must not get every call until it has caught up.
        let load_us = pool.members.iter().map(|place| self.workers[place].load_us).min();
        let worker = &mut self.workers[id.place];
        (worker.born, worker.idle_since, worker.load_us) = (now, now, load_us.unwrap_or(0));
        if outdated || useless {
            worker.state = State::Leaving;
            commands.push(Command::Stop { worker: id });
        } else {
            worker.state = State::Ready;
            self.pools.join(number, id.place);
        }
        self.feed(now, number, commands);
        Ok(())
    }

    /// Asks for one more worker of a pool, if it may have one now.
    pub(crate) fn want_worker(&mut self, now: Moment, number: u32, commands: &mut Commands) {
        let pool = &mut self.pools[number];
        if self.stopping || pool.workers() >= pool.workers_max || pool.starts.after > now {
            return;
        }
        let Some(place) = self.workers.take_place(self.limits.workers_max) else {
            return self.pools.wait_for_room(now, number);
        };
        pool.coming += 1;
        let key = pool.key;
        let worker = &mut self.workers[place];
        *worker = Worker::starting(worker.life + 1, number);
        let id = WorkerId { place, life: worker.life };
        self.slabs.ensure(key.slab).workers += 1;
        let slab = self.slabs.named(key.slab);
        if !key.is_shared() || key.kind != PoolKind::Short {
            self.pools.sweep_due = self.pools.sweep_due.min(now.plus(SWEEP_PAUSE_US));
        }
        commands.push(Command::Spawn { worker: id, pool: key, slab });
    }

    /// A worker's place is free, and its slab one worker poorer.
    pub(crate) fn buried(&mut self, now: Moment, place: u16, dead: &Worker, commands: &mut Commands) {
        self.workers.free_place(place);
        let slab = self.pools[dead.pool].key.slab;
        self.slabs.ensure(slab).workers -= 1;
        self.slabs.settle(slab, commands);
        self.give_room(now, commands);
    }

    /// A worker is no more: its pool pauses before the next, unless it had announced it or was asked to leave.
    pub(crate) fn lost_worker(&mut self, now: Moment, dead: &Worker) {
        let pool = &mut self.pools[dead.pool];
        let orderly = dead.state == State::Leaving && dead.is_idle();
        if dead.state == State::Starting {
            pool.coming -= 1;
        }
        if !orderly {
            let starts = &mut pool.starts;
            // A call on its core answers for its end: that one is banned, and its neighbours must not wait.
            let lived = dead.state != State::Starting && now.since(dead.born) > STEADY_US;
            let pause = if lived || dead.first().is_some() { 0 } else { starts.pause_us.saturating_mul(2) };
            starts.pause_us = pause.clamp(*START_PAUSE_US.start(), *START_PAUSE_US.end());
            starts.after = now.plus(starts.pause_us);
        }
    }

    /// Starts workers of the pools that waited for room, as far as there is some.
    fn give_room(&mut self, now: Moment, commands: &mut Commands) {
        for _ in 0..self.pools.waiting_for_room() {
            let Some((number, since)) = self.pools.take_first_for_room() else { return };
            if !self.pools[number].wants_worker() {
                continue;
            }
            self.want_worker(now, number, commands);
            if self.pools.is_still_first_for_room(number, since) {
                return;
            }
        }
    }

    /// When [`Scheduler::scale`] has something to do.
    pub(crate) fn scaling_due(&self) -> Moment {
        let soon = self.pools.scale_after;
        let waits = !self.pools.hungry().is_empty() || self.pools.waiting_for_room() > 0;
        let waits = waits.then_some(soon);
        let lacks = self.pools.get(0).filter(|pool| pool.workers() < pool.kept && !self.stopping);
        let lacks = lacks.map(|pool| pool.starts.after.max(soon));
        let due = self.pools.sweep_due.min(self.strikes.next_cleared());
        waits.into_iter().chain(lacks).fold(due, Moment::min)
    }

    /// Starts what is missing, stops what nobody needs.
    pub(crate) fn scale(&mut self, now: Moment, commands: &mut Commands) {
        self.pools.scale_after = now.plus(SCALE_PAUSE_US);
        self.keep_shared(now, commands);
        let hungry: Vec<u32> = self.pools.hungry().iter().copied().collect();
        for number in hungry {
            self.feed(now, number, commands);
            self.grow(now, number, commands);
        }
        self.make_room(now, commands);
        for (function, home) in self.strikes.take_cleared(now) {
            self.move_function(now, function, home.home_queue, home.home_pool, commands);
        }
        if self.pools.sweep_due <= now {
            self.sweep(now, commands);
        }
    }

    /// The pool that all share, if there is one, is the first.
    fn keep_shared(&mut self, now: Moment, commands: &mut Commands) {
        let missing = self.pools.get(0).map_or(0, |pool| pool.kept.saturating_sub(pool.workers()));
        (0..missing).for_each(|_| self.want_worker(now, 0, commands));
    }

    /// One more worker where calls have waited for those that are there.
    fn grow(&mut self, now: Moment, number: u32, commands: &mut Commands) {
        let pool = &self.pools[number];
        let waits = pool.queued() > 0 && now.since(pool.queued_since()) >= self.limits.grow_after_us;
        let helps = pool.coming == 0 && pool.workers() < self.runs_max(pool);
        if waits && helps {
            self.want_worker(now, number, commands);
        }
    }

    /// Lets as many workers leave as pools wait for room: the longest idle first, and those that are
    /// never idle in turns, so that whoever calls without a pause does not keep others out.
    fn make_room(&mut self, now: Moment, commands: &mut Commands) {
        self.pools.forget_satisfied(self.stopping);
        if self.pools.waiting_for_room() == 0 {
            return;
        }
        let leaves =
            |worker: &Worker| matches!(worker.state, State::Leaving | State::Dying | State::Doomed(_));
        let leaving = self.workers.iter().filter(|(_, worker)| leaves(worker)).count();
        let patience = Moment(now.0.saturating_sub(ROOM_PATIENCE_US));
        for nth in leaving..self.pools.waiting_for_room() {
            let idle = self.workers.iter().filter(|(_, worker)| self.may_leave(worker));
            let idle = idle.min_by_key(|(_, worker)| worker.idle_since).map(|(place, _)| place);
            let waited = self.pools.waits_for_room_since(nth).is_some_and(|since| since <= patience);
            let place = idle.or_else(|| waited.then(|| self.longest_serving(patience)).flatten());
            let Some(place) = place else { return };
            self.stop_worker(place, commands);
        }
    }

    /// Whether nobody needs the worker now.
    fn may_leave(&self, worker: &Worker) -> bool {
        let pool = &self.pools[worker.pool];
        let spare = pool.queued() == 0 || pool.members.len() > self.runs_max(pool);
        worker.state == State::Ready && worker.is_idle() && pool.members.len() > pool.kept && spare
    }

    /// The worker that has served its pool longest, and since before that.
    fn longest_serving(&self, before: Moment) -> Option<u16> {
        let may = |worker: &Worker| {
            let pool = &self.pools[worker.pool];
            worker.state == State::Ready && worker.born <= before && pool.members.len() > pool.kept
        };
        let serving = self.workers.iter().filter(|(_, worker)| may(worker));
        serving.min_by_key(|(_, worker)| worker.born).map(|(place, _)| place)
    }

    /// Lets workers leave that have been idle for too long, or whose functions are gone.
    fn sweep(&mut self, now: Moment, commands: &mut Commands) {
        self.pools.sweep_due = Moment::NEVER;
        if self.stopping {
            // Nobody would take the place of one that leaves before what was accepted is answered.
            return;
        }
        let mut some_may_leave = false;
        for place in self.workers.places() {
            let worker = &self.workers[place];
            let pool = &self.pools[worker.pool];
            if worker.state == State::Empty || pool.kept > 0 {
                continue;
            }
            some_may_leave = true;
            let idle_max =
                if pool.members.len() > 1 { self.limits.surplus_idle_us } else { self.limits.parked_idle_us };
            if self.may_leave(worker) && (pool.is_useless() || now.since(worker.idle_since) >= idle_max) {
                self.stop_worker(place, commands);
            }
        }
        if some_may_leave {
            self.pools.sweep_due = now.plus(SWEEP_PAUSE_US);
        }
    }

    /// Lets a worker take nothing more and leave when it has answered what it has.
    pub(crate) fn stop_worker(&mut self, place: u16, commands: &mut Commands) {
        self.take_out(place);
        let worker = &mut self.workers[place];
        worker.state = State::Leaving;
        if worker.is_idle() {
            commands.push(Command::Stop { worker: WorkerId { place, life: worker.life } });
        }
    }

    /// Lets a worker take nothing more and orders its end, once.
    pub(crate) fn doom(&mut self, place: u16, reason: KillReason, commands: &mut Commands) {
        self.take_out(place);
        let worker = &mut self.workers[place];
        match worker.state {
            State::Doomed(_) => return,
            // It counts as on its way until now.
            State::Starting => self.pools[worker.pool].coming -= 1,
            State::Empty | State::Ready | State::Leaving | State::Dying => {}
        }
        worker.state = State::Doomed(reason);
        commands.push(Command::Kill { worker: WorkerId { place, life: worker.life }, reason });
    }

    /// The worker is not one that takes jobs any more.
    pub(crate) fn take_out(&mut self, place: u16) {
        let worker = &self.workers[place];
        if worker.state != State::Ready {
            return;
        }
        self.pools.leave(worker.pool, place);
    }
}
