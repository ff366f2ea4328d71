#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use mfaas_audit::rustc_json;
use mfaas_rules::profiles::std_items::{ROWS, Treatment};

use super::*;
use crate::deps::facade::CLAIMED_ROOT;

fn key(name: &str) -> PackageKey {
    (name.parse().unwrap(), semver::Version::new(1, 0, 0))
}

fn member(name: &str) -> ResolvedCrate {
    let (name, version) = key(name);
    ResolvedCrate {
        name,
        version,
        checksum: None,
        features: Vec::new(),
        needs: Vec::new(),
        new: true,
        more_features: Vec::new(),
    }
}

/// As the compiler says it of an item that the facade keeps behind a `cfg`, in this file.
fn error(file: &str, feature: &str) -> Diagnostic {
    let span = |file: &str, label: &str, primary: bool| {
        serde_json::json!({
            "file_name": file, "line_start": 1, "line_end": 1, "column_start": 1, "column_end": 2,
            "is_primary": primary, "label": label,
        })
    };
    let message = serde_json::json!({
        "message": "unresolved import", "level": "error", "code": { "code": "E0432" }, "rendered": "error: unresolved import",
        "spans": [span("src/lib.rs", "no such item", true)],
        "children": [{ "spans": [span(file, &format!("the item is gated behind the `{feature}` feature"), false)] }],
    });
    rustc_json::read(&message.to_string()).unwrap()
}

/// What the facade says about items that this capability lifts, or that none does.
fn refusal(capability: Option<Capability>) -> String {
    let row = ROWS.iter().find(|row| row.treatment == Treatment::Refuse && row.capability == capability);
    format!("MF0307: {}", row.unwrap().why)
}

fn facade(capability: Option<Capability>) -> Diagnostic {
    error(&format!("{CLAIMED_ROOT}std.rs"), &refusal(capability))
}

fn granted(rows: &[(&str, &[Capability])]) -> Granted {
    rows.iter().map(|(name, set)| (name.parse().unwrap(), set.iter().copied().collect())).collect()
}

#[test]
fn each_crate_is_granted_what_it_reaches_for_and_no_other_crate() {
    let errors =
        [(key("a"), facade(Some(Capability::Unwind))), (key("b"), facade(Some(Capability::Backtrace)))];
    let found = wanted(&errors, &Granted::new());
    assert_eq!(found, granted(&[("a", &[Capability::Unwind]), ("b", &[Capability::Backtrace])]));
}

#[test]
fn what_nothing_lifts_one_by_one_takes_the_library_as_it_is() {
    let both = [(key("a"), facade(Some(Capability::Unwind))), (key("a"), facade(None))];
    assert_eq!(wanted(&both, &Granted::new()), granted(&[("a", &[Capability::Real])]));
    // The same words at a place of the crate's own are no word of the facade's.
    let own = error("src/lib.rs", &refusal(Some(Capability::Unwind)));
    assert_eq!(wanted(&[(key("a"), own)], &Granted::new()), granted(&[("a", &[Capability::Real])]));
    let mut has = BTreeSet::from([Capability::Unwind]);
    merge(&mut has, BTreeSet::from([Capability::Real]));
    assert_eq!(has, BTreeSet::from([Capability::Real]));
}

#[test]
fn nothing_is_asked_for_twice() {
    let again = [(key("a"), facade(Some(Capability::Unwind)))];
    let has = granted(&[("a", &[Capability::Unwind])]);
    assert_eq!(wanted(&again, &has), granted(&[("a", &[Capability::Real])]), "it was not enough");
    assert!(wanted(&again, &granted(&[("a", &[Capability::Real])])).is_empty(), "there is no more");
}

#[test]
fn what_the_site_gives_a_crate_already_is_no_need() {
    let site = granted(&[("a", &[Capability::Abort]), ("b", &[Capability::Abort])]);
    let tried =
        granted(&[("a", &[Capability::Abort]), ("b", &[Capability::Abort, Capability::Unwind]), ("c", &[])]);
    let needs = beyond(&tried, &site);
    assert_eq!(needs, granted(&[("b", &[Capability::Abort, Capability::Unwind]), ("c", &[])]));
}

#[test]
fn only_a_crate_that_compiled_is_reported_as_compiling() {
    let outcome = TrialOutcome {
        succeeded: false,
        compiled: BTreeSet::from([key("good")]),
        errors: vec![(key("bad"), error("src/lib.rs", "other"))],
        tail: String::new(),
    };
    let has = granted(&[("good", &[Capability::Unwind])]);
    let about = |name: &str| outcome.about(&member(name), &has);
    assert_eq!(about("good"), TrialBuild::Compiles { needs: BTreeSet::from([Capability::Unwind]) });
    assert_eq!(about("bad"), TrialBuild::Fails { reason: "error: unresolved import".to_owned() });
    let TrialBuild::NotRun { reason } = about("above") else { panic!("it was not compiled") };
    assert!(reason.contains("bad 1.0.0"), "{reason}");
    let silent =
        TrialOutcome { errors: Vec::new(), tail: "error: a build script failed".to_owned(), ..outcome };
    let reason = "error: a build script failed".to_owned();
    assert_eq!(silent.about(&member("above"), &has), TrialBuild::NotRun { reason });
}
