//! Bans that hold everywhere until somebody lifts them, and what an operator wants of nodes.

use chrono::Utc;
use mfaas_attest::AuditHead;
use mfaas_catalog::{BanOutcome, CatalogError, Channel, NODE_BANS_MAX, Wake};
use mfaas_delivery::{Availability, Ban, BanNotice, NODE_PROTOCOL};
use mfaas_ident::{Digest, NodeName, VersionNumber};
use uuid::Uuid;

use crate::fixture::{LONG, World, actor, function, tenant};
use crate::usage::joined;

/// A ban of `acme/hello` with the artifact that the fixture makes for `key`.
fn notice(version: VersionNumber, key: &str) -> BanNotice {
    let ban = Ban {
        tenant: tenant(),
        function: function("hello"),
        version,
        digest: Digest::of(key.as_bytes()),
        crashes: 3,
        since: Utc::now(),
    };
    BanNotice { protocol: NODE_PROTOCOL, notice_id: Uuid::now_v7(), ban }
}

#[tokio::test]
async fn a_ban_holds_on_every_node_until_it_is_lifted() {
    let world = World::new().await;
    let version = world.admitted("hello", "key-1").await;
    let (node, other) = (joined(&world, "node-a").await, joined(&world, "node-b").await);
    let mut wakes = world.server.listen(&[Channel::Directives]).await.unwrap();
    let first = notice(version, "key-1");
    assert_eq!(world.server.record_ban(&node, &first).await.unwrap(), BanOutcome::InForce);
    assert_eq!(wakes.next(LONG).await.unwrap(), Wake::Notified(Channel::Directives, None));
    assert_eq!(world.server.record_ban(&node, &first).await.unwrap(), BanOutcome::Known, "reported again");
    assert_eq!(world.server.record_ban(&other, &notice(version, "key-1")).await.unwrap(), BanOutcome::Known);
    for node in [&node, &other] {
        let directives = world.server.directives(node).await.unwrap();
        let digests: Vec<_> = directives.bans.iter().map(|ban| ban.digest).collect();
        assert_eq!(digests, [first.ban.digest], "{node}");
    }
    // Another digest is another matter.
    world.admitted("hello", "key-2").await;
    assert_eq!(world.server.directives(&node).await.unwrap().bans.len(), 1);

    let id = world.server.bans(Some(&tenant()), None, 10).await.unwrap()[0].id;
    let lifted = world.server.lift_ban(&actor(), id).await.unwrap();
    assert_eq!(lifted.lifted.unwrap().1, "test");
    assert_eq!(world.server.directives(&other).await.unwrap().bans, []);
    assert!(matches!(world.server.lift_ban(&actor(), id).await, Err(CatalogError::Conflict { .. })));
    assert!(matches!(world.server.lift_ban(&actor(), id + 1).await, Err(CatalogError::NotFound { .. })));
    assert_eq!(
        world.server.record_ban(&node, &first).await.unwrap(),
        BanOutcome::Known,
        "what was reported before it was lifted stays lifted"
    );
    assert_eq!(world.server.record_ban(&node, &notice(version, "key-1")).await.unwrap(), BanOutcome::InForce);
    let actions = "SELECT count(*) FROM audit_log WHERE subject = 'acme/hello@1' AND tenant = 'acme'
                   AND action IN ('function.banned', 'function.unbanned')";
    assert_eq!(world.count(actions).await, 3);
    assert!(world.server.verify_audit(AuditHead::START).await.unwrap().is_ok());
}

#[tokio::test]
async fn a_taken_over_node_bans_neither_everything_nor_what_is_not() {
    let world = World::new().await;
    let version = world.admitted("hello", "key-1").await;
    let node = joined(&world, "node-a").await;
    assert_eq!(
        world.server.record_ban(&node, &notice(version, "other bytes")).await.unwrap(),
        BanOutcome::Unknown
    );
    world
        .damage(
            "INSERT INTO bans (told, tenant, function, version, artifact, node, crashes)
             SELECT gen_random_uuid(), 'acme', 'hello', 1, n::text, 'node-a', 3 FROM generate_series(1, 100) AS n",
        )
        .await;
    assert_eq!(NODE_BANS_MAX, 100, "the rows above are as many");
    assert_eq!(world.server.record_ban(&node, &notice(version, "key-1")).await.unwrap(), BanOutcome::TooMany);
    assert_eq!(world.server.directives(&node).await.unwrap().bans, [], "only what can be served is named");
    let other = joined(&world, "node-b").await;
    assert_eq!(
        world.server.record_ban(&other, &notice(version, "key-1")).await.unwrap(),
        BanOutcome::InForce
    );
}

#[tokio::test]
async fn availability_is_kept_audited_and_named_in_directives() {
    let world = World::new().await;
    let (node, other) = (joined(&world, "node-a").await, joined(&world, "node-b").await);
    let mut wakes = world.server.listen(&[Channel::Directives]).await.unwrap();
    for availability in
        [Availability::Cordoned, Availability::Draining, Availability::Draining, Availability::Active]
    {
        world.server.set_availability(&actor(), &node, availability).await.unwrap();
        assert_eq!(world.server.directives(&node).await.unwrap().availability, availability);
        assert_eq!(world.server.directives(&other).await.unwrap().availability, Availability::Active);
        let row = world.server.nodes().await.unwrap().remove(0).row;
        assert_eq!((row.availability, row.availability_since.is_some()), (availability, true));
        // For programs of the release before.
        let cordoned = world.count("SELECT count(*) FROM nodes WHERE cordoned").await;
        assert_eq!(cordoned == 1, availability != Availability::Active);
    }
    assert_eq!(wakes.next(LONG).await.unwrap(), Wake::Notified(Channel::Directives, None));
    let said = "SELECT count(*) FROM audit_log WHERE subject = 'node-a' AND actor = 'test'
                AND action IN ('node.cordoned', 'node.draining', 'node.uncordoned')";
    assert_eq!(world.count(said).await, 3, "saying it again is no change");
    let stranger = NodeName::parse("stranger").unwrap();
    let unknown = world.server.set_availability(&actor(), &stranger, Availability::Cordoned).await;
    assert!(matches!(unknown, Err(CatalogError::NotFound { what: "node" })));
    assert!(world.server.directives(&stranger).await.is_err());
}
