//! The facade of std: what it refuses, in whose words, and what it lets through.

use serde_json::Value;

use crate::package::{Checked, Package};

const HANDLE: &str = "pub fn handle(_: &[u8]) -> Vec<u8>";

fn check(source: &str, dependencies: &str) -> Checked {
    Package::new(source).manifest(dependencies).check()
}

/// The first refusal, which has to be the facade's.
fn refused(checked: &Checked, code: &str) -> Value {
    assert_eq!(checked.exit, 3, "{}", checked.report);
    let first = checked.errors()[0];
    assert_eq!((&first["code"], &first["layer"]), (&code.into(), &"facade".into()), "{}", checked.report);
    first.clone()
}

/// A method names no path, so that only the type can be without it.
#[test]
fn a_question_about_a_file_is_refused_at_its_line_as_the_compiler_prints_it() {
    let source =
        format!("use std::path::Path;\n{HANDLE} {{\n    vec![u8::from(Path::new(\"a\").exists())]\n}}\n");
    let error = refused(&check(&source, ""), "MF0307");
    assert_eq!((&error["span"]["file"], &error["span"]["line"]), (&"src/lib.rs".into(), &3.into()));
    let rendered = error["rendered"].as_str().unwrap();
    let reason = "MF0307: a function has no files: use its request";
    assert!(rendered.starts_with(&format!("error[E0277]: {reason}\n --> src/lib.rs:3:")), "{rendered}");
    assert!(rendered.contains("  = help: A function reaches its request"), "{rendered}");
    assert!(!error["hint"].as_str().unwrap().is_empty());
}

/// The lexer does not follow what a dependency hands on; there is nothing to hand on.
#[test]
fn what_a_dependency_hands_on_of_std_is_the_facade() {
    let dependencies = "[dependencies]\ncareless = \"0.1\"\n";
    for path in
        ["careless::library::process::id", "careless::library::fs::read", "careless::everything::process::id"]
    {
        let checked = check(&format!("use {path} as it;\n{HANDLE} {{ vec![] }}\n"), dependencies);
        let error = refused(&checked, "MF0307");
        assert_eq!(error["span"]["line"], 1, "{path}");
        let rendered = error["rendered"].as_str().unwrap();
        assert!(rendered.contains("found an item that was configured out"), "{rendered}");
        assert!(rendered.contains("the item is gated behind the `MF0307: a function "), "{rendered}");
    }
    // A glob does not hand on what is not there, nor the reason.
    let checked =
        check(&format!("use careless::everything::fs::read;\n{HANDLE} {{ vec![] }}\n"), dependencies);
    assert_eq!(checked.verdict(), (5, "expand".to_owned(), vec!["MF0401".to_owned()]), "{}", checked.report);
    let machine_code = "use careless::library::arch::x86_64::_rdtsc;\n";
    refused(&check(&format!("{machine_code}{HANDLE} {{ vec![] }}\n"), dependencies), "MF0303");
}

/// The name of the macro arrives as a fragment, so no file contains the call.
#[test]
fn a_macro_that_reads_the_build_machine_ends_the_build_at_the_tenants_call() {
    for (name, argument) in
        [("env", "\"PATH\""), ("option_env", "\"PATH\""), ("include_bytes", "\"/etc/hostname\"")]
    {
        let source = format!(
            "macro_rules! call {{ ($name:ident) => {{ $name!({argument}) }} }}\n\
             {HANDLE} {{\n    let _ = call!({name});\n    vec![]\n}}\n"
        );
        let error = refused(&check(&source, ""), "MF0304");
        assert_eq!(error["span"]["file"], "src/lib.rs", "{error}");
        assert!(error["message"].as_str().unwrap().contains(name), "{error}");
    }
}

/// A tenant's own words are a compile error, whatever they say.
#[test]
fn a_refusal_cannot_be_forged_and_a_mistake_stays_a_compile_error() {
    let reason = "MF0307: a function has no files: use its request";
    for source in [
        format!("compile_error!({reason:?});\n{HANDLE} {{ vec![] }}\n"),
        format!(
            "mod a {{ #[cfg(feature = {reason:?})] pub mod fs {{}} }}\nuse a::fs;\n{HANDLE} {{ vec![] }}\n"
        ),
        format!("use std::collections::HashMop;\n{HANDLE} {{ vec![] }}\n"),
        format!("{HANDLE} {{ std::path::Path::new(\"a\").exist() }}\n"),
    ] {
        let checked = check(&source, "");
        let (exit, _, codes) = checked.verdict();
        assert_eq!(exit, 5, "{source}: {}", checked.report);
        assert!(codes.iter().all(|code| code == "MF0401"), "{source}: {codes:?}");
    }
}

/// Everything of the language that leads to std without a path, and the types that are ours.
#[test]
fn ordinary_code_does_not_notice_the_facade() {
    let checked = check(
        include_str!("ordinary.rs"),
        "[dependencies]\nserde = { version = \"1\", features = [\"derive\"] }\nserde_json = \"1\"\nthiserror = \"2\"\nanyhow = \"1\"\n",
    );
    assert_eq!(checked.verdict(), (0, "load".to_owned(), vec![]), "{}", checked.report);
}
