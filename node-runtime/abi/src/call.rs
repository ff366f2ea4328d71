//! The record that crosses into a function, and the header at the start of its arena.

use alloc::vec::Vec;

use crate::{ContentType, Status, limits};

/// Version of every layout in this crate. Artifact and node must agree exactly.
pub const ABI_VERSION: u32 = 2;

/// Flag of a [`Call`]: its memory is as it was when its handler began to wait, and the body of its request
/// is a list of outcomes ([`crate::Records`]).
pub const FLAG_RESUMED: u32 = 1;
/// Flag of a [`Call`]: its function is a bulk function, and what depends on that has the larger bounds.
pub const FLAG_BULK: u32 = 2;

/// What the entry returns in the place of a [`Status`] when the handler waits. The body of the response is a list of operations
/// ([`crate::Records`]), and nothing else of it counts.
pub const WAITS: u32 = 0x100;

/// One invocation, prepared by the host and handed to the entry symbol.
///
/// The host reads requests and writes responses, so that this code exists once and not in every
/// image: thousands of copies of it are what a processor's caches cannot hold. It fills everything
/// but [`Call::response`], which the shim writes before it returns. The host treats every field as
/// hostile once the function has run.
#[repr(C)]
#[derive(Debug)]
pub struct Call {
    /// [`ABI_VERSION`]; the shim refuses any other with [`Status::Aborted`].
    pub abi_version: u32,
    /// [`FLAG_RESUMED`], [`FLAG_BULK`], both or none.
    pub flags: u32,
    /// Start of the arena, aligned to 4096. It begins with a zeroed [`ArenaHeader`].
    pub arena: *mut u8,
    /// Length of the arena in bytes, header included.
    pub arena_bytes: usize,
    /// What is asked.
    pub request: RequestRecord,
    /// What is answered.
    pub response: ResponseRecord,
    /// Where the assets lie that the function binds; null if it binds none. Readable, and unchanged while
    /// the call lasts. It came behind all others within version 2: an image without assets does not look here.
    pub assets: *const AssetTable,
}

/// The bytes of each asset, by the place of its binding among all of the function's; nothing where another
/// binding stands, or none.
pub type AssetTable = [Span; limits::BINDINGS_MAX];

/// Bytes somewhere in the memory of a call.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct Span {
    /// Address of the first byte; any address if there is none.
    pub start: *const u8,
    /// How many there are.
    pub bytes: usize,
}

impl Span {
    /// No bytes.
    pub const EMPTY: Self = Self { start: core::ptr::null(), bytes: 0 };

    /// The bytes of a slice.
    pub fn of(bytes: &[u8]) -> Self {
        Self { start: bytes.as_ptr(), bytes: bytes.len() }
    }
}

/// A request in its parts: what [`crate::frame::RequestParts::decode`] made of the caller's frame.
/// Readable, and unchanged while the call lasts.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct RequestRecord {
    /// UTF-8.
    pub method: Span,
    /// UTF-8.
    pub path: Span,
    /// Names and values as they stand in a frame.
    pub headers: Span,
    /// How many headers those are, at most [`crate::limits::HEADERS_MAX`].
    pub header_count: usize,
    /// At most as long as the class of the function allows: [`crate::limits`].
    pub body: Span,
}

/// A response in its parts. Every span lies in the arena or is empty.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct ResponseRecord {
    /// The HTTP status.
    pub http_status: u32,
    /// The number of a [`ContentType`], which becomes the first header.
    pub content_type: u32,
    /// Further names and values, as [`crate::frame::encode_headers`] writes them.
    pub headers: Span,
    /// How many headers those are.
    pub header_count: usize,
    /// At most as long as the class of the function allows: [`crate::limits`].
    pub body: Span,
}

impl ResponseRecord {
    /// What stands there before a function has answered: no valid response.
    pub const NONE: Self =
        Self { http_status: 0, content_type: 0, headers: Span::EMPTY, header_count: 0, body: Span::EMPTY };
}

/// The first bytes of the arena: all that the allocator of the shim remembers.
///
/// It lives in the arena, not in a static, so that the host can read how far the arena was used.
#[repr(C)]
#[derive(Debug)]
pub struct ArenaHeader {
    /// Highest offset ever handed out, in bytes from the start of the arena. Never shrinks.
    pub high_water: usize,
    /// Offset of the first byte not handed out, in bytes from the start of the arena.
    pub top: usize,
    /// A bit for each size class whose free list was begun in this call. The head of any other list is
    /// whatever an earlier call left there, and means nothing.
    pub begun: [u64; ArenaHeader::CLASSES.div_ceil(u64::BITS as usize)],
    /// Heads of the free lists by size class, as offsets in grains; 0 is the empty list.
    pub free: [u32; ArenaHeader::CLASSES],
}

impl ArenaHeader {
    /// Blocks are multiples of this and aligned to it, in bytes.
    pub const GRAIN_BYTES: usize = 16;
    /// Size classes: 16-byte steps to 64 bytes, then four to each doubling, to 2 GiB.
    pub const CLASSES: usize = 4 + 4 * 25;
}

/// What a handler left behind. The host checks it; only what the handler itself can know to be wrong
/// is in `status`.
#[derive(Debug)]
pub struct Reply {
    /// How the handler ended. Only with [`Status::Ok`] and [`Status::HandlerError`] does the rest count.
    pub status: Status,
    /// The HTTP status.
    pub http_status: u16,
    /// The first header.
    pub content_type: ContentType,
    /// Further headers, as [`crate::frame::encode_headers`] writes them.
    pub headers: Vec<u8>,
    /// How many headers those are.
    pub header_count: u16,
    /// The body.
    pub body: Vec<u8>,
}

impl Reply {
    /// A good answer without headers.
    pub const fn of(body: Vec<u8>) -> Self {
        Self {
            status: Status::Ok,
            http_status: 200,
            content_type: ContentType::Unsaid,
            headers: Vec::new(),
            header_count: 0,
            body,
        }
    }

    /// An end without a response.
    pub fn without_response(status: Status) -> Self {
        Self { status, ..Self::of(Vec::new()) }
    }
}
