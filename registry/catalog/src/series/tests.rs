#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use chrono::{DateTime, TimeDelta, Utc};
use mfaas_ident::{FunctionName, TenantName, VersionNumber};
use proptest::prelude::*;

use super::add::{TenantSum, drawn};
use super::{Called, Range, SERIES_STEPS_MAX, STEPS_KEPT, Step};

fn moment(text: &str) -> DateTime<Utc> {
    text.parse().unwrap()
}

#[test]
fn an_hour_a_day_and_a_month_have_steps_that_a_chart_shows() {
    let now = moment("2026-11-25T13:44:10Z");
    let range = |ago| {
        Range::of(now - ago, now, now).map(|range| (range.step(), range.moments().count(), range.since()))
    };
    assert_eq!(range(TimeDelta::hours(1)), Some((Step::Minute, 61, moment("2026-11-25T12:44:00Z"))));
    assert_eq!(range(TimeDelta::days(1)), Some((Step::QuarterHour, 97, moment("2026-11-24T13:30:00Z"))));
    assert_eq!(range(TimeDelta::days(30)), Some((Step::SixHours, 121, moment("2026-10-26T12:00:00Z"))));
    assert_eq!(range(TimeDelta::days(38)), None, "longer than is kept");
    assert_eq!(range(TimeDelta::zero()).map(|range| range.1), Some(1), "the step that is not over");
    assert_eq!(range(-TimeDelta::hours(1)), None);
    // What is short and long ago has the steps that are still there.
    let before = now - TimeDelta::days(20);
    let old = Range::of(before - TimeDelta::hours(1), before, now).unwrap();
    assert_eq!((old.step(), old.moments().count()), (Step::SixHours, 1));
}

fn called(rows: &[(u8, u8, u16)]) -> Vec<(TenantName, FunctionName, u64)> {
    let named = |(tenant, function, calls): &(u8, u8, u16)| {
        let tenant = TenantName::parse(&format!("t{tenant}")).unwrap();
        (tenant, FunctionName::parse(&format!("f{function}")).unwrap(), u64::from(*calls))
    };
    rows.iter().map(named).collect()
}

proptest! {
    /// Each range that there is has between one step and the most, begins with its first, covers what was asked, and lies
    /// within what is kept.
    #[test]
    fn a_range_covers_what_was_asked_within_its_limits(ago in -7_200_i64..5_000_000, length in 0_i64..5_000_000, now in 0_i64..1 << 34) {
        let now = DateTime::from_timestamp(now, 0).unwrap();
        let since = now - TimeDelta::seconds(ago);
        let until = since + TimeDelta::seconds(length);
        if let Some(range) = Range::of(since, until, now) {
            let moments: Vec<_> = range.moments().collect();
            let step = TimeDelta::seconds(i64::from(range.step().seconds()));
            prop_assert!((1..=SERIES_STEPS_MAX as usize).contains(&moments.len()));
            prop_assert!(moments[0] == range.since() && moments[0] <= since && since < moments[0] + step);
            prop_assert!(moments.iter().all(|at| at.timestamp() % step.num_seconds() == 0));
            prop_assert!(moments.windows(2).all(|pair| pair[1] - pair[0] == step));
            let last = moments[moments.len() - 1];
            prop_assert!(last < until && until <= last + step);
            prop_assert!(range.since() >= now - TimeDelta::seconds(step.num_seconds() * i64::from(STEPS_KEPT)));
        }
    }

    /// Sums are those of all rows; as many are left out as there is no room for; and no tenant gets a second row before
    /// every other one has its first.
    #[test]
    fn rows_are_shared_by_turns_and_nothing_is_lost_from_the_sums(
        rows in proptest::collection::vec((0_u8..6, any::<u8>(), 0_u16..100), 0..60), room in 1_usize..40,
    ) {
        let named = called(&rows);
        let told = named.iter().map(|(tenant, function, calls)| Called {
            tenant, function, version: VersionNumber::new(1).unwrap(), calls: *calls, cpu_ns: calls * 3,
            memory_bytes_max: *calls, runs: None,
        });
        let (kept, sums) = drawn(told.collect(), room);
        let busy = named.iter().filter(|row| row.2 > 0).count();
        prop_assert_eq!(kept.len(), busy.min(room));
        for tenant in named.iter().map(|row| &row.0) {
            let own: Vec<u64> = named.iter().filter(|row| row.0 == *tenant && row.2 > 0).map(|row| row.2).collect();
            let shown: u64 = kept.iter().filter(|row| row.tenant == tenant).map(|row| row.calls).sum();
            let calls: u64 = own.iter().sum();
            let expected = TenantSum {
                calls, cpu_ns: calls * 3, memory_bytes_max: own.iter().copied().max().unwrap_or(0), calls_left_out: calls - shown,
            };
            prop_assert_eq!(sums.get(tenant).copied().unwrap_or_default(), expected);
            let (shown, own) = (kept.iter().filter(|row| row.tenant == tenant).count(), own.len());
            let most = named.iter().map(|other| kept.iter().filter(|row| *row.tenant == other.0).count()).max().unwrap_or(0);
            prop_assert!(shown == own || shown + 1 >= most, "{} has {} of {}, another {}", tenant, shown, own, most);
        }
    }
}
