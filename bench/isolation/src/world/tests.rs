#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use super::{Outcome, Plan, run};
use crate::policy::{Blind, Policy};
use crate::report::Quantiles;
use crate::workload::Workload;

fn plan(policy: Policy) -> Plan {
    Plan {
        policy,
        balances: false,
        workload: Workload::with_bursts(8.0),
        queries_per_s: 2_000,
        columns: 1,
        rows: 1,
        measured_ns: 500_000_000,
        seed: 7,
    }
}

fn outcome(policy: Policy) -> Outcome {
    run(plan(policy)).unwrap()
}

#[test]
fn a_machine_alone_uses_what_the_paper_says() {
    let alone = outcome(Policy::Standalone);
    assert!((0.19..0.23).contains(&alone.primary), "{}", alone.primary);
    assert_eq!(alone.secondary, 0.0);
    assert!((900..1_100).contains(&alone.machine_ms.len()), "{} queries", alone.machine_ms.len());
}

#[test]
fn the_same_seed_is_the_same_run_and_queries_are_the_same_under_every_policy() {
    let [a, b] = [Policy::Standalone; 2].map(outcome);
    assert_eq!(a.machine_ms, b.machine_ms);
    let other = run(Plan { seed: 8, ..plan(Policy::Standalone) }).unwrap();
    assert_ne!(a.machine_ms, other.machine_ms);
    // All that differs between policies is the waiting: CPU time of the primary is the same but for what is under
    // way at both ends.
    let shared = outcome(Policy::Static(24));
    assert!((shared.primary - a.primary).abs() < 0.002, "{} and {}", shared.primary, a.primary);
}

#[test]
fn the_secondary_has_what_its_policy_gives_it() {
    for (policy, part) in
        [(Policy::Static(24), 0.5), (Policy::Static(8), 8.0 / 48.0), (Policy::Cap(25), 0.25)]
    {
        let secondary = outcome(policy).secondary;
        assert!((secondary - part).abs() < 0.01, "{policy:?}: {secondary}");
    }
    let all = outcome(Policy::Unmanaged);
    assert!(all.primary + all.secondary > 0.999);
}

#[test]
fn blind_isolation_keeps_the_latency_and_its_absence_does_not() {
    let p99 = |outcome: Outcome| Quantiles::of(outcome.machine_ms).p99;
    let alone = p99(outcome(Policy::Standalone));
    let unmanaged = p99(outcome(Policy::Unmanaged));
    assert!(unmanaged > 3.0 * alone, "{unmanaged} ms without isolation, {alone} alone");
    let blind = outcome(Policy::Blind(Blind::with_buffer(8)));
    assert!(blind.primary + blind.secondary >= 0.6, "{}", blind.primary + blind.secondary);
    assert!(blind.queued < 0.05, "{}", blind.queued);
    let blind = p99(blind);
    assert!(blind <= alone + 1.0, "{blind} ms blind, {alone} alone");
}

#[test]
fn aggregators_answer_when_the_slowest_column_has() {
    let one = Plan { queries_per_s: 500, measured_ns: 300_000_000, ..plan(Policy::Standalone) };
    let cluster = run(Plan { columns: 4, rows: 2, ..one }).unwrap();
    assert_eq!(cluster.mid_ms.len(), cluster.top_ms.len());
    let (machines, queries) = (cluster.machine_ms.len(), cluster.mid_ms.len());
    assert!(machines.abs_diff(4 * queries) < 40, "each query has four columns: {machines}, {queries}");
    let longest = |ms: &[f64]| ms.iter().copied().fold(0.0, f64::max);
    let (machine, mid, top) = (&cluster.machine_ms, &cluster.mid_ms, &cluster.top_ms);
    assert!(longest(machine) < longest(mid) && longest(mid) < longest(top), "the last column is waited for");
    let [machine, mid, top] = [cluster.machine_ms, cluster.mid_ms, cluster.top_ms].map(Quantiles::of);
    assert!(machine.p50 < mid.p50 && mid.p50 < top.p50, "{machine:?} {mid:?} {top:?}");
    let single = run(one).unwrap();
    assert!(single.mid_ms.is_empty(), "one machine has no aggregator");
}
