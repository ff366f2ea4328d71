//! Room that images left. Workers of the slab may run hostile code meanwhile, which may stand anywhere in
//! an image that left, so its room is given away only when each of them has ended the call that it had.

use crate::SlabId;

/// An image that left.
#[derive(Debug)]
pub(crate) struct Departure {
    pub(crate) slab: SlabId,
    pub(crate) slot: u32,
    /// Places of the workers whose call of then has not ended.
    pub(crate) busy: Vec<u16>,
}

/// All images whose room is not given away yet.
#[derive(Debug, Default)]
pub(crate) struct Departures {
    pub(crate) waiting: Vec<Departure>,
    /// Slabs that had no room for an image and get some back.
    pub(crate) full: Vec<u32>,
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
