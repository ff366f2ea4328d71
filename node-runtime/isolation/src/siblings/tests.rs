#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use super::Siblings;
use crate::CoreSet;

fn set(list: &str) -> CoreSet {
    CoreSet::parse(list).unwrap()
}

#[test]
fn every_cpu_knows_its_core() {
    let siblings = Siblings::from_groups(["0,4", "1,5", "0,4", "2"].map(set));
    assert_eq!(siblings.of(0), set("0,4"));
    assert_eq!(siblings.of(4), set("0,4"));
    assert_eq!(siblings.of(5), set("1,5"));
    assert_eq!(siblings.of(2), set("2"), "a core with one thread");
    assert_eq!(siblings.of(9), set("9"), "nothing is known of it");
    assert_eq!(Siblings::default().of(3), set("3"));
}

#[test]
fn a_cpu_of_two_groups_belongs_to_the_first() {
    let siblings = Siblings::from_groups(["0,1", "1,2,3"].map(set));
    assert_eq!(siblings.of(1), set("0,1"));
    assert_eq!(siblings.of(2), set("2-3"));
}
