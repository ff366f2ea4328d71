//! Large blocks: rounded up by a sixteenth at most, and not if there is no room for that, so that a buffer may fill the arena. What
//! they hold stands in the grain before them.
//!
//! None of it is a method of the arena, whose code the linker script puts first in an image.

use std::alloc::Layout;
use std::ptr;

use mfaas_abi::ArenaHeader;

use super::room::{GRAIN_BYTES, Room, class_above};

/// Large blocks have 16 sizes between a power of two and the next.
const STEPS_POWER: u32 = 4;
/// Freed blocks that are looked at for one that is large enough.
const LOOKED_AT_MAX: usize = 8;
/// No block is larger; what asks for more is out of memory.
const BLOCK_BYTES_MAX: usize = 1 << 31;

/// A block for `layout`, or null. It holds any bytes.
#[cold]
#[inline(never)]
pub(super) fn take(room: &Room, header: &mut ArenaHeader, layout: Layout) -> *mut u8 {
    let size = layout.size();
    if size > BLOCK_BYTES_MAX {
        return ptr::null_mut();
    }
    if layout.align() <= GRAIN_BYTES
        && let Some(name) = find(room, header, size)
    {
        return room.at(room.unlink(name));
    }
    let start = room.start(header, layout.align(), GRAIN_BYTES);
    match start.filter(|start| end_with(room, header, *start, size)) {
        Some(start) => room.at(start),
        None => ptr::null_mut(),
    }
}

/// Gives a block back.
#[cold]
#[inline(never)]
pub(super) fn give(room: &Room, header: &mut ArenaHeader, offset: usize) {
    let capacity = capacity(room, offset);
    if offset + capacity == header.top {
        header.top = offset - GRAIN_BYTES;
    } else {
        room.link(header, class_above(capacity), offset);
    }
}

/// Whether a block could change its size where it is, to a large one.
#[cold]
#[inline(never)]
pub(super) fn resize_in_place(
    room: &Room,
    header: &mut ArenaHeader,
    offset: usize,
    (layout, size): (Layout, usize),
) -> bool {
    if size > BLOCK_BYTES_MAX {
        return false;
    }
    let (old, new) = (capacity(room, offset), capacity_for(size));
    // It is known with all that it holds when it is freed.
    if new <= old {
        return true;
    }
    if layout.align() <= GRAIN_BYTES && find(room, header, size).is_some() {
        return false;
    }
    offset + old == header.top && end_with(room, header, offset, size)
}

/// Where a freed block is named that is large enough.
fn find(room: &Room, header: &mut ArenaHeader, size: usize) -> Option<*mut u32> {
    let class = class_above(size);
    let mut named = room.first(header, class);
    for _ in 0..LOOKED_AT_MAX {
        let Some(name) = named else { break };
        // SAFETY: INV-SHIM-3. The head of a list, or the link in a freed block.
        let block = unsafe { name.read() } as usize * GRAIN_BYTES;
        if capacity(room, block) >= size {
            return Some(name);
        }
        let link = room.at(block).cast::<u32>();
        // SAFETY: INV-SHIM-3. A freed block holds its link.
        named = (unsafe { link.read() } != 0).then_some(link);
    }
    // Larger than all of this class.
    room.first(header, class + 1)
}

/// Makes a block for `size` bytes the last one, if there is room.
fn end_with(room: &Room, header: &mut ArenaHeader, start: usize, size: usize) -> bool {
    let Some(left) = room.bytes.get().checked_sub(start) else { return false };
    let wanted = capacity_for(size);
    let capacity = if wanted > left { size.next_multiple_of(GRAIN_BYTES) } else { wanted };
    if !room.end_at(header, start.checked_add(capacity)) {
        return false;
    }
    // SAFETY: INV-SHIM-3. The grain before a large block is its own.
    unsafe { room.at(start - GRAIN_BYTES).cast::<usize>().write(capacity) };
    true
}

/// What a block holds.
fn capacity(room: &Room, offset: usize) -> usize {
    // SAFETY: INV-SHIM-3. Written when the block was made.
    unsafe { room.at(offset - GRAIN_BYTES).cast::<usize>().read() }
}

/// What a block holds that is made for `size` bytes.
fn capacity_for(size: usize) -> usize {
    size.next_multiple_of(1 << ((size - 1).ilog2() - STEPS_POWER))
}
