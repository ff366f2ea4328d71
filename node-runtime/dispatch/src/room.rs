//! The memory of slabs as far as it is given away, and who waits for it.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use crate::functions::Function;

/// A resident function as it was when the heap last looked: use, function, residency.
pub(crate) type Note = Reverse<(u64, u32, u32)>;

/// The slab's memory, as far as it is given away.
#[derive(Debug, Default)]
pub(crate) struct Room {
    pub(crate) bytes: u64,
    /// Functions that wait for room, first come first served.
    pub(crate) wanted: VecDeque<u32>,
    pub(crate) by_use: BinaryHeap<Note>,
    /// Notes of functions that are in use, put aside during one search.
    pub(crate) aside: Vec<Note>,
    pub(crate) stamp: u32,
    pub(crate) resident: usize,
}

impl Room {
    /// Bytes of what is resident or on its way there.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Functions with a slot.
    pub(crate) fn resident(&self) -> usize {
        self.resident
    }

    pub(crate) fn note(&mut self, index: u32, function: &Function) {
        if !function.pinned {
            self.by_use.push(Reverse((function.used, index, function.stamp)));
        }
    }
}
