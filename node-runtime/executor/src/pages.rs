//! Sizes of the processor that memory is laid out by.

/// A page, in bytes.
pub(crate) const PAGE_BYTES: usize = 4096;
/// A line of the caches, in bytes.
pub(crate) const LINE_BYTES: usize = 64;
/// A large page of the kernel's, in bytes.
pub(crate) const LARGE_PAGE_BYTES: usize = 2 << 20;
