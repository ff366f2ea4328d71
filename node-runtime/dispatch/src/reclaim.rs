//! Giving away the room of images that left, as calls end.

use crate::departures::Departure;
use crate::scheduler::Scheduler;
use crate::{Command, Commands, SlabId};

impl Scheduler {
    /// An image left its slot.
    pub(crate) fn left(&mut self, slab: SlabId, slot: u32, commands: &mut Commands) {
        let maps_it = |place: &u16| self.pools[self.workers[*place].pool].key.slab == slab.number;
        let busy = self.workers.busy().iter().copied().filter(maps_it).collect();
        self.departures.waiting.push(Departure { slab, slot, busy });
        self.reclaim(commands);
    }

    /// The worker at this place ended a call, or its life.
    #[inline]
    pub(crate) fn passed(&mut self, place: u16, commands: &mut Commands) {
        if self.departures.waiting.is_empty() {
            return;
        }
        for departure in &mut self.departures.waiting {
            departure.busy.retain(|busy| *busy != place);
        }
        self.reclaim(commands);
        self.admit_wanted(commands);
    }

    /// Gives away what no worker can stand in any more.
    fn reclaim(&mut self, commands: &mut Commands) {
        let departures = &mut self.departures;
        for Departure { slab, slot, .. } in departures.waiting.extract_if(.., |one| one.busy.is_empty()) {
            commands.push(Command::Reclaim { slot, slab });
            departures.full.retain(|full| *full != slab.number);
        }
    }
}
