//! The allocator of a function: a bump pointer with free lists by size class, over memory that is the
//! call's alone.
//!
//! All state is the [`mfaas_abi::ArenaHeader`] at the start of the arena and the links in freed blocks, so a
//! call that was ended in the middle of an allocation leaves nothing behind. Where tenants share a
//! worker, another tenant's call may have written any bytes to an arena that it was not given, so nothing
//! is read that this call did not write. It never gives memory back to the host, never takes a lock,
//! and never returns null to std: a full arena ends the call.
//!
//! What is here nearly every call runs, and a worker fetches it ahead of a call; what large blocks need besides is elsewhere.

mod large;
mod room;

use std::alloc::{GlobalAlloc, Layout};
use std::cell::Cell;
use std::ptr;

use self::room::{FIRST_BLOCK, GRAIN_BYTES, Room, class_above, class_bytes};
use crate::host;

/// Blocks up to this size are rounded up to their class; larger ones are [`large`].
const SMALL_BYTES_MAX: usize = 32 << 10;
/// What std 1.95 asks for when standard output is first used. Asking for standard output only to
/// flush it would make that buffer, in every call. Noticed by the test of the executor that prints half
/// a line.
const PRINT_BUFFER: Layout = match Layout::from_size_align(1024, 1) {
    Ok(layout) => layout,
    Err(_) => panic!("a constant"),
};

/// The arena of the current call.
#[derive(Debug)]
pub struct Arena {
    room: Room,
    /// Whether a block of [`PRINT_BUFFER`] was asked for.
    printing: Cell<bool>,
}

// SAFETY: INV-SHIM-2. There is one thread.
unsafe impl Sync for Arena {}

impl Arena {
    /// An arena without memory.
    pub const fn empty() -> Self {
        Self { room: Room::empty(), printing: Cell::new(false) }
    }

    /// Takes over memory that holds any bytes.
    ///
    /// # Safety
    /// `base` is aligned to 4096, and `bytes` bytes from it are initialised and nobody else's until the
    /// call ends (INV-SHIM-1).
    pub unsafe fn adopt(&self, base: *mut u8, bytes: usize) {
        self.room.base.set(base);
        self.room.bytes.set(bytes);
        if let Some(header) = self.room.header() {
            header.top = FIRST_BLOCK;
            header.high_water = FIRST_BLOCK;
            header.begun = Default::default();
        }
    }

    /// The call goes on in its arena, which may be larger by now.
    #[cfg(feature = "hosted")]
    pub(crate) fn resize(&self, bytes: usize) {
        self.room.bytes.set(bytes);
    }

    /// Whether something may have been printed: std's buffer of standard output, which it makes with
    /// the first line, was asked for, or a block that looks like it.
    #[cfg(feature = "hosted")]
    pub(crate) fn may_have_printed(&self) -> bool {
        self.printing.get()
    }

    /// A block for `layout`, or null. It holds any bytes.
    fn take(&self, layout: Layout) -> *mut u8 {
        let Some(header) = self.room.header() else { return ptr::null_mut() };
        if is_large(layout.size()) {
            return large::take(&self.room, header, layout);
        }
        let class = class_above(layout.size());
        if layout.align() <= GRAIN_BYTES
            && let Some(name) = self.room.first(header, class)
        {
            return self.room.at(self.room.unlink(name));
        }
        let start = self.room.start(header, layout.align(), 0);
        match start.filter(|start| self.room.end_at(header, start.checked_add(class_bytes(class)))) {
            Some(start) => self.room.at(start),
            None => ptr::null_mut(),
        }
    }

    /// Gives a block back: to the free room if it was the last one, else to its list.
    fn give(&self, offset: usize, size: usize) {
        let Some(header) = self.room.header() else { return };
        if is_large(size) {
            return large::give(&self.room, header, offset);
        }
        let class = class_above(size);
        if offset + class_bytes(class) == header.top {
            header.top = offset;
        } else {
            self.room.link(header, class, offset);
        }
    }

    /// Whether the block could change its size where it is. Not where a freed block has that size: blocks that
    /// all change theirs would leave those unused for ever.
    fn resize_in_place(&self, offset: usize, layout: Layout, size: usize) -> bool {
        let Some(header) = self.room.header() else { return false };
        match (is_large(layout.size()), is_large(size)) {
            (false, false) => {}
            (true, true) => return large::resize_in_place(&self.room, header, offset, (layout, size)),
            _ => return false,
        }
        let (class, old) = (class_above(size), class_bytes(class_above(layout.size())));
        let new = class_bytes(class);
        if old == new {
            return true;
        }
        if layout.align() <= GRAIN_BYTES && self.room.first(header, class).is_some() {
            return false;
        }
        if offset + old == header.top {
            return self.room.end_at(header, Some(offset + new));
        }
        new < old
    }

    fn offset_of(&self, block: *mut u8) -> usize {
        block.addr() - self.room.base.get().addr()
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

fn is_large(size: usize) -> bool {
    size > SMALL_BYTES_MAX
}
