#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use super::*;

fn control(holds: bool, reason: &str) -> ControlLine {
    ControlLine { holds, reason: reason.to_owned() }
}

#[test]
fn what_is_missing_is_reported_with_its_reason() {
    let protection = Protection::default();
    assert_eq!(protection.text(), "seccomp", "before any report of a worker");
    let speculation = SpeculationLine {
        indirect_branches: control(true, "disabled for good"),
        store_bypass: control(false, &"\u{1b}[2J".repeat(1_000)),
        core_scheduling: control(false, "turned off by a setting"),
    };
    protection.record(Started { keys: KeysLine { on: true, reason: String::new() }, speculation });
    let text = protection.text();
    assert!(
        text.starts_with("seccomp, protection keys; indirect-branches: disabled for good; no store-bypass: ")
    );
    assert!(text.ends_with("; no core-scheduling: turned off by a setting"), "{text}");
    assert!(!text.contains('\u{1b}'), "what a worker says is sanitised");
}

/// A server refuses a report with more.
#[test]
fn everything_a_worker_can_say_fits_into_a_report() {
    let (protection, long) = (Protection::default(), "\u{1b}".repeat(1_000));
    let control = || control(false, &long);
    let speculation =
        SpeculationLine { indirect_branches: control(), store_bypass: control(), core_scheduling: control() };
    protection.record(Started { keys: KeysLine { on: false, reason: long.clone() }, speculation });
    let text = protection.text();
    assert!(text.len() <= 500, "{} bytes: {text}", text.len());
}

#[test]
fn controls_are_named_or_refused() {
    assert_eq!(parse_controls("none").unwrap(), SpeculationControls::NONE);
    assert_eq!(
        parse_controls("indirect-branches, store-bypass,core-scheduling").unwrap(),
        SpeculationControls::ALL
    );
    let one = parse_controls("core-scheduling").unwrap();
    assert_eq!(one, SpeculationControls { core_scheduling: true, ..SpeculationControls::NONE });
    for list in ["", "all", "none,store-bypass", "store_bypass"] {
        assert!(parse_controls(list).is_err(), "{list}");
    }
}
