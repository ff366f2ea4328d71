//! The record that crosses into a function, and the header at the start of its arena.

use alloc::vec::Vec;

use crate::Status;

/// Version of every layout in this crate. Artifact and node must agree exactly.
pub const ABI_VERSION: u32 = 1;

/// One invocation, prepared by the host and handed to the entry symbol.
///
/// The host fills everything but the two `response` fields, which the shim writes before it
/// returns. The host treats every field as hostile once the function has run.
#[repr(C)]
#[derive(Debug)]
pub struct Call {
    /// [`ABI_VERSION`]; the shim refuses any other with [`Status::Aborted`].
    pub abi_version: u32,
    /// Reserved, zero.
    pub flags: u32,
    /// Start of the request frame. Readable, and unchanged while the call lasts.
    pub request: *const u8,
    /// Length of the request frame in bytes, at most [`crate::limits::FRAME_BYTES_MAX`].
    pub request_bytes: usize,
    /// Start of the arena, aligned to 4096. It begins with a zeroed [`ArenaHeader`].
    pub arena: *mut u8,
    /// Length of the arena in bytes, header included.
    pub arena_bytes: usize,
    /// Start of the response frame, inside the arena. Written by the shim.
    pub response: *const u8,
    /// Length of the response frame in bytes. Written by the shim.
    pub response_bytes: usize,
    /// Reserved for bindings and async calls, zero.
    pub reserved: [u64; 4],
}

/// The first bytes of the arena: all that the allocator of the shim remembers.
///
/// It lives in the arena, not in a static, so that wiping the arena resets the allocator and the
/// host can read how far the arena was used.
#[repr(C)]
#[derive(Debug)]
pub struct ArenaHeader {
    /// Highest offset ever handed out, in bytes from the start of the arena. Never shrinks.
    pub high_water: usize,
    /// Offset of the first byte not handed out, in bytes from the start of the arena.
    pub top: usize,
    /// Heads of the free lists by size class, as offsets; 0 is the empty list.
    pub free: [usize; ArenaHeader::CLASSES],
}

impl ArenaHeader {
    /// Size classes: 16-byte steps to 64 bytes, then four to each doubling, to 2 GiB.
    pub const CLASSES: usize = 4 + 4 * 25;
}

/// What a handler left behind: the status and the encoded response frame (empty if none).
#[derive(Debug)]
pub struct Reply {
    /// How the handler ended.
    pub status: Status,
    /// The response frame, or nothing for a status without a response.
    pub frame: Vec<u8>,
}
