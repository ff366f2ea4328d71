//! Which images are in their slabs: defining and retiring functions, loading cold ones, and unloading the
//! least recently used idle ones when the memory budget is spent.
//!
//! The order of use costs nothing while calls run: each notes its sequence in its function's own
//! record. A heap holds what was noted when it was last looked at, and is corrected while it is
//! searched for the oldest.

use std::cmp::Reverse;

use crate::functions::{Function, Gate, Phase};
use crate::jobs::Place;
use crate::room::Note;
use crate::scheduler::Scheduler;
use crate::worker::State;
use crate::{
    Command, Commands, FunctionId, Limits, Loaded, Misuse, Moment, Outcome, PoolKey, PoolKind, Residency,
    SlabId, Standing,
};

impl Scheduler {
    /// Makes a function known, or changes what is known of it. Calls are accepted from now on.
    pub fn define(
        &mut self,
        function: FunctionId,
        loaded: Loaded,
        commands: &mut Commands,
    ) -> Result<(), Misuse> {
        let limit = self.limits.resident_bytes_max;
        if loaded.bytes > limit {
            return Err(Misuse::ImageTooLarge { bytes: loaded.bytes, limit });
        }
        let limits: Limits = self.limits;
        self.functions.ensure(function, &limits)?;
        let pool = self.pool_number(loaded.pool)?;
        let queue = self.queue(loaded.tenant, pool)?;
        let known = self.functions[function.0];
        let stays = known.phase != Phase::Cold || known.open > 0;
        if stays && self.slab_of(function.0) != loaded.pool.slab {
            // A call that waits for a worker of one slab must not find the slot of another there.
            return Err(Misuse::NoSuchPool(loaded.pool));
        }
        if let Some(suspect) = self.strikes.suspects.get_mut(&function.0) {
            // It goes on running alone, and comes home to where it is wanted now.
            (suspect.home_queue, suspect.home_pool) = (queue, pool);
            let key = PoolKey { slab: loaded.pool.slab, kind: PoolKind::Alone(function) };
            let alone = self.pool_number(key)?;
            let queue = self.queue(loaded.tenant, alone)?;
            self.assign(function.0, queue, alone, commands);
        } else {
            self.assign(function.0, queue, pool, commands);
        }
        let known = &mut self.functions[function.0];
        // At most ten seconds in microseconds, so the cast keeps it.
        known.budget_us = loaded.budget.as_micros() as u32;
        known.idempotent = loaded.idempotent;
        let unpinned = std::mem::replace(&mut known.pinned, loaded.residency == Residency::Pinned);
        self.set_gate(function.0, Gate::Open, commands);
        let known = &mut self.functions[function.0];
        match known.phase {
            Phase::Cold => {
                known.bytes = loaded.bytes;
                self.load_at_definition(function.0, loaded.residency, commands);
            }
            Phase::Resident if unpinned => {
                let known = *known;
                self.room.note(function.0, &known);
            }
            Phase::Wanted | Phase::Loading | Phase::Resident => {}
        }
        Ok(())
    }

    /// Accepts no more calls of the function; those accepted still run, then its image is unloaded.
    pub fn retire(&mut self, function: FunctionId, commands: &mut Commands) {
        if self.functions.get(function.0).is_some_and(|known| known.gate != Gate::Withdrawn) {
            self.close(function.0, Gate::Unknown, commands);
        }
    }

    /// Accepts no more calls of a revoked function and answers those that do not run. What runs of them
    /// ends, and is answered when it would wait.
    pub fn withdraw(&mut self, function: FunctionId, commands: &mut Commands) {
        if self.functions.get(function.0).is_some() {
            self.close(function.0, Gate::Withdrawn, commands);
            self.end_at_rest(function, Outcome::Withdrawn, commands);
        }
    }

    fn close(&mut self, index: u32, gate: Gate, commands: &mut Commands) {
        self.set_gate(index, gate, commands);
        if self.functions[index].open == 0 {
            self.settle(index, commands);
        }
    }

    /// The loader put the image into `slot` of `slab`, where it takes `bytes`.
    ///
    /// News of another slab than the current one mean nothing any more.
    pub fn loaded(
        &mut self,
        now: Moment,
        function: FunctionId,
        slab: SlabId,
        slot: u32,
        bytes: u64,
        commands: &mut Commands,
    ) {
        let Some(known) = self.loading(function, slab) else { return };
        known.phase = Phase::Resident;
        known.slot = slot;
        let estimate = std::mem::replace(&mut known.bytes, bytes);
        self.room.bytes = self.room.bytes - estimate + bytes;
        self.room.stamp = self.room.stamp.wrapping_add(1);
        self.room.resident += 1;
        self.slabs.ensure(slab.number).resident += 1;
        let known = &mut self.functions[function.0];
        known.stamp = self.room.stamp;
        let known = *known;
        self.room.note(function.0, &known);
        while let Some(index) = self.functions[function.0].cold.pop(&self.jobs) {
            self.ready_to_run(now, index, commands);
        }
        self.settle(function.0, commands);
        while self.room.bytes > self.limits.resident_bytes_max && self.evict(None, commands) {}
    }

    /// The loader cannot load the image. Calls are refused until the function is defined again.
    pub fn load_failed(&mut self, function: FunctionId, slab: SlabId, commands: &mut Commands) {
        let Some(known) = self.loading(function, slab) else { return };
        known.phase = Phase::Cold;
        let (bytes, open) = (known.bytes, known.gate == Gate::Open);
        self.room.bytes -= bytes;
        self.slabs.ensure(slab.number).images -= 1;
        if open {
            self.set_gate(function.0, Gate::NotLoadable, commands);
        }
        let waits = |job: &crate::jobs::Job| job.function == function.0 && job.place == Place::Cold;
        self.end_waiting(waits, |_| Outcome::LoadFailed, commands);
        self.slabs.settle(slab.number, commands);
        self.admit_wanted(commands);
    }

    /// The loader has nothing against the image, but its slab no room that it fits into: the least
    /// recently used idle function of that slab leaves, unless one does already, and the image is tried again
    /// when its room came back; one that nobody waits for stays cold instead. Without any other function there it counts as one that
    /// cannot be loaded: whether it does. Nothing for news of another slab than the current one.
    pub fn no_room(&mut self, function: FunctionId, slab: SlabId, commands: &mut Commands) -> Option<bool> {
        let known = *self.loading(function, slab)?;
        let comes_back = self.departures.are_of(slab);
        if self.slabs.get(slab.number).resident == 0 && !comes_back {
            self.load_failed(function, slab, commands);
            return Some(true);
        }
        let (bytes, is_needed) = (known.bytes, known.is_needed());
        let known = &mut self.functions[function.0];
        known.phase = if is_needed { Phase::Wanted } else { Phase::Cold };
        self.room.bytes -= bytes;
        self.slabs.ensure(slab.number).images -= 1;
        if !is_needed {
            self.slabs.settle(slab.number, commands);
            self.admit_wanted(commands);
            return Some(false);
        }
        self.room.wanted.push_front(function.0);
        // Without anything idle it waits in front of the others until something is.
        if comes_back || self.evict(Some(slab.number), commands) {
            self.departures.note_full(slab);
        }
        Some(false)
    }

    /// The loader is gone and all slabs with it: others, empty, take their place.
    ///
    /// Workers answer what they have and leave; what was resident is loaded again, latest used first,
    /// as far as there is room.
    pub fn renew(&mut self, commands: &mut Commands) {
        self.slabs.renew();
        self.departures.renew();
        self.room.bytes = 0;
        self.room.resident = 0;
        self.room.by_use.clear();
        self.stop_workers(commands);
        let mut lost = Vec::new();
        for (index, known) in self.functions.iter_mut() {
            if matches!(known.phase, Phase::Resident | Phase::Loading) {
                known.phase = Phase::Cold;
                lost.push((Reverse(!known.cold.is_empty()), Reverse(known.used), index));
            }
        }
        // What has waited has pointers into images that are gone.
        self.end_waiting(|job| job.has_waited, |_| Outcome::Lost, commands);
        self.end_suspended(|_| true, Outcome::Lost, commands);
        self.admit_wanted(commands);
        lost.sort_unstable();
        for (_, _, index) in lost {
            let known = self.functions[index];
            if !known.cold.is_empty() || known.pinned && known.gate == Gate::Open {
                self.want(index, commands);
            } else if known.gate == Gate::Open {
                self.load_at_definition(index, Residency::Preloaded, commands);
            }
        }
    }

    /// Where the image of a function is. What was never defined is cold.
    pub fn standing(&self, function: FunctionId) -> Standing {
        match self.functions.get(function.0).map_or(Phase::Cold, |known| known.phase) {
            Phase::Cold => Standing::Cold,
            Phase::Wanted | Phase::Loading => Standing::Coming,
            Phase::Resident => Standing::Resident,
        }
    }

    /// The only place where a gate moves: the function's pool and slab count those that are open.
    pub(crate) fn set_gate(&mut self, index: u32, gate: Gate, commands: &mut Commands) {
        let before = self.functions[index].gate;
        if before == Gate::Open && gate != Gate::Open {
            self.count_open(index, false);
        }
        self.functions[index].gate = gate;
        if before != Gate::Open && gate == Gate::Open {
            self.count_open(index, true);
        }
        let number = self.slab_of(index);
        self.slabs.settle(number, commands);
    }

    /// The function belongs to a queue of a pool from now on.
    pub(crate) fn assign(&mut self, index: u32, queue: u32, pool: u32, commands: &mut Commands) {
        let number = self.slab_of(index);
        self.count_open(index, false);
        let known = &mut self.functions[index];
        (known.queue, known.pool) = (queue, pool);
        self.count_open(index, true);
        if number != self.slab_of(index) {
            self.slabs.settle(number, commands);
        }
    }

    /// One more or one fewer function whose calls are accepted, if this is one.
    fn count_open(&mut self, index: u32, comes: bool) {
        let known = self.functions[index];
        if known.gate != Gate::Open {
            return;
        }
        let pool = &mut self.pools[known.pool];
        let slab = self.slabs.ensure(pool.key.slab);
        if comes {
            (pool.functions, slab.functions) = (pool.functions + 1, slab.functions + 1);
            return;
        }
        (pool.functions, slab.functions) = (pool.functions - 1, slab.functions - 1);
        if pool.functions == 0 && !pool.members.is_empty() {
            // Its workers are looked at with the next tick.
            self.pools.sweep_due = Moment(0);
        }
    }

    /// The number of the slab that the image of a function lies in or would.
    pub(crate) fn slab_of(&self, index: u32) -> u32 {
        self.pools.get(self.functions[index].pool).map_or(0, |pool| pool.key.slab)
    }

    fn loading(&mut self, function: FunctionId, slab: SlabId) -> Option<&mut Function> {
        self.functions.get(function.0)?;
        let current = self.slabs.id(self.slab_of(function.0)) == slab;
        let known = self.functions.get_mut(function.0)?;
        (current && known.phase == Phase::Loading).then_some(known)
    }

    fn load_at_definition(&mut self, index: u32, residency: Residency, commands: &mut Commands) {
        let fits = self.room.bytes + self.functions[index].bytes <= self.limits.resident_bytes_max;
        match residency {
            Residency::Pinned => self.want(index, commands),
            Residency::Preloaded if fits && self.room.wanted.is_empty() => self.load(index, commands),
            Residency::Preloaded | Residency::OnDemand => {}
        }
    }

    /// Puts a job that is in no list into that of its function, and asks for the image.
    pub(crate) fn wait_for_image(&mut self, index: u32, commands: &mut Commands) {
        let function = self.jobs.get(index).function;
        let known = &mut self.functions[function];
        known.cold.push(&mut self.jobs, index, Place::Cold);
        if known.phase == Phase::Cold {
            self.want(function, commands);
        }
    }

    /// The same for a job whose image went away with its slab while it waited for a worker.
    pub(crate) fn wait_for_image_again(&mut self, index: u32, commands: &mut Commands) {
        let known = &self.functions[self.jobs.get(index).function];
        if known.gate == Gate::NotLoadable && known.phase == Phase::Cold {
            self.uncount_waiting(index);
            return self.finish(index, Outcome::LoadFailed, commands);
        }
        self.wait_for_image(index, commands);
    }

    /// The image is there: the job waits for a worker now.
    fn ready_to_run(&mut self, now: Moment, index: u32, commands: &mut Commands) {
        self.enqueue(now, index);
        self.feed(now, self.jobs.get(index).pool, commands);
    }

    fn want(&mut self, index: u32, commands: &mut Commands) {
        self.functions[index].phase = Phase::Wanted;
        self.room.wanted.push_back(index);
        self.admit_wanted(commands);
    }

    /// Loads what waits for room, as far as there is some or it can be made. What waits for room of a slab of
    /// its own keeps its place and nobody else.
    pub(crate) fn admit_wanted(&mut self, commands: &mut Commands) {
        let mut at = 0;
        while let Some(index) = self.room.wanted.get(at).copied() {
            if self.departures.hold(self.slabs.id(self.slab_of(index))) {
                at += 1;
                continue;
            }
            let known = &mut self.functions[index];
            if !known.is_needed() {
                known.phase = Phase::Cold;
            } else if self.room.bytes + known.bytes > self.limits.resident_bytes_max {
                if self.evict(None, commands) {
                    continue;
                }
                return;
            } else {
                self.load(index, commands);
            }
            self.room.wanted.remove(at);
        }
    }

    fn load(&mut self, index: u32, commands: &mut Commands) {
        let known = &mut self.functions[index];
        known.phase = Phase::Loading;
        self.room.bytes += known.bytes;
        let number = self.slab_of(index);
        self.slabs.ensure(number).images += 1;
        let slab = self.slabs.named(number);
        commands.push(Command::Load { function: FunctionId(index), slab });
    }

    /// A function without open jobs: a retired one leaves the slab, and what waits for room may find
    /// some.
    #[inline]
    pub(crate) fn settle(&mut self, index: u32, commands: &mut Commands) {
        let known = &self.functions[index];
        if known.open == 0 && known.is_leaving() && known.phase == Phase::Resident {
            self.unload(index, commands);
        }
        if !self.room.wanted.is_empty() {
            self.admit_wanted(commands);
        }
    }

    fn unload(&mut self, index: u32, commands: &mut Commands) {
        let known = &mut self.functions[index];
        known.phase = Phase::Cold;
        let slot = known.slot;
        self.room.bytes -= known.bytes;
        self.room.resident -= 1;
        let number = self.slab_of(index);
        let slab = self.slabs.ensure(number);
        (slab.images, slab.resident) = (slab.images - 1, slab.resident - 1);
        let slab = self.slabs.id(number);
        commands.push(Command::Unload { function: FunctionId(index), slot, slab });
        self.departures.begin(slab, slot);
        self.slabs.settle(number, commands);
        self.forget_old_notes();
    }

    /// Notes of functions that were unloaded without a search must not pile up.
    fn forget_old_notes(&mut self) {
        if self.room.by_use.len() > 2 * self.room.resident + 64 {
            let functions = &self.functions;
            self.room.by_use.retain(|Reverse((_, index, stamp))| {
                functions[*index].phase == Phase::Resident && functions[*index].stamp == *stamp
            });
        }
    }

    /// Unloads the function whose last call is the longest ago and that has none open, of one slab or of
    /// all.
    fn evict(&mut self, slab: Option<u32>, commands: &mut Commands) -> bool {
        let mut aside = std::mem::take(&mut self.room.aside);
        let victim = self.least_recently_used(slab, &mut aside);
        self.room.by_use.extend(aside.drain(..));
        self.room.aside = aside;
        if let Some(index) = victim {
            self.unload(index, commands);
        }
        victim.is_some()
    }

    fn least_recently_used(&mut self, slab: Option<u32>, aside: &mut Vec<Note>) -> Option<u32> {
        // Each note is corrected at most once and then taken, so the search ends.
        while let Some(Reverse((used, index, stamp))) = self.room.by_use.pop() {
            let known = self.functions[index];
            if known.phase != Phase::Resident || known.stamp != stamp || known.pinned {
                continue;
            }
            if known.used != used {
                self.room.note(index, &known);
            } else if known.open > 0 || slab.is_some_and(|slab| slab != self.slab_of(index)) {
                aside.push(Reverse((used, index, stamp)));
            } else {
                return Some(index);
            }
        }
        None
    }

    /// No worker of now maps a slab of tomorrow.
    fn stop_workers(&mut self, commands: &mut Commands) {
        for place in self.workers.places() {
            if self.workers[place].state == State::Ready {
                self.stop_worker(place, commands);
            }
        }
    }
}
