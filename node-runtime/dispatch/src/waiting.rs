//! Jobs that wait, as far as they are counted: how many there are, of whom, and when the first has waited too long.

use crate::{Limits, Moment};

/// Bounds of what a refused caller is asked to wait, in seconds.
const RETRY_AFTER_S: std::ops::RangeInclusive<u64> = 1..=30;
/// What waits is looked through at most once in this time, in microseconds: callers choose deadlines,
/// and must not choose how often that costs.
const EXPIRY_PAUSE_US: u64 = 1_000;

/// The counts.
#[derive(Debug)]
pub(crate) struct Waiting {
    all: usize,
    /// Of these, calls that were suspended before: they were accepted when there was room, and are bounded as suspended calls are.
    resumed: usize,
    by_tenant: Vec<u32>,
    /// None expires before this.
    earliest: Moment,
    /// When what waits was looked through last.
    expired_at: Moment,
    /// What calls took lately, in microseconds.
    run_us_average: u64,
}

impl Default for Waiting {
    fn default() -> Self {
        let (all, resumed, by_tenant, run_us_average) = Default::default();
        Self { all, resumed, by_tenant, earliest: Moment::NEVER, expired_at: Moment(0), run_us_average }
    }
}

impl Waiting {
    /// Jobs that wait.
    pub(crate) fn all(&self) -> usize {
        self.all
    }

    /// From now on jobs of this tenant may wait.
    pub(crate) fn ensure_tenant(&mut self, tenant: u32) {
        let tenants = tenant as usize + 1;
        if self.by_tenant.len() < tenants {
            self.by_tenant.resize(tenants, 0);
        }
    }

    /// Whether no further job of the tenant may wait.
    pub(crate) fn is_full(&self, tenant: u32, limits: &Limits) -> bool {
        let of_tenant = self.by_tenant[tenant as usize] as usize;
        of_tenant >= limits.waiting_per_tenant || self.all - self.resumed >= limits.waiting_max
    }

    /// A job begins to wait.
    pub(crate) fn add(&mut self, tenant: u32, expires: Moment, was_suspended: bool) {
        self.all += 1;
        self.resumed += usize::from(was_suspended);
        self.by_tenant[tenant as usize] += 1;
        self.earliest = self.earliest.min(expires);
    }

    /// A job waits no more.
    pub(crate) fn remove(&mut self, tenant: u32, was_suspended: bool) {
        self.all -= 1;
        self.resumed -= usize::from(was_suspended);
        self.by_tenant[tenant as usize] -= 1;
    }

    /// When what waits is looked through next.
    pub(crate) fn expiry_due(&self) -> Moment {
        if self.all == 0 {
            return Moment::NEVER;
        }
        self.earliest.max(self.expired_at.plus(EXPIRY_PAUSE_US))
    }

    /// What waits was looked through: none of the rest expires before `earliest`.
    pub(crate) fn looked_through(&mut self, now: Moment, earliest: Moment) {
        (self.expired_at, self.earliest) = (now, earliest);
    }

    /// A call took so long, in microseconds.
    #[inline]
    pub(crate) fn ran(&mut self, run_us: u64) {
        self.run_us_average = self.run_us_average.saturating_mul(15).saturating_add(run_us) / 16;
    }

    /// The time in which so many workers work off what waits at the pace of late, in whole seconds.
    pub(crate) fn retry_after_s(&self, workers: usize) -> u32 {
        let us = self.run_us_average.saturating_mul(self.all as u64) / workers.max(1) as u64;
        let seconds = us.div_ceil(1_000_000).clamp(*RETRY_AFTER_S.start(), *RETRY_AFTER_S.end());
        u32::try_from(seconds).unwrap_or(u32::MAX)
    }
}
