//! Acquiring crates: archives, the registry, the compiler's verdict, the next seed.
//!
//! What needs the registry says so loudly where there is none, and nothing else is skipped.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use mfaas_harness::{Archive, builder};
use serde_json::Value;
use tar::EntryType;

use crate::installed::installed;

/// The builder with a toolchain, and a directory for downloads that the next run finds again.
fn acquirer(command: &[&str]) -> Command {
    let toolchain = &installed().toolchain;
    let mut builder = builder();
    builder.env("MFAAS_TOOLCHAIN_DIR", toolchain).args(command);
    builder.arg("--work").arg(kept());
    builder
}

fn kept() -> PathBuf {
    let site = installed().toolchain.parent().and_then(Path::parent).unwrap();
    site.join("acquire")
}

fn run(mut command: Command) -> Output {
    command.output().unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// The output of a success; `None` where the registry cannot be reached, which is said.
fn with_registry(command: Command) -> Option<String> {
    let output = run(command);
    if stderr(&output).contains("the registry did not answer") {
        assert!(std::env::var_os("CI").is_none(), "{}", stderr(&output));
        // Past the test runner, which keeps what a test that passes prints.
        let note = format!("NOT RUN: the registry cannot be reached from here: {}\n", stderr(&output));
        std::io::stderr().write_all(note.as_bytes()).unwrap();
        return None;
    }
    assert!(output.status.success(), "{}", stderr(&output));
    Some(String::from_utf8(output.stdout).unwrap())
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

fn text(value: &Value) -> String {
    value.to_string()
}

#[test]
fn an_archive_is_read_with_what_lies_beside_the_source() {
    let directory = tempfile::tempdir().unwrap();
    let mut archive = Archive::default();
    let manifest = "[package]\nname = \"sample\"\nversion = \"1.2.3\"\nedition = \"2021\"\nlicense = \"MIT\"\nlinks = \"z\"\n";
    archive.file("sample-1.2.3/Cargo.toml", manifest.as_bytes());
    archive.file("sample-1.2.3/src/lib.rs", b"pub fn one() -> u8 { 1 }\n");
    archive.file("sample-1.2.3/src/fast.c", b"int one(void) { return 1; }\n");
    archive.file("sample-1.2.3/data/innocent.txt", b"\x7fELF\x02\x01\x01");
    archive.entry(EntryType::Symlink, "sample-1.2.3/src/link.rs", Some("/etc/passwd"), b"");
    let path = directory.path().join("sample-1.2.3.crate");
    std::fs::write(&path, archive.finish()).unwrap();
    let mut command = builder();
    let output = run({
        command.args(["facts", "--json"]).arg(&path);
        command
    });
    let report = json(&String::from_utf8_lossy(&output.stdout));
    assert_eq!(text(&report["archive"]["binaries"]), r#"[{"kind":"elf","path":"data/innocent.txt"}]"#);
    assert_eq!(text(&report["archive"]["native_sources"]), r#"["src/fast.c"]"#);
    assert!(report["source"]["unread"][0].as_str().unwrap().starts_with("src/link.rs: a symbolic link"));
    assert_eq!(report["source"]["summary"]["unsafe"], "unknown");
    assert_eq!((&report["kind"]["links"], &report["licence"]["expression"]), (&"z".into(), &"MIT".into()));
    assert!(report["compiler"]["not_run"].is_object(), "{report}");
}

/// An archive that is refused is a report that says so, and no count in it is a zero that was counted.
#[test]
fn an_archive_that_is_refused_is_unread_and_never_none() {
    let directory = tempfile::tempdir().unwrap();
    for (number, path) in ["sample-1.2.3/../escaped", "other/file", "/etc/passwd"].iter().enumerate() {
        let mut archive = Archive::default();
        archive.file("sample-1.2.3/src/lib.rs", b"").file(path, b"");
        let root = directory.path().join(number.to_string());
        std::fs::create_dir(&root).unwrap();
        let path = root.join("sample-1.2.3.crate");
        std::fs::write(&path, archive.finish()).unwrap();
        let mut command = builder();
        command.args(["facts", "--json"]).arg(&path);
        let report = json(&String::from_utf8_lossy(&run(command).stdout));
        assert_eq!(report["source"]["summary"]["unsafe"], "unknown", "{report}");
        assert_eq!(report["archive"]["unread"].as_array().map(Vec::len), Some(1), "{report}");
    }
}

/// The three counts of crates that are known: without unsafe code, with much, with a build script, and a
/// procedural macro.
#[test]
fn the_compiler_counts_what_a_crate_itself_contains() {
    let directory = tempfile::tempdir().unwrap();
    let list = directory.path().join("list");
    std::fs::write(
        &list,
        "adler2 2.0.1\nthiserror 2.0.21\nmemchr 2.8.3\nanyhow 1.0.104\nthiserror-impl 2.0.21\n",
    )
    .unwrap();
    let mut command = acquirer(&["table", "--json"]);
    command.arg("--list").arg(&list);
    let Some(table) = with_registry(command) else { return };
    let table = json(&table);
    let row = |name: &str| {
        let rows = table["rows"].as_array().unwrap();
        rows.iter().find(|row| row["name"] == name).unwrap_or_else(|| panic!("no {name}: {table}"))
    };
    let number = |name: &str, count: &str| row(name)[count]["number"].as_u64();
    for count in ["geiger", "tokens", "compiler"] {
        assert_eq!(number("adler2", count), Some(0), "{table}");
        assert!(number("memchr", count) > Some(100), "{table}");
        assert!(number("anyhow", count) > Some(10), "{table}");
    }
    assert_eq!(
        (&row("anyhow")["build_script"], &row("memchr")["build_script"]),
        (&true.into(), &false.into())
    );
    // Its build script asks the compiler things of its own, which are no questions about it.
    assert_eq!(number("thiserror", "compiler"), Some(0), "{table}");
    assert_eq!(row("thiserror-impl")["proc_macro"], true);
    assert_eq!(table["missing"].as_array().map(Vec::len), Some(0));
}

#[test]
fn a_crate_of_the_registry_is_reported_with_everything_that_it_needs() {
    let Some(reports) = with_registry(acquirer(&["facts", "--json", "--crate", "humansize@2.1.3"])) else {
        return;
    };
    let reports = json(&reports);
    let report = &reports["crate"];
    assert_eq!(report["checksum"], "6cb51c9a029ddc91b07a787f1d86b53ccfa49b0e86688c946ebe8d3555685dd7");
    assert_eq!(
        (&report["compiler"], &report["target"]),
        (&"clean".into(), &"x86_64-unknown-linux-gnu".into())
    );
    assert_eq!(report["needs"][0]["name"], "libm");
    let libm = &reports["closure"][0];
    assert_eq!((&libm["name"], &libm["checksum"]), (&"libm".into(), &report["needs"][0]["checksum"]));
    let hotspot = &libm["compiler"]["unsafe"]["spots"][0]["span"];
    assert!(hotspot["file"].as_str().unwrap().starts_with("src/"), "{hotspot}");
    assert!(hotspot["line"].as_u64() > Some(0), "{hotspot}");
}

/// A seed of two crates gets two more, one of them in two major versions, and is built in the sandbox.
#[test]
fn a_seed_grows_by_what_was_approved_and_builds() {
    let directory = tempfile::tempdir().unwrap();
    let (seed, next) = (directory.path().join("seed"), directory.path().join("next"));
    write_seed(&seed);
    let mut command = acquirer(&["deps", "extend"]);
    command.arg("--seed").arg(&seed).arg("--into").arg(&next);
    for name in ["serde@1.0.229", "serde_json@1.0.154", "itertools@0.14.0", "itertools@^0.13"] {
        command.args(["--add", name]);
    }
    let Some(paths) = with_registry(command) else { return };
    for path in
        ["itertools 0.14.0 -> either ", "serde_json 1.0.154 -> serde_core 1.0.229\n", "itertools 0.13.0\n"]
    {
        assert!(paths.contains(path), "{path} is not in\n{paths}");
    }
    refuses(&next, "itoa@=1.0.1", "it does not fit the site's one resolution, which has `itoa` 1.0");
    refuses(&next, "itertools@^99", "the site offers 0.14.0");
    refuses(&next, "no-such-crate-of-mfaas", "the registry has no crate `no-such-crate-of-mfaas`");
    let mut wider = acquirer(&["deps", "extend", "--add", "serde@1.0.229", "--features", "rc"]);
    wider.arg("--seed").arg(&next).arg("--into").arg(directory.path().join("wider"));
    let text = with_registry(wider).unwrap();
    assert!(text.contains("serde 1.0.229 (with rc)\n"), "a feature that nobody decided about: {text}");
    builds(&next, directory.path());
}

/// Nothing but a place in a manifest, and what serde and its friends are granted of std.
fn write_seed(root: &Path) {
    std::fs::create_dir(root).unwrap();
    let write = |name: &str, text: &str| std::fs::write(root.join(name), text).unwrap();
    write(
        "Cargo.toml",
        "[workspace]\n[package]\nname = \"mfaas-seed\"\nversion = \"0.1.0\"\nedition = \"2024\"\n",
    );
    write("Cargo.lock", "version = 4\n\n[[package]]\nname = \"mfaas-seed\"\nversion = \"0.1.0\"\n");
}

fn refuses(seed: &Path, name: &str, text: &str) {
    let mut command = acquirer(&["deps", "extend", "--add", name]);
    command.arg("--seed").arg(seed).arg("--into").arg(seed.with_extension("never"));
    let output = run(command);
    assert!(!output.status.success() && stderr(&output).contains(text), "{}", stderr(&output));
}

fn builds(seed: &Path, into: &Path) {
    let mut grants = String::new();
    for (name, capability) in [
        ("memchr", "machine-code"),
        ("zmij", "machine-code"),
        ("serde", "build-input"),
        ("serde_core", "build-input"),
    ] {
        grants.push_str(&format!(
            "[[grant]]\ncrate = \"{name}\"\ncapabilities = [\"{capability}\"]\nreason = \"a test\"\n"
        ));
    }
    std::fs::write(seed.join("capabilities.toml"), grants).unwrap();
    let mut build = builder();
    build.args(["deps", "build", "--seed"]).arg(seed).arg("--vendor").arg(kept().join("sources"));
    build.arg("--toolchain").arg(&installed().toolchain).arg("--into").arg(into.join("deps"));
    let output = run(build);
    assert!(output.status.success(), "{}", stderr(&output));
    let key = String::from_utf8(output.stdout).unwrap();
    let index = std::fs::read_to_string(into.join("deps").join(key.trim()).join("deps.json")).unwrap();
    let index = json(&index);
    let direct: Vec<String> = index["crates"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|entry| entry["direct"] == true)
        .map(|entry| format!("{} {}", entry["name"].as_str().unwrap(), entry["version"].as_str().unwrap()))
        .collect();
    assert_eq!(
        direct,
        ["itertools 0.13.0", "itertools 0.14.0", "mfaas 0.1.0", "serde 1.0.229", "serde_json 1.0.154"]
    );
}
