//! What each role may not do, and the allowlist that only the server may change.

use std::collections::BTreeMap;

use mfaas_catalog::{AllowlistSeed, Catalog, CatalogError, CrateClosure};
use mfaas_ident::{AliasName, CrateName, Digest, FunctionName, NodeName, TenantName, ToolchainId};
use mfaas_rules::{AllowedCrate, AllowlistSnapshot, CrateStatus, LinkedCrate};

use sqlx::AssertSqlSafe;

use crate::fixture::{LONG, World, actor, claim, tenant};
use mfaas_test_postgres::Cluster;

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
    let mut members = BTreeMap::new();
    for (role, statement) in DENIED {
        if !members.contains_key(role) {
            members.insert(role, member(&world, role).await);
        }
        // A login that is a member has the rights of its program, and no others.
        for role in [*role, &members[role]] {
            let error = sqlx::query(*statement).execute(&world.raw(role).await).await.unwrap_err();
            let code = error.as_database_error().and_then(|e| e.code()).map(|c| c.into_owned());
            assert_eq!(code.as_deref(), Some("42501"), "{role}: {statement}: {error}");
        }
    }
}

/// A login of its own that is a member of that role.
async fn member(world: &World, role: &str) -> String {
    let name = format!("{}_{role}", world.database);
    let made = format!("CREATE ROLE {name} LOGIN IN ROLE {role}");
    sqlx::query(AssertSqlSafe(made)).execute(&world.sql).await.unwrap();
    name
}

/// What ships is decided by the owner alone, whatever the login of a program is called.
#[tokio::test]
async fn no_login_of_a_program_allows_a_crate_that_nobody_voted_on() {
    let world = World::new().await;
    for (role, decided_by) in [
        ("mfaas_server", "seed"),
        ("mfaas_server", "rules 1"),
        ("mfaas_acquirer", "seed"),
        // With the rules' word the archive has to be there, at least.
        ("mfaas_acquirer", "rules 1"),
    ] {
        for role in [role.to_owned(), member(&world, role).await] {
            let allow = format!(
                "INSERT INTO crates (name, version, checksum, features, direct, status, decided_by, reason)
                 VALUES ('evil', '1.0.0', repeat('a', 64), '{{}}', true, 'allowed', '{decided_by}', 'trust me')"
            );
            let error = sqlx::query(AssertSqlSafe(allow)).execute(&world.raw(&role).await).await.unwrap_err();
            assert_eq!(constraint(&error).as_deref(), Some("crates_decided"), "{role}: {error}");
        }
        let dropped = format!("DROP ROLE {}_{role}", world.database);
        sqlx::query(AssertSqlSafe(dropped)).execute(&world.sql).await.unwrap();
    }
    assert_eq!(world.count("SELECT count(*) FROM crates").await, 0);
}

/// The database and `mfaas_ident` agree about what a name is: what one of them takes and the other cannot read stops whoever reads.
#[tokio::test]
async fn the_database_takes_the_names_that_programs_read() {
    let world = World::new().await;
    let (label, crate_name) = ("a-z_09", "Serde_json-1");
    let names = [
        "",
        " ",
        "a",
        "A",
        "é",
        "_a",
        "-a",
        "9a",
        "a.b",
        "a/b",
        "a b",
        "a\n",
        "a\u{202e}b",
        label,
        crate_name,
        &"a".repeat(40),
        &"a".repeat(41),
        &"a".repeat(63),
        &"a".repeat(64),
        &"a".repeat(65),
    ];
    let versions = [
        "",
        "1",
        "1.2",
        "1.2.3",
        "01.2.3",
        "1.2.3-",
        "1.2.3-a.b-1",
        "1.2.3-01",
        "1.2.3-0a",
        "1.2.3+",
        "1.2.3+01.x",
        "1.2.3-a+b",
        "1.2.3\n",
        "v1.2.3",
        "9999999999999999999.0.0",
        "99999999999999999999.0.0",
        "1.2.3-a..b",
    ];
    let takes = async |insert: &str, name: &str| {
        let mut tx = world.sql.begin().await.unwrap();
        match sqlx::query(AssertSqlSafe(insert.to_owned())).bind(name).execute(&mut *tx).await {
            Ok(_) => true,
            Err(error) => {
                let broken = constraint(&error).unwrap_or_default();
                assert!(broken.ends_with("_known"), "{insert}: {error}");
                false
            }
        }
    };
    let alias = "INSERT INTO aliases (tenant, function, alias, version) VALUES ('acme', 'hello', $1, 1)";
    let function = "INSERT INTO functions (tenant, name) VALUES ('acme', $1)";
    let deployment = "INSERT INTO deployments (tenant, function, idempotency_key, source_digest, source_bytes, submitted_by)
                      VALUES ('acme', $1, 'k', repeat('a', 64), 1, 'test')";
    let allow = |columns: &str| {
        format!(
            "INSERT INTO crates (name, version, checksum, features, direct, status, decided_by, reason)
             VALUES ({columns}, repeat('a', 64), '{{}}', true, 'denied', 'test', 'test')"
        )
    };
    let (krate, version) = (allow("$1, '1.0.0'"), allow("'x', $1"));
    world.admitted("hello", "key").await;
    for name in names {
        let is_function = FunctionName::parse(name).is_ok();
        assert_eq!(
            takes("INSERT INTO tenants (name) VALUES ($1)", name).await,
            TenantName::parse(name).is_ok(),
            "{name:?}"
        );
        assert_eq!(takes(function, name).await, is_function, "{name:?}");
        assert_eq!(takes(deployment, name).await, is_function, "{name:?}");
        assert_eq!(takes(alias, name).await, AliasName::parse(name).is_ok(), "{name:?}");
        let node = "INSERT INTO nodes (name, certificate_sha256) VALUES ($1, 'x')";
        assert_eq!(takes(node, name).await, NodeName::parse(name).is_ok(), "{name:?}");
        let join = "INSERT INTO join_tokens (secret_sha256, node, expires_at) VALUES ('x', $1, now())";
        assert_eq!(takes(join, name).await, NodeName::parse(name).is_ok(), "{name:?}");
        assert_eq!(takes(&krate, name).await, CrateName::parse(name).is_ok(), "{name:?}");
    }
    for name in versions {
        assert_eq!(takes(&version, name).await, semver::Version::parse(name).is_ok(), "{name:?}");
    }
}

/// Whose name stands in the audit log.
#[tokio::test]
async fn no_program_writes_audit_rows_in_the_name_of_another() {
    let world = World::new().await;
    for (role, actor, may) in [
        ("mfaas_server", "mfaas-server", true),
        ("mfaas_server", "mfaas-server:operator", true),
        ("mfaas_server", "token:acme:alice", true),
        ("mfaas_server", "node:one", true),
        ("mfaas_server", "mfaas-signer", false),
        ("mfaas_server", "mfaas-builder:1", false),
        ("mfaas_server", "mfaas-servers", false),
        ("mfaas_builder", "mfaas-builder:1", true),
        ("mfaas_builder", "token:acme:alice", false),
        ("mfaas_builder", "node:one", false),
        ("mfaas_signer", "mfaas-signer", true),
        ("mfaas_signer", "mfaas-server", false),
        ("mfaas_acquirer", "mfaas-acquirer", true),
        ("mfaas_acquirer", "token:acme:alice", false),
    ] {
        let append = sqlx::query("SELECT append_audit($1, 'test', '', '', '{}')").bind(actor);
        let written = append.execute(&world.raw(role).await).await;
        assert_eq!(written.is_ok(), may, "{role} as {actor}");
        if let Err(error) = written {
            assert_eq!(constraint(&error).as_deref(), Some("audit_own_name"), "{role} as {actor}");
        }
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
    // Nor what it says of itself, by which others decide whether to wait for it.
    for statement in ["UPDATE builders SET unwell = 'it is ill'", "DELETE FROM builders"] {
        let error = sqlx::query(statement).execute(&other).await.unwrap_err();
        assert_eq!(constraint(&error).as_deref(), Some("builders_of_another"), "{statement}");
    }
    builder.builder_is("one", Some("no room")).await.unwrap();
    let ahead = "UPDATE builders SET seen_at = now() + interval '1 year' WHERE instance = 'one'";
    sqlx::query(ahead).execute(&world.raw(&one).await).await.unwrap();
    assert_eq!(world.count("SELECT count(*) FROM builders WHERE seen_at > now()").await, 0);
    builder.heartbeat(&claimed.lease, LONG).await.unwrap();
    builder.finish_built(&claimed.lease, &claim(b"so")).await.unwrap();
    // What has ended is nobody's any more.
    let said = "INSERT INTO deployment_events (deployment_id, seq, body) VALUES ($1, 99, '{}')";
    for role in [&one, &two] {
        let error = sqlx::query(said).bind(id).execute(&world.raw(role).await).await.unwrap_err();
        assert_eq!(constraint(&error).as_deref(), Some("deployment_events_of_builder"), "{role}");
    }
}

/// What the signer does when it wants another builder to make the same.
async fn ask_another(world: &World) {
    let asked =
        "WITH kept AS (INSERT INTO build_claims (deployment_id, role, committed_token, claim, finished_at)
                     SELECT deployment_id, lease_role, committed_token, claim, finished_at FROM builds)
                 UPDATE builds SET rounds = rounds + 1";
    let signer = world.raw("mfaas_signer").await;
    sqlx::query(asked).execute(&signer).await.unwrap();
    sqlx::query("UPDATE deployments SET state = 'received'").execute(&signer).await.unwrap();
}

#[tokio::test]
async fn one_builder_gives_one_claim_and_touches_no_other_one() {
    let world = World::new().await;
    let (one, two) = (format!("{}_one", world.database), format!("{}_two", world.database));
    let mut builders = Vec::new();
    for role in [&one, &two] {
        let made = format!("CREATE ROLE {role} LOGIN IN ROLE mfaas_builder");
        sqlx::query(AssertSqlSafe(made)).execute(&world.sql).await.unwrap();
        builders.push(Catalog::connect(&Cluster::get().url(&world.database, role), 2).await.unwrap());
    }
    world.upload("hello", "key-1", b"source").await;
    let claimed = builders[0].claim("one", LONG).await.unwrap().unwrap();
    builders[0].finish_built(&claimed.lease, &claim(b"so")).await.unwrap();
    ask_another(&world).await;
    let open = "SELECT count(*) FROM builds WHERE claim IS NULL AND finished_at IS NULL AND attempt = 0
                AND lease_role IS NULL AND committed_token IS NULL AND not_before <= now() AND rounds = 1";
    assert_eq!(world.count(open).await, 1);
    // It is not offered to the one that has given its claim, nor can it take it, or anything of it, by itself.
    assert!(builders[0].claim("one", LONG).await.unwrap().is_none());
    assert!(builders[0].claim("other instance", LONG).await.unwrap().is_none(), "the role counts");
    let pool = world.raw(&one).await;
    for change in ["claim = '{}', finished_at = now()", "lease_holder = 'me'", "attempt = 3"] {
        let changed = format!("UPDATE builds SET {change}");
        let error = sqlx::query(AssertSqlSafe(changed)).execute(&pool).await.unwrap_err();
        assert_eq!(constraint(&error).as_deref(), Some("builds_one_claim_each"), "{change}");
    }
    for role in [&one, &two, "mfaas_builder", "mfaas_server"] {
        for statement in [
            "DELETE FROM build_claims",
            "UPDATE build_claims SET claim = '{}'",
            "UPDATE builds SET rounds = 0",
            "INSERT INTO build_claims SELECT deployment_id, 'x', 1, '{}', now() FROM builds",
            "UPDATE builders SET role = 'x'",
            "SELECT claim FROM build_claims",
        ] {
            let error = sqlx::query(statement).execute(&world.raw(role).await).await.unwrap_err();
            let code = error.as_database_error().and_then(|e| e.code()).map(|c| c.into_owned());
            assert_eq!(code.as_deref(), Some("42501"), "{role}: {statement}: {error}");
        }
    }
    let claimed = builders[1].claim("two", LONG).await.unwrap().unwrap();
    builders[1].heartbeat(&claimed.lease, LONG).await.unwrap();
    // A lease that is lost between the two is nobody's but a third builder's, or the second's again.
    world.damage("UPDATE builds SET attempt = 3, lease_expires_at = now() - interval '1 minute'").await;
    assert!(builders[0].claim("one", LONG).await.unwrap().is_none(), "and it is not in its way");
    world.damage("UPDATE builds SET attempt = 1").await;
    let again = builders[1].claim("two", LONG).await.unwrap().unwrap();
    builders[1].finish_built(&again.lease, &claim(b"so")).await.unwrap();
    let roles =
        "SELECT count(*) FROM builds b JOIN build_claims c ON c.role <> b.lease_role WHERE b.claim = c.claim";
    assert_eq!(world.count(roles).await, 1);
    let whose =
        "SELECT count(DISTINCT role) FROM builders WHERE instance IN ('one', 'other instance', 'two')";
    assert_eq!(world.count(whose).await, 2);
}

/// The signer's right to open a build again is for one round more, of what is built.
#[tokio::test]
async fn a_signer_asks_one_round_more_of_what_is_built_and_pauses_from_the_second_on() {
    let world = World::new().await;
    world.upload("hello", "key-1", b"source").await;
    let claimed = world.claim("one").await;
    let signer = world.raw("mfaas_signer").await;
    let round = "UPDATE builds SET rounds = rounds + 1";
    let error = sqlx::query(round).execute(&signer).await.unwrap_err();
    assert_eq!(constraint(&error).as_deref(), Some("builds_not_by_signer"), "it is not built");
    world.builder.finish_built(&claimed.lease, &claim(b"so")).await.unwrap();
    for other in ["rounds = 2", "rounds = 8", "rounds = 0, finished_at = NULL"] {
        let change = format!("UPDATE builds SET {other}");
        let error = sqlx::query(AssertSqlSafe(change)).execute(&signer).await.unwrap_err();
        assert_eq!(constraint(&error).as_deref(), Some("builds_not_by_signer"), "{other}");
    }
    world.damage("UPDATE builds SET rounds = 2").await;
    sqlx::query(round).execute(&signer).await.unwrap();
    let pause =
        "SELECT count(*) FROM builds WHERE rounds = 3 AND not_before BETWEEN now() + interval '5 seconds'
                 AND now() + interval '8 seconds'";
    assert_eq!(world.count(pause).await, 1);
}

/// What it takes up is what was kept, and it is no way around a builder.
#[tokio::test]
async fn only_a_signer_takes_up_a_claim_again_and_only_one_that_was_kept() {
    let world = World::new().await;
    world.upload("hello", "key-1", b"source").await;
    let signer = world.raw("mfaas_signer").await;
    let (take_up, built) =
        ("UPDATE builds SET finished_at = now(), rounds = 0", "UPDATE deployments SET state = 'built'");
    let error = sqlx::query(take_up).execute(&signer).await.unwrap_err();
    assert_eq!(constraint(&error).as_deref(), Some("builds_not_by_signer"), "nothing was kept");
    let claimed = world.claim("one").await;
    world.builder.finish_built(&claimed.lease, &claim(b"so")).await.unwrap();
    ask_another(&world).await;
    for (role, name) in [
        ("mfaas_builder", "deployments_state_of_builder"),
        ("mfaas_server", "deployments_state_transition"),
        ("mfaas_signer", "deployments_state_transition"),
    ] {
        let error = sqlx::query(built).execute(&world.raw(role).await).await.unwrap_err();
        assert_eq!(constraint(&error).as_deref(), Some(name), "{role}: {error}");
    }
    sqlx::query(take_up).execute(&signer).await.unwrap();
    let same = "SELECT count(*) FROM builds b JOIN build_claims c USING (deployment_id)
                WHERE b.claim = c.claim AND b.lease_role = c.role AND b.committed_token = c.committed_token
                  AND b.fencing_token = c.committed_token AND b.finished_at = c.finished_at AND b.rounds = 1";
    assert_eq!(world.count(same).await, 1, "nothing of it is the signer's word");
    let error = sqlx::query(built).execute(&world.raw("mfaas_server").await).await.unwrap_err();
    assert_eq!(constraint(&error).as_deref(), Some("deployments_state_of_server"));
    sqlx::query(built).execute(&signer).await.unwrap();
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
    let rows = world.server.crates(None).await.unwrap();
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

fn linked(name: &str, version: &str) -> LinkedCrate {
    let checksum = Digest::of(b"crate").to_string();
    LinkedCrate { name: CrateName::parse(name).unwrap(), version: version.parse().unwrap(), checksum }
}

/// The signer derives from these rows what a build links.
#[tokio::test]
async fn what_a_cache_holds_is_recorded_by_who_made_it_and_stays() {
    let world = World::new().await;
    import(&world).await;
    let recorded = "SELECT count(*) FROM cached_crates WHERE cache = base AND closure ->
                    0 ->> 'name' = 'pad' AND closure -> 0 ->> 'version' = '2.0.0'";
    assert_eq!(world.count(recorded).await, 1);
    let insert = "INSERT INTO cached_crates (cache, base, toolchain, name, version, checksum, closure)
                  VALUES (repeat('c', 64), repeat('b', 64), 't', 'x', '1.0.0', 'c', '[]')";
    sqlx::query(insert).execute(&world.raw("mfaas_acquirer").await).await.unwrap();
    for role in ["mfaas_builder", "mfaas_server", "mfaas_signer"] {
        let pool = world.raw(role).await;
        let changes = [insert, "UPDATE cached_crates SET closure = '[]'", "DELETE FROM cached_crates"];
        for statement in changes {
            let error = sqlx::query(statement).execute(&pool).await.unwrap_err();
            let code = error.as_database_error().and_then(|e| e.code()).map(|c| c.into_owned());
            assert_eq!(code.as_deref(), Some("42501"), "{role}: {statement}: {error}");
        }
    }
    let change = "UPDATE cached_crates SET closure = '[]'";
    sqlx::query(change).execute(&world.raw("mfaas_acquirer").await).await.unwrap_err();
    import(&world).await;
    assert_eq!(world.count("SELECT count(*) FROM cached_crates").await, 2, "a second import adds nothing");
    let closures = world.server.closures_of(&CrateName::parse("left-pad").unwrap()).await.unwrap();
    let told: Vec<String> = closures.iter().flatten().map(|member| member.of.version.to_string()).collect();
    assert_eq!(told, ["1.0.0", "2.0.0"], "the crate first, then `pad`, of which the cache says no more");
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
        cache: Digest::of(b"cache"),
        closures: vec![CrateClosure { of: linked("left-pad", version), needs: vec![linked("pad", "2.0.0")] }],
    }
}
