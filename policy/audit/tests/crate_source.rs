//! What the token scan says about files of dependencies.
#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use mfaas_audit::crate_source::{Reference, scan};
use mfaas_rules::crate_facts::HotspotKind::{self, *};
use mfaas_rules::limits::CRATE_FACTS;
use proptest::prelude::*;

fn kinds(source: &str) -> Vec<(HotspotKind, usize)> {
    scan("src/lib.rs", source).tokens.counts.into_iter().collect()
}

#[test]
fn words_count_where_they_are_tokens() {
    assert_eq!(kinds("// unsafe\n/* unsafe */ fn r#unsafe() {}"), []);
    assert_eq!(kinds("fn f() { let unsafely = 1; }"), []);
    assert_eq!(kinds("unsafe impl Send for S {}"), [(Unsafe, 1)]);
    assert_eq!(kinds("const A: &str = \"unsafe\"; const B: &[u8] = br#\"x unsafe\"#;"), [(WordInLiteral, 2)]);
    assert_eq!(kinds("extern crate alloc; type F = extern \"C\" fn();"), []);
    assert_eq!(kinds("extern { fn a(); } extern \"C\" { fn b(); }"), [(ExternBlock, 2)]);
    assert_eq!(kinds("#[cfg_attr(unix, unsafe(no_mangle))] fn f() {}"), [(Unsafe, 1), (UnsafeAttribute, 1)]);
    assert_eq!(kinds("#[target_feature(enable = \"avx2\")] fn f() {}"), [(MachineCode, 1)]);
    assert_eq!(kinds("use core::arch::asm as quiet;"), [(MachineCode, 1)]);
    assert_eq!(kinds("fn asm() {} fn g() { asm(); include(1); }"), []);
    assert_eq!(
        kinds("const K: &str = env!(\"K\"); #![doc = include_str!(\"../README.md\")]"),
        [(BuildInput, 2)]
    );
    assert_eq!(kinds("const A: &str = \"\u{202e}\"; // \u{200b}"), [(Invisible, 2)]);
    assert_eq!(kinds("\u{feff}fn f() {}"), [], "a byte order mark at the beginning is dropped by rustc");
    assert_eq!(kinds("const A: &str = \"never closed"), [(Unreadable, 1)]);
}

#[test]
fn a_hotspot_says_which_macro_it_stands_in() {
    let source = "macro_rules! get { ($e:expr) => { unsafe { $e } } }\nfn f() { quote! { unsafe { a(unsafe { b }) } }; unsafe {} }";
    let found = scan("src/lib.rs", source);
    let hotspots = found.tokens.hotspots.iter().filter(|hotspot| hotspot.kind == Unsafe);
    let inside: Vec<Option<&str>> = hotspots.map(|hotspot| hotspot.inside.as_deref()).collect();
    assert_eq!(found.tokens.counts.get(&Quote), Some(&1));
    assert_eq!(inside, [Some("macro_rules! get"), Some("quote!"), Some("quote!"), None]);
    let place = &found.tokens.hotspots[0].span;
    assert_eq!((place.line, place.column, place.text.as_str()), (1, 35, source.lines().next().unwrap()));
}

#[test]
fn quotations_and_the_output_of_build_scripts_are_hotspots() {
    assert_eq!(
        kinds("fn f() { quote!(a); syn::parse_quote! { b }; quote::quote_spanned!(s => c) }"),
        [(Quote, 3)]
    );
    assert_eq!(kinds("fn quote() {} fn f() { quote(1); let quote = !true; }"), []);
    let taken = kinds("include!(concat!(env!(\"OUT_DIR\"), \"/table.rs\"));");
    assert_eq!(taken, [(Include, 1), (BuildInput, 1), (OutDir, 1)]);
    assert_eq!(kinds("fn f() { std::env::var(\"OUT_DIR\"); } // OUT_DIR"), [(OutDir, 1)]);
}

#[test]
fn an_exported_macro_wraps_its_callers_tokens_or_its_own() {
    let wraps = |body: &str| {
        let found = scan("src/lib.rs", &format!("#[macro_export]\nmacro_rules! m {{ {body} }}"));
        assert_eq!(found.exported_macros.len(), 1, "{body}");
        found.exported_macros[0].wraps_caller
    };
    for body in [
        "($e:expr) => { unsafe { $e } }",
        "($($e:expr),*) => { unsafe { f($($e),*) } }",
        "($e:expr) => { { let x = { unsafe { g(1, [$e]) } }; x } }",
        "($t:ty) => { unsafe impl Send for $t {} }",
        "($n:ident, $b:block) => { unsafe fn $n() $b }",
        "($($t:tt)*) => { unsafe extern \"C\" { $($t)* } }",
        "() => {}; ($e:expr) => { $crate::inner!(unsafe { $e }) }",
        "($e:expr) => { unsafe { $crate::raw($e) } }",
        "($b:block) => { unsafe $b }",
        "(unsafe $e:expr) => { $e }",
    ] {
        assert!(wraps(body), "{body}");
    }
    for body in [
        "($e:expr) => { $e }",
        "($e:expr) => { { let x = $e; unsafe { f(x) } } }",
        "() => { unsafe { $crate::raw() } }",
        "($e:expr) => { unsafe fn f(); g($e) }",
    ] {
        assert!(!wraps(body), "{body}");
    }
}

#[test]
fn an_exported_macro_passes_attributes_on_in_many_ways() {
    let passes = |body: &str| {
        let found = scan("src/lib.rs", &format!("#[macro_export]\nmacro_rules! m {{ {body} }}"));
        found.exported_macros[0].passes_attributes
    };
    for body in [
        "($(#[$m:meta])* $n:ident) => { $(#[$m])* fn $n() {} }",
        "($a:tt $n:ident) => { #$a fn $n() {} }",
        "($m:meta $n:ident) => { #[cfg_attr(all(), $m)] fn $n() {} }",
        "($m:meta) => { mod a { #![$m] } }",
    ] {
        assert!(passes(body), "{body}");
    }
    for body in [
        "($n:ident) => { #[inline] fn $n() {} }",
        "($d:expr, $n:ident) => { #[doc = $d] fn $n() {} }",
        "($n:ident) => { #[cfg_attr(docsrs, doc(cfg(x)))] fn $n() {} }",
    ] {
        assert!(!passes(body), "{body}");
    }
}

#[test]
fn a_macro_that_a_macro_defines_and_exports_is_found() {
    let source = "macro_rules! make { ($d:tt $n:ident) => { #[macro_export] macro_rules! $n { ($d m:meta) => { #[$d m] fn f() {} } } } }";
    let found = scan("src/lib.rs", source).exported_macros;
    assert_eq!((found.len(), found[0].name.as_str(), found[0].passes_attributes), (1, "n", true));
}

#[test]
fn references_are_plain_or_said_to_be_computed() {
    let references = |source| scan("src/lib.rs", source).references;
    let file = |name: &str| Reference::File(name.to_owned());
    assert_eq!(references("include!(\"a.rs\"); include!{r#\"b.rs\"#,}"), [file("a.rs"), file("b.rs")]);
    assert_eq!(references("#[path = \"c.rs\"] mod c;"), [file("c.rs")]);
    assert_eq!(references("#[cfg_attr(unix, path = \"u.rs\")] mod imp;"), [file("u.rs")]);
    for computed in [
        "include!(concat!(\"a\", \"b\"));",
        "include!(\"a\\u{2e}rs\");",
        "macro_rules! m { ($x:expr) => { include!($x); } }",
        "use std::include as take;",
        "#[path = $p] mod c;",
    ] {
        assert!(matches!(references(computed)[..], [Reference::Computed(_)]), "{computed}");
    }
}

#[test]
fn many_hotspots_are_counted_and_few_are_kept() {
    let source = "unsafe fn f() {}\n".repeat(CRATE_FACTS.hotspots_max + 50);
    let found = scan("src/lib.rs", &source).tokens;
    assert_eq!(
        (found.power(), found.hotspots.len()),
        (CRATE_FACTS.hotspots_max + 50, CRATE_FACTS.hotspots_max)
    );
}

/// Each of these follows brackets to their end, from every bracket on: the depth bounds what that costs.
#[test]
fn depth_does_not_cost_time() {
    for piece in ["#[macro_export] macro_rules! m { ", "include!(", "#[path(", "quote! { unsafe "] {
        let found = scan("src/lib.rs", &piece.repeat((128 << 10) / piece.len()));
        assert!(found.tokens.counts.contains_key(&Unreadable), "{piece}");
    }
}

proptest! {
    /// Any text is read to its end, and never without the word that is in it.
    #[test]
    fn any_text_is_read(text in "(unsafe|extern|include!|#\\[|macro_rules! m|[(){}\\[\\]\"'#!$r/*]|[a-z ]|\\PC){0,60}") {
        let _ = scan("src/lib.rs", &text);
        let more = format!("{text}\nunsafe fn f() {{}}\n");
        let (before, behind) = (scan("src/lib.rs", &text).tokens, scan("src/lib.rs", &more).tokens);
        // Unless the text swallows what follows (an open comment or literal), which is unreadable.
        prop_assert!(behind.power() > before.power() || behind.counts.contains_key(&Unreadable) || behind.counts.contains_key(&WordInLiteral));
    }
}
