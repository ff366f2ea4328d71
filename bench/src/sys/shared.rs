//! Memory that two processes share, as 64-bit atomics.

use std::os::fd::{AsFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::AtomicU64;

use anyhow::{Context as _, ensure};
use rustix::fs::MemfdFlags;
use rustix::mm::{MapFlags, ProtFlags};

/// A mapping of whole words, unmapped when it is dropped.
#[derive(Debug)]
pub struct Shared {
    base: NonNull<AtomicU64>,
    words: usize,
}

impl Shared {
    /// New memory of `words` zeros, with the descriptor that another process attaches to.
    pub fn create(words: usize) -> anyhow::Result<(OwnedFd, Self)> {
        let fd = rustix::fs::memfd_create("mfaas-bench", MemfdFlags::CLOEXEC).context("memfd_create")?;
        rustix::fs::ftruncate(&fd, words as u64 * 8).context("ftruncate")?;
        let shared = Self::attach(&fd, words)?;
        Ok((fd, shared))
    }

    /// The memory behind `fd`, which must hold `words`. Every page is touched.
    pub fn attach(fd: impl AsFd, words: usize) -> anyhow::Result<Self> {
        let size = rustix::fs::fstat(&fd).context("fstat")?.st_size;
        ensure!(u64::try_from(size).is_ok_and(|size| size >= words as u64 * 8), "the memory is too small");
        let (access, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED | MapFlags::POPULATE);
        // SAFETY: INV-BENCH-1. A new mapping at an address of the kernel's choice.
        let base = unsafe { rustix::mm::mmap(std::ptr::null_mut(), words * 8, access, flags, fd, 0) };
        let base = NonNull::new(base.context("mmap")?.cast()).context("mapped at address 0")?;
        Ok(Self { base, words })
    }

    /// All words.
    pub fn words(&self) -> &[AtomicU64] {
        let words = NonNull::slice_from_raw_parts(self.base, self.words);
        // SAFETY: INV-BENCH-1. Exactly the mapping, page-aligned; every bit pattern is a value.
        unsafe { words.as_ref() }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // SAFETY: INV-BENCH-1. Our own mapping; every reference into it borrows `self`.
        let unmapped = unsafe { rustix::mm::munmap(self.base.as_ptr().cast(), self.words * 8) };
        debug_assert!(unmapped.is_ok(), "our own mapping");
    }
}
