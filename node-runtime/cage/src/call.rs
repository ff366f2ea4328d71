//! One call from start to end: prepare, run, judge what came back, show it, wipe.

use std::marker::PhantomData;
use std::sync::atomic::Ordering;

use mfaas_abi::{ABI_VERSION, Call, Status};
use mfaas_ident::{Budget, MemoryLimit};

use crate::memory::Grounds;
use crate::message::Message;
use crate::signals::HandlerStack;
use crate::state::{self, End};
use crate::{CageError, Image, budget, gate, judge, signals};

/// Where functions run on this thread. One per thread; it cannot leave its thread.
#[derive(Debug)]
pub struct Cage {
    grounds: Grounds,
    handler_stack: HandlerStack,
    timer: libc::timer_t,
    message: Message,
    /// Not `Send`: the state is the thread's.
    _thread: PhantomData<*mut ()>,
}

/// What one call may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// CPU time.
    pub budget: Budget,
    /// Arena. At most what the cage was made for; more counts as that.
    pub memory: MemoryLimit,
}

/// What a call left, valid until it is wiped. All text and the frame's contents are the tenant's.
#[derive(Debug, Clone, Copy)]
pub struct Outcome<'a> {
    /// How the call ended.
    pub status: Status,
    /// The response frame: decodable if the status is `Ok` or `HandlerError`, else empty.
    pub response: &'a [u8],
    /// Log records (`mfaas_abi::LogReader`).
    pub logs: &'a [u8],
    /// The panic's text, or a sentence about another end; empty for `Ok` and `HandlerError`.
    pub message: &'a [u8],
    /// Wall time on the function's stack, in nanoseconds.
    pub wall_ns: u64,
    /// CPU time on the function's stack, in nanoseconds.
    pub cpu_ns: u64,
    /// Most arena bytes in use at once, as the function's allocator counted them.
    pub memory_bytes: u64,
}

impl Cage {
    /// A cage whose functions use arenas of at most `memory`. Must be made before lock-down.
    pub fn new(memory: MemoryLimit) -> Result<Self, CageError> {
        if state::with(|state| state.taken.replace(true)) {
            return Err(CageError::SecondCage);
        }
        Self::build(memory).inspect_err(|_| state::with(|state| state.taken.set(false)))
    }

    fn build(memory: MemoryLimit) -> Result<Self, CageError> {
        let bytes = usize::try_from(memory.as_bytes()).map_err(|_| CageError::Unmappable("too large"))?;
        let grounds = Grounds::new(bytes)?;
        let handler_stack = HandlerStack::install()?;
        signals::install_handlers()?;
        let timer = budget::create_timer()?;
        state::with(|state| {
            state.timer.set(timer);
            state.armed.store(false, Ordering::Relaxed);
            state.guard_start.set(grounds.stack_guard().start);
            state.stack_start.set(grounds.stack().start);
            state.stack_end.set(grounds.stack().end);
        });
        Ok(Self { grounds, handler_stack, timer, message: Message::new(), _thread: PhantomData })
    }

    /// Calls `image` with a request frame, shows the outcome to `show`, and wipes all that the call
    /// wrote before it returns.
    pub fn call<R>(
        &mut self,
        image: &mut Image,
        request: &[u8],
        limits: Limits,
        show: impl FnOnce(Outcome<'_>) -> R,
    ) -> R {
        image.restore();
        let mut call = self.prepare(request, limits);
        let (wall_start, cpu_start) = (budget::wall_ns(), budget::cpu_ns());
        run(image, &raw mut call, self.grounds.stack().end, cpu_start, limits.budget);
        let (wall_end, cpu_end) = (budget::wall_ns(), budget::cpu_ns());
        let end = state::with(|state| state.end.get());
        let Self { grounds, message, .. } = self;
        let (status, response) = judge::judge(grounds, end, &call);
        message.describe(end, status, limits);
        let result = state::with(|state| {
            // SAFETY: INV-CAGE-1. No call runs, so nobody else holds the buffer.
            let logs = unsafe { &mut *state.logs.get() };
            show(Outcome {
                status,
                response,
                logs: logs.finish(),
                message: message.as_bytes(),
                wall_ns: wall_end.saturating_sub(wall_start),
                cpu_ns: cpu_end.saturating_sub(cpu_start),
                memory_bytes: judge::memory_used(grounds, &call) as u64,
            })
        });
        self.wipe();
        image.restore();
        result
    }

    fn prepare(&self, request: &[u8], limits: Limits) -> Call {
        let memory = usize::try_from(limits.memory.as_bytes()).unwrap_or(usize::MAX);
        Call {
            abi_version: ABI_VERSION,
            flags: 0,
            request: request.as_ptr(),
            request_bytes: request.len(),
            arena: self.grounds.arena(),
            arena_bytes: memory.min(self.grounds.arena_bytes()),
            response: std::ptr::null(),
            response_bytes: 0,
            reserved: [0; 4],
        }
    }

    /// Leaves no byte of the last call in the memory that the next one sees.
    fn wipe(&mut self) {
        self.grounds.wipe();
        self.message.wipe();
        gate::clear_vectors();
        state::with(|state| {
            // Signal frames hold the registers of the code that they interrupted.
            if state.interrupted.swap(false, Ordering::Relaxed) {
                self.handler_stack.wipe();
            }
            state.errno.set(0);
            // SAFETY: INV-CAGE-1. No call runs, so nobody else holds the buffer.
            let logs = unsafe { &mut *state.logs.get() };
            logs.wipe();
            // SAFETY: INV-CAGE-1. As above.
            let text = unsafe { &mut *state.panic_text.get() };
            text.wipe();
        });
    }
}

impl Drop for Cage {
    fn drop(&mut self) {
        budget::delete_timer(self.timer);
        state::with(|state| state.taken.set(false));
    }
}

/// Runs the entry and comes back when the call has ended, however it ended.
fn run(image: &Image, call: *mut Call, stack_end: usize, cpu_start_ns: u64, limit: Budget) {
    state::with(|state| {
        let budget_ns = limit.as_micros().saturating_mul(1_000);
        state.deadline_cpu_ns.store(cpu_start_ns.saturating_add(budget_ns), Ordering::Relaxed);
        state.end.set(End::Aborted);
        state.running.store(true, Ordering::Relaxed);
        // A timer that is already set rings soon enough, finds this call and goes on with it.
        if !state.armed.load(Ordering::Relaxed) {
            budget::arm(state, budget_ns);
        }
        // SAFETY: INV-CAGE-1, 2 and 3.
        unsafe { gate::enter(image.entry(), call, stack_end, state.host_stack.as_ptr()) };
        state.running.store(false, Ordering::Relaxed);
    });
}
