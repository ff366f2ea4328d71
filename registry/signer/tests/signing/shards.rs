//! The tree of shards in the database: always the one of what nodes should serve, whatever happened in between.

use std::collections::BTreeMap;

use mfaas_attest::{ALIASES_MAX, ServedFunction, tree_of};
use mfaas_ident::Epoch;

use crate::world::{World, toolchain};

/// `acme/f{number}` with so many versions, `live` on the newest, as if each had been admitted.
fn admit(world: &mut World, number: u32, versions: u32) {
    let sql = format!(
        "DO $$ DECLARE id uuid; BEGIN
         INSERT INTO artifacts (digest, bytes, toolchain) VALUES (repeat('a', 64), 1, '{toolchain}')
             ON CONFLICT DO NOTHING;
         INSERT INTO statements (digest, artifact, envelope) VALUES (repeat('b', 64), repeat('a', 64), 'e')
             ON CONFLICT DO NOTHING;
         INSERT INTO functions (tenant, name, last_version) VALUES ('acme', 'f{number}', {versions});
         FOR n IN 1..{versions} LOOP
             id := gen_random_uuid();
             INSERT INTO deployments (id, tenant, function, idempotency_key, source_digest, source_bytes, submitted_by)
                 VALUES (id, 'acme', 'f{number}', id::text, repeat('c', 64), 1, 'test');
             INSERT INTO versions (tenant, function, version, deployment_id, artifact, statement, source_digest,
                     handler, budget_us, memory_bytes, toolchain, abi_version, policy_version)
                 VALUES ('acme', 'f{number}', n, id, repeat('a', 64), repeat('b', 64), repeat('c', 64), 'handle',
                     10000, 1048576, '{toolchain}', 2, 1);
         END LOOP;
         INSERT INTO aliases (tenant, function, alias, version) VALUES ('acme', 'f{number}', 'live', {versions});
         END $$",
        toolchain = toolchain()
    );
    world.sql.batch_execute(&sql).unwrap();
}

/// Rows that no program writes, and that the database has taken before it looked at names.
#[test]
fn a_row_that_cannot_be_read_keeps_nobody_from_being_signed_for() {
    let mut world = World::new();
    let unchecked = "ALTER TABLE aliases DROP CONSTRAINT aliases_alias_known;
                     ALTER TABLE functions DROP CONSTRAINT functions_name_known;
                     ALTER TABLE deployments DROP CONSTRAINT deployments_function_known;
                     ALTER TABLE crates DROP CONSTRAINT crates_version_known";
    world.sql.batch_execute(unchecked).unwrap();
    let signer = world.signer();
    (0..2).for_each(|number| admit(&mut world, number, 2));
    // No 32 bytes that are a point of the curve, under a name that is their digest.
    let bad = "INSERT INTO aliases (tenant, function, alias, version) VALUES ('acme', 'f0', 'No Alias', 1);
               INSERT INTO functions (tenant, name) VALUES ('acme', 'No Function');
               INSERT INTO crates (name, version, checksum, features, direct, status, decided_by, reason)
                   VALUES ('x', 'none', repeat('a', 64), '{}', true, 'denied', 'test', 'test');
               INSERT INTO call_keys (id, public_key, used_from, not_after)
                   SELECT encode(sha256(decode(k, 'hex')), 'hex'), k, now(), now() + interval '1 day'
                   FROM (SELECT '02' || repeat('0', 62) AS k) AS key;
               SELECT bump_desired_generation()";
    world.sql.batch_execute(bad).unwrap();
    world.function = "No Function";
    let unnamed = world.built(|_| {});
    world.function = "hello";
    let (_, functions) = told(&mut world);
    assert_eq!(functions.keys().map(String::as_str).collect::<Vec<_>>(), ["f0", "f1"]);
    assert_eq!(functions["f0"].aliases.len(), 1, "`live` alone");
    assert!(world.settled().call_keys.is_empty());
    let next = world.built(|_| {});
    assert_eq!(world.ended(next).0, "admitted", "it waits behind nobody");
    assert_eq!(world.ended(unnamed), ("failed".to_owned(), vec!["MF0909".to_owned()]));
    signer.stop();
}

/// What nodes are told once the signer has been asked to look, which must be the tree of it.
fn told(world: &mut World) -> (Epoch, BTreeMap<String, ServedFunction>) {
    world.wake();
    told_unasked(world)
}

fn told_unasked(world: &mut World) -> (Epoch, BTreeMap<String, ServedFunction>) {
    let set = world.settled();
    let functions = world.functions(&set);
    assert_eq!(tree_of(functions.clone()).unwrap().0, set.functions);
    (set.epoch, functions.into_iter().map(|function| (function.name.to_string(), function)).collect())
}

#[test]
fn the_tree_follows_every_change_that_nodes_must_know() {
    let mut world = World::new();
    let signer = world.signer();
    (0..40).for_each(|number| admit(&mut world, number, 1 + number % 12));
    let (first, functions) = told(&mut world);
    assert_eq!((functions.len(), functions["f11"].versions.len()), (40, 10), "the newest ten of twelve");

    world.sql.batch_execute("UPDATE aliases SET version = 1 WHERE function = 'f11'").unwrap();
    let (second, functions) = told(&mut world);
    assert_eq!(functions["f11"].resolve(None).unwrap().version.get(), 1, "an alias takes an old version in");
    assert_eq!(functions["f11"].versions.len(), 11);
    let at = |world: &mut World, name| {
        let sql = format!("SELECT set_epoch FROM functions WHERE name = '{name}'");
        Epoch(u64::try_from(world.count(&sql)).unwrap())
    };
    assert!(at(&mut world, "f11") == second && at(&mut world, "f12") <= first && first < second);

    world.sql.batch_execute("UPDATE functions SET deleted_at = now() WHERE name IN ('f0', 'f1')").unwrap();
    assert_eq!(told(&mut world).1.len(), 38);
    world.sql.batch_execute("UPDATE versions SET retired_at = now() WHERE function = 'f2'").unwrap();
    assert_eq!(told(&mut world).1.len(), 37);
    world.sql.batch_execute("UPDATE toolchains SET accepted = false").unwrap();
    assert_eq!(told(&mut world).1.len(), 0);
    world.sql.batch_execute("UPDATE toolchains SET accepted = true").unwrap();
    assert_eq!(told(&mut world).1.len(), 37);
    let revoke =
        "INSERT INTO revocations (artifact, reason, revoked_by) VALUES (repeat('a', 64), 'test', 'test')";
    world.sql.batch_execute(revoke).unwrap();
    let (_, functions) = told(&mut world);
    assert!(functions.values().all(|function| function.versions.is_empty() && function.revoked.len() == 1));
    signer.stop();
}

/// Written past the catalog, which takes no more than a function may have: whatever there is, nodes take the set.
#[test]
fn more_aliases_than_a_function_may_have_are_left_out() {
    let mut world = World::new();
    let _signer = world.signer();
    admit(&mut world, 1, 2);
    let sql = "INSERT INTO aliases (tenant, function, alias, version)
               SELECT 'acme', 'f1', 'a' || lpad(i::text, 3, '0'), 1 + i % 2 FROM generate_series(1, 120) i";
    world.sql.batch_execute(sql).unwrap();
    let (_, functions) = told(&mut world);
    let function = &functions["f1"];
    assert_eq!((function.aliases.len(), function.resolve(None).unwrap().version.get()), (ALIASES_MAX, 2));
}

#[test]
fn shards_that_no_set_leads_to_stay_for_an_hour_and_go() {
    let mut world = World::new();
    let _signer = world.signer();
    (0..20).for_each(|number| admit(&mut world, number, 1));
    told(&mut world);
    admit(&mut world, 20, 1);
    told(&mut world);
    let unused = "SELECT count(*) FROM shards WHERE unused_since IS NOT NULL";
    let before = world.count(unused);
    assert!(before > 0, "a node may be halfway through the set before");
    world.sql.batch_execute("UPDATE shards SET unused_since = unused_since - interval '61 minutes'").unwrap();
    admit(&mut world, 21, 1);
    told(&mut world);
    let old = "SELECT count(*) FROM shards WHERE unused_since < now() - interval '1 hour'";
    crate::wait_for("the old ones to go", || (world.count(old) == 0).then_some(()));
    assert!(world.count(unused) > 0, "and only these");
}

#[test]
fn a_damaged_tree_is_made_anew() {
    let mut world = World::new();
    let signer = world.signer();
    (0..40).for_each(|number| admit(&mut world, number, 2));
    let (_, functions) = told(&mut world);
    let damages =
        ["DELETE FROM shards", "UPDATE shards SET body = '{\"leaf\":[]}'", "DELETE FROM serving_sets"];
    for damage in damages {
        world.sql.batch_execute(damage).unwrap();
        world
            .sql
            .batch_execute("UPDATE aliases SET updated_at = now(), version = 1 WHERE function = 'f7'")
            .unwrap();
        let (_, repaired) = told(&mut world);
        assert_eq!(repaired.len(), functions.len(), "{damage}");
        assert_eq!(repaired["f7"].resolve(None).unwrap().version.get(), 1);
        world.sql.batch_execute("UPDATE aliases SET version = 2 WHERE function = 'f7'").unwrap();
        assert_eq!(told(&mut world).1, functions);
    }
    signer.stop();
}

/// A server that was taken over can neither hide a change from nodes nor put a shard into the place of another.
#[test]
fn changes_and_shards_are_the_signers_alone() {
    let mut world = World::new();
    admit(&mut world, 1, 1);
    let _signer = world.signer();
    told(&mut world);
    let mut server = world.connect("mfaas_server");
    for forged in [
        "DELETE FROM changed_functions",
        "INSERT INTO changed_functions (tenant, name) VALUES ('acme', 'f1')",
        "UPDATE functions SET set_epoch = 0",
        "UPDATE shards SET body = ''",
        "DELETE FROM shards",
        "INSERT INTO shards (digest, body) VALUES ('a', '')",
    ] {
        let refused = server.batch_execute(forged).unwrap_err();
        assert_eq!(refused.code(), Some(&postgres::error::SqlState::INSUFFICIENT_PRIVILEGE), "{forged}");
    }
    let sql = "UPDATE functions SET deleted_at = now() WHERE name = 'f1'";
    server.batch_execute(sql).unwrap();
    assert_eq!(told_unasked(&mut world).1.len(), 0, "what it may do is seen, whether it says so or not");
}

/// Signing is work for the signer, and a set is a download for every node.
#[test]
fn one_set_is_signed_for_deployments_that_come_together() {
    const DEPLOYMENTS: usize = 40;
    let mut world = World::new();
    let built: Vec<_> = (0..DEPLOYMENTS).map(|_| world.built(|_| ())).collect();
    let signer = world.signer();
    for id in built {
        assert_eq!(world.ended(id).0, "admitted");
    }
    let set = world.settled();
    let functions = world.functions(&set);
    assert_eq!(functions[0].resolve(None).unwrap().version.get(), 40);
    let sets = world.count("SELECT count(*) FROM serving_sets");
    assert!((1..=20).contains(&sets), "{sets} sets for {DEPLOYMENTS} deployments");
    signer.stop();
}
