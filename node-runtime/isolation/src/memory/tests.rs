#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use mfaas_ident::Moment;
use proptest::prelude::*;

use super::{Member, MemberId, MemoryAction, MemoryIsolation, MemorySample, MemorySettings};

const MIB: u64 = 1 << 20;

const SETTINGS: MemorySettings = MemorySettings {
    low_bytes: 500 * MIB,
    high_bytes: 1_000 * MIB,
    secondary_bytes_max: 4_000 * MIB,
    step_bytes: 100 * MIB,
    raise_after_us: 1_000_000,
    settle_us: 500_000,
};

fn member(id: u64, began: u64, mib: u64) -> Member {
    Member { id: MemberId(id), began: Moment(began), bytes: mib * MIB }
}

/// Available memory of the machine and memory of the secondary in MiB, at a time in milliseconds.
fn at(ms: u64, available: u64, secondary: u64, members: &[Member]) -> MemorySample<'_> {
    let (available_bytes, secondary_bytes) = (available * MIB, secondary * MIB);
    MemorySample { now: Moment(ms * 1_000), available_bytes, secondary_bytes, members }
}

fn limit(high: u64, max: u64) -> Option<MemoryAction> {
    Some(MemoryAction::Limit { high_bytes: high * MIB, max_bytes: max * MIB })
}

fn kill(id: u64) -> Option<MemoryAction> {
    Some(MemoryAction::Kill(MemberId(id)))
}

#[test]
fn limits_leave_the_watermarks_to_the_machine() {
    let mut isolation = MemoryIsolation::new(SETTINGS).unwrap();
    assert_eq!(isolation.step(&at(0, 3_000, 200, &[])), limit(2_200, 2_700));
    // What the secondary takes, the machine no longer has: nothing changes.
    assert_eq!(isolation.step(&at(10, 2_000, 1_200, &[])), None);
    // What the primary takes is taken from the limits at once.
    assert_eq!(isolation.step(&at(20, 1_000, 1_200, &[])), limit(1_200, 1_700));
    // Below the high watermark the secondary is slowed down, but keeps what it has.
    assert_eq!(isolation.step(&at(30, 600, 1_200, &[])), limit(800, 1_300));
    assert_eq!(isolation.step(&at(40, 510, 1_190, &[])), limit(700, 1_200));
}

#[test]
fn limits_rise_when_memory_has_been_there_for_a_while() {
    let mut isolation = MemoryIsolation::new(SETTINGS).unwrap();
    isolation.step(&at(0, 1_000, 1_000, &[]));
    assert_eq!(isolation.step(&at(10, 3_000, 1_000, &[])), None);
    assert_eq!(isolation.step(&at(500, 2_000, 1_000, &[])), None);
    assert_eq!(isolation.step(&at(1_009, 3_000, 1_000, &[])), None);
    assert_eq!(
        isolation.step(&at(1_010, 3_000, 1_000, &[])),
        limit(2_000, 2_500),
        "the least that was there"
    );
}

#[test]
fn a_machine_with_much_memory_gives_what_the_site_allows() {
    let mut isolation = MemoryIsolation::new(SETTINGS).unwrap();
    assert_eq!(isolation.step(&at(0, 100_000, 0, &[])), limit(4_000, 4_000));
}

#[test]
fn of_those_that_are_enough_the_youngest_is_killed() {
    let mut isolation = MemoryIsolation::new(SETTINGS).unwrap();
    let members = [member(1, 0, 900), member(2, 50, 300), member(3, 70, 250), member(4, 90, 10)];
    assert_eq!(isolation.step(&at(100, 300, 1_460, &members)), kill(3), "200 MiB are missing");
}

#[test]
fn the_largest_is_killed_where_none_is_enough() {
    let mut isolation = MemoryIsolation::new(SETTINGS).unwrap();
    let members = [member(1, 0, 200), member(2, 50, 300), member(3, 70, 0)];
    assert_eq!(isolation.step(&at(100, 0, 500, &members)), kill(2));
    // It has half a second to leave; after that it is told again if it is still there.
    assert_eq!(isolation.step(&at(599, 0, 500, &members)), limit(100, 500), "no second kill yet");
    assert_eq!(isolation.step(&at(600, 0, 500, &members)), kill(2));
    assert_eq!(isolation.step(&at(1_100, 0, 200, &members[..1])), kill(1));
}

#[test]
fn nobody_is_killed_for_memory_that_the_secondary_does_not_have() {
    let mut isolation = MemoryIsolation::new(SETTINGS).unwrap();
    assert_eq!(isolation.step(&at(0, 0, 0, &[member(1, 0, 0)])), limit(100, 100));
    assert_eq!(isolation.step(&at(10, 0, 0, &[])), None);
}

#[test]
fn more_than_the_site_allows_is_too_much() {
    let mut isolation = MemoryIsolation::new(SETTINGS).unwrap();
    let members = [member(1, 0, 2_000), member(2, 50, 1_500)];
    isolation.step(&at(0, 50_000, 3_500, &members));
    isolation.set(MemorySettings { secondary_bytes_max: 3_000 * MIB, ..SETTINGS }).unwrap();
    assert_eq!(isolation.step(&at(10, 50_000, 3_500, &members)), kill(2));
    assert_eq!(isolation.step(&at(20, 50_000, 2_000, &members[..1])), limit(3_000, 3_000));
}

#[test]
fn what_is_lifted_stays_lifted_and_kills_nobody() {
    let mut isolation = MemoryIsolation::new(SETTINGS).unwrap();
    let members = [member(1, 0, 400)];
    isolation.step(&at(0, 3_000, 400, &members));
    assert_eq!(isolation.lift(), MemoryAction::Lift);
    for ms in 1..3_000 {
        assert_eq!(isolation.step(&at(ms, 10, 400, &members)), None);
    }
    isolation.engage();
    assert_eq!(isolation.step(&at(3_000, 10, 400, &members)), kill(1));
}

#[test]
fn settings_that_contradict_each_other_are_refused() {
    let refused = |settings| MemoryIsolation::new(settings).unwrap_err().setting;
    assert_eq!(refused(MemorySettings { high_bytes: SETTINGS.low_bytes, ..SETTINGS }), "high_bytes");
    assert_eq!(refused(MemorySettings { low_bytes: 0, ..SETTINGS }), "low_bytes");
    assert_eq!(refused(MemorySettings { step_bytes: 1, ..SETTINGS }), "step_bytes");
    assert_eq!(refused(MemorySettings { secondary_bytes_max: MIB, ..SETTINGS }), "secondary_bytes_max");
    assert_eq!(refused(MemorySettings { raise_after_us: 0, ..SETTINGS }), "raise_after_us");
    assert_eq!(refused(MemorySettings { settle_us: 0, ..SETTINGS }), "settle_us");
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// Any course of memory: limits are ordered, within the site's bound, never below what is held; they rise only
    /// after the wait, and kills keep their distance and name somebody who has memory.
    #[test]
    fn promises_hold_for_any_course(
        course in proptest::collection::vec((0..400u64, 0..6_000u64, proptest::collection::vec(0..900u64, 0..4)), 1..200),
    ) {
        let mut isolation = MemoryIsolation::new(SETTINGS).unwrap();
        let (mut ms, mut killed_at, mut in_force) = (0, None, None::<(u64, u64, u64)>);
        for (after, available, sizes) in course {
            ms += after;
            let members: Vec<_> = (0..).zip(&sizes).map(|(id, mib)| member(id, id, *mib)).collect();
            let secondary = sizes.iter().sum();
            let is_low = available * MIB < SETTINGS.low_bytes;
            match isolation.step(&at(ms, available, secondary, &members)) {
                None => {}
                Some(MemoryAction::Lift) => prop_assert!(false, "nobody asked"),
                Some(MemoryAction::Kill(MemberId(id))) => {
                    prop_assert!(is_low && sizes[id as usize] > 0);
                    prop_assert!(killed_at.is_none_or(|at| ms - at >= 500), "{ms} after {killed_at:?}");
                    killed_at = Some(ms);
                }
                Some(MemoryAction::Limit { high_bytes, max_bytes }) => {
                    prop_assert!(high_bytes <= max_bytes && max_bytes <= SETTINGS.secondary_bytes_max);
                    prop_assert!(max_bytes + SETTINGS.low_bytes <= (secondary + available) * MIB
                        || max_bytes < secondary * MIB + SETTINGS.step_bytes || max_bytes == SETTINGS.step_bytes);
                    if let Some((at, high, max)) = in_force {
                        let rises = high_bytes > high || max_bytes > max;
                        prop_assert!(!rises || ms - at >= 1_000, "raised {} ms after {at}", ms - at);
                        prop_assert!((high_bytes, max_bytes) != (high, max), "written without a change");
                    }
                    in_force = Some((ms, high_bytes, max_bytes));
                }
            }
        }
    }
}
