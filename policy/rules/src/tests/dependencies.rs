use mfaas_ident::CrateName;

use super::codes;
use crate::{
    AllowedCrate, AllowlistSnapshot, CrateStatus, DependencyVerdict, LinkedCrate, facts::DependencyRequest,
    judge_closure, judge_dependencies,
};

fn row(name: &str, version: &str, status: CrateStatus, direct: bool) -> AllowedCrate {
    AllowedCrate {
        name: CrateName::parse(name).unwrap(),
        version: version.parse().unwrap(),
        checksum: "00".repeat(32),
        features: vec!["derive".into()],
        direct,
        status,
        decided_by: "seed".into(),
        reason: "test".into(),
    }
}

fn request(name: &str, requirement: &str, features: &[&str]) -> DependencyRequest {
    DependencyRequest {
        name: CrateName::parse(name).unwrap(),
        rename: None,
        requirement: requirement.parse().unwrap(),
        features: features.iter().map(|feature| (*feature).to_owned()).collect(),
        default_features: true,
        span: None,
    }
}

fn judged(requests: &[DependencyRequest]) -> (&'static str, Vec<&'static str>) {
    let crates = vec![
        row("serde", "1.0.229", CrateStatus::Allowed, true),
        row("inner", "1.0.0", CrateStatus::Allowed, false),
        row("evil", "1.0.0", CrateStatus::Denied, true),
        row("old", "1.0.0", CrateStatus::Revoked, true),
        row("old", "2.0.0", CrateStatus::Allowed, true),
    ];
    match judge_dependencies(requests, &AllowlistSnapshot { policy_version: 1, crates }) {
        DependencyVerdict::Admit(_) => ("admit", Vec::new()),
        DependencyVerdict::NeedsReview(findings) => ("review", codes(&findings)),
        DependencyVerdict::Reject(findings) => ("reject", codes(&findings)),
    }
}

#[test]
fn only_what_is_listed_passes() {
    assert_eq!(judged(&[]), ("admit", vec![]));
    assert_eq!(judged(&[request("serde", "1", &["derive"])]), ("admit", vec![]));
    assert_eq!(judged(&[request("serde", "2", &[])]), ("review", vec!["MF0205"]));
    assert_eq!(judged(&[request("serde", "1", &["rc"])]), ("review", vec!["MF0206"]));
    assert_eq!(judged(&[request("rand", "1", &[])]), ("review", vec!["MF0204"]));
    assert_eq!(judged(&[request("inner", "1", &[])]), ("review", vec!["MF0204"]));
    assert_eq!(judged(&[request("old", ">=1", &[])]), ("admit", vec![]));
}

#[test]
fn a_refusal_outweighs_a_wait() {
    assert_eq!(judged(&[request("evil", "1", &[])]), ("reject", vec!["MF0209"]));
    assert_eq!(judged(&[request("old", "=1.0.0", &[])]), ("reject", vec!["MF0209"]));
    assert_eq!(
        judged(&[request("rand", "1", &[]), request("evil", "1", &[])]),
        ("reject", vec!["MF0209", "MF0204"])
    );
}

#[test]
fn everything_that_is_linked_is_allowed_with_its_bytes() {
    let snapshot = AllowlistSnapshot {
        policy_version: 1,
        crates: vec![
            row("inner", "1.0.0", CrateStatus::Allowed, false),
            row("old", "1.0.0", CrateStatus::Revoked, false),
        ],
    };
    let linked = |name: &str, checksum: &str| LinkedCrate {
        name: CrateName::parse(name).unwrap(),
        version: "1.0.0".parse().unwrap(),
        checksum: checksum.repeat(32),
    };
    assert!(judge_closure(&[linked("inner", "00")], &snapshot).is_empty());
    assert_eq!(codes(&judge_closure(&[linked("inner", "01")], &snapshot)), ["MF0209"]);
    assert_eq!(codes(&judge_closure(&[linked("old", "00")], &snapshot)), ["MF0209"]);
    assert_eq!(codes(&judge_closure(&[linked("new", "00")], &snapshot)), ["MF0204"]);
}

#[test]
fn a_dependency_cannot_take_a_name_with_a_meaning() {
    for name in ["std", "core", "proc-macro", "mfaas", "function"] {
        let renamed = DependencyRequest { rename: Some(name.into()), ..request("serde", "1", &[]) };
        assert_eq!(judged(&[renamed]), ("reject", vec!["MF0207"]), "{name}");
    }
    let renamed = DependencyRequest { rename: Some("other".into()), ..request("serde", "1", &[]) };
    assert_eq!(judged(&[renamed]).0, "admit");
}
