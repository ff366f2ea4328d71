//! Every malicious, unsound or vulnerable entry of a snapshot of the RustSec advisory database goes
//! through the rules, with otherwise clean facts: refused in each affected version, with the advisory's
//! own words, and in no other version.
//!
//! `advisories.tsv` is our own table of that snapshot (the database is in the public domain). To make it anew from
//! a checkout: `MFAAS_ADVISORIES=DIR MFAAS_UPDATE=1 cargo test -p mfaas-audit --test rustsec`; without
//! `MFAAS_UPDATE` the table is compared with the checkout.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a panic is how a test fails; it prints counts")]

use std::collections::{BTreeMap, BTreeSet};

use mfaas_rules::crate_facts::{Advisory, AdvisoryKind, AdvisorySet, AuditSet};
use mfaas_rules::{Outside, RiskClass, Suggestion, judge_crate};
use semver::Version;

mod checkout;
mod facts;
mod oracle;
mod table;

use oracle::{Intervals, samples};

/// The three kinds that refuse, and what a reason about them is called.
const KINDS: [(AdvisoryKind, RiskClass); 3] = [
    (AdvisoryKind::Malicious, RiskClass::AdvisoryMalicious),
    (AdvisoryKind::Unsound, RiskClass::AdvisoryUnsound),
    (AdvisoryKind::Vulnerability, RiskClass::AdvisoryVulnerability),
];

fn risk(kind: AdvisoryKind) -> RiskClass {
    KINDS.iter().find(|(of, _)| *of == kind).unwrap().1
}

#[test]
fn the_table_is_that_of_the_checkout() {
    let Some(directory) = std::env::var_os("MFAAS_ADVISORIES") else {
        println!("MFAAS_ADVISORIES is not set: the table is not compared with a checkout");
        return;
    };
    let found = checkout::read(directory.as_ref());
    let text = table::write(&found);
    if std::env::var_os("MFAAS_UPDATE").is_some() {
        std::fs::write(table::PATH, &text).unwrap();
    }
    assert_eq!(std::fs::read_to_string(table::PATH).unwrap(), text, "run it again with MFAAS_UPDATE=1");
}

#[test]
fn the_table_says_whence_it_is_and_how_much() {
    let table = table::read();
    let mut counts: BTreeMap<(AdvisoryKind, bool), usize> = BTreeMap::new();
    for row in &table.rows {
        *counts.entry((row.advisory.kind, row.advisory.withdrawn)).or_default() += 1;
    }
    println!("snapshot {}", table.snapshot);
    for ((kind, withdrawn), count) in &counts {
        println!("{kind:?}{}: {count}", if *withdrawn { ", withdrawn" } else { "" });
    }
    for row in table.rows.iter().filter(|row| row.advisory.kind == AdvisoryKind::Malicious) {
        println!("malicious: {} {} {}", row.advisory.id, row.advisory.package, row.advisory.title);
    }
    assert!(table.snapshot.len() > 40, "commit and date");
    let count =
        |kind| counts.iter().filter(|((of, _), _)| *of == kind).map(|(_, count)| count).sum::<usize>();
    let kinds = KINDS.map(|(kind, _)| count(kind));
    assert!(kinds.iter().all(|count| *count > 0), "{kinds:?}");
    let ids: BTreeSet<&str> = table.rows.iter().map(|row| row.advisory.id.as_str()).collect();
    assert_eq!(ids.len(), table.rows.len());
}

#[derive(Default)]
struct Tally {
    versions: usize,
    refused: usize,
    let_in: usize,
}

#[test]
fn each_entry_refuses_what_it_affects_and_nothing_else() {
    let table = table::read();
    let set = AdvisorySet {
        advisories: table.rows.iter().map(|row| row.advisory.clone()).collect(),
        unread: Vec::new(),
    };
    let mut tally = Tally::default();
    for row in &table.rows {
        // Other entries about the same crate may hit the same versions.
        let siblings: Vec<(&Advisory, Intervals)> = table
            .rows
            .iter()
            .filter(|other| other.advisory.package == row.advisory.package)
            .map(|other| (&other.advisory, Intervals::of(other)))
            .collect();
        let own = Intervals::of(row);
        let versions = samples(row);
        let affected = versions.iter().filter(|version| own.affects(version)).count();
        if row.advisory.withdrawn {
            assert_eq!(affected, 0, "{}", row.advisory.id);
        } else {
            assert!(affected > 0, "{}: no sample is affected", row.advisory.id);
            let is_open = row.patched.is_empty() && row.unaffected.is_empty();
            assert!(is_open || affected < versions.len(), "{}: no sample is free", row.advisory.id);
        }
        for version in versions {
            check(&row.advisory, &version, &siblings, &set, &mut tally);
        }
    }
    let Tally { versions, refused, let_in } = tally;
    println!("{} entries, {versions} versions: {refused} refused, {let_in} let in", table.rows.len());
}

fn check(
    about: &Advisory,
    version: &Version,
    siblings: &[(&Advisory, Intervals)],
    set: &AdvisorySet,
    tally: &mut Tally,
) {
    let report = facts::clean(&about.package, version);
    let judged = judge_crate(&report, &[], Outside { advisories: set, audits: &AuditSet::default() });
    let expected: BTreeSet<(RiskClass, String)> = siblings
        .iter()
        .filter(|(_, intervals)| intervals.affects(version))
        .map(|(advisory, _)| (risk(advisory.kind), format!("{}: {}", advisory.id, advisory.title)))
        .collect();
    let found: BTreeSet<(RiskClass, String)> =
        judged.reasons.iter().map(|reason| (reason.risk, reason.text.clone())).collect();
    assert_eq!(found, expected, "{} {version}", about.package);
    let suggestion = if expected.is_empty() { Suggestion::AdmitAutomatically } else { Suggestion::Refuse };
    assert_eq!(judged.suggestion, suggestion, "{} {version}", about.package);
    tally.versions += 1;
    tally.refused += usize::from(!expected.is_empty());
    tally.let_in += usize::from(expected.is_empty());
}
