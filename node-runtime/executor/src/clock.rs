//! Clocks: those of the kernel, and the one that a worker shares with its watcher.
//!
//! They are read in signal handlers, so nothing here may lock, allocate or wait.

/// A clock that both a worker and its watcher read: monotonic, the same in both.
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    now: fn() -> u64,
    /// Nanoseconds of a tick and ticks of a nanosecond, times 2³²: no division in a call.
    ns_of_tick: u64,
    ticks_of_ns: u64,
}

impl Clock {
    /// The system's monotonic clock in nanoseconds.
    pub const MONOTONIC: Self = Self::new(wall_ns, 1_000);

    /// A clock with so many ticks in a microsecond, at least 1. `now` reads it; it is called in a signal
    /// handler too, so it must not lock, allocate or wait.
    pub const fn new(now: fn() -> u64, ticks_per_us: u64) -> Self {
        let ticks_per_us = if ticks_per_us == 0 { 1 } else { ticks_per_us };
        let ticks_of_ns = ((ticks_per_us as u128) << 32) / 1_000;
        let ticks_of_ns = if ticks_of_ns > u64::MAX as u128 { u64::MAX } else { ticks_of_ns as u64 };
        Self { now, ns_of_tick: (1_000 << 32) / ticks_per_us, ticks_of_ns }
    }

    /// Reads it, in ticks.
    pub fn now(self) -> u64 {
        (self.now)()
    }

    pub(crate) fn ns(self, ticks: u64) -> u64 {
        scaled(ticks, self.ns_of_tick)
    }

    pub(crate) fn ticks(self, ns: u64) -> u64 {
        scaled(ns, self.ticks_of_ns)
    }
}

/// `value · factor / 2³²`, at most `u64::MAX`.
fn scaled(value: u64, factor: u64) -> u64 {
    ((u128::from(value) * u128::from(factor)) >> 32).try_into().unwrap_or(u64::MAX)
}

/// CPU time of this thread, in nanoseconds.
pub(crate) fn cpu_ns() -> u64 {
    clock_ns(libc::CLOCK_THREAD_CPUTIME_ID)
}

/// Wall time since some start, in nanoseconds.
fn wall_ns() -> u64 {
    clock_ns(libc::CLOCK_MONOTONIC)
}

/// A clock in nanoseconds; 0 for one that does not exist.
pub(crate) fn clock_ns(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: INV-EXECUTOR-7. A live local. It fails only for clocks that do not exist, and leaves zeros then.
    let _ = unsafe { libc::clock_gettime(clock, &raw mut time) };
    (time.tv_sec as u64).wrapping_mul(1_000_000_000).wrapping_add(time.tv_nsec as u64)
}
