//! The traced program: calls a function whenever it is told to, and says what became of it.

use std::arch::asm;
use std::sync::atomic::{AtomicU64, Ordering};

use mfaas_abi::frame::{ResponseFrame, encode_request};
use mfaas_abi::{LogReader, Status};
use mfaas_executor::{
    Clock, Executor, Limits, Outcome, Slab, SlabGeometry, SlabWriter, Verification, sealed_copy,
};
use mfaas_ident::{Budget, MemoryLimit};

use crate::hosts::Hosts;
use crate::toolchain;

/// What the tracer reads and writes.
#[repr(C)]
pub(crate) struct Exchange {
    /// How the next call is to end, as a letter; 0 ends the program.
    pub(crate) letter: AtomicU64,
    /// The budget of the call, in µs.
    pub(crate) budget_us: AtomicU64,
    /// How far the clock goes on each time it is read, in ns. 0 at the start of every call.
    pub(crate) clock_step: AtomicU64,
    /// The call's status.
    pub(crate) status: AtomicU64,
    /// What is right of [`ANSWER_IS_RIGHT`] and the rest.
    pub(crate) right: AtomicU64,
}

pub(crate) const LETTER_AT: usize = 0;
pub(crate) const BUDGET_AT: usize = 8;
pub(crate) const CLOCK_STEP_AT: usize = 16;
pub(crate) const STATUS_AT: usize = 24;
pub(crate) const RIGHT_AT: usize = 32;

/// The answer, its log lines and message are the function's.
pub(crate) const ANSWER_IS_RIGHT: u64 = 1;
/// The host's registers are the host's.
pub(crate) const REGISTERS_ARE_RIGHT: u64 = 2;
/// The next call of each kind was answered rightly.
pub(crate) const NEXT_IS_RIGHT: u64 = 4;

/// Calls of a function that returns, and of one that panics.
pub(crate) const RETURNS: u8 = b'r';
pub(crate) const PANICS: u8 = b'p';

/// Where the program stops for the tracer.
pub(crate) const READY: u64 = 1;
pub(crate) const BEGINS: u64 = 2;
pub(crate) const ENDED: u64 = 3;

/// CPU time that the thread uses before a call: more than the budget that is to be used up, in ns.
const BURNT_NS: u64 = 150_000;
const NUMBER: u8 = 216;

static EXCHANGE: Exchange = Exchange {
    letter: AtomicU64::new(0),
    budget_us: AtomicU64::new(0),
    clock_step: AtomicU64::new(0),
    status: AtomicU64::new(0),
    right: AtomicU64::new(0),
};

/// A clock that stands until the tracer lets it go on.
fn clock() -> u64 {
    static NOW: AtomicU64 = AtomicU64::new(1_000_000);
    let step = EXCHANGE.clock_step.load(Ordering::Relaxed);
    NOW.fetch_add(step, Ordering::Relaxed) + step
}

/// Stops for the tracer, who is told where the exchange is. The executor's own handler never sees this trap.
fn stop(phase: u64) {
    // SAFETY: a trap that the tracer keeps for itself; the registers are only read.
    unsafe { asm!("int3", in("rdi") &raw const EXCHANGE, in("rsi") phase) }
}

fn cpu_ns() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: a live local.
    assert_eq!(unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) }, 0);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

pub(crate) fn run() {
    let mut executor = executor();
    let memory = MemoryLimit::from_bytes(1 << 20).expect("a multiple of a page");
    let limits = |micros| Limits { budget: Budget::from_micros(micros).expect("within bounds"), memory };
    let mut call = |letter: u8, micros| {
        let mut frame = Vec::new();
        encode_request(&mut frame, "POST", "/", [], &[letter, NUMBER]).expect("a plain request");
        executor.request()[..frame.len()].copy_from_slice(&frame);
        let watch = AtomicU64::new(0);
        stop(BEGINS);
        let mut ended = executor.call(0, frame.len(), limits(micros), &watch).expect("resident");
        stop(ENDED);
        EXCHANGE.clock_step.store(0, Ordering::Relaxed);
        let outcome = ended.outcome();
        (outcome.status, is_right(letter, &outcome))
    };
    // SAFETY: takes numbers; the parent wants to trace.
    assert_eq!(unsafe { libc::ptrace(libc::PTRACE_TRACEME, 0, 0, 0) }, 0);
    // SAFETY: takes a number; the parent lets it go on.
    assert_eq!(unsafe { libc::raise(libc::SIGSTOP) }, 0);
    let hosts = Hosts::now();
    loop {
        stop(READY);
        let letter = EXCHANGE.letter.load(Ordering::Relaxed) as u8;
        let begin = cpu_ns();
        while letter != 0 && cpu_ns() - begin < BURNT_NS {}
        if letter == 0 {
            return;
        }
        let (status, is_right) = call(letter, EXCHANGE.budget_us.load(Ordering::Relaxed));
        let registers = Hosts::now() == hosts;
        let next =
            [RETURNS, PANICS].into_iter().all(|letter| call(letter, 1_000_000) == (expected(letter), true));
        let right = [(is_right, ANSWER_IS_RIGHT), (registers, REGISTERS_ARE_RIGHT), (next, NEXT_IS_RIGHT)];
        EXCHANGE.status.store(status as u64, Ordering::Relaxed);
        EXCHANGE.right.store(right.iter().map(|(is, bit)| u64::from(*is) * bit).sum(), Ordering::Relaxed);
    }
}

/// How a call ends as itself.
pub(crate) fn expected(letter: u8) -> Status {
    if letter == PANICS { Status::Panicked } else { Status::Ok }
}

fn executor() -> Executor {
    let geometry = SlabGeometry { bank_bytes: 16 << 20, asset_bytes: 0, slots: 64 };
    let mut writer = SlabWriter::new(geometry, Verification::Required).expect("a slab");
    let image = sealed_copy(toolchain::services()).expect("a memfd");
    assert_eq!(writer.load(image).expect("it verifies").slot, 0);
    let slab = Slab::map(writer.finish()).expect("the window is free");
    let memory = MemoryLimit::from_bytes(1 << 20).expect("a multiple of a page");
    Executor::new(slab, memory, Clock::new(clock, 1_000)).expect("an executor")
}

/// Whether an outcome is all that the function made of it.
fn is_right(letter: u8, outcome: &Outcome<'_>) -> bool {
    let logs = LogReader::new(outcome.logs).map(|entry| entry.text == b"services");
    let logs: Vec<bool> = logs.collect();
    let is_answer = || {
        let Ok(response) = ResponseFrame::decode(outcome.response) else { return false };
        let (text, root, random) =
            (response.body.get(..8), response.body.get(8..16), response.body.get(16..));
        text == Some(b"services")
            && root == Some(&f64::from(NUMBER).sin().to_le_bytes())
            && random.is_some_and(|bytes| bytes != [0; 16])
    };
    logs == [true] && if letter == PANICS { outcome.message == b"services" } else { is_answer() }
}
