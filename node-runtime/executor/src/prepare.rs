//! What a run begins with: the call's record, and memory of the right size.

use mfaas_abi::frame::{FrameError, RequestParts};
use mfaas_abi::limits::BODY_BYTES_MAX;
use mfaas_abi::{ABI_VERSION, AssetTable, FLAG_BULK, FLAG_RESUMED, ResponseRecord, Span};

use crate::directory::Resident;
use crate::judge;
use crate::limits::Limits;
use crate::memory::{CallMemory, LARGEST_ARENA, LARGEST_STACK, Sizes};
use crate::run::Ran;
use crate::state::End;

/// Writes the parts of the request into the call's record, once for all images: a function finds them
/// made. Straight to their place: a copy of a record that was just written waits for its parts.
pub(crate) fn read_request(call_memory: &CallMemory, bytes: usize) -> Result<(), FrameError> {
    let record = call_memory.call();
    let body_bytes_max = call_memory.body_bytes_max();
    let parts = RequestParts::decode(call_memory.frame(bytes), body_bytes_max)?;
    // SAFETY: INV-EXECUTOR-2. The record's place in the call memory, aligned and apart from the request, and no call
    // runs in it.
    let request = unsafe { &mut (*record).request };
    request.method = Span::of(parts.method);
    request.path = Span::of(parts.path);
    request.headers = Span::of(parts.headers.as_bytes());
    request.header_count = parts.headers.len();
    request.body = Span::of(parts.body);
    Ok(())
}

/// Writes the rest of the call's record.
#[inline(always)]
pub(crate) fn write_record(
    call_memory: &CallMemory,
    image: &Resident,
    limits: Limits,
    sizes: Sizes,
    resumes: bool,
) {
    let (arena, bytes) = call_memory.arena(sizes.arena);
    // SAFETY: INV-EXECUTOR-2. As in `read_request`.
    let call = unsafe { &mut *call_memory.call() };
    call.abi_version = ABI_VERSION;
    call.flags = if resumes { FLAG_RESUMED } else { 0 };
    if call_memory.body_bytes_max() > BODY_BYTES_MAX {
        call.flags |= FLAG_BULK;
    }
    call.arena = arena;
    call.arena_bytes = bytes_of(limits).min(bytes);
    call.response = ResponseRecord::NONE;
    call.assets = std::ptr::with_exposed_provenance::<AssetTable>(image.assets);
}

fn bytes_of(limits: Limits) -> usize {
    usize::try_from(limits.memory.as_bytes()).unwrap_or(usize::MAX)
}

/// The next larger sizes, if the call ended for want of what it may have.
#[inline(always)]
pub(crate) fn outgrown(call_memory: &CallMemory, ran: &Ran, limits: Limits) -> Option<Sizes> {
    let Sizes { mut arena, mut stack } = ran.sizes;
    match ran.end {
        End::OutOfMemory(wanted) if arena < LARGEST_ARENA => {
            let memory = bytes_of(limits);
            let (_, had) = call_memory.arena(arena);
            // Less than all that it may have, and asked for no more than that.
            if had >= memory || wanted >= memory {
                return None;
            }
            // What the function says it has, within what it could, and what it asked for. No step is too
            // many: each is work done again.
            let needed = judge::memory_used(call_memory, arena).saturating_add(wanted);
            let fits = |size: &u8| call_memory.arena(*size).1 >= needed;
            arena = (arena + 1..LARGEST_ARENA).find(fits).unwrap_or(LARGEST_ARENA);
        }
        End::StackOverflow if stack < LARGEST_STACK => stack += 1,
        _ => return None,
    }
    Some(Sizes { arena, stack })
}

/// What an image begins with next time, after a first run here that had `ran.sizes`: the smallest sizes that it would have been
/// content with. Hints: an image that needs more gets more.
pub(crate) fn content_with(call_memory: &CallMemory, ran: &Ran) -> Sizes {
    let End::Returned(_) = ran.end else { return ran.sizes };
    let fits = |used: usize, room: usize| used + used / 4 <= room;
    let arena_used = judge::memory_used(call_memory, ran.sizes.arena);
    let stack_used = call_memory.stack_used(ran.sizes.stack);
    let arena = (0..ran.sizes.arena).find(|size| fits(arena_used, call_memory.arena(*size).1));
    let stack = (0..ran.sizes.stack).find(|size| fits(stack_used, call_memory.stack(*size).len()));
    Sizes { arena: arena.unwrap_or(ran.sizes.arena), stack: stack.unwrap_or(ran.sizes.stack) }
}
