use super::{Aim, MachineRun, Quantiles, Report, aims};

fn machine(name: &str, queries_per_s: u32, p99: f64, secondary: f64) -> MachineRun {
    let latency_ms = Quantiles { p50: 1.0, p95: 2.0, p99 };
    let (name, queries, primary) = (name.to_owned(), 1, 0.2);
    MachineRun {
        name,
        queries_per_s,
        queries,
        latency_ms,
        primary,
        secondary,
        queued: 0.0,
        changes_per_s: 0.0,
    }
}

fn report(aims: Vec<Aim>) -> Report {
    Report {
        machine_s: 1.0,
        cluster_s: 1.0,
        seed: 1,
        quick: false,
        machine: vec![
            machine("standalone", 2_000, 10.0, 0.0),
            machine("blind, 8 buffer cores", 2_000, 10.5, 0.4),
        ],
        variants: vec![],
        cluster: vec![],
        aims,
    }
}

#[test]
fn quantiles_are_by_nearest_rank() {
    let quantiles = Quantiles::of((1..=200).rev().map(f64::from).collect());
    assert_eq!(quantiles, Quantiles { p50: 100.0, p95: 190.0, p99: 198.0 });
    assert!(Quantiles::of(vec![]).p99.is_nan());
}

#[test]
fn aims_compare_with_the_same_load_alone() {
    let runs = |added: f64, secondary| {
        let mut runs = vec![machine("standalone", 2_000, 10.0, 0.0), machine("standalone", 4_000, 50.0, 0.0)];
        runs.push(machine("blind, 8 buffer cores", 2_000, 10.0 + added, secondary));
        runs.push(machine("blind, 8 buffer cores", 4_000, 50.0, 0.0));
        runs
    };
    let met =
        |added, secondary| aims(&runs(added, secondary), &[]).iter().map(|aim| aim.met).collect::<Vec<_>>();
    assert_eq!(met(0.9, 0.4), [true, true, true]);
    assert_eq!(met(1.1, 0.4), [false, true, true]);
    assert_eq!(met(0.9, 0.39), [true, false, true]);
    assert_eq!(met(f64::NAN, 0.4), [false, true, true], "what is no number meets no aim");
}

#[test]
fn a_run_without_aims_has_met_none() {
    assert!(!report(vec![]).all_aims_met());
    let full = report(vec![]);
    assert!(report(aims(&full.machine, &[])).all_aims_met());
}

#[test]
fn the_text_says_what_was_missed() {
    let mut missed = report(vec![]);
    missed.machine[1].latency_ms.p99 = 12.0;
    missed.aims = aims(&missed.machine, &[]);
    let text = missed.text();
    assert!(text.contains("MISSED p99 at 2000/s above standalone, ms: 2.00, aim 1.00"), "{text}");
    assert!(text.contains("met    CPU used at 2000/s: 0.60, aim 0.60"), "{text}");
}
