use super::{codes, span};
use crate::{
    facts::{SourceFact, SourceFacts},
    judge_source, limits,
};

fn judged(fact: SourceFact) -> Vec<&'static str> {
    codes(&judge_source(&SourceFacts { facts: vec![(fact, span())], ..SourceFacts::default() }))
}

fn path(text: &str) -> SourceFact {
    SourceFact::StdPath(text.split("::").map(str::to_owned).collect())
}

fn attribute(path: &str) -> SourceFact {
    SourceFact::Attribute { path: path.into(), inner: false, in_unsafe: false, tokens: String::new() }
}

#[test]
fn what_has_power_is_refused_by_its_own_code() {
    assert_eq!(judged(SourceFact::Unsafe), ["MF0301"]);
    assert_eq!(judged(SourceFact::StaticMut), ["MF0301"]);
    assert_eq!(judged(SourceFact::ExternBlock), ["MF0302"]);
    assert_eq!(judged(SourceFact::ExternFn), ["MF0302"]);
    assert_eq!(judged(attribute("naked")), ["MF0303"]);
    assert_eq!(judged(attribute("no_mangle")), ["MF0302"]);
    assert_eq!(judged(SourceFact::MacroCall("core::arch::asm".into())), ["MF0303"]);
    assert_eq!(judged(SourceFact::MacroCall("include_str".into())), ["MF0304"]);
    assert_eq!(judged(SourceFact::MacroCall("std::env".into())), ["MF0304"]);
    assert_eq!(judged(SourceFact::Unreadable("NUL".into())), ["MF0310"]);
}

#[test]
fn attributes_are_known_by_allowlist() {
    for good in ["derive", "inline", "rustfmt::skip", "clippy::too_many_lines", "serde", "cfg"] {
        assert!(judged(attribute(good)).is_empty(), "{good}");
    }
    for bad in [
        "global_allocator",
        "path",
        "feature",
        "panic_handler",
        "recursion_limit",
        "not_yet_invented",
        "crate_type",
    ] {
        assert_eq!(judged(attribute(bad)), ["MF0305"], "{bad}");
    }
    let lowered = SourceFact::Attribute {
        path: "allow".into(),
        inner: true,
        in_unsafe: false,
        tokens: "(unsafe_code)".into(),
    };
    assert_eq!(judged(lowered), ["MF0301"]);
}

#[test]
fn the_longest_row_decides_about_a_path() {
    for good in [
        "std::collections::HashMap",
        "std::net::IpAddr",
        "std::io::Read",
        "core::fmt",
        "std::env::consts::OS",
        "std::thread::LocalKey",
        "alloc::vec::Vec",
        "std::io::prelude::*",
        "std::collections::*",
        "std::alloc::Layout",
        "std::os::raw::c_int",
        "std::io::no_such_thing",
        "std::prelude::v1::*",
    ] {
        assert!(judged(path(good)).is_empty(), "{good}");
    }
    for bad in [
        "std::fs",
        "std::fs::File",
        "std::net",
        "std::net::TcpStream",
        "std::io::stdin",
        "std::io::*",
        "std::env::var",
        "std::process::exit",
        "std::thread::spawn",
        "std::panic::catch_unwind",
        "alloc::alloc::System",
        "std::os::fd",
        "std::os::unix::fs::symlink",
        "std::backtrace::Backtrace",
        "std::process::no_such_thing",
        "std::thread::sleep",
    ] {
        assert_eq!(judged(path(bad)), ["MF0307"], "{bad}");
    }
    assert_eq!(judged(path("core::arch::x86_64")), ["MF0303"]);
    for root in ["std", "core", "std::*"] {
        assert_eq!(judged(path(root)), ["MF0313"], "{root}");
    }
    assert_eq!(judged(path("std::include_str")), ["MF0304"]);
}

#[test]
fn a_crate_of_the_compiler_cannot_be_renamed() {
    let plain = SourceFact::ExternCrate { name: "alloc".into(), alias: None };
    assert!(judged(plain).is_empty());
    let renamed = SourceFact::ExternCrate { name: "std".into(), alias: Some("s".into()) };
    assert_eq!(judged(renamed), ["MF0313"]);
}

#[test]
fn measures_are_refused_behind_their_limit_only() {
    let max = limits::LEXER.nesting_max;
    assert!(judged(SourceFact::Measure { what: "nesting_max", value: max }).is_empty());
    assert_eq!(judged(SourceFact::Measure { what: "nesting_max", value: max + 1 }), ["MF0309"]);
    assert_eq!(judged(SourceFact::Measure { what: "no_such_limit", value: 1 }), ["MF0309"]);
    let many = SourceFacts { tokens: limits::LEXER.tokens_max + 1, ..SourceFacts::default() };
    assert_eq!(codes(&judge_source(&many)), ["MF0309"]);
}
