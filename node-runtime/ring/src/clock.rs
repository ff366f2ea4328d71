//! Time as the processor counts it: a number that two processes on one machine read without a
//! system call and mean the same by.
//!
//! On x86-64 with an invariant time-stamp counter a tick is one of that counter, read in about
//! 10 ns. Elsewhere a tick is a nanosecond of `CLOCK_MONOTONIC`, behind the same functions. The node measures the
//! rate once and hands it to each worker in the ring's header.
//!
//! A tick says nothing about CPU time: it goes on while another process runs.

use std::sync::OnceLock;
use std::time::Duration;

use rustix::thread::ClockId;

use crate::RingError;

/// How long the rate is measured. The two readings are some 50 ns uncertain, so it is right to about 10 in a million.
const MEASURE_FOR: Duration = Duration::from_millis(5);
/// Pairs of readings of which the closest counts: an interrupt between the two would show as a wide one.
const READINGS: u32 = 16;
/// 0.1 to 20 ticks in a nanosecond; no processor counts slower or faster.
const TICKS_PER_MS_MIN: u64 = 100_000;
const TICKS_PER_MS_MAX: u64 = 20_000_000;
const NS_PER_MS: u64 = 1_000_000;

/// What ticks count here.
#[repr(u64)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// The processor's invariant time-stamp counter.
    TimeStampCounter = 1,
    /// Nanoseconds of `CLOCK_MONOTONIC`.
    Monotonic = 2,
}

/// Ticks now.
pub fn ticks() -> u64 {
    reader()()
}

/// [`ticks`] without the choice, for who reads it often.
pub fn reader() -> fn() -> u64 {
    match source() {
        Source::TimeStampCounter => processor::counter,
        Source::Monotonic => monotonic_ns,
    }
}

/// What [`ticks`] counts on this machine: decided once, the same in every process.
pub fn source() -> Source {
    static SOURCE: OnceLock<Source> = OnceLock::new();
    *SOURCE.get_or_init(
        || {
            if processor::is_invariant() { Source::TimeStampCounter } else { Source::Monotonic }
        },
    )
}

/// How many ticks make a unit of time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rate {
    ticks_per_ms: u64,
    /// Nanoseconds of a tick, times 2³².
    ns_per_tick: u64,
}

impl Rate {
    /// This machine's rate. The first call takes some milliseconds, all later ones nothing.
    pub fn measured() -> Self {
        static RATE: OnceLock<Rate> = OnceLock::new();
        *RATE.get_or_init(|| match source() {
            Source::TimeStampCounter => Self::measure(),
            Source::Monotonic => Self::of_sane(NS_PER_MS),
        })
    }

    /// A rate that another process measured. A number that no clock has is a violation.
    pub fn from_ticks_per_ms(ticks_per_ms: u64) -> Result<Self, RingError> {
        if (TICKS_PER_MS_MIN..=TICKS_PER_MS_MAX).contains(&ticks_per_ms) {
            Ok(Self::of_sane(ticks_per_ms))
        } else {
            Err(RingError::Violation("a clock that no machine has"))
        }
    }

    /// Ticks in a millisecond.
    pub fn ticks_per_ms(self) -> u64 {
        self.ticks_per_ms
    }

    /// Ticks of so many microseconds, at most `u64::MAX`.
    pub fn ticks_of_us(self, us: u64) -> u64 {
        let ticks = u128::from(us) * u128::from(self.ticks_per_ms) / 1_000;
        u64::try_from(ticks).unwrap_or(u64::MAX)
    }

    /// Ticks of a duration, at most `u64::MAX`.
    pub fn ticks_of(self, time: Duration) -> u64 {
        let ticks = time.as_nanos().saturating_mul(u128::from(self.ticks_per_ms)) / u128::from(NS_PER_MS);
        u64::try_from(ticks).unwrap_or(u64::MAX)
    }

    /// Nanoseconds of so many ticks, at most `u64::MAX`: one multiplication.
    pub fn ns_of(self, ticks: u64) -> u64 {
        let ns = (u128::from(ticks) * u128::from(self.ns_per_tick)) >> 32;
        u64::try_from(ns).unwrap_or(u64::MAX)
    }

    fn of_sane(ticks_per_ms: u64) -> Self {
        Self { ticks_per_ms, ns_per_tick: (NS_PER_MS << 32) / ticks_per_ms }
    }

    fn measure() -> Self {
        let (ticks_before, ns_before) = closest_reading();
        std::thread::sleep(MEASURE_FOR);
        let (ticks_after, ns_after) = closest_reading();
        let ticks = u128::from(ticks_after.wrapping_sub(ticks_before)) * u128::from(NS_PER_MS);
        let ticks_per_ms = ticks / u128::from((ns_after - ns_before).max(1));
        let clamped = ticks_per_ms.clamp(u128::from(TICKS_PER_MS_MIN), u128::from(TICKS_PER_MS_MAX));
        Self::of_sane(clamped as u64)
    }
}

/// The counter and the kernel's clock at one moment, as nearly as they can be read.
fn closest_reading() -> (u64, u64) {
    let reading = |_| {
        let before = processor::counter();
        let ns = monotonic_ns();
        let after = processor::counter();
        (after.wrapping_sub(before), before.wrapping_add(after.wrapping_sub(before) / 2), ns)
    };
    let closest = (0..READINGS).map(reading).min();
    closest.map_or((0, 0), |(_, ticks, ns)| (ticks, ns))
}

fn monotonic_ns() -> u64 {
    let now = rustix::time::clock_gettime(ClockId::Monotonic);
    now.tv_sec.unsigned_abs() * 1_000_000_000 + now.tv_nsec.unsigned_abs()
}

#[cfg(target_arch = "x86_64")]
mod processor {
    //! The time-stamp counter.

    /// Largest extended leaf, and the leaf about power management (AMD APM vol. 3 E.4, Intel SDM vol. 3 18.17.1).
    const EXTENDED_MAX: u32 = 0x8000_0000;
    const POWER: u32 = 0x8000_0007;
    const INVARIANT_BIT: u32 = 1 << 8;

    pub(super) fn counter() -> u64 {
        // SAFETY: INV-RING-5. Every x86-64 processor has the counter.
        unsafe { core::arch::x86_64::_rdtsc() }
    }

    /// Whether the counter runs at one rate in all states of the processor, and alike on all cores.
    pub(super) fn is_invariant() -> bool {
        let max = core::arch::x86_64::__cpuid(EXTENDED_MAX).eax;
        max >= POWER && core::arch::x86_64::__cpuid(POWER).edx & INVARIANT_BIT != 0
    }
}

#[cfg(not(target_arch = "x86_64"))]
mod processor {
    //! No counter that this crate knows.

    pub(super) fn counter() -> u64 {
        0
    }

    pub(super) fn is_invariant() -> bool {
        false
    }
}
