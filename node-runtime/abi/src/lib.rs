//! What a function's shared object and the node agree on: the entry symbol, the `Call` record,
//! the statuses, the host's symbols, the arena header and the two frames.
//!
//! Compiled into every artifact and into the node, so it must never depend on anything but `core`
//! and `alloc`, never contain unsafe code, and never change a layout without a new [`ABI_VERSION`], but
//! for a field behind all others of [`Call`] that only images read whose statements older nodes refuse.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod frame;
pub mod symbols;

mod call;
mod callee;
mod content_type;
mod fields;
mod http;
mod kv;
mod log;
mod object;
mod status;
mod suspended;
mod volume;

pub use call::{
    ABI_VERSION, ArenaHeader, AssetTable, Call, FLAG_BULK, FLAG_RESUMED, Reply, RequestRecord,
    ResponseRecord, Span, WAITS,
};
pub use callee::CalleeReply;
pub use content_type::ContentType;
pub use fields::{split_binding, with_binding};
pub use http::{HttpReply, HttpRequest, is_safe};
pub use kv::{KvExpiry, KvReply, KvRequest};
pub use log::{Level, LogEntry, LogReader, log_entry_header};
pub use object::{ObjectReply, ObjectRequest};
pub use status::Status;
pub use suspended::{DONE, OperationKind, Record, Records, SuspendedFrame};
pub use volume::{VolumeReply, VolumeRequest, names_of};

/// Named limits of one invocation. The node, the worker and the SDK all refuse beyond them.
pub mod limits {
    /// Body of a request or of a response, in bytes.
    pub const BODY_BYTES_MAX: usize = 1 << 20;
    /// Body of a request to a bulk function or of its response, in bytes.
    pub const BULK_BODY_BYTES_MAX: usize = 64 << 20;
    /// Bindings of one function.
    pub const BINDINGS_MAX: usize = 16;
    /// Headers in one frame.
    pub const HEADERS_MAX: usize = 64;
    /// Name of one header, in bytes.
    pub const HEADER_NAME_BYTES_MAX: usize = 128;
    /// Value of one header, in bytes.
    pub const HEADER_VALUE_BYTES_MAX: usize = 8 << 10;
    /// Names and values of all headers of one frame together, in bytes.
    pub const HEADERS_BYTES_MAX: usize = 32 << 10;
    /// Request method, in bytes.
    pub const METHOD_BYTES_MAX: usize = 16;
    /// Path with its query, in bytes.
    pub const PATH_BYTES_MAX: usize = 8 << 10;
    /// A whole frame, in bytes: the body and room for everything before it.
    pub const FRAME_BYTES_MAX: usize = frame_bytes_max(BODY_BYTES_MAX);
    /// A whole frame of a bulk function, in bytes.
    pub const BULK_FRAME_BYTES_MAX: usize = frame_bytes_max(BULK_BODY_BYTES_MAX);
    /// What stands before the body of a frame, in bytes.
    pub const FRAME_HEAD_BYTES_MAX: usize = 64 << 10;

    /// A whole frame with a body of at most so many bytes, in bytes.
    pub const fn frame_bytes_max(body_bytes_max: usize) -> usize {
        body_bytes_max + FRAME_HEAD_BYTES_MAX
    }
    /// Log records of one invocation with their headers, in bytes; what comes after is dropped.
    pub const LOG_BYTES_MAX: usize = 16 << 10;
    /// The text of one panic with its place, in bytes.
    pub const PANIC_BYTES_MAX: usize = 1 << 10;
    /// Operations of one call that have not ended.
    pub const OPERATIONS_MAX: usize = 64;
    /// Operations that a call begins before it waits, and as many that it cancels; or outcomes that it hears of.
    pub const RECORDS_MAX: usize = 2 * OPERATIONS_MAX;

    /// Keys that one operation names, and entries that one gives.
    pub const KV_KEYS_MAX: usize = 256;
    /// An object, in bytes; and all that a call uploads and has not put yet.
    pub const OBJECT_BYTES_MAX: usize = 32 << 20;
    /// A piece of an object that one operation brings or takes, in bytes.
    pub const OBJECT_PIECE_BYTES_MAX: usize = 128 << 10;
    /// A piece of a file that one operation brings or takes, in bytes.
    pub const VOLUME_PIECE_BYTES_MAX: usize = OBJECT_PIECE_BYTES_MAX;
    /// A path in a volume, in bytes.
    pub const VOLUME_PATH_BYTES_MAX: usize = 1 << 10;
    /// One name of it, in bytes.
    pub const VOLUME_NAME_BYTES_MAX: usize = 255;
    /// Its names.
    pub const VOLUME_DEPTH_MAX: usize = 16;
    /// Entries of a directory that one operation gives.
    pub const VOLUME_ENTRIES_MAX: usize = 256;
    /// Body of a request to a server, or of its answer, in bytes.
    pub const HTTP_BODY_BYTES_MAX: usize = BODY_BYTES_MAX;
    /// A piece of it that one operation brings or takes, in bytes: what stands before it in an outcome has room beside it.
    pub const HTTP_PIECE_BYTES_MAX: usize = 64 << 10;
    /// Secrets that one such request carries.
    pub const HTTP_SECRETS_MAX: usize = 4;
    /// What comes of one operation, in bytes: a piece, and what stands before it.
    pub const OUTCOME_BYTES_MAX: usize = OBJECT_PIECE_BYTES_MAX + (4 << 10);

    /// All operations that a call begins before it waits, and all outcomes that it hears of at once, in bytes: 9/32 of what a body may
    /// have, so that two pieces fit with what stands around them.
    pub const fn records_bytes_max(body_bytes_max: usize) -> usize {
        body_bytes_max / 32 * 9
    }

    /// Memory in use of a call that waits, its arena and its image's data, in bytes: the rest.
    pub const fn state_bytes_max(body_bytes_max: usize) -> usize {
        body_bytes_max - records_bytes_max(body_bytes_max)
    }
}

#[cfg(test)]
mod tests;
