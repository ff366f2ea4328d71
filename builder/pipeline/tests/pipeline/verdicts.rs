//! The verdicts about hostile folders, as people and as machines read them: a change of a word shows
//! here before it shows to a tenant.

use std::path::Path;

use serde_json::Value;

use mfaas_harness::builder;

use crate::installed::installed;

/// One for each kind of ending that a check has.
const FOLDERS: &[&str] = &[
    "bidi-text",
    "build-script",
    "command-by-alias",
    "files",
    "foreign-function",
    "git-dependency",
    "handler-injection",
    "include-absolute",
    "naked-function",
    "parentheses",
    "profile-panic",
    "static-bss-96-mib",
    "type-error",
    "unlisted-dependency",
    "unsafe-in-own-macro",
];

#[test]
fn verdicts_read_as_they_did() {
    for folder in FOLDERS {
        insta::assert_snapshot!(format!("{folder}.text"), text(folder));
        insta::assert_json_snapshot!(format!("{folder}.json"), json(folder));
    }
}

fn run(folder: &str, arguments: &[&str]) -> String {
    let package =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/hostile").join(folder).join("package");
    let installed = installed();
    let output = builder()
        .arg("check")
        .args(arguments)
        .arg(package)
        .env("MFAAS_TOOLCHAIN_DIR", &installed.toolchain)
        .env("MFAAS_DEPS_DIR", &installed.deps)
        .output()
        .unwrap();
    let printed = String::from_utf8(output.stdout).unwrap();
    assert!(!printed.is_empty(), "{folder}: {}", String::from_utf8_lossy(&output.stderr));
    format!("{}exit {}\n", steady(&printed), output.status.code().unwrap())
}

/// What an image measures depends on std and on our own half inside: `…: N bytes, more than …`.
fn steady(printed: &str) -> String {
    let mut pieces = printed.split(" bytes, more than ").peekable();
    let mut steady = String::new();
    while let Some(piece) = pieces.next() {
        if pieces.peek().is_none() {
            steady.push_str(piece);
        } else {
            steady.push_str(piece.trim_end_matches(|c: char| c.is_ascii_digit()));
            steady.push_str("N bytes, more than ");
        }
    }
    steady
}

/// Times are not part of a verdict.
fn text(folder: &str) -> String {
    let lines = run(folder, &[]);
    let lines = lines.lines().map(|line| match line.split_once(": passed (") {
        Some((stage, _)) => format!("{stage}: passed"),
        None => line.to_owned(),
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// Times, and the names of what it was compiled with, are not part of a verdict. `rendered` is what the
/// text shows.
fn json(folder: &str) -> Value {
    let printed = run(folder, &["--json"]);
    let (report, exit) = printed.rsplit_once("exit ").unwrap();
    let mut report: Value = serde_json::from_str(report).unwrap();
    report["exit"] = exit.trim().into();
    for name in ["toolchain", "dependencies"] {
        report.as_object_mut().unwrap().remove(name);
    }
    for stage in report["stages"].as_array_mut().unwrap() {
        stage.as_object_mut().unwrap().retain(|name, _| !name.ends_with("_ms"));
    }
    for diagnostic in report["diagnostics"].as_array_mut().unwrap() {
        let drawing = diagnostic.as_object_mut().unwrap().remove("rendered").unwrap();
        assert!(!drawing.as_str().unwrap().is_empty(), "{folder}: a diagnostic without a drawing");
    }
    report
}
