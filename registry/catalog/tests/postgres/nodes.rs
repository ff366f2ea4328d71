//! Nodes: joining once, reports in order, desired against reported.

use mfaas_catalog::{CatalogError, Held};
use mfaas_delivery::{Condition, NODE_PROTOCOL, Report, SetState};
use mfaas_ident::{Digest, Epoch, NodeName};

use crate::fixture::{World, actor};

#[tokio::test]
async fn a_join_token_joins_one_node_once() {
    let world = World::new().await;
    let (node, other) = (NodeName::parse("node-a").unwrap(), NodeName::parse("node-b").unwrap());
    let (secret, certificate) = (Digest::of(b"join"), Digest::of(b"certificate"));
    world.server.create_join_token(&actor(), &node, &secret, 600).await.unwrap();
    let wrong = world.server.join_node(&other, &secret, &certificate).await;
    assert!(matches!(wrong, Err(CatalogError::NotFound { .. })));
    let joined = world.server.join_node(&node, &secret, &certificate).await.unwrap();
    assert_eq!(world.server.node_by_certificate(&certificate).await.unwrap(), Some(joined));
    let again = world.server.join_node(&node, &secret, &Digest::of(b"second")).await;
    assert!(matches!(again, Err(CatalogError::NotFound { what: "join token" })));

    let expired = Digest::of(b"expired");
    world.server.create_join_token(&actor(), &node, &expired, 0).await.unwrap();
    let late = world.server.join_node(&node, &expired, &Digest::of(b"third")).await;
    assert!(matches!(late, Err(CatalogError::NotFound { .. })));
    assert_eq!(world.server.node_by_certificate(&Digest::of(b"third")).await.unwrap(), None);
}

#[tokio::test]
async fn the_newest_report_counts_and_convergence_follows() {
    let world = World::new().await;
    let node = NodeName::parse("node-a").unwrap();
    world.server.create_join_token(&actor(), &node, &Digest::of(b"join"), 600).await.unwrap();
    world.server.join_node(&node, &Digest::of(b"join"), &Digest::of(b"certificate")).await.unwrap();
    world
        .damage(
            "INSERT INTO serving_sets (epoch, generation, digest, envelope, issued_at, expires_at)
             VALUES (7, 1, repeat('d', 64), 'e', now(), now() + interval '1 hour')",
        )
        .await;
    assert!(!world.server.nodes().await.unwrap()[0].is_converged());
    let boot = uuid::Uuid::new_v4();
    let report = |boot, sequence, epoch| Report {
        protocol: NODE_PROTOCOL,
        boot,
        sequence,
        epoch: Epoch(epoch),
        set: SetState::Current,
        ingress_url: "http://127.0.0.1:7800".to_owned(),
        condition: Condition::Active,
        workers: 1,
        protection: "full".to_owned(),
        set_digest: None,
        functions: 0,
        versions: 0,
        loaded: Vec::new(),
        refused_total: 0,
        refused_first: None,
        refused: Vec::new(),
        problems: Vec::new(),
    };
    assert!(world.server.record_report(&node, &report(boot, 2, 7)).await.unwrap());
    assert!(
        !world.server.record_report(&node, &report(boot, 1, 6)).await.unwrap(),
        "an older one of this boot"
    );
    let status = world.server.nodes().await.unwrap().remove(0);
    assert_eq!((status.reported(), status.desired, status.is_converged()), (Epoch(7), Epoch(7), true));
    let rebooted = uuid::Uuid::new_v4();
    assert!(
        world.server.record_report(&node, &report(rebooted, 1, 0)).await.unwrap(),
        "a new boot counts anew"
    );
    assert_eq!(world.server.nodes().await.unwrap()[0].reported(), Epoch(0));

    let newest = world.server.serving_set_unless(&Held::Epoch(Epoch(6))).await.unwrap().unwrap();
    assert_eq!((newest.epoch, newest.envelope.as_str()), (Epoch(7), "e"));
    assert_eq!(world.server.serving_set_unless(&Held::Epoch(Epoch(7))).await.unwrap(), None);
    assert_eq!(world.server.key_list().await.unwrap(), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn key_lists_are_given_one_after_the_other() {
    let world = World::new().await;
    assert_eq!(world.server.key_list_after(0).await.unwrap(), None);
    world
        .damage(
            "INSERT INTO key_lists (version, envelope) VALUES (1, 'list 1'), (2, 'list 2'), (4, 'list 4')",
        )
        .await;
    for (held, next) in
        [(0, Some("list 1")), (1, Some("list 2")), (2, Some("list 4")), (4, None), (u32::MAX, None)]
    {
        assert_eq!(world.server.key_list_after(held).await.unwrap().as_deref(), next, "after {held}");
    }
    assert_eq!(world.server.key_list().await.unwrap().as_deref(), Some("list 4"));
}
