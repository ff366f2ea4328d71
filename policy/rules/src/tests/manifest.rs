use mfaas_ident::FunctionName;

use super::codes;
use crate::{
    facts::{ManifestFact, ManifestFacts},
    judge_manifest,
};

fn judged(fact: ManifestFact) -> Vec<&'static str> {
    codes(&judge_manifest(&ManifestFacts { facts: vec![(fact, None)], ..ManifestFacts::default() }))
}

fn key(path: &str) -> ManifestFact {
    ManifestFact::Key(path.split('.').map(str::to_owned).collect())
}

#[test]
fn keys_are_known_by_allowlist() {
    for good in [
        "package.name",
        "package.metadata.mfaas.handler",
        "dependencies.serde.version",
        "features.extra",
        "lib.name",
    ] {
        assert!(judged(key(good)).is_empty(), "{good}");
    }
    for bad in [
        "profile.release.panic",
        "lints.rust.unsafe_code",
        "patch.crates-io",
        "replace",
        "workspace",
        "lib.path",
        "lib.crate-type",
        "lib.proc-macro",
        "dev-dependencies",
        "target",
        "package.metadata.other",
        "cargo-features",
        "package.default-run",
        "dependencies.serde.artifact",
        "package.name.deeper",
        "hints",
    ] {
        assert_eq!(judged(key(bad)), ["MF0202"], "{bad}");
    }
    for script in ["package.build", "package.links", "build-dependencies.cc"] {
        assert_eq!(judged(key(script)), ["MF0109"], "{script}");
    }
}

#[test]
fn sources_and_values_have_their_codes() {
    let foreign = ManifestFact::ForeignDependency { name: "x".into(), source: "git".into() };
    assert_eq!(judged(foreign), ["MF0203"]);
    let bad = ManifestFact::BadValue { key: "package.metadata.mfaas.handler".into(), reason: "no".into() };
    assert_eq!(judged(bad), ["MF0207"]);
    assert_eq!(judged(ManifestFact::Unreadable("no".into())), ["MF0201"]);
}

#[test]
fn no_function_is_called_as_a_crate_of_the_platform() {
    let named = |name: &str| ManifestFacts {
        name: Some(FunctionName::parse(name).expect("a function's name")),
        ..ManifestFacts::default()
    };
    for ours in ["mfaas", "mfaas-core", "mfaas-abi"] {
        assert_eq!(codes(&judge_manifest(&named(ours))), ["MF0207"], "{ours}");
    }
    for theirs in ["core", "my-mfaas", "mfaasd"] {
        assert!(judge_manifest(&named(theirs)).is_empty(), "{theirs}");
    }
}
