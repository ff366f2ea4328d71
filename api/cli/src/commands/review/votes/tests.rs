#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use clap::Parser as _;

use super::*;

#[derive(clap::Parser)]
struct Line {
    #[command(flatten)]
    approve: Approve,
}

fn terms(arguments: &[&str]) -> Option<Terms> {
    let line = [&["approve", "7", "--note", "sound"], arguments].concat();
    Line::try_parse_from(line).unwrap().approve.terms(1_000)
}

#[test]
fn a_yes_without_terms_takes_over_what_stands() {
    assert_eq!(terms(&[]), None);
    let named = terms(&["--grant", "machine-code", "--grant", "abort", "--days", "1"]).unwrap();
    assert_eq!(named.grants, BTreeSet::from([Capability::Abort, Capability::MachineCode]));
    assert_eq!((named.tenant, named.expires_at), (None, Some(87_400)));
    assert!(Line::try_parse_from(["approve", "7"]).is_err(), "a vote needs a note");
    assert!(Line::try_parse_from(["approve", "7", "--note", "x", "--days", "0"]).is_err());
    assert!(Line::try_parse_from(["approve", "7", "--note", "x", "--grant", "root"]).is_err());
}
