//! The room of an arena: where blocks end, and which of them were freed.

use std::cell::Cell;
use std::ptr;

use mfaas_abi::ArenaHeader;

pub(super) const GRAIN_BYTES: usize = ArenaHeader::GRAIN_BYTES;
/// Where the first block may begin.
pub(super) const FIRST_BLOCK: usize = size_of::<ArenaHeader>().next_multiple_of(GRAIN_BYTES);

/// Memory of the current call.
#[derive(Debug)]
pub(super) struct Room {
    pub(super) base: Cell<*mut u8>,
    pub(super) bytes: Cell<usize>,
}

impl Room {
    /// No memory.
    pub(super) const fn empty() -> Self {
        Self { base: Cell::new(ptr::null_mut()), bytes: Cell::new(0) }
    }

    /// The header, unless the arena is too small to hold even that.
    #[allow(clippy::mut_from_ref, reason = "the one thread holds at most one such reference at a time")]
    #[inline]
    pub(super) fn header(&self) -> Option<&mut ArenaHeader> {
        if self.bytes.get() < FIRST_BLOCK {
            return None;
        }
        // SAFETY: INV-SHIM-1 and 2. Mapped, aligned, a value for every bit pattern, and no caller
        // in this module or its neighbours holds another reference.
        unsafe { self.base.get().cast::<ArenaHeader>().as_mut() }
    }

    /// Where a block behind the last one begins, with so many bytes before it.
    #[inline]
    pub(super) fn start(&self, header: &ArenaHeader, align: usize, before: usize) -> Option<usize> {
        let base = self.base.get().addr();
        // A power of two: no division.
        let mask = align.max(GRAIN_BYTES) - 1;
        Some(((base + header.top).checked_add(before)?.checked_add(mask)? & !mask) - base)
    }

    /// Makes a block that ends there the last one, if there is room.
    #[inline]
    pub(super) fn end_at(&self, header: &mut ArenaHeader, end: Option<usize>) -> bool {
        let Some(end) = end.filter(|end| *end <= self.bytes.get()) else { return false };
        header.top = end;
        header.high_water = header.high_water.max(end);
        true
    }

    /// Where the first freed block of a class is named, if there is one.
    #[inline]
    pub(super) fn first(&self, header: &mut ArenaHeader, class: usize) -> Option<*mut u32> {
        let head = header.free.get_mut(class)?;
        (header.begun[word_of(class)] & bit_of(class) != 0 && *head != 0).then_some(head)
    }

    /// The freed block that is named there, which is none any more.
    #[inline]
    pub(super) fn unlink(&self, name: *mut u32) -> usize {
        // SAFETY: INV-SHIM-3. The head of a list, or the link in a freed block.
        let block = unsafe { name.read() } as usize * GRAIN_BYTES;
        // SAFETY: INV-SHIM-3. A freed block of at least 16 aligned bytes that holds its link.
        let next = unsafe { self.at(block).cast::<u32>().read() };
        // SAFETY: INV-SHIM-3. As it was read: whoever named the block names the next one.
        unsafe { name.write(next) };
        block
    }

    /// Puts a block on the list of its class.
    #[inline]
    pub(super) fn link(&self, header: &mut ArenaHeader, class: usize, offset: usize) {
        let Some(head) = header.free.get_mut(class) else { return };
        let begun = &mut header.begun[word_of(class)];
        let next = if *begun & bit_of(class) == 0 { 0 } else { *head };
        *begun |= bit_of(class);
        // SAFETY: INV-SHIM-3. The block is at least 16 aligned bytes and nobody's any more.
        unsafe { self.at(offset).cast::<u32>().write(next) };
        // Blocks begin at whole grains, and no arena has more of them than this can count.
        *head = (offset / GRAIN_BYTES) as u32;
    }

    #[inline]
    pub(super) fn at(&self, offset: usize) -> *mut u8 {
        self.base.get().wrapping_add(offset)
    }
}

/// Where [`ArenaHeader::begun`] has the bit of a class.
fn word_of(class: usize) -> usize {
    class / u64::BITS as usize
}

fn bit_of(class: usize) -> u64 {
    1 << (class % u64::BITS as usize)
}

/// The smallest class whose blocks hold `size` bytes; and of a large block of that size.
#[inline]
pub(super) fn class_above(size: usize) -> usize {
    if size <= 64 {
        return size.saturating_sub(1) / GRAIN_BYTES;
    }
    let last = size - 1;
    let power = last.ilog2() as usize;
    4 + (power - 6) * 4 + ((last >> (power - 2)) & 3)
}

/// The size of the blocks of a class.
#[inline]
pub(super) fn class_bytes(class: usize) -> usize {
    if class < 4 {
        return (class + 1) * GRAIN_BYTES;
    }
    let (power, quarter) = ((class - 4) / 4 + 6, (class - 4) % 4);
    (1 << power) + (quarter + 1) * (1 << (power - 2))
}
