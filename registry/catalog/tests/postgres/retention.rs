//! What is old is forgotten, a batch at a time and on record; what is not, or still counts, stays, whoever asks.

use mfaas_catalog::{FORGET_ROWS_MAX, Retention, invariants};
use mfaas_delivery::Stage;
use mfaas_ident::Digest;
use sqlx::AssertSqlSafe;

use crate::fixture::{World, actor, function, tenant};

/// Ages a table's rows as their owner: triggers watch over programs.
async fn age(world: &World, table: &str, columns: &[&str], days: u32) {
    let moved: Vec<String> = columns.iter().map(|c| format!("{c} = {c} - interval '{days} days'")).collect();
    let aged = format!(
        "ALTER TABLE {table} DISABLE TRIGGER USER; UPDATE {table} SET {}; ALTER TABLE {table} ENABLE TRIGGER USER",
        moved.join(", ")
    );
    sqlx::raw_sql(AssertSqlSafe(aged)).execute(&world.sql).await.unwrap();
}

/// Two deployments that ended, with diagnostics and events, and one that waits in the queue.
async fn ended(world: &World) {
    let refused = world.upload("bad", "bad", b"bad").await;
    let claimed = world.claim("one").await;
    let finding = |message: &str| {
        let code = mfaas_rules::codes::MF0307;
        mfaas_delivery::Diagnostic::from(&mfaas_rules::Finding::new(code, mfaas_rules::Layer::Lexer, message))
    };
    let told = [finding("the first"), finding("the second")];
    world.builder.finish_refused(&claimed.lease, Stage::Audit, &told).await.unwrap();
    assert_eq!(world.server.deployment(&tenant(), refused.id).await.unwrap().diagnostics.len(), 2);
    world.admitted("hello", "good").await;
    world.upload("later", "later", b"later").await;
}

#[tokio::test]
async fn old_deployments_keep_their_last_event_and_the_first_error() {
    let world = World::new().await;
    ended(&world).await;
    assert_eq!(world.server.forget(&Retention::DEFAULT).await.unwrap(), 0, "nothing is old");
    age(&world, "deployments", &["updated_at"], 89).await;
    assert_eq!(world.server.forget(&Retention::DEFAULT).await.unwrap(), 0, "nothing is 90 days old");
    age(&world, "deployments", &["updated_at"], 2).await;
    let for_ever = Retention { events_days: 0, ..Retention::DEFAULT };
    assert_eq!(world.server.forget(&for_ever).await.unwrap(), 0, "0 days are for ever");

    let updated = "SELECT extract(epoch FROM max(updated_at))::bigint FROM deployments";
    let before = world.count(updated).await;
    assert_eq!(world.server.forget(&Retention::DEFAULT).await.unwrap(), 2);
    assert_eq!(world.server.forget(&Retention::DEFAULT).await.unwrap(), 0, "once");
    assert_eq!(world.count(updated).await, before, "forgetting is no news");
    let left = "SELECT count(*) FROM deployment_events e JOIN deployments d ON d.id = e.deployment_id
                WHERE d.forgotten_at IS NOT NULL";
    assert_eq!(world.count(left).await, 2);
    let queued = "SELECT count(*) FROM deployments d JOIN deployment_events e ON e.deployment_id = d.id
                  WHERE d.state = 'received'";
    assert_eq!(world.count(queued).await, 1, "what waits in the queue is not old, however long it waits");
    for deployment in world.server.deployments(&tenant(), Some(&function("bad")), None, 9).await.unwrap() {
        let messages: Vec<&str> = deployment.diagnostics.iter().map(|d| d.message.as_str()).collect();
        assert_eq!(messages, ["the first"]);
        let events = world.server.events_after(&tenant(), deployment.id, 0, 9).await.unwrap();
        assert_eq!(events.iter().map(|e| e.state).collect::<Vec<_>>(), [Some(deployment.state)]);
    }
    let record = "SELECT count(*) FROM audit_log WHERE action = 'retention.forgotten'
                  AND subject = 'events of deployments' AND detail = '{\"days\": 90, \"rows\": 2, \"tenants\": {\"acme\": 2}}'";
    assert_eq!(world.count(record).await, 1);
    let dir = tempfile::tempdir().unwrap();
    let blobs = mfaas_blobs::Blobs::open(&format!("file://{}", dir.path().display())).unwrap();
    blobs.mark().await.unwrap();
    let key = mfaas_attest::PrivateKey::generate().unwrap().public();
    let trust = mfaas_attest::Trust::of_key(mfaas_attest::Purpose::Artifact, key);
    let found = invariants::check(&world.server, &blobs, &trust).await.unwrap();
    assert!(found.iter().all(|violation| violation.invariant == "I3"), "{found:?}");
}

#[tokio::test]
async fn tokens_reports_lines_and_hours_go_when_they_are_old_and_unused() {
    let world = World::new().await;
    world.admitted("hello", "good").await;
    let voter = world.reviewer("alice").await;
    for revoked in ["bob", "carol"] {
        let token = world.reviewer(revoked).await;
        world.server.revoke_token(&actor(), None, token.id).await.unwrap();
    }
    world.reviewer("dora").await;
    world.server.revoke_token(&actor(), None, voter.id).await.unwrap();
    let node = crate::usage::joined(&world, "one").await;
    let votes = format!(
        "INSERT INTO crate_archives VALUES (repeat('a', 64), 'x', '1.0.0', 1);
         INSERT INTO crate_reports VALUES (repeat('b', 64), repeat('a', 64), '{{}}');
         ALTER TABLE votes DISABLE TRIGGER USER;
         INSERT INTO reviews (name, version, checksum, features, toolchain, report, people, rules_revision, judgement)
         VALUES ('x', '1.0.0', repeat('a', 64), '{{}}', 't', repeat('b', 64), 1, 'r', '{{}}');
         INSERT INTO votes (review_id, person, approve, note, actor, token_id)
         SELECT id, 'alice', true, 'n', 'a', '{}' FROM reviews;
         INSERT INTO node_reports (node, boot, sequence, epoch, body) VALUES ('{node}', gen_random_uuid(), 1, 0, '{{}}');
         INSERT INTO function_logs (tenant, function, version, node, boot, line, at, level, text)
         SELECT 'acme', 'hello', 1, 'one', gen_random_uuid(), 1, now(), 'info', 'text' FROM generate_series(1, 3);
         INSERT INTO usage_hours SELECT date_trunc('hour', now(), 'UTC') - n * interval '1 hour', 'acme', 'hello', 1,
             1, 1, 1, 1, 1, 1 FROM generate_series(1, 1500) n",
        voter.id
    );
    sqlx::raw_sql(AssertSqlSafe(votes)).execute(&world.sql).await.unwrap();
    assert_eq!(world.server.forget(&Retention::DEFAULT).await.unwrap(), 0, "nothing is old");
    age(&world, "tokens", &["revoked_at", "expires_at"], 91).await;
    age(&world, "join_tokens", &["expires_at"], 91).await;
    age(&world, "node_reports", &["at"], 91).await;
    age(&world, "builders", &["seen_at"], 91).await;
    age(&world, "function_logs", &["at"], 91).await;
    age(&world, "usage_hours", &["hour"], 401).await;

    let batch = u64::from(FORGET_ROWS_MAX);
    let others = 2 + 1 + 1 + 1 + 3;
    assert_eq!(world.server.forget(&Retention::DEFAULT).await.unwrap(), others + batch, "a batch of hours");
    assert_eq!(world.server.forget(&Retention::DEFAULT).await.unwrap(), 500);
    assert_eq!(world.server.forget(&Retention::DEFAULT).await.unwrap(), 0);
    let left = "SELECT count(*) FROM tokens WHERE person IN ('alice', 'dora')";
    assert_eq!(world.count(left).await, 2, "who voted, and who has not ended");
    assert_eq!(world.count("SELECT count(*) FROM tokens").await, 2);
    assert_eq!(world.count("SELECT count(*) FROM nodes").await, 1);
}

#[tokio::test]
async fn a_report_of_an_unknown_epoch_stays_and_a_revocation_as_long_as_its_toolchain_counts() {
    let world = World::new().await;
    world.admitted("hello", "good").await;
    let artifact = Digest::of(b"good");
    world.server.revoke_artifact(&actor(), &artifact, "it is evil").await.unwrap();
    world
        .server
        .revoke_artifact(&actor(), &Digest::of(b"never seen"), "so that it never comes")
        .await
        .unwrap();
    let node = crate::usage::joined(&world, "one").await;
    let setup = format!(
        "INSERT INTO node_reports (node, boot, sequence, epoch, body) VALUES ('{node}', gen_random_uuid(), 1, 7, '{{}}');
         INSERT INTO toolchains (id, accepted, decided_by) VALUES (repeat('a', 64), true, 'seed')"
    );
    sqlx::raw_sql(AssertSqlSafe(setup)).execute(&world.sql).await.unwrap();
    age(&world, "node_reports", &["at"], 91).await;
    age(&world, "revocations", &["revoked_at"], 401).await;
    let forget = async || world.server.forget(&Retention::DEFAULT).await.unwrap();
    assert_eq!(forget().await, 0, "a version can be called by it");
    world.server.delete_function(&actor(), &tenant(), &function("hello")).await.unwrap();
    assert_eq!(forget().await, 0, "the same source would give it again");
    world.damage("UPDATE toolchains SET accepted = false").await;
    assert_eq!(forget().await, 1);
    assert_eq!(
        world.count("SELECT count(*) FROM revocations").await,
        1,
        "nobody knows who could make the other"
    );
    assert_eq!(
        world.count("SELECT count(*) FROM node_reports").await,
        1,
        "it names an epoch that nobody signed here"
    );
}

/// The server's role, with statements of whoever took it over.
#[tokio::test]
async fn the_role_deletes_nothing_that_is_young_or_counts() {
    let world = World::new().await;
    ended(&world).await;
    world.server.revoke_artifact(&actor(), &Digest::of(b"good"), "it is evil").await.unwrap();
    let token = world.reviewer("alice").await;
    world.server.revoke_token(&actor(), None, token.id).await.unwrap();
    let node = crate::usage::joined(&world, "one").await;
    world
        .server
        .create_join_token(
            &actor(),
            &mfaas_catalog::NewJoinToken {
                secret_sha256: &Digest::of(b"another"),
                node: Some(&node),
                uses_max: 1,
                valid_for_seconds: 600,
            },
        )
        .await
        .unwrap();
    let reported = format!(
        "INSERT INTO node_reports (node, boot, sequence, epoch, body) VALUES ('{node}', gen_random_uuid(), 1, 7, '{{}}')"
    );
    sqlx::raw_sql(AssertSqlSafe(reported)).execute(&world.sql).await.unwrap();
    let hour = "INSERT INTO usage_hours SELECT date_trunc('hour', now(), 'UTC'), 'acme', 'hello', 1, 1, 1, 1, 1, 1, 1";
    sqlx::query(hour).execute(&world.sql).await.unwrap();
    let server = world.raw("mfaas_server").await;
    // Whoever may not delete what is young says that it is old.
    for backdated in [
        "UPDATE tokens SET revoked_at = '2000-01-01' WHERE revoked_at IS NOT NULL",
        "UPDATE tokens SET revoked_at = '2000-01-01'",
        "UPDATE node_reports SET at = '2000-01-01', epoch = 0",
        "UPDATE deployments SET updated_at = '2000-01-01'",
    ] {
        sqlx::query(backdated).execute(&server).await.unwrap();
    }
    for (statement, constraint) in [
        ("DELETE FROM usage_hours", "usage_hours_deleted_when_old"),
        (
            "UPDATE deployments SET forgotten_at = now() WHERE state = 'refused'",
            "deployments_forgotten_when_old",
        ),
        (
            "UPDATE deployments SET forgotten_at = now() WHERE state = 'received'",
            "deployments_forgotten_when_old",
        ),
        ("DELETE FROM deployment_events", "deployment_events_deleted_when_old"),
        ("DELETE FROM tokens", "tokens_deleted_when_old"),
        ("DELETE FROM join_tokens", "join_tokens_deleted_when_old"),
        ("DELETE FROM node_reports", "node_reports_deleted_when_old"),
        ("DELETE FROM builders", "builders_deleted_when_old"),
        ("DELETE FROM revocations", "revocations_deleted_when_old"),
    ] {
        let error = sqlx::query(statement).execute(&server).await.unwrap_err();
        let found = error.as_database_error().and_then(|e| e.constraint().map(str::to_owned));
        assert_eq!(found.as_deref(), Some(constraint), "{statement}: {error}");
    }
    // What was revoked stays revoked.
    sqlx::query("UPDATE tokens SET revoked_at = NULL").execute(&server).await.unwrap();
    assert_eq!(world.count("SELECT count(*) FROM tokens WHERE revoked_at IS NULL").await, 0);
    age(&world, "revocations", &["revoked_at"], 401).await;
    age(&world, "deployments", &["updated_at"], 2).await;
    let marked = "UPDATE deployments SET forgotten_at = now() WHERE state = 'refused'";
    sqlx::query(marked).execute(&server).await.unwrap();
    for statement in ["DELETE FROM revocations", "DELETE FROM deployment_events"] {
        sqlx::query(statement).execute(&server).await.expect_err(statement);
    }
}
