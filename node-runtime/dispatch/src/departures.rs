//! Room of images that leave. Workers of the slab may run hostile code meanwhile, which can jump to any bundle of
//! an image until traps stand in its place, and stay in the middle of one. So the room is given away only when
//! each worker has ended all calls that it had when the loader said that the traps stand. Calls that begin later
//! find nothing but traps there.
//!
//! Until then the room is not free: what finds none in the slab waits for it, and makes nothing else leave.

use crate::SlabId;

/// An image that leaves.
#[derive(Debug)]
pub(crate) struct Departure {
    pub(crate) slab: SlabId,
    pub(crate) slot: u32,
    /// Once traps stand: who may be in it.
    pub(crate) inside: Option<Vec<Inside>>,
}

/// A worker that may be in an image that left.
#[derive(Debug)]
pub(crate) struct Inside {
    pub(crate) place: u16,
    /// Calls that it had when the traps stood and whose end is not known: any of them may have run by then.
    pub(crate) calls: usize,
}

/// All images whose room is not given away yet.
#[derive(Debug, Default)]
pub(crate) struct Departures {
    pub(crate) waiting: Vec<Departure>,
    /// Slabs that had no room for an image and get some back.
    pub(crate) full: Vec<SlabId>,
}

impl Departures {
    /// The loader is asked to put traps in the place of an image.
    pub(crate) fn begin(&mut self, slab: SlabId, slot: u32) {
        self.waiting.push(Departure { slab, slot, inside: None });
    }

    /// The image whose traps stand now, unless that was said before or its slab's loader is gone.
    pub(crate) fn trapped(&mut self, slab: SlabId, slot: u32) -> Option<&mut Departure> {
        let it = |one: &&mut Departure| (one.slab, one.slot, one.inside.is_none()) == (slab, slot, true);
        self.waiting.iter_mut().find(it)
    }

    /// Whether a slab gets room back.
    pub(crate) fn are_of(&self, slab: SlabId) -> bool {
        self.waiting.iter().any(|departure| departure.slab == slab)
    }

    /// There was no room in the slab for an image: nothing is loaded there until some came back.
    pub(crate) fn note_full(&mut self, slab: SlabId) {
        self.full.push(slab);
    }

    /// Whether loads into the slab wait for room.
    pub(crate) fn hold(&self, slab: SlabId) -> bool {
        self.full.contains(&slab)
    }

    /// The loader is gone, and all slabs with it.
    pub(crate) fn renew(&mut self) {
        self.waiting.clear();
        self.full.clear();
    }
}
