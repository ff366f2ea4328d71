//! The allocator of a function: a bump pointer with free lists by size class, over memory that is the
//! call's alone.
//!
//! All state is the [`ArenaHeader`] at the start of the arena and the links in freed blocks, so a
//! call that was ended in the middle of an allocation leaves nothing behind. Where tenants share a
//! worker, another tenant's call may have written any bytes to an arena that it was not given, so nothing
//! is read that this call did not write. It never gives memory back to the host, never takes a lock,
//! and never returns null to std: a full arena ends the call.

use std::alloc::{GlobalAlloc, Layout};
use std::cell::Cell;
use std::ptr;

use mfaas_abi::ArenaHeader;

use crate::host;

const GRAIN_BYTES: usize = ArenaHeader::GRAIN_BYTES;
/// Blocks up to this size are rounded up to their class; larger ones by a sixteenth at most, and not if there is no room for that,
/// so that a buffer may fill the arena: what they hold stands in the grain before them.
const SMALL_BYTES_MAX: usize = 32 << 10;
/// Large blocks have 16 sizes between a power of two and the next.
const LARGE_STEPS_POWER: u32 = 4;
/// Freed large blocks that are looked at for one that is large enough.
const LOOKED_AT_MAX: usize = 8;
/// No block is larger; what asks for more is out of memory.
const BLOCK_BYTES_MAX: usize = 1 << 31;
/// What std 1.95 asks for when standard output is first used. Asking for standard output only to
/// flush it would make that buffer, in every call. Noticed by the test of the executor that prints half
/// a line.
const PRINT_BUFFER: Layout = match Layout::from_size_align(1024, 1) {
    Ok(layout) => layout,
    Err(_) => panic!("a constant"),
};
/// Where the first block may begin.
const FIRST_BLOCK: usize = size_of::<ArenaHeader>().next_multiple_of(GRAIN_BYTES);

/// The arena of the current call.
#[derive(Debug)]
pub struct Arena {
    base: Cell<*mut u8>,
    bytes: Cell<usize>,
    /// Whether a block of [`PRINT_BUFFER`] was asked for.
    printing: Cell<bool>,
}

// SAFETY: INV-SHIM-2. There is one thread.
unsafe impl Sync for Arena {}

impl Arena {
    /// An arena without memory.
    pub const fn empty() -> Self {
        Self { base: Cell::new(ptr::null_mut()), bytes: Cell::new(0), printing: Cell::new(false) }
    }

    /// Takes over memory that holds any bytes.
    ///
    /// # Safety
    /// `base` is aligned to 4096, and `bytes` bytes from it are initialised and nobody else's until the
    /// call ends (INV-SHIM-1).
    pub unsafe fn adopt(&self, base: *mut u8, bytes: usize) {
        self.base.set(base);
        self.bytes.set(bytes);
        if let Some(header) = self.header() {
            header.top = FIRST_BLOCK;
            header.high_water = FIRST_BLOCK;
            header.begun = Default::default();
        }
    }

    /// The call goes on in its arena, which may be larger by now.
    #[cfg(feature = "hosted")]
    pub(crate) fn resize(&self, bytes: usize) {
        self.bytes.set(bytes);
    }

    /// Whether something may have been printed: std's buffer of standard output, which it makes with
    /// the first line, was asked for, or a block that looks like it.
    #[cfg(feature = "hosted")]
    pub(crate) fn may_have_printed(&self) -> bool {
        self.printing.get()
    }

    /// The header, unless the arena is too small to hold even that.
    #[allow(clippy::mut_from_ref, reason = "the one thread holds at most one such reference at a time")]
    fn header(&self) -> Option<&mut ArenaHeader> {
        if self.bytes.get() < FIRST_BLOCK {
            return None;
        }
        // SAFETY: INV-SHIM-1 and 2. Mapped, aligned, a value for every bit pattern, and no caller
        // in this module holds another reference.
        unsafe { self.base.get().cast::<ArenaHeader>().as_mut() }
    }

    /// A block for `layout`, or null. It holds any bytes.
    fn take(&self, layout: Layout) -> *mut u8 {
        let Some(header) = self.header().filter(|_| layout.size() <= BLOCK_BYTES_MAX) else {
            return ptr::null_mut();
        };
        let reused = if layout.align() <= GRAIN_BYTES { self.pop(header, layout.size()) } else { None };
        match reused.or_else(|| self.bump(header, layout)) {
            Some(offset) => self.at(offset),
            None => ptr::null_mut(),
        }
    }

    /// New room behind the last block.
    fn bump(&self, header: &mut ArenaHeader, layout: Layout) -> Option<usize> {
        let base = self.base.get().addr();
        // A power of two: no division.
        let mask = layout.align().max(GRAIN_BYTES) - 1;
        let first = (base + header.top).checked_add(if is_large(layout.size()) { GRAIN_BYTES } else { 0 })?;
        let start = (first.checked_add(mask)? & !mask) - base;
        self.end_with(header, start, layout.size()).then_some(start)
    }

    /// Makes a block for `size` bytes the last one, if there is room.
    fn end_with(&self, header: &mut ArenaHeader, start: usize, size: usize) -> bool {
        let Some(left) = self.bytes.get().checked_sub(start) else { return false };
        let mut capacity = capacity_for(size);
        if capacity > left && is_large(size) {
            capacity = size.next_multiple_of(GRAIN_BYTES);
        }
        if capacity > left {
            return false;
        }
        let end = start + capacity;
        if is_large(size) {
            // SAFETY: INV-SHIM-3. The grain before a large block is its own.
            unsafe { self.at(start - GRAIN_BYTES).cast::<usize>().write(capacity) };
        }
        header.top = end;
        header.high_water = header.high_water.max(end);
        true
    }

    /// What a block holds that was made for `size` bytes.
    fn capacity(&self, offset: usize, size: usize) -> usize {
        if is_large(size) {
            // SAFETY: INV-SHIM-3. Written when the block was made.
            unsafe { self.at(offset - GRAIN_BYTES).cast::<usize>().read() }
        } else {
            capacity_for(size)
        }
    }

    /// Where the first freed block of a class is named, if there is one.
    fn first(&self, header: &mut ArenaHeader, class: usize) -> Option<*mut u32> {
        let head = header.free.get_mut(class)?;
        (header.begun[word_of(class)] & bit_of(class) != 0 && *head != 0).then_some(head)
    }

    /// Where a freed block is named that is large enough.
    fn find(&self, header: &mut ArenaHeader, size: usize) -> Option<*mut u32> {
        let class = class_above(size);
        let mut named = self.first(header, class);
        if !is_large(size) {
            return named;
        }
        for _ in 0..LOOKED_AT_MAX {
            let Some(name) = named else { break };
            // SAFETY: INV-SHIM-3. The head of a list, or the link in a freed block.
            let block = unsafe { name.read() } as usize * GRAIN_BYTES;
            if self.capacity(block, size) >= size {
                return Some(name);
            }
            let link = self.at(block).cast::<u32>();
            // SAFETY: INV-SHIM-3. A freed block holds its link.
            named = (unsafe { link.read() } != 0).then_some(link);
        }
        // Larger than all of this class.
        self.first(header, class + 1)
    }

    /// A freed block that is large enough, which is none any more.
    fn pop(&self, header: &mut ArenaHeader, size: usize) -> Option<usize> {
        let name = self.find(header, size)?;
        // SAFETY: INV-SHIM-3. The head of a list, or the link in a freed block.
        let block = unsafe { name.read() } as usize * GRAIN_BYTES;
        // SAFETY: INV-SHIM-3. A freed block of at least 16 aligned bytes that holds its link.
        let next = unsafe { self.at(block).cast::<u32>().read() };
        // SAFETY: INV-SHIM-3. As it was read: whoever named the block names the next one.
        unsafe { name.write(next) };
        Some(block)
    }

    /// Gives a block back: to the free room if it was the last one, else to its list.
    fn give(&self, offset: usize, size: usize) {
        let Some(header) = self.header() else { return };
        let capacity = self.capacity(offset, size);
        if offset + capacity == header.top {
            header.top = if is_large(size) { offset - GRAIN_BYTES } else { offset };
            return;
        }
        let class = class_above(capacity);
        let Some(head) = header.free.get_mut(class) else { return };
        let begun = &mut header.begun[word_of(class)];
        let next = if *begun & bit_of(class) == 0 { 0 } else { *head };
        *begun |= bit_of(class);
        // SAFETY: INV-SHIM-3. The block is at least 16 aligned bytes and nobody's any more.
        unsafe { self.at(offset).cast::<u32>().write(next) };
        // Blocks begin at whole grains, and no arena has more of them than this can count.
        *head = (offset / GRAIN_BYTES) as u32;
    }

    /// Whether the block could change its size where it is. Not where a freed block has that size: blocks that
    /// all change theirs would leave those unused for ever.
    fn resize_in_place(&self, offset: usize, layout: Layout, size: usize) -> bool {
        let Some(header) = self.header().filter(|_| size <= BLOCK_BYTES_MAX) else { return false };
        if is_large(layout.size()) != is_large(size) {
            return false;
        }
        let (old, new) = (self.capacity(offset, layout.size()), capacity_for(size));
        // A large one is known with all that it holds when it is freed.
        if old == new || (is_large(size) && new < old) {
            return true;
        }
        if layout.align() <= GRAIN_BYTES && self.find(header, size).is_some() {
            return false;
        }
        if offset + old == header.top {
            return self.end_with(header, offset, size);
        }
        new < old
    }

    fn at(&self, offset: usize) -> *mut u8 {
        self.base.get().wrapping_add(offset)
    }

    fn offset_of(&self, block: *mut u8) -> usize {
        block.addr() - self.base.get().addr()
    }

    /// The block, or the end of the call.
    fn or_end(block: *mut u8, bytes: usize) -> *mut u8 {
        if block.is_null() { host::out_of_memory(bytes) } else { block }
    }
}

// SAFETY: INV-SHIM-3. Blocks are disjoint, aligned, large enough, and stay until given back.
unsafe impl GlobalAlloc for Arena {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if layout == PRINT_BUFFER {
            self.printing.set(true);
        }
        Self::or_end(self.take(layout), layout.size())
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        self.give(self.offset_of(block), layout.size());
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        let block = Self::or_end(self.take(layout), layout.size());
        // SAFETY: INV-SHIM-3. The block has at least `layout.size()` bytes.
        unsafe { block.write_bytes(0, layout.size()) };
        block
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        if self.resize_in_place(self.offset_of(block), layout, size) {
            return block;
        }
        // `size` rounded up to the alignment does not overflow: what `realloc` demands.
        let Ok(wanted) = Layout::from_size_align(size, layout.align()) else { host::out_of_memory(size) };
        let new = Self::or_end(self.take(wanted), size);
        // SAFETY: INV-SHIM-3. Two disjoint blocks, both at least as large as what is copied.
        unsafe { new.copy_from_nonoverlapping(block, layout.size().min(size)) };
        self.give(self.offset_of(block), layout.size());
        new
    }
}

/// Where [`ArenaHeader::begun`] has the bit of a class.
fn word_of(class: usize) -> usize {
    class / u64::BITS as usize
}

fn bit_of(class: usize) -> u64 {
    1 << (class % u64::BITS as usize)
}

fn is_large(size: usize) -> bool {
    size > SMALL_BYTES_MAX
}

/// What a block holds that is made for `size` bytes.
fn capacity_for(size: usize) -> usize {
    if is_large(size) {
        size.next_multiple_of(1 << ((size - 1).ilog2() - LARGE_STEPS_POWER))
    } else {
        class_bytes(class_above(size))
    }
}

/// The smallest class whose blocks hold `size` bytes; and of a large block of that size.
fn class_above(size: usize) -> usize {
    if size <= 64 {
        return size.saturating_sub(1) / GRAIN_BYTES;
    }
    let last = size - 1;
    let power = last.ilog2() as usize;
    4 + (power - 6) * 4 + ((last >> (power - 2)) & 3)
}

/// The size of the blocks of a class.
fn class_bytes(class: usize) -> usize {
    if class < 4 {
        return (class + 1) * GRAIN_BYTES;
    }
    let (power, quarter) = ((class - 4) / 4 + 6, (class - 4) % 4);
    (1 << power) + (quarter + 1) * (1 << (power - 2))
}
