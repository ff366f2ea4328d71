//! Giving away the room of images that left, as calls end.

use crate::departures::{Departure, Inside};
use crate::scheduler::Scheduler;
use crate::{Command, Commands, SlabId};

impl Scheduler {
    /// The loader put traps in the place of the image that was in `slot` of `slab`.
    ///
    /// News of another slab than the current one mean nothing any more.
    pub fn unloaded(&mut self, slab: SlabId, slot: u32, commands: &mut Commands) {
        let Some(departure) = self.departures.trapped(slab, slot) else { return };
        // One that maps a former life of the slab counts, too: it leaves after its calls.
        let maps_it = |place: &u16| self.pools[self.workers[*place].pool].key.slab == slab.number;
        let busy = self.workers.busy().iter().copied().filter(maps_it);
        let inside = busy.map(|place| Inside { place, calls: self.workers[place].len() });
        departure.inside = Some(inside.collect());
        self.reclaim(commands);
    }

    /// The worker at this place ended so many calls, or its life with so many.
    #[inline]
    pub(crate) fn passed(&mut self, place: u16, calls: usize, commands: &mut Commands) {
        if self.departures.waiting.is_empty() {
            return;
        }
        let inside = self.departures.waiting.iter_mut().filter_map(|departure| departure.inside.as_mut());
        for inside in inside {
            inside.iter_mut().filter(|worker| worker.place == place).for_each(|worker| {
                worker.calls = worker.calls.saturating_sub(calls);
            });
            inside.retain(|worker| worker.calls > 0);
        }
        self.reclaim(commands);
    }

    /// Gives away what no worker can stand in any more.
    fn reclaim(&mut self, commands: &mut Commands) {
        let (departures, slabs) = (&mut self.departures, &self.slabs);
        let is_free = |one: &mut Departure| one.inside.as_ref().is_some_and(Vec::is_empty);
        let mut some = false;
        for Departure { slab, slot, .. } in departures.waiting.extract_if(.., is_free) {
            departures.full.retain(|full| *full != slab);
            // One that was closed meanwhile has no room to give away.
            if slabs.id(slab.number) == slab {
                commands.push(Command::Reclaim { slot, slab });
            }
            some = true;
        }
        if some {
            self.admit_wanted(commands);
        }
    }
}
