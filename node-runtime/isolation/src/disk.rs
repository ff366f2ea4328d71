//! A disk that several groups of processes share: deficit weighted round robin over what they were measured to do.
//!
//! The paper (section 4.1) throttles I/O from outside of the kernel's queues: it measures each group, and shares
//! the disk by weights, with a minimum for each. We cannot order requests, only set rates, so a round is an interval, and:
//!
//! - cost is **device time**: I/Os and bytes are fractions of what the disk does of each, and the larger counts;
//! - a group that could have done more (it was near its limit) is *backlogged*; others get what they use and some
//!   headroom, and what they leave goes to backlogged ones by weight (max-min);
//! - the quantum of a round is that share. What a backlogged group did less than its quantum it may do
//!   later, what it did more it pays back: its *deficit*, bounded, and zero when it is not backlogged, as in
//!   Shreedhar and Varghese's deficit round robin;
//! - whatever the deficit says, no group gets less than its minimum, and the primary is never limited: what it
//!   uses, and at least its minimum, is set aside first.

use mfaas_ident::Moment;

use crate::{SettingError, check};

/// Groups of a disk, the primary among them, at most.
pub const DISK_GROUPS_MAX: usize = 64;
/// A group that did this much of its limit could have done more.
const BACKLOGGED: f64 = 0.9;
/// What a group that is not backlogged may do beyond what it does, so that it can become backlogged.
const HEADROOM: f64 = 1.25;
/// What reads and writes each keep of a group's share when it does only the other.
const DIRECTION_MIN: f64 = 0.1;
/// Limits that differ by less than this part are not written again, and what a group did otherwise than its quantum by less
/// is not booked: small errors that add up would move the limits for ever.
const SAME: f64 = 0.05;

/// I/Os and bytes of one second, reads and writes together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DiskRate {
    /// I/Os a second.
    pub iops: u64,
    /// Bytes a second.
    pub bytes_per_s: u64,
}

/// A group of processes on the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DiskGroup {
    /// Its part of what is shared, beside the weights of the others, 1 to 10,000 as in `io.weight`.
    pub weight: u32,
    /// What it can always have: at least 1 I/O and 64 KiB a second, or it could not begin, unless it is the
    /// primary.
    pub minimum: DiskRate,
    /// The primary: set aside, never limited.
    pub is_primary: bool,
}

/// What a site decides about a disk. Can be exchanged at any time ([`DiskIsolation::set`]).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DiskSettings {
    /// What the disk does at most; measure it, or take what its vendor says.
    pub capacity: DiskRate,
    /// The groups, 1 to [`DISK_GROUPS_MAX`]; what is measured and decided has their order. Their minimums together are not more than
    /// the disk.
    pub groups: Vec<DiskGroup>,
    /// How much of the disk's time a deficit can be, in microseconds, 1 ms to 60 s.
    pub deficit_us_max: u64,
}

impl DiskSettings {
    fn check(&self) -> Result<(), SettingError> {
        let rates = 1..=u64::MAX >> 1;
        check("capacity.iops", self.capacity.iops, rates.clone(), "at least 1 a second")?;
        check("capacity.bytes_per_s", self.capacity.bytes_per_s, rates, "at least 1 a second")?;
        check("groups", self.groups.len() as u64, 1..=DISK_GROUPS_MAX as u64, "from 1 to 64 groups")?;
        for group in &self.groups {
            check("weight", u64::from(group.weight), 1..=10_000, "from 1 to 10000")?;
            if !group.is_primary {
                check("minimum.iops", group.minimum.iops, 1..=u64::MAX, "at least 1 a second")?;
                let rule = "at least 65536 a second";
                check("minimum.bytes_per_s", group.minimum.bytes_per_s, 65_536..=u64::MAX, rule)?;
            }
        }
        let sum = |of: fn(&DiskGroup) -> u64| self.groups.iter().map(of).fold(0, u64::saturating_add);
        let rule = "together not more than the capacity of the disk";
        check("minimum.iops", sum(|group| group.minimum.iops), 0..=self.capacity.iops, rule)?;
        let bytes = sum(|group| group.minimum.bytes_per_s);
        check("minimum.bytes_per_s", bytes, 0..=self.capacity.bytes_per_s, rule)?;
        // Time of the disk is what is shared, and a group's minimum is the larger of two fractions.
        let parts: f64 = self.groups.iter().map(|group| self.time_of(group.minimum)).sum();
        let rule = "together not more than 1000 thousandths of the disk's time";
        check("minimum", (parts * 1000.0).round() as u64, 0..=1000, rule)?;
        check("deficit_us_max", self.deficit_us_max, 1_000..=60_000_000, "from 1 ms to 60 s")
    }

    /// The part of the disk that a rate takes.
    fn time_of(&self, rate: DiskRate) -> f64 {
        let iops = rate.iops as f64 / self.capacity.iops as f64;
        iops.max(rate.bytes_per_s as f64 / self.capacity.bytes_per_s as f64)
    }
}

/// What a group did since the sample before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DiskUse {
    /// Reads.
    pub reads: u64,
    /// Writes.
    pub writes: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Bytes written.
    pub written_bytes: u64,
}

/// What a group may do a second: the four numbers of `io.max`, and of the throttle files of cgroup v1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DiskLimit {
    /// Reads.
    pub read_iops: u64,
    /// Writes.
    pub write_iops: u64,
    /// Bytes read.
    pub read_bytes_per_s: u64,
    /// Bytes written.
    pub write_bytes_per_s: u64,
}

/// What is known of a group between two rounds.
#[derive(Debug, Clone, Copy, Default)]
struct Account {
    /// The quantum of the round that runs, as a part of the disk's time; none before the first.
    quantum: Option<f64>,
    /// Time of the disk, in seconds, that it may use beyond its quantum, or owes where negative.
    deficit_s: f64,
    /// The limit in force.
    limit: Option<DiskLimit>,
}

/// A group's round that has ended.
#[derive(Debug, Clone, Copy)]
struct Round {
    /// The part of the disk's time that it used.
    used: f64,
    /// Whether it was near its limit, and could have done more.
    is_backlogged: bool,
    /// The part of its I/Os, and of its bytes, that were reads.
    read_ios: f64,
    read_bytes: f64,
}

/// The state machine of one disk.
#[derive(Debug, Clone)]
pub struct DiskIsolation {
    settings: DiskSettings,
    is_engaged: bool,
    measured_at: Option<Moment>,
    accounts: Vec<Account>,
}

impl DiskIsolation {
    /// Nothing is limited yet; the second step limits, since rates need an interval.
    pub fn new(settings: DiskSettings) -> Result<Self, SettingError> {
        settings.check()?;
        let accounts = vec![Account::default(); settings.groups.len()];
        Ok(Self { settings, is_engaged: true, measured_at: None, accounts })
    }

    /// Other settings; deficits are forgotten. Refused ones change nothing.
    pub fn set(&mut self, settings: DiskSettings) -> Result<(), SettingError> {
        settings.check()?;
        self.accounts = vec![Account::default(); settings.groups.len()];
        self.settings = settings;
        Ok(())
    }

    /// The kill switch: the caller lifts the limits of all groups, and none comes until [`Self::engage`].
    pub fn lift(&mut self) {
        self.is_engaged = false;
        self.measured_at = None;
        self.accounts.fill(Account::default());
    }

    /// Isolates again from the next interval on.
    pub fn engage(&mut self) {
        self.is_engaged = true;
    }

    /// Limits to be written, by the index of their group. `uses` has what each group did since the step before; one that
    /// is missing did nothing.
    pub fn step(&mut self, now: Moment, uses: &[DiskUse]) -> Vec<(usize, DiskLimit)> {
        if !self.is_engaged {
            return Vec::new();
        }
        let before = self.measured_at.replace(now);
        let interval_s = before.map_or(0.0, |at| now.since(at) as f64 / 1e6);
        if interval_s == 0.0 {
            return Vec::new();
        }
        let rounds: Vec<Round> = (0..self.accounts.len())
            .map(|group| self.round(group, uses.get(group).copied().unwrap_or_default(), interval_s))
            .collect();
        self.settle(&rounds, interval_s);
        let capacity = self.capacity(&rounds);
        let quanta = self.quanta(&rounds, capacity);
        let granted = self.granted(&quanta, capacity);
        self.put(&rounds, &quanta, &granted)
    }

    fn round(&self, group: usize, did: DiskUse, interval_s: f64) -> Round {
        let per_s = |count: u64| count as f64 / interval_s;
        let ios = per_s(did.reads.saturating_add(did.writes)) / self.settings.capacity.iops as f64;
        let bytes = did.read_bytes.saturating_add(did.written_bytes);
        let bytes_part = per_s(bytes) / self.settings.capacity.bytes_per_s as f64;
        let is_near = |count: u64, limit: u64| per_s(count) >= BACKLOGGED * limit as f64;
        let is_backlogged = self.accounts[group].limit.is_some_and(|limit| {
            is_near(did.reads, limit.read_iops)
                || is_near(did.writes, limit.write_iops)
                || is_near(did.read_bytes, limit.read_bytes_per_s)
                || is_near(did.written_bytes, limit.write_bytes_per_s)
        });
        Round {
            used: ios.max(bytes_part),
            is_backlogged,
            read_ios: part(did.reads, did.writes),
            read_bytes: part(did.read_bytes, did.written_bytes),
        }
    }

    /// Books what each group did against its quantum.
    fn settle(&mut self, rounds: &[Round], interval_s: f64) {
        let most_s = self.horizon_s();
        for (account, round) in self.accounts.iter_mut().zip(rounds) {
            account.deficit_s = match account.quantum {
                Some(quantum) if round.is_backlogged && (quantum - round.used).abs() <= SAME * quantum => {
                    account.deficit_s
                }
                Some(quantum) if round.is_backlogged => {
                    let deficit_s = account.deficit_s + (quantum - round.used) * interval_s;
                    deficit_s.clamp(-most_s, most_s)
                }
                Some(_) | None => 0.0,
            };
        }
    }

    /// What is left of the disk beside the primary; those that are limited have their minimums even if it is less.
    fn capacity(&self, rounds: &[Round]) -> f64 {
        let groups = self.settings.groups.iter().zip(rounds);
        let primary: f64 = groups
            .filter(|(group, _)| group.is_primary)
            .map(|(group, round)| self.settings.time_of(group.minimum).max(round.used * HEADROOM))
            .sum();
        (1.0 - primary).max(0.0)
    }

    /// Those that are limited, with their minimums as parts of the disk's time.
    fn limited(&self) -> impl Iterator<Item = (usize, f64)> + '_ {
        let groups = self.settings.groups.iter().enumerate();
        groups
            .filter(|(_, group)| !group.is_primary)
            .map(|(index, group)| (index, self.settings.time_of(group.minimum)))
    }

    /// Max-min shares by weight: none is above its demand, none below its minimum. 0 for the primary.
    fn quanta(&self, rounds: &[Round], capacity: f64) -> Vec<f64> {
        let mut quanta = vec![0.0; rounds.len()];
        let weight = |group: usize| f64::from(self.settings.groups[group].weight);
        let demand = |group: usize| {
            let round = &rounds[group];
            if round.is_backlogged { capacity } else { (round.used * HEADROOM).min(capacity) }
        };
        let share = |level: f64, group: usize, minimum: f64| {
            (level * weight(group)).clamp(minimum, demand(group).max(minimum))
        };
        // The shares grow with the level, so the one at which they are the capacity is found by halving. At
        // the upper end each has all that it wants.
        let (mut low, mut high) = (0.0, capacity);
        let total =
            |level: f64| self.limited().map(|(group, minimum)| share(level, group, minimum)).sum::<f64>();
        if total(high) > capacity {
            for _ in 0..f64::MANTISSA_DIGITS {
                let middle = (low + high) / 2.0;
                if total(middle) > capacity { high = middle } else { low = middle }
            }
        } else {
            low = high;
        }
        for (group, minimum) in self.limited() {
            quanta[group] = share(low, group, minimum);
        }
        quanta
    }

    /// Quanta with what deficits add and take, which a group makes up for within [`Self::horizon_s`]. Together not more than the
    /// capacity: what is too much is taken from what is above the minimums.
    fn granted(&self, quanta: &[f64], capacity: f64) -> Vec<f64> {
        let mut granted = vec![0.0; quanta.len()];
        let (mut minimums, mut above) = (0.0, 0.0);
        for (group, minimum) in self.limited() {
            let wanted = quanta[group] + self.accounts[group].deficit_s / self.horizon_s();
            granted[group] = wanted.clamp(minimum, capacity.max(minimum));
            minimums += minimum;
            above += granted[group] - minimum;
        }
        let scale = if above > 0.0 { ((capacity - minimums) / above).clamp(0.0, 1.0) } else { 1.0 };
        for (group, minimum) in self.limited() {
            granted[group] = minimum + (granted[group] - minimum) * scale;
        }
        granted
    }

    /// Notes the round that begins, and says which limits it changes.
    fn put(&mut self, rounds: &[Round], quanta: &[f64], granted: &[f64]) -> Vec<(usize, DiskLimit)> {
        let mut changed = Vec::new();
        for (group, _) in self.limited().collect::<Vec<_>>() {
            let limit = self.limit(group, &rounds[group], granted[group]);
            let account = &mut self.accounts[group];
            account.quantum = Some(quanta[group]);
            if account.limit.is_none_or(|in_force| !is_same(in_force, limit)) {
                account.limit = Some(limit);
                changed.push((group, limit));
            }
        }
        changed
    }

    /// Parts of the disk's time as the numbers of the kernel, which counts reads and writes apart: each gets its
    /// part of what was measured. A group that turns from one to the other has its minimum of both, so reads and
    /// writes together may be that much above what was granted; its deficit pays for it.
    fn limit(&self, group: usize, round: &Round, granted: f64) -> DiskLimit {
        let minimum = self.settings.groups[group].minimum;
        let rate = |part: f64, capacity: u64, minimum: u64| {
            ((granted * part.max(DIRECTION_MIN) * capacity as f64).ceil() as u64).max(minimum)
        };
        let capacity = self.settings.capacity;
        let (reads, bytes) = (round.read_ios, round.read_bytes);
        DiskLimit {
            read_iops: rate(reads, capacity.iops, minimum.iops),
            write_iops: rate(1.0 - reads, capacity.iops, minimum.iops),
            read_bytes_per_s: rate(bytes, capacity.bytes_per_s, minimum.bytes_per_s),
            write_bytes_per_s: rate(1.0 - bytes, capacity.bytes_per_s, minimum.bytes_per_s),
        }
    }

    /// The time in which a deficit is made up for, which is the largest deficit too, in seconds.
    fn horizon_s(&self) -> f64 {
        self.settings.deficit_us_max as f64 / 1e6
    }
}

/// What part of both `reads` are; half of nothing.
fn part(reads: u64, writes: u64) -> f64 {
    match reads.saturating_add(writes) {
        0 => 0.5,
        both => reads as f64 / both as f64,
    }
}

/// Whether it is not worth a write to the kernel.
fn is_same(a: DiskLimit, b: DiskLimit) -> bool {
    let pairs = [
        (a.read_iops, b.read_iops),
        (a.write_iops, b.write_iops),
        (a.read_bytes_per_s, b.read_bytes_per_s),
        (a.write_bytes_per_s, b.write_bytes_per_s),
    ];
    pairs.iter().all(|(a, b)| a.abs_diff(*b) as f64 <= SAME * *a as f64)
}

#[cfg(test)]
mod tests;
