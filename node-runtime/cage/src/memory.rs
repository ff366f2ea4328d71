//! Memory that functions work in: mapped once, wiped after every call.
//!
//! It must never hand out a range without guards around it, and a wipe must never depend on what a
//! function says it used.

use std::ops::Range;
use std::ptr::NonNull;

use rustix::mm::{Advice, MapFlags, MprotectFlags, ProtFlags};

use crate::{CageError, STACK_BYTES, system};

pub(crate) const PAGE_BYTES: usize = 4096;
/// Memory around arena and stack that nobody may touch. Wider than any frame of libm's, whose
/// functions do not probe their stack.
const GUARD_BYTES: usize = 64 << 10;
/// What is wiped by writing zeros, so that small calls meet no page fault; what lies beyond is
/// given back to the kernel, which costs one system call whatever was used.
const ARENA_KEPT_BYTES: usize = 32 << 10;
const STACK_KEPT_BYTES: usize = 16 << 10;

/// An anonymous mapping.
#[derive(Debug)]
pub(crate) struct Region {
    start: NonNull<u8>,
    bytes: usize,
}

impl Region {
    /// Address space without access.
    pub(crate) fn reserve(bytes: usize) -> Result<Self, CageError> {
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
        // SAFETY: INV-CAGE-2. A new mapping at an address of the kernel's choice.
        let start =
            unsafe { rustix::mm::mmap_anonymous(std::ptr::null_mut(), bytes, ProtFlags::empty(), flags) };
        let start = start.map_err(system("reserve memory"))?;
        let start = NonNull::new(start.cast()).ok_or(CageError::Unmappable("mapped at address 0"))?;
        Ok(Self { start, bytes })
    }

    pub(crate) fn address(&self) -> usize {
        self.start.as_ptr().addr()
    }

    /// The address of `offset`, which lies in the region or at its end.
    pub(crate) fn at(&self, offset: usize) -> *mut u8 {
        debug_assert!(offset <= self.bytes);
        self.start.as_ptr().wrapping_add(offset)
    }

    /// Changes the protection of whole pages of the region.
    pub(crate) fn protect(&self, range: Range<usize>, to: MprotectFlags) -> Result<(), CageError> {
        self.check(&range)?;
        // SAFETY: INV-CAGE-2 and 3. Pages of our own mapping.
        unsafe { rustix::mm::mprotect(self.at(range.start).cast(), range.len(), to) }
            .map_err(system("change the protection of memory"))
    }

    /// An error unless `range` is whole pages inside the region.
    pub(crate) fn check(&self, range: &Range<usize>) -> Result<(), CageError> {
        let pages = range.start.is_multiple_of(PAGE_BYTES) && range.end.is_multiple_of(PAGE_BYTES);
        if pages && range.start <= range.end && range.end <= self.bytes {
            Ok(())
        } else {
            Err(CageError::Unmappable("a segment lies outside the image"))
        }
    }

    /// Gives pages back to the kernel: they read as zeros. Whole pages inside the region only.
    pub(crate) fn discard(&self, range: Range<usize>) {
        if range.is_empty() {
            return;
        }
        // SAFETY: INV-CAGE-2. Anonymous pages of our own; nobody refers to them now.
        let done =
            unsafe { rustix::mm::madvise(self.at(range.start).cast(), range.len(), Advice::LinuxDontNeed) };
        // It fails only for ranges that are not mapped. Going on would show one call's data to the
        // next, so the worker ends instead.
        if done.is_err() {
            std::process::abort();
        }
    }

    /// Writes zeros over a range of the region that is mapped writable.
    pub(crate) fn zero(&self, range: Range<usize>) {
        // SAFETY: INV-CAGE-2. The caller names a writable range of ours.
        unsafe { self.at(range.start).write_bytes(0, range.len()) };
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: INV-CAGE-2. Our own mapping, and every reference into it borrows `self`.
        let unmapped = unsafe { rustix::mm::munmap(self.start.as_ptr().cast(), self.bytes) };
        debug_assert!(unmapped.is_ok(), "our own mapping");
    }
}

/// Arena and stack of the running call: `guard · arena · guard · stack · guard`.
#[derive(Debug)]
pub(crate) struct Grounds {
    region: Region,
    arena_bytes: usize,
}

impl Grounds {
    /// Grounds whose arena can be as large as `arena_bytes`, a multiple of a page.
    pub(crate) fn new(arena_bytes: usize) -> Result<Self, CageError> {
        let arena_bytes = arena_bytes.next_multiple_of(PAGE_BYTES).max(ARENA_KEPT_BYTES);
        let region = Region::reserve(3 * GUARD_BYTES + arena_bytes + STACK_BYTES)?;
        let grounds = Self { region, arena_bytes };
        let access = MprotectFlags::READ | MprotectFlags::WRITE;
        grounds.region.protect(grounds.arena_range(), access)?;
        grounds.region.protect(grounds.stack_range(), access)?;
        Ok(grounds)
    }

    fn arena_range(&self) -> Range<usize> {
        GUARD_BYTES..GUARD_BYTES + self.arena_bytes
    }

    fn stack_range(&self) -> Range<usize> {
        let start = self.arena_range().end + GUARD_BYTES;
        start..start + STACK_BYTES
    }

    /// First byte of the arena.
    pub(crate) fn arena(&self) -> *mut u8 {
        self.region.at(self.arena_range().start)
    }

    /// How large an arena can be, in bytes.
    pub(crate) fn arena_bytes(&self) -> usize {
        self.arena_bytes
    }

    /// Addresses of the stack.
    pub(crate) fn stack(&self) -> Range<usize> {
        let range = self.stack_range();
        self.region.address() + range.start..self.region.address() + range.end
    }

    /// Addresses of the guard below the stack.
    pub(crate) fn stack_guard(&self) -> Range<usize> {
        let stack = self.stack();
        stack.start - GUARD_BYTES..stack.start
    }

    /// Makes arena and stack all zeros, whatever was used of them.
    pub(crate) fn wipe(&self) {
        let (arena, stack) = (self.arena_range(), self.stack_range());
        let (arena_kept, stack_kept) = (arena.start + ARENA_KEPT_BYTES, stack.end - STACK_KEPT_BYTES);
        self.region.zero(arena.start..arena_kept);
        self.region.zero(stack_kept..stack.end);
        // One call for both: the guard between them holds nothing.
        self.region.discard(arena_kept..stack_kept);
    }
}
