//! What each role may not do, and the allowlist that only the server may change.

use mfaas_catalog::{AllowlistSeed, Catalog, CatalogError};
use mfaas_ident::{CrateName, Digest, ToolchainId};
use mfaas_rules::{AllowedCrate, AllowlistSnapshot, CrateStatus};

use sqlx::AssertSqlSafe;

use crate::cluster::Cluster;
use crate::fixture::{LONG, World, actor, claim, tenant};

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
    for change in ["committed_token = committed_token - 1", "claim = '{}'", "finished_at = NULL"] {
        let changed = format!("UPDATE builds SET {change}");
        let error = sqlx::query(AssertSqlSafe(changed)).execute(&builder).await.unwrap_err();
        assert_eq!(constraint(&error).as_deref(), Some("builds_ended"), "{change}");
    }
}

fn constraint(error: &sqlx::Error) -> Option<String> {
    error.as_database_error().and_then(|e| e.constraint().map(str::to_owned))
}

/// Two builders with a role each, as a site has them that gives each instance its own.
#[tokio::test]
async fn a_builder_touches_nothing_that_another_one_holds() {
    let world = World::new().await;
    let (one, two) = (format!("{}_one", world.database), format!("{}_two", world.database));
    for role in [&one, &two] {
        let made = format!("CREATE ROLE {role} LOGIN IN ROLE mfaas_builder");
        sqlx::query(AssertSqlSafe(made)).execute(&world.sql).await.unwrap();
    }
    let deployment = world.upload("hello", "key-1", b"source").await;
    let builder = Catalog::connect(&Cluster::get().url(&world.database, &one), 2).await.unwrap();
    let claimed = builder.claim("one", LONG).await.unwrap().unwrap();
    let other = world.raw(&two).await;
    let id = deployment.id.0;
    for (statement, name) in [
        ("UPDATE builds SET claim = '{}', finished_at = now() WHERE deployment_id = $1", "builds_of_another"),
        ("UPDATE builds SET lease_expires_at = now() WHERE deployment_id = $1", "builds_of_another"),
        ("UPDATE deployments SET state = 'failed' WHERE id = $1", "deployments_state_of_builder"),
        ("UPDATE deployments SET diagnostics = '[{}]' WHERE id = $1", "deployments_state_of_builder"),
        (
            "INSERT INTO deployment_events (deployment_id, seq, body) VALUES ($1, 99, '{}')",
            "deployment_events_of_builder",
        ),
        (
            "INSERT INTO crate_requests (deployment_id, tenant, name, requirement, features, code)
             VALUES ($1, 'acme', 'x', '1', '{}', 'MF0204')",
            "crate_requests_of_builder",
        ),
    ] {
        let error = sqlx::query(statement).bind(id).execute(&other).await.unwrap_err();
        assert_eq!(constraint(&error).as_deref(), Some(name), "{statement}");
    }
    builder.heartbeat(&claimed.lease, LONG).await.unwrap();
    builder.finish_built(&claimed.lease, &claim(b"so")).await.unwrap();
    // What has ended is nobody's any more.
    let said = "INSERT INTO deployment_events (deployment_id, seq, body) VALUES ($1, 99, '{}')";
    for role in [&one, &two] {
        let error = sqlx::query(said).bind(id).execute(&world.raw(role).await).await.unwrap_err();
        assert_eq!(constraint(&error).as_deref(), Some("deployment_events_of_builder"), "{role}");
    }
}

/// Membership counts however far away, and whoever is no program, or two, changes nothing.
#[tokio::test]
async fn a_role_that_is_not_one_program_changes_nothing() {
    let world = World::new().await;
    let name = |what: &str| format!("{}_{what}", world.database);
    let (far, both, none) = (name("far"), name("both"), name("none"));
    let made = format!(
        "CREATE ROLE {near} IN ROLE mfaas_builder; CREATE ROLE {far} LOGIN IN ROLE {near};
         CREATE ROLE {both} LOGIN IN ROLE mfaas_builder, mfaas_signer; CREATE ROLE {none} LOGIN;
         GRANT USAGE ON SCHEMA public TO {none}; GRANT SELECT, UPDATE ON builds TO {none}",
        near = name("near")
    );
    sqlx::raw_sql(AssertSqlSafe(made)).execute(&world.sql).await.unwrap();
    world.upload("hello", "key-1", b"source").await;
    let claimed = world.claim("one").await;
    world.builder.finish_built(&claimed.lease, &claim(b"so")).await.unwrap();
    let change = "UPDATE builds SET finished_at = now()";
    let error = sqlx::query(change).execute(&world.raw(&far).await).await.unwrap_err();
    assert_eq!(constraint(&error).as_deref(), Some("builds_ended"));
    for role in [&both, &none] {
        let error = sqlx::query(change).execute(&world.raw(role).await).await.unwrap_err();
        assert!(error.to_string().contains("not one of the programs"), "{role}: {error}");
    }
}

/// A lease that is over is anybody's, and tokens are granted by the database, whatever a builder writes.
#[tokio::test]
async fn a_builder_neither_keeps_a_build_for_ever_nor_makes_up_tokens() {
    let world = World::new().await;
    world.upload("hello", "key-1", b"source").await;
    let claimed = world.claim("one").await;
    let builder = world.raw("mfaas_builder").await;
    let long = "UPDATE builds SET lease_expires_at = now() + interval '2 hours'";
    let error = sqlx::query(long).execute(&builder).await.unwrap_err();
    assert_eq!(constraint(&error).as_deref(), Some("builds_lease_bounded"));
    sqlx::query("UPDATE builds SET fencing_token = 9000000000000000000").execute(&builder).await.unwrap();
    let token = world.count("SELECT fencing_token FROM builds").await;
    assert_eq!(token, claimed.lease.token().0 + 1, "the next one");
}

/// Every right of every program, column by column, as `rights.txt` lists them.
#[tokio::test]
async fn each_role_has_the_rights_that_are_listed_and_no_others() {
    let world = World::new().await;
    let rows = sqlx::query_as::<_, (String, String, String, String)>(
        "SELECT c.relname::text, r.role, p.privilege,
                CASE WHEN count(*) FILTER (WHERE has_column_privilege(r.role, c.oid, a.attnum, p.privilege)) = count(*)
                     THEN '*'
                     ELSE coalesce(string_agg(a.attname, ' ' ORDER BY a.attnum)
                         FILTER (WHERE has_column_privilege(r.role, c.oid, a.attnum, p.privilege)), '') END
         FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
         CROSS JOIN unnest(ARRAY['mfaas_server', 'mfaas_builder', 'mfaas_signer', 'mfaas_acquirer']) AS r (role)
         CROSS JOIN unnest(ARRAY['SELECT', 'INSERT', 'UPDATE']) AS p (privilege)
         WHERE c.relnamespace = 'public'::regnamespace AND c.relkind = 'r'
         GROUP BY c.relname, c.oid, r.role, p.privilege
         UNION ALL
         SELECT c.relname::text, r.role, p.privilege, CASE WHEN has_table_privilege(r.role, c.oid, p.privilege) THEN '*' ELSE '' END
         FROM pg_class c
         CROSS JOIN unnest(ARRAY['mfaas_server', 'mfaas_builder', 'mfaas_signer', 'mfaas_acquirer']) AS r (role)
         CROSS JOIN unnest(ARRAY['DELETE', 'TRUNCATE', 'REFERENCES', 'TRIGGER']) AS p (privilege)
         WHERE c.relnamespace = 'public'::regnamespace AND c.relkind = 'r'
         ORDER BY 1, 2, 3",
    )
    .fetch_all(&world.sql)
    .await
    .unwrap();
    let held: String = rows
        .iter()
        .filter(|(.., columns)| !columns.is_empty())
        .map(|(table, role, privilege, columns)| format!("{table} {} {privilege} {columns}\n", &role[6..]))
        .collect();
    let listed: String = include_str!("rights.txt")
        .lines()
        .filter(|line| !line.starts_with('#'))
        .map(|l| format!("{l}\n"))
        .collect();
    for (held, listed) in held.lines().zip(listed.lines()) {
        assert_eq!(held, listed, "the first difference: what is held, and what is listed");
    }
    assert_eq!(held.lines().count(), listed.lines().count());
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
