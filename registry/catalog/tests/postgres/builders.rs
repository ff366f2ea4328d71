//! Who builds, what waits, how long it took, and who waits for a connection.

use std::time::Duration;

use mfaas_catalog::{BuildQueue, Catalog};
use mfaas_delivery::{Diagnostic, Event, Stage};
use mfaas_rules::{Finding, Layer, codes};

use crate::fixture::{World, claim};
use mfaas_test_postgres::Cluster;

#[tokio::test]
async fn builders_are_listed_with_their_role_and_their_trouble() {
    let world = World::new().await;
    world.builder.builder_is("one", None).await.unwrap();
    world.builder.builder_is("two", Some("/work: no room")).await.unwrap();
    let builders = world.server.builders().await.unwrap();
    let told: Vec<_> =
        builders.iter().map(|b| (b.instance.as_str(), b.role.as_str(), b.unwell.as_deref())).collect();
    assert_eq!(told, [("one", "mfaas_builder", None), ("two", "mfaas_builder", Some("/work: no room"))]);
    world.damage("UPDATE builders SET seen_at = now() - interval '31 seconds' WHERE instance = 'two'").await;
    assert_eq!(world.server.builders().await.unwrap().len(), 1, "it was not seen for half a minute");
}

#[tokio::test]
async fn the_agreement_is_what_the_signer_says_and_nobody_else() {
    let world = World::new().await;
    let agreement = async || world.server.builds_agreement().await.unwrap();
    assert_eq!(agreement().await, None, "no signer has started");
    let say = "UPDATE agreement SET builders = 2";
    for role in ["mfaas_server", "mfaas_builder", "mfaas_acquirer"] {
        let denied = sqlx::query(say).execute(&world.raw(role).await).await.unwrap_err();
        assert!(denied.to_string().contains("permission denied"), "{role}: {denied}");
    }
    let signer = world.raw("mfaas_signer").await;
    sqlx::query(say).execute(&signer).await.unwrap();
    assert_eq!(agreement().await, Some(2));
    let bounded = sqlx::query("UPDATE agreement SET builders = 5").execute(&signer).await.unwrap_err();
    assert!(bounded.to_string().contains("agreement_builders_bounded"), "{bounded}");
}

#[tokio::test]
async fn the_queue_tells_what_waits_since_when_and_for_whom() {
    let world = World::new().await;
    let empty = BuildQueue { queued: 0, running: 0, awaiting_agreement: 0, oldest_queued_seconds: 0 };
    assert_eq!(world.server.build_queue().await.unwrap(), empty);
    for key in ["one", "two", "three"] {
        world.upload("hello", key, key.as_bytes()).await;
    }
    world.damage("UPDATE builds SET queued_at = now() - interval '90 seconds'").await;
    let held = world.claim("one").await;
    let queue = world.server.build_queue().await.unwrap();
    assert_eq!(queue, BuildQueue { queued: 2, running: 1, oldest_queued_seconds: 90, ..empty });
    world.damage("UPDATE builds SET rounds = 1 WHERE lease_holder IS NULL").await;
    assert_eq!(world.server.build_queue().await.unwrap().awaiting_agreement, 2);
    world
        .damage(
            "UPDATE builds SET lease_expires_at = now() - interval '1 second' WHERE lease_holder IS NOT NULL",
        )
        .await;
    let queue = world.server.build_queue().await.unwrap();
    assert_eq!(
        (queue.queued, queue.running, queue.awaiting_agreement),
        (3, 0, 2),
        "a lost lease holds nothing"
    );
    drop(held);
}

#[tokio::test]
async fn stages_are_told_once_in_the_order_in_which_deployments_end() {
    let world = World::new().await;
    let begin = world.server.ended_until_now().await.unwrap();
    let finished = |stage, wall_ms| Event::finished(stage, wall_ms, 0);
    for key in ["one", "two"] {
        world.upload("hello", key, key.as_bytes()).await;
        let claimed = world.claim("one").await;
        let events =
            [finished(Stage::Unpack, 7), finished(Stage::Compile, 1_500), finished(Stage::Link, u64::MAX)];
        world.builder.append_events(&claimed.lease, &events).await.unwrap();
        let refusal = [Diagnostic::from(&Finding::new(codes::MF0301, Layer::Lexer, "no"))];
        world.builder.finish_refused(&claimed.lease, Stage::Audit, &refusal).await.unwrap();
    }
    let at_once = world.server.stage_times(begin, Duration::from_secs(30)).await.unwrap();
    assert_eq!((at_once.finished.len(), at_once.until), (0, begin), "an earlier one may still be on its way");
    let times = world.server.stage_times(begin, Duration::ZERO).await.unwrap();
    let each = [(Stage::Unpack, Duration::from_millis(7)), (Stage::Compile, Duration::from_millis(1_500))];
    let mut told = times.finished.clone();
    told.sort();
    assert_eq!(told, [each[0], each[0], each[1], each[1]], "what is no time of a stage is passed over");
    assert!(times.queued.len() == 2 && !times.is_cut, "{times:?}");
    let again = world.server.stage_times(times.until, Duration::ZERO).await.unwrap();
    assert_eq!((again.finished.len(), again.queued.len(), again.until), (0, 0, times.until));
}

#[tokio::test]
async fn who_finds_no_free_connection_is_counted_with_the_time() {
    let world = World::new().await;
    let url = Cluster::get().url(&world.database, "mfaas_server");
    let catalog = Catalog::connect(&url, 1).await.unwrap();
    catalog.builders().await.unwrap();
    // A connection goes back in the background.
    while catalog.pool_state().idle == 0 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let state = catalog.pool_state();
    assert_eq!((state.connections_max, state.waits, state.waited), (1, 0, Duration::ZERO));
    let held = catalog.hold_blobs().await.unwrap();
    let waiting = tokio::spawn({
        let catalog = catalog.clone();
        async move { catalog.builders().await.map(drop) }
    });
    let given_up = tokio::time::timeout(Duration::from_millis(100), catalog.build_queue());
    assert!(given_up.await.is_err());
    drop(held);
    waiting.await.unwrap().unwrap();
    let state = catalog.pool_state();
    assert_eq!(state.waits, 2, "also who was gone before there was one");
    assert!(state.waited >= Duration::from_millis(200), "{state:?}");
    assert_eq!(state.busy + state.idle, 1, "{state:?}");
}

#[tokio::test]
async fn a_deployment_that_is_built_has_not_ended() {
    let world = World::new().await;
    let begin = world.server.ended_until_now().await.unwrap();
    let deployment = world.upload("hello", "one", b"one").await;
    let claimed = world.claim("one").await;
    let given = claim(b"one");
    world.builder.finish_built(&claimed.lease, &given).await.unwrap();
    let before = world.server.stage_times(begin, Duration::ZERO).await.unwrap();
    assert!(before.queued.is_empty());
    world.admit(deployment.id, given.artifact).await;
    assert_eq!(world.server.stage_times(begin, Duration::ZERO).await.unwrap().queued.len(), 1);
}
