//! What the running call, the host's services and the signal handlers share: one record per
//! thread, made of cells, so that it can be read and left at any instruction. What a handler may
//! change while the host reads it is atomic.
//!
//! It must never hold anything with a destructor or a lock.

use std::cell::{Cell, UnsafeCell};
use std::sync::atomic::{AtomicBool, AtomicU64};

use mfaas_abi::limits::PANIC_BYTES_MAX;

use crate::logs::LogBuffer;

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

/// One thread's record.
pub(crate) struct State {
    /// Whether this thread has a cage.
    pub(crate) taken: Cell<bool>,
    /// Whether a call runs: only then do handlers end anything.
    pub(crate) running: AtomicBool,
    /// The host's stack pointer, to which every end returns.
    pub(crate) host_stack: Cell<usize>,
    /// Lowest address of the guard below the function's stack.
    pub(crate) guard_start: Cell<usize>,
    /// Lowest address of the function's stack.
    pub(crate) stack_start: Cell<usize>,
    /// End of the function's stack.
    pub(crate) stack_end: Cell<usize>,
    /// CPU time of the thread at which the call is over its budget, in nanoseconds.
    pub(crate) deadline_cpu_ns: AtomicU64,
    /// Whether the timer will ring.
    pub(crate) armed: AtomicBool,
    /// Whether a handler ran since the last wipe.
    pub(crate) interrupted: AtomicBool,
    /// The timer.
    pub(crate) timer: Cell<libc::timer_t>,
    /// How the last call ended.
    pub(crate) end: Cell<End>,
    /// The function's `errno`.
    pub(crate) errno: Cell<i32>,
    /// The function's log lines.
    pub(crate) logs: UnsafeCell<LogBuffer>,
    /// What the shim said about a panic.
    pub(crate) panic_text: UnsafeCell<PanicText>,
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

    /// Keeps the beginning of `text`.
    pub(crate) fn set(&mut self, text: &[u8]) {
        let taken = text.len().min(PANIC_BYTES_MAX);
        self.bytes[..taken].copy_from_slice(&text[..taken]);
        self.len = taken;
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.len.min(PANIC_BYTES_MAX)]
    }

    pub(crate) fn wipe(&mut self) {
        self.bytes.fill(0);
        self.len = 0;
    }
}

impl State {
    const fn new() -> Self {
        Self {
            taken: Cell::new(false),
            running: AtomicBool::new(false),
            host_stack: Cell::new(0),
            guard_start: Cell::new(0),
            stack_start: Cell::new(0),
            stack_end: Cell::new(0),
            deadline_cpu_ns: AtomicU64::new(0),
            armed: AtomicBool::new(false),
            interrupted: AtomicBool::new(false),
            timer: Cell::new(std::ptr::null_mut()),
            end: Cell::new(End::Aborted),
            errno: Cell::new(0),
            logs: UnsafeCell::new(LogBuffer::new()),
            panic_text: UnsafeCell::new(PanicText::new()),
        }
    }

    /// Whether `address` lies in the function's stack. Its end counts: it is where an entry that
    /// just returned stands.
    pub(crate) fn in_stack(&self, address: usize) -> bool {
        (self.stack_start.get()..=self.stack_end.get()).contains(&address)
    }

    /// Whether `address` lies in the guard below the function's stack.
    pub(crate) fn in_guard(&self, address: usize) -> bool {
        (self.guard_start.get()..self.stack_start.get()).contains(&address)
    }
}

thread_local! {
    /// Constant and without a destructor, so that reaching it is one instruction, in a handler too.
    static STATE: State = const { State::new() };
}

/// The record of this thread.
pub(crate) fn with<R>(use_it: impl FnOnce(&State) -> R) -> R {
    STATE.with(use_it)
}
