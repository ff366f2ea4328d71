//! What a call left behind, believed only as far as it can be checked (INV-EXECUTOR-6).

use mfaas_abi::frame::{FrameError, Headers, encode_checked_response};
use mfaas_abi::{ArenaHeader, ContentType, ResponseRecord, Span, Status};

use crate::memory::CallMemory;
use crate::state::End;

/// Why a function's answer is none.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Unfit {
    /// The status that its entry returned is not a function's to say.
    Status,
    /// Part of the response lies outside of its arena, or a number in it is none.
    Record,
    /// The response is none that HTTP or our limits allow.
    Response(FrameError),
    /// The call waits, and its operations are none, too many or too long.
    Operations,
    /// The call waits with more memory in use than may be put aside.
    State {
        /// What it uses, in bytes.
        bytes: usize,
        /// What may be, in bytes.
        most: usize,
    },
}

impl Unfit {
    /// How the call ended.
    pub(crate) fn status(self) -> Status {
        match self {
            Self::Status | Self::Record | Self::Response(_) | Self::Operations => Status::BadOutput,
            Self::State { .. } => Status::OutOfMemory,
        }
    }
}

/// Status of a call that ended so; what it answered is appended to `frame`, which is empty. `response`
/// was the function's to write.
#[inline(always)]
pub(crate) fn judge(
    call_memory: &CallMemory,
    size: u8,
    end: End,
    response: &ResponseRecord,
    frame: &mut Vec<u8>,
) -> (Status, Option<Unfit>) {
    let status = match end {
        End::Returned(number) => match Status::from_u32(number) {
            Some(status @ (Status::Ok | Status::HandlerError)) => {
                return match answer(call_memory, size, response, frame) {
                    Ok(()) => (status, None),
                    Err(unfit) => (unfit.status(), Some(unfit)),
                };
            }
            Some(Status::Aborted) => Status::Aborted,
            Some(_) | None => return (Unfit::Status.status(), Some(Unfit::Status)),
        },
        End::Panicked => Status::Panicked,
        End::OutOfMemory(_) => Status::OutOfMemory,
        End::Aborted => Status::Aborted,
        End::OverBudget => Status::OverBudget,
        End::StackOverflow => Status::StackOverflow,
        End::Denied(_) => Status::Denied,
        End::Fault(_) => Status::Fault,
    };
    (status, None)
}

/// What the function's allocator says it used, within what it could.
pub(crate) fn memory_used(call_memory: &CallMemory, size: u8) -> usize {
    of_header(call_memory, size, |header| header.high_water)
}

/// The bytes of the arena from its start on that blocks of the function lie in, or lay in beneath such. What the function says,
/// within what it could.
pub(crate) fn memory_held(call_memory: &CallMemory, size: u8) -> usize {
    of_header(call_memory, size, |header| header.top)
}

/// A number of bytes that stands in the arena's header, and not more than the arena has.
fn of_header(call_memory: &CallMemory, size: u8, number: impl FnOnce(&ArenaHeader) -> usize) -> usize {
    let (arena, bytes) = call_memory.arena(size);
    // SAFETY: INV-EXECUTOR-2. The arena begins with the header; every bit pattern is a number, and no call runs.
    let header = unsafe { &*arena.cast::<ArenaHeader>() };
    number(header).min(bytes)
}

/// Writes the response's frame, if the response is one. Nothing is allocated: no frame is larger than
/// what the executor reserved.
#[inline(always)]
fn answer(
    call_memory: &CallMemory,
    size: u8,
    response: &ResponseRecord,
    frame: &mut Vec<u8>,
) -> Result<(), Unfit> {
    let status = u16::try_from(response.http_status).map_err(|_| Unfit::Record)?;
    let content_type = ContentType::from_u32(response.content_type).ok_or(Unfit::Record)?;
    let count = u16::try_from(response.header_count).map_err(|_| Unfit::Record)?;
    let headers = bytes(call_memory, size, response.headers).ok_or(Unfit::Record)?;
    let headers = Headers::decode(count, headers).map_err(Unfit::Response)?;
    let body = bytes(call_memory, size, response.body).ok_or(Unfit::Record)?;
    let most = call_memory.body_bytes_max();
    encode_checked_response(frame, status, content_type, headers, body, most).map_err(Unfit::Response)
}

/// Bytes that lie in the arena. None lie everywhere.
pub(crate) fn bytes(call_memory: &CallMemory, size: u8, span: Span) -> Option<&[u8]> {
    if span.bytes == 0 {
        return Some(&[]);
    }
    let (arena, arena_bytes) = call_memory.arena(size);
    let start = span.start.addr().checked_sub(arena.addr())?;
    if start.checked_add(span.bytes)? > arena_bytes {
        return None;
    }
    // SAFETY: INV-EXECUTOR-2 and 6. Inside the arena, which nothing writes until it is wiped.
    Some(unsafe { std::slice::from_raw_parts(arena.wrapping_add(start), span.bytes) })
}
