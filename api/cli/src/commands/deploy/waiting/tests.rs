#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use super::*;

fn node(name: &str, state: &str, availability: &str) -> NodeView {
    serde_json::from_value(serde_json::json!({
        "name": name, "state": state, "cordoned": availability != "active", "availability": availability,
        "joined_at": "2027-01-01T00:00:00Z", "desired_epoch": 1, "loaded": 0, "workers": 0,
        "reported_at": "2027-01-02T03:04:05Z",
    }))
    .unwrap()
}

fn said(nodes: &[NodeView]) -> Option<String> {
    why(nodes, &[], VersionNumber::new(2).unwrap())
}

#[test]
fn a_deployer_who_waits_learns_what_keeps_every_node_from_it() {
    let drained = node("n-1", "ready", "draining");
    assert_eq!(
        said(&[drained.clone(), node("n-2", "ready", "cordoned")]).unwrap(),
        "n-1 is drained and takes neither calls nor new versions, n-2 is cordoned and takes no new versions; \
         `mfaas node uncordon n-1` lets it take new versions"
    );
    let away = said(&[node("n-1", "silent", "active"), node("n-2", "joined", "active")]).unwrap();
    assert!(away.starts_with("n-1 is not connected since 2027-01-02 03:04:05 UTC, n-2 has joined"), "{away}");
    assert!(said(&[]).unwrap().contains("no node has joined"));
    let many: Vec<_> = (1..=7).map(|number| node(&format!("n-{number}"), "silent", "active")).collect();
    assert!(said(&many).unwrap().contains("n-5 is not connected since 2027-01-02 03:04:05 UTC, and 2 more"));
    for going_to in ["ready", "behind"] {
        assert_eq!(said(&[drained.clone(), node("n-2", going_to, "active")]), None, "{going_to}");
    }
}

#[test]
fn a_node_that_refuses_the_version_is_asked_why() {
    let endpoint = serde_json::json!({
        "node": "n-1", "loaded_versions": [], "ready": false,
        "refused_versions": [{ "version": 2, "code": "MF0602", "message": "m", "hint": "h" }],
    });
    let endpoint: Endpoint = serde_json::from_value(endpoint).unwrap();
    let version = VersionNumber::new(2).unwrap();
    let said = why(&[node("n-1", "ready", "active")], &[endpoint], version).unwrap();
    assert!(said.starts_with("n-1 does not take it (MF0602 m); "), "{said}");
}
