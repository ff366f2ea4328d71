//! Nodes: joining once, reports in order, desired against reported.

use std::time::Duration;

use mfaas_catalog::{CatalogError, Held, NewJoinToken, RecordedReport};
use mfaas_delivery::{Availability, Condition, NODE_PROTOCOL, Report, SetState};
use mfaas_ident::{Digest, Epoch, NodeName};

use crate::fixture::{World, actor};

#[tokio::test]
async fn a_join_token_joins_one_node_once() {
    let world = World::new().await;
    let (node, other) = (NodeName::parse("node-a").unwrap(), NodeName::parse("node-b").unwrap());
    let [secret, key, certificate] = ["join", "key", "certificate"].map(|text| Digest::of(text.as_bytes()));
    world
        .server
        .create_join_token(
            &actor(),
            &NewJoinToken { secret_sha256: &secret, node: Some(&node), uses_max: 1, valid_for_seconds: 600 },
        )
        .await
        .unwrap();
    let wrong = world.server.join_node(&other, &secret, &key, &certificate).await;
    assert!(matches!(wrong, Err(CatalogError::NotFound { .. })));
    let joined = world.server.join_node(&node, &secret, &key, &certificate).await.unwrap();
    assert_eq!(world.server.node_by_certificate(&certificate).await.unwrap(), Some(joined));
    let again =
        world.server.join_node(&node, &secret, &Digest::of(b"another key"), &Digest::of(b"second")).await;
    assert!(matches!(again, Err(CatalogError::NotFound { what: "join token" })));

    let expired = Digest::of(b"expired");
    world
        .server
        .create_join_token(
            &actor(),
            &NewJoinToken { secret_sha256: &expired, node: Some(&node), uses_max: 1, valid_for_seconds: 0 },
        )
        .await
        .unwrap();
    let late = world.server.join_node(&node, &expired, &key, &Digest::of(b"third")).await;
    assert!(matches!(late, Err(CatalogError::NotFound { .. })));
    assert_eq!(world.server.node_by_certificate(&Digest::of(b"third")).await.unwrap(), None);
}

#[tokio::test]
async fn the_newest_report_counts_and_convergence_follows() {
    let world = World::new().await;
    let node = NodeName::parse("node-a").unwrap();
    world
        .server
        .create_join_token(
            &actor(),
            &NewJoinToken {
                secret_sha256: &Digest::of(b"join"),
                node: Some(&node),
                uses_max: 1,
                valid_for_seconds: 600,
            },
        )
        .await
        .unwrap();
    let [secret, key, certificate] = ["join", "key", "certificate"].map(|text| Digest::of(text.as_bytes()));
    world.server.join_node(&node, &secret, &key, &certificate).await.unwrap();
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
    let build = mfaas_ident::BuildVersion::parse("0.3.0+1f2e3d4").unwrap();
    let of_build = world.server.record_report(&node, &report(boot, 2, 7), Some(&build)).await.unwrap();
    assert_eq!(of_build, RecordedReport::Kept, "the first of a boot");
    let record = async |report: Report| world.server.record_report(&node, &report, None).await.unwrap();
    assert_eq!(record(report(boot, 1, 6)).await, RecordedReport::Old, "an older one of this boot");
    let status = world.server.nodes().await.unwrap().remove(0);
    assert_eq!((status.reported(), status.desired, status.is_converged()), (Epoch(7), Epoch(7), true));
    assert_eq!(status.row.build, Some(build), "not that of the overtaken one");
    let rebooted = uuid::Uuid::new_v4();
    assert_eq!(record(report(rebooted, 1, 0)).await, RecordedReport::Kept, "a new boot counts anew");
    let status = world.server.nodes().await.unwrap().remove(0);
    assert_eq!(
        (status.reported(), status.row.build),
        (Epoch(0), None),
        "this boot is of a release that does not tell"
    );
    assert_eq!(record(report(rebooted, 2, 7)).await, RecordedReport::Kept, "it had that set before it was");
    world
        .damage(
            "INSERT INTO serving_sets (epoch, generation, digest, envelope, issued_at, expires_at)
             VALUES (8, 1, repeat('e', 64), 'f', now() - interval '30 seconds', now() + interval '1 hour')",
        )
        .await;
    let named = |sequence, digest: &str| {
        let set_digest = Some(digest.repeat(64).parse().unwrap());
        Report { set_digest, ..report(rebooted, sequence, 8) }
    };
    assert_eq!(
        record(named(3, "d")).await,
        RecordedReport::Kept,
        "a set of that epoch that nobody signed here"
    );
    assert_eq!(record(report(rebooted, 4, 7)).await, RecordedReport::Kept);
    let reached = record(named(5, "e")).await;
    let RecordedReport::Reached(after) = reached else { panic!("{reached:?}") };
    assert!((Duration::from_secs(30)..Duration::from_secs(60)).contains(&after), "{after:?}");
    assert_eq!(record(named(6, "e")).await, RecordedReport::Kept, "it was there before");
    world.damage("DELETE FROM serving_sets WHERE epoch = 8").await;

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

/// Bootstrap tokens: for as many nodes as they say, under names that nobody has.
#[tokio::test]
async fn a_join_token_for_any_name_joins_as_many_new_nodes_as_it_says() {
    let world = World::new().await;
    let name = |name: &str| NodeName::parse(name).unwrap();
    let (secret, other) = (Digest::of(b"three"), Digest::of(b"other"));
    let new = |secret_sha256, uses_max| NewJoinToken {
        secret_sha256,
        node: None,
        uses_max,
        valid_for_seconds: 600,
    };
    world.server.create_join_token(&actor(), &new(&secret, 2)).await.unwrap();
    world.server.create_join_token(&actor(), &new(&other, 1000)).await.unwrap();
    let join = async |node: &str, secret: &Digest, certificate: &[u8]| {
        let certificate = Digest::of(certificate);
        world.server.join_node(&name(node), secret, &certificate, &certificate).await
    };
    join("node-a", &secret, b"a").await.unwrap();
    let taken = join("node-a", &secret, b"thief").await.unwrap_err();
    assert!(matches!(taken, CatalogError::Conflict { .. }), "{taken}");
    assert_eq!(world.server.node_by_certificate(&Digest::of(b"thief")).await.unwrap(), None);
    join("node-b", &secret, b"b").await.expect("the refusal has not used the token");
    let over = join("node-c", &secret, b"c").await.unwrap_err();
    assert!(matches!(over, CatalogError::NotFound { what: "join token" }), "{over}");
    join("node-c", &other, b"c").await.unwrap();
    let (many, old) = (Digest::of(b"many"), Digest::of(b"old"));
    let too_many = world.server.create_join_token(&actor(), &new(&many, 1001)).await;
    assert!(too_many.is_err(), "the database bounds it too");
    // A server of the release before has used it: it counts nothing.
    world.server.create_join_token(&actor(), &new(&old, 1)).await.unwrap();
    world.damage("UPDATE join_tokens SET used_at = now() WHERE uses = 0 AND uses_max = 1").await;
    assert!(join("node-d", &old, b"d").await.is_err());
}

#[tokio::test]
async fn a_node_that_was_removed_is_nowhere_and_may_join_anew() {
    let world = World::new().await;
    let node = NodeName::parse("node-a").unwrap();
    let (secret, first, second) = (Digest::of(b"two"), Digest::of(b"first"), Digest::of(b"second"));
    let new = NewJoinToken { secret_sha256: &secret, node: None, uses_max: 2, valid_for_seconds: 600 };
    world.server.create_join_token(&actor(), &new).await.unwrap();
    world.server.join_node(&node, &secret, &first, &first).await.unwrap();
    world.server.set_availability(&actor(), &node, Availability::Draining).await.unwrap();
    world.server.remove_node(&actor(), &node).await.unwrap();
    assert_eq!(world.server.node_by_certificate(&first).await.unwrap(), None);
    // A server of the release before looks for the certificate alone.
    let still = "SELECT count(*) FROM nodes WHERE certificate_sha256 =
                 (SELECT detail ->> 'certificate' FROM audit_log WHERE action = 'node.removed')";
    assert_eq!(world.count(still).await, 0);
    assert!(world.server.nodes().await.unwrap().is_empty());
    assert_eq!(world.server.count_nodes(Availability::Draining).await.unwrap(), 0);
    for gone in [
        world.server.remove_node(&actor(), &node).await,
        world.server.directives(&node).await.map(drop),
        world.server.set_availability(&actor(), &node, Availability::Active).await,
    ] {
        assert!(matches!(gone, Err(CatalogError::NotFound { what: "node" })), "{gone:?}");
    }
    world.server.join_node(&node, &secret, &second, &second).await.unwrap();
    let found = world.server.nodes().await.unwrap();
    assert_eq!((found.len(), found[0].row.availability), (1, Availability::Active));
    assert_eq!(world.server.node_by_certificate(&first).await.unwrap(), None);
    assert!(world.server.node_by_certificate(&second).await.unwrap().is_some());
    let told = world
        .count("SELECT count(*) FROM audit_log WHERE action = 'node.removed' AND subject = 'node-a'")
        .await;
    assert_eq!(told, 1);
}

#[tokio::test]
async fn a_renewed_certificate_opens_beside_the_one_that_asked_for_it() {
    let world = World::new().await;
    let node = NodeName::parse("node-a").unwrap();
    let [secret, first, second, third, stranger] =
        ["secret", "first", "second", "third", "stranger"].map(|text| Digest::of(text.as_bytes()));
    let new = NewJoinToken { secret_sha256: &secret, node: Some(&node), uses_max: 2, valid_for_seconds: 600 };
    world.server.create_join_token(&actor(), &new).await.unwrap();
    world.server.join_node(&node, &secret, &first, &first).await.unwrap();
    let opens = async |digest: &Digest| {
        let found = world.server.node_by_certificate(digest).await.unwrap();
        found.is_some_and(|found| found.name == node && found.certificate_sha256 == *digest)
    };
    let conflict = |ended| matches!(ended, Err(CatalogError::Conflict { .. }));
    assert!(conflict(world.server.renew_node(&node, &stranger, &second).await), "it is not the node's");
    world.server.renew_node(&node, &first, &second).await.unwrap();
    assert!(opens(&first).await && opens(&second).await);
    assert!(conflict(world.server.renew_node(&node, &second, &third).await), "a moment ago");
    // The answer was lost, and the node asks again by the first one.
    let pause = "UPDATE nodes SET renewed_at = now() - interval '1 hour'";
    world.damage(pause).await;
    world.server.renew_node(&node, &first, &third).await.unwrap();
    assert!(opens(&first).await && opens(&third).await && !opens(&second).await);
    world.damage(pause).await;
    world.server.renew_node(&node, &third, &second).await.unwrap();
    assert!(!opens(&first).await && opens(&third).await && opens(&second).await);
    let told = world.count("SELECT count(*) FROM audit_log WHERE action = 'node.renewed'").await;
    assert_eq!(told, 3);
    world.server.join_node(&node, &secret, &stranger, &stranger).await.unwrap();
    assert!(opens(&stranger).await && !opens(&third).await && !opens(&second).await, "it has joined anew");
    world.damage(pause).await;
    world.server.renew_node(&node, &stranger, &first).await.unwrap();
    world.server.remove_node(&actor(), &node).await.unwrap();
    assert!(!opens(&stranger).await && !opens(&first).await, "it was removed");
}

/// A node asks again when the answer was lost; a thief of the token has another key.
#[tokio::test]
async fn a_join_that_is_asked_for_again_with_the_same_key_uses_nothing() {
    let world = World::new().await;
    let (node, other) = (NodeName::parse("node-a").unwrap(), NodeName::parse("node-b").unwrap());
    let [secret, later, key, thief, first, second, third] =
        ["secret", "later", "key", "thief", "first", "second", "third"]
            .map(|text| Digest::of(text.as_bytes()));
    let new = |secret_sha256| NewJoinToken { secret_sha256, node: None, uses_max: 1, valid_for_seconds: 600 };
    let token = world.server.create_join_token(&actor(), &new(&secret)).await.unwrap();
    world.server.create_join_token(&actor(), &new(&later)).await.unwrap();
    let unknown = |answer| matches!(answer, Err(CatalogError::NotFound { what: "join token" }));
    world.server.join_node(&node, &secret, &key, &first).await.unwrap();
    assert!(unknown(world.server.join_node(&node, &secret, &thief, &third).await), "another key");
    assert!(unknown(world.server.join_node(&other, &secret, &key, &third).await), "another name");
    let taken = world.server.join_node(&node, &later, &key, &third).await;
    assert!(matches!(taken, Err(CatalogError::Conflict { .. })), "another token: {taken:?}");
    let again = world.server.join_node(&node, &secret, &key, &second).await.unwrap();
    assert_eq!(world.server.node_by_certificate(&second).await.unwrap(), Some(again));
    assert_eq!(world.server.node_by_certificate(&first).await.unwrap(), None);
    assert_eq!(uses_of(&world, token.id).await, (1, None));
    world.server.remove_node(&actor(), &node).await.unwrap();
    assert!(unknown(world.server.join_node(&node, &secret, &key, &third).await), "it was removed");
}

#[tokio::test]
async fn a_join_token_that_was_revoked_joins_nobody_and_is_listed() {
    let world = World::new().await;
    let node = NodeName::parse("node-a").unwrap();
    let [secret, key, certificate] = ["secret", "key", "certificate"].map(|text| Digest::of(text.as_bytes()));
    let new = NewJoinToken { secret_sha256: &secret, node: None, uses_max: 3, valid_for_seconds: 600 };
    let made = world.server.create_join_token(&actor(), &new).await.unwrap();
    assert_eq!((made.uses, made.uses_max, made.created_by.as_str()), (0, 3, actor().as_str()));
    world.server.join_node(&node, &secret, &key, &certificate).await.unwrap();
    assert_eq!(uses_of(&world, made.id).await, (1, None));
    let revoked = world.server.revoke_join_token(&actor(), made.id).await.unwrap();
    let at = revoked.revoked_at.unwrap();
    assert!(revoked.expires_at <= at, "a server of the release before looks at the end alone: {revoked:?}");
    let other = NodeName::parse("node-b").unwrap();
    for (name, certificate) in [(&node, "again"), (&other, "b")] {
        let refused = world.server.join_node(name, &secret, &key, &Digest::of(certificate.as_bytes())).await;
        assert!(matches!(refused, Err(CatalogError::NotFound { what: "join token" })), "{refused:?}");
    }
    assert!(world.server.node_by_certificate(&certificate).await.unwrap().is_some(), "what joined stays");
    assert_eq!(world.server.revoke_join_token(&actor(), made.id).await.unwrap(), revoked, "repeatable");
    assert_eq!(uses_of(&world, made.id).await, (1, Some(at)));
    let told = "SELECT count(*) FROM audit_log WHERE action = 'join_token.revoked'";
    assert_eq!(world.count(told).await, 1);
    let nobody = world.server.revoke_join_token(&actor(), uuid::Uuid::nil()).await;
    assert!(matches!(nobody, Err(CatalogError::NotFound { what: "join token" })), "{nobody:?}");
}

/// What the list says of a token: its uses, and when it was revoked.
async fn uses_of(world: &World, id: uuid::Uuid) -> (u32, Option<chrono::DateTime<chrono::Utc>>) {
    let listed = world.server.join_tokens(100).await.unwrap();
    let token = listed.into_iter().find(|token| token.id == id).unwrap();
    (token.uses, token.revoked_at)
}
