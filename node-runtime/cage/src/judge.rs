//! What a call left behind, believed only as far as it can be checked (INV-CAGE-6).

use mfaas_abi::frame::ResponseFrame;
use mfaas_abi::limits::FRAME_BYTES_MAX;
use mfaas_abi::{ArenaHeader, Call, Status};

use crate::memory::Grounds;
use crate::state::End;

/// Status and response of a call that ended so. `call` was the function's to write.
pub(crate) fn judge<'a>(grounds: &'a Grounds, size: u8, end: End, call: &Call) -> (Status, &'a [u8]) {
    let status = status_of(end);
    match status {
        Status::Ok | Status::HandlerError => match response(grounds, size, call) {
            Some(frame) => (status, frame),
            None => (Status::BadOutput, &[]),
        },
        Status::Panicked
        | Status::OverBudget
        | Status::StackOverflow
        | Status::OutOfMemory
        | Status::Denied
        | Status::Fault
        | Status::Aborted
        | Status::BadOutput => (status, &[]),
    }
}

/// What the function's allocator says it used, within what it could.
pub(crate) fn memory_used(grounds: &Grounds, size: u8) -> usize {
    let (arena, bytes) = grounds.arena(size);
    // SAFETY: INV-CAGE-2. The arena begins with the header; every bit pattern is a number.
    let high_water = unsafe { (*arena.cast::<ArenaHeader>()).high_water };
    high_water.min(bytes)
}

/// A function may return the statuses that its shim can know; the others are the host's to say.
fn status_of(end: End) -> Status {
    match end {
        End::Returned(number) => match Status::from_u32(number) {
            Some(status @ (Status::Ok | Status::HandlerError | Status::Aborted)) => status,
            Some(_) | None => Status::BadOutput,
        },
        End::Panicked => Status::Panicked,
        End::OutOfMemory(_) => Status::OutOfMemory,
        End::Aborted => Status::Aborted,
        End::OverBudget => Status::OverBudget,
        End::StackOverflow => Status::StackOverflow,
        End::Denied(_) => Status::Denied,
        End::Fault(_) => Status::Fault,
    }
}

/// The response frame, if it lies in the arena and is one.
fn response<'a>(grounds: &'a Grounds, size: u8, call: &Call) -> Option<&'a [u8]> {
    let (arena, arena_bytes) = grounds.arena(size);
    let start = call.response.addr().checked_sub(arena.addr())?;
    let end = start.checked_add(call.response_bytes)?;
    if end > arena_bytes || call.response_bytes > FRAME_BYTES_MAX {
        return None;
    }
    let first = arena.wrapping_add(start);
    // SAFETY: INV-CAGE-2 and 6. Inside the arena, which nothing writes until it is wiped.
    let frame = unsafe { std::slice::from_raw_parts(first, call.response_bytes) };
    ResponseFrame::decode(frame).is_ok().then_some(frame)
}
