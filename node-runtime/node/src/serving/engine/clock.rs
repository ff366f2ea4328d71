//! The engine's time: the scheduler's moments made of the processor's ticks, and what is done every so often.

use std::time::Duration;

use mfaas_dispatch::Moment;
use mfaas_ring::clock::{Rate, ticks};

/// The scheduler's own deadlines are milliseconds and more.
const TICK_US: u64 = 1_000;

/// The scheduler's clock.
#[derive(Debug)]
pub(super) struct Clock {
    rate: Rate,
    /// The moment 0, in ticks.
    origin: u64,
    tick: Pace,
}

impl Clock {
    pub(super) fn start() -> Self {
        let rate = Rate::measured();
        Self { rate, origin: ticks(), tick: Pace::new(rate, TICK_US) }
    }

    pub(super) fn rate(&self) -> Rate {
        self.rate
    }

    /// Now, for the scheduler.
    #[inline]
    pub(super) fn moment(&self) -> Moment {
        Moment(self.rate.ns_of(ticks().saturating_sub(self.origin)) / 1_000)
    }

    /// When `timeout` is over, in ticks.
    pub(super) fn after(&self, timeout: Duration) -> u64 {
        ticks().saturating_add(self.rate.ticks_of(timeout))
    }

    /// The time between two readings of the ticks.
    #[inline]
    pub(super) fn between(&self, from: u64, to: u64) -> Duration {
        Duration::from_nanos(self.rate.ns_of(to.saturating_sub(from)))
    }

    /// Whether the scheduler is to look at its deadlines at `now`, in ticks.
    #[inline]
    pub(super) fn is_tick_due(&mut self, now: u64) -> bool {
        self.tick.is_due(now)
    }
}

/// How often something is done at most.
#[derive(Debug)]
pub(super) struct Pace {
    /// Both in ticks.
    pause: u64,
    last: u64,
}

impl Pace {
    /// Something that is due at once, and then after `pause_us` microseconds each.
    pub(super) fn new(rate: Rate, pause_us: u64) -> Self {
        Self { pause: rate.ticks_of_us(pause_us), last: 0 }
    }

    /// Whether it is due at `now`, in ticks. Then it is not again before another pause.
    #[inline]
    pub(super) fn is_due(&mut self, now: u64) -> bool {
        let is_due = now.saturating_sub(self.last) > self.pause;
        if is_due {
            self.last = now;
        }
        is_due
    }

    /// It was done now, due or not.
    pub(super) fn restart(&mut self) {
        self.last = ticks();
    }
}
