//! Free room in a bank: the first that is large enough is given, and what comes back becomes one with what is free
//! on either side.

use std::collections::BTreeMap;

/// A part of a bank.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) offset: usize,
    pub(crate) bytes: usize,
}

/// What of a bank nobody has.
#[derive(Debug)]
pub(crate) struct Room {
    /// Offset and bytes.
    free: BTreeMap<usize, usize>,
}

impl Room {
    /// All of a bank of so many bytes.
    pub(crate) fn of(bytes: usize) -> Self {
        Self { free: BTreeMap::from([(0, bytes)]) }
    }

    /// The first room that is large enough.
    pub(crate) fn find(&self, bytes: usize, align: usize) -> Option<Place> {
        let fits = |(&offset, &room): (&usize, &usize)| {
            let start = offset.next_multiple_of(align);
            (start + bytes <= offset + room).then_some(start)
        };
        Some(Place { offset: self.free.iter().find_map(fits)?, bytes })
    }

    /// Takes room that was found.
    pub(crate) fn take(&mut self, place: Place) {
        let Some((&offset, &room)) = self.free.range(..=place.offset).next_back() else { return };
        self.free.remove(&offset);
        let end = place.offset + place.bytes;
        for (offset, bytes) in [(offset, place.offset - offset), (end, offset + room - end)] {
            if bytes > 0 {
                self.free.insert(offset, bytes);
            }
        }
    }

    /// Room becomes free, and one with the free room on either side of it.
    pub(crate) fn give(&mut self, place: Place) {
        let free = &mut self.free;
        let (mut offset, mut bytes) = (place.offset, place.bytes);
        if let Some((&before, &room)) = free.range(..offset).next_back()
            && before + room == offset
        {
            free.remove(&before);
            (offset, bytes) = (before, room + bytes);
        }
        if let Some(room) = free.remove(&(offset + bytes)) {
            bytes += room;
        }
        free.insert(offset, bytes);
    }
}
