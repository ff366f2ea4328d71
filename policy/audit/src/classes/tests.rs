use proptest::prelude::*;

use super::*;

/// Every piece that is not plain, as `class:text`.
fn drawn(text: &str) -> Vec<String> {
    let pieces = classes(text).filter(|piece| piece.class != Class::Plain);
    pieces.map(|piece| format!("{:?}:{}", piece.class, &text[piece.range])).collect()
}

#[test]
fn keywords_are_sorted_and_without_unsafe() {
    assert!(KEYWORDS.is_sorted() && !KEYWORDS.contains(&"unsafe"));
}

#[test]
fn each_class_is_told() {
    assert_eq!(
        drawn("/// d\n// c\nunsafe fn f<'a>(x: u8) { g!(1, 'c', \"s\") }"),
        [
            "DocComment:/// d",
            "Comment:// c",
            "Unsafe:unsafe",
            "Keyword:fn",
            "Ident:f",
            "Punct:<",
            "Lifetime:'a",
            "Punct:>",
            "Punct:(",
            "Ident:x",
            "Punct::",
            "Ident:u8",
            "Punct:)",
            "Punct:{",
            "Macro:g",
            "Macro:!",
            "Punct:(",
            "Number:1",
            "Punct:,",
            "Char:'c'",
            "Punct:,",
            "Str:\"s\"",
            "Punct:)",
            "Punct:}",
        ]
    );
    assert_eq!(
        drawn("/* /* */ unsafe */ r#\"unsafe\"#"),
        ["Comment:/* /* */ unsafe */", "Str:r#\"unsafe\"#"]
    );
    assert_eq!(drawn("r#unsafe"), ["Ident:r#unsafe"]);
    assert_eq!(
        drawn("a!=b a != b"),
        ["Ident:a", "Punct:!", "Punct:=", "Ident:b", "Ident:a", "Punct:!", "Punct:=", "Ident:b"]
    );
    assert_eq!(drawn("macro_rules! m"), ["Macro:macro_rules", "Macro:!", "Ident:m"]);
    assert_eq!(drawn("!x"), ["Punct:!", "Ident:x"]);
}

#[test]
fn attributes_hold_what_stands_in_them() {
    assert_eq!(
        drawn("#[a(b[0]) = \"s\"] x"),
        [
            "Attribute:#",
            "Attribute:[",
            "Attribute:a",
            "Attribute:(",
            "Attribute:b",
            "Attribute:[",
            "Attribute:0",
            "Attribute:]",
            "Attribute:)",
            "Attribute:=",
            "Str:\"s\"",
            "Attribute:]",
            "Ident:x",
        ]
    );
    assert_eq!(drawn("#![unsafe(x)]y")[3], "Unsafe:unsafe");
    assert_eq!(drawn("#![unsafe(x)]y").last().map(String::as_str), Some("Ident:y"));
    assert_eq!(drawn("$(#$x)*").iter().filter(|piece| piece.starts_with("Attribute")).count(), 0);
    assert_eq!(drawn("x]]] #[a] y").last().map(String::as_str), Some("Ident:y"));
}

#[test]
fn the_first_line_of_a_script_is_a_comment_and_an_inner_attribute_is_none() {
    assert_eq!(drawn("#!/bin/sh\nfn"), ["Comment:#!/bin/sh", "Keyword:fn"]);
    assert_eq!(drawn("\u{feff}#![no_std]").len(), 6);
}

proptest! {
    #[test]
    fn the_pieces_are_the_text(text in any::<String>()) {
        let mut at = 0;
        for piece in classes(&text) {
            prop_assert_eq!(piece.range.start, at);
            at = piece.range.end;
        }
        prop_assert_eq!(at, text.len());
    }

    #[test]
    fn what_is_code_to_the_scan_is_unsafe_here(
        parts in prop::collection::vec(
            prop::sample::select(vec!["unsafe", "\"", "'", "//", "/*", "*/", "\n", " ", "#", "[", "]", "!", "r", "a"]),
            0..40,
        )
    ) {
        let text = parts.concat();
        let cut = crate::token::cut(&text, usize::MAX, false);
        let told: Vec<usize> = classes(&text)
            .filter(|piece| piece.class == Class::Unsafe)
            .map(|piece| piece.range.start)
            .collect();
        let found: Vec<usize> =
            cut.tokens.iter().filter(|token| token.is_keyword("unsafe")).map(|token| token.at).collect();
        // Behind a script's first line the scan reads on; it refuses the text.
        prop_assume!(ra_ap_rustc_lexer::strip_shebang(&text).is_none());
        prop_assert_eq!(told, found);
    }
}
