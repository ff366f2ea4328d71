//! Transactions that lock several rows do so in one order (ARCHITECTURE.md, "Locks"), and what somebody else locks in another
//! order is done again.
//!
//! A gate is a row that the owner holds back: those who want it stop there in a known order, with what they have locked before.

use std::time::{Duration, Instant};

use mfaas_catalog::{
    AdvisoryImport, CatalogError, MemberOutcome, NewVote, ResolvedMember, Revocation, Severity,
};
use mfaas_ident::{AliasName, CrateName, DataAccess, Digest, VersionNumber};
use mfaas_rules::People;
use mfaas_rules::crate_facts::{AdvisorySet, CrateReport};
use mfaas_rules::review::{ReviewState, Terms};
use sqlx::{AssertSqlSafe, PgTransaction};

use crate::fixture::{World, actor, function, person, tenant};
use crate::resources::resource;
use crate::reviews::{acquirer, ask, report, resolution, reviewing, toolchain, waiting};
use mfaas_test_postgres::{Cluster, OWNER};

const POLICY: &str = "SELECT 1 FROM policy_state FOR UPDATE";
const GENERATION: &str = "SELECT 1 FROM desired_generation FOR UPDATE";
const WAIT_MAX: Duration = Duration::from_secs(30);

impl World {
    /// Holds back whoever wants what the statement locks.
    async fn gate(&self, statement: &'static str) -> PgTransaction<'static> {
        let mut gate = self.sql.begin().await.unwrap();
        sqlx::query(statement).execute(&mut *gate).await.unwrap();
        gate
    }

    /// Returns when that many sessions of this database wait for a lock.
    async fn until_they_wait(&self, sessions: i64) {
        let sql = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'";
        let begun = Instant::now();
        while self.count(sql).await != sessions {
            assert!(begun.elapsed() < WAIT_MAX, "{} sessions wait, not {sessions}", self.count(sql).await);
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// How many deadlocks there were. Sessions tell when they end.
    async fn deadlocks(&self) -> i64 {
        self.leave().await;
        let others = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND application_name LIKE 'mfaas%'";
        let begun = Instant::now();
        while self.count(others).await > 0 {
            assert!(begun.elapsed() < WAIT_MAX, "a session does not end");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        self.count("SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()").await
    }

    async fn leave(&self) {
        for catalog in [&self.server, &self.builder, &self.acquirer, &self.owner] {
            catalog.close().await;
        }
    }

    /// Crates that may be used.
    async fn allow(&self, names: &[&str]) {
        for name in names {
            let sql =
                "INSERT INTO crates (name, version, checksum, features, direct, status, decided_by, reason)
                       VALUES ($1, '1.0.0', repeat('c', 64), '{}', true, 'allowed', 'seed', 'small')";
            sqlx::query(sql).bind(name).execute(&self.sql).await.unwrap();
        }
    }
}

/// Advisories that refuse every version of these crates.
fn advisories(names: &[&str]) -> AdvisorySet {
    let rows: Vec<_> = names
        .iter()
        .map(|name| {
            serde_json::json!({
                "id": format!("RUSTSEC-2099-{name}"), "package": name, "kind": "unsound", "title": "it is not sound",
                "patched": [], "unaffected": [], "withdrawn": false, "url": null,
            })
        })
        .collect();
    serde_json::from_value(serde_json::json!({ "unread": [], "advisories": rows })).unwrap()
}

/// Lets `first` come to the gate, then `second`, then both through it; answers what they say.
async fn meet<A: std::fmt::Debug, B: std::fmt::Debug>(
    world: &World,
    gate: PgTransaction<'static>,
    first: impl Future<Output = A>,
    second: impl Future<Output = B>,
) -> (A, B) {
    let (mut first, mut second) = (std::pin::pin!(first), std::pin::pin!(second));
    tokio::select! {
        said = &mut first => panic!("the first does not stop at the gate: {said:?}"),
        () = world.until_they_wait(1) => {}
    }
    tokio::select! {
        said = &mut first => panic!("the first does not stop at the gate: {said:?}"),
        said = &mut second => panic!("the second waits for nobody: {said:?}"),
        () = world.until_they_wait(2) => {}
    }
    gate.rollback().await.unwrap();
    tokio::join!(first, second)
}

/// What an import takes back is more than one row, and a person may take back one of them at the same time.
#[tokio::test]
async fn an_import_of_advisories_and_a_revocation_never_wait_for_each_other() {
    let world = World::new().await;
    world.allow(&["aa", "bb"]).await;
    let (set, alice, actor) = (advisories(&["aa", "bb"]), person("alice"), actor());
    let import = AdvisoryImport { set: &set, severity: Severity::Block, person: &alice, actor: &actor };
    let (name, version) = (CrateName::parse("bb").unwrap(), semver::Version::new(1, 0, 0));
    let revocation = Revocation {
        name: &name,
        version: &version,
        person: &alice,
        actor: &actor,
        severity: Severity::Block,
        reason: "a flaw",
    };
    let gate = world.gate(POLICY).await;
    let (imported, revoked) =
        meet(&world, gate, world.server.import_advisories(&import), world.server.revoke_crate(&revocation))
            .await;
    assert_eq!(imported.unwrap().len(), 2);
    assert!(matches!(revoked, Err(CatalogError::NotFound { .. })), "it was taken back before: {revoked:?}");
    assert_eq!(world.deadlocks().await, 0);
}

/// Artifacts first, what nodes should serve last, however many crates are taken back.
#[tokio::test]
async fn an_import_that_unloads_and_the_revocation_of_an_artifact_never_wait_for_each_other() {
    let world = World::new().await;
    world.allow(&["aa", "bb"]).await;
    world.admitted("hello", "key-1").await;
    world.damage("INSERT INTO version_crates SELECT tenant, function, version, 'bb', '1.0.0', repeat('c', 64) FROM versions").await;
    let (set, alice, actor) = (advisories(&["aa", "bb"]), person("alice"), actor());
    let import = AdvisoryImport { set: &set, severity: Severity::Unload, person: &alice, actor: &actor };
    let artifact = Digest::of(b"key-1");
    let gate = world.gate(GENERATION).await;
    let revoke = world.server.revoke_artifact(&actor, &artifact, "a flaw");
    let (imported, revoked) = meet(&world, gate, world.server.import_advisories(&import), revoke).await;
    assert_eq!(imported.unwrap().len(), 2);
    revoked.unwrap();
    assert_eq!(world.count("SELECT count(*) FROM revocations").await, 1);
    assert_eq!(world.deadlocks().await, 0);
}

/// The acquirer admits one crate and joins the review of another, about which somebody decides.
#[tokio::test]
async fn a_request_that_is_resolved_and_a_vote_never_wait_for_each_other() {
    let world = World::new().await;
    let (_, request) = waiting(&world).await;
    let review = reviewing(&world, request.id, People::One).await;
    let mut resolved = resolution(ask(&world, 0).await, People::One);
    let admitted = ResolvedMember {
        name: CrateName::parse("aa").unwrap(),
        checksum: Digest::of(b"aa"),
        path: vec!["left-pad".to_owned(), "aa".to_owned()],
        outcome: MemberOutcome::Admit { rules_revision: "7".to_owned() },
        ..resolved.members[0].clone()
    };
    resolved.members.insert(0, admitted);
    let token = world.reviewer("alice").await;
    let mut acquirer = acquirer(&world).await;
    let about =
        CrateReport { name: CrateName::parse("aa").unwrap(), checksum: Digest::of(b"aa"), ..report() };
    acquirer.store_report(&Digest::of(b"another report"), &about, &[]).await.unwrap();
    let terms = Terms::default();
    let vote = NewVote { review, token: &token, approve: Some(&terms), note: "looked at it" };
    let gate = world.gate(POLICY).await;
    let toolchain = toolchain();
    let (resolved, voted) =
        meet(&world, gate, acquirer.resolved(&resolved, &toolchain), world.server.vote(&vote)).await;
    resolved.unwrap();
    assert_eq!(voted.unwrap(), ReviewState::Approved);
    drop(acquirer);
    assert_eq!(world.deadlocks().await, 0);
}

/// Two grants that want a tenant's last place come one after another.
#[tokio::test]
async fn a_tenants_last_grant_is_given_once() {
    let world = World::new().await;
    world.server.ensure_tenant(&actor(), &tenant()).await.unwrap();
    world
        .damage(
            "INSERT INTO resources (name, kind, created_by)
             SELECT 'r' || i, 'kv', 'test' FROM generate_series(0, 1000) i",
        )
        .await;
    world
        .damage(
            "INSERT INTO resource_grants (resource, tenant, access, granted_by)
             SELECT 'r' || i, 'acme', 'read', 'test' FROM generate_series(2, 1000) i",
        )
        .await;
    let (actor, tenant, gate) = (actor(), tenant(), world.gate(GENERATION).await);
    let (one, other) = (resource("r0"), resource("r1"));
    let grant = |name| world.server.grant_resource(&actor, name, &tenant, DataAccess::Read);
    let (first, second) = meet(&world, gate, grant(&one), grant(&other)).await;
    first.unwrap();
    assert!(matches!(second, Err(CatalogError::Conflict { .. })), "{second:?}");
    assert_eq!(world.deadlocks().await, 0);
}

/// What people and programs do to functions, crates and artifacts all the time, many times at once.
#[tokio::test]
async fn deploys_moves_deletions_and_revocations_meet_often_and_never_in_a_deadlock() {
    const ROUNDS: u32 = 12;
    let world = World::new().await;
    for number in 0..4 {
        world.admitted("hello", &format!("hello-{number}")).await;
        world.admitted("other", &format!("other-{number}")).await;
    }
    world.damage("INSERT INTO version_crates SELECT tenant, function, version, 'aa', '1.0.0', repeat('c', 64) FROM versions").await;
    let (alice, actor) = (person("alice"), actor());
    let version = semver::Version::new(1, 0, 0);
    let set = advisories(&["aa", "bb", "cc"]);
    for round in 0..ROUNDS {
        world.damage("DELETE FROM crates").await;
        world.allow(&["aa", "bb", "cc"]).await;
        let import = AdvisoryImport { set: &set, severity: Severity::Unload, person: &alice, actor: &actor };
        let revoke = async |name: &str| {
            let name = CrateName::parse(name).unwrap();
            let (person, actor, severity) = (&alice, &actor, Severity::Unload);
            let revocation =
                Revocation { name: &name, version: &version, person, actor, severity, reason: "a flaw" };
            world.server.revoke_crate(&revocation).await.map(|_| ())
        };
        let alias = async |name: &str, number: u32| {
            let (alias, number) = (AliasName::parse("canary").unwrap(), VersionNumber::new(number).unwrap());
            world.server.put_alias(&actor, &tenant(), &function(name), &alias, number).await.map(|_| ())
        };
        let artifact = Digest::of(format!("hello-{}", round % 4).as_bytes());
        let (key, bytes) = (format!("round-{round}"), format!("round-{round}"));
        let done = tokio::join!(
            async { world.server.import_advisories(&import).await.map(|_| ()) },
            revoke("cc"),
            revoke("bb"),
            world.server.revoke_artifact(&actor, &artifact, "a flaw"),
            alias("hello", 1 + round % 4),
            alias("other", 1 + round % 4),
            alias("hello", 2),
            async { world.server.delete_function(&actor, &tenant(), &function("other")).await },
            async {
                let id = world.upload("hello", &key, bytes.as_bytes()).await.id;
                let claimed = world.claim("one").await;
                world.builder.finish_built(&claimed.lease, &crate::fixture::claim(bytes.as_bytes())).await?;
                world.admit(id, Digest::of(bytes.as_bytes())).await;
                Ok(())
            },
        );
        let done = [done.0, done.1, done.2, done.3, done.4, done.5, done.6, done.7, done.8];
        for said in done {
            let refused =
                matches!(said, Err(CatalogError::NotFound { .. } | CatalogError::Conflict { .. }) | Ok(()));
            assert!(refused, "{said:?}");
        }
    }
    assert_eq!(world.deadlocks().await, 0);
}

/// Somebody with a session of their own keeps to no order. What the database ends for them is done again.
#[tokio::test]
async fn what_a_foreign_session_locks_in_the_opposite_order_is_done_again() {
    let world = World::new().await;
    world.admitted("hello", "key-1").await;
    // Ours notices the deadlock, and the other session does not.
    let patience = format!("ALTER DATABASE {} SET deadlock_timeout = '4s'", world.database);
    sqlx::query(AssertSqlSafe(patience)).execute(&world.sql).await.unwrap();
    let patient = world.again().await;
    let mut foreign = sqlx::PgPool::connect(&Cluster::get().url(&world.database, OWNER))
        .await
        .unwrap()
        .begin()
        .await
        .unwrap();
    sqlx::query("SET deadlock_timeout = '1h'").execute(&mut *foreign).await.unwrap();
    sqlx::query(GENERATION).execute(&mut *foreign).await.unwrap();
    let (alias, number) = (AliasName::parse("canary").unwrap(), VersionNumber::new(1).unwrap());
    let (actor, tenant, name) = (actor(), tenant(), function("hello"));
    let moved = patient.server.put_alias(&actor, &tenant, &name, &alias, number);
    let meddle = async {
        world.until_they_wait(1).await;
        sqlx::query("SELECT 1 FROM functions FOR UPDATE").execute(&mut *foreign).await.unwrap();
        foreign.rollback().await.unwrap();
    };
    let (moved, ()) = tokio::join!(moved, meddle);
    assert_eq!(moved.unwrap().version, number);
    assert_eq!(world.count("SELECT count(*) FROM audit_log WHERE action = 'alias.moved'").await, 1);
    patient.leave().await;
    assert_eq!(world.deadlocks().await, 1);
}
