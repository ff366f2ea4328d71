//! One call from start to end: prepare, run, judge what came back, show it, wipe.

use std::marker::PhantomData;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering, compiler_fence};

use mfaas_abi::frame::FrameError;
use mfaas_abi::limits::{BODY_BYTES_MAX, FRAME_BYTES_MAX, frame_bytes_max, records_bytes_max};
use mfaas_abi::{RequestRecord, Span, Status, WAITS};
use mfaas_ident::{Budget, MemoryLimit};
use mfaas_inspect::verify::BUNDLE_BYTES;

use crate::budget::Used;
use crate::directory::{Resident, Verification};
use crate::inline::{Inline, InlineRoom};
use crate::limits::Limits;
use crate::memory::{CallMemory, LARGEST_ARENA, LARGEST_STACK, Region, Sizes};
use crate::message::Message;
use crate::run::{Ran, run_on_stack};
use crate::signals::HandlerStack;
use crate::slab::{self, Slab};
use crate::slot_cache::SlotCache;
use crate::state::{self, End};
use crate::suspended::{self, Saved};
use crate::{
    Clock, ExecutorError, Keys, bind, budget, gate, judge, keys, maps, memory, prepare, signals, window,
    zeros,
};

/// Where functions run. One in a process; it cannot leave its thread.
#[derive(Debug)]
pub struct Executor {
    call_memory: CallMemory,
    /// What calls within a call work in, if the window has room for it.
    inline_room: Option<InlineRoom>,
    slab: Slab,
    /// The rest of the window and what lies above it, without access.
    _gaps: Vec<Region>,
    slot_cache: SlotCache,
    /// The image that ran last and whose data was not wiped yet.
    unwiped: Option<Resident>,
    handler_stack: HandlerStack,
    timer: libc::timer_t,
    message: Message,
    /// The frame of the last answer, with room for any: after lock-down nothing may be allocated.
    frame: Vec<u8>,
    /// The last call, for [`Ended`].
    last: Last,
    /// Not `Send`: handlers and the timer are the thread's.
    _thread: PhantomData<*mut ()>,
}

/// What a call left, valid until it is wiped. All text and the frame's contents are the tenant's.
#[derive(Debug, Clone, Copy)]
pub struct Outcome<'a> {
    /// How the call ended.
    pub status: Status,
    /// Whether this was the image's first call in this executor.
    pub cold: bool,
    /// The call has not ended: it waits, and its status is `Ok`.
    pub waits: bool,
    /// The response frame: decodable if the status is `Ok` or `HandlerError`, else empty. Of a call that waits, its operations and
    /// what was put aside of it (`mfaas_abi::SuspendedFrame`). The executor's own memory.
    pub response: &'a [u8],
    /// Log records (`mfaas_abi::LogReader`).
    pub logs: &'a [u8],
    /// The panic's text, or a sentence about another end; empty for `Ok` and `HandlerError`.
    pub message: &'a [u8],
    /// Wall time from the start of the call's first run to the end of its last one, in nanoseconds.
    pub wall_ns: u64,
    /// CPU time between the same, in nanoseconds; for calls under 20 µs the wall's time.
    pub cpu_ns: u64,
    /// Most arena bytes in use at once, as the function's allocator counted them.
    pub memory_bytes: u64,
}

/// Answers what a call waits for while it stays: it is given the operations that the call began (`mfaas_abi::Records`, of any
/// origin) and writes their outcomes, likewise records, to the beginning of a place; meanwhile it may call other images. How many
/// bytes; nothing if the call is to be put aside.
pub type AskHost<'a> = &'a dyn Fn(&[u8], &mut [u8], &mut Inline<'_>) -> Option<usize>;

/// Nobody answers anything: a call that waits is put aside.
pub const ASK_NOBODY: AskHost<'static> = &|_, _, _| None;

/// What is called.
#[derive(Debug, Clone, Copy)]
pub struct Start {
    /// Where its image is.
    pub slot: u32,
    /// What of [`Executor::request`] is its frame, in bytes.
    pub frame_bytes: usize,
    /// Whether the frame is what was put aside of a call (`mfaas_abi::SuspendedFrame`), and not a request.
    pub resumes: bool,
    /// What the call may use. Of one that was put aside what is left is the caller's to say.
    pub limits: Limits,
}

/// Why a call did not begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// No image is resident in the slot.
    #[error("no function is resident in the slot")]
    NotResident,
    /// The request is no frame.
    #[error("the request is not a frame: {0}")]
    NotARequest(FrameError),
    /// What is to be resumed is no call of the image that is resident in the slot.
    #[error("what is to be resumed is not a call of the function in the slot")]
    NotItsState,
}

/// What all runs of a call have in common.
struct Runs<'a> {
    image: &'a Resident,
    frame_bytes: usize,
    resumes: bool,
    limits: Limits,
    watch: &'a AtomicU64,
    ask: AskHost<'a>,
}

impl Executor {
    /// An executor over a slab, whose functions use arenas of at most `memory`. Must be made before
    /// lock-down.
    pub fn new(slab: Slab, memory: MemoryLimit, clock: Clock) -> Result<Self, ExecutorError> {
        Self::with_bodies(slab, memory, BODY_BYTES_MAX, clock)
    }

    /// The same for requests and responses with bodies of at most `body_bytes_max`.
    pub fn with_bodies(
        slab: Slab,
        memory: MemoryLimit,
        body_bytes_max: usize,
        clock: Clock,
    ) -> Result<Self, ExecutorError> {
        if state::with(|state| state.taken.swap(true, Ordering::AcqRel)) {
            return Err(ExecutorError::SecondExecutor);
        }
        Self::build(slab, memory, body_bytes_max, clock)
            .inspect_err(|_| state::with(|state| state.taken.store(false, Ordering::Release)))
    }

    fn build(
        slab: Slab,
        memory: MemoryLimit,
        body_bytes_max: usize,
        clock: Clock,
    ) -> Result<Self, ExecutorError> {
        let bytes = usize::try_from(memory.as_bytes()).map_err(|_| ExecutorError::Unmappable("too large"))?;
        let call_memory = CallMemory::new(bytes, body_bytes_max)?;
        let inline_room = InlineRoom::behind(&call_memory, bytes)?;
        let [code, assets, data, constants] = slab.banks();
        let calls = addresses(&call_memory, inline_room.as_ref());
        let gaps = memory::reserve_gaps(&[code, assets, data, constants, calls])?;
        let handler_stack = HandlerStack::install()?;
        signals::install_handlers()?;
        state::with(|state| {
            state.budget.clock.set(clock);
            state.budget.sample();
            gate::note_bases(state);
            bind::open_gates(state, return_mask(slab.verification()));
            state.handler_stack.start.set(handler_stack.addresses().start);
            state.handler_stack.end.set(handler_stack.addresses().end);
        });
        let timer = budget::start_backup()?;
        let slot_cache = SlotCache::new(slab.slots());
        Ok(Self {
            call_memory,
            inline_room,
            slab,
            _gaps: gaps,
            slot_cache,
            unwiped: None,
            handler_stack,
            timer,
            message: Message::new(),
            frame: Vec::with_capacity(frame_bytes_max(body_bytes_max)),
            last: Last::NONE,
            _thread: PhantomData,
        })
    }

    /// Puts calls under protection keys, if processor and kernel can: then a function's reads and
    /// writes end at the window of functions. The last step before lock-down: it starts a process,
    /// looks through the worker's code, and all that is mapped by then counts. Every other thread of
    /// the process must have been started by this one afterwards.
    ///
    /// # Errors
    /// [`ExecutorError::System`] if it failed half-way: then this executor must not be used.
    pub fn protect(&mut self) -> Result<Keys, ExecutorError> {
        keys::protect(&self.slab, &self.call_memory)
    }

    /// Holds what the kernel says is mapped against what may be below 6 GiB. The last look before lock-down,
    /// after which nothing can be mapped.
    ///
    /// # Errors
    /// [`ExecutorError::NotTheWindow`]: then no call may begin.
    pub fn confirm_window(&self) -> Result<(), ExecutorError> {
        let unread = || ExecutorError::NotTheWindow("the list of mappings cannot be read".to_owned());
        let mappings = maps::all().ok_or_else(unread)?;
        window::confirm(
            &mappings,
            &self.slab.banks(),
            &addresses(&self.call_memory, self.inline_room.as_ref()),
        )
        .map_err(ExecutorError::NotTheWindow)
    }

    /// Where the next call's request frame goes. Zeros between calls.
    pub fn request(&mut self) -> &mut [u8] {
        let (start, bytes) = self.call_memory.request();
        // SAFETY: INV-EXECUTOR-2. Mapped as long as the call memory, and no call runs.
        unsafe { std::slice::from_raw_parts_mut(start, bytes) }
    }

    /// Calls the image in `slot` with the first `request_bytes` of [`Self::request`]. What the call
    /// left is shown by [`Ended`] and wiped with it; its image's data at the latest before another
    /// image is called. While the call runs, `watch` holds the time at which its budget is worth a
    /// look, in ticks of the executor's clock, and 0 otherwise: whoever finds that it has passed sends
    /// this thread [`crate::TICK_SIGNAL`].
    ///
    /// # Errors
    /// [`CallError`], with nothing run and the request wiped.
    pub fn call(
        &mut self,
        slot: u32,
        request_bytes: usize,
        limits: Limits,
        watch: &AtomicU64,
    ) -> Result<Ended<'_>, CallError> {
        self.enter(Start { slot, frame_bytes: request_bytes, resumes: false, limits }, watch, ASK_NOBODY)
    }

    /// Goes on with a call that was put aside: the first `frame_bytes` of [`Self::request`] are what it hears and its state
    /// (`mfaas_abi::SuspendedFrame`). All else is as in [`Self::call`], the budget included: what is left of the call's is the caller's
    /// to say.
    ///
    /// # Errors
    /// [`CallError`], with nothing run and the frame wiped.
    pub fn resume(
        &mut self,
        slot: u32,
        frame_bytes: usize,
        limits: Limits,
        watch: &AtomicU64,
    ) -> Result<Ended<'_>, CallError> {
        self.enter(Start { slot, frame_bytes, resumes: true, limits }, watch, ASK_NOBODY)
    }

    /// As [`Self::call`] and [`Self::resume`]. Of a call that waits `ask` is asked first, within the call's budget: as long as it
    /// answers the call goes on where it is.
    ///
    /// # Errors
    /// [`CallError`], with nothing run and the frame wiped.
    pub fn enter(
        &mut self,
        start: Start,
        watch: &AtomicU64,
        ask: AskHost<'_>,
    ) -> Result<Ended<'_>, CallError> {
        let Start { slot, frame_bytes, resumes, limits } = start;
        let frame_bytes = frame_bytes.min(self.call_memory.request().1);
        let image = self.slab.image(slot as usize).filter(|_| self.slab.open_ready().is_ok());
        let Some(image) = image else {
            return Err(self.refused(frame_bytes, CallError::NotResident));
        };
        if self.slot_cache.is_distant(slot) {
            slab::prefetch(&image);
        }
        self.settle_unless(&image);
        let had = match self.begin(&image, frame_bytes, resumes) {
            Ok(had) => had,
            Err(error) => return Err(self.refused(frame_bytes, error)),
        };
        let (known, cold) = self.slot_cache.of(slot, image.generation);
        let sizes = Sizes { arena: known.arena.max(had), ..known };
        if self.slot_cache.have_departed(self.slab.departures()) || cold {
            gate::serialise();
        }
        let runs = Runs { image: &image, frame_bytes, resumes, limits, watch, ask };
        let (ran, used, heard_bytes) = self.run_in_budget(&runs, sizes);
        self.unwiped = Some(image);
        let sizes = if ran.end == End::OverBudget {
            roomy(sizes, ran.sizes)
        } else if cold {
            prepare::content_with(&self.call_memory, &ran)
        } else {
            ran.sizes
        };
        self.slot_cache.keep(slot, image.generation, sizes);
        self.last = Last { ran, used, cold, limits, request_bytes: frame_bytes + heard_bytes };
        Ok(Ended { executor: self })
    }

    /// Nothing runs, and nothing of the request stays.
    fn refused(&mut self, request_bytes: usize, error: CallError) -> CallError {
        self.call_memory.wipe_request(request_bytes);
        error
    }

    /// Wipes what the last call left in its image's data. Cheaper after the answer is given than
    /// before the next call is taken; without it the next call does it.
    pub fn settle(&mut self) {
        if let Some(image) = self.unwiped.take() {
            slab::wipe(&image);
        }
    }

    /// Fetches what the next call will need, if it is known already, while this one runs.
    pub fn expect(&mut self, slot: u32) {
        if self.slot_cache.is_distant(slot)
            && let Some(image) = self.slab.image(slot as usize)
        {
            slab::prefetch(&image);
        }
    }

    /// The data of an image that is called again is restored before the call anyway.
    fn settle_unless(&mut self, image: &Resident) {
        if self.unwiped.is_some_and(|last| last != *image) {
            self.settle();
        }
    }

    /// Runs the image, however often, in one budget, and says what all of it used, and how many bytes it heard at once behind its
    /// request.
    fn run_in_budget(&mut self, runs: &Runs<'_>, sizes: Sizes) -> (Ran, Used, usize) {
        prepare::write_record(&self.call_memory, runs.image, runs.limits, sizes, runs.resumes);
        let budget_ns = runs.limits.budget.as_micros().saturating_mul(1_000);
        state::with(|state| state.budget.begin(budget_ns, runs.watch));
        let (ran, heard_bytes) = self.run_in_room(runs, sizes);
        let used = state::with(|state| state.budget.end(runs.watch));
        (ran, used, heard_bytes)
    }

    /// Runs the image, and again with more memory when it outgrew what it got, may have more and has any
    /// of its budget left. Nobody has seen anything of a call that is run again; the function itself can see
    /// by addresses and clocks which run it is in, and gains nothing: all of them are one call's. What the
    /// executor does between two of them is the call's as well. What it heard before it hears anew.
    #[inline(always)]
    fn run_in_room(&mut self, runs: &Runs<'_>, sizes: Sizes) -> (Ran, usize) {
        let Runs { image, frame_bytes, resumes, limits, .. } = runs;
        let mut heard_bytes = 0;
        let mut ran = self.run_and_ask(runs, sizes, &mut heard_bytes);
        while let Some(larger) = prepare::outgrown(&self.call_memory, &ran, *limits) {
            if state::with(|state| state.budget.is_used_up(true)) {
                return (Ran { end: End::OverBudget, ..ran }, heard_bytes);
            }
            self.wipe(&ran, 0);
            // The record was wiped. What was a frame a moment ago is one, unless code that is not safe has
            // changed it.
            if self.begin(image, *frame_bytes, *resumes).is_err() {
                break;
            }
            prepare::write_record(&self.call_memory, image, *limits, larger, *resumes);
            ran = self.run_and_ask(runs, larger, &mut heard_bytes);
        }
        (ran, heard_bytes)
    }

    /// Runs the image, and goes on with it where it is as long as there is an answer to what it waits for. Notes how many bytes it
    /// heard at most, which lie behind its request: that has to stay, for the call may have to run again.
    #[inline(always)]
    fn run_and_ask(&mut self, runs: &Runs<'_>, sizes: Sizes, heard_bytes: &mut usize) -> Ran {
        let Runs { image, frame_bytes, limits, ask, watch, .. } = runs;
        let mut ran = self.run(image, sizes);
        while ran.end == End::Returned(WAITS) {
            // SAFETY: INV-EXECUTOR-2 and 6. Any numbers, which are checked before use.
            let asked = unsafe { (*self.call_memory.call()).response.body };
            let asked = judge::bytes(&self.call_memory, sizes.arena, asked).filter(|asked| !asked.is_empty());
            let Some(asked) = asked else { break };
            if asked.len() > records_bytes_max(self.call_memory.body_bytes_max()) {
                break;
            }
            let mut kept = self.inline_room.as_mut().map(|room| std::mem::take(&mut room.asked));
            let asked = match &mut kept {
                Some(kept) => {
                    kept.extend_from_slice(asked);
                    kept
                }
                // Nobody else is called.
                None => asked,
            };
            let (start, bytes) = self.call_memory.request();
            // SAFETY: INV-EXECUTOR-2. The request's place, apart from the arena, and no call runs.
            let place = unsafe { std::slice::from_raw_parts_mut(start, bytes) };
            let place = &mut place[*frame_bytes..];
            let mut inline = Inline {
                room: self.inline_room.as_mut(),
                slab: &self.slab,
                slot_cache: &mut self.slot_cache,
                caller: **image,
                watch,
                fault: None,
            };
            let (told, fault) = (ask(asked, place, &mut inline), inline.fault);
            if let (Some(room), Some(mut kept)) = (&mut self.inline_room, kept) {
                memory::clear_own(&mut kept);
                kept.clear();
                room.asked = kept;
            }
            if let Some(end) = fault {
                return Ran { end, ..ran };
            }
            let Some(heard) = told.and_then(|bytes| place.get(..bytes)) else { break };
            let heard = Span::of(heard);
            *heard_bytes = heard.bytes.max(*heard_bytes);
            if state::with(|state| state.budget.is_used_up(true)) {
                return Ran { end: End::OverBudget, ..ran };
            }
            // SAFETY: INV-EXECUTOR-2. As in `prepare::read_request`.
            unsafe { (*self.call_memory.call()).request.body = heard };
            prepare::write_record(&self.call_memory, image, *limits, sizes, true);
            ran = self.run(image, sizes);
        }
        ran
    }

    /// Reads the frame in the request's place into the call's record, and makes the image's data, and of a call that was put aside
    /// its arena, what the run begins with. How large an arena the call has had, as an index.
    fn begin(&self, image: &Resident, bytes: usize, resumes: bool) -> Result<u8, CallError> {
        if resumes {
            return self.begin_again(image, bytes);
        }
        prepare::read_request(&self.call_memory, bytes).map_err(CallError::NotARequest)?;
        slab::restore(image);
        Ok(Sizes::SMALLEST.arena)
    }

    /// The same of a call that was put aside.
    fn begin_again(&self, image: &Resident, bytes: usize) -> Result<u8, CallError> {
        let record = self.call_memory.call();
        let frame = self.call_memory.frame(bytes);
        let saved = Saved::read(frame, image, &self.call_memory).ok_or(CallError::NotItsState)?;
        let none = Span::of(&frame[..0]);
        // SAFETY: INV-EXECUTOR-2. As in `prepare::read_request`.
        unsafe {
            (*record).request = RequestRecord {
                method: none,
                path: none,
                headers: none,
                header_count: 0,
                body: saved.outcomes,
            };
        }
        saved.restore(image, &self.call_memory);
        Ok(saved.size)
    }

    /// Runs the entry and comes back when the run has ended, however it ended.
    #[inline(always)]
    fn run(&self, image: &Resident, sizes: Sizes) -> Ran {
        run_on_stack(&self.call_memory, sizes, image.entry, self.call_memory.call())
    }

    /// Leaves no byte of the last call in the memory that the next one sees.
    fn wipe(&mut self, ran: &Ran, request_bytes: usize) {
        match ran.end {
            // What does this is no safe code, and may have written anywhere in memory of calls.
            End::Fault(_) | End::Denied(_) => {
                self.call_memory.wipe_all();
                self.inline_room.iter_mut().for_each(InlineRoom::wipe_all);
            }
            _ => self.call_memory.wipe(ran.sizes, request_bytes),
        }
        self.inline_room.iter_mut().for_each(InlineRoom::forget_answer);
        self.message.wipe();
        let kept = self.frame.len().min(FRAME_BYTES_MAX);
        zeros::zero(&mut self.frame[..kept]);
        memory::clear_own(&mut self.frame[kept..]);
        self.frame.clear();
        state::with(|state| {
            // Signal frames hold the registers of the code that they interrupted.
            if state.handler_stack.interrupted.load(Ordering::Relaxed) {
                // In this order: a handler that comes in between is wiped now or the next time.
                state.handler_stack.interrupted.store(false, Ordering::Relaxed);
                compiler_fence(Ordering::SeqCst);
                self.handler_stack.wipe();
            }
            // SAFETY: INV-EXECUTOR-1. No call runs, so nobody else holds the buffer.
            let logs = unsafe { &mut *state.logs.get() };
            logs.wipe();
            // SAFETY: INV-EXECUTOR-1. As above.
            let text = unsafe { &mut *state.panic_text.get() };
            text.wipe();
        });
    }
}

/// Where calls work, those within calls included.
fn addresses(call_memory: &CallMemory, inline_room: Option<&InlineRoom>) -> Range<usize> {
    let Range { start, end } = call_memory.addresses();
    start..inline_room.map_or(end, InlineRoom::end)
}

/// What gates mask return addresses with: to the start of a bundle where all code consists of bundles.
fn return_mask(verification: Verification) -> u32 {
    match verification {
        Verification::Required => (BUNDLE_BYTES as u32).wrapping_neg(),
        Verification::Waived => u32::MAX,
    }
}

/// What a call begins with next time whose runs together took too long: all that there is of what it
/// outgrew, so that no work is done again.
fn roomy(first: Sizes, last: Sizes) -> Sizes {
    let arena = if last.arena > first.arena { LARGEST_ARENA } else { last.arena };
    let stack = if last.stack > first.stack { LARGEST_STACK } else { last.stack };
    Sizes { arena, stack }
}

/// What is known of a call that ended.
#[derive(Debug)]
struct Last {
    ran: Ran,
    used: Used,
    cold: bool,
    limits: Limits,
    request_bytes: usize,
}

impl Last {
    /// Before the first call: nobody sees it.
    const NONE: Self = Self {
        ran: Ran { end: End::Aborted, sizes: Sizes::FIRST },
        used: Used { wall_ns: 0, cpu_ns: 0 },
        cold: true,
        limits: Limits { budget: Budget::DEFAULT, memory: MemoryLimit::DEFAULT },
        request_bytes: 0,
    };
}

/// A call that ended, and all that it left; dropping it wipes that.
#[derive(Debug)]
pub struct Ended<'executor> {
    /// With the call as its last.
    executor: &'executor mut Executor,
}

impl Ended<'_> {
    /// What the call left.
    pub fn outcome(&mut self) -> Outcome<'_> {
        let Executor { call_memory, message, frame, last, unwiped, .. } = &mut *self.executor;
        let Last { ran, used, cold, limits, .. } = &*last;
        // SAFETY: INV-EXECUTOR-2 and 6. The function may have written any bytes there: numbers and
        // pointers that are checked before use.
        let response = unsafe { &(*call_memory.call()).response };
        frame.clear();
        // Its data is wiped later than the call ends.
        let waiting = unwiped.as_ref().filter(|_| ran.end == End::Returned(WAITS));
        let (status, unfit) = match waiting {
            Some(image) => match suspended::save(call_memory, ran.sizes.arena, image, response, frame) {
                Ok(()) => (Status::Ok, None),
                Err(unfit) => (unfit.status(), Some(unfit)),
            },
            None => judge::judge(call_memory, ran.sizes.arena, ran.end, response, frame),
        };
        message.wipe();
        message.describe(ran.end, unfit, *limits);
        // SAFETY: INV-EXECUTOR-1. No call runs, and the executor is borrowed as long as the slice, so nobody
        // else holds the buffer.
        let logs = state::with(|state| unsafe { &mut *state.logs.get() }).finish();
        Outcome {
            status,
            cold: *cold,
            waits: waiting.is_some() && unfit.is_none(),
            response: frame,
            logs,
            message: message.as_bytes(),
            wall_ns: used.wall_ns,
            cpu_ns: used.cpu_ns,
            memory_bytes: judge::memory_used(call_memory, ran.sizes.arena) as u64,
        }
    }
}

impl Drop for Ended<'_> {
    fn drop(&mut self) {
        let Last { ran, request_bytes, .. } = self.executor.last;
        self.executor.wipe(&ran, request_bytes);
    }
}

impl Drop for Executor {
    fn drop(&mut self) {
        budget::stop_backup(self.timer);
        state::with(|state| {
            state.keys.on.set(false);
            state.keys.landing.set(0);
            state.bases.movable.set(false);
            state.taken.store(false, Ordering::Release);
        });
    }
}
