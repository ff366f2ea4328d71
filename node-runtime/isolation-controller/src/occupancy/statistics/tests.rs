#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

//! Two looks at a text of the kernel.

use mfaas_isolation::CoreSet;

use super::Statistics;

#[test]
fn a_core_is_idle_that_did_nothing_between_two_looks() {
    let both = CoreSet::first_cpus(2).unwrap();
    let mut statistics = Statistics::default();
    let first = "cpu  3 0 0 20 0 0 0 0 0 0\ncpu0 1 0 0 10 0 0 0 0 0 0\ncpu1 2 0 0 10 0 0 0 0 0 0\nintr 5\n";
    assert!(statistics.compare(first, &both).is_empty(), "nothing is known yet");
    let second = "cpu  3 0 0 30 1 0 0 0 0 0\ncpu0 1 0 0 13 1 0 0 0 0 0\ncpu1 2 0 1 13 0 0 0 0 0 0\n";
    assert_eq!(statistics.compare(second, &both), CoreSet::parse("0").unwrap());
    assert!(statistics.compare(second, &both).is_empty(), "no tick has passed");
}
