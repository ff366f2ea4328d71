//! Sizes of the processor that memory is laid out by.

/// A page, in bytes.
pub(crate) const PAGE_BYTES: usize = 4096;
/// A line of the caches, in bytes.
pub(crate) const LINE_BYTES: usize = 64;
