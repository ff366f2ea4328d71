//! Who may know whom.
#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::{collections::BTreeSet, fs};

use mfaas_architecture::{crates, root};

/// The bottom folder decides, the middle one remembers, the three top ones act and meet only
/// through rows, blobs and signed statements.
#[test]
fn folders_depend_downwards_and_never_sideways() {
    let crates = crates();
    for from in crates.values() {
        for to in &from.internal {
            let to = &crates[to];
            let (upper, lower) = (folder(&from.directory), folder(&to.directory));
            let allowed = match upper {
                "policy" => lower == "policy",
                "registry" => matches!(lower, "policy" | "registry"),
                "builder" | "api" | "node-runtime" => {
                    matches!(lower, "policy" | "registry") || lower == upper
                }
                "tests" => true,
                other => panic!("{} lies in {other}, which is no folder of the house", from.name),
            };
            assert!(allowed, "{} ({upper}) must not depend on {} ({lower})", from.name, to.name);
        }
    }
}

/// Each arrow is written down, so that a new one shows in review. `UPDATE_ARROWS=1` rewrites the file.
#[test]
fn arrows_are_those_written_down() {
    let mut lines = BTreeSet::new();
    for from in crates().values() {
        for to in &from.internal {
            lines.insert(format!("{} -> {to}", from.name));
        }
    }
    let now = lines.into_iter().collect::<Vec<_>>().join("\n") + "\n";
    let file = root().join("tests/architecture/arrows.txt");
    if std::env::var_os("UPDATE_ARROWS").is_some() {
        fs::write(&file, &now).unwrap();
    }
    let written = fs::read_to_string(&file).unwrap();
    assert_eq!(
        written, now,
        "tests/architecture/arrows.txt and ARCHITECTURE.md have to change with the arrows"
    );
}

/// A heavy dependency has one owner; everyone else speaks to the owner.
#[test]
fn heavy_dependencies_have_one_owner() {
    let owners = [
        ("sqlx", "mfaas-catalog"),
        ("object", "mfaas-inspect"),
        ("iced-x86", "mfaas-inspect"),
        ("object_store", "mfaas-blobs"),
        ("landlock", "mfaas-confine"),
        ("tracing-subscriber", "mfaas-startup"),
        ("metrics-process", "mfaas-process-metrics"),
        ("opentelemetry", "mfaas-trace"),
        ("aya", "mfaas-isolation-controller"),
        ("ra-ap-rustc_lexer", "mfaas-audit"),
        ("toml_edit", "mfaas-audit"),
        // Not mfaas-audit: the signer links that, and must not link the parser of a display.
        ("geiger", "mfaas-builder"),
        ("cargo_metadata", "mfaas-builder"),
        ("askama", "mfaas-server"),
        ("openidconnect", "mfaas-server"),
        ("clap_complete", "mfaas-cli"),
    ];
    for read in crates().values() {
        for (dependency, owner) in owners {
            // Outside of the trusted base: what the rewriter reads and writes, the owner of both reads again. The isolation
            // controller writes one object of its own, for the kernel, and reads none.
            let may = match read.name.as_str() {
                "mfaas-rewriter" => owner == "mfaas-inspect",
                "mfaas-isolation-controller" => dependency == "object" || dependency == "aya",
                // Data of functions is apart from what the registry knows: its own schema, in any database.
                "mfaas-kv" => dependency == "sqlx",
                name => name == owner,
            };
            assert!(
                !read.external.contains(dependency) || may,
                "{} depends on {dependency}, whose owner is {owner}",
                read.name
            );
        }
    }
}

/// The key holder can be spoken to by nobody: it links nothing that listens. (Blobs may lie in an
/// object store, so a client's TLS is there.)
#[test]
fn the_signer_links_nothing_that_listens() {
    let signer = &crates()["mfaas-signer"];
    for banned in ["axum", "hyper", "hyper-util", "tower", "tower-http", "tokio-rustls", "sqlx"] {
        assert!(!signer.external.contains(banned), "mfaas-signer must not depend on {banned}");
    }
}

/// What decides does no I/O and holds no clock.
#[test]
fn rules_and_dispatch_are_pure() {
    for name in ["mfaas-rules", "mfaas-dispatch", "mfaas-ident"] {
        let allowed = ["serde", "semver", "spdx", "thiserror", "sha2", "hex", "uuid"];
        let crates = crates();
        for dependency in &crates[name].external {
            assert!(allowed.contains(&dependency.as_str()), "{name} must not depend on {dependency}");
        }
    }
}

fn folder(directory: &str) -> &str {
    directory.split('/').next().unwrap_or(directory)
}
