//! Procedural macros that give one thing to whoever judges and another to whoever compiles.

use crate::package::{Checked, Package};

const DEPENDENCIES: &str = "[dependencies]\nfickle = \"0.1\"\n";

fn check(body: &str) -> Checked {
    let source = format!("pub fn handle(_: &[u8]) -> Vec<u8> {{ {body} }}\n");
    Package::new(&source).manifest(DEPENDENCIES).check()
}

#[test]
fn a_macro_that_is_not_the_same_in_every_run_is_refused() {
    for name in ["random", "now"] {
        let checked = check(&format!("fickle::{name}!().to_le_bytes().to_vec()"));
        assert_eq!(
            checked.verdict(),
            (3, "compile".to_owned(), vec!["MF0412".to_owned()]),
            "{name}: {}",
            checked.report
        );
        assert!(!checked.errors()[0]["hint"].as_str().unwrap().is_empty());
    }
}

/// What it hides from a compiler that prints, it hides from the one that compiles; what it gives to that one is judged.
#[test]
fn a_macro_cannot_distinguish_expansion_from_compilation() {
    let reads = "unsafe_read";
    for (name, expected) in [
        ("watched", (3, "expand", "MF0308")),
        ("marked", (3, "expand", "MF0412")),
        ("unstable", (0, "load", "")),
    ] {
        let checked = check(&format!("let {reads} = fickle::{name}!(vec![7u8]); {reads}"));
        let (exit, stage, codes) = checked.verdict();
        assert_eq!(
            (exit, stage.as_str(), codes.first().map_or("", String::as_str)),
            expected,
            "{name}: {}",
            checked.report
        );
    }
}
