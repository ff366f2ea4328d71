#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use clap::Parser as _;

use super::*;

#[derive(clap::Parser)]
struct Line {
    #[command(flatten)]
    allow: Allow,
}

/// The variant that a line of the release before leads to.
fn meant(line: &str) -> String {
    let line = Line::try_parse_from(line.split(' ')).unwrap_or_else(|error| panic!("{line}: {error}"));
    let text = format!("{:?}", line.allow.command.meant());
    text.split(['{', ' ']).next().unwrap().to_owned()
}

#[test]
fn every_line_of_the_release_before_leads_to_a_command_of_today() {
    for (line, wanted) in [
        ("allow list", "Crate(List)"),
        ("allow show regex", "Crate(Show"),
        ("allow show 7", "Review(Show(Show"),
        ("allow request regex@1.11 --takeover", "Crate(Request(Request"),
        ("allow requests", "Crate(Requests"),
        ("allow queue", "Review(List)"),
        ("allow approve 7 --note sound", "Review(Approve(Approve"),
        ("allow deny 7 --note unsound", "Review(Deny(Deny"),
        ("allow mark 7 src/lib.rs:1:1:unsafe seen", "Review(Mark(Mark"),
        ("allow revoke regex@1.11.1 --reason flaw", "Crate(Revoke(Revoke"),
        ("allow advisories db", "Crate(Advisories(Advisories"),
        ("allow audits a=b", "Crate(Audits(Audits"),
        ("allow export", "Crate(Export)"),
        ("allow import file", "Crate(Import(Import"),
        ("allow cargo-config", "Crate(CargoConfig)"),
    ] {
        assert_eq!(meant(line), wanted, "{line}");
    }
}
