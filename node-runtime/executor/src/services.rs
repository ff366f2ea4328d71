//! What a function can ask the host. All of it runs on the host's stack, at the function's bidding, and
//! may be abandoned where it touches the function's memory (INV-EXECUTOR-4).
//!
//! Pointers here come from the function. One that does not lie in the window of functions ends the
//! call as a fault: a service reads and writes nothing of the worker's for anybody. One that lies
//! there and is wild faults in the service, which ends the call too (`crate::signals`). The only way
//! here is [`crate::gate::pass`]. A handler cannot end a call in here, so whatever takes as long as the
//! function likes looks at the budget itself.

use std::ffi::c_int;
use std::ptr;
use std::slice;

use mfaas_abi::Level;
use mfaas_abi::limits::LOG_BYTES_MAX;

use crate::clock::clock_ns;
use crate::gate::{leave, look_at_budget};
use crate::state::{self, End};
use crate::window;

/// No stream of a function is another.
const STDOUT: c_int = 1;
const STDERR: c_int = 2;
/// Random bytes that are asked of the kernel at a time.
const RANDOM_BYTES: usize = 16 << 10;

/// Ends the call unless `count` values of `T` from `start` lie in the window of functions.
pub(crate) fn demand<T>(start: *const T, count: usize) {
    let inside = |bytes: usize| window::holds(start.addr(), bytes);
    if !count.checked_mul(size_of::<T>()).is_some_and(inside) || !start.is_aligned() {
        leave(End::Fault(libc::SIGSEGV));
    }
}

/// A slice of the function's memory.
///
/// # Safety
/// INV-EXECUTOR-4: the bytes are the function's, and it does not run while they are read.
unsafe fn bytes_of<'a>(start: *const u8, count: usize) -> &'a [u8] {
    if count == 0 {
        return &[];
    }
    demand(start, count);
    // SAFETY: INV-EXECUTOR-4, as the caller promised.
    unsafe { slice::from_raw_parts(start, count) }
}

/// Text as far as it can matter: the buffer is full before its end.
fn bounded(text: &[u8]) -> &[u8] {
    &text[..text.len().min(LOG_BYTES_MAX)]
}

fn log_line(level: Level, text: &[u8]) {
    state::with(|state| {
        // SAFETY: INV-EXECUTOR-1. The one thread is here, so nobody else holds the buffer.
        let logs = unsafe { &mut *state.logs.get() };
        logs.line(level, bounded(text));
    });
}

fn log_stream(level: Level, text: &[u8]) {
    state::with(|state| {
        // SAFETY: INV-EXECUTOR-1. The one thread is here, so nobody else holds the buffer.
        let logs = unsafe { &mut *state.logs.get() };
        logs.stream(level, bounded(text));
    });
}

fn fail(errno: c_int) {
    let at = ptr::with_exposed_provenance_mut::<c_int>(crate::memory::ERRNO);
    // SAFETY: INV-EXECUTOR-2. The word for it in the call memory, aligned, and the one thread is here.
    unsafe { at.write(errno) };
}

pub(crate) unsafe extern "C" fn mfaas_host_log(level: u32, text: *const u8, bytes: usize) {
    // SAFETY: INV-EXECUTOR-4.
    let text = unsafe { bytes_of(text, bytes) };
    log_line(Level::from_u32(level), text);
}

pub(crate) extern "C" fn mfaas_host_now() -> u64 {
    clock_ns(libc::CLOCK_REALTIME)
}

pub(crate) unsafe extern "C" fn mfaas_host_random(into: *mut u8, bytes: usize) {
    if bytes > 0 {
        demand(into, bytes);
    }
    let mut done = 0;
    while done < bytes {
        let at = into.wrapping_add(done);
        // By its number: from 2.41 on glibc's own function maps memory for its state, which a worker may not.
        // SAFETY: INV-EXECUTOR-7. The kernel checks the address; a wrong one is an error, answered below.
        let count = unsafe { libc::syscall(libc::SYS_getrandom, at, RANDOM_BYTES.min(bytes - done), 0) };
        match usize::try_from(count) {
            Ok(count) if count > 0 => done += count,
            // Nothing weaker may stand in for keys.
            Ok(_) | Err(_) => leave(End::Fault(libc::SIGSEGV)),
        }
        look_at_budget();
    }
}

pub(crate) unsafe extern "C" fn mfaas_host_panic(text: *const u8, bytes: usize) -> ! {
    // SAFETY: INV-EXECUTOR-4.
    let text = unsafe { bytes_of(text, bytes) };
    state::with(|state| {
        // SAFETY: INV-EXECUTOR-1. The one thread is here, so nobody else holds the text.
        let panic_text = unsafe { &mut *state.panic_text.get() };
        panic_text.set(text);
    });
    leave(End::Panicked)
}

pub(crate) extern "C" fn mfaas_host_oom(bytes: usize) -> ! {
    leave(End::OutOfMemory(bytes))
}

pub(crate) extern "C" fn abort() -> ! {
    leave(End::Aborted)
}

pub(crate) unsafe extern "C" fn write(stream: c_int, text: *const u8, bytes: usize) -> isize {
    let level = match stream {
        STDOUT => Level::Info,
        STDERR => Level::Error,
        _ => {
            fail(libc::EBADF);
            return -1;
        }
    };
    // SAFETY: INV-EXECUTOR-4.
    let text = unsafe { bytes_of(text, bytes) };
    log_stream(level, text);
    text.len() as isize
}

pub(crate) unsafe extern "C" fn writev(stream: c_int, parts: *const libc::iovec, count: c_int) -> isize {
    let count = usize::try_from(count).unwrap_or(0);
    if count > 0 {
        demand(parts, count);
    }
    let mut written: isize = 0;
    for index in 0..count {
        // SAFETY: INV-EXECUTOR-4. One of `count` records of the function.
        let part = unsafe { parts.wrapping_add(index).read() };
        // SAFETY: INV-EXECUTOR-4.
        let done = unsafe { write(stream, part.iov_base.cast(), part.iov_len) };
        if done < 0 {
            return done;
        }
        written = written.wrapping_add(done);
        look_at_budget();
    }
    written
}

pub(crate) unsafe extern "C" fn getrandom(into: *mut u8, bytes: usize, _flags: u32) -> isize {
    // SAFETY: INV-EXECUTOR-4.
    unsafe { mfaas_host_random(into, bytes) };
    bytes as isize
}

pub(crate) unsafe extern "C" fn clock_gettime(clock: libc::clockid_t, into: *mut libc::timespec) -> c_int {
    let clock = match clock {
        libc::CLOCK_REALTIME | libc::CLOCK_REALTIME_COARSE => libc::CLOCK_REALTIME,
        libc::CLOCK_MONOTONIC | libc::CLOCK_MONOTONIC_COARSE | libc::CLOCK_BOOTTIME => libc::CLOCK_MONOTONIC,
        _ => {
            fail(libc::EINVAL);
            return -1;
        }
    };
    let now = clock_ns(clock);
    let time = libc::timespec {
        tv_sec: (now / 1_000_000_000) as libc::time_t,
        tv_nsec: (now % 1_000_000_000) as libc::c_long,
    };
    demand(into, 1);
    // SAFETY: INV-EXECUTOR-4.
    unsafe { into.write(time) };
    0
}
