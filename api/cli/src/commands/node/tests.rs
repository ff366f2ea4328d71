#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use mfaas_wire::NodeView;

use super::{availability, drained};

fn node(availability: &str, condition: &str, state: &str) -> NodeView {
    serde_json::from_value(serde_json::json!({
        "name": "node-1", "state": state, "cordoned": availability != "active", "joined_at": "2027-01-02T03:00:00Z",
        "desired_epoch": 1, "loaded": 0, "workers": 1, "availability": availability, "condition": condition,
    }))
    .unwrap()
}

#[test]
fn the_availability_that_is_wanted_stands_beside_what_the_node_reports() {
    assert_eq!(availability(&node("active", "active", "ready")), "active");
    assert_eq!(availability(&node("cordoned", "active", "ready")), "cordoned (is active)");
    assert_eq!(availability(&node("draining", "draining", "ready")), "draining");
    assert_eq!(availability(&node("draining", "drained", "ready")), "drained");
    assert_eq!(availability(&node("active", "drained", "ready")), "active (is drained)");
}

#[test]
fn waiting_ends_when_the_node_that_reports_says_drained() {
    assert!(drained(&node("draining", "draining", "ready")).unwrap().is_none());
    assert!(drained(&node("draining", "drained", "behind")).unwrap().is_some());
    assert!(drained(&node("draining", "drained", "silent")).unwrap().is_none(), "what it said may be old");
    let mut old = node("draining", "drained", "ready");
    (old.reported_at, old.availability_since) = (Some(old.joined_at), Some(old.joined_at));
    assert!(drained(&old).unwrap().is_some());
    old.availability_since = old.joined_at.checked_add_signed(chrono::TimeDelta::seconds(1));
    assert!(drained(&old).unwrap().is_none(), "it was drained once before");
    assert!(drained(&node("active", "drained", "ready")).is_err(), "somebody else has changed it");
}
