#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::time::Duration;

use super::package::with_constant;
use super::report::{Report, Round, Sample, spread};

#[test]
fn every_round_has_another_source_and_still_a_function() {
    let source = "//! x\npub fn handle(r: &[u8]) -> Vec<u8> {\n    r.to_vec()\n}\n";
    let first = with_constant(source, "handle", 1).unwrap();
    assert!(first.contains("-> Vec<u8> { std::hint::black_box(1_u128);\n    r.to_vec()"), "{first}");
    assert_ne!(first, with_constant(source, "handle", 2).unwrap());
    assert_eq!(with_constant(source, "other", 1), None);
}

#[test]
fn percentiles_are_of_the_values_themselves() {
    let s = spread([5.0, 1.0, 4.0, 2.0, 3.0].into_iter());
    assert_eq!((s.p20, s.median, s.p80), (1.0, 3.0, 4.0));
    assert!(spread(std::iter::empty()).median.is_nan());
}

fn round(deployed_cpu_ms: u64, bare_cpu_ms: u64) -> Round {
    let sample = |ms| Sample { wall: Duration::from_millis(ms), cpu: Duration::from_millis(ms) };
    Round { deployed: sample(deployed_cpu_ms), bare: sample(bare_cpu_ms) }
}

#[test]
fn a_missed_aim_is_said() {
    let mut good = Report::default();
    good.add("hello".to_owned(), vec![round(500, 300)]);
    good.add("markdown".to_owned(), vec![round(1300, 1000)]);
    assert!(good.table().all_aims_met(), "{}", good.table().text());
    for (small, large) in [
        (round(600, 300), round(1300, 1000)),
        (round(500, 300), round(1400, 1000)),
        (round(500, 300), round(1, 0)),
    ] {
        let mut bad = Report::default();
        bad.add("hello".to_owned(), vec![small]);
        bad.add("markdown".to_owned(), vec![large]);
        assert!(!bad.table().all_aims_met(), "{}", bad.table().text());
        assert!(bad.table().text().contains("MISSED"));
    }
    let mut empty = Report::default();
    empty.add("hello".to_owned(), vec![]);
    assert!(!empty.table().all_aims_met());
}
