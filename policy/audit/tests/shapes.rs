//! Shapes of soundness holes in files of dependencies.
#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use mfaas_audit::shapes::shapes;

/// The oldest of them, in eight lines of safe code.
const HOLE: &str = "
static UNIT: &'static &'static () = &&();
fn foo<'a, 'b, T>(_: &'a &'b (), v: &'b T) -> &'a T { v }
pub fn bad<'a, T>(x: &'a T) -> &'static T {
    let f: fn(_, &'a T) -> &'static T = foo;
    f(UNIT, x)
}
";

#[test]
fn a_hole_in_safe_code_is_found_and_shown_at_its_place() {
    let report = shapes([("src/lib.rs", "mod a;"), ("src/a.rs", HOLE)].into_iter());
    assert!(report.unread.is_empty(), "{report:?}");
    assert!(!report.shapes.is_empty());
    let span = report.shapes[0].span.as_ref().unwrap();
    assert_eq!(span.file, "src/a.rs");
    assert!(!report.shapes[0].text.contains('\n'));
}

#[test]
fn ordinary_code_has_none() {
    let source =
        "pub fn first<'a>(a: &'a str, b: &str) -> &'a str { if b.is_empty() { a } else { &a[1..] } }";
    let report = shapes([("src/lib.rs", source)].into_iter());
    assert!(report.shapes.is_empty() && report.unread.is_empty(), "{report:?}");
}
