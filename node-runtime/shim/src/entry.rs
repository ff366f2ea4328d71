//! The way in: what the generated entry symbol calls. And two ways out: what std calls when a function
//! panics, and when it has no room.

use std::io::Write as _;

use mfaas_abi::frame::{Headers, RequestFrame};
use mfaas_abi::{ABI_VERSION, Call, FLAG_RESUMED, RequestRecord, Span, Status};

use crate::arena::Arena;
use crate::assets;
use crate::bounded::BoundedText;
use crate::call::bytes;
use crate::host;
use crate::waiting::Answer;

#[global_allocator]
static ARENA: Arena = Arena::empty();

/// Runs one call as far as it comes: gives the arena to the allocator, the request to `handler`, and what that comes to to the
/// host. Returns the number of the [`Status`], or [`mfaas_abi::WAITS`].
///
/// Only the generated entry symbol may call it, with the pointer that the host gave it.
#[allow(
    clippy::not_unsafe_ptr_arg_deref,
    reason = "so that the generated crate can do without unsafe blocks; tenants cannot name this crate"
)]
pub fn enter<A: Answer>(call: *mut Call, handler: impl FnOnce(&RequestFrame<'_>) -> A) -> u32 {
    // SAFETY: INV-SHIM-1. The host's record, which only this function touches during the call.
    let Some(call) = (unsafe { call.as_mut() }) else {
        return Status::Aborted.as_u32();
    };
    if call.abi_version != ABI_VERSION {
        return Status::Aborted.as_u32();
    }
    let ended = if call.flags & FLAG_RESUMED == 0 {
        // SAFETY: INV-SHIM-1 and 2. The arena of this call; nothing was allocated before.
        unsafe { ARENA.adopt(call.arena, call.arena_bytes) };
        assets::note(call.assets);
        let answer = handler(&request(&call.request));
        answer.begin(call)
    } else {
        ARENA.resize(call.arena_bytes);
        A::resume(call)
    };
    if ARENA.may_have_printed() {
        // What was printed without a line end still waits in std's buffer. There is no better place
        // for a failure than nowhere: the host's `write` never fails.
        let _ = std::io::stdout().flush();
    }
    ended
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
