//! Calls within a call: while one waits where it is, another image of the slab answers what it waits for.
//!
//! The image that is called has call memory of its own, beside that of the call which made it, and its own data, and both are
//! wiped when it has answered. It may do nothing but answer: whoever waits, logs, fails or takes too long is to be called
//! by itself, and nothing of its run counts. A fault ends the call that made it as well: what faults is no safe
//! code, and may have changed anything in the window.

use std::sync::atomic::AtomicU64;

use mfaas_abi::limits::{frame_bytes_max, records_bytes_max};
use mfaas_abi::{Status, WAITS};

use crate::directory::Resident;
use crate::limits::Limits;
use crate::memory::{self, CallMemory, Sizes};
use crate::request_head::RequestHead;
use crate::run::{Ran, run_on_stack};
use crate::slab::{self, Slab};
use crate::slot_cache::SlotCache;
use crate::state::{self, End};
use crate::{ExecutorError, gate, judge, prepare};

/// What calls within calls work in.
#[derive(Debug)]
pub(crate) struct InlineRoom {
    call_memory: CallMemory,
    /// The frame of the last answer, with room for any: after lock-down nothing may be allocated.
    frame: Vec<u8>,
    /// What a call asks for: out of reach of those that it calls, who may change what lies in the window.
    pub(crate) asked: Vec<u8>,
}

impl InlineRoom {
    /// Behind `outer` in the window, if there is as much room once more.
    pub(crate) fn behind(outer: &CallMemory, arena_bytes: usize) -> Result<Option<Self>, ExecutorError> {
        let body_bytes_max = outer.body_bytes_max();
        let at = outer.addresses().end;
        if !CallMemory::fits(at, arena_bytes, body_bytes_max) {
            return Ok(None);
        }
        let call_memory = CallMemory::at(at, arena_bytes, body_bytes_max)?;
        let frame = Vec::with_capacity(frame_bytes_max(body_bytes_max));
        let asked = Vec::with_capacity(records_bytes_max(body_bytes_max));
        Ok(Some(Self { call_memory, frame, asked }))
    }

    /// One past its last address.
    pub(crate) fn end(&self) -> usize {
        self.call_memory.addresses().end
    }

    /// Leaves nothing anywhere, whoever wrote it.
    pub(crate) fn wipe_all(&mut self) {
        self.call_memory.wipe_all();
        self.forget_answer();
    }

    pub(crate) fn forget_answer(&mut self) {
        memory::clear_own(&mut self.frame);
        self.frame.clear();
    }
}

/// By which a call that waits where it is calls others.
#[derive(Debug)]
pub struct Inline<'a> {
    /// None where the window has no room for it.
    pub(crate) room: Option<&'a mut InlineRoom>,
    pub(crate) slab: &'a Slab,
    pub(crate) slot_cache: &'a mut SlotCache,
    /// Of the call that makes others.
    pub(crate) caller: Resident,
    pub(crate) watch: &'a AtomicU64,
    /// How a call ended that ends the one which made it.
    pub(crate) fault: Option<End>,
}

/// What a call within a call answered.
#[derive(Debug, Clone, Copy)]
pub struct Answer<'a> {
    /// [`Status::Ok`] or [`Status::HandlerError`].
    pub status: Status,
    /// What it says of itself, as HTTP has it.
    pub http_status: u16,
    /// The executor's own memory.
    pub body: &'a [u8],
    /// Wall time of its runs, in nanoseconds.
    pub wall_ns: u64,
    /// Most arena bytes in use at once, as the function's allocator counted them.
    pub memory_bytes: u64,
}

/// Why there is no answer. Nothing of the call counts, or stays.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoAnswer {
    /// No image is resident there, or the one that calls; or the call failed. It may do better by itself.
    Declined,
    /// It waits or logs, which it can do by itself alone.
    Apart,
}

impl Inline<'_> {
    /// Where the requests of such calls go: zeros but while one runs. Of no bytes where none can be made.
    pub fn request(&self) -> &[u8] {
        self.room.as_ref().map_or(&[], |room| room.call_memory.frame(room.call_memory.request().1))
    }

    /// Calls the image in `slot`. It takes from the budget of the call that makes it, and has no more of that than `limits` says.
    ///
    /// # Errors
    /// [`NoAnswer`], with nothing of it left.
    pub fn call(
        &mut self,
        slot: u32,
        head: &RequestHead,
        body: &[u8],
        limits: Limits,
    ) -> Result<Answer<'_>, NoAnswer> {
        let image = self.slab.image(slot as usize).filter(|image| image.entry != self.caller.entry);
        let Some(room) = self.room.as_deref_mut() else { return Err(NoAnswer::Declined) };
        let image = image.filter(|_| self.fault.is_none()).ok_or(NoAnswer::Declined)?;
        let frame_bytes = head.write(body, &room.call_memory).ok_or(NoAnswer::Declined)?;
        if self.slot_cache.is_distant(slot) {
            slab::prefetch(&image);
        }
        let (sizes, cold) = self.slot_cache.of(slot, image.generation);
        if self.slot_cache.have_departed(self.slab.departures()) || cold {
            gate::serialise();
        }
        room.forget_answer();
        let run = Run { call_memory: &room.call_memory, image: &image, head, body, limits };
        let said = state::with(|state| state.budget.enter(limits.budget, self.watch));
        // SAFETY: INV-EXECUTOR-1. No call runs, so nobody else holds the buffer.
        let mark = state::with(|state| unsafe { &mut *state.logs.get() }.mark());
        let ran = run.in_room(sizes);
        let wall_ns = state::with(|state| state.budget.leave(said, self.watch));
        // SAFETY: INV-EXECUTOR-1. As above.
        let logged = state::with(|state| unsafe { &mut *state.logs.get() }.undo(mark));
        // SAFETY: INV-EXECUTOR-1. As above.
        state::with(|state| unsafe { &mut *state.panic_text.get() }.wipe());
        let learnt = if cold { prepare::content_with(&room.call_memory, &ran) } else { ran.sizes };
        self.slot_cache.keep(slot, image.generation, learnt);
        let judged = run.judge(&ran, logged, &mut room.frame);
        let memory_bytes = judge::memory_used(&room.call_memory, ran.sizes.arena) as u64;
        if let End::Fault(_) | End::Denied(_) = ran.end {
            self.fault = Some(ran.end);
        }
        room.call_memory.wipe(ran.sizes, frame_bytes);
        slab::wipe(&image);
        let Judged { status, http_status, body_bytes } = judged?;
        let body = &room.frame[room.frame.len() - body_bytes..];
        Ok(Answer { status, http_status, body, wall_ns, memory_bytes })
    }
}

/// A call within a call, whose budget has begun.
struct Run<'a> {
    call_memory: &'a CallMemory,
    image: &'a Resident,
    head: &'a RequestHead,
    body: &'a [u8],
    limits: Limits,
}

/// What is to be had of an answer whose frame was written.
struct Judged {
    status: Status,
    http_status: u16,
    body_bytes: usize,
}

impl Run<'_> {
    /// Runs the image, and again with more memory when it outgrew what it got and may have more.
    fn in_room(&self, sizes: Sizes) -> Ran {
        let mut ran = self.once(sizes);
        while let Some(larger) = prepare::outgrown(self.call_memory, &ran, self.limits) {
            if state::with(|state| state.budget.is_used_up(true)) {
                return Ran { end: End::OverBudget, ..ran };
            }
            self.call_memory.wipe(ran.sizes, 0);
            // The record was wiped. The request is as it was, unless code that is not safe has changed it: that, too, is undone.
            if self.head.write(self.body, self.call_memory).is_none() {
                return ran;
            }
            ran = self.once(larger);
        }
        ran
    }

    fn once(&self, sizes: Sizes) -> Ran {
        slab::restore(self.image);
        prepare::write_record(self.call_memory, self.image, self.limits, sizes, false);
        run_on_stack(self.call_memory, sizes, self.image.entry, self.call_memory.call())
    }

    /// What it answered, whose frame is appended to `frame`; nothing but answers counts.
    fn judge(&self, ran: &Ran, logged: bool, frame: &mut Vec<u8>) -> Result<Judged, NoAnswer> {
        if logged || ran.end == End::Returned(WAITS) {
            return Err(NoAnswer::Apart);
        }
        // SAFETY: INV-EXECUTOR-2 and 6. Any bytes: numbers and pointers that are checked before use.
        let response = unsafe { &(*self.call_memory.call()).response };
        match judge::judge(self.call_memory, ran.sizes.arena, ran.end, response, frame) {
            (status @ (Status::Ok | Status::HandlerError), None) => {
                // The frame has both, the body last.
                Ok(Judged {
                    status,
                    http_status: response.http_status as u16,
                    body_bytes: response.body.bytes,
                })
            }
            _ => Err(NoAnswer::Declined),
        }
    }
}
