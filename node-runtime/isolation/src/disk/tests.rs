#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use mfaas_ident::Moment;
use proptest::prelude::*;

use super::{DiskGroup, DiskIsolation, DiskLimit, DiskRate, DiskSettings, DiskUse};

/// A disk that does 10,000 I/Os and 100 MB a second, whatever they are.
const CAPACITY: DiskRate = DiskRate { iops: 10_000, bytes_per_s: 100_000_000 };
const INTERVAL_US: u64 = 100_000;

fn group(weight: u32, iops: u64) -> DiskGroup {
    DiskGroup { weight, minimum: DiskRate { iops, bytes_per_s: iops * 10_000 }, is_primary: false }
}

fn primary(iops: u64) -> DiskGroup {
    DiskGroup { is_primary: true, ..group(1, iops) }
}

fn settings(groups: &[DiskGroup]) -> DiskSettings {
    DiskSettings { capacity: CAPACITY, groups: groups.to_vec(), deficit_us_max: 1_000_000 }
}

/// I/Os a second of a group that wants them of one kind, 10,000 bytes each, so that both numbers bind alike.
#[derive(Debug, Clone, Copy)]
struct Load {
    iops: u64,
    is_reader: bool,
}

fn reads(iops: u64) -> Load {
    Load { iops, is_reader: true }
}

/// A disk on which every group does what it wants up to its limit, as the kernel's throttle lets it.
struct Disk {
    isolation: DiskIsolation,
    limits: Vec<Option<DiskLimit>>,
    now: Moment,
    writes: usize,
    /// How much more than its limit a group gets, in percent: throttles are not exact.
    slack: u64,
}

impl Disk {
    fn new(groups: &[DiskGroup]) -> Self {
        let isolation = DiskIsolation::new(settings(groups)).unwrap();
        let limits = vec![None; groups.len()];
        Self { isolation, limits, now: Moment(0), writes: 0, slack: 0 }
    }

    /// One interval; what each group did, in I/Os a second.
    fn interval(&mut self, loads: &[Load]) -> Vec<u64> {
        let did: Vec<u64> =
            loads.iter().zip(&self.limits).map(|(load, limit)| self.allowed(load, *limit)).collect();
        let uses: Vec<_> = did.iter().zip(loads).map(|(iops, load)| used(*iops, load.is_reader)).collect();
        self.now = self.now.plus(INTERVAL_US);
        for (group, limit) in self.isolation.step(self.now, &uses) {
            self.limits[group] = Some(limit);
            self.writes += 1;
        }
        did
    }

    fn allowed(&self, load: &Load, limit: Option<DiskLimit>) -> u64 {
        let Some(limit) = limit else { return load.iops };
        let (iops, bytes) = if load.is_reader {
            (limit.read_iops, limit.read_bytes_per_s)
        } else {
            (limit.write_iops, limit.write_bytes_per_s)
        };
        load.iops.min(iops.min(bytes / 10_000) * (100 + self.slack) / 100)
    }

    /// The mean of each group over `intervals`, in I/Os a second.
    fn mean(&mut self, loads: &[Load], intervals: u64) -> Vec<u64> {
        let mut sums = vec![0; loads.len()];
        for _ in 0..intervals {
            self.interval(loads).iter().zip(&mut sums).for_each(|(did, sum)| *sum += did);
        }
        sums.iter().map(|sum| sum / intervals).collect()
    }
}

/// What a rate is in an interval.
fn part_of(rate: u64) -> u64 {
    rate * INTERVAL_US / 1_000_000
}

fn used(iops: u64, is_reader: bool) -> DiskUse {
    let count = part_of(iops);
    if is_reader {
        DiskUse { reads: count, read_bytes: count * 10_000, ..DiskUse::default() }
    } else {
        DiskUse { writes: count, written_bytes: count * 10_000, ..DiskUse::default() }
    }
}

fn is_about(value: u64, expected: u64) -> bool {
    value.abs_diff(expected) <= expected / 12
}

#[test]
fn groups_that_want_everything_share_by_weight() {
    let mut disk = Disk::new(&[primary(1_000), group(300, 100), group(100, 100)]);
    let loads = [reads(0), reads(20_000), reads(20_000)];
    disk.mean(&loads, 30);
    let did = disk.mean(&loads, 50);
    assert!(is_about(did[1], 6_750) && is_about(did[2], 2_250), "{did:?}: 3 to 1 of 9,000");
}

#[test]
fn what_one_leaves_goes_to_who_can_use_it() {
    let mut disk = Disk::new(&[primary(1_000), group(300, 100), group(100, 100)]);
    let loads = [reads(0), reads(1_000), reads(20_000)];
    disk.mean(&loads, 30);
    let did = disk.mean(&loads, 50);
    assert_eq!(did[1], 1_000, "it has all that it wants");
    assert!(is_about(did[2], 7_750), "{did:?}: the rest, but for the other's headroom");
}

#[test]
fn what_the_primary_uses_is_set_aside_first() {
    let mut disk = Disk::new(&[primary(500), group(100, 500)]);
    disk.mean(&[reads(0), reads(20_000)], 30);
    assert!(is_about(disk.mean(&[reads(0), reads(20_000)], 20)[1], 9_500));
    disk.mean(&[reads(6_000), reads(20_000)], 30);
    let did = disk.mean(&[reads(6_000), reads(20_000)], 20);
    assert!(is_about(did[1], 2_500), "{did:?}: a quarter of 6,000 is headroom");
    assert_eq!(did[0], 6_000, "the primary is never limited");
    assert!(disk.limits[0].is_none());
}

#[test]
fn the_minimum_holds_whatever_the_primary_does() {
    let mut disk = Disk::new(&[primary(500), group(1, 400), group(10_000, 200)]);
    disk.mean(&[reads(10_000), reads(20_000), reads(20_000)], 30);
    let did = disk.mean(&[reads(10_000), reads(20_000), reads(20_000)], 20);
    assert!(did[1] >= 400 && did[2] >= 200, "{did:?}");
}

#[test]
fn a_group_that_turns_from_reading_to_writing_has_its_share_again() {
    let mut disk = Disk::new(&[primary(500), group(100, 500)]);
    disk.mean(&[reads(0), reads(20_000)], 30);
    let writes = Load { iops: 20_000, is_reader: false };
    let first = disk.interval(&[reads(0), writes])[1];
    assert!(first >= 500, "{first}: the minimum of both at any time");
    let later = disk.mean(&[reads(0), writes], 10)[1];
    assert!(later > 7_000, "{later}");
}

#[test]
fn what_a_throttle_lets_through_too_much_is_paid_back() {
    let mut disk = Disk::new(&[primary(1_000), group(100, 100), group(100, 100)]);
    disk.slack = 10;
    let loads = [reads(0), reads(20_000), reads(20_000)];
    disk.mean(&loads, 60);
    let did = disk.mean(&loads, 50);
    assert!(did[1] + did[2] <= 9_000 * 106 / 100, "{did:?}: 9,000 and not a tenth more");
}

#[test]
fn who_does_nothing_saves_nothing_up() {
    let mut disk = Disk::new(&[primary(0), group(100, 100), group(100, 100)]);
    disk.mean(&[reads(0), reads(0), reads(20_000)], 200);
    disk.mean(&[reads(0), reads(20_000), reads(20_000)], 5);
    let did = disk.mean(&[reads(0), reads(20_000), reads(20_000)], 5);
    assert!(is_about(did[1], 5_000) && is_about(did[2], 5_000), "{did:?}");
}

#[test]
fn each_of_the_four_numbers_can_be_what_holds_a_group_back() {
    let small = |count| DiskUse { read_bytes: count * 512, reads: count, ..DiskUse::default() };
    let large = |count: u64| DiskUse { read_bytes: count, reads: count / 1_000_000, ..DiskUse::default() };
    let turned = |did: DiskUse| DiskUse {
        reads: did.writes,
        writes: did.reads,
        read_bytes: did.written_bytes,
        written_bytes: did.read_bytes,
    };
    let rounds = |did: &dyn Fn(DiskLimit) -> (u64, DiskUse)| {
        let mut isolation = DiskIsolation::new(settings(&[group(100, 100)])).unwrap();
        let mut limit = DiskLimit {
            read_iops: 100,
            write_iops: 100,
            read_bytes_per_s: 1_000_000,
            write_bytes_per_s: 1_000_000,
        };
        for interval in 0..20 {
            let (_, uses) = did(limit);
            for (_, new) in isolation.step(Moment(interval * INTERVAL_US), &[uses]) {
                limit = new;
            }
        }
        did(limit).0
    };
    let reached = [
        rounds(&|limit| (limit.read_iops, small(part_of(limit.read_iops)))),
        rounds(&|limit| (limit.write_iops, turned(small(part_of(limit.write_iops))))),
        rounds(&|limit| (limit.read_bytes_per_s / 10_000, large(part_of(limit.read_bytes_per_s)))),
        rounds(&|limit| (limit.write_bytes_per_s / 10_000, turned(large(part_of(limit.write_bytes_per_s))))),
    ];
    assert!(reached.iter().all(|rate| is_about(*rate, 10_000)), "{reached:?}: the whole disk");
}

#[test]
fn reads_and_writes_share_what_is_granted_as_they_did() {
    let mut isolation = DiskIsolation::new(settings(&[group(100, 100)])).unwrap();
    let mut limits = Vec::new();
    for interval in 0..20 {
        let (reads, writes) = (part_of(7_500), part_of(2_500));
        let uses = DiskUse { reads, writes, read_bytes: reads * 10_000, written_bytes: writes * 10_000 };
        limits.extend(isolation.step(Moment(interval * INTERVAL_US), &[uses]));
    }
    let (_, limit) = limits.last().unwrap();
    assert!(is_about(limit.read_iops, 7_500) && is_about(limit.write_iops, 2_500), "{limit:?}");
    assert!(is_about(limit.read_bytes_per_s, 75_000_000), "{limit:?}");
    assert!(is_about(limit.write_bytes_per_s, 25_000_000), "{limit:?}");
}

#[test]
fn what_all_have_saved_up_is_not_more_than_the_disk() {
    let mut isolation = DiskIsolation::new(settings(&[group(100, 100), group(100, 100)])).unwrap();
    let mut limits = [20_000, 20_000];
    for interval in 0..100 {
        // Both are backlogged and do a little less than they may, so both have something to come.
        let uses = limits.map(|limit| used(limit * 92 / 100, true));
        for (group, limit) in isolation.step(Moment(interval * INTERVAL_US), &uses) {
            limits[group] = limit.read_iops;
        }
    }
    let together: u64 = limits.iter().sum();
    assert!((9_500..=10_500).contains(&together), "{limits:?}");
}

#[test]
fn a_constant_load_is_written_a_few_times_and_then_left_alone() {
    let mut disk = Disk::new(&[primary(1_000), group(300, 100), group(100, 100), group(50, 50)]);
    let loads = [reads(2_000), reads(20_000), reads(700), reads(20_000)];
    disk.mean(&loads, 50);
    let before = disk.writes;
    disk.mean(&loads, 500);
    assert_eq!(disk.writes - before, 0);
    assert!(before < 20, "{before}");
}

#[test]
fn nothing_is_limited_after_the_kill_switch() {
    let mut disk = Disk::new(&[primary(0), group(100, 100)]);
    disk.mean(&[reads(0), reads(20_000)], 30);
    disk.isolation.lift();
    for _ in 0..50 {
        disk.now = disk.now.plus(INTERVAL_US);
        assert_eq!(disk.isolation.step(disk.now, &[used(20_000, true), used(20_000, true)]), []);
    }
    disk.isolation.engage();
    disk.now = disk.now.plus(INTERVAL_US);
    assert_eq!(disk.isolation.step(disk.now, &[]), [], "a rate needs an interval");
    disk.now = disk.now.plus(INTERVAL_US);
    assert_eq!(disk.isolation.step(disk.now, &[]).len(), 1);
}

#[test]
fn settings_that_no_disk_could_keep_are_refused() {
    let refused = |settings: DiskSettings| DiskIsolation::new(settings).unwrap_err().setting;
    assert_eq!(refused(settings(&[])), "groups");
    assert_eq!(refused(settings(&[group(1, 10); 65])), "groups");
    assert_eq!(refused(settings(&[group(0, 10)])), "weight");
    assert_eq!(refused(settings(&[group(1, 6_000), group(1, 5_000)])), "minimum.iops");
    assert_eq!(refused(settings(&[group(1, 0)])), "minimum.iops");
    let reader = DiskGroup { minimum: DiskRate { iops: 1, bytes_per_s: 90_000_000 }, ..group(1, 1) };
    assert_eq!(refused(settings(&[reader, group(1, 2_000)])), "minimum.bytes_per_s");
    let seeker = DiskGroup { minimum: DiskRate { iops: 9_000, bytes_per_s: 65_536 }, ..group(1, 1) };
    let reader = DiskGroup { minimum: DiskRate { iops: 1, bytes_per_s: 20_000_000 }, ..group(1, 1) };
    assert_eq!(refused(settings(&[seeker, reader])), "minimum", "each fits, but not both");
    assert_eq!(refused(DiskSettings { deficit_us_max: 0, ..settings(&[group(1, 10)]) }), "deficit_us_max");
    let full = settings(&[primary(4_000), group(1, 3_000), group(1, 3_000)]);
    assert!(DiskIsolation::new(full).is_ok(), "exactly the disk");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever groups do: nobody is limited below its minimum, and what all may do together fits on the disk
    /// beside the primary, but for the minimums of the direction that a group does not use.
    #[test]
    fn promises_hold_for_any_loads(
        groups in proptest::collection::vec((1..1_000u32, 10..900u64), 1..9),
        aside in 0..2_000u64,
        loads in proptest::collection::vec(
            (proptest::collection::vec((0..20_000u64, any::<bool>()), 9), 1..8usize), 1..20),
        slack in 0..20u64,
    ) {
        let minimums: Vec<u64> = groups.iter().map(|(_, iops)| *iops).collect();
        let all: Vec<_> = std::iter::once(primary(aside))
            .chain(groups.into_iter().map(|(weight, iops)| group(weight, iops)))
            .collect();
        let mut disk = Disk::new(&all);
        disk.slack = slack;
        for (wanted, times) in loads {
            let wanted: Vec<_> = wanted.iter().map(|(iops, is_reader)| Load { iops: *iops, is_reader: *is_reader }).collect();
            for _ in 0..times {
                let did = disk.interval(&wanted[..all.len()]);
                prop_assert!(disk.limits[0].is_none());
                for (limit, minimum) in disk.limits[1..].iter().zip(&minimums) {
                    let Some(limit) = limit else { continue };
                    prop_assert!(limit.read_iops >= *minimum && limit.write_iops >= *minimum);
                    prop_assert!(limit.read_bytes_per_s >= minimum * 10_000);
                    prop_assert!(limit.write_bytes_per_s >= minimum * 10_000);
                }
                let all_minimums: u64 = minimums.iter().sum();
                let beside = 10_000u64.saturating_sub(aside.max(did[0] * 5 / 4)).max(all_minimums);
                let limits = disk.limits[1..].iter().flatten();
                let together: u64 = limits.map(|limit| limit.read_iops.max(limit.write_iops)).sum();
                prop_assert!(together <= (beside + all_minimums) * 106 / 100 + 20, "{together} beside {beside}");
            }
        }
    }
}
