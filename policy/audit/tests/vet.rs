//! cargo-vet's files: each shape that occurs, and those that must not pass.
#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use mfaas_audit::vet::{read_audits, read_imports};
use mfaas_rules::crate_facts::{AuditKind, AuditSet};
use mfaas_rules::limits::AUDIT_FILE;
use proptest::prelude::*;
use semver::Version;

const AUDITS: &str = r#"
[criteria.crypto-safe]
description = "by somebody who knows"
implies = ["reviewed", "safe-to-deploy"]

[criteria.reviewed]
description-url = "somewhere"
implies = "read"

[[wildcard-audits.all]]
who = "A <a@example.org>"
criteria = "safe-to-deploy"
user-id = 1
start = "2020-01-01"
end = "2021-01-01"

[[audits.full]]
who = ["A <a@example.org>", "B"]
criteria = "crypto-safe"
version = "1.2.3-rc.1+build"
notes = """
Two lines,
one of them hostile: \u202E
"""
aggregated-from = "elsewhere"

[[audits.delta]]
criteria = ["ub-risk-2", "safe-to-run"]
delta = "1.0.0 -> 0.9.0"

[[audits.delta]]
criteria = "safe-to-deploy"
delta = "1.0.0 -> 1.0.1@git:0123456789"

[[audits.revision]]
criteria = "safe-to-deploy"
version = "1.0.0@git:0123456789"

[[audits.bad]]
criteria = "safe-to-run"
violation = ">= 2, < 3"

[[audits.worse]]
criteria = "safe-to-run"
violation = "*"
importable = false

[[trusted.someone]]
criteria = "safe-to-deploy"
user-id = 2
"#;

fn version(text: &str) -> Version {
    Version::parse(text).unwrap()
}

fn check(set: &AuditSet, source: &str) {
    assert_eq!((set.audits.len(), set.left_out, set.unread.len()), (4, 2, 0), "{:?}", set.unread);
    assert!(set.audits.iter().all(|audit| audit.source == source));
    let find = |name: &str| set.audits.iter().find(|audit| audit.package.as_str() == name).unwrap();
    let full = find("full");
    assert_eq!(full.kind, AuditKind::Full { version: version("1.2.3-rc.1+build") });
    assert_eq!(full.criteria, ["crypto-safe", "read", "reviewed", "safe-to-deploy", "safe-to-run"]);
    assert_eq!(full.who, ["A <a@example.org>", "B"]);
    assert_eq!(full.notes.as_deref(), Some("Two lines,\none of them hostile: \\u{202e}\n"));
    let delta = find("delta");
    assert_eq!(delta.kind, AuditKind::Delta { from: version("1.0.0"), to: version("0.9.0") });
    assert_eq!(delta.criteria, ["safe-to-run", "ub-risk-2"], "no criterion but those named is implied");
    assert!(
        matches!(&find("bad").kind, AuditKind::Violation { versions } if versions.comparators.len() == 2)
    );
    assert!(
        matches!(&find("worse").kind, AuditKind::Violation { versions } if versions.comparators.is_empty())
    );
}

#[test]
fn a_projects_own_file_is_read() {
    check(&read_audits("mozilla", AUDITS.as_bytes()), "mozilla");
}

#[test]
fn imports_are_read_source_by_source() {
    let nested = AUDITS
        .replace("[criteria.", "[audits.mozilla.criteria.")
        .replace("[[audits.", "[[audits.mozilla.audits.")
        .replace("[[wildcard-audits.", "[[audits.mozilla.wildcard-audits.")
        .replace("[[trusted.", "[[audits.mozilla.trusted.");
    let text = format!("{nested}\n[[publisher.full]]\nversion = \"1.0.0\"\nuser-id = 3\n[audits.empty]\n");
    check(&read_imports(text.as_bytes()), "mozilla");
    let two = "[[audits.a.audits.x]]\ncriteria = \"c\"\nversion = \"1.0.0\"\n[[audits.b.audits.x]]\ncriteria = \"c\"\nviolation = \"*\"\n[audits.a.criteria.c]\nimplies = \"d\"";
    let read = read_imports(two.as_bytes()).audits;
    assert_eq!(read[0].criteria, ["c", "d"]);
    assert_eq!(read[1].criteria, ["c"], "one source's table says nothing about another's words");
}

#[test]
fn criteria_that_imply_each_other_end() {
    let text = "[criteria.a]\nimplies = \"b\"\n[criteria.b]\nimplies = \"a\"\n[[audits.x]]\ncriteria = \"a\"\nversion = \"1.0.0\"\n";
    assert_eq!(read_audits("s", text.as_bytes()).audits[0].criteria, ["a", "b"]);
}

/// One entry that is not understood, and the whole file is unread: it might have been a violation.
#[test]
fn what_is_malformed_makes_the_whole_file_unread() {
    let entry = |lines: &str| format!("{AUDITS}\n[[audits.more]]\n{lines}\n");
    let words = vec!["\"w\""; AUDIT_FILE.words_max + 1].join(",");
    let many: String = (0..=AUDIT_FILE.criteria_max).map(|n| format!("[criteria.c{n}]\n")).collect();
    let cases = [
        entry("criteria = \"c\""),
        entry("version = \"1.0.0\""),
        entry("criteria = []\nversion = \"1.0.0\""),
        entry("criteria = \"c\"\nversion = \"1.0.0\"\nviolation = \"*\""),
        entry("criteria = \"c\"\nversion = \"1.0.0\"\ndelta = \"1.0.0 -> 1.0.1\""),
        entry("criteria = \"c\"\nversion = \"1.0\""),
        entry("criteria = \"c\"\nversion = \"one\""),
        entry("criteria = \"c\"\nversion = 1"),
        entry("criteria = \"c\"\ndelta = \"1.0.0\""),
        entry("criteria = \"c\"\ndelta = \"1.0.0 -> \""),
        entry("criteria = \"c\"\nviolation = \"\""),
        entry("criteria = \"c\"\nviolation = \"all\""),
        entry("criteria = \"c\"\nviolation = [\"*\"]"),
        entry("criteria = \"c\"\nviolates = \"*\""),
        entry("criteria = \"c\"\nversion = \"1.0.0\"\nviolation-of = \"*\""),
        entry(&format!("criteria = [{words}]\nversion = \"1.0.0\"")),
        format!("{AUDITS}\n[[violations.x]]\ncriteria = \"c\"\n"),
        format!("{AUDITS}\n[criteria.x]\nunless = \"y\"\n"),
        format!("{AUDITS}\n[criteria.x]\nimplies = [{words}]\n"),
        format!("{AUDITS}\n{many}"),
        format!("{AUDITS}\n[[audits.cut]]\ncriteria = \"c"),
        format!("{AUDITS}\nx = {}", "[".repeat(10_000)),
        format!("{AUDITS}\n#{}", " ".repeat(AUDIT_FILE.file_bytes_max)),
    ];
    for text in &cases {
        let set = read_audits("somebody", text.as_bytes());
        assert_eq!((set.audits.len(), set.unread.len()), (0, 1), "{}", &text[text.len().min(1_200)..]);
        assert!(set.unread[0].contains("somebody"));
    }
    assert_eq!(read_audits("s", &[0xff]).unread.len(), 1);
    assert_eq!(read_imports(AUDITS.as_bytes()).unread.len(), 1, "one form is not the other");
}

#[test]
fn what_stands_under_no_crates_name_is_left_out_and_counted() {
    let text = format!("{AUDITS}\n[[audits.\"0.7.11\"]]\ncriteria = \"c\"\nversion = \"1.0.0\"\n");
    let set = read_audits("mozilla", text.as_bytes());
    assert_eq!((set.audits.len(), set.left_out, set.unread.len()), (4, 3, 0));
}

#[test]
fn an_empty_file_is_read_and_says_nothing() {
    for set in [read_audits("s", b""), read_imports(b"\n# nothing\n")] {
        assert_eq!(set, AuditSet::default());
    }
}

proptest! {
    #[test]
    fn any_text_is_read_or_unread(at in 0usize..1_200, cut in 0usize..60, put in "(\\[|\\]|\"|=|\\n|->|\u{202e}|\\PC){0,8}") {
        let from = AUDITS.floor_char_boundary(at.min(AUDITS.len()));
        let to = AUDITS.floor_char_boundary((from + cut).min(AUDITS.len()));
        let text = format!("{}{put}{}", &AUDITS[..from], &AUDITS[to..]);
        for set in [read_audits("s", text.as_bytes()), read_imports(text.as_bytes())] {
            prop_assert!(set.unread.is_empty() || set.audits.is_empty());
            let shown = format!("{:?}{:?}", set.audits, set.unread);
            let hidden = shown.contains('\u{202e}');
            prop_assert!(!hidden);
        }
    }
}
