//! No module needs one that needs it. What a module is and when it needs another: `src/modules.rs`.

use std::collections::BTreeSet;

use mfaas_architecture::{
    Crate, crates,
    modules::{Needs, circles, needs_of, needs_of_texts},
    root,
};

/// The roots of a crate's own code; its tests and benchmarks are left out.
fn roots(directory: &str) -> Vec<String> {
    let of_crate = ["src/lib.rs", "src/main.rs"].map(|file| format!("{directory}/{file}"));
    of_crate.into_iter().filter(|file| root().join(file).is_file()).collect()
}

#[test]
fn no_module_needs_one_that_needs_it() {
    let wrong: Vec<String> = crates().values().filter_map(complaint).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Which of a crate's modules stand in circles, if any do.
fn complaint(read: &Crate) -> Option<String> {
    let needs: Vec<Needs> = roots(&read.directory).iter().map(|root| needs_of(root)).collect();
    let arrows: String = needs
        .iter()
        .flat_map(|needs| circles(needs).into_iter().map(move |circle| arrows(needs, &circle)))
        .collect();
    (!arrows.is_empty()).then(|| format!("modules of {} need each other:\n{arrows}", read.name))
}

/// Who needs whom within a circle, a line for each module.
fn arrows(needs: &Needs, circle: &BTreeSet<String>) -> String {
    let line = |file: &String| {
        let within: Vec<&str> = needs[file].intersection(circle).map(String::as_str).collect();
        format!("  {file} -> {}\n", within.join(", "))
    };
    circle.iter().map(line).collect()
}

/// Files in circles, for modules given as text.
fn in_circles(texts: &[(&str, &str)]) -> Vec<String> {
    circles(&needs_of_texts(texts)).into_iter().flatten().collect()
}

#[test]
fn two_modules_that_import_each_other_are_a_circle() {
    let a = ("a", "use crate::b::B; pub struct A;");
    let root = ("", "mod a; mod b;");
    assert_eq!(in_circles(&[root, a, ("b", "pub struct B;")]), [""; 0]);
    for b in [
        "use super::a::A; pub struct B;",
        "use super::a; pub struct B;",
        "use super::{a as other}; pub struct B;",
        "use crate::a::*; pub struct B;",
        "pub struct B(crate::a::A);",
        "pub fn b() { crate::a::go() } pub struct B;",
        "pub fn b() { println!(\"{}\", crate::a::go()) } pub struct B;",
        "mod inner { pub fn b() { super::super::a::go() } } pub struct B;",
    ] {
        assert_eq!(in_circles(&[root, a, ("b", b)]), ["a", "b"], "{b}");
    }
    for b in [
        "mod inner { pub fn b() { super::go() } } fn go() {} pub struct B;",
        "#[cfg(test)] mod tests { use crate::a::A; } pub struct B;",
        "#[test] fn it() { crate::a::go() } pub struct B;",
        "use std::a::A; pub struct B;",
    ] {
        assert_eq!(in_circles(&[root, a, ("b", b)]), [""; 0], "{b}");
    }
}

#[test]
fn the_word_crate_in_a_text_is_no_path() {
    let root = ("", "mod b; pub fn main() { b::go() }");
    let speaks = ("b", "pub fn go() { println!(\"{} is a crate of\", 1) }");
    assert_eq!(in_circles(&[root, speaks]), [""; 0]);
    let spells = ("b", "pub fn go() { print!(\"pub use crate::*; {}\", 1) }");
    assert_eq!(in_circles(&[root, spells]), [""; 0]);
    let elsewhere = ("b", "pub fn go() { print!(\"{}\", ::b::NAME) }");
    assert_eq!(in_circles(&[root, elsewhere]), [""; 0]);
    let needs = ("b", "pub fn go() { println!(\"{}\", crate::NAME) }");
    assert_eq!(in_circles(&[root, needs]), ["", "b"]);
}

#[test]
fn a_parent_that_only_passes_on_is_in_no_circle() {
    let child = ("a::child", "use super::sibling::Other; pub struct Child;");
    let sibling = ("a::sibling", "pub struct Other;");
    let passes_on =
        ("a", "mod child; mod sibling; pub(crate) use child::Child; pub(crate) use sibling::Other;");
    assert_eq!(in_circles(&[("", "mod a;"), passes_on, child, sibling]), [""; 0]);
    // By the parent's name for it, which is the sibling's still.
    let by_parent = ("a::child", "use super::Other; pub struct Child;");
    assert_eq!(in_circles(&[("", "mod a;"), passes_on, by_parent, sibling]), [""; 0]);
    // The parent's own code uses the child, and the child the parent's own.
    let own = ("a", "mod child; pub(crate) use child::Child; pub struct Own(Child);");
    let needs_own = ("a::child", "use super::Own; pub struct Child;");
    assert_eq!(in_circles(&[("", "mod a;"), own, needs_own]), ["a", "a::child"]);
    // A child that adds to its parent's type, which the parent does not name.
    let adds = ("a::child", "use super::Own; impl Own { fn more(&self) {} }");
    assert_eq!(in_circles(&[("", "mod a;"), ("a", "mod child; pub struct Own;"), adds]), [""; 0]);
}
