//! Expanded texts as rustc 1.95 prints them, with the facts that must come of them.
//!
//! A fixture is a folder: `lib.rs`, the text it expands to (`tests/fixtures/regenerate`) and
//! `expected.txt`. `MFAAS_UPDATE=1` rewrites the expectations.
#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod tree;

use std::fmt::Write as _;
use std::path::Path;

use mfaas_audit::expansion;
use mfaas_rules::facts::{ExpansionFact, ExpansionFacts};
use mfaas_rules::judge_expansion;
use proptest::prelude::*;

use tree::library;

fn fixture(name: &str, file: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name).join(file);
    std::fs::read_to_string(path).unwrap()
}

fn read(name: &str) -> ExpansionFacts {
    expansion::read(fixture(name, "expanded.txt").as_bytes(), &library(&fixture(name, "lib.rs")))
}

/// One line for each fact.
fn describe(facts: &ExpansionFacts) -> String {
    let mut out = String::new();
    for fact in &facts.facts {
        let span = match fact {
            ExpansionFact::Privileged { kind, chain, by_std, tenant_tokens, type_tokens, span } => {
                let chain: Vec<String> = chain
                    .iter()
                    .map(|o| format!("{}{}", o.name, if o.own { " (own)" } else { "" }))
                    .collect();
                write!(
                    out,
                    "{kind:?} by [{}]{} tenant [{}] types [{}]",
                    chain.join(" > "),
                    if *by_std { " (std)" } else { "" },
                    tenant_tokens.join(" "),
                    type_tokens.join(" ")
                )
                .unwrap();
                span
            }
            ExpansionFact::TenantStdPath { path, span } => {
                write!(out, "path {}", path.join("::")).unwrap();
                span
            }
        };
        match span {
            Some(span) => writeln!(out, " at {}:{}", span.line, span.column).unwrap(),
            None => writeln!(out).unwrap(),
        }
    }
    if let Some(reason) = &facts.unreadable {
        writeln!(out, "unreadable: {reason}").unwrap();
    }
    out
}

#[test]
fn every_fixture_says_what_is_expected() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
    let mut names: Vec<String> = std::fs::read_dir(&root)
        .unwrap()
        .map(|entry| entry.unwrap())
        .filter(|entry| entry.path().is_dir())
        .map(|entry| entry.file_name().into_string().unwrap())
        .collect();
    names.sort();
    assert!(names.len() >= 13, "fixtures are missing: {names:?}");
    for name in names {
        let described = describe(&read(&name));
        if std::env::var_os("MFAAS_UPDATE").is_some() {
            std::fs::write(root.join(&name).join("expected.txt"), &described).unwrap();
        }
        assert_eq!(described, fixture(&name, "expected.txt"), "{name}");
    }
}

#[test]
fn what_std_emits_around_benign_code_is_admitted() {
    for name in ["std_macros", "std_derives", "item_names", "derive_by_dependency"] {
        assert_eq!(judge_expansion(&read(name)), Vec::new(), "{name}");
    }
}

#[test]
fn what_a_macro_launders_is_refused() {
    for name in [
        "trusting",
        "literal",
        "pinned_inside",
        "renamed_own",
        "attributes",
        "marking",
        "foreign",
        "spoofed",
        "type_block",
        "borrowed_name",
        "marked_by_dependency",
        "borrowed_glob",
    ] {
        let findings = judge_expansion(&read(name));
        assert!(findings.iter().any(|finding| finding.code.id() == "MF0308"), "{name}: {findings:?}");
    }
}

#[test]
fn a_text_that_is_not_understood_is_unreadable() {
    let tree = library("");
    let good = fixture("contained", "expanded.txt");
    assert_eq!(expansion::read(good.as_bytes(), &tree).unreadable, None);
    let spoilt = [
        String::new(),
        "pub fn f() {}".to_owned(),
        good.replace("Expansions:", "Expansion:"),
        good.replace("SyntaxContexts:", ""),
        good.replace("kind: Root", "kind: Tree"),
        good.replace("#0: parent: #0", "#0: parent: #99"),
        good.replace("parent: crate0::{{expn0}}", "parent: crate9::{{expn9}}"),
        good.replace("Macro(Bang,", "Macro(Bong,"),
        good.replacen("#0 */", "#987 */", 1),
        good.replacen("#0 */", "#0 */ /* 1#0 */", 3),
        format!("{good}\nfn late() {{}}"),
        format!("{good}\n/* 1#1 */"),
        good.replacen("pub fn", "\u{202e}pub fn", 1),
        good.replacen("pub fn", "\"unterminated pub fn", 1),
    ];
    for (index, text) in spoilt.iter().enumerate() {
        assert!(expansion::read(text.as_bytes(), &tree).unreadable.is_some(), "case {index}");
    }
    assert!(expansion::read(b"\xff", &tree).unreadable.is_some());
}

#[test]
fn tables_that_lead_in_circles_are_refused() {
    let text = "\n/*\nExpansions:\n\
        crate0::{{expn0}}: parent: crate0::{{expn0}}, call_site_ctxt: #0, def_site_ctxt: #0, kind: Root\n\
        crate0::{{expn1}}: parent: crate0::{{expn2}}, call_site_ctxt: #0, def_site_ctxt: #0, kind: Macro(Bang, \"a\")\n\
        crate0::{{expn2}}: parent: crate0::{{expn1}}, call_site_ctxt: #0, def_site_ctxt: #0, kind: Macro(Bang, \"b\")\n\n\
        SyntaxContexts:\n\
        #0: parent: #0, outer_mark: (crate0::{{expn0}}, Opaque)\n\
        #1: parent: #0, outer_mark: (crate0::{{expn1}}, SemiOpaque)\n*/";
    let unreadable = expansion::read(text.as_bytes(), &library("")).unreadable.unwrap();
    assert!(unreadable.contains("do not end"), "{unreadable}");
}

proptest! {
    #[test]
    fn no_text_panics(bytes in prop::collection::vec(any::<u8>(), 0..500), cut in 0usize..3000, at in 0usize..3000) {
        let tree = library("pub fn f() { dep::contained!() }");
        let _ = expansion::read(&bytes, &tree);
        let good = fixture("contained", "expanded.txt").into_bytes();
        let _ = expansion::read(&good[..cut.min(good.len())], &tree);
        let mut spliced = good.clone();
        let at = at.min(good.len());
        spliced.splice(at..at, bytes);
        let _ = expansion::read(&spliced, &tree);
    }

    #[test]
    fn no_sequence_of_tokens_panics(words in prop::collection::vec(prop::sample::select(&[
        "unsafe", "extern", "\"C\"", "{", "}", "(", ")", "[", "]", "<", ">", "impl", "for", "fn", "static", "mut", "=", ";",
        "#", "!", "x /* 1#0 */", "y /* 2#1 */", "::", "std /* 3#0 */", "use", "as", "asm!", "trait", "$", "'a", "1", "macro_rules! m",
    ][..]), 0..60)) {
        let good = fixture("contained", "expanded.txt");
        let tables = good.rfind("/*").unwrap();
        let text = format!("{}\n{}", words.join(" "), &good[tables..]);
        let _ = expansion::read(text.as_bytes(), &library("pub fn f() {}"));
    }
}
