#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use mfaas_wire::{DeploymentState, Diagnostic, Endpoint, Level};

use super::outcome::{WAITS_FOR_A_BUILDER, WAITS_FOR_THE_SERVICE, refused_by_all};
use super::{Outcome, Packing, exit_of, name_of_package, pack};
use crate::failure::Exit;

fn diagnostic(code: &str, level: Level) -> Diagnostic {
    Diagnostic {
        code: code.to_owned(),
        level,
        message: String::new(),
        hint: String::new(),
        rendered: String::new(),
        span: None,
        layer: String::new(),
    }
}

#[test]
fn the_first_error_tells_the_kind_of_refusal() {
    let warning = diagnostic("MF0301", Level::Warning);
    let compiler = diagnostic("MF0401", Level::Error);
    let policy = diagnostic("MF0301", Level::Error);
    let refused = DeploymentState::Refused;
    assert_eq!(exit_of(refused, &[warning.clone(), compiler.clone()]), Exit::CompileError);
    assert_eq!(exit_of(refused, &[policy, compiler]), Exit::Refused);
    assert_eq!(exit_of(refused, &[]), Exit::Refused);
    assert_eq!(exit_of(refused, &[warning]), Exit::Refused);
    assert_eq!(exit_of(DeploymentState::Waiting, &[]), Exit::Waiting);
    assert_eq!(exit_of(DeploymentState::Failed, &[]), Exit::Failed);
    assert_eq!(exit_of(DeploymentState::Admitted, &[]), Exit::Ok);
}

/// A fault of the site's is told while it lasts: at the end it would stand beside a version that is served.
#[test]
fn what_was_waited_for_is_not_told_at_the_end() {
    let zero = "0".repeat(64);
    let deployment = serde_json::json!({
        "id": "00000000-0000-0000-0000-000000000000", "tenant": "acme", "function": "hello", "state": "received",
        "created_at": "2026-01-01T00:00:00Z", "updated_at": "2026-01-01T00:00:00Z", "source_digest": zero,
        "source_bytes": 1, "attempts": 0,
    });
    let mut outcome = Outcome::accepted(serde_json::from_value(deployment).unwrap());
    for code in [WAITS_FOR_THE_SERVICE, WAITS_FOR_A_BUILDER, "MF0301"] {
        let event = serde_json::json!({
            "seq": 1, "at": "2026-01-01T00:00:00Z", "stage": "claim", "kind": "diagnostic",
            "diagnostics": [diagnostic(code, Level::Warning)],
        });
        assert!(!outcome.take(serde_json::from_value(event).unwrap()), "it is not the last");
    }
    let told: Vec<&str> = outcome.diagnostics.iter().map(|diagnostic| diagnostic.code.as_str()).collect();
    assert_eq!(told, ["MF0301"]);
    assert_eq!(WAITS_FOR_THE_SERVICE, mfaas_rules::codes::MF0413.id());
    assert_eq!(WAITS_FOR_A_BUILDER, mfaas_rules::codes::MF0609.id());
}

#[test]
fn a_directory_packs_to_the_same_bytes_without_build_output() {
    let make = |extra: &str| {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(dir.path().join("src")).unwrap();
        std::fs::write(dir.path().join("src/lib.rs"), "pub fn handle(r: &[u8]) -> Vec<u8> { r.to_vec() }")
            .unwrap();
        std::fs::write(dir.path().join("Cargo.toml"), "[package]\nname = \"demo\"\n").unwrap();
        std::fs::create_dir_all(dir.path().join(extra)).unwrap();
        std::fs::write(dir.path().join(extra).join("junk"), "junk").unwrap();
        dir
    };
    let (first, second) = (make("target"), make(".git"));
    let packed = |dir: &tempfile::TempDir| pack(dir.path()).map_err(|_| "refused").unwrap();
    assert_eq!(packed(&first), packed(&second));
    assert_eq!(name_of_package(first.path()).unwrap().as_str(), "demo");
}

#[test]
fn what_cannot_be_uploaded_is_refused_with_a_code_before_the_upload() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(dir.path().join("src")).unwrap();
    std::fs::write(dir.path().join("src/lib.rs"), "").unwrap();
    match pack(dir.path()) {
        Err(Packing::Refused(diagnostic)) => assert_eq!(diagnostic.code, "MF0108"),
        _ => panic!("a directory without Cargo.toml must be refused"),
    }
    std::fs::write(dir.path().join("Cargo.toml"), "[package]\nname = \"demo\"\n").unwrap();
    std::os::unix::fs::symlink("/etc/passwd", dir.path().join("src/link.rs")).unwrap();
    assert!(matches!(pack(dir.path()), Err(Packing::Refused(_))));
    assert!(matches!(pack(&dir.path().join("nowhere")), Err(Packing::Broken(_))));
}

#[test]
fn a_package_name_that_is_no_function_name_asks_for_one() {
    let dir = tempfile::tempdir().unwrap();
    for manifest in ["[package]\nname = \"Demo\"\n", "[package]\n", "[", ""] {
        std::fs::write(dir.path().join("Cargo.toml"), manifest).unwrap();
        let failure = name_of_package(dir.path()).unwrap_err();
        assert_eq!(failure.exit(), Exit::Usage, "{manifest:?}");
        assert!(failure.to_string().contains("--name"), "{failure}");
    }
}

#[test]
fn waiting_ends_when_every_node_that_reports_refuses_for_good() {
    let version = |number| mfaas_ident::VersionNumber::new(number).unwrap();
    let endpoint = |node: &str, reports: bool, refused: &[(u32, &str)]| -> Endpoint {
        let refused: Vec<_> = refused
            .iter()
            .map(|(version, code)| {
                serde_json::json!({"version": version, "code": code, "message": "m", "hint": "h"})
            })
            .collect();
        let reported_at = reports.then_some("2027-01-02T03:04:05Z");
        serde_json::from_value(serde_json::json!({
            "node": node, "loaded_versions": [], "refused_versions": refused, "ready": false,
            "reported_at": reported_at,
        }))
        .unwrap()
    };
    let (full, silent) = (endpoint("node-1", true, &[(2, "MF0712")]), endpoint("node-2", false, &[]));
    let refused = refused_by_all(&[full.clone(), silent.clone()], version(2)).unwrap();
    assert_eq!((refused[0].node.as_str(), refused[0].refusal.code.as_str()), ("node-1", "MF0712"));
    assert_eq!(refused_by_all(&[full.clone(), silent.clone()], version(3)), None, "another version");
    assert_eq!(refused_by_all(&[full, endpoint("node-3", true, &[])], version(2)), None, "one may take it");
    let small = endpoint("node-1", true, &[(2, "MF0722")]);
    assert!(refused_by_all(&[small], version(2)).is_some(), "a node gets no memory by waiting");
    let cordoned = endpoint("node-1", true, &[(2, "MF0711")]);
    assert_eq!(refused_by_all(&[cordoned], version(2)), None, "that passes");
    assert_eq!(refused_by_all(&[silent], version(2)), None, "nobody has said anything");
}
