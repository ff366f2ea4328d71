//! Room that images left. Workers of the slab may run hostile code meanwhile, which may stand anywhere in
//! an image that left, so its room is given away only when each of them has ended the call that it had.

use crate::scheduler::Scheduler;
use crate::{Command, Commands, SlabId};

/// An image that left.
#[derive(Debug)]
struct Departure {
    slab: SlabId,
    slot: u32,
    /// Places of the workers whose call of then has not ended.
    busy: Vec<u16>,
}

/// All images whose room is not given away yet.
#[derive(Debug, Default)]
pub(crate) struct Departures {
    waiting: Vec<Departure>,
    /// Slabs that had no room for an image and get some back.
    full: Vec<u32>,
}

impl Departures {
    /// Whether a slab gets room back.
    pub(crate) fn are_of(&self, slab: u32) -> bool {
        self.waiting.iter().any(|departure| departure.slab.number == slab)
    }

    /// There was no room in the slab for an image: nothing is loaded there until some came back.
    pub(crate) fn note_full(&mut self, slab: u32) {
        self.full.push(slab);
    }

    /// Whether loads into the slab wait for room.
    pub(crate) fn hold(&self, slab: u32) -> bool {
        self.full.contains(&slab)
    }

    /// The loader is gone, and all slabs with it.
    pub(crate) fn renew(&mut self) {
        self.waiting.clear();
        self.full.clear();
    }
}

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
