#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use super::*;

#[test]
fn the_list_that_ships_has_at_least_eighty_crates() {
    let asked = parse(POPULAR).unwrap();
    let names: std::collections::BTreeSet<&str> = asked.iter().map(|request| request.name.as_str()).collect();
    assert!(names.len() >= 80 && names.len() == asked.len(), "{}", names.len());
}

#[test]
fn a_list_is_names_with_exact_versions() {
    let asked = parse("# of a day\n\nserde 1.0.1 # with derive\n  memchr   2.8.0\n").unwrap();
    let names: Vec<String> =
        asked.iter().map(|request| format!("{}{}", request.name, request.requirement)).collect();
    assert_eq!(names, ["serde=1.0.1", "memchr=2.8.0"]);
    for bad in ["serde", "serde ^1", "serde 1", "../x 1.0.0"] {
        assert!(parse(bad).is_err(), "{bad}");
    }
}
