#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use mfaas_ident::Moment;
use proptest::prelude::*;

use super::{CpuIsolation, CpuLimit, CpuSample, CpuSettings, Occupancy};
use crate::{CoreSet, Siblings};

const SETTINGS: CpuSettings =
    CpuSettings { buffer_cores: 2, secondary_cores_max: 1024, grow_after_us: 1_000, yield_after_us: 200 };

fn set(list: &str) -> CoreSet {
    CoreSet::parse(list).unwrap()
}

fn pairs(cores: usize) -> Siblings {
    Siblings::from_groups((0..cores).step_by(2).map(|core| set(&format!("{core}-{}", core + 1))))
}

/// A machine of eight cores without siblings, of which those in `busy` run the primary.
fn at(us: u64, busy: &str) -> CpuSample {
    CpuSample { now: Moment(us), allowed: set("0-7"), occupancy: Occupancy::Busy(set(busy)) }
}

fn isolation(settings: CpuSettings) -> CpuIsolation {
    CpuIsolation::new(settings, Siblings::default()).unwrap()
}

fn cores(list: &str) -> Option<CpuLimit> {
    Some(CpuLimit::Cores(set(list)))
}

#[test]
fn the_first_step_leaves_the_buffer_to_the_primary() {
    let mut isolation = isolation(SETTINGS);
    let limit = isolation.step(&at(0, "0-1"));
    assert_eq!(limit, cores("2-5"), "8 cores, 2 busy, 2 in the buffer");
    assert_eq!(isolation.step(&at(50, "0-1")), None, "nothing has changed");
}

#[test]
fn a_burst_is_followed_at_once_and_in_one_step() {
    let mut isolation = isolation(SETTINGS);
    isolation.step(&at(0, ""));
    assert_eq!(isolation.limit(), CpuLimit::Cores(set("0-5")));
    // Three threads wake up on both buffer cores and on one that was lent.
    let limit = isolation.step(&at(50, "5-7"));
    assert_eq!(limit, cores("0-2"), "two idle again, and 5 is the primary's");
    assert_eq!(isolation.step(&at(100, "0-7")), Some(CpuLimit::Frozen), "no core is idle");
    assert_eq!(isolation.step(&at(150, "0-5")), None, "the two idle ones are the buffer");
}

#[test]
fn it_grows_by_what_was_idle_all_the_time() {
    let mut isolation = isolation(SETTINGS);
    isolation.step(&at(0, "0-5"));
    assert_eq!(isolation.limit(), CpuLimit::Frozen);
    assert_eq!(isolation.step(&at(100, "0")), None);
    assert_eq!(isolation.step(&at(700, "0-2")), None, "only three beyond the buffer now");
    assert_eq!(isolation.step(&at(1_099, "0")), None, "a millisecond has not passed");
    assert_eq!(isolation.step(&at(1_100, "0")), cores("3,6-7"), "three of five, those idle longest");
}

#[test]
fn a_moment_without_surplus_starts_the_wait_anew() {
    let mut isolation = isolation(SETTINGS);
    isolation.step(&at(0, "0-5"));
    isolation.step(&at(100, "0"));
    isolation.step(&at(1_000, "0-5"));
    assert_eq!(isolation.step(&at(1_200, "0")), None);
    assert_eq!(isolation.step(&at(2_199, "0")), None);
    assert!(isolation.step(&at(2_200, "0")).is_some());
}

#[test]
fn the_cores_that_it_has_are_kept() {
    let mut isolation = isolation(SETTINGS);
    isolation.step(&at(0, ""));
    assert_eq!(isolation.step(&at(50, "6")), cores("0-4"));
    isolation.step(&at(100, ""));
    assert_eq!(isolation.step(&at(1_100, "")), cores("0-5"), "5 comes back, nothing moves");
}

#[test]
fn the_core_that_the_primary_left_longest_ago_is_lent_first() {
    let mut isolation = isolation(CpuSettings { secondary_cores_max: 1, ..SETTINGS });
    isolation.step(&at(0, "0-7"));
    isolation.step(&at(100, "0-2,4-7"));
    isolation.step(&at(200, "4-7"));
    isolation.step(&at(1_200, "4-7"));
    assert_eq!(isolation.limit(), CpuLimit::Cores(set("3")));
}

#[test]
fn the_primary_gets_a_core_on_which_it_stays() {
    let mut isolation = isolation(SETTINGS);
    isolation.step(&at(0, "6-7"));
    assert_eq!(isolation.limit(), CpuLimit::Cores(set("0-3")));
    // It moved from 6 to 2, where the secondary may run: enough are idle, but not that one.
    assert_eq!(isolation.step(&at(100, "2,7")), None);
    assert_eq!(isolation.step(&at(250, "2,7")), None);
    assert_eq!(isolation.step(&at(300, "2,7")), cores("0-1,3"));
}

#[test]
fn kernel_threads_that_come_and_go_take_no_core_away() {
    let mut isolation = isolation(SETTINGS);
    isolation.step(&at(0, "6-7"));
    for us in (50..5_000).step_by(50) {
        let visitor = us / 50 % 4;
        assert_eq!(isolation.step(&at(us, &format!("{visitor},6-7"))), None, "at {us}");
    }
}

#[test]
fn of_idle_cores_alone_it_takes_the_rest_of_its_own_for_the_secondary() {
    let mut isolation = isolation(SETTINGS);
    let mut idle = |us, list| {
        let occupancy = Occupancy::Idle(set(list));
        isolation.step(&CpuSample { now: Moment(us), allowed: set("0-7"), occupancy })
    };
    assert_eq!(idle(0, "4-7"), cores("4-5"), "whose the others are is not known yet: they count as busy");
    assert_eq!(idle(100, "0-3,6-7"), None, "the secondary fills its two");
    assert_eq!(idle(1_100, "0-3,6-7"), cores("0-1,4-7"), "it grew by those idle longest");
    assert_eq!(idle(1_200, "2"), cores("0,4-7"), "one of the buffer is busy: one is given back");
}

#[test]
fn whole_physical_cores_are_lent_and_shared_ones_given_back_first() {
    let mut isolation = CpuIsolation::new(SETTINGS, pairs(8)).unwrap();
    assert_eq!(isolation.step(&at(0, "1,6")), cores("2-5"), "0 and 7 share a core with the primary");
    assert_eq!(isolation.step(&at(50, "1,3,6-7")), cores("4-5"), "2 has the primary beside it now");
}

#[test]
fn settings_change_at_the_next_step() {
    let mut isolation = isolation(SETTINGS);
    isolation.step(&at(0, ""));
    isolation.set(CpuSettings { buffer_cores: 4, ..SETTINGS }).unwrap();
    assert_eq!(isolation.step(&at(50, "")), cores("0-3"));
    isolation.set(CpuSettings { secondary_cores_max: 1, ..SETTINGS }).unwrap();
    assert_eq!(isolation.step(&at(100, "")), cores("0"));
    isolation.set(CpuSettings { secondary_cores_max: 2, ..SETTINGS }).unwrap();
    isolation.step(&at(150, ""));
    assert_eq!(isolation.step(&at(1_150, "")), cores("0-1"));
    let error = isolation.set(CpuSettings { buffer_cores: 1025, ..SETTINGS }).unwrap_err();
    assert_eq!(error.to_string(), "buffer_cores is 1025: at most 1024 cores");
    assert_eq!(isolation.step(&at(1_200, "")), None, "what was refused changes nothing");
}

#[test]
fn without_a_buffer_everything_that_is_free_is_lent() {
    let mut isolation = isolation(CpuSettings { buffer_cores: 0, ..SETTINGS });
    let mut idle = |us, idle: &str| {
        let occupancy = Occupancy::Idle(set(idle));
        isolation.step(&CpuSample { now: Moment(us), allowed: set("0-1"), occupancy })
    };
    assert_eq!(idle(0, ""), Some(CpuLimit::Frozen), "both run, and nobody knows what");
    assert_eq!(idle(100, "0"), None);
    assert_eq!(idle(1_100, "0"), cores("0"), "the one that was idle all the time");
    assert_eq!(idle(1_200, ""), None, "it is the secondary that runs there");
}

#[test]
fn cores_that_go_away_are_left_at_once() {
    let mut isolation = isolation(SETTINGS);
    isolation.step(&at(0, ""));
    let fewer = CpuSample { allowed: set("2-7"), ..at(50, "") };
    assert_eq!(isolation.step(&fewer), cores("2-5"));
    let none = CpuSample { allowed: CoreSet::EMPTY, ..at(100, "") };
    assert_eq!(isolation.step(&none), Some(CpuLimit::Frozen));
}

#[test]
fn what_is_lifted_stays_lifted() {
    let mut isolation = isolation(SETTINGS);
    isolation.step(&at(0, ""));
    assert_eq!(isolation.lift(), CpuLimit::Lifted);
    for us in (50..10_000).step_by(50) {
        assert_eq!(isolation.step(&at(us, "0-7")), None);
    }
    isolation.set(CpuSettings { buffer_cores: 8, ..SETTINGS }).unwrap();
    assert_eq!(isolation.step(&at(10_000, "0-7")), None);
    assert_eq!(isolation.limit(), CpuLimit::Lifted);
    isolation.engage();
    assert_eq!(
        isolation.step(&at(10_050, "0")),
        Some(CpuLimit::Frozen),
        "by the settings that came meanwhile"
    );
}

/// What happens to a machine in one step.
#[derive(Debug, Clone)]
enum Event {
    Sample { after_us: u64, busy: u64, allowed: u64 },
    Idle { after_us: u64, idle: u64 },
    Set(CpuSettings),
    Lift,
    Engage,
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let settings = (0..10usize, 1..20usize, 1..3_000u64, 0..500u64).prop_map(|(buffer, max, grow, leave)| {
        let (buffer_cores, secondary_cores_max) = (buffer, max);
        CpuSettings { buffer_cores, secondary_cores_max, grow_after_us: grow, yield_after_us: leave }
    });
    // Few bits more often than many: a machine that is half busy is the interesting one.
    let mask =
        || (any::<u64>(), any::<u64>(), 0..3u8).prop_map(|(a, b, kind)| [a, a & b, a | b][usize::from(kind)]);
    let event = prop_oneof![
        20 => (0..800u64, mask(), prop_oneof![9 => Just(u64::MAX), 1 => any::<u64>()])
            .prop_map(|(after_us, busy, allowed)| Event::Sample { after_us, busy, allowed }),
        8 => (0..800u64, mask()).prop_map(|(after_us, idle)| Event::Idle { after_us, idle }),
        // The same load for a long time, so that S grows.
        2 => settings.prop_map(Event::Set),
        1 => Just(Event::Lift),
        2 => Just(Event::Engage),
    ];
    let held = (event, 1..12usize).prop_map(|(event, times)| vec![event; times]);
    proptest::collection::vec(held, 1..40).prop_map(|runs| runs.concat())
}

fn of_mask(mask: u64) -> CoreSet {
    let mut set = CoreSet::EMPTY;
    (0..24).filter(|core| mask >> core & 1 == 1).for_each(|core| set.insert(core).unwrap());
    set
}

/// The promises, checked from outside after each step.
#[derive(Debug)]
struct Witness {
    settings: CpuSettings,
    is_engaged: bool,
    lent: CoreSet,
    limited: bool,
    changed_at: Moment,
}

impl Witness {
    fn check(&mut self, sample: &CpuSample, before: CpuLimit, answer: Option<CpuLimit>, now: CpuLimit) {
        if !self.is_engaged {
            assert_eq!((answer, now), (None, CpuLimit::Lifted), "lifted limits stay lifted");
            return;
        }
        assert_eq!(answer, (before != now).then_some(now), "an answer is a change, a change is answered");
        let after = match now {
            CpuLimit::Cores(cores) => cores,
            CpuLimit::Frozen => CoreSet::EMPTY,
            CpuLimit::Lifted => panic!("an engaged step limits"),
        };
        assert!(!matches!(now, CpuLimit::Cores(cores) if cores.is_empty()), "no cores is frozen");
        assert!(after.is_subset(&sample.allowed), "{after} of {}", sample.allowed);
        assert!(after.len() <= self.settings.secondary_cores_max);
        let busy = match (sample.occupancy, before) {
            (Occupancy::Busy(busy), _) => busy,
            (Occupancy::Idle(idle), CpuLimit::Cores(lent)) => {
                sample.allowed.difference(&idle).difference(&lent)
            }
            (Occupancy::Idle(idle), _) => sample.allowed.difference(&idle),
        };
        let idle = sample.allowed.difference(&busy).difference(&after);
        assert!(
            after.is_empty() || idle.len() >= self.settings.buffer_cores,
            "{} idle beside {after}, the primary on {busy}",
            idle.len()
        );
        let new = after.difference(&self.lent);
        if self.limited && !new.is_empty() {
            let waited = sample.now.since(self.changed_at);
            assert!(waited >= self.settings.grow_after_us, "it grew after {waited} us");
        }
        assert!(new.intersection(&busy).is_empty(), "{new} is lent, the primary is on {busy}");
        if before != now {
            self.changed_at = sample.now;
        }
        self.lent = after;
        self.limited = true;
    }
}

fn run(events: Vec<Event>) {
    let mut isolation = CpuIsolation::new(SETTINGS, pairs(24)).unwrap();
    let mut witness = Witness {
        settings: SETTINGS,
        is_engaged: true,
        lent: CoreSet::EMPTY,
        limited: false,
        changed_at: Moment(0),
    };
    let mut now = Moment(0);
    for event in events {
        let (after_us, allowed, occupancy) = match event {
            Event::Sample { after_us, busy, allowed } => {
                (after_us, of_mask(allowed), Occupancy::Busy(of_mask(busy)))
            }
            Event::Idle { after_us, idle } => (after_us, of_mask(u64::MAX), Occupancy::Idle(of_mask(idle))),
            Event::Set(settings) => {
                isolation.set(settings).unwrap();
                witness.settings = settings;
                continue;
            }
            Event::Lift => {
                assert_eq!(isolation.lift(), CpuLimit::Lifted);
                (witness.is_engaged, witness.limited) = (false, false);
                continue;
            }
            Event::Engage => {
                isolation.engage();
                witness.is_engaged = true;
                continue;
            }
        };
        now = now.plus(after_us);
        let sample = CpuSample { now, allowed, occupancy };
        let before = isolation.limit();
        let answer = isolation.step(&sample);
        witness.check(&sample, before, answer, isolation.limit());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn promises_hold_for_any_load_and_any_command(events in events()) {
        run(events);
    }

    #[test]
    fn a_constant_load_has_one_limit(before in any::<u64>(), busy in any::<u64>(), buffer_cores in 0..10usize) {
        let mut isolation = CpuIsolation::new(CpuSettings { buffer_cores, ..SETTINGS }, pairs(24)).unwrap();
        let sample = |us, busy| CpuSample {
            now: Moment(us),
            allowed: of_mask(u64::MAX),
            occupancy: Occupancy::Busy(of_mask(busy)),
        };
        isolation.step(&sample(0, before));
        let changes: Vec<_> = (1..200).filter_map(|tick| isolation.step(&sample(tick * 50, busy))).collect();
        // It shrinks, leaves the cores that the primary stays on, and grows; never twice.
        prop_assert!(changes.len() <= 3, "{changes:?}");
        let lent = match isolation.limit() {
            CpuLimit::Cores(cores) => cores.len(),
            CpuLimit::Frozen => 0,
            CpuLimit::Lifted => 24,
        };
        prop_assert_eq!(lent, (24 - of_mask(busy).len()).saturating_sub(buffer_cores), "S = N - busy - B");
    }
}
