//! A database of the release before meets the migration that asks who votes.

use sqlx::{AssertSqlSafe, PgPool};

use crate::fixture::{LONG, World};
use mfaas_test_postgres::{Cluster, OWNER};

const BEFORE: [&str; 4] = [
    include_str!("../../../../migrations/0001_init.sql"),
    include_str!("../../../../migrations/0002_functions.sql"),
    include_str!("../../../../migrations/0003_grants.sql"),
    include_str!("../../../../migrations/0004_reviews.sql"),
];
const ROLES: &str = include_str!("../../../../migrations/0005_roles.sql");

/// An admin who named themselves, a reviewer without a name, and one with; both reviewers have said yes in an
/// open review.
const OLD: &str = "
    INSERT INTO tenants (name) VALUES ('acme');
    INSERT INTO tokens (tenant, name, secret_sha256, scopes, person) VALUES
        ('acme', 'First', 'a', '{read,deploy,review,admin}', NULL),
        ('acme', 'nameless', 'b', '{review}', NULL),
        ('acme', 'laptop', 'c', '{review}', 'alice'),
        ('acme', 'ci', 'd', '{deploy}', NULL);
    INSERT INTO crate_archives (checksum, name, version, bytes) VALUES (repeat('c', 64), 'x', '1.0.0', 1);
    INSERT INTO crate_reports (key, checksum, report) VALUES (repeat('d', 64), repeat('c', 64), '{}');
    INSERT INTO reviews (name, version, checksum, features, toolchain, report, people, rules_revision, judgement)
    VALUES ('x', '1.0.0', repeat('c', 64), '{}', '', repeat('d', 64), 2, '', '{}');
    INSERT INTO votes (review_id, person, approve, note, actor)
    SELECT id, person, true, 'x', 'x' FROM reviews, unnest(ARRAY['acme/nameless', 'alice']) AS person;";

async fn run(pool: &PgPool, sql: &'static str) {
    sqlx::raw_sql(sql).execute(pool).await.unwrap();
}

async fn column(pool: &PgPool, sql: &'static str) -> Vec<String> {
    sqlx::query_scalar(AssertSqlSafe(sql)).fetch_all(pool).await.unwrap()
}

#[tokio::test]
async fn nameless_tokens_of_before_keep_all_but_their_vote() {
    let cluster = Cluster::get();
    let pool = PgPool::connect(&cluster.url(&cluster.create_database(), OWNER)).await.unwrap();
    run(&pool, "CREATE TABLE _sqlx_migrations (version bigint)").await;
    for migration in BEFORE {
        run(&pool, migration).await;
    }
    run(&pool, OLD).await;
    run(&pool, ROLES).await;
    let vouched = column(&pool, "SELECT name || ' ' || vouched_by FROM tokens ORDER BY secret_sha256").await;
    assert_eq!(vouched, ["First nobody", "nameless nobody", "laptop admin", "ci nobody"]);
    assert_eq!(column(&pool, "SELECT person FROM votes").await, ["alice"], "who counts in an open review");
    run(&pool, "UPDATE tokens SET revoked_at = now()").await;
    // What the release before still does while both run: a person is named, or the token cannot vote.
    run(&pool, "INSERT INTO tokens (tenant, name, secret_sha256, scopes, person) VALUES ('acme', 'n', 'e', '{review}', 'bob')")
        .await;
    assert_eq!(column(&pool, "SELECT vouched_by FROM tokens WHERE name = 'n'").await, ["admin"]);
}

/// Nobody can read such a row, and the check that comes with the update lets nobody change it either: it would head the queue
/// for ever.
#[tokio::test]
async fn a_deployment_under_a_name_that_is_none_ends_with_the_update() {
    let world = World::new().await;
    world.upload("hello", "key-1", b"source").await;
    world.damage("ALTER TABLE deployments DROP CONSTRAINT deployments_function_known").await;
    world.damage("UPDATE deployments SET function = 'No Function'").await;
    assert!(world.builder.claim("one", LONG).await.is_err(), "it cannot be read");
    let update = include_str!("../../../../migrations/0021_names_and_times.sql");
    let (ends, _) = update.split_once("ALTER TABLE tenants").unwrap();
    let mut tx = world.sql.begin().await.unwrap();
    sqlx::raw_sql(ends).execute(&mut *tx).await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!(column(&world.sql, "SELECT state FROM deployments").await, ["failed"]);
    let last = "SELECT body ->> 'state' FROM deployment_events ORDER BY seq DESC LIMIT 1";
    assert_eq!(column(&world.sql, last).await, ["failed"]);
    assert!(world.builder.claim("one", LONG).await.unwrap().is_none());
}
