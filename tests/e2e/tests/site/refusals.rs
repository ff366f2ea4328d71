//! Every folder of `tests/hostile`, deployed by the real command to the real server.

use std::{fmt::Write as _, fs, path::Path};

use mfaas_harness::{Stack, checkout, package};
use serde_json::Value;

#[derive(Debug)]
struct Case {
    name: String,
    expected: toml::Table,
}

#[test]
fn hostile_cases_end_as_their_folder_says() {
    let stack = Stack::start();
    let mut wrong = String::new();
    let cases = cases();
    assert!(cases.len() >= 20, "only {} cases", cases.len());
    for case in &cases {
        if let Err(reason) = try_case(&stack, case) {
            writeln!(wrong, "{}: {reason}", case.name).unwrap();
        }
    }
    assert!(wrong.is_empty(), "\n{wrong}");
    nothing_became_a_function(&stack);
    every_refusal_has_its_audit_row(&stack, cases.len());
    explain_knows_the_codes(&stack, &cases);
    benign_source_is_still_admitted(&stack);
    stack.invariants();
}

fn cases() -> Vec<Case> {
    let mut cases: Vec<Case> = fs::read_dir(checkout().join("tests/hostile"))
        .unwrap()
        .flatten()
        .filter(|entry| entry.path().is_dir())
        .map(|entry| Case {
            name: entry.file_name().to_string_lossy().into_owned(),
            expected: fs::read_to_string(entry.path().join("expect.toml")).unwrap().parse().unwrap(),
        })
        // The others are tried without a server: `mfaas-admission`.
        .filter(|case: &Case| case.expected.contains_key("exit"))
        .collect();
    cases.sort_by(|a, b| a.name.cmp(&b.name));
    cases
}

fn try_case(stack: &Stack, case: &Case) -> Result<(), String> {
    let directory = checkout().join("tests/hostile").join(&case.name).join("package");
    let id = upload(stack, &case.name, &directory);
    let view = stack.settled(&id);
    let text = |key: &str| case.expected.get(key).and_then(toml::Value::as_str).unwrap_or_default();
    let found = view["diagnostics"].as_array().cloned().unwrap_or_default();
    let Some(named) = found.iter().find(|finding| finding["code"] == text("code")) else {
        return Err(format!("{} is not among the findings: {view}", text("code")));
    };
    if named["layer"] != text("stopped_by") {
        return Err(format!("stopped by {} instead of {}: {named}", named["layer"], text("stopped_by")));
    }
    // A compile error comes in the compiler's own words, help included.
    let words: &[&str] =
        if text("code") == "MF0401" { &["message", "rendered"] } else { &["message", "hint"] };
    for word in words {
        if named[word].as_str().unwrap_or_default().is_empty() {
            return Err(format!("no {word}: {named}"));
        }
    }
    if let Some(line) = case.expected.get("line").and_then(toml::Value::as_integer) {
        let span = &named["span"];
        if span["line"].as_i64() != Some(line) || span["file"] != text("file") {
            return Err(format!("at {span} instead of {}:{line}", text("file")));
        }
    }
    exit_code(stack, case, &directory)
}

/// The same through the command, for its exit code and for what a person reads.
fn exit_code(stack: &Stack, case: &Case, directory: &Path) -> Result<(), String> {
    let run = stack.deploy(directory);
    let wanted = case.expected["exit"].as_integer().unwrap();
    if i64::from(run.code) != wanted {
        return Err(format!("exit code {} instead of {wanted}:\n{}\n{}", run.code, run.stdout, run.stderr));
    }
    let shown = format!("{}{}", run.stdout, run.stderr);
    let code = case.expected["code"].as_str().unwrap();
    // A compile error is shown in the compiler's own words.
    if !shown.contains(code) && !shown.contains("error[E") && !shown.contains("error: ") {
        return Err(format!("neither {code} nor the compiler's words are shown:\n{shown}"));
    }
    Ok(())
}

fn upload(stack: &Stack, name: &str, directory: &Path) -> String {
    stack.upload(name, mfaas_harness::pack_directory(directory))
}

fn nothing_became_a_function(stack: &Stack) {
    let mut sql = stack.sql();
    let functions: i64 = sql.query_one("SELECT count(*) FROM functions", &[]).unwrap().get(0);
    let versions: i64 = sql.query_one("SELECT count(*) FROM versions", &[]).unwrap().get(0);
    assert_eq!((functions, versions), (0, 0));
    let list = stack.api("GET", "/v1/functions", vec![]).json();
    assert_eq!(list["items"].as_array().map(Vec::len), Some(0), "{list}");
}

fn every_refusal_has_its_audit_row(stack: &Stack, cases: usize) {
    let mut sql = stack.sql();
    let unaudited: i64 = sql
        .query_one(
            "SELECT count(*) FROM deployments d WHERE (SELECT count(*) FROM audit_log a WHERE a.subject LIKE '%' || d.id::text || '%') < 2",
            &[],
        )
        .unwrap()
        .get(0);
    assert_eq!(unaudited, 0, "deployments without an audit row for receipt and end");
    let deployments: i64 = sql.query_one("SELECT count(*) FROM deployments", &[]).unwrap().get(0);
    assert!(deployments >= i64::try_from(cases).unwrap());
}

fn explain_knows_the_codes(stack: &Stack, cases: &[Case]) {
    for case in cases {
        let code = case.expected["code"].as_str().unwrap();
        let text = stack.cli(["explain", code]).ok().stdout;
        assert!(text.contains(code), "{text}");
    }
    let _ = stack.cli(["explain", "MF9999"]).exits(2);
}

fn benign_source_is_still_admitted(stack: &Stack) {
    let source = "//! unsafe, extern, asm! and std::fs are only words here.\n\
        mod fs {\n    pub fn read(text: &str) -> String {\n        format!(\"unsafe {text} include_str!\")\n    }\n}\n\
        pub fn handle(request: &[u8]) -> Vec<u8> {\n    fs::read(&String::from_utf8_lossy(request)).into_bytes()\n}\n";
    let _ = stack.deploy(package("words", source, "").path()).ok();
    assert_eq!(stack.invoke("words", "x").ok().stdout, "unsafe x include_str!");
    let view: Value = stack.api("GET", "/v1/functions/words", vec![]).json();
    assert_eq!(view["name"], "words", "{view}");
}
