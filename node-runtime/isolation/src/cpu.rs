//! CPU blind isolation: B cores are always idle for the primary to wake up on, what is left is lent to the secondary.
//!
//! Section 3.1 of the paper: with I idle cores, B buffer cores and S cores of the secondary, S shrinks when
//! I < B and grows when I > B, and nobody needs to know how long queries take or how many threads they have. Of N allowed cores,
//! `busy` of which run anything but the secondary, it may have S = N − busy − B; that is computed, not
//! approached step by step. It shrinks at once, because a burst is a matter of microseconds, and grows by what was
//! idle in every sample of a while, because a change of limits costs tens of microseconds and a burst is rarely alone.
//!
//! Idle cores are counted outside of S: a core that is lent and happens to be idle may be taken
//! by the secondary at any moment, so nobody can rely on it.

use mfaas_ident::Moment;

use crate::cores::{CORES_MAX, CoreSet};
use crate::siblings::Siblings;
use crate::{SettingError, check};

/// What a site decides about cores. Can be exchanged at any time ([`CpuIsolation::set`]).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CpuSettings {
    /// B: cores that stay idle for the primary to wake up on, at most [`CORES_MAX`]. None where what the secondary runs gives
    /// its core away at once, and cores are few.
    pub buffer_cores: usize,
    /// Cores that the secondary has at most, 1 to [`CORES_MAX`].
    pub secondary_cores_max: usize,
    /// How long more than B cores must have been idle in every sample before S grows, in microseconds, 1 to
    /// 60 s.
    pub grow_after_us: u64,
    /// How long the primary must have been seen in every sample on a core of the secondary before the secondary
    /// leaves that core, in microseconds, at most 60 s. Not 0 where kernel threads count as primary: they
    /// work a few microseconds at a time for the secondary itself.
    pub yield_after_us: u64,
}

/// The longest wait of the settings, a minute in microseconds.
const WAIT_US_MAX: u64 = 60_000_000;

impl CpuSettings {
    fn check(&self) -> Result<(), SettingError> {
        let cores = 1..=CORES_MAX as u64;
        check("buffer_cores", self.buffer_cores as u64, 0..=CORES_MAX as u64, "at most 1024 cores")?;
        check("secondary_cores_max", self.secondary_cores_max as u64, cores, "from 1 to 1024 cores")?;
        check("grow_after_us", self.grow_after_us, 1..=WAIT_US_MAX, "from 1 us to 60 s")?;
        check("yield_after_us", self.yield_after_us, 0..=WAIT_US_MAX, "at most 60 s")
    }
}

/// What the cores did when they were looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Occupancy {
    /// Cores that run anything but the secondary: what a machine says that knows whose each thread is.
    Busy(CoreSet),
    /// Cores that run nothing at all. Then what is not idle in S is taken for the secondary.
    Idle(CoreSet),
}

/// One look at the machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CpuSample {
    /// When.
    pub now: Moment,
    /// Cores that primary and secondary share; others are nobody's business here.
    pub allowed: CoreSet,
    /// What they did.
    pub occupancy: Occupancy,
}

/// What the secondary may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CpuLimit {
    /// All cores, thawed: as if there were no isolation.
    Lifted,
    /// These cores, at least one, thawed.
    Cores(CoreSet),
    /// None: a cpuset cannot be empty, so its group is frozen.
    Frozen,
}

/// Surplus of idle cores since when, and how much of it was there all the time.
#[derive(Debug, Clone, Copy)]
struct Surplus {
    since: Moment,
    fewest: usize,
}

/// The state machine of one machine. A step costs one to two microseconds and allocates only when S changes.
#[derive(Debug, Clone)]
pub struct CpuIsolation {
    settings: CpuSettings,
    siblings: Siblings,
    is_engaged: bool,
    limit: CpuLimit,
    surplus: Option<Surplus>,
    busy: CoreSet,
    /// By core: since when every sample has seen it busy, or has not.
    unchanged_since: Vec<Moment>,
}

impl CpuIsolation {
    /// Nothing is limited yet; the first step limits.
    pub fn new(settings: CpuSettings, siblings: Siblings) -> Result<Self, SettingError> {
        settings.check()?;
        Ok(Self {
            settings,
            siblings,
            is_engaged: true,
            limit: CpuLimit::Lifted,
            surplus: None,
            busy: CoreSet::EMPTY,
            unchanged_since: vec![Moment::default(); CORES_MAX],
        })
    }

    /// What the secondary may have by the last decision.
    pub fn limit(&self) -> CpuLimit {
        self.limit
    }

    /// Other settings, which the next step follows. Refused ones change nothing.
    pub fn set(&mut self, settings: CpuSettings) -> Result<(), SettingError> {
        settings.check()?;
        self.settings = settings;
        self.surplus = None;
        Ok(())
    }

    /// The kill switch: everything is lifted and stays lifted until [`Self::engage`].
    pub fn lift(&mut self) -> CpuLimit {
        self.is_engaged = false;
        self.surplus = None;
        self.limit = CpuLimit::Lifted;
        self.limit
    }

    /// Isolates again from the next step on.
    pub fn engage(&mut self) {
        self.is_engaged = true;
    }

    /// The new limit of the secondary, or nothing if it stays as it is.
    pub fn step(&mut self, sample: &CpuSample) -> Option<CpuLimit> {
        let lent = self.lent(&sample.allowed);
        let busy = self.busy_of(sample);
        self.note(sample.now, &busy);
        if !self.is_engaged {
            return None;
        }
        let cores = self.decide(sample, &busy, &lent);
        let limit = if cores.is_empty() { CpuLimit::Frozen } else { CpuLimit::Cores(cores) };
        (limit != self.limit).then(|| {
            self.limit = limit;
            limit
        })
    }

    /// S as it is: everything, where nothing is limited.
    fn lent(&self, allowed: &CoreSet) -> CoreSet {
        match self.limit {
            CpuLimit::Lifted => *allowed,
            CpuLimit::Cores(cores) => cores,
            CpuLimit::Frozen => CoreSet::EMPTY,
        }
    }

    /// Cores that run anything but the secondary. Where only idle ones are known and nothing is limited, all that
    /// run count: the primary must not wait for us to learn whose they are.
    fn busy_of(&self, sample: &CpuSample) -> CoreSet {
        match (sample.occupancy, self.limit) {
            (Occupancy::Busy(busy), _) => busy.intersection(&sample.allowed),
            (Occupancy::Idle(idle), CpuLimit::Cores(lent)) => {
                sample.allowed.difference(&idle).difference(&lent)
            }
            (Occupancy::Idle(idle), CpuLimit::Lifted | CpuLimit::Frozen) => sample.allowed.difference(&idle),
        }
    }

    /// Remembers since when each core is busy or not.
    fn note(&mut self, now: Moment, busy: &CoreSet) {
        for core in busy.difference(&self.busy).iter().chain(self.busy.difference(busy).iter()) {
            self.unchanged_since[core] = now;
        }
        self.busy = *busy;
    }

    /// S as it should be.
    fn decide(&mut self, sample: &CpuSample, busy: &CoreSet, lent: &CoreSet) -> CoreSet {
        let kept = self.tolerated(sample, lent);
        if kept != *lent {
            self.surplus = None;
        }
        let free = sample.allowed.difference(busy);
        let lendable = free.len().saturating_sub(self.settings.buffer_cores);
        let used = kept.difference(busy).len();
        let is_short = free.len() < self.settings.buffer_cores || used > lendable;
        if is_short || kept.len() > self.settings.secondary_cores_max {
            self.surplus = None;
            return self.shrunk(&kept, &free, lendable);
        }
        match self.growth(sample.now, lendable - used, self.settings.secondary_cores_max - kept.len()) {
            0 => kept,
            more => self.grown(&kept, &free, more),
        }
    }

    /// S without the cores that are not ours to lend, or on which the primary has been for too long.
    fn tolerated(&self, sample: &CpuSample, lent: &CoreSet) -> CoreSet {
        let mut kept = lent.intersection(&sample.allowed);
        if self.limit == CpuLimit::Lifted {
            return kept.difference(&self.busy);
        }
        for core in kept.intersection(&self.busy).iter() {
            if sample.now.since(self.unchanged_since[core]) >= self.settings.yield_after_us {
                kept.remove(core);
            }
        }
        kept
    }

    /// What is left of S when `lendable` of the free cores may be lent. The cores that the primary is on go first:
    /// the limit is written anyway, and something may be waiting there.
    fn shrunk(&self, kept: &CoreSet, free: &CoreSet, lendable: usize) -> CoreSet {
        let count = lendable.min(self.settings.secondary_cores_max);
        self.first_by_rank(&kept.intersection(free), count, |group| {
            if !group.is_subset(free) { 2 } else { u8::from(!group.is_subset(kept)) }
        })
    }

    /// Cores by which S grows now: what was idle beyond B in every sample of the wait.
    fn growth(&mut self, now: Moment, surplus: usize, room: usize) -> usize {
        let fewest = surplus.min(room);
        if fewest == 0 {
            self.surplus = None;
            return 0;
        }
        let held = match self.surplus {
            None => Surplus { since: now, fewest },
            Some(held) => Surplus { since: held.since, fewest: held.fewest.min(fewest) },
        };
        if now.since(held.since) < self.settings.grow_after_us {
            self.surplus = Some(held);
            return 0;
        }
        self.surplus = None;
        held.fewest
    }

    /// S and `more` of the free cores: those whose physical core is lent in part, then whole ones.
    fn grown(&self, kept: &CoreSet, free: &CoreSet, more: usize) -> CoreSet {
        let chosen = self.first_by_rank(&free.difference(kept), more, |group| {
            if !group.is_subset(free) { 2 } else { u8::from(group.intersection(kept).is_empty()) }
        });
        kept.union(&chosen)
    }

    /// The `count` best of `cores`: those of the lowest rank of their physical core, among these the ones that the
    /// primary left longest ago, with siblings side by side.
    fn first_by_rank(&self, cores: &CoreSet, count: usize, rank: impl Fn(&CoreSet) -> u8) -> CoreSet {
        if cores.len() <= count {
            return *cores;
        }
        let mut order: Vec<_> = cores
            .iter()
            .map(|core| {
                let group = self.siblings.of(core);
                let left = group.iter().map(|sibling| self.unchanged_since[sibling]).max();
                (rank(&group), left, group.iter().next(), core)
            })
            .collect();
        order.sort_unstable();
        let mut chosen = *cores;
        order[count..].iter().for_each(|(.., core)| chosen.remove(*core));
        chosen
    }
}

#[cfg(test)]
mod tests;
