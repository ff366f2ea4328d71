//! What an executor remembers of each slot: whose image it last ran there, and how much room that was
//! content with. One word a slot, so that memory nobody uses is never touched.

use crate::memory::Sizes;

/// One word for each slot: `generation · 16 bits of sizes`, 0 for a slot that never ran.
#[derive(Debug)]
pub(crate) struct SlotCache {
    words: Vec<u64>,
    /// The number of the call that last ran or fetched each slot's image; numbers wrap.
    last: Vec<u32>,
    calls: u32,
    /// How many images had left the slab when the last call began.
    departures: u64,
}

/// An image that was used within so many uses, one or two for each call, is likely still in a core's own
/// caches, and to ask for what is there only costs.
const NEAR_CALLS: u32 = 512;

impl SlotCache {
    pub(crate) fn new(slots: usize) -> Self {
        Self { words: vec![0; slots], last: vec![0; slots], calls: NEAR_CALLS, departures: 0 }
    }

    /// The sizes for the image of this generation in a slot, and whether it never ran here.
    pub(crate) fn of(&self, slot: u32, generation: u64) -> (Sizes, bool) {
        let word = self.words.get(slot as usize).copied().unwrap_or(0);
        if word >> 16 == generation & GENERATIONS {
            (Sizes { arena: (word >> 8) as u8, stack: word as u8 }, false)
        } else {
            (Sizes::FIRST, true)
        }
    }

    /// Counts a use of the slot; `true` if the last one is long ago.
    pub(crate) fn is_distant(&mut self, slot: u32) -> bool {
        self.calls = self.calls.wrapping_add(1);
        let Some(last) = self.last.get_mut(slot as usize) else { return false };
        let distant = self.calls.wrapping_sub(*last) > NEAR_CALLS;
        *last = self.calls;
        distant
    }

    /// A call begins when so many images have left the slab; whether some have since the last one began.
    pub(crate) fn have_departed(&mut self, departures: u64) -> bool {
        std::mem::replace(&mut self.departures, departures) != departures
    }

    pub(crate) fn keep(&mut self, slot: u32, generation: u64, sizes: Sizes) {
        if let Some(word) = self.words.get_mut(slot as usize) {
            *word = (generation & GENERATIONS) << 16 | u64::from(sizes.arena) << 8 | u64::from(sizes.stack);
        }
    }
}

/// Generations are told apart by so many bits; a valid one is odd and so never 0.
const GENERATIONS: u64 = (1 << 48) - 1;
