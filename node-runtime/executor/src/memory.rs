//! Memory: mappings, and the call memory that functions work in.
//!
//! Call memory is mapped once and wiped after every call. There are several stacks, each with guards around it, and
//! several arenas, which all begin at the same address, from a little to as much as a call may have. A call gets the
//! smallest that its function has been content with; one that outgrows them is run again in the
//! next. So wiping covers all that a call was given, and costs small calls little; and a call that was put aside
//! comes back to its addresses however large its arena is by then. What is no safe
//! code can write to the others too; a call that shows itself as such has all of them wiped.
//!
//! It must never hand out a range without guards around it, and a wipe must never depend on what a
//! function says it used.

use std::arch::x86_64::{_mm256_loadu_si256, _mm256_or_si256, _mm256_setzero_si256, _mm256_testz_si256};
use std::ops::Range;
use std::os::fd::AsFd;
use std::ptr::NonNull;

use mfaas_abi::Call;
use mfaas_abi::limits::{BULK_FRAME_BYTES_MAX, FRAME_BYTES_MAX, frame_bytes_max};
use mfaas_ident::MemoryLimit;
use rustix::mm::{Advice, MapFlags, MprotectFlags, ProtFlags};

pub(crate) use crate::pages::{LINE_BYTES, PAGE_BYTES};
use crate::{ExecutorError, STACK_BYTES, system, window, zeros};

/// Memory around arena and stack that nobody may touch. Wider than any frame of libm's, whose
/// functions do not probe their stack.
const GUARD_BYTES: usize = 64 << 10;
/// Of an arena or stack larger than this, so much is wiped where it is, so that later calls meet no
/// page fault where earlier ones wrote; what lies beyond is given back to the kernel, which costs one
/// system call whatever was used.
const KEPT_BYTES: usize = 64 << 10;
/// Nearly every call uses so much of its arena, from the start, and of its stack, from the end. It is
/// wiped without a look.
const USED_BYTES: usize = 1 << 10;
/// Sizes of all arenas but the last, in bytes; that one is as large as any call's memory.
const ARENA_BYTES: [usize; 4] = [1 << 10, 4 << 10, 16 << 10, 64 << 10];
/// Sizes of all stacks, in bytes. Whole pages: a guard begins where a stack ends.
const STACKS_BYTES: [usize; 4] = [4 << 10, 16 << 10, 64 << 10, STACK_BYTES];
/// The largest sizes, as indexes.
pub(crate) const LARGEST_ARENA: u8 = ARENA_BYTES.len() as u8;
pub(crate) const LARGEST_STACK: u8 = STACKS_BYTES.len() as u8 - 1;

/// A mapping.
#[derive(Debug)]
pub(crate) struct Region {
    start: NonNull<u8>,
    bytes: usize,
}

impl Region {
    /// Address space without access, at `at` or wherever the kernel likes.
    pub(crate) fn reserve(at: Option<usize>, bytes: usize) -> Result<Self, ExecutorError> {
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE | placed(at);
        // SAFETY: INV-EXECUTOR-2. A new mapping that replaces nothing.
        let start = unsafe { rustix::mm::mmap_anonymous(hint(at), bytes, ProtFlags::empty(), flags) };
        Self::mapped(start, at, bytes)
    }

    /// Part of a file, shared, at `at` or wherever the kernel likes.
    pub(crate) fn of_file(
        at: Option<usize>,
        bytes: usize,
        access: ProtFlags,
        fd: impl AsFd,
        offset: u64,
    ) -> Result<Self, ExecutorError> {
        let flags = MapFlags::SHARED | placed(at);
        // SAFETY: INV-EXECUTOR-2. A new mapping that replaces nothing.
        let start = unsafe { rustix::mm::mmap(hint(at), bytes, access, flags, fd, offset) };
        Self::mapped(start, at, bytes)
    }

    /// Nothing, at an address at which something else may come to lie.
    pub(crate) fn empty_at(at: usize) -> Self {
        Self { start: NonNull::new(hint(Some(at)).cast()).unwrap_or(NonNull::dangling()), bytes: 0 }
    }

    fn mapped(
        start: rustix::io::Result<*mut std::ffi::c_void>,
        at: Option<usize>,
        bytes: usize,
    ) -> Result<Self, ExecutorError> {
        let start = start.map_err(system("map memory"))?;
        let start = NonNull::new(start.cast()).ok_or(ExecutorError::Unmappable("mapped at address 0"))?;
        let region = Self { start, bytes };
        // Kernels before 4.17 take an address that is asked for as a hint.
        if at.is_some_and(|wanted| wanted != region.address()) {
            return Err(ExecutorError::Unmappable("the window of addresses is taken"));
        }
        Ok(region)
    }

    pub(crate) fn address(&self) -> usize {
        self.start.as_ptr().expose_provenance()
    }

    /// Where it lies.
    pub(crate) fn addresses(&self) -> Range<usize> {
        self.address()..self.address() + self.bytes
    }

    /// The address of `offset`, which lies in the region or at its end.
    pub(crate) fn at(&self, offset: usize) -> *mut u8 {
        debug_assert!(offset <= self.bytes);
        self.start.as_ptr().wrapping_add(offset)
    }

    /// Changes the protection of whole pages of the region.
    pub(crate) fn protect(&self, range: Range<usize>, to: MprotectFlags) -> Result<(), ExecutorError> {
        let pages = range.start.is_multiple_of(PAGE_BYTES) && range.end.is_multiple_of(PAGE_BYTES);
        if !pages || range.start > range.end || range.end > self.bytes {
            return Err(ExecutorError::Unmappable("pages outside of a mapping"));
        }
        // SAFETY: INV-EXECUTOR-2 and 3. Pages of our own mapping.
        unsafe { rustix::mm::mprotect(self.at(range.start).cast(), range.len(), to) }
            .map_err(system("change the protection of memory"))
    }

    /// Gives pages back to the kernel: they read as zeros. Whole pages inside the region only.
    pub(crate) fn discard(&self, range: Range<usize>) {
        if !range.is_empty() {
            discard_at(self.address() + range.start..self.address() + range.end);
        }
    }

    /// Asks the kernel to put a range on one large page, now. It may refuse: too little memory in one
    /// piece, a kernel before 6.1, a mapping that is not aligned.
    pub(crate) fn collapse(&self, range: Range<usize>) {
        /// `MADV_COLLAPSE` of the kernel's headers.
        const COLLAPSE: libc::c_int = 25;
        // SAFETY: INV-EXECUTOR-2. Pages of our own mapping, whose contents stay.
        let _ = unsafe { libc::madvise(self.at(range.start).cast(), range.len(), COLLAPSE) };
    }

    /// Leaves zeros in a range of the region that is mapped writable and mostly zeros already: to look is
    /// quicker than to write. Not for what was written just before: a processor reads wide from memory
    /// alone, and waits for narrow stores that are on their way there.
    pub(crate) fn clear(&self, range: Range<usize>) {
        // SAFETY: INV-EXECUTOR-2. The caller names a writable range of ours, and no call runs.
        let bytes = unsafe { std::slice::from_raw_parts_mut(self.at(range.start), range.len()) };
        if std::arch::is_x86_feature_detected!("avx2") {
            // SAFETY: INV-EXECUTOR-14.
            unsafe { clear_wide(bytes) }
        } else {
            zeros::zero(bytes);
        }
    }

    /// Writes zeros over a range of the region that is mapped writable.
    pub(crate) fn zero(&self, range: Range<usize>) {
        // SAFETY: INV-EXECUTOR-2. The caller names a writable range of ours, and no call runs.
        zeros::zero(unsafe { std::slice::from_raw_parts_mut(self.at(range.start), range.len()) });
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        if self.bytes == 0 {
            return;
        }
        // SAFETY: INV-EXECUTOR-2. Our own mapping, and every reference into it borrows `self`.
        let unmapped = unsafe { rustix::mm::munmap(self.start.as_ptr().cast(), self.bytes) };
        debug_assert!(unmapped.is_ok(), "our own mapping");
    }
}

/// Takes all of the addresses below [`window::GUARD_END`] that lie between `parts`, which are in order and mapped, so
/// that nothing else is there, now or later: what `mfaas_inspect::verify` calls W1. An error if something is.
pub(crate) fn reserve_gaps(parts: &[Range<usize>]) -> Result<Vec<Region>, ExecutorError> {
    let starts = std::iter::once(window::LOWEST).chain(parts.iter().map(|part| part.end));
    let ends = parts.iter().map(|part| part.start).chain([window::GUARD_END]);
    let gaps = starts.zip(ends).filter(|(start, end)| start < end);
    gaps.map(|(start, end)| Region::reserve(Some(start), end - start)).collect()
}

/// So many bytes are looked at together.
const CLEARED_BYTES: usize = 4 * LINE_BYTES;

/// Writes zeros over those of the blocks that hold anything.
#[target_feature(enable = "avx2")]
fn clear_wide(bytes: &mut [u8]) {
    let (blocks, rest) = bytes.as_chunks_mut::<CLEARED_BYTES>();
    for block in blocks {
        let (words, _) = block.as_chunks::<32>();
        let held = words.iter().fold(_mm256_setzero_si256(), |held, word| {
            // SAFETY: INV-EXECUTOR-2. 32 bytes of the slice, of any alignment.
            _mm256_or_si256(held, unsafe { _mm256_loadu_si256(word.as_ptr().cast()) })
        });
        if _mm256_testz_si256(held, held) == 0 {
            block.fill(0);
        }
    }
    zeros::zero(rest);
}

fn placed(at: Option<usize>) -> MapFlags {
    if at.is_some() { MapFlags::FIXED_NOREPLACE } else { MapFlags::empty() }
}

fn hint(at: Option<usize>) -> *mut std::ffi::c_void {
    std::ptr::without_provenance_mut(at.unwrap_or(0))
}

/// Gives whole pages of private memory back to the kernel: of the window, or of the host's own that it holds alone.
pub(crate) fn discard_at(range: Range<usize>) {
    let start = std::ptr::with_exposed_provenance_mut(range.start);
    // SAFETY: INV-EXECUTOR-2 and 3. Private pages of our own; nobody refers to them now.
    let done = unsafe { rustix::mm::madvise(start, range.len(), Advice::LinuxDontNeed) };
    // It fails only for ranges that are not mapped. Going on would show one call's data to the
    // next, so the worker ends instead.
    if done.is_err() {
        std::process::abort();
    }
}

/// Leaves zeros in memory of the host's own; whole pages of it are given back to the kernel.
pub(crate) fn clear_own(bytes: &mut [u8]) {
    let start = bytes.as_ptr().expose_provenance();
    let end = start + bytes.len();
    let whole = start.next_multiple_of(PAGE_BYTES)..end / PAGE_BYTES * PAGE_BYTES;
    if whole.is_empty() {
        return zeros::zero(bytes);
    }
    zeros::zero(&mut bytes[..whole.start - start]);
    zeros::zero(&mut bytes[whole.end - start..]);
    discard_at(whole);
}

/// What one call works in, as indexes of sizes. Remembered for each image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Sizes {
    pub(crate) arena: u8,
    pub(crate) stack: u8,
}

impl Sizes {
    /// What a function begins with: its first calls move it up or down.
    pub(crate) const FIRST: Self = Self { arena: 2, stack: 1 };
    /// Of what nothing ran in.
    pub(crate) const SMALLEST: Self = Self { arena: 0, stack: 0 };
}

/// `guard · call · request · guard · arena · guard · stack · guard · stack … guard`
#[derive(Debug)]
pub(crate) struct CallMemory {
    region: Region,
    /// Of the body of a request and of a response, in bytes.
    body_bytes_max: usize,
    arenas: [Range<usize>; ARENA_BYTES.len() + 1],
    stacks: [Range<usize>; STACKS_BYTES.len()],
}

/// The call's record and `errno` stand on the page before the request.
const TENANT_PAGE: usize = GUARD_BYTES;
const REQUEST: usize = TENANT_PAGE + PAGE_BYTES;
/// Address of the function's `errno`.
pub(crate) const ERRNO: usize = window::CALL_MEMORY + TENANT_PAGE;
const _: () = assert!(FRAME_BYTES_MAX.is_multiple_of(PAGE_BYTES));
const _: () = assert!(BULK_FRAME_BYTES_MAX.is_multiple_of(PAGE_BYTES));
/// What all but the arena and the request takes, guards included, is less than this.
const SMALL_PARTS_BYTES: usize = 4 << 20;
const _: () = assert!(
    window::CALL_MEMORY + BULK_FRAME_BYTES_MAX + MemoryLimit::MAX.as_bytes() as usize + SMALL_PARTS_BYTES
        <= window::END,
    "the largest request and the largest arena lie in the window together"
);
/// Offset of the call's record in its page; `errno` comes first.
const CALL_AT: usize = 64;
const _: () = assert!(size_of::<Call>() + CALL_AT <= PAGE_BYTES);

/// Where the parts lie, from its first byte on.
struct Layout {
    request_end: usize,
    arenas: [Range<usize>; ARENA_BYTES.len() + 1],
    stacks: [Range<usize>; STACKS_BYTES.len()],
    /// All of it.
    bytes: usize,
}

impl Layout {
    fn of(arena_bytes: usize, body_bytes_max: usize) -> Self {
        let largest = arena_bytes.next_multiple_of(PAGE_BYTES).max(KEPT_BYTES + PAGE_BYTES);
        let request_end = REQUEST + frame_bytes_max(body_bytes_max).next_multiple_of(PAGE_BYTES);
        let mut end = request_end;
        let mut lay = |bytes: usize| {
            let start = end + GUARD_BYTES;
            end = start + bytes.next_multiple_of(PAGE_BYTES);
            start..start + bytes
        };
        let arena = lay(largest);
        let [tiny, small, medium, large] = ARENA_BYTES;
        let arenas = [tiny, small, medium, large, largest].map(|bytes| arena.start..arena.start + bytes);
        let stacks = STACKS_BYTES.map(lay);
        Self { request_end, arenas, stacks, bytes: end + GUARD_BYTES }
    }
}

impl CallMemory {
    /// Call memory whose largest arena has `arena_bytes`, a multiple of a page, for requests with bodies of at most
    /// `body_bytes_max`, which is one too.
    pub(crate) fn new(arena_bytes: usize, body_bytes_max: usize) -> Result<Self, ExecutorError> {
        Self::at(window::CALL_MEMORY, arena_bytes, body_bytes_max)
    }

    /// The same at another address of the window.
    pub(crate) fn at(
        address: usize,
        arena_bytes: usize,
        body_bytes_max: usize,
    ) -> Result<Self, ExecutorError> {
        let Layout { request_end, arenas, stacks, bytes } = Layout::of(arena_bytes, body_bytes_max);
        if !Self::fits(address, arena_bytes, body_bytes_max) {
            return Err(ExecutorError::Unmappable("more memory than the window has room for"));
        }
        let region = Region::reserve(Some(address), bytes)?;
        let access = MprotectFlags::READ | MprotectFlags::WRITE;
        region.protect(TENANT_PAGE..request_end, access)?;
        let [.., arena] = &arenas;
        for range in stacks.iter().chain([arena]) {
            region.protect(range.clone(), access)?;
        }
        Ok(Self { region, body_bytes_max, arenas, stacks })
    }

    /// Whether the window has room for it at an address.
    pub(crate) fn fits(address: usize, arena_bytes: usize, body_bytes_max: usize) -> bool {
        address + Layout::of(arena_bytes, body_bytes_max).bytes <= window::END
    }

    /// Where it lies.
    pub(crate) fn addresses(&self) -> Range<usize> {
        self.region.addresses()
    }

    /// Where the call's record stands.
    pub(crate) fn call(&self) -> *mut Call {
        self.region.at(TENANT_PAGE + CALL_AT).cast()
    }

    /// What the body of a request and of a response may have, in bytes.
    pub(crate) fn body_bytes_max(&self) -> usize {
        self.body_bytes_max
    }

    /// Where the request stands, and how much room it has, in bytes.
    pub(crate) fn request(&self) -> (*mut u8, usize) {
        (self.region.at(REQUEST), frame_bytes_max(self.body_bytes_max))
    }

    /// So many bytes from the start of the request's room, and not more than it has.
    pub(crate) fn frame(&self, bytes: usize) -> &[u8] {
        let (start, all) = self.request();
        // SAFETY: INV-EXECUTOR-2. Inside of the request's room, and no call runs.
        unsafe { std::slice::from_raw_parts(start, bytes.min(all)) }
    }

    /// Leaves zeros where a request of so many bytes stood. More than a request of most functions has is given back to the
    /// kernel.
    pub(crate) fn wipe_request(&self, bytes: usize) {
        self.region.zero(REQUEST..REQUEST + bytes.min(FRAME_BYTES_MAX));
        if bytes > FRAME_BYTES_MAX {
            self.region.discard(REQUEST + FRAME_BYTES_MAX..REQUEST + bytes);
        }
    }

    /// First byte and length of an arena.
    pub(crate) fn arena(&self, size: u8) -> (*mut u8, usize) {
        let range = &self.arenas[usize::from(size)];
        (self.region.at(range.start), range.len())
    }

    /// So many bytes from the start of an arena, and not more than it has.
    pub(crate) fn arena_beginning(&self, size: u8, bytes: usize) -> &[u8] {
        let (start, all) = self.arena(size);
        // SAFETY: INV-EXECUTOR-2. Inside of the arena, and no call runs.
        unsafe { std::slice::from_raw_parts(start, bytes.min(all)) }
    }

    /// Addresses of a stack.
    pub(crate) fn stack(&self, size: u8) -> Range<usize> {
        let range = &self.stacks[usize::from(size)];
        self.region.address() + range.start..self.region.address() + range.end
    }

    /// Addresses of the guard below a stack.
    pub(crate) fn stack_guard(&self, size: u8) -> Range<usize> {
        let start = self.stack(size).start;
        start - GUARD_BYTES..start
    }

    /// How much of a stack holds anything, in bytes from its end. Reads all of a small one.
    pub(crate) fn stack_used(&self, size: u8) -> usize {
        let range = &self.stacks[usize::from(size)];
        // SAFETY: INV-EXECUTOR-2. No call runs.
        let held = unsafe { std::slice::from_raw_parts(self.region.at(range.start), range.len()) };
        held.iter().position(|byte| *byte != 0).map_or(0, |first| range.len() - first)
    }

    /// Makes everything zeros that a call with these sizes and a request of so many bytes could write.
    pub(crate) fn wipe(&self, sizes: Sizes, request_bytes: usize) {
        self.region.zero(TENANT_PAGE..TENANT_PAGE + CALL_AT + size_of::<Call>());
        self.wipe_request(request_bytes);
        let arena = self.arenas[usize::from(sizes.arena)].clone();
        let kept = arena.end.min(arena.start + KEPT_BYTES);
        let used = kept.min(arena.start + USED_BYTES);
        self.region.zero(arena.start..used);
        self.region.clear(used..kept);
        self.region.discard(kept..arena.end);
        let stack = self.stacks[usize::from(sizes.stack)].clone();
        let kept = stack.start.max(stack.end.saturating_sub(KEPT_BYTES));
        let used = stack.end - USED_BYTES;
        self.region.zero(used..stack.end);
        self.region.clear(kept..used);
        self.region.discard(stack.start..kept);
    }

    /// As [`Self::wipe`], but everything, whoever used it.
    pub(crate) fn wipe_all(&self) {
        self.region.zero(TENANT_PAGE..REQUEST);
        let [.., arena] = &self.arenas;
        for range in self.stacks.iter().chain([arena]) {
            self.region.discard(range.clone());
        }
        self.region.discard(REQUEST..REQUEST + frame_bytes_max(self.body_bytes_max));
    }
}
