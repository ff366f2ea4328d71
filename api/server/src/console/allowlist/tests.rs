#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use chrono::{DateTime, TimeDelta};
use mfaas_catalog::{CrateRow, CrateUsers, KnownFacts};
use mfaas_rules::crate_facts::{CompilerVerdict, Count, GeigerCounts, KindFacts, UnsafeCode};
use mfaas_rules::{AllowedCrate, CrateStatus};

use super::{Choice, Entry, Only, Sort, chips, chosen};

fn entry(name: &str, change: impl FnOnce(&mut Entry)) -> Entry {
    let facts = KnownFacts {
        unsafe_code: UnsafeCode::None,
        geiger: GeigerCounts::default(),
        compiler: CompilerVerdict::Clean,
        kind: KindFacts { proc_macro: false, build_script: false, links: None, edition: None },
    };
    let allowed = AllowedCrate {
        name: name.parse().unwrap(),
        version: "1.0.0".parse().unwrap(),
        checksum: "0".repeat(64),
        features: Vec::new(),
        direct: true,
        status: CrateStatus::Allowed,
        decided_by: "ann".to_owned(),
        reason: String::new(),
    };
    let decided_at = DateTime::from_timestamp(1_800_000_000, 0).unwrap();
    let row = CrateRow { allowed, decided_at, tenant: None, expires_at: None };
    let mut entry = Entry { row, facts: Some(facts), users: CrateUsers::default() };
    change(&mut entry);
    entry
}

fn with_facts(name: &str, change: impl FnOnce(&mut KnownFacts)) -> Entry {
    entry(name, |entry| change(entry.facts.as_mut().unwrap()))
}

fn items(count: u64) -> GeigerCounts {
    GeigerCounts { exprs: Count { safe: 1, unsafe_: count }, ..GeigerCounts::default() }
}

/// One entry for each filter that shows it, beside a plain one.
fn entries() -> Vec<Entry> {
    let day = TimeDelta::days(1);
    vec![
        entry("plain", |_| {}),
        entry("denied", |entry| entry.row.allowed.status = CrateStatus::Denied),
        entry("revoked", |entry| entry.row.allowed.status = CrateStatus::Revoked),
        entry("shipped", |entry| entry.row.allowed.decided_by = "seed".to_owned()),
        with_facts("unsafe", |facts| (facts.unsafe_code, facts.geiger) = (UnsafeCode::Counted, items(7))),
        with_facts("unknown", |facts| (facts.unsafe_code, facts.geiger) = (UnsafeCode::Unknown, items(9))),
        entry("unexamined", |entry| entry.facts = None),
        with_facts("macro", |facts| facts.kind.proc_macro = true),
        with_facts("script", |facts| facts.kind.build_script = true),
        entry("expiring", |entry| entry.row.expires_at = Some(entry.row.decided_at + day)),
        entry("newest", |entry| entry.row.decided_at += day),
        entry("used", |entry| entry.users = CrateUsers { functions: 2, tenants: 1 }),
    ]
}

fn names(entries: &[Entry]) -> Vec<&str> {
    entries.iter().map(|entry| entry.row.allowed.name.as_str()).collect()
}

#[test]
fn each_filter_shows_what_it_says_and_what_is_unknown_counts_as_unsafe() {
    let shown = |value: &str| {
        let only = chosen(&Only::CHOICES, "only", value).unwrap().means;
        let mut entries = entries();
        entries.retain(|entry| only.shows(entry));
        names(&entries).join(" ")
    };
    assert_eq!(shown("").split(' ').count(), entries().len());
    assert_eq!(shown("allowed").split(' ').count(), entries().len() - 2);
    for (value, found) in [
        ("denied", "denied"),
        ("revoked", "revoked"),
        ("unreviewed", "shipped"),
        ("unsafe", "unsafe unknown"),
        ("not-examined", "unexamined"),
        ("proc-macro", "macro"),
        ("build-script", "script"),
        ("expiring", "expiring"),
    ] {
        assert_eq!(shown(value), found, "{value}");
    }
    assert!(chosen(&Only::CHOICES, "only", "everything").is_err());
}

#[test]
fn each_order_puts_first_what_it_says_and_keeps_the_rest_by_name() {
    let first = |value: &str| {
        let mut entries = entries();
        chosen(&Sort::CHOICES, "sort", value).unwrap().means.apply(&mut entries);
        names(&entries)[..2].join(" ")
    };
    for (value, found) in [
        ("", "plain denied"),
        ("decided", "newest plain"),
        ("unsafe", "unknown unsafe"),
        ("functions", "used plain"),
        ("expires", "expiring plain"),
    ] {
        assert_eq!(first(value), found, "{value}");
    }
}

#[test]
fn what_is_unknown_of_a_source_never_looks_like_nothing() {
    let words = |change: &dyn Fn(&mut KnownFacts)| {
        let entry = with_facts("a", |facts| change(facts));
        let texts: Vec<String> = chips(entry.facts.as_ref())
            .into_iter()
            .map(|chip| format!("{} ({})", chip.text, chip.tone))
            .collect();
        texts.join(", ")
    };
    assert_eq!(words(&|_| {}), "no unsafe code (good), compiler: none (good)");
    let failed = CompilerVerdict::Failed { reason: "it needs nightly".to_owned() };
    let unread = |facts: &mut KnownFacts| {
        (facts.unsafe_code, facts.compiler) = (UnsafeCode::Unknown, failed.clone());
    };
    assert_eq!(words(&unread), "unsafe code unknown (wait), compiler: unknown (wait)");
    let much = |facts: &mut KnownFacts| {
        (facts.unsafe_code, facts.geiger) = (UnsafeCode::Unknown, items(3));
        facts.compiler = CompilerVerdict::Unsafe { errors: 2, hotspots: Vec::new() };
        facts.kind.links = Some("z".to_owned());
    };
    assert_eq!(words(&much), "3 unsafe items or more (bad), compiler: 2 (bad), native library (bad)");
    assert_eq!(chips(None)[0].text, "not examined");
}

#[test]
fn values_of_the_address_are_each_one_choice() {
    fn is_unique<T>(choices: &[Choice<T>]) -> bool {
        let mut values: Vec<&str> = choices.iter().map(|choice| choice.value).collect();
        values.sort_unstable();
        values.dedup();
        values.len() == choices.len()
    }
    assert!(is_unique(&Only::CHOICES) && is_unique(&Sort::CHOICES));
}
