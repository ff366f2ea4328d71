//! Protection keys around calls: a function's rights end at the window, whatever it does with its
//! pointers. The design is that of ERIM (Vahldiek-Oberwagner et al., USENIX Security 2019).
//!
//! Everything in the window, and what programs and libraries are only read for, bears a key of its
//! own; all that the worker writes keeps key 0. Functions run with rights for that key alone, the
//! host with both ([`crate::keyed`]). Whether processor and kernel do what this needs is tried out in
//! a child process before anything changes here: a call that returns, one that reads the worker's
//! memory, one that never ends, one through a gate.
//!
//! It must never leave gates bound without keys or keys without gates, and never change anything on
//! a machine without keys.

use std::sync::OnceLock;
use std::time::{Duration, Instant};

use crate::memory::CallMemory;
use crate::slab::Slab;
use crate::state::{self, STATE};
use crate::text::{self, Findings};
use crate::{ExecutorError, keyed, maps, signals, trial, window};

/// Whether calls run under protection keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Keys {
    /// They do.
    On,
    /// They do not; one sentence says why.
    Off(String),
}

/// How long the child may take, several times what it needs.
const TRIAL_TIME_MAX: Duration = Duration::from_secs(10);

/// Puts calls under keys, if this machine can.
pub(crate) fn protect(slab: &Slab, call_memory: &CallMemory) -> Result<Keys, ExecutorError> {
    match find_out(slab, call_memory) {
        Ok(findings) => arm(slab, &findings).map(|()| Keys::On),
        Err(reason) => Ok(Keys::Off(reason)),
    }
}

/// What must be overwritten first, or what stands in the way of keys.
fn find_out(slab: &Slab, call_memory: &CallMemory) -> Result<Findings, String> {
    static TAKEN: OnceLock<Result<(), String>> = OnceLock::new();
    TAKEN.get_or_init(take_key).clone()?;
    let mappings = maps::all().ok_or("the list of mappings cannot be read")?;
    let findings = text::look(&mappings)?;
    leave_rseq()?;
    try_out(slab, call_memory, &findings)?;
    Ok(findings)
}

/// Takes the process's first key, which opens it for this thread.
fn take_key() -> Result<(), String> {
    // SAFETY: INV-EXECUTOR-7. Takes numbers.
    let key = unsafe { libc::syscall(libc::SYS_pkey_alloc, 0, 0) };
    match key {
        -1 => Err("the processor or the kernel has no protection keys".to_owned()),
        key if key == i64::from(keyed::KEY) => Ok(()),
        other => Err(format!("the first key is {other}")),
    }
}

/// The kernel writes to the area of restartable sequences whenever it has preempted a thread, and
/// kills one that may not; glibc registers every thread.
fn leave_rseq() -> Result<(), String> {
    static LEFT: OnceLock<bool> = OnceLock::new();
    /// As the kernel's and glibc's headers define them.
    const UNREGISTER: libc::c_int = 1;
    const SIGNATURE: u32 = 0x5305_3053;
    const BYTES_MIN: u64 = 32;
    const AT_RSEQ_FEATURE_SIZE: libc::c_ulong = 27;
    let leave = || {
        let Some(area) = rseq_area() else { return true };
        // SAFETY: INV-EXECUTOR-7. Takes a number.
        let bytes =
            unsafe { libc::getauxval(AT_RSEQ_FEATURE_SIZE) }.next_multiple_of(BYTES_MIN).max(BYTES_MIN);
        // SAFETY: INV-EXECUTOR-7. The area that glibc registered for this thread.
        let left = unsafe { libc::syscall(libc::SYS_rseq, area, bytes, UNREGISTER, SIGNATURE) };
        left == 0
    };
    if *LEFT.get_or_init(leave) { Ok(()) } else { Err("restartable sequences stay registered".to_owned()) }
}

/// Where glibc registered this thread; `None` if it did not.
fn rseq_area() -> Option<usize> {
    // SAFETY: INV-EXECUTOR-7. A live string; answers an address or null.
    let size = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"__rseq_size".as_ptr()) }.cast::<u32>();
    // SAFETY: INV-EXECUTOR-7. A live string; answers an address or null.
    let offset = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"__rseq_offset".as_ptr()) }.cast::<isize>();
    // SAFETY: INV-EXECUTOR-7. Null or glibc's constant.
    let size = unsafe { size.as_ref() }?;
    // SAFETY: INV-EXECUTOR-7. Null or glibc's constant.
    let offset = unsafe { offset.as_ref() }?;
    let thread: usize;
    // SAFETY: INV-EXECUTOR-7. The first word of the thread's control block is its own address.
    unsafe { std::arch::asm!("mov {}, fs:0", out(reg) thread, options(nostack, readonly, preserves_flags)) };
    (*size > 0).then(|| thread.wrapping_add_signed(*offset))
}

/// Does all of it in a child process, and makes calls there.
fn try_out(slab: &Slab, call_memory: &CallMemory, findings: &Findings) -> Result<(), String> {
    // SAFETY: INV-EXECUTOR-13. The child leaves by `_exit`.
    match unsafe { libc::fork() } {
        -1 => Err("no process could be started to try keys out".to_owned()),
        0 => {
            let failed = if arm(slab, findings).is_ok() {
                trial::first_failure(call_memory, address_of_the_hosts())
            } else {
                trial::NOT_ARMED
            };
            crate::exit_now(failed)
        }
        child => trial::verdict(ended(child)),
    }
}

/// How the child ended; `None` if it did not, and was killed.
fn ended(child: libc::pid_t) -> Option<libc::c_int> {
    let deadline = Instant::now() + TRIAL_TIME_MAX;
    let mut status = 0;
    loop {
        // SAFETY: INV-EXECUTOR-7. Our own child, and a live local.
        match unsafe { libc::waitpid(child, &raw mut status, libc::WNOHANG) } {
            0 if Instant::now() < deadline => std::thread::sleep(Duration::from_millis(1)),
            0 => break,
            done if done == child => return Some(status),
            _ => return None,
        }
    }
    // SAFETY: INV-EXECUTOR-7. Our own child, which was not waited for.
    let _ = unsafe { libc::kill(child, libc::SIGKILL) };
    // SAFETY: INV-EXECUTOR-7. As above.
    let _ = unsafe { libc::waitpid(child, &raw mut status, 0) };
    None
}

/// Handlers that know of rights, keys on memory, gates, in this order: each is harmless without the
/// next.
fn arm(slab: &Slab, findings: &Findings) -> Result<(), ExecutorError> {
    text::overwrite(findings)?;
    signals::guard_handlers(keyed::on_fault, keyed::on_tick)?;
    let mappings = maps::all().ok_or(ExecutorError::Unmappable("the list of mappings cannot be read"))?;
    // The window first: what bears the key already, from a former executor, is not changed by it.
    for mapping in mappings.iter().filter(|mapping| is_for_functions(mapping)) {
        give_key(mapping)?;
    }
    slab.lead_gates_to((keyed::pass as *const ()).addr())?;
    state::with(|state| {
        state.keys.landing.set((keyed::landing as *const ()).addr());
        state.keys.on.set(true);
    });
    Ok(())
}

/// The window, and what programs and libraries are only read for.
fn is_for_functions(mapping: &maps::Mapping) -> bool {
    window::covers(&mapping.range) || (mapping.is_of_program() && mapping.read && !mapping.write)
}

fn give_key(mapping: &maps::Mapping) -> Result<(), ExecutorError> {
    let (start, bytes) = (mapping.range.start, mapping.range.len());
    // SAFETY: INV-EXECUTOR-2 and 11. A mapping of ours, whose access stays what it is.
    let given = unsafe { libc::syscall(libc::SYS_pkey_mprotect, start, bytes, mapping.access(), keyed::KEY) };
    if given == 0 { Ok(()) } else { Err(ExecutorError::last("give memory its protection key")) }
}

/// An address that only the host may read.
fn address_of_the_hosts() -> usize {
    (&raw const STATE).expose_provenance()
}
