#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use super::*;

fn window(p99: f64, node: f64, progress: f64) -> Window {
    let latency_us = Quantiles { p50: p99 / 2.0, p99, p999: p99 * 2.0 };
    Window { latency_us, missed: 0, node, generator: 0.1, busy: 1.0, progress, answered: progress / 2.0 }
}

/// One round of a machine of two cores, on which the secondary does two in a second when it is alone.
fn series(policy: Policy, p99: f64, progress: f64) -> Series<Round> {
    let all = |window: Window| vec![vec![window; LOADS.len()]];
    Series(vec![
        (Policy::Standalone.name().into_owned(), all(window(100.0, 0.4, 0.0))),
        (policy.name().into_owned(), all(window(p99, 0.4, progress))),
        (ALONE.to_owned(), all(window(0.0, 0.0, 2.0))),
    ])
}

fn reported(
    policy: Policy,
    workers: Workers,
    (p99, progress): (f64, f64),
    work: Work,
) -> (Row, usize, usize) {
    let mut row = Row::new("builds", "");
    let (ratio, part) = report(&mut row, &series(policy, p99, progress), ((0, LOADS[0]), policy), work);
    aim(&mut row, workers, policy, (ratio, (work == Work::Builds).then_some(part)));
    (row, ratio, part)
}

#[test]
fn the_secondary_is_held_against_what_the_primary_and_the_generator_leave() {
    let (row, ratio, part) =
        reported(Policy::Of(Mode::RealTime), Workers::Parked, (105.0, 0.9), Work::Builds);
    let median = |at: usize| row.measures[at].spread.median;
    assert!((median(ratio) - 1.05).abs() < 1e-9, "{}", row.measures[ratio].what);
    // Two a second on the half that is idle are one.
    assert!((median(part) - 0.9).abs() < 1e-9, "{}", row.measures[part].what);
    let (row, _, part) = reported(Policy::Nothing, Workers::Parked, (105.0, 0.9), Work::Disk);
    assert!((row.measures[part].spread.median - 0.45).abs() < 1e-9, "a disk is not what cores leave");
}

#[test]
fn each_kind_of_workers_has_its_aims_and_they_can_be_missed() {
    let met = |policy, workers, figures| {
        let (row, ratio, part) = reported(policy, workers, figures, Work::Builds);
        let aim = |at: usize| row.measures[at].aim.map(|aim| aim.met);
        [aim(ratio), aim(part)]
    };
    let (named, blind) = (Policy::Of(NAMED), Policy::Of(Mode::Blind));
    assert_eq!(met(named, Workers::Parked, (109.0, 0.81)), [Some(true), Some(true)]);
    assert_eq!(met(named, Workers::Parked, (111.0, 0.81)), [Some(false), Some(true)]);
    assert_eq!(met(named, Workers::Parked, (109.0, 0.79)), [Some(true), Some(false)]);
    assert_eq!(met(blind, Workers::Polling, (149.0, 0.51)), [Some(true), Some(true)]);
    assert_eq!(met(blind, Workers::Polling, (151.0, 0.49)), [Some(false), Some(false)]);
    assert_eq!(met(Policy::Blind(0), Workers::Polling, (149.0, 0.51)), [Some(true), Some(true)]);
    assert_eq!(met(blind, Workers::Parked, (151.0, 0.49)), [None, None]);
    assert_eq!(met(Policy::Nothing, Workers::Parked, (9e9, 0.0)), [None, None]);
}

#[test]
fn buffer_cores_are_tried_one_by_one_where_they_are_few() {
    assert_eq!(candidates(1), [0]);
    assert_eq!(candidates(2), [0, 1]);
    assert_eq!(candidates(5), [0, 1, 2, 3, 4]);
    assert_eq!(candidates(48), [0, 1, 2, 3, 4, 8, 16, 32]);
}

#[test]
fn a_number_of_buffer_cores_takes_the_place_of_the_controllers_own() {
    let plan = |buffer_cores| Plan { buffer_cores, ..Plan::default() };
    assert_eq!(of_this_plan(&plan(None), Work::Builds), Policy::ALL);
    let chosen = of_this_plan(&plan(Some(3)), Work::Builds);
    assert!(chosen.contains(&Policy::Blind(3)) && !chosen.contains(&Policy::Of(Mode::Blind)));
    assert_eq!(chosen.len(), Policy::ALL.len());
    let named = Plan { policies: vec!["blind".to_owned()], ..plan(Some(0)) };
    assert_eq!(of_this_plan(&named, Work::Builds), [Policy::Standalone, Policy::Blind(0)]);
    assert_eq!(of_this_plan(&plan(None), Work::BulkGzip), BESIDE_BULK);
}

#[test]
fn beside_bulk_calls_the_aim_is_what_calls_feel_and_how_many_are_answered_is_told() {
    let (row, ratio, part) = reported(Policy::Of(NAMED), Workers::Parked, (111.0, 0.1), Work::BulkImages);
    assert_eq!(row.measures[ratio].aim.map(|aim| aim.met), Some(false));
    assert!(row.measures[part].aim.is_none());
    let answered = row.measures.iter().find(|measure| measure.what.ends_with("bulk calls answered")).unwrap();
    assert!((answered.spread.median - 0.05).abs() < 1e-9, "{}", answered.what);
    let (row, ..) = reported(Policy::Of(NAMED), Workers::Parked, (111.0, 0.1), Work::Builds);
    assert!(!row.measures.iter().any(|measure| measure.what.contains("bulk")));
}

#[test]
fn a_policy_that_failed_has_no_figures_and_meets_nothing() {
    let mut series = series(Policy::Of(NAMED), 100.0, 1.0);
    series.0.remove(1);
    let mut row = Row::new("builds", "");
    let (ratio, part) = report(&mut row, &series, ((0, LOADS[0]), Policy::Of(NAMED)), Work::Builds);
    aim(&mut row, Workers::Parked, Policy::Of(NAMED), (ratio, Some(part)));
    assert!(row.measures.iter().all(|measure| measure.rounds.is_empty()), "{:?}", row.measures);
    assert!([ratio, part].iter().all(|at| row.measures[*at].aim.is_some_and(|aim| !aim.met)));
}
