#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use super::*;

fn tenant(number: usize) -> TenantName {
    TenantName::parse(&format!("t{number}")).unwrap()
}

/// How many of so many operations at one moment are admitted.
fn admitted(rate: &mut Rate, of: usize, count: usize, now: Instant) -> usize {
    (0..count).filter(|_| rate.admits(&tenant(of), 1, now)).count()
}

#[test]
fn a_tenant_gets_its_rate_and_others_have_their_own() {
    let (mut rate, begin) = (Rate::new(100), Instant::now());
    assert_eq!(admitted(&mut rate, 1, 1_000, begin), 101, "what a second has, at once");
    assert_eq!(admitted(&mut rate, 2, 10, begin), 10);
    assert_eq!(admitted(&mut rate, 1, 1_000, begin), 0);
    let mut all = 0;
    for step in 1..=100 {
        all += admitted(&mut rate, 1, 50, begin + step * Duration::from_millis(100));
    }
    assert_eq!(all, 1_000, "a hundred for each of ten seconds");
    // One operation at a time makes nothing of it.
    let late = begin + Duration::from_secs(60);
    let one_by_one = (0..1_000).filter(|_| rate.admits(&tenant(1), 1, late)).count();
    assert_eq!(one_by_one, 101);
    // What counts for ten takes the room of ten.
    let large = (0..1_000).filter(|_| rate.admits(&tenant(3), 10, late)).count();
    assert_eq!(large, 11);
}

#[test]
fn who_asks_for_nothing_is_not_remembered() {
    let (mut rate, begin) = (Rate::new(1_000), Instant::now());
    for number in 0..10_000 {
        assert!(rate.admits(&tenant(number), 1, begin + Duration::from_millis(number as u64)));
    }
    assert!(rate.due.len() <= 2 * REMEMBERED, "{}", rate.due.len());
}
