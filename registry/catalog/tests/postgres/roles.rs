//! What each role may not do, and the allowlist that only the server may change.

use mfaas_catalog::{AllowlistSeed, CatalogError};
use mfaas_ident::{CrateName, Digest, ToolchainId};
use mfaas_rules::{AllowedCrate, AllowlistSnapshot, CrateStatus};

use crate::fixture::{World, actor, claim, tenant};

/// Statements that each role is denied by grants alone.
const DENIED: &[(&str, &str)] = &[
    ("mfaas_builder", "INSERT INTO versions (tenant, function, version) VALUES ('acme', 'hello', 1)"),
    ("mfaas_builder", "INSERT INTO statements (digest, artifact, envelope) VALUES ('a', 'b', 'c')"),
    ("mfaas_builder", "INSERT INTO artifacts (digest, bytes, toolchain) VALUES (repeat('a', 64), 1, 'x')"),
    ("mfaas_builder", "INSERT INTO aliases (tenant, function, alias, version) VALUES ('a', 'b', 'live', 1)"),
    ("mfaas_builder", "UPDATE crates SET status = 'allowed'"),
    ("mfaas_builder", "INSERT INTO crates (name) VALUES ('evil')"),
    ("mfaas_builder", "UPDATE policy_state SET version = 1"),
    ("mfaas_builder", "INSERT INTO toolchains (id, accepted, decided_by) VALUES ('x', true, 'me')"),
    ("mfaas_builder", "SELECT * FROM tokens"),
    ("mfaas_builder", "SELECT * FROM join_tokens"),
    ("mfaas_builder", "UPDATE deployments SET source_digest = repeat('a', 64)"),
    ("mfaas_builder", "UPDATE deployments SET version = 1"),
    ("mfaas_builder", "INSERT INTO deployments (tenant) VALUES ('acme')"),
    ("mfaas_builder", "INSERT INTO audit_log (seq) VALUES (1)"),
    ("mfaas_builder", "UPDATE audit_head SET seq = 0"),
    ("mfaas_builder", "SELECT setval('fencing_token', 1)"),
    ("mfaas_builder", "SELECT hold_policy_version()"),
    ("mfaas_builder", "CREATE TABLE mine (x int)"),
    ("mfaas_server", "INSERT INTO versions (tenant, function, version) VALUES ('acme', 'hello', 1)"),
    ("mfaas_server", "INSERT INTO statements (digest, artifact, envelope) VALUES ('a', 'b', 'c')"),
    ("mfaas_server", "INSERT INTO serving_sets (epoch) VALUES (1)"),
    ("mfaas_server", "INSERT INTO key_lists (version, envelope) VALUES (1, 'x')"),
    ("mfaas_server", "UPDATE versions SET artifact = 'x'"),
    ("mfaas_server", "UPDATE builds SET claim = '{}'"),
    ("mfaas_server", "UPDATE deployments SET source_digest = repeat('a', 64)"),
    ("mfaas_server", "UPDATE audit_log SET actor = 'x'"),
    ("mfaas_server", "DELETE FROM audit_log"),
    ("mfaas_server", "DELETE FROM revocations"),
    ("mfaas_server", "TRUNCATE function_logs"),
    ("mfaas_server", "INSERT INTO crate_deltas (key) VALUES (repeat('a', 64))"),
    ("mfaas_server", "INSERT INTO review_deltas (review_id) VALUES (1)"),
    ("mfaas_server", "UPDATE review_deltas SET decided_by = 'me'"),
    ("mfaas_acquirer", "UPDATE crate_deltas SET delta = '{}'"),
    ("mfaas_acquirer", "DELETE FROM review_deltas"),
    ("mfaas_builder", "SELECT * FROM review_deltas"),
    ("mfaas_server", "DELETE FROM bans"),
    ("mfaas_server", "UPDATE call_keys SET public_key = repeat('a', 64)"),
    ("mfaas_server", "UPDATE versions SET access = 'public'"),
    ("mfaas_builder", "SELECT * FROM call_keys"),
    ("mfaas_acquirer", "SELECT * FROM call_keys"),
    ("mfaas_signer", "INSERT INTO call_keys (id) VALUES ('x')"),
    ("mfaas_server", "UPDATE bans SET crashes = 1"),
    ("mfaas_builder", "SELECT * FROM bans"),
    ("mfaas_builder", "INSERT INTO usage_hours (hour) VALUES (now())"),
    ("mfaas_signer", "UPDATE usage_hours SET calls = 0"),
    ("mfaas_signer", "UPDATE nodes SET availability = 'active'"),
    ("mfaas_signer", "UPDATE crates SET status = 'allowed'"),
    ("mfaas_signer", "SELECT * FROM tokens"),
    ("mfaas_signer", "UPDATE builds SET claim = '{}'"),
    ("mfaas_signer", "UPDATE versions SET artifact = 'x'"),
    ("mfaas_signer", "DELETE FROM revocations"),
    ("mfaas_signer", "UPDATE deployments SET source_digest = repeat('a', 64)"),
    ("mfaas_signer", "INSERT INTO audit_log (seq) VALUES (1)"),
];

#[tokio::test]
async fn roles_are_denied_what_is_not_theirs() {
    let world = World::new().await;
    world.upload("hello", "key-1", b"source").await;
    for (role, statement) in DENIED {
        let error = sqlx::query(*statement).execute(&world.raw(role).await).await.unwrap_err();
        let code = error.as_database_error().and_then(|e| e.code()).map(|c| c.into_owned());
        assert_eq!(code.as_deref(), Some("42501"), "{role}: {statement}: {error}");
    }
}

#[tokio::test]
async fn a_builder_cannot_admit_or_touch_what_it_handed_over() {
    let world = World::new().await;
    let deployment = world.upload("hello", "key-1", b"source").await;
    let claimed = world.claim("one").await;
    world.builder.finish_built(&claimed.lease, &claim(b"so")).await.unwrap();
    let builder = world.raw("mfaas_builder").await;
    for state in ["admitted", "refused", "failed", "building", "received"] {
        let error = sqlx::query("UPDATE deployments SET state = $2 WHERE id = $1")
            .bind(deployment.id.0)
            .bind(state)
            .execute(&builder)
            .await
            .unwrap_err();
        let constraint = error.as_database_error().and_then(|e| e.constraint().map(str::to_owned));
        assert!(constraint.is_some_and(|c| c.starts_with("deployments_")), "{state}: {error}");
    }
    let older =
        sqlx::query("UPDATE builds SET committed_token = committed_token - 1").execute(&builder).await;
    let constraint = older.unwrap_err().as_database_error().and_then(|e| e.constraint().map(str::to_owned));
    assert_eq!(constraint.as_deref(), Some("builds_only_highest_token_commits"));
}

#[tokio::test]
async fn the_seed_is_imported_once_and_other_decisions_stay() {
    let world = World::new().await;
    let before = allowed(&world).await;
    assert!(before.crates.is_empty());
    assert_eq!(import(&world).await, 2);
    assert_eq!(import(&world).await, 0, "the same file changes nothing");
    let after = allowed(&world).await;
    assert!(after.policy_version > before.policy_version);
    assert_eq!(after.crates[0].name.as_str(), "left-pad");

    world.damage("UPDATE crates SET status = 'denied', decided_by = 'reviewer', reason = 'no'").await;
    assert_eq!(import(&world).await, 0);
    let rows = world.server.crates().await.unwrap();
    assert_eq!(
        (rows[0].allowed.status, rows[0].allowed.decided_by.as_str()),
        (CrateStatus::Denied, "reviewer")
    );

    let denied = world.builder.import_allowlist(&actor(), &seed("1.0.1")).await;
    assert!(matches!(denied, Err(CatalogError::Denied)), "{denied:?}");
}

async fn allowed(world: &World) -> AllowlistSnapshot {
    let toolchain = ToolchainId(Digest::of(b"toolchain"));
    world.builder.allowlist_snapshot(&tenant(), &toolchain).await.unwrap()
}

/// Imports the seed as its owner does; returns how many rows changed.
pub(crate) async fn import(world: &World) -> u64 {
    world.owner.import_allowlist(&actor(), &seed("1.0.0")).await.unwrap()
}

fn seed(version: &str) -> AllowlistSeed {
    AllowlistSeed {
        format: AllowlistSeed::FORMAT,
        toolchain: ToolchainId(Digest::of(b"toolchain")),
        crates: vec![AllowedCrate {
            name: CrateName::parse("left-pad").unwrap(),
            version: version.parse().unwrap(),
            checksum: Digest::of(b"crate").to_string(),
            features: vec!["std".to_owned()],
            direct: true,
            status: CrateStatus::Allowed,
            decided_by: "seed".to_owned(),
            reason: "shipped".to_owned(),
        }],
    }
}
