#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use super::*;

fn parse(text: &str) -> Result<Grants, String> {
    Grants::parse(text, |name| name.as_str().starts_with("known"))
}

#[test]
fn a_grant_names_a_crate_that_is_there_and_a_reason() {
    let row = |name: &str, list: &str, reason: &str| {
        format!("[[grant]]\ncrate = {name:?}\ncapabilities = {list}\nreason = {reason:?}\n")
    };
    let good = row("known", "[\"unwind\", \"abort\"]", "it does");
    let grants = parse(&good).unwrap();
    assert_eq!(grants.of(&"known".parse().unwrap()), [Capability::Abort, Capability::Unwind]);
    assert!(grants.of(&"known-other".parse().unwrap()).is_empty());
    assert_eq!(grants.sets().first(), Some(&Vec::new()));
    for bad in [
        row("unknown", "[\"abort\"]", "it does"),
        row("known", "[]", "it does"),
        row("known", "[\"abort\"]", " "),
        row("known", "[\"everything\"]", "it does"),
        row("known", "[\"real\", \"abort\"]", "it does"),
        format!("{good}{good}"),
    ] {
        assert!(parse(&bad).is_err(), "{bad}");
    }
}
