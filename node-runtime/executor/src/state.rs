//! What the running call, the host's services and the signal handlers share: one record for the
//! process, made of cells, so that it can be read and left at any instruction. What a handler may
//! change while the host reads it is atomic.
//!
//! It must never hold anything with a destructor or a lock.

use std::cell::{Cell, UnsafeCell};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering, compiler_fence};

use mfaas_abi::limits::PANIC_BYTES_MAX;

use crate::clock::Clock;
use crate::logs::LogBuffer;
use crate::window::GATES;
use crate::zeros;

/// How the stay on the function's stack ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// The entry returned this number.
    Returned(u32),
    /// The shim reported a panic; the text is in [`State::panic_text`].
    Panicked,
    /// The shim found no room for so many bytes.
    OutOfMemory(usize),
    /// `abort`, or the beginning of an unwinding that cannot be.
    Aborted,
    /// CPU time ran past the deadline.
    OverBudget,
    /// A write or read in the guard below the stack.
    StackOverflow,
    /// A system call that the filter denied; its number.
    Denied(i32),
    /// Another fault; the signal's number.
    Fault(i32),
}

/// The record of the process's one executor.
pub(crate) struct State {
    /// Whether there is an executor.
    pub(crate) taken: AtomicBool,
    /// Whether a call runs: only then do handlers end anything.
    pub(crate) running: AtomicBool,
    /// The host's stack pointer, to which every end returns.
    pub(crate) host_stack: Cell<usize>,
    /// The function's stack.
    pub(crate) stack: FunctionStack,
    /// What the handlers need to judge a budget.
    pub(crate) budget: BudgetState,
    /// How the last call ended.
    pub(crate) end: Cell<End>,
    /// What stands behind the gates; see [`crate::gate::pass`].
    pub(crate) services: Services,
    /// Protection keys; see [`crate::keys`].
    pub(crate) keys: KeyState,
    /// The bases of FS and GS of the executor's thread.
    pub(crate) bases: Bases,
    /// The stack for handlers.
    pub(crate) handler_stack: HandlerStackState,
    /// The function's log lines.
    pub(crate) logs: UnsafeCell<LogBuffer>,
    /// What the shim said about a panic.
    pub(crate) panic_text: UnsafeCell<PanicText>,
}

/// Where the function's stack is.
pub(crate) struct FunctionStack {
    /// Lowest address of the guard below it.
    guard_start: Cell<usize>,
    /// Its lowest address.
    start: Cell<usize>,
}

impl FunctionStack {
    /// The call that begins runs on this stack, with this guard below it.
    pub(crate) fn set(&self, stack: &Range<usize>, guard: &Range<usize>) {
        self.guard_start.set(guard.start);
        self.start.set(stack.start);
    }

    /// Whether `address` lies in the guard below it.
    pub(crate) fn guard_holds(&self, address: usize) -> bool {
        (self.guard_start.get()..self.start.get()).contains(&address)
    }
}

/// What runs under protection keys; all zero without keys.
pub(crate) struct KeyState {
    /// Whether calls do.
    pub(crate) on: Cell<bool>,
    /// Where those calls end.
    pub(crate) landing: Cell<usize>,
}

/// What stands behind the gates.
pub(crate) struct Services {
    /// Addresses by the gate's number.
    pub(crate) table: [Cell<usize>; GATES],
    /// Whether one runs: on the host's stack, with pointers of the function's.
    pub(crate) running: Cell<bool>,
    /// A tick came while one ran, which could not be ended.
    pub(crate) ticked: AtomicBool,
    /// What return addresses are masked with: all ones where code is not verified.
    pub(crate) return_mask: Cell<u32>,
}

/// The bases of FS and GS.
pub(crate) struct Bases {
    /// Whether code in user mode can move them; see [`crate::gate::landing`].
    pub(crate) movable: Cell<bool>,
    pub(crate) fs: Cell<usize>,
    pub(crate) gs: Cell<usize>,
}

/// Addresses of the stack for handlers.
pub(crate) struct HandlerStackState {
    /// Whether a handler ran since the last wipe.
    pub(crate) interrupted: AtomicBool,
    pub(crate) start: Cell<usize>,
    pub(crate) end: Cell<usize>,
}

/// Times of the running call; see [`crate::budget`]. Ticks are those of the executor's clock.
pub(crate) struct BudgetState {
    /// When the call began, in ticks.
    pub(crate) started: AtomicU64,
    /// When its budget is worth a look by the wall, in ticks.
    pub(crate) deadline: AtomicU64,
    /// Its budget, in nanoseconds of CPU time.
    pub(crate) budget_ns: AtomicU64,
    /// CPU time that the call has used for certain when the sample below was taken, in nanoseconds.
    pub(crate) used_ns: AtomicU64,
    /// A sample of both clocks, taken before the call or in it: CPU time in nanoseconds, ticks.
    pub(crate) sample_cpu_ns: AtomicU64,
    pub(crate) sample_ticks: AtomicU64,
    /// Of a call within the call.
    pub(crate) inner: InnerBudget,
    /// Where the dispatcher looks for the deadline; null while no call runs.
    pub(crate) watch: AtomicPtr<AtomicU64>,
    /// The clock, as a function and its ticks in a microsecond.
    pub(crate) clock: Cell<Clock>,
}

/// Of times in nanoseconds: none, or not looked at yet.
pub(crate) const UNKNOWN: u64 = u64::MAX;

/// The same of a call within the running one.
pub(crate) struct InnerBudget {
    /// When it began, in ticks.
    pub(crate) entered: AtomicU64,
    /// Its budget, in nanoseconds of CPU time; [`UNKNOWN`] where there is none.
    pub(crate) budget_ns: AtomicU64,
    /// The thread's CPU time when it began, as found by a look at it, in nanoseconds; [`UNKNOWN`] before.
    pub(crate) begun_cpu_ns: AtomicU64,
}

/// A bounded text, written once in a call.
pub(crate) struct PanicText {
    bytes: [u8; PANIC_BYTES_MAX],
    len: usize,
}

impl PanicText {
    const fn new() -> Self {
        Self { bytes: [0; PANIC_BYTES_MAX], len: 0 }
    }

    /// Keeps the beginning of `text`. The length comes first: a call that is abandoned in between has
    /// written nothing behind it.
    pub(crate) fn set(&mut self, text: &[u8]) {
        let taken = text.len().min(PANIC_BYTES_MAX);
        self.len = taken;
        compiler_fence(Ordering::Release);
        self.bytes[..taken].copy_from_slice(&text[..taken]);
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.len.min(PANIC_BYTES_MAX)]
    }

    /// Leaves zeros.
    pub(crate) fn wipe(&mut self) {
        let used = self.len.min(PANIC_BYTES_MAX);
        zeros::zero(&mut self.bytes[..used]);
        self.len = 0;
    }
}

impl State {
    const fn new() -> Self {
        Self {
            taken: AtomicBool::new(false),
            running: AtomicBool::new(false),
            host_stack: Cell::new(0),
            stack: FunctionStack { guard_start: Cell::new(0), start: Cell::new(0) },
            budget: BudgetState {
                started: AtomicU64::new(0),
                deadline: AtomicU64::new(u64::MAX),
                budget_ns: AtomicU64::new(0),
                used_ns: AtomicU64::new(0),
                sample_cpu_ns: AtomicU64::new(0),
                sample_ticks: AtomicU64::new(0),
                inner: InnerBudget {
                    entered: AtomicU64::new(0),
                    budget_ns: AtomicU64::new(UNKNOWN),
                    begun_cpu_ns: AtomicU64::new(UNKNOWN),
                },
                watch: AtomicPtr::new(std::ptr::null_mut()),
                clock: Cell::new(Clock::MONOTONIC),
            },
            end: Cell::new(End::Aborted),
            services: Services {
                table: [const { Cell::new(0) }; GATES],
                running: Cell::new(false),
                ticked: AtomicBool::new(false),
                return_mask: Cell::new(0),
            },
            keys: KeyState { on: Cell::new(false), landing: Cell::new(0) },
            bases: Bases { movable: Cell::new(false), fs: Cell::new(0), gs: Cell::new(0) },
            handler_stack: HandlerStackState {
                interrupted: AtomicBool::new(false),
                start: Cell::new(0),
                end: Cell::new(0),
            },
            logs: UnsafeCell::new(LogBuffer::new()),
            panic_text: UnsafeCell::new(PanicText::new()),
        }
    }
}

/// A record that one thread uses.
#[repr(transparent)]
pub(crate) struct Sole(State);

// SAFETY: INV-EXECUTOR-1. There is one executor, whose thread alone uses the record; other threads only
// ask `taken`, which is atomic.
unsafe impl Sync for Sole {}

pub(crate) static STATE: Sole = Sole(State::new());

/// The record.
pub(crate) fn with<R>(use_it: impl FnOnce(&'static State) -> R) -> R {
    use_it(&STATE.0)
}
