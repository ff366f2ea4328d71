#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use mfaas_wire::{BuilderView, BuildersView};

use super::check::{Check, Verdict};
use super::machine::{landlock_of_kernel, window_of};
use super::{agreement_of, builds_of, drawing};

#[test]
fn kernels_are_compared_as_numbers() {
    assert_eq!(landlock_of_kernel("6.18.44-cloud"), Some(5));
    assert_eq!(landlock_of_kernel("6.1.0-40-amd64"), Some(2));
    assert_eq!(landlock_of_kernel("6.2-rc1"), Some(3));
    assert_eq!(landlock_of_kernel("5.10.0"), None);
    assert_eq!(landlock_of_kernel("unknown"), None);
}

#[test]
fn a_kernel_that_keeps_low_addresses_is_a_complaint() {
    assert_eq!(window_of(Some(65_536)).verdict, Verdict::Good);
    assert!(window_of(Some(4_096)).found.contains("768 MiB"));
    assert_eq!(window_of(Some(65_537)).verdict, Verdict::Bad);
    assert_eq!(window_of(None).verdict, Verdict::Bad, "nobody knows");
}

#[test]
fn every_complaint_is_drawn_with_its_fix() {
    let text = drawing(&[Check::good("a", "here"), Check::bad("b", "gone", "do this")]);
    assert!(text.contains("BAD") && text.contains("= help: b: do this"), "{text}");
    assert_eq!(text.matches("= help").count(), 1);
}

#[test]
fn nodes_of_another_build_than_the_server_are_a_complaint() {
    let node = |name: &str, build: Option<&str>, reported_at: Option<&str>| -> mfaas_wire::NodeView {
        serde_json::from_value(serde_json::json!({
            "name": name, "state": "ready", "cordoned": false, "joined_at": "2027-01-02T03:00:00Z", "desired_epoch": 1,
            "loaded": 0, "workers": 1, "build": build, "reported_at": reported_at,
        }))
        .unwrap()
    };
    let at = Some("2027-01-02T03:00:00Z");
    let same = [node("same", Some("0.3.0+1f2e3d4"), at), node("joined", None, None)];
    let check = builds_of("0.3.0+1f2e3d4", &same);
    assert_eq!(check.verdict, Verdict::Good);
    assert!(check.found.contains("the server is 0.3.0+1f2e3d4"), "{}", check.found);
    let check = builds_of("0.3.0+1f2e3d4", &[node("a", Some("0.3.0"), at), node("b", None, at)]);
    assert_eq!(check.verdict, Verdict::Weaker);
    assert!(
        check.found.ends_with("node a is 0.3.0; node b does not say which build it is"),
        "{}",
        check.found
    );
}

#[test]
fn too_few_builders_that_can_agree_are_a_complaint() {
    let builder = |role: &str, unwell: Option<&str>| BuilderView {
        instance: "i".to_owned(),
        role: role.to_owned(),
        seen_at: chrono::Utc::now(),
        unwell: unwell.map(str::to_owned),
    };
    let check = |agreement, identities, builders| {
        let check = agreement_of(&BuildersView { agreement, identities, builders });
        (check.verdict, check.found)
    };
    let (verdict, found) = check(Some(2), 1, vec![builder("one", None), builder("one", None)]);
    assert_eq!(verdict, Verdict::Bad);
    assert!(found.contains("have to agree; live builders: 2, database roles that take builds: 1"), "{found}");
    assert_eq!(check(None, 0, vec![]).0, Verdict::Bad, "one is needed anyway");
    assert_eq!(check(Some(2), 2, vec![builder("one", None), builder("two", None)]).0, Verdict::Good);
    let (verdict, found) =
        check(Some(1), 1, vec![builder("one", None), builder("two", Some("/work: no room"))]);
    assert_eq!(verdict, Verdict::Weaker);
    assert!(found.contains("two: /work: no room"), "{found}");
}
