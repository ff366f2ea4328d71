//! Leases: expiry, zombies, retries, endings.

use std::time::Duration;

use mfaas_catalog::CatalogError;
use mfaas_delivery::{DeploymentState, Diagnostic, Event, EventKind, Level, Stage};
use mfaas_ident::{CrateName, TenantName};
use mfaas_rules::limits::{POSTPONED_SECONDS_MAX, POSTPONED_SECONDS_MIN};
use mfaas_rules::{CrateRequest, Finding, Layer, POLICY_REVISION, UndecidedCrate, codes};

use crate::fixture::{LONG, World, claim, tenant};

/// Ends every lease, as if its holder had been silent for all of it.
async fn lapse(world: &World) {
    world.damage("UPDATE builds SET lease_expires_at = now() - interval '1 second'").await;
}

#[tokio::test]
async fn a_build_is_claimed_once_and_built() {
    let world = World::new().await;
    let deployment = world.upload("hello", "key-1", b"source").await;
    let claimed = world.claim("one").await;
    assert_eq!((claimed.attempt, claimed.source_digest), (1, deployment.source_digest));
    assert!(world.builder.claim("two", LONG).await.unwrap().is_none());
    world.builder.heartbeat(&claimed.lease, LONG).await.unwrap();
    let events = [Event::started(Stage::Unpack), Event::finished(Stage::Unpack, 3, 2)];
    world.builder.append_events(&claimed.lease, &events).await.unwrap();
    world.builder.finish_built(&claimed.lease, &claim(b"so")).await.unwrap();
    let now = world.server.deployment(&tenant(), deployment.id).await.unwrap();
    assert_eq!(now.state, DeploymentState::Built);
    let events = world.server.events_after(&tenant(), deployment.id, 0, 100).await.unwrap();
    let told: Vec<_> = events.iter().map(|e| (e.seq, e.stage, e.kind)).collect();
    assert_eq!(
        told,
        [
            (1, Stage::Receive, EventKind::State),
            (2, Stage::Claim, EventKind::State),
            (3, Stage::Unpack, EventKind::Started),
            (4, Stage::Unpack, EventKind::Finished),
            (5, Stage::Inspect, EventKind::State),
        ]
    );
    assert_eq!(events[3].wall_ms, Some(3));
}

#[tokio::test]
async fn a_zombie_commits_nothing() {
    let world = World::new().await;
    let deployment = world.upload("hello", "key-1", b"source").await;
    let zombie = world.claim("zombie").await;
    lapse(&world).await;
    // The zombie is the only live instance besides this one, and it lost its lease.
    let heir = world.claim("heir").await;
    assert_eq!((heir.attempt, heir.lease.deployment()), (2, deployment.id));
    assert!(heir.lease.token() > zombie.lease.token());

    let fenced =
        |result: Result<(), CatalogError>| assert!(matches!(result, Err(CatalogError::Fenced)), "{result:?}");
    fenced(world.builder.heartbeat(&zombie.lease, LONG).await);
    fenced(world.builder.append_events(&zombie.lease, &[Event::started(Stage::Compile)]).await);
    fenced(world.builder.finish_built(&zombie.lease, &claim(b"evil")).await);
    fenced(world.builder.finish_refused(&zombie.lease, Stage::Audit, &[diagnostic()]).await);
    fenced(world.builder.finish_waiting(&zombie.lease, &[diagnostic()], &[request()]).await);
    fenced(world.builder.finish_failed(&zombie.lease, Stage::Compile, &[diagnostic()]).await);
    fenced(world.builder.release(&zombie.lease).await);
    fenced(world.builder.give_up_attempt(&zombie.lease).await);
    fenced(world.builder.postpone(&zombie.lease, "a disk").await.map(drop));

    world.builder.finish_built(&heir.lease, &claim(b"good")).await.unwrap();
    fenced(world.builder.finish_built(&heir.lease, &claim(b"again")).await);
    assert_eq!(world.count("SELECT count(*) FROM builds WHERE committed_token = fencing_token").await, 1);
    assert_eq!(world.count("SELECT count(*) FROM crate_requests").await, 0);
}

#[tokio::test]
async fn a_sleeper_whose_lease_nobody_took_may_still_commit() {
    let world = World::new().await;
    world.upload("hello", "key-1", b"source").await;
    let sleeper = world.claim("one").await;
    lapse(&world).await;
    world.builder.finish_built(&sleeper.lease, &claim(b"so")).await.unwrap();
}

#[tokio::test]
async fn three_lost_attempts_end_in_a_dead_letter() {
    let world = World::new().await;
    let deployment = world.upload("hello", "key-1", b"source").await;
    for attempt in 1..=3 {
        let lost = world.claim(&format!("builder-{attempt}")).await;
        assert_eq!(lost.attempt, attempt);
        lapse(&world).await;
    }
    assert!(world.builder.claim("builder-4", LONG).await.unwrap().is_none());
    let now = world.server.deployment(&tenant(), deployment.id).await.unwrap();
    assert_eq!((now.state, now.diagnostics[0].code), (DeploymentState::Failed, codes::MF0410));
    let last = world.server.events_after(&tenant(), deployment.id, 0, 100).await.unwrap().pop().unwrap();
    assert_eq!((last.kind, last.state), (EventKind::State, Some(DeploymentState::Failed)));
}

#[tokio::test]
async fn a_lost_build_prefers_another_live_instance() {
    let world = World::new().await;
    world.upload("hello", "key-1", b"source").await;
    world.claim("one").await;
    assert!(world.builder.claim("two", LONG).await.unwrap().is_none(), "it is held");
    lapse(&world).await;
    assert!(world.builder.claim("one", LONG).await.unwrap().is_none(), "two is alive and comes first");
    world.builder.builder_gone("two").await.unwrap();
    assert_eq!(world.claim("one").await.attempt, 2, "nobody else is left");
}

#[tokio::test]
async fn a_released_build_costs_no_attempt_and_a_given_up_one_does() {
    let world = World::new().await;
    world.upload("hello", "key-1", b"source").await;
    let first = world.claim("one").await;
    world.builder.release(&first.lease).await.unwrap();
    let second = world.claim("one").await;
    assert_eq!(second.attempt, 1);
    assert!(second.lease.token() > first.lease.token());
    world.builder.give_up_attempt(&second.lease).await.unwrap();
    assert_eq!(world.claim("one").await.attempt, 2);
}

/// A machine that fails for a day costs a deployment time, and nothing else.
#[tokio::test]
async fn a_fault_of_ours_costs_no_attempt_and_a_pause_that_grows() {
    let world = World::new().await;
    let deployment = world.upload("hello", "key-1", b"source").await;
    for round in 0..12_i32 {
        let claimed = world.claim("one").await;
        assert_eq!(claimed.attempt, 1, "round {round}");
        let cause = "the blob store file:///blobs: No space left on device (os error 28)";
        let pause = world.builder.postpone(&claimed.lease, cause).await.unwrap().as_secs_f64();
        let most = (f64::from(POSTPONED_SECONDS_MIN) * 2_f64.powi(round)).min(POSTPONED_SECONDS_MAX.into());
        assert!((most / 2.0..=most).contains(&pause), "round {round}: {pause} of {most} s");
        let again = world.builder.postpone(&claimed.lease, cause).await;
        assert!(matches!(again, Err(CatalogError::Fenced)), "it was given back: {again:?}");
        // However long this test takes.
        world.damage("UPDATE builds SET not_before = not_before + interval '1 hour'").await;
        assert!(world.builder.claim("one", LONG).await.unwrap().is_none(), "round {round}: it waits");
        assert_eq!(world.server.count_postponed_builds().await.unwrap(), 1);
        let now = world.server.deployment(&tenant(), deployment.id).await.unwrap();
        let told: Vec<_> = now.diagnostics.iter().map(|d| (d.code, d.level)).collect();
        assert_eq!((now.state, told), (DeploymentState::Received, vec![(codes::MF0413, Level::Warning)]));
        assert!(!now.diagnostics[0].message.contains("blob"), "the fault is not the tenant's to know");
        world.damage("UPDATE builds SET not_before = now()").await;
    }
    let events = world.server.events_after(&tenant(), deployment.id, 0, 100).await.unwrap();
    assert_eq!(events.iter().filter(|event| event.kind == EventKind::Diagnostic).count(), 1, "told once");
    let claimed = world.claim("one").await;
    let now = world.server.deployment(&tenant(), deployment.id).await.unwrap();
    assert_eq!((now.state, now.diagnostics), (DeploymentState::Building, vec![]));
    assert_eq!(world.server.count_postponed_builds().await.unwrap(), 0);
    world.builder.finish_built(&claimed.lease, &claim(b"so")).await.unwrap();
}

#[tokio::test]
async fn two_builds_that_are_put_back_together_do_not_come_back_together() {
    let world = World::new().await;
    for number in 0..8 {
        world.upload("hello", &format!("key-{number}"), b"source").await;
    }
    let mut pauses = std::collections::BTreeSet::new();
    for _ in 0..8 {
        let claimed = world.claim("one").await;
        pauses.insert(world.builder.postpone(&claimed.lease, "a disk").await.unwrap());
    }
    assert!(pauses.len() > 1, "{pauses:?}");
}

#[tokio::test]
async fn a_postponed_build_holds_nobody_up_and_not_for_ever() {
    let world = World::new().await;
    world.upload("hello", "key-1", b"source").await;
    let later = world.upload("hello", "key-2", b"source").await;
    let claimed = world.claim("one").await;
    world.builder.postpone(&claimed.lease, "a disk").await.unwrap();
    world.damage("UPDATE builds SET not_before = not_before + interval '1 hour'").await;
    assert_eq!(world.claim("one").await.lease.deployment(), later.id);
    // A builder that was taken over keeps no build from the others for longer than a lease lasts.
    let builder = world.raw("mfaas_builder").await;
    let long = "UPDATE builds SET not_before = now() + interval '2 hours'";
    let error = sqlx::query(long).execute(&builder).await.unwrap_err();
    assert!(error.to_string().contains("an hour at most"), "{error}");
}

#[tokio::test]
async fn an_unwell_builder_is_counted_as_such_and_nothing_is_kept_for_it() {
    let world = World::new().await;
    world.upload("hello", "key-1", b"source").await;
    world.claim("one").await;
    world.builder.builder_is("two", Some("/work: no room")).await.unwrap();
    let count = async |well: bool| {
        let builders = world.server.builders().await.unwrap();
        builders.iter().filter(|builder| builder.unwell.is_none() == well).count()
    };
    assert_eq!((count(true).await, count(false).await), (1, 1));
    lapse(&world).await;
    assert_eq!(world.claim("one").await.attempt, 2, "two is alive, and takes none");
    world.builder.builder_is("two", None).await.unwrap();
    assert_eq!((count(true).await, count(false).await), (2, 0));
}

/// What the signer wants built by other rules goes to a builder that has them, and after a while to any.
#[tokio::test]
async fn a_rebuild_is_kept_for_a_builder_of_the_same_rules_for_a_while() {
    let world = World::new().await;
    let deployment = world.upload("hello", "key-1", b"source").await;
    let built = async |by: &str| {
        let claimed = world.claim(by).await;
        world.builder.finish_built(&claimed.lease, &claim(b"so")).await.unwrap();
        claimed
    };
    let early = rebuild(&world, POLICY_REVISION).await.unwrap_err();
    assert!(early.to_string().contains("a signer changes no build"), "it is not built: {early}");
    let first = built("one").await;
    assert_eq!(first.attempt, 1);
    rebuild(&world, "of-tomorrow").await.unwrap();
    assert_eq!(
        world.count("SELECT count(*) FROM builds WHERE claim IS NULL AND finished_at IS NULL").await,
        1
    );
    assert!(world.builder.claim("one", LONG).await.unwrap().is_none(), "it has the rules of today");
    world.damage("UPDATE builds SET not_before = NULL, queued_at = now() - interval '9 minutes'").await;
    assert!(world.builder.claim("one", LONG).await.unwrap().is_none(), "the same after a review");
    world.damage("UPDATE builds SET queued_at = now() - interval '10 minutes'").await;
    let second = built("one").await;
    assert_eq!((second.lease.deployment(), second.attempt), (deployment.id, 1));
    assert!(second.lease.token() > first.lease.token());
    let again = rebuild(&world, "of-tomorrow").await.unwrap_err();
    assert!(again.to_string().contains("has ended"), "once for each revision: {again}");
    rebuild(&world, POLICY_REVISION).await.unwrap();
    built("one").await;
}

/// What the signer's transaction does.
async fn rebuild(world: &World, revision: &str) -> Result<(), sqlx::Error> {
    let mut tx = world.raw("mfaas_signer").await.begin().await?;
    sqlx::query("UPDATE builds SET rebuild_for = $1").bind(revision).execute(&mut *tx).await?;
    sqlx::query("UPDATE deployments SET state = 'received'").execute(&mut *tx).await?;
    tx.commit().await
}

/// A database without room or time is not a statement that is wrong.
#[tokio::test]
async fn a_database_that_is_short_of_something_may_be_asked_again() {
    let world = World::new().await;
    for (code, is_transient) in [
        ("08006", true),
        ("53100", true),
        ("53200", true),
        ("53300", true),
        ("57014", true),
        ("57P01", true),
        ("58030", true),
        ("40001", true),
        ("23514", false),
        ("22P02", false),
        ("42501", false),
    ] {
        let raise = format!("DO $$ BEGIN RAISE EXCEPTION 'x' USING ERRCODE = '{code}'; END $$");
        let error = sqlx::raw_sql(sqlx::AssertSqlSafe(raise)).execute(&world.sql).await.unwrap_err();
        assert_eq!(CatalogError::from(error).is_transient(), is_transient, "{code}");
    }
}

#[tokio::test]
async fn a_refusal_is_final_and_tells_why() {
    let world = World::new().await;
    let deployment = world.upload("hello", "key-1", b"source").await;
    let claimed = world.claim("one").await;
    world.builder.finish_refused(&claimed.lease, Stage::Audit, &[diagnostic()]).await.unwrap();
    let now = world.server.deployment(&tenant(), deployment.id).await.unwrap();
    assert_eq!((now.state, now.diagnostics), (DeploymentState::Refused, vec![diagnostic()]));
    assert!(world.builder.claim("one", LONG).await.unwrap().is_none());
    assert_eq!(world.count("SELECT count(*) FROM functions").await, 0);
}

#[tokio::test]
async fn a_waiting_deployment_goes_on_after_an_import() {
    let world = World::new().await;
    let deployment = world.upload("hello", "key-1", b"source").await;
    let claimed = world.claim("one").await;
    world.builder.finish_waiting(&claimed.lease, &[diagnostic()], &[request()]).await.unwrap();
    let waiting = world.server.unanswered_requests(Some(&tenant()), 10).await.unwrap();
    assert_eq!((waiting[0].deployment, waiting[0].name.as_str()), (Some(deployment.id), "left-pad"));
    assert_eq!(waiting[0].code, codes::MF0204);
    crate::roles::import(&world).await;
    assert!(world.server.unanswered_requests(None, 10).await.unwrap().is_empty());
    let again = world.claim("one").await;
    assert_eq!((again.lease.deployment(), again.attempt), (deployment.id, 1));
    world.builder.finish_waiting(&again.lease, &[diagnostic()], &[request()]).await.unwrap();
    assert_eq!(world.server.unanswered_requests(None, 10).await.unwrap().len(), 1, "it asks again");
    world.damage("DELETE FROM crates").await;
    crate::roles::import(&world).await;
    let again = world.claim("one").await;
    world.builder.finish_built(&again.lease, &claim(b"so")).await.unwrap();
}

/// A tenant that floods the queue waits for itself: whoever comes later with one deployment goes ahead of the rest.
#[tokio::test]
async fn a_lone_deployment_goes_ahead_of_another_tenants_flood() {
    let world = World::new().await;
    for number in 0..20 {
        world.upload("flood", &format!("flood-{number}"), b"source").await;
    }
    let running = world.claim("one").await;
    assert_eq!(running.tenant, tenant());
    let (lone, third) = (TenantName::parse("lone").unwrap(), TenantName::parse("third").unwrap());
    let first = world.upload_of(&lone, "hello", "lone-1", b"source").await;
    let second = world.upload_of(&lone, "hello", "lone-2", b"source").await;
    let other = world.upload_of(&third, "hello", "third-1", b"source").await;

    let claimed = world.claim("two").await;
    assert_eq!(claimed.lease.deployment(), first.id, "nothing of it runs, and its oldest comes first");
    let claimed = world.claim("two").await;
    assert_eq!(claimed.lease.deployment(), other.id, "each of the others has one running");
    world.builder.finish_built(&claimed.lease, &claim(b"third")).await.unwrap();
    let fourth = world.claim("two").await;
    assert_eq!(fourth.tenant, tenant(), "one each runs: whose last turn was longest ago");
    assert_eq!(world.claim("two").await.lease.deployment(), second.id, "two against one");
    for lease in [&running.lease, &fourth.lease] {
        world.builder.finish_built(lease, &claim(b"flood")).await.unwrap();
    }
    assert_eq!(world.claim("two").await.tenant, tenant(), "alone in the queue it has every turn");
}

#[tokio::test]
async fn places_in_the_queue_are_those_that_claims_come_to() {
    let world = World::new().await;
    let mut all = Vec::new();
    let [lone, third, fourth] = ["lone", "third", "fourth"].map(|name| TenantName::parse(name).unwrap());
    for number in 0..4 {
        all.push(world.upload("flood", &format!("flood-{number}"), b"source").await.id);
    }
    // One of the flood runs, and one of `third`, whose turn was later.
    world.claim("one").await;
    all.push(world.upload_of(&third, "hello", "third-1", b"source").await.id);
    world.claim("one").await;
    for (tenant, key) in [(&third, "third-2"), (&lone, "lone-1"), (&lone, "lone-2"), (&fourth, "fourth-1")] {
        all.push(world.upload_of(tenant, "hello", key, b"source").await.id);
    }
    // Who is put off is in nobody's way, and has no place.
    let put_off = world.upload_of(&fourth, "hello", "fourth-2", b"source").await.id;
    world.damage("UPDATE builds SET not_before = now() + interval '1 hour' WHERE queued_at = (SELECT max(queued_at) FROM builds)").await;
    all.push(put_off);
    let mut places: Vec<_> = world.server.queue_places(&all).await.unwrap().into_iter().collect();
    places.sort_by_key(|(_, place)| place.place);
    let numbers: Vec<_> = places.iter().map(|(_, place)| (place.place, place.of, place.is_cut)).collect();
    assert_eq!(numbers, (1..=7).map(|place| (place, 7, false)).collect::<Vec<_>>());
    let mut claimed = Vec::new();
    while let Some(build) = world.builder.claim("one", LONG).await.unwrap() {
        claimed.push(build.lease.deployment());
    }
    assert_eq!(claimed, places.into_iter().map(|(id, _)| id).collect::<Vec<_>>());
    assert!(world.server.queue_places(&all).await.unwrap().is_empty(), "what is worked on has no place");
}

/// Beside a long history, and with thousands waiting, a claim walks from tenant to tenant, and through nobody's queue.
/// What is counted is what the database did: rows it looked at, and tables it read from end to end.
#[tokio::test]
async fn a_claim_looks_at_few_rows_of_a_long_queue() {
    let world = World::new().await;
    world.upload("hello", "key-0", b"source").await;
    // Without triggers, which would take a minute: every column is as they would leave it.
    sqlx::raw_sql(
        "SET session_replication_role = replica;
         INSERT INTO tenants (name) SELECT 'tenant-' || n FROM generate_series(1, 20) n;
         WITH made AS (
             INSERT INTO deployments (tenant, function, idempotency_key, source_digest, source_bytes, submitted_by, person, state)
             SELECT 'tenant-' || (1 + n % 20), 'flood', 'key-' || n, repeat('a', 64), 1, 'test', 'test',
                    CASE WHEN n <= 5000 THEN 'received' ELSE 'refused' END
             FROM generate_series(1, 125000) n RETURNING id, tenant, state)
         INSERT INTO builds (deployment_id, tenant, attempt, fencing_token, committed_token, started_at, finished_at)
         SELECT id, tenant, ended::int, t, t, e, e FROM (
             SELECT id, tenant, state = 'refused' AS ended, CASE WHEN state = 'refused' THEN 0 END AS t,
                    CASE WHEN state = 'refused' THEN now() END AS e FROM made) made;
         SET session_replication_role = origin;
         ANALYZE builds; ANALYZE deployments",
    )
    .execute(&world.sql)
    .await
    .unwrap();
    let read = "SELECT (coalesce(idx_tup_fetch, 0) + seq_tup_read)::bigint FROM pg_stat_user_tables
                WHERE relname = 'builds'";
    let scans =
        "SELECT sum(seq_scan)::bigint FROM pg_stat_user_tables WHERE relname IN ('builds', 'deployments')";
    let (rows_before, scans_before) = (world.count(read).await, world.count(scans).await);
    let claims = 20;
    for number in 1..=claims {
        world.claim("one").await;
        // What goes on beside it is no slower for a long history either.
        world.upload("hello", &format!("key-{number}"), b"source").await;
        world.server.count_postponed_builds().await.unwrap();
    }
    // A connection tells its numbers when it ends, at the latest.
    world.builder.close().await;
    world.server.close().await;
    let open = "SELECT count(*) FROM pg_stat_activity
                WHERE datname = current_database() AND usename IN ('mfaas_builder', 'mfaas_server')";
    while world.count(open).await > 0 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let rows = (world.count(read).await - rows_before) / claims;
    assert!((1..500).contains(&rows), "a claim and an upload have looked at {rows} rows of 125001");
    let scanned = world.count(scans).await - scans_before;
    assert_eq!(scanned, 0, "a claim or an upload has read a table from end to end");
}

fn diagnostic() -> Diagnostic {
    Diagnostic::from(&Finding::new(codes::MF0204, Layer::Manifest, "left-pad is not on the allowlist"))
}

fn request() -> UndecidedCrate {
    let request = CrateRequest {
        name: CrateName::parse("left-pad").unwrap(),
        requirement: "^1".parse().unwrap(),
        features: vec!["std".to_owned()],
        default_features: true,
    };
    UndecidedCrate { request, code: codes::MF0204 }
}
