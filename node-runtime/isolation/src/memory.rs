//! Memory of the secondary: limits while there is enough, and the end of one of its members when there is not.
//!
//! Memory, unlike a core, cannot be taken back in a moment: what a build has written stays until the build ends. So
//! limits keep the secondary from taking what the primary needs next, and if the machine runs low all the same, one
//! member is killed and its build returns to the queue.

use mfaas_ident::Moment;

use crate::{SettingError, check};

/// What a site decides about memory. Can be exchanged at any time ([`MemoryIsolation::set`]).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemorySettings {
    /// Available memory of the machine below which a member is killed, in bytes.
    pub low_bytes: u64,
    /// Available memory of the machine that limits leave to it, in bytes, above `low_bytes`.
    pub high_bytes: u64,
    /// What the secondary has at most however much is available, in bytes.
    pub secondary_bytes_max: u64,
    /// By how much a limit must be wrong before it is written again, in bytes; limits are multiples of it.
    pub step_bytes: u64,
    /// How long more must have been available before a limit is raised, in microseconds, 1 to 600 s.
    pub raise_after_us: u64,
    /// How long a killed member has to give its memory back before the next one is chosen, in microseconds, 1 to 60 s.
    pub settle_us: u64,
}

impl MemorySettings {
    fn check(&self) -> Result<(), SettingError> {
        check("low_bytes", self.low_bytes, 1..=u64::MAX, "at least 1 byte")?;
        let above = self.low_bytes.saturating_add(1)..=u64::MAX;
        check("high_bytes", self.high_bytes, above, "more than low_bytes")?;
        check("step_bytes", self.step_bytes, 4096..=1 << 40, "from 4 KiB to 1 TiB")?;
        let a_step = self.step_bytes..=u64::MAX;
        check("secondary_bytes_max", self.secondary_bytes_max, a_step, "at least step_bytes")?;
        check("raise_after_us", self.raise_after_us, 1..=600_000_000, "from 1 us to 600 s")?;
        check("settle_us", self.settle_us, 1..=60_000_000, "from 1 us to 60 s")
    }
}

/// A name that the caller chose for a member.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MemberId(pub u64);

/// One thing of the secondary that can be ended alone: a build, a bulk call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Member {
    /// Its name.
    pub id: MemberId,
    /// When it began: what ran long is not thrown away for what began just now.
    pub began: Moment,
    /// Memory that its end would give back, in bytes.
    pub bytes: u64,
}

/// One look at the machine.
#[derive(Debug, Clone, Copy)]
pub struct MemorySample<'a> {
    /// When.
    pub now: Moment,
    /// Memory that programs can have without anything being swapped or killed (`MemAvailable`), in bytes.
    pub available_bytes: u64,
    /// Memory that the secondary has and that the kernel cannot reclaim (`anon`, `shmem` and `kernel` of `memory.stat`), in
    /// bytes: its page cache is available to others, and would count twice.
    pub secondary_bytes: u64,
    /// The members of the secondary.
    pub members: &'a [Member],
}

/// What is to be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MemoryAction {
    /// No limit on the secondary.
    Lift,
    /// Limits of the secondary as a whole.
    Limit {
        /// Beyond it the kernel reclaims and slows the secondary down (`memory.high`), in bytes.
        high_bytes: u64,
        /// Beyond it the kernel ends it (`memory.max`), in bytes.
        max_bytes: u64,
    },
    /// End this member; its build returns to the queue and no attempt is counted.
    Kill(MemberId),
}

/// Limits in force.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Limits {
    high_bytes: u64,
    max_bytes: u64,
}

impl Limits {
    fn lower_of(self, other: Self) -> Self {
        Self {
            high_bytes: self.high_bytes.min(other.high_bytes),
            max_bytes: self.max_bytes.min(other.max_bytes),
        }
    }
}

/// The state machine of one machine.
#[derive(Debug, Clone)]
pub struct MemoryIsolation {
    settings: MemorySettings,
    is_engaged: bool,
    limits: Option<Limits>,
    /// Since when every sample would have raised the limits, and the lowest that they would have been raised to.
    raise: Option<(Moment, Limits)>,
    killed_at: Option<Moment>,
}

impl MemoryIsolation {
    /// Nothing is limited yet; the first step limits.
    pub fn new(settings: MemorySettings) -> Result<Self, SettingError> {
        settings.check()?;
        Ok(Self { settings, is_engaged: true, limits: None, raise: None, killed_at: None })
    }

    /// Other settings, which the next step follows. Refused ones change nothing.
    pub fn set(&mut self, settings: MemorySettings) -> Result<(), SettingError> {
        settings.check()?;
        self.settings = settings;
        self.raise = None;
        Ok(())
    }

    /// The kill switch: no limits and no kills until [`Self::engage`].
    pub fn lift(&mut self) -> MemoryAction {
        self.is_engaged = false;
        self.limits = None;
        self.raise = None;
        self.killed_at = None;
        MemoryAction::Lift
    }

    /// Isolates again from the next step on.
    pub fn engage(&mut self) {
        self.is_engaged = true;
    }

    /// What is to be done now, or nothing. A kill comes alone: limits are decided again by the next step.
    pub fn step(&mut self, sample: &MemorySample<'_>) -> Option<MemoryAction> {
        if !self.is_engaged {
            return None;
        }
        self.kill(sample).or_else(|| self.limit(sample))
    }

    /// The member to be killed where memory is low, or the secondary has more than it may.
    fn kill(&mut self, sample: &MemorySample<'_>) -> Option<MemoryAction> {
        let missing = self.settings.low_bytes.saturating_sub(sample.available_bytes);
        let excess = sample.secondary_bytes.saturating_sub(self.settings.secondary_bytes_max);
        if missing.max(excess) == 0 {
            return None;
        }
        // A machine that is short of memory is none whose limits rise.
        self.raise = None;
        if self.killed_at.is_some_and(|at| sample.now.since(at) < self.settings.settle_us) {
            return None;
        }
        let victim = victim(sample.members, missing.max(excess))?;
        self.killed_at = Some(sample.now);
        Some(MemoryAction::Kill(victim))
    }

    /// Limits under which the machine keeps its watermarks even if the secondary takes all that it may. They
    /// fall at once, and rise when all samples of a while agreed.
    fn limit(&mut self, sample: &MemorySample<'_>) -> Option<MemoryAction> {
        let wanted = self.wanted(sample);
        let Some(limits) = self.limits else { return Some(self.put(wanted)) };
        if wanted.max_bytes < limits.max_bytes || wanted.high_bytes < limits.high_bytes {
            return Some(self.put(wanted.lower_of(limits)));
        }
        let (since, lowest) = self.raise.unwrap_or((sample.now, wanted));
        let lowest = wanted.lower_of(lowest);
        if lowest == limits {
            self.raise = None;
            return None;
        }
        self.raise = Some((since, lowest));
        (sample.now.since(since) >= self.settings.raise_after_us).then(|| self.put(lowest))
    }

    fn put(&mut self, limits: Limits) -> MemoryAction {
        self.raise = None;
        self.limits = Some(limits);
        MemoryAction::Limit { high_bytes: limits.high_bytes, max_bytes: limits.max_bytes }
    }

    /// Below `high_bytes` the secondary is slowed down and its caches are reclaimed. `max_bytes` is never
    /// below what it holds: the kernel would choose what it ends, and we choose better.
    fn wanted(&self, sample: &MemorySample<'_>) -> Limits {
        let step = self.settings.step_bytes;
        let most = self.settings.secondary_bytes_max / step * step;
        let all = sample.secondary_bytes.saturating_add(sample.available_bytes);
        let leaving = |watermark: u64| (all.saturating_sub(watermark) / step * step).clamp(step, most);
        let held = sample.secondary_bytes.div_ceil(step).saturating_mul(step);
        Limits {
            high_bytes: leaving(self.settings.high_bytes),
            max_bytes: leaving(self.settings.low_bytes).max(held.min(most)),
        }
    }
}

/// The youngest of those whose memory is enough, since its end throws away the least; the largest where no
/// single one is enough. Members without memory are never it.
fn victim(members: &[Member], missing_bytes: u64) -> Option<MemberId> {
    let enough = members.iter().filter(|member| member.bytes >= missing_bytes.max(1));
    let youngest = enough.max_by_key(|member| (member.began, member.bytes, member.id));
    let largest =
        || members.iter().filter(|member| member.bytes > 0).max_by_key(|m| (m.bytes, m.began, m.id));
    youngest.or_else(largest).map(|member| member.id)
}

#[cfg(test)]
mod tests;
