//! The soundness lints against sources that need each hole, and against benign ones close by.
//!
//! A file of `lints/refused` names in its first line the lint that must speak up, a case of
//! `tests/hostile` in its `expect.toml`; of those in `lints/admitted` none may.
#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod tree;

use std::collections::BTreeSet;
use std::path::Path;

use mfaas_audit::soundness;
use mfaas_rules::profiles::lints;
use mfaas_rules::{Finding, judge_soundness};
use proptest::prelude::*;

use tree::library;

fn folder(name: &str) -> Vec<(String, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/lints").join(name);
    let mut files: Vec<_> = std::fs::read_dir(root)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .map(|path| (path.display().to_string(), std::fs::read_to_string(path).unwrap()))
        .collect();
    files.sort();
    files
}

/// Lint, file and text of everything that has to be refused.
fn refused() -> Vec<(String, String, String)> {
    let own = folder("refused").into_iter().map(|(file, text)| {
        let lint = text.lines().next().unwrap().trim_start_matches("// ").to_owned();
        (lint, file, text)
    });
    let cases = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/hostile");
    let hostile = std::fs::read_dir(cases).unwrap().map(|entry| entry.unwrap().path()).filter_map(|case| {
        let expected = std::fs::read_to_string(case.join("expect.toml")).ok()?;
        let lint = expected.lines().find_map(|line| line.strip_prefix("lint = \"")?.strip_suffix('"'))?;
        let text = std::fs::read_to_string(case.join("package/src/lib.rs")).unwrap();
        Some((lint.to_owned(), case.display().to_string(), text))
    });
    own.chain(hostile).collect()
}

fn judged(text: &str) -> Vec<Finding> {
    judge_soundness(&soundness::read_unexpanded(std::iter::once(("src/lib.rs", text))))
}

fn names(findings: &[Finding]) -> BTreeSet<&str> {
    findings.iter().filter_map(|finding| finding.message.split(':').next()).collect()
}

#[test]
fn what_a_hole_needs_is_refused_by_the_lint_that_knows_it() {
    let mut seen = BTreeSet::new();
    let mut missed = Vec::new();
    for (lint, file, text) in refused() {
        let findings = judged(&text);
        if !names(&findings).contains(lint.as_str()) {
            missed.push(format!("{file}: {findings:?}"));
        }
        for finding in &findings {
            assert_eq!((finding.code.id(), finding.span.is_some()), ("MF0314", true), "{file}: {finding:?}");
        }
        seen.insert(lint);
    }
    assert!(missed.is_empty(), "{}", missed.join("\n"));
    let all: BTreeSet<String> = lints::ROWS.iter().map(|row| row.id.to_owned()).collect();
    let untested: Vec<_> = all.difference(&seen).collect();
    assert_eq!(untested, ["pin_where_expected"], "seen in an expansion only: see below");
}

#[test]
fn benign_sources_close_to_a_hole_are_admitted() {
    for (file, text) in folder("admitted") {
        assert_eq!(judged(&text), Vec::new(), "{file}");
    }
}

#[test]
fn every_row_refuses_and_admits_its_own_example() {
    for row in lints::ROWS {
        let found = |code: &str| names(&judged(code)).iter().any(|lint| *lint == row.id);
        let in_expansion =
            |code: &str| code.replace("pin!(", "({ super let mut pinned = ").replace("future)", "future }");
        let (refused, admitted) = match row.id {
            "pin_where_expected" => (
                "poll_it({ super let mut p = future; p });".to_owned(),
                "let future = { super let mut p = future; p };".to_owned(),
            ),
            _ => (in_expansion(row.refused), in_expansion(row.admitted)),
        };
        assert!(found(&refused), "{}: its refused example passes", row.id);
        assert!(!found(&admitted), "{}: its admitted example does not pass: {:?}", row.id, judged(&admitted));
    }
}

#[test]
fn a_pinned_value_may_be_bound_or_called_and_nothing_else() {
    let pinned = "{ super let mut pinned = v; unsafe { ::core::pin::Pin::new_unchecked(&mut pinned) } }";
    for benign in
        [format!("let mut p = {pinned};"), format!("let p = {pinned};"), format!("{pinned}.as_mut();")]
    {
        assert_eq!(judged(&format!("fn f() {{ {benign} }}")), Vec::new(), "{benign}");
    }
    for hostile in [
        format!("f({pinned});"),
        format!("let p: Pin<&mut T> = {pinned};"),
        format!("let p; p = {pinned};"),
        format!("return {pinned};"),
        format!("Holder {{ p: {pinned} }};"),
        format!("let p = if c {{ {pinned} }} else {{ q }};"),
        format!("let p = {{ {pinned} }};"),
        pinned.to_owned(),
    ] {
        let findings = judged(&format!("fn f() {{ {hostile} }}"));
        assert!(names(&findings).contains("pin_where_expected"), "{hostile}");
    }
}

#[test]
fn a_name_that_could_mean_something_worse_does() {
    // A harmless type of the crate does not vouch for std's of the same name.
    let shadow = "mod a { pub struct Ref<'b, T>(&'static str, std::marker::PhantomData<fn(&'b T)>); }\n\
        use std::cell::Ref;\n\
        fn keep<'s, 'l>(_: Option<Ref<'s, &'l ()>>, v: &'l [u8]) -> &'s [u8] { v }\n\
        const F: u8 = { keep; 0 };";
    assert!(names(&judged(shadow)).contains("nested_lifetime_witness"), "{:?}", judged(shadow));
    // Two aliases of one name: both.
    let aliases = "mod a { pub type W<'s, 'l> = (&'s (), &'l ()); }\nmod b { pub type W<'s, 'l> = &'s &'l (); }\n\
        use b::W;\nfn keep<'s, 'l>(_: W<'s, 'l>, v: &'l [u8]) -> &'s [u8] { v }\nfn f() { let f = keep; }";
    assert!(names(&judged(aliases)).contains("nested_lifetime_witness"), "{:?}", judged(aliases));
    // An alias with the name of what it stands for is no circle.
    let own = "type Result<T> = std::result::Result<T, String>;\nfn f() -> Result<()> { Ok(()) }";
    assert_eq!(judged(own), Vec::new());
}

#[test]
fn what_is_too_long_is_refused() {
    let doubling: String =
        (1..20).map(|n| format!("type A{n}<T> = (A{}<T>, A{}<T>);\n", n - 1, n - 1)).collect();
    let findings = judged(&format!("type A0<T> = (T, T);\n{doubling}fn f<'a>(x: A19<&'a ()>) {{}}"));
    assert_eq!(findings.iter().map(|finding| finding.code.id()).collect::<Vec<_>>(), ["MF0312"]);
    let text = "fn f() {}".as_bytes();
    assert!(soundness::read(text, &library("")).unreadable.is_none());
    assert!(soundness::read(b"\xff", &library("")).unreadable.is_some());
}

/// Each of these made an earlier reader walk for minutes.
#[test]
fn hostile_sizes_end_soon() {
    let many = |count: usize, line: &dyn Fn(usize) -> String| (0..count).map(line).collect::<String>();
    let texts = [
        many(3_000, &|n| format!("struct S{n}<'a, T>(S{}<'a, T>);\n", n + 1)),
        many(20, &|n| format!("fn f{n}<'a, T>(x: {}T) {{}}\n", "&".repeat(8_000))),
        many(40, &|n| format!("fn f{n}(x: {}u8{}) {{}}\n", "A<".repeat(900), ">".repeat(900))),
        many(3_000, &|n| format!("trait T{n}: T{} {{}}\n", n + 1)) + "type D = dyn T0;",
        many(60, &|n| format!("type X{n} = {}&'static u8{};\n", "fn(".repeat(300), ")".repeat(300))),
        "x::<".repeat(50_000),
    ];
    for (index, text) in texts.iter().enumerate() {
        let started = std::time::Instant::now();
        let _ = judged(text);
        assert!(started.elapsed().as_secs() < 120, "case {index}: {:?}", started.elapsed());
    }
}

/// The `#` of a parameter stands before no group of that parameter.
#[test]
fn attributes_that_are_none_panic_nowhere() {
    for text in ["fn Fn( # for", "fn f(#", "fn f(# a)", "fn f<#(a: T)", "impl T for S where #"] {
        let _ = judged(text);
    }
}

proptest! {
    #[test]
    fn no_text_panics(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        let _ = soundness::read(&bytes, &library("pub fn f() {}"));
    }

    #[test]
    fn no_sequence_of_tokens_panics(words in prop::collection::vec(prop::sample::select(&[
        "fn f", "fn", "impl", "trait T", "type W", "struct S", "enum E", "for", "where", "dyn", "use", "as", "Self", "self",
        "pub", "const", "let", "super let", "&", "'a", "'b", "'static", "'_", "T", "W", "S", "<", ">", "(", ")", "{", "}",
        "[", "]", ":", "::", ",", ";", "=", "->", "=>", "+", "?", "!", "mut", "Fn(", "Fn", "#", "Item", "1", "Any",
    ][..]), 0..120)) {
        let text = words.join(" ");
        let _ = judged(&text);
        let repeated = text.repeat(20);
        let _ = judged(&repeated);
    }
}
