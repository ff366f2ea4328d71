//! Calls that a child process makes under protection keys before the worker relies on them.
//!
//! It must run in a process that is thrown away: its calls leave traces in the call memory.

use std::arch::naked_asm;
use std::sync::atomic::AtomicU64;

use mfaas_rules::profiles::imports::ROWS;

use crate::memory::{CallMemory, Sizes};
use crate::run::run_on_stack;
use crate::state::{self, End};
use crate::{budget, keyed};

/// Exit code when gates and keys could not be put in place.
pub(crate) const NOT_ARMED: i32 = 100;
/// CPU time of a trial, in nanoseconds.
const BUDGET_NS: u64 = 200_000;
/// What a trial returns that returns.
const NUMBER: u32 = 7;

/// Number of the gate to `abort`.
const ABORT_GATE: usize = {
    let mut row = 0;
    while !matches!(ROWS[row].symbol.as_bytes(), b"abort") {
        row += 1;
    }
    row
};

struct Trial {
    entry: unsafe extern "C" fn(),
    expected: End,
    /// What it means if it ends in another way.
    failure: &'static str,
}

const TRIALS: [Trial; 4] = [
    Trial {
        entry: returns,
        expected: End::Returned(NUMBER),
        failure: "a call does not return under protection keys",
    },
    Trial {
        entry: reads,
        expected: End::Fault(libc::SIGSEGV),
        failure: "protection keys do not keep a call from the worker's memory",
    },
    Trial {
        entry: endless,
        expected: End::OverBudget,
        failure: "a call under protection keys cannot be interrupted",
    },
    Trial {
        entry: gate,
        expected: End::Aborted,
        failure: "a call under protection keys cannot reach the host",
    },
];

/// Makes the calls: 0 if each ended as it should, else an exit code for [`verdict`]. `hosts` is an address that only the host may read.
pub(crate) fn first_failure(call_memory: &CallMemory, hosts: usize) -> i32 {
    // A child has none of its parent's timers.
    if budget::start_backup().is_err() {
        return NOT_ARMED;
    }
    let watch = AtomicU64::new(0);
    let argument = std::ptr::with_exposed_provenance_mut(hosts);
    for (code, trial) in (1..).zip(&TRIALS) {
        let entry = trial.entry as *const () as usize;
        let ran = state::with(|state| {
            state.budget.begin(BUDGET_NS, &watch);
            let ran = run_on_stack(call_memory, Sizes::FIRST, entry, argument);
            state.budget.end(&watch);
            ran
        });
        if ran.end != trial.expected {
            return code;
        }
    }
    0
}

/// What the child's end says.
pub(crate) fn verdict(status: Option<i32>) -> Result<(), String> {
    let Some(status) = status else { return Err("the trial of protection keys did not end".to_owned()) };
    if !libc::WIFEXITED(status) {
        // Before 6.12 Linux could not write a signal's frame with the rights of a function.
        return Err("this kernel cannot deliver a signal while key 0 is denied".to_owned());
    }
    match libc::WEXITSTATUS(status) {
        0 => Ok(()),
        NOT_ARMED => Err("protection keys could not be put in place".to_owned()),
        code => {
            let trial = usize::try_from(code).ok().and_then(|code| TRIALS.get(code.wrapping_sub(1)));
            Err(trial.map_or("the trial of protection keys failed", |trial| trial.failure).to_owned())
        }
    }
}

/// # Safety
/// INV-EXECUTOR-11: an entry; it uses no memory.
#[unsafe(naked)]
unsafe extern "C" fn returns() {
    naked_asm!("mov eax, {number}", "ret", number = const NUMBER)
}

/// # Safety
/// INV-EXECUTOR-11: an entry; it reads what its argument points at.
#[unsafe(naked)]
unsafe extern "C" fn reads() {
    naked_asm!("mov rax, [rdi]", "mov eax, {number}", "ret", number = const NUMBER)
}

/// # Safety
/// INV-EXECUTOR-11: an entry; it uses no memory.
#[unsafe(naked)]
unsafe extern "C" fn endless() {
    naked_asm!("2:", "pause", "jmp 2b")
}

/// # Safety
/// INV-EXECUTOR-11: an entry; it ends its call.
#[unsafe(naked)]
unsafe extern "C" fn gate() {
    naked_asm!("mov r10d, {number}", "jmp {pass}", number = const ABORT_GATE, pass = sym keyed::pass)
}
