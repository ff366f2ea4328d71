//! CPU time: reading it, and the timer that makes the handler look at it.
//!
//! The budget is CPU time of the thread, so a busy machine costs no function its life. The timer
//! counts wall time, which is never less; when it rings the handler reads CPU time and either ends
//! the call or sets the timer to what is left. It rings at most [`TICK_NS_MAX`] after it was set,
//! so that a timer left over from a call that ended early delays the next one's end no longer than
//! that, and it is set only while a call runs, so that an idle worker is never woken.

use std::mem::MaybeUninit;
use std::sync::atomic::Ordering;

use crate::CageError;
use crate::signals::TICK_SIGNAL;
use crate::state::State;

/// The longest and the shortest time between two looks, in nanoseconds.
const TICK_NS_MAX: u64 = 1_000_000;
const TICK_NS_MIN: u64 = 20_000;

/// Makes the timer of this thread. Must happen before lock-down.
pub(crate) fn create_timer() -> Result<libc::timer_t, CageError> {
    // SAFETY: INV-CAGE-7. Plain data, for which zeros are a value.
    let mut event: libc::sigevent = unsafe { MaybeUninit::zeroed().assume_init() };
    event.sigev_notify = libc::SIGEV_THREAD_ID;
    event.sigev_signo = TICK_SIGNAL;
    // SAFETY: INV-CAGE-7. Takes nothing and cannot fail.
    event.sigev_notify_thread_id = unsafe { libc::gettid() };
    let mut timer: libc::timer_t = std::ptr::null_mut();
    // SAFETY: INV-CAGE-7. Both pointers are to live locals.
    if unsafe { libc::timer_create(libc::CLOCK_MONOTONIC, &raw mut event, &raw mut timer) } != 0 {
        return Err(CageError::last("create the timer"));
    }
    Ok(timer)
}

/// Deletes a timer that this thread made.
pub(crate) fn delete_timer(timer: libc::timer_t) {
    // SAFETY: INV-CAGE-7. From `create_timer`, and deleted once. It fails only for timers that do not exist.
    let _ = unsafe { libc::timer_delete(timer) };
}

/// Sets the timer to ring once, `left_ns` from now within the bounds. Safe in a handler.
pub(crate) fn arm(state: &State, left_ns: u64) {
    let wait_ns = left_ns.clamp(TICK_NS_MIN, TICK_NS_MAX);
    let never = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // Below one second by the bounds.
    let once = libc::timespec { tv_sec: 0, tv_nsec: wait_ns as i64 };
    let setting = libc::itimerspec { it_interval: never, it_value: once };
    // SAFETY: INV-CAGE-1. The timer of this thread's cage, and a live local.
    let set = unsafe { libc::timer_settime(state.timer.get(), 0, &raw const setting, std::ptr::null_mut()) };
    // A call that nothing would end must not run.
    if set != 0 {
        std::process::abort();
    }
    state.armed.store(true, Ordering::Relaxed);
}

/// CPU time of this thread, in nanoseconds.
pub(crate) fn cpu_ns() -> u64 {
    clock_ns(libc::CLOCK_THREAD_CPUTIME_ID)
}

/// Wall time since some start, in nanoseconds.
pub(crate) fn wall_ns() -> u64 {
    clock_ns(libc::CLOCK_MONOTONIC)
}

/// A clock in nanoseconds; 0 for one that does not exist.
pub(crate) fn clock_ns(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: INV-CAGE-7. A live local. It fails only for clocks that do not exist, and leaves zeros then.
    let _ = unsafe { libc::clock_gettime(clock, &raw mut time) };
    (time.tv_sec as u64).wrapping_mul(1_000_000_000).wrapping_add(time.tv_nsec as u64)
}
