//! What the lexer reports, and what it does not.
#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod tree;

use std::collections::BTreeSet;

use mfaas_audit::lexer::scan;
use mfaas_rules::facts::SourceFact;
use mfaas_rules::judge_source;
use proptest::prelude::*;

use tree::{library, tree};

/// Codes of the findings about one file.
fn codes(source: &str) -> BTreeSet<String> {
    judge_source(&scan(&library(source))).iter().map(|finding| finding.code.id().to_owned()).collect()
}

fn facts(source: &str) -> Vec<SourceFact> {
    let measures = |fact: &SourceFact| matches!(fact, SourceFact::Measure { .. });
    scan(&library(source)).facts.into_iter().map(|(fact, _)| fact).filter(|fact| !measures(fact)).collect()
}

/// The std paths in `source`, joined.
fn paths(source: &str) -> BTreeSet<String> {
    facts(source)
        .into_iter()
        .filter_map(|fact| if let SourceFact::StdPath(path) = fact { Some(path.join("::")) } else { None })
        .collect()
}

fn set(items: &[&str]) -> BTreeSet<String> {
    items.iter().map(|item| (*item).to_owned()).collect()
}

/// Tests and examples use files and clocks, and never become a part of the function.
#[test]
fn what_lies_outside_of_src_is_not_read() {
    let power = b"fn main() { unsafe { std::fs::read(env!(\"HOME\")) } }".as_slice();
    let outside =
        [("tests/it.rs", power), ("examples/a/main.rs", power), ("top.rs", b"\xff"), ("srcs/x.rs", power)];
    let plain: (&str, &[u8]) = ("src/lib.rs", b"pub fn f() {}");
    let facts = scan(&tree(&[outside.as_slice(), &[plain]].concat()));
    assert_eq!((facts.files, facts.bytes), (1, plain.1.len()));
    assert!(judge_source(&facts).is_empty());
    let inside = scan(&tree(&[plain, ("src/bin/it.rs", power)]));
    assert!(!judge_source(&inside).is_empty());
}

#[test]
fn words_in_strings_comments_and_raw_identifiers_do_not_count() {
    let source = r##"
        //! unsafe { asm!() } include_str!("x") #[path = "y"] extern "C" {}
        /* unsafe /* nested extern */ std::fs::read */
        /// ``` unsafe { std::process::exit(1) } ```
        pub fn handle(_: &[u8]) -> Vec<u8> {
            let r#unsafe = "unsafe extern std::fs::read include!()";
            let r#extern = r#"static mut X: u8 = env!("HOME")"#;
            let lifetime = 'x'; let byte = b'"'; let c = c"unsafe";
            format!("{}{}{lifetime}{byte}{:?}", r#unsafe, r#extern, c).into_bytes()
        }
        mod fs { pub fn read() -> u8 { 1 } }
        fn own() -> u8 { fs::read() + self::fs::read() + crate::fs::read() }
        fn generic<'unsafe_, T: Iterator<Item = u8>>(t: &'unsafe_ T) -> &'unsafe_ T { t }
    "##;
    assert_eq!(codes(source), BTreeSet::new());
}

#[test]
fn unsafe_counts_wherever_it_stands() {
    for source in [
        "fn f() { unsafe { } }",
        "unsafe fn f() {}",
        "unsafe impl Send for S {}",
        "macro_rules! m { ($e:expr) => { unsafe { $e } } }",
        "m!(unsafe);",
        "#[cfg(test)] mod t { unsafe fn f() {} }",
        "#[unsafe(no_mangle)] fn f() {}",
        "#[cfg_attr(all(), unsafe(naked))] fn f() {}",
        "static mut X: u8 = 0;",
        "type F = unsafe fn();",
    ] {
        assert!(codes(source).contains("MF0301"), "{source}");
    }
    let all = scan(&library("fn a() {}\n  fn b() { unsafe {} }"));
    let (_, span) = all.facts.iter().find(|(fact, _)| *fact == SourceFact::Unsafe).unwrap();
    assert_eq!((span.file.as_str(), span.line, span.column, span.end_column), ("src/lib.rs", 2, 12, 18));
    assert_eq!(span.text, "  fn b() { unsafe {} }");
}

#[test]
fn extern_has_four_meanings() {
    assert_eq!(facts("extern crate alloc;"), [SourceFact::ExternCrate { name: "alloc".into(), alias: None }]);
    assert_eq!(
        facts("extern crate std as x;"),
        [SourceFact::ExternCrate { name: "std".into(), alias: Some("x".into()) }]
    );
    for block in ["extern {}", "extern \"C\" {}", "extern r\"C\" {}", "extern $abi {}", "extern"] {
        assert!(facts(block).contains(&SourceFact::ExternBlock), "{block}");
    }
    for function in ["extern fn f() {}", "extern \"C\" fn f() {}", "type F = extern \"system\" fn();"] {
        assert_eq!(facts(function), [SourceFact::ExternFn], "{function}");
    }
}

#[test]
fn attributes_are_seen_through_their_wrappers() {
    let found = facts(
        "#![no_std] #[cfg_attr(test, inline, cfg_attr(all(), path = \"../x.rs\"))] #[unsafe(link_section = \".x\")] \
         #[rustfmt::skip] #[derive(Debug, std::clone::Clone,)] #[r#used] mod m;",
    );
    let attributes: Vec<(String, bool, bool, String)> = found
        .iter()
        .filter_map(|fact| match fact {
            SourceFact::Attribute { path, inner, in_unsafe, tokens } => {
                Some((path.clone(), *inner, *in_unsafe, tokens.clone()))
            }
            _ => None,
        })
        .collect();
    let names: BTreeSet<&str> = attributes.iter().map(|(path, ..)| path.as_str()).collect();
    let expected =
        ["no_std", "cfg_attr", "inline", "path", "link_section", "rustfmt::skip", "derive", "used"].into();
    assert_eq!(names, expected);
    assert!(attributes.contains(&("no_std".into(), true, false, String::new())));
    assert!(attributes.contains(&("path".into(), false, false, "=\"../x.rs\"".into())));
    assert!(attributes.contains(&("link_section".into(), false, true, "=\".x\"".into())));
    assert!(found.contains(&SourceFact::Derive("Debug".into())));
    assert!(found.contains(&SourceFact::Derive("std::clone::Clone".into())));
    assert!(
        facts("#[$meta] fn f() {}")
            .iter()
            .any(|f| matches!(f, SourceFact::Attribute { path, .. } if path == "$meta"))
    );
}

/// Found by the fuzzer: the range of an attribute may end between the two colons of a path.
#[test]
fn an_attribute_that_is_cut_short_is_only_unreadable() {
    for source in
        ["x #[unsafe(::", "x #[cfg_attr(a, ::", "x #[::", "x #[unsafe(:", "x #[unsafe(::a::", "x #[unsafe("]
    {
        assert!(codes(source).contains("MF0310"), "{source}: {:?}", codes(source));
    }
}

#[test]
fn macros_are_named_by_their_path() {
    let found = facts(
        "fn f() { include_str!(\"x\"); ::std::env! (\"HOME\"); r#include!{}; $crate::own![]; if !(true) {} a != b; }",
    );
    let calls: Vec<&SourceFact> =
        found.iter().filter(|fact| matches!(fact, SourceFact::MacroCall(_))).collect();
    let expected =
        ["include_str", "std::env", "include", "$crate::own"].map(|name| SourceFact::MacroCall(name.into()));
    assert_eq!(calls, expected.iter().collect::<Vec<_>>());
    assert_eq!(scan(&library("macro_rules! mine { () => {} } mine!{}")).own_macros, ["mine"]);
    assert!(facts("macro two() {}").contains(&SourceFact::MacroItem("two".into())));
}

#[test]
fn use_trees_are_followed_to_their_leaves() {
    let source = "use std::{fs::{self, File as F}, io::{*, Read}, collections::HashMap}; pub(crate) use {core::mem, ::alloc::vec};
        use std as s; use ::core::{self as c}; use r#std::r#process; use own::std_like; use std::fmt::Write as _;";
    let expected = [
        "std::fs",
        "std::fs::File",
        "std::io::*",
        "std::io::Read",
        "std::collections::HashMap",
        "core::mem",
        "alloc::vec",
        "std",
        "core",
        "std::process",
        "std::fmt::Write",
    ];
    assert_eq!(paths(source), set(&expected));
}

#[test]
fn inline_paths_count_with_their_turbofish_cut_off() {
    let source = "fn f(x: std::net::IpAddr) -> ::core::result::Result<u8, ()> { let n = a > ::std::mem::size_of::<u8>();
        <std::fs::File>::open(\"x\"); 0..std::f64::consts::PI as usize; x.std; std; let std = 1; return ::std::process::abort(); }";
    let expected = [
        "std::net::IpAddr",
        "core::result::Result",
        "std::mem::size_of",
        "std::fs::File",
        "std::f64::consts::PI",
        "std::process::abort",
    ];
    assert_eq!(paths(source), set(&expected));
}

#[test]
fn imported_names_lead_back_to_std() {
    for source in [
        "use std::io; fn f() { io::stdin(); }",
        "use std::{io as i}; use i as j; fn f() { j::stdin(); }",
        "mod a { pub use std::io; } fn f() { a::io::stdin(); }",
        "mod a { pub use std::io as x; } use a::x; fn f() { x::stdin(); }",
        "mod a { pub use std::io; } use a as b; fn f() { b::io::stdin(); }",
        "use z::stdin as go; use y as z; use std::io as y;",
        "fn f() { dep::__private::std::io::stdin(); }",
        "use std::io; use self::io::{stdin as read_line};",
        "macro_rules! m { () => { std::io::stdin() } }",
    ] {
        assert!(codes(source).contains("MF0307"), "{source}: {:?}", paths(source));
    }
    let two_files =
        tree(&[("src/lib.rs", b"mod a; fn f() { a::io::stdin(); }"), ("src/a.rs", b"pub use std::io;")]);
    assert!(judge_source(&scan(&two_files)).iter().any(|finding| finding.code.id() == "MF0307"));
}

#[test]
fn own_names_stay_own() {
    let source = "mod alloc { pub struct System; } mod io { pub fn read() {} } use crate::io as disk;
        fn f() { alloc::System; io::read(); disk::read(); Self::core::x; let process = 1; process }
        use std::fmt; impl fmt::Display for X {}";
    assert_eq!(codes(source), BTreeSet::new());
    assert!(paths("extern crate alloc; mod alloc {} fn f() { alloc::System; }").contains("alloc::System"));
}

#[test]
fn what_the_parser_recurses_on_is_measured() {
    let repeat = |text: &str, times: usize| text.repeat(times);
    for source in [
        format!("fn f() {{ {}1{} }}", repeat("(", 300), repeat(")", 300)),
        format!("fn f() {}{}", repeat("{", 300), repeat("}", 300)),
        format!("fn f() -> i64 {{ {}1 }}", repeat("- ", 300)),
        format!("fn f() -> bool {{ {}true }}", repeat("!", 300)),
        format!("fn f() {{ let _ = {}x; }}", repeat("&mut ", 300)),
        format!("fn f() {{ let _ = {}1; }}", repeat("|| ", 300)),
        format!("fn f() {{ {}1 }}", repeat("return ", 300)),
        format!("fn f() {{ {}() }}", repeat("x = ", 300)),
        format!("type F = {}u8;", repeat("fn() -> ", 300)),
        format!("type T = {}u8{};", repeat("Option<", 300), repeat(">", 300)),
        format!("type T = {}u8;", repeat("&'static ", 300)),
        format!("fn {}() {{}}", repeat("x", 300)),
        format!("const S: &str = \"{}\";", repeat("x", 2 << 20)),
    ] {
        assert_eq!(codes(&source), set(&["MF0309"]), "{:.60}", source);
    }
    let flat = format!(
        "const T: [u8; 900] = [{}]; fn f(x: u8) -> bool {{ {} true }}",
        repeat("1,", 900),
        repeat("x == 1 || ", 900)
    );
    assert_eq!(codes(&flat), BTreeSet::new());
}

#[test]
fn text_that_is_not_rust_is_refused() {
    for source in [
        "fn f() { \"unterminated }",
        "/* unterminated",
        "fn f() { ) }",
        "fn f() {",
        "fn f() { (] }",
        "let x = \u{0};",
        "// \u{202e}",
        "fn f() { \"\u{2066}\" }",
        "#!/usr/bin/env x\nfn f() {}",
        "---\nfrontmatter\n---\n",
        "let \u{1f600} = 1;",
        "k#unsafe {}",
        "x\"prefix\"",
        "#\"guarded\"#",
        "№",
    ] {
        assert!(codes(source).contains("MF0310"), "{source:?}");
    }
    let not_utf8 = tree(&[("src/lib.rs", b"fn f() { \"\xff\" }")]);
    assert_eq!(judge_source(&scan(&not_utf8))[0].code.id(), "MF0310");
    assert_eq!(codes("\u{feff}fn f() {}\r\n#[inline]\r\nfn größe() {}"), BTreeSet::new());
}

#[test]
fn totals_are_bounded_before_anything_is_read() {
    let large = vec![b' '; 5 << 20];
    let found = judge_source(&scan(&tree(&[("src/lib.rs", &large)])));
    assert!(found.iter().all(|finding| finding.code.id() == "MF0309") && !found.is_empty());
    let tokens = "x ".repeat(1_900_000).into_bytes();
    let found = scan(&tree(&[("src/a.rs", &tokens), ("src/b.rs", &tokens)]));
    assert_eq!(found.tokens, 2_000_001);
    assert!(judge_source(&found).iter().any(|finding| finding.code.id() == "MF0309"));
}

#[test]
fn many_meanings_and_many_facts_are_bounded() {
    let mut meanings: String = (0..40).map(|n| format!("use std::m{n} as x;")).collect();
    meanings.push_str("use x as y;");
    assert!(codes(&meanings).contains("MF0310"));
    let many: String = (0..60_000).map(|n| format!("m{n}!();")).collect();
    assert!(codes(&many).contains("MF0310"));
    let same = "std::fs::read();".repeat(1_000);
    assert_eq!(facts(&same).len(), 16);
}

const WORDS: &[&str] = &[
    "use",
    "std",
    "core",
    "::",
    "{",
    "}",
    "(",
    ")",
    "[",
    "]",
    "*",
    "as",
    "self",
    "crate",
    "$",
    "$x",
    "#",
    "!",
    ",",
    ";",
    "x",
    "_",
    "extern",
    "\"C\"",
    "fn",
    "static",
    "mut",
    "unsafe",
    "macro_rules!",
    "mod",
    "derive",
    "cfg_attr",
    "<",
    ">",
    "=",
    "'a",
    "1",
    "macro",
    "-",
    "&",
    "|",
];

proptest! {
    #[test]
    fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..2000)) {
        let _ = scan(&tree(&[("src/lib.rs", &bytes)]));
    }

    #[test]
    fn no_text_panics(text in "\\PC{0,300}") {
        let _ = scan(&library(&text));
    }

    #[test]
    fn no_sequence_of_tokens_panics(words in prop::collection::vec(prop::sample::select(WORDS), 0..80)) {
        let _ = scan(&library(&words.join(" ")));
        let _ = scan(&library(&words.concat()));
    }

    #[test]
    fn a_forbidden_path_is_found_in_any_tree(depth in 0usize..6, siblings in prop::collection::vec("n_[a-z]{1,5}", 0..5)) {
        let mut source = String::from("use ");
        (0..depth).for_each(|_| source.push('{'));
        source.push_str("std::{");
        siblings.iter().for_each(|name| source.push_str(&format!("{name}::{{{name}, self}}, ")));
        source.push_str("process::{exit}}");
        (0..depth).for_each(|_| source.push('}'));
        source.push(';');
        prop_assert!(paths(&source).contains("std::process::exit"), "{}", source);
    }
}

#[test]
fn a_root_that_is_an_item_is_followed() {
    for source in [
        "extern crate std; fn f() { let _ = crate::std::fs::read(\"x\"); }",
        "extern crate std; mod m { fn f() { let _ = super::std::fs::read(\"x\"); } }",
        "mod m { pub extern crate std; } fn f() { let _ = m::std::fs::read(\"x\"); }",
        "extern crate std; use crate::std as s; fn f() { let _ = s::fs::read(\"x\"); }",
        "extern crate std; use crate::{std::{fs as q}}; fn f() { let _ = q::read(\"x\"); }",
        "extern crate std; macro_rules! m { () => { $crate::std::fs::read(\"x\") } }",
        "extern crate core; fn f() { self::core::fs::read(); }",
    ] {
        assert!(codes(source).contains("MF0307"), "{source}");
    }
    assert_eq!(
        codes("extern crate alloc; extern crate std; use alloc::vec::Vec; mod fs {}"),
        BTreeSet::new()
    );
}

#[test]
fn an_extern_crate_spells_out_its_names() {
    for source in [
        "macro_rules! m { ($n:ident) => { extern crate $n; } }",
        "macro_rules! m { ($n:ident) => { extern crate $n as s; } }",
        "macro_rules! m { ($n:ident) => { extern crate std as $n; } }",
        "macro_rules! m { ($n:ident) => { extern crate dep as $n; } }",
        "extern crate dep as core;",
        "extern crate std as s;",
    ] {
        assert_eq!(codes(source), set(&["MF0313"]), "{source}");
    }
    assert_eq!(codes("extern crate serde; extern crate serde_json as json;"), BTreeSet::new());
}

#[test]
fn chains_without_brackets_are_measured() {
    let many = |piece: &str| piece.repeat(20_000);
    for body in [
        format!("let n = 1{};", many("^1")),
        format!("let n = x{};", many(".f()")),
        format!("let n = x{};", many(".f::<A, B>()")),
        format!("let n = x{};", many("[0]")),
        format!("let n = x{};", many("()")),
        format!("let n = x{};", many("?")),
        format!("let n = x{};", many(" as u8")),
        format!("let n = a{};", many(" && b")),
        format!("let n = 1{};", many("+ {2}")),
        format!("let n = {}1;", many("|a, b| ")),
        format!("let n = {}1;", many("&|a, b| ")),
        format!("if a == 0 {{}}{}", many(" else if a == 1 {}")),
        format!("if {{a}} {{}}{}", many(" else if {a} {}")),
        format!("let n = 1{};", many("+ if a { 1 } else { 2 }")),
        format!("{}x{};", many("match "), many("{}")),
        format!("m!(1{});", many("^1")),
    ] {
        assert_eq!(codes(&format!("fn f() {{ {body} }}")), set(&["MF0309"]), "{}", &body[..60]);
    }
    let nested = (0..20).fold("1".to_owned(), |inner, _| format!("({inner}){}", "+1".repeat(150)));
    assert_eq!(codes(&format!("const N: u64 = {nested};")), set(&["MF0309"]));
}

#[test]
fn long_benign_code_is_not_deep() {
    let many = |piece: &str| piece.repeat(5_000);
    for source in [
        format!("const T: [i64; 5000] = [{}];", many("-1, ")),
        format!("const T: [u64; 5000] = [{}];", many("1 << 3 | f(2), ")),
        format!("const T: [bool; 5000] = [{}];", many("a || b, true | c, ")),
        format!("fn f() {{ {} }}", many("let a = b.c().d(1 + 2)?; ")),
        format!("fn f() {{ {} }}", many("if a == b { c += 1 } ")),
        format!("fn f() {{ {} }}", many("if a { b } else if c { d } else { e } ")),
        format!("fn f() {{ match x {{ {} }} }}", many("&A => { b + 1 } ")),
        format!("fn f() {{ match x {{ {} }} }}", many("(A, -1) | (B, _) if c > d => { b + 1 } ")),
        many("fn f<T: A + B>(a: &'static T) -> Option<&T> { a.b() } "),
        many(
            "#[derive(Clone)] struct S<T> { a: Vec<Vec<T>>, b: u8 } impl<T> A for S<T> { const C: u8 = 1; } ",
        ),
        many("f(|a, b| a + b); "),
        format!("macro_rules! m {{ {} }}", many("($a:expr) => { $a + 1 }; ")),
        format!("fn f() {{ if a == 0 {{}}{} }}", " else if a == 1 && b != c { d() }".repeat(500)),
    ] {
        assert_eq!(codes(&source), BTreeSet::new(), "{}", &source[..60]);
    }
}
