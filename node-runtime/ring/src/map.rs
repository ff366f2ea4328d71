//! The mapping itself: the only place that turns addresses into references.
//!
//! It must never hand out anything but atomics, and never an offset that was not checked.

use std::os::fd::{AsFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{MemfdFlags, SealFlags};
use rustix::mm::{Advice, MapFlags, ProtFlags};

use crate::RingError;
use crate::layout::{
    Area, CompletionRecord, Geometry, Header, LINE_BYTES, PAGE_BYTES, Part, SMALL_BYTES_MAX, SubmissionRecord,
};

/// Shared memory of one ring, unmapped when the last end goes.
#[derive(Debug)]
pub(crate) struct Mapping {
    base: NonNull<u8>,
    geometry: Geometry,
}

// SAFETY: INV-RING-2. The address is only ever read as atomics, which any thread may use.
unsafe impl Send for Mapping {}
// SAFETY: INV-RING-2. As above.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Makes the memory and seals its size.
    pub(crate) fn create(geometry: Geometry) -> Result<(OwnedFd, Self), RingError> {
        let fd = rustix::fs::memfd_create("mfaas-ring", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)
            .map_err(system("memfd_create"))?;
        rustix::fs::ftruncate(&fd, geometry.memory_bytes() as u64).map_err(system("ftruncate"))?;
        let seals = SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL;
        rustix::fs::fcntl_add_seals(&fd, seals).map_err(system("seal"))?;
        let mapping = Self::map(&fd, geometry)?;
        Ok((fd, mapping))
    }

    /// Maps memory that somebody else made, if its size is sealed and is that of a ring.
    pub(crate) fn attach(fd: impl AsFd) -> Result<Self, RingError> {
        let seals = rustix::fs::fcntl_get_seals(&fd).map_err(system("read seals"))?;
        if !seals.contains(SealFlags::SHRINK | SealFlags::GROW) {
            return Err(RingError::Violation("the memory's size is not sealed"));
        }
        let stat = rustix::fs::fstat(&fd).map_err(system("fstat"))?;
        let geometry = u64::try_from(stat.st_size)
            .ok()
            .and_then(Geometry::of_memory)
            .ok_or(RingError::Violation("the memory has not the size of a ring"))?;
        Self::map(&fd, geometry)
    }

    fn map(fd: &impl AsFd, geometry: Geometry) -> Result<Self, RingError> {
        let bytes = geometry.memory_bytes();
        // SAFETY: INV-RING-1. A new mapping at an address of the kernel's choice.
        let address = unsafe {
            rustix::mm::mmap(
                std::ptr::null_mut(),
                bytes,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::SHARED,
                fd,
                0,
            )
        };
        let address = address.map_err(system("mmap"))?;
        let base = NonNull::new(address.cast()).ok_or(RingError::Violation("mapped at address 0"))?;
        Ok(Self { base, geometry })
    }

    pub(crate) fn geometry(&self) -> Geometry {
        self.geometry
    }

    /// The header page.
    pub(crate) fn header(&self) -> &Header {
        // SAFETY: INV-RING-1 and 2. The mapping begins with the header page, page-aligned, and the
        // header consists of atomics only, for which every bit pattern is a value.
        unsafe { self.base.cast::<Header>().as_ref() }
    }

    /// The submission of the slot that `position` falls on.
    pub(crate) fn submission(&self, position: u64) -> &SubmissionRecord {
        let offset = self.geometry.submission_offset(position);
        // SAFETY: INV-RING-1. Records of all slots lie inside the mapping, by `Geometry`.
        let record = unsafe { self.base.add(offset) }.cast::<SubmissionRecord>();
        // SAFETY: INV-RING-1 and 2. Offsets of records are multiples of 64; atomics only.
        unsafe { record.as_ref() }
    }

    /// The completion of the slot that `position` falls on.
    pub(crate) fn completion(&self, position: u64) -> &CompletionRecord {
        let offset = self.geometry.completion_offset(position);
        // SAFETY: INV-RING-1. Records of all slots lie inside the mapping, by `Geometry`.
        let record = unsafe { self.base.add(offset) }.cast::<CompletionRecord>();
        // SAFETY: INV-RING-1 and 2. Offsets of records are multiples of 64; atomics only.
        unsafe { record.as_ref() }
    }

    /// Asks the processor for the lines of a submission's record or a completion's and of `bytes` of the
    /// small payload behind it, to be written: to take a part is to wipe it too.
    pub(crate) fn expect(&self, offset: usize, bytes: usize) {
        let bytes = LINE_BYTES + bytes.min(SMALL_BYTES_MAX);
        for line in (offset..offset + bytes).step_by(LINE_BYTES) {
            // SAFETY: INV-RING-1. Slots lie inside the mapping, by `Geometry`.
            let line = unsafe { self.base.add(line) };
            expect_line(line.as_ptr());
        }
    }

    /// Copies `bytes` to where a part of that length lies. The caller has checked the length.
    pub(crate) fn put(&self, position: u64, part: Part, bytes: &[u8]) {
        let words = self.area(position, part.area(bytes.len()));
        let chunks = bytes.chunks_exact(8);
        let rest = chunks.remainder();
        let mut words = words.iter();
        for (chunk, word) in chunks.zip(words.by_ref()) {
            word.store(word_of(chunk), Ordering::Relaxed);
        }
        if let Some(word) = words.next().filter(|_| !rest.is_empty()) {
            word.store(word_of(rest), Ordering::Relaxed);
        }
    }

    /// Copies a part of `into.len()` bytes out and wipes it where it was. The caller has checked the
    /// length.
    pub(crate) fn take(&self, position: u64, part: Part, into: &mut [u8]) {
        let mut words = self.area(position, part.area(into.len())).iter();
        let mut chunks = into.chunks_exact_mut(8);
        for (chunk, word) in chunks.by_ref().zip(words.by_ref()) {
            chunk.copy_from_slice(&word.load(Ordering::Relaxed).to_ne_bytes());
            word.store(0, Ordering::Relaxed);
        }
        let rest = chunks.into_remainder();
        if let Some(word) = words.next().filter(|_| !rest.is_empty()) {
            rest.copy_from_slice(&word.load(Ordering::Relaxed).to_ne_bytes()[..rest.len()]);
            word.store(0, Ordering::Relaxed);
        }
    }

    /// Wipes a part of `bytes` bytes that nobody wants to read. The caller has checked the length.
    pub(crate) fn wipe(&self, position: u64, part: Part, bytes: usize) {
        for word in self.area(position, part.area(bytes)).iter().take(bytes.div_ceil(8)) {
            word.store(0, Ordering::Relaxed);
        }
    }

    /// Gives the memory of a slot's large areas back to the kernel: they read as zeros. Worth a system call where they are as
    /// large as a bulk function's, and not sooner: a word that is wiped stays memory.
    pub(crate) fn discard_large(&self, position: u64) {
        for area in [Area::LargeRequest, Area::LargeResponse] {
            let (start, bytes) = (self.geometry.area_offset(position, area), self.geometry.area_bytes(area));
            let whole = start.next_multiple_of(PAGE_BYTES)..(start + bytes) / PAGE_BYTES * PAGE_BYTES;
            // SAFETY: INV-RING-1. Every area of every slot lies inside the mapping, by `Geometry`.
            let start = unsafe { self.base.add(whole.start) };
            // SAFETY: INV-RING-1 and 2. Whole pages of our own mapping, which others see as atomics only; they become zeros.
            let given =
                unsafe { rustix::mm::madvise(start.as_ptr().cast(), whole.len(), Advice::LinuxRemove) };
            // It costs memory alone: what lay there was wiped by whoever read it.
            debug_assert!(given.is_ok(), "a memory file of ours");
        }
    }

    fn area(&self, position: u64, area: Area) -> &[AtomicU64] {
        let offset = self.geometry.area_offset(position, area);
        // SAFETY: INV-RING-1. Every area of every slot lies inside the mapping, by `Geometry`.
        let start = unsafe { self.base.add(offset) }.cast::<AtomicU64>();
        let words = NonNull::slice_from_raw_parts(start, self.geometry.area_bytes(area) / 8);
        // SAFETY: INV-RING-1 and 2. Offsets and lengths of areas are multiples of 8; atomics only.
        unsafe { words.as_ref() }
    }

    /// The whole memory as words, for tests that play a hostile peer.
    #[cfg(test)]
    pub(crate) fn words(&self) -> &[AtomicU64] {
        let words = NonNull::slice_from_raw_parts(self.base.cast(), self.geometry.memory_bytes() / 8);
        // SAFETY: INV-RING-1 and 2. Exactly the mapping; atomics only.
        unsafe { words.as_ref() }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: INV-RING-1. Nothing refers to the mapping any more, since every view borrows `self`.
        let unmapped = unsafe { rustix::mm::munmap(self.base.as_ptr().cast(), self.geometry.memory_bytes()) };
        debug_assert!(unmapped.is_ok(), "our own mapping");
    }
}

/// A hint: it changes nothing, and never faults. One store behind another waits for lines that another
/// core holds; so they are asked for before there is anything to store.
fn expect_line(line: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: INV-RING-5. The instruction takes any address; processors without it do nothing.
    unsafe {
        core::arch::asm!("prefetchw [{line}]", line = in(reg) line, options(nostack, preserves_flags, readonly));
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = line;
}

/// At most 8 bytes as a word, filled up with zeros.
fn word_of(chunk: &[u8]) -> u64 {
    let mut filled = [0; 8];
    filled[..chunk.len()].copy_from_slice(chunk);
    u64::from_ne_bytes(filled)
}

fn system(step: &'static str) -> impl Fn(rustix::io::Errno) -> RingError {
    move |errno| RingError::System { step, source: errno.into() }
}
