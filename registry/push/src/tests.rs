//! The comparison of desired and reported, without a database.

#![allow(clippy::unwrap_used, reason = "tests")]

use chrono::Utc;
use mfaas_catalog::{JoinedNode, NodeRow, NodeStatus};
use mfaas_delivery::{Availability, Condition, NODE_PROTOCOL, Report, SetState};
use mfaas_ident::{Digest, Epoch, NodeName};

use crate::Summary;

fn node(name: &str, desired: u64, reported: Option<(u64, SetState)>) -> NodeStatus {
    let report = reported.map(|(epoch, set)| Report {
        protocol: NODE_PROTOCOL,
        boot: uuid::Uuid::nil(),
        sequence: 1,
        epoch: Epoch(epoch),
        set,
        ingress_url: "http://127.0.0.1:7800".to_owned(),
        condition: Condition::Active,
        workers: 2,
        protection: "full".to_owned(),
        set_digest: None,
        functions: 0,
        versions: 0,
        loaded: Vec::new(),
        refused_total: 0,
        refused_first: None,
        refused: Vec::new(),
        problems: Vec::new(),
    });
    let joined = JoinedNode {
        name: NodeName::parse(name).unwrap(),
        certificate_sha256: Digest::of(name.as_bytes()),
        joined_at: Utc::now(),
    };
    let row = NodeRow {
        node: joined,
        availability: Availability::Active,
        availability_since: None,
        report: report.map(|r| (Utc::now(), r)),
        isolation: None,
        build: None,
    };
    NodeStatus { row, desired: Epoch(desired), signed_here: None }
}

#[test]
fn a_node_at_the_desired_epoch_has_converged() {
    let summary = Summary::of(&[node("one", 4, Some((4, SetState::Current)))]);
    assert!(summary.is_converged());
    assert_eq!((summary.desired, summary.nodes), (Epoch(4), 1));
}

#[test]
fn a_silent_node_and_a_late_node_are_behind() {
    let nodes = [node("late", 4, Some((3, SetState::Expired))), node("silent", 4, None)];
    let summary = Summary::of(&nodes);
    assert!(!summary.is_converged());
    let behind: Vec<_> = summary.behind.iter().map(|d| (d.node.as_str(), d.reported, d.expired)).collect();
    assert_eq!(behind, [("late", Some(Epoch(3)), true), ("silent", None, false)]);
}
