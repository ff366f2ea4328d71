//! The way in: what the generated entry symbol calls. And two ways out: what std calls when a function
//! panics, and when it has no room.

use std::io::Write as _;

use mfaas_abi::frame::{Headers, RequestFrame};
use mfaas_abi::{ABI_VERSION, Call, Reply, RequestRecord, ResponseRecord, Span, Status};

use crate::arena::Arena;
use crate::bounded::BoundedText;
use crate::host;

#[global_allocator]
static ARENA: Arena = Arena::empty();

/// Runs one call: gives the arena to the allocator, the request to `handler`, and the handler's reply
/// to the host. Returns the number of the [`Status`].
///
/// Only the generated entry symbol may call it, with the pointer that the host gave it.
#[allow(
    clippy::not_unsafe_ptr_arg_deref,
    reason = "so that the generated crate can do without unsafe blocks; tenants cannot name this crate"
)]
pub fn enter(call: *mut Call, handler: impl FnOnce(&RequestFrame<'_>) -> Reply) -> u32 {
    // SAFETY: INV-SHIM-1. The host's record, which only this function touches during the call.
    let Some(call) = (unsafe { call.as_mut() }) else {
        return Status::Aborted.as_u32();
    };
    if call.abi_version != ABI_VERSION {
        return Status::Aborted.as_u32();
    }
    // SAFETY: INV-SHIM-1 and 2. The arena of this call; nothing was allocated before.
    unsafe { ARENA.adopt(call.arena, call.arena_bytes) };
    let reply = handler(&request(&call.request));
    if ARENA.may_have_printed() {
        // What was printed without a line end still waits in std's buffer. There is no better place
        // for a failure than nowhere: the host's `write` never fails.
        let _ = std::io::stdout().flush();
    }
    call.response = ResponseRecord {
        http_status: u32::from(reply.http_status),
        content_type: reply.content_type as u32,
        headers: Span::of(reply.headers.leak()),
        header_count: usize::from(reply.header_count),
        body: Span::of(reply.body.leak()),
    };
    reply.status.as_u32()
}

/// The request, as the host read it.
fn request(record: &RequestRecord) -> RequestFrame<'_> {
    RequestFrame {
        method: text(&record.method),
        path: text(&record.path),
        headers: Headers::from_checked(record.header_count as u16, bytes(&record.headers)),
        body: bytes(&record.body),
    }
}

fn bytes(span: &Span) -> &[u8] {
    // SAFETY: INV-SHIM-1. Readable and unchanged until the call ends.
    unsafe { std::slice::from_raw_parts(span.start, span.bytes) }
}

fn text(span: &Span) -> &str {
    // SAFETY: INV-SHIM-1. The host decoded it as UTF-8.
    unsafe { std::str::from_utf8_unchecked(bytes(span)) }
}

/// Ends the call with the panic's text and place. Text that itself panics makes std abort, which
/// ends the call too.
///
/// The linker puts it where std has its default hook (INV-SHIM-5): it need not be installed in every
/// call, and what std would do instead is not linked.
#[unsafe(no_mangle)]
fn mfaas_panicked(info: &std::panic::PanicHookInfo<'_>) {
    let mut text = BoundedText::new();
    text.push(info.payload_as_str().unwrap_or("a panic without text"));
    if let Some(place) = info.location() {
        text.push_fmt(format_args!(" ({}:{}:{})", place.file(), place.line(), place.column()));
    }
    host::panicked(text.as_bytes())
}

/// Ends the call for want of memory, in the place of what std calls when `alloc::handle_alloc_error` is
/// called (INV-SHIM-5). The allocator itself never lets it come to that.
#[unsafe(no_mangle)]
fn mfaas_no_room(bytes: usize, _alignment: usize) -> ! {
    host::out_of_memory(bytes)
}
