//! The way in: what the generated entry symbol calls, and what a panic calls.

use std::io::Write as _;

use mfaas_abi::{ABI_VERSION, Call, Reply, Status};

use crate::arena::Arena;
use crate::bounded::BoundedText;
use crate::host;

#[global_allocator]
static ARENA: Arena = Arena::empty();

/// Runs one call: gives the arena to the allocator, the request frame to `handler`, and the
/// handler's frame to the host. Returns the number of the [`Status`].
///
/// Only the generated entry symbol may call it, with the pointer that the host gave it.
#[allow(
    clippy::not_unsafe_ptr_arg_deref,
    reason = "so that the generated crate can do without unsafe blocks; tenants cannot name this crate"
)]
pub fn enter(call: *mut Call, handler: impl FnOnce(&[u8]) -> Reply) -> u32 {
    // SAFETY: INV-SHIM-1. The host's record, which only this function touches during the call.
    let Some(call) = (unsafe { call.as_mut() }) else {
        return Status::Aborted.as_u32();
    };
    if call.abi_version != ABI_VERSION {
        return Status::Aborted.as_u32();
    }
    // SAFETY: INV-SHIM-1 and 2. The arena of this call; nothing was allocated before.
    unsafe { ARENA.adopt(call.arena, call.arena_bytes) };
    std::panic::set_hook(Box::new(report));
    // SAFETY: INV-SHIM-1. Readable and unchanged until the call ends.
    let request = unsafe { std::slice::from_raw_parts(call.request, call.request_bytes) };
    let reply = handler(request);
    if ARENA.may_have_printed() {
        // What was printed without a line end still waits in std's buffer. There is no better place
        // for a failure than nowhere: the host's `write` never fails.
        let _ = std::io::stdout().flush();
    }
    let frame = reply.frame.leak();
    call.response = frame.as_ptr();
    call.response_bytes = frame.len();
    reply.status.as_u32()
}

/// Ends the call with the panic's text and place. Text that itself panics makes std abort, which
/// ends the call too.
fn report(info: &std::panic::PanicHookInfo<'_>) {
    let mut text = BoundedText::new();
    text.push(info.payload_as_str().unwrap_or("a panic without text"));
    if let Some(place) = info.location() {
        text.push_fmt(format_args!(" ({}:{}:{})", place.file(), place.line(), place.column()));
    }
    host::panicked(text.as_bytes())
}
