//! The signer as a process, on a real PostgreSQL and a real directory of blobs.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

mod agreement;
mod assets;
#[path = "../../../catalog/tests/postgres/certificates.rs"]
mod certificates;
mod claims;
mod connections;
mod contention;
mod issuing;
mod revoked_calls;
mod root;
mod rotation;
mod sample;
mod shards;
mod world;

use std::os::unix::fs::PermissionsExt as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use mfaas_attest::{Checker, DecisionUsed, Declared};
use mfaas_ident::{Access, Budget, Class, Digest, Epoch, Isolation, MemoryLimit, ToolchainId};
use sample::artifact;
use uuid::Uuid;
use world::{MANIFEST, World, toolchain, wait_for};

fn outcome(state: &str, codes: &[&str]) -> (String, Vec<String>) {
    (state.to_owned(), codes.iter().map(|code| (*code).to_owned()).collect())
}

const SOURCE: &str = "pub fn handle(r: &[u8]) -> Vec<u8> { r.to_vec() }\n";

#[test]
fn a_benign_build_becomes_a_signed_version_that_is_served() {
    let mut world = World::new();
    let signer = world.signer();
    let first = world.set_after(0);
    assert!(world.functions(&first).is_empty(), "a set is signed before there is any function");
    let id = world.built(|_| {});
    assert_eq!(world.ended(id), outcome("admitted", &[]));
    let statement = world.statement(id);
    let admitted = &statement.predicate;
    assert_eq!((admitted.artifact, admitted.version.get()), (Digest::of(artifact()), 1));
    assert!(admitted.checks.iter().any(|c| c.name == "lexer" && c.by == Checker::Signer));
    assert!(admitted.checks.iter().any(|c| c.name == "expansion" && c.by == Checker::BuilderOnly));
    let set = world.set_after(first.epoch.0);
    assert!(set.epoch > first.epoch);
    assert_eq!(set.accepted_toolchains.iter().collect::<Vec<_>>(), [&toolchain()]);
    let functions = world.functions(&set);
    let live = functions[0].resolve(None).unwrap();
    assert_eq!((live.digest, live.statement), (admitted.artifact, statement.digest()));
    let events = "SELECT count(*) FROM deployment_events WHERE body ->> 'stage' = 'sign'";
    assert_eq!(world.count(events), 3, "started, finished, state");
    assert_eq!(world.count("SELECT count(*) FROM audit_log WHERE action = 'version.admitted'"), 1);
    signer.stop();
}

#[test]
fn what_the_manifest_declares_is_signed_and_shown() {
    let mut world = World::new();
    let _signer = world.signer();
    let id = world.built(|_| {});
    assert_eq!(world.ended(id), outcome("admitted", &[]));
    let silent = Declared { access: Some(Access::Tenant), ..Declared::default() };
    assert_eq!(world.statement(id).predicate.declares(), silent, "said, not left out");
    let source = SOURCE;
    let manifest = format!(
        "{MANIFEST}[package.metadata.mfaas]\nidempotent = true\nisolation = \"process\"\naccess = \"token\"\n"
    );
    let access = Some(Access::Token);
    let declared =
        Declared { idempotent: true, isolation: Isolation::Process, access, ..Declared::default() };
    let id = world.built_from(&manifest, source, |claim| claim.declared = declared);
    assert_eq!(world.ended(id), outcome("admitted", &[]));
    assert_eq!(world.statement(id).predicate.declares(), declared);
    let rows =
        "SELECT count(*) FROM versions WHERE idempotent AND isolation = 'process' AND access = 'token'";
    assert_eq!(world.count(rows), 1);
    // A builder can neither take a process away, nor let calls run twice, nor open a function.
    for lie in [
        Declared { isolation: Isolation::Shared, ..declared },
        Declared { idempotent: false, ..declared },
        Declared { access: Some(Access::Public), ..declared },
        Declared { access: None, ..declared },
    ] {
        let id = world.built_from(&manifest, source, |claim| claim.declared = lie);
        assert_eq!(world.ended(id), outcome("failed", &["MF0603"]), "{lie:?}");
    }
}

/// The statement has what a bulk function may use; the set tells no more than releases can read that know of no class.
#[test]
fn a_bulk_function_is_signed_as_one_and_told_within_what_every_node_can_read() {
    let mut world = World::new();
    let _signer = world.signer();
    let first = world.set_after(0);
    let source = SOURCE;
    let manifest = format!(
        "{MANIFEST}[package.metadata.mfaas]\nclass = \"bulk\"\nbudget = \"120s\"\nmemory = \"512MiB\"\n"
    );
    let bulk = |claim: &mut mfaas_attest::BuildClaim| {
        claim.declared.class = Class::Bulk;
        claim.budget_us = Budget::parse("120s").unwrap();
        claim.memory_bytes = MemoryLimit::parse("512MiB").unwrap();
    };
    let id = world.built_from(&manifest, source, bulk);
    assert_eq!(world.ended(id), outcome("admitted", &[]));
    let signed = world.statement(id).predicate.clone();
    assert_eq!((signed.declares().class, signed.budget_us.to_string()), (Class::Bulk, "120s".to_owned()));
    let rows = "SELECT count(*) FROM versions WHERE class = 'bulk' AND budget_us = 120000000
                AND memory_bytes = 536870912";
    assert_eq!(world.count(rows), 1);
    let set = world.set_after(first.epoch.0);
    let functions = world.functions(&set);
    let told = functions[0].resolve(None).unwrap();
    assert_eq!((told.budget_us, told.memory_bytes), (Budget::MICRO_MAX, MemoryLimit::MICRO_MAX));
    // A builder cannot make a function of one class one of the other.
    let id = world.built_from(&manifest, source, |claim| {
        bulk(claim);
        claim.declared.class = Class::Micro;
    });
    assert_eq!(world.ended(id), outcome("failed", &["MF0603"]));
}

/// A version is admitted with what its tenant is granted then, and nodes hear what it is granted now.
#[test]
fn what_is_bound_has_to_be_granted_and_is_told_as_long_as_it_is() {
    let mut world = World::new();
    let _signer = world.signer();
    let source = SOURCE;
    let table = "[package.metadata.mfaas.bindings.orders]\nkind = \"kv\"\naccess = \"write\"\n";
    let manifest = format!("{MANIFEST}{table}");
    let bound: mfaas_ident::Bindings = serde_json::from_value(serde_json::json!(
        {"orders": {"kind": "kv", "resource": "orders", "access": "write"}}
    ))
    .unwrap();
    let claims = |claim: &mut mfaas_attest::BuildClaim| claim.bindings = bound.clone();
    let refused = |world: &mut World| {
        let id = world.built_from(&manifest, source, claims);
        assert_eq!(world.ended(id), outcome("refused", &["MF1201"]));
    };
    refused(&mut world);
    world
        .sql
        .batch_execute("INSERT INTO resources (name, kind, created_by) VALUES ('orders', 'kv', 'test')")
        .unwrap();
    refused(&mut world);
    world.sql.batch_execute("INSERT INTO resource_grants (resource, tenant, access, granted_by) VALUES ('orders', 'acme', 'read', 'test')").unwrap();
    refused(&mut world);
    world.sql.batch_execute("UPDATE resource_grants SET access = 'write'").unwrap();
    let id = world.built_from(&manifest, source, claims);
    assert_eq!(world.ended(id), outcome("admitted", &[]));
    assert_eq!(world.statement(id).predicate.bound(), bound);
    assert_eq!(
        world.count("SELECT count(*) FROM version_bindings WHERE resource = 'orders' AND access = 'write'"),
        1
    );
    let told = |world: &mut World| {
        world.wake();
        let set = world.settled();
        let functions = world.functions(&set);
        functions[0].resources.iter().map(|(name, access)| format!("{name} {access}")).collect::<Vec<_>>()
    };
    assert_eq!(told(&mut world), ["orders write"]);
    world.sql.batch_execute("UPDATE resource_grants SET access = 'read'").unwrap();
    assert_eq!(told(&mut world), ["orders read"]);
    world.sql.batch_execute("DELETE FROM resource_grants").unwrap();
    assert!(told(&mut world).is_empty());
    // A builder can neither leave a binding out nor make one up.
    for lie in [mfaas_ident::Bindings::new(), bound.clone()] {
        let manifest = if lie.is_empty() { manifest.as_str() } else { MANIFEST };
        let id = world.built_from(manifest, source, |claim| claim.bindings = lie.clone());
        assert_eq!(world.ended(id), outcome("failed", &["MF0603"]), "{lie:?}");
    }
}

/// Deploys a function that lets in these tenants and calls these functions.
fn deploy_calling(
    world: &mut World,
    (tenant, function): (&'static str, &'static str),
    callers: &[&str],
    callees: &[&str],
) -> (Uuid, (String, Vec<String>)) {
    (world.tenant, world.function) = (tenant, function);
    let name = |place: usize| format!("b{place}");
    let rows = callees.iter().enumerate().map(|(place, callee)| {
        format!("{} = {{ kind = \"function\", function = \"{callee}\" }}\n", name(place))
    });
    let rows: String = rows.collect();
    let manifest = format!(
        "{MANIFEST}[package.metadata.mfaas]\ncallers = {callers:?}\n[package.metadata.mfaas.bindings]\n{rows}"
    );
    let bound = callees.iter().enumerate().map(|(place, callee)| {
        let binding = serde_json::json!({"kind": "function", "function": callee});
        (name(place).parse().unwrap(), serde_json::from_value(binding).unwrap())
    });
    let bound: mfaas_ident::Bindings = bound.collect();
    let id = world.built_from(&manifest, SOURCE, |claim| claim.bindings = bound.clone());
    (id, world.ended(id))
}

fn first_message(world: &mut World, id: Uuid) -> String {
    let sql = "SELECT diagnostics -> 0 ->> 'message' FROM deployments WHERE id = $1";
    world.sql.query_one(sql, &[&id]).unwrap().get(0)
}

/// By the versions that aliases name: nobody waits for itself, whoever was there first.
#[test]
fn functions_that_would_call_themselves_are_refused() {
    let mut world = World::new();
    let _signer = world.signer();
    let deploy = |world: &mut World, function: &'static str, callees: &[&str]| {
        deploy_calling(world, ("acme", function), &[], callees)
    };
    // It need not be there yet.
    let (id, ended) = deploy(&mut world, "search", &["geo", "rate"]);
    assert_eq!(ended, outcome("admitted", &[]));
    assert_eq!(world.statement(id).predicate.bound().len(), 2);
    assert_eq!(world.count("SELECT count(*) FROM version_calls WHERE function = 'search'"), 2);
    assert_eq!(deploy(&mut world, "rate", &["store"]).1, outcome("admitted", &[]));
    assert_eq!(deploy(&mut world, "geo", &["store"]).1, outcome("admitted", &[]), "twice is no cycle");
    let refused = outcome("refused", &["MF1209"]);
    assert_eq!(deploy(&mut world, "store", &["store"]).1, refused);
    assert_eq!(deploy(&mut world, "store", &["acme/store"]).1, refused, "by its whole name as well");
    let (id, ended) = deploy(&mut world, "store", &["search"]);
    assert_eq!(ended, refused);
    let cycle = first_message(&mut world, id);
    assert!(cycle.contains("store calls search calls geo calls store"), "{cycle}");
    // A version that no alias names calls nobody.
    assert_eq!(deploy(&mut world, "search", &["rate"]).1, outcome("admitted", &[]));
    assert_eq!(deploy(&mut world, "rate", &[]).1, outcome("admitted", &[]));
    assert_eq!(deploy(&mut world, "store", &["search"]).1, outcome("admitted", &[]));
    // A builder can neither leave a function out nor make one up.
    world.function = "search";
    let manifest = format!("{MANIFEST}[package.metadata.mfaas.bindings]\nrate = {{ kind = \"function\" }}\n");
    let id = world.built_from(&manifest, SOURCE, |_| {});
    assert_eq!(world.ended(id), outcome("failed", &["MF0603"]));
}

/// Whom a function lets in its signed statement says, and its database row.
#[test]
fn a_function_of_another_tenant_is_called_by_whom_it_lets_in() {
    let mut world = World::new();
    world.sql.batch_execute("INSERT INTO tenants (name) VALUES ('bank'), ('shop')").unwrap();
    let _signer = world.signer();
    let (admitted, closed) = (outcome("admitted", &[]), outcome("refused", &["MF1219"]));
    let pay = |world: &mut World, tenant: &'static str| {
        deploy_calling(world, (tenant, "order"), &[], &["bank/pay"]).1
    };
    assert_eq!(pay(&mut world, "acme"), closed, "it is not there");
    let (id, ended) = deploy_calling(&mut world, ("bank", "pay"), &["shop"], &[]);
    assert_eq!(ended, admitted);
    assert_eq!(world.statement(id).predicate.callers(), ["shop".parse().unwrap()].into());
    assert_eq!(world.count("SELECT count(*) FROM versions WHERE callers = ARRAY['shop']"), 1);
    assert_eq!((pay(&mut world, "acme"), pay(&mut world, "shop")), (closed.clone(), admitted.clone()));
    assert_eq!(pay(&mut world, "bank"), admitted, "its own tenant's functions need no leave");
    // The version counts that is live.
    assert_eq!(deploy_calling(&mut world, ("bank", "pay"), &[], &[]).1, admitted);
    assert_eq!(pay(&mut world, "shop"), closed);
    world
        .sql
        .batch_execute("UPDATE aliases SET version = 1 WHERE tenant = 'bank' AND function = 'pay'")
        .unwrap();
    assert_eq!(pay(&mut world, "shop"), admitted);
    // Anybody may call what is public.
    (world.tenant, world.function) = ("bank", "pay");
    let manifest = format!("{MANIFEST}[package.metadata.mfaas]\naccess = \"public\"\n");
    let id = world.built_from(&manifest, SOURCE, |claim| claim.declared.access = Some(Access::Public));
    assert_eq!(world.ended(id), admitted);
    assert_eq!(pay(&mut world, "acme"), admitted);
}

/// A cycle by way of others, of whose calls its tenant is told no more than it knows.
#[test]
fn functions_of_several_tenants_that_would_call_themselves_are_refused() {
    let mut world = World::new();
    world.sql.batch_execute("INSERT INTO tenants (name) VALUES ('bank'), ('shop')").unwrap();
    let _signer = world.signer();
    let admitted = outcome("admitted", &[]);
    for (name, callers, callees) in [
        (("acme", "last"), &["shop"][..], &[][..]),
        (("shop", "third"), &["bank"], &["acme/last"]),
        (("bank", "second"), &["bank"], &["shop/third"]),
        (("bank", "first"), &["acme"], &["second"]),
    ] {
        assert_eq!(deploy_calling(&mut world, name, callers, callees).1, admitted, "{name:?}");
    }
    let (id, ended) = deploy_calling(&mut world, ("acme", "last"), &["shop"], &["bank/first"]);
    assert_eq!(ended, outcome("refused", &["MF1209"]));
    let cycle = first_message(&mut world, id);
    assert!(cycle.ends_with(": last calls bank/first calls shop/third calls last"), "{cycle}");
}

#[test]
fn a_silent_manifest_means_what_the_site_says_and_that_is_signed() {
    let mut world = World::new();
    let _signer = world.signer_with(&[("MFAAS_DEFAULT_ACCESS", "public")]);
    let access = |world: &mut World, id| world.statement(id).predicate.fields.clone().unwrap().access();
    let id = world.built(|_| {});
    assert_eq!(world.ended(id), outcome("admitted", &[]));
    assert_eq!(access(&mut world, id), Some(Access::Public));
    let source = SOURCE;
    let manifest = format!("{MANIFEST}[package.metadata.mfaas]\naccess = \"tenant\"\n");
    let id = world.built_from(&manifest, source, |claim| claim.declared.access = Some(Access::Tenant));
    assert_eq!(world.ended(id), outcome("admitted", &[]));
    assert_eq!(access(&mut world, id), Some(Access::Tenant), "what a manifest says counts more");
    assert_eq!(world.count("SELECT count(*) FROM versions WHERE access = 'public'"), 1);
}

#[test]
fn a_set_names_the_keys_for_calls_that_have_not_ended() {
    let mut world = World::new();
    let _signer = world.signer();
    let first = world.set_after(0);
    assert!(first.call_keys.is_empty());
    let keys: Vec<_> = (0..2).map(|_| mfaas_attest::PrivateKey::generate().unwrap().public()).collect();
    for (key, hours) in keys.iter().zip([24, -1]) {
        let sql = "INSERT INTO call_keys (id, public_key, used_from, not_after)
                   VALUES ($1, $2, now(), now() + make_interval(hours => $3))";
        world.sql.execute(sql, &[&key.id().to_string(), &key.to_hex(), &hours]).unwrap();
    }
    world.sql.execute("SELECT bump_desired_generation()", &[]).unwrap();
    let second = world.set_after(first.epoch.0);
    let named: Vec<_> = second.call_keys.iter().map(|key| (key.keyid, key.public)).collect();
    assert_eq!(named, [(keys[0].id(), keys[0])]);
    // A row that lies about its key would make every node refuse every set: the database takes none.
    let sql = "INSERT INTO call_keys (id, public_key, used_from, not_after)
               VALUES (repeat('a', 64), $1, now(), now())";
    let refused = world.sql.execute(sql, &[&keys[1].to_hex()]).unwrap_err();
    assert_eq!(refused.as_db_error().unwrap().constraint(), Some("call_keys_named_by_digest"));
}

#[test]
fn what_the_builder_lies_about_is_found() {
    let mut world = World::new();
    let _signer = world.signer();
    let lies: [fn(&mut mfaas_attest::BuildClaim); 9] = [
        |claim| claim.budget_us = Budget::parse("10s").unwrap(),
        |claim| claim.handler = "other".parse().unwrap(),
        |claim| claim.declared.idempotent = true,
        |claim| claim.source_tree = Digest::of(b"another tree"),
        |claim| claim.artifact_bytes += 1,
        |claim| claim.toolchain = ToolchainId(Digest::of(b"my own rustc")),
        |claim| claim.lints.clear(),
        |claim| claim.lints.retain(|lint| lint != "nested_lifetime_witness"),
        |claim| claim.lints.retain(|lint| lint != "next_solver_agreement"),
    ];
    for (number, lie) in lies.into_iter().enumerate() {
        let id = world.built(lie);
        assert_eq!(world.ended(id), outcome("failed", &["MF0603"]), "lie {number}");
    }
    assert_eq!(world.count("SELECT count(*) FROM versions"), 0);
    assert_eq!(world.count("SELECT count(*) FROM functions"), 0, "nothing of it is stored as a function");
}

/// During an update builder and signer have different rules for a while; nobody's deployment ends by that.
#[test]
fn what_was_built_under_other_rules_is_built_again_once() {
    let mut world = World::new();
    let _signer = world.signer();
    let other = "of another release";
    let lucky = world.built(|claim| claim.policy_revision = other.to_owned());
    let unlucky = world.built(|claim| claim.policy_revision = other.to_owned());
    for id in [lucky, unlucky] {
        assert_eq!(world.ended(id), outcome("received", &[]));
    }
    let open = "SELECT count(*) FROM builds WHERE finished_at IS NULL AND claim IS NULL AND attempt = 0
                AND committed_token IS NULL AND lease_expires_at IS NULL AND not_before <= now()";
    assert_eq!(world.count(open), 2);
    world.built_again(lucky, mfaas_rules::POLICY_REVISION);
    assert_eq!(world.ended(lucky), outcome("admitted", &[]));
    world.built_again(unlucky, other);
    assert_eq!(world.ended(unlucky), outcome("failed", &["MF0604"]));
    assert_eq!(world.count("SELECT count(*) FROM audit_log WHERE action = 'signing.rebuild'"), 2);
}

#[test]
fn what_a_taken_over_builder_let_through_is_refused() {
    let mut world = World::new();
    let _signer = world.signer();
    let id =
        world.built_from(MANIFEST, "pub fn handle(r: &[u8]) -> Vec<u8> { unsafe { evil(r) } }\n", |_| {});
    let (state, codes) = world.ended(id);
    assert_eq!(state, "refused");
    assert!(codes.iter().all(|code| code.starts_with("MF03")) && !codes.is_empty(), "{codes:?}");
    let patched = format!("{MANIFEST}[profile.release]\npanic = \"unwind\"\n");
    let id = world.built_from(&patched, "pub fn handle(r: &[u8]) -> Vec<u8> { r.to_vec() }\n", |_| {});
    assert_eq!(world.ended(id).0, "refused");
    // An image whose bytes are what the claim says, but which the rules do not admit.
    let mut evil = artifact().to_vec();
    let name = evil.windows(18).position(|w| w == b"libmfaas-host.so.1").unwrap();
    evil[name..name + 18].copy_from_slice(b"libmfaas-hose.so.1");
    let digest = world.put(&evil);
    let id = world.built(|claim| claim.artifact = digest);
    assert_eq!(world.ended(id), outcome("refused", &["MF0503"]));
}

#[test]
fn damaged_and_missing_blobs_are_never_signed() {
    let mut world = World::new();
    let id = world.built(|_| {});
    let path = world.blob(&Digest::of(artifact()));
    let mut bytes = std::fs::read(&path).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&path, bytes).unwrap();
    let _signer = world.signer();
    assert_eq!(world.ended(id), outcome("failed", &["MF0601"]));
    let id = world.built(|claim| claim.artifact = Digest::of(b"never stored"));
    assert_eq!(world.ended(id), outcome("failed", &["MF0607"]));
}

/// An empty directory in the place of the store, as a mount point looks while nothing is mounted there.
#[test]
fn a_store_that_is_not_there_ends_nobodys_deployment() {
    let mut world = World::new();
    let (store, away) = (world.dir.path().join("blobs"), world.dir.path().join("away"));
    let id = world.built(|_| {});
    std::fs::rename(&store, &away).unwrap();
    std::fs::create_dir(&store).unwrap();
    let _signer = world.signer();
    // It looks at the queue before it signs the first set.
    world.set_after(0);
    assert_eq!(world.count("SELECT count(*) FROM deployments WHERE state = 'built'"), 1);
    std::fs::remove_dir(&store).unwrap();
    std::fs::rename(&away, &store).unwrap();
    assert_eq!(world.ended(id), outcome("admitted", &[]));
}

#[test]
fn only_the_decisions_of_today_count() {
    let mut world = World::new();
    let _signer = world.signer();
    let checksum = Digest::of(b"crate").to_string();
    world
        .sql
        .execute(
            "INSERT INTO crates (name, version, checksum, features, direct, status, decided_by, reason)
             VALUES ('itoa', '1.0.15', $1, '{}', true, 'allowed', 'seed', 'small')",
            &[&checksum],
        )
        .unwrap();
    let (cache, needs) = (Digest::of(b"cache").to_string(), serde_json::json!([]));
    world
        .sql
        .execute(
            "INSERT INTO cached_crates (cache, base, toolchain, name, version, checksum, closure)
             VALUES ($1, $1, $2, 'itoa', '1.0.15', $3, $4)",
            &[&cache, &toolchain().to_string(), &checksum, &needs],
        )
        .unwrap();
    let manifest = format!("{MANIFEST}[dependencies]\nitoa = \"1\"\n");
    let source = SOURCE;
    let used = |decided_by: &str, checksum: &str| DecisionUsed {
        name: "itoa".parse().unwrap(),
        version: "1.0.15".to_owned(),
        checksum: checksum.to_owned(),
        decided_by: decided_by.to_owned(),
    };
    let id = world.built_from(&manifest, source, |claim| claim.decisions = vec![used("somebody", &checksum)]);
    assert_eq!(world.ended(id), outcome("admitted", &[]));
    let statement = world.statement(id);
    assert_eq!(statement.predicate.decisions, [used("seed", &checksum)], "the name comes from the allowlist");

    let crates: i64 = world
        .sql
        .query_one(
            "SELECT count(*) FROM version_crates WHERE (name, crate_version, checksum) = ('itoa', '1.0.15', $1)",
            &[&checksum],
        )
        .unwrap()
        .get(0);
    assert_eq!(crates, 1, "a revocation will find the version");

    let id = world.built_from(&manifest, source, |_| {});
    assert_eq!(world.ended(id), outcome("failed", &["MF0603"]), "a dependency is not claimed");
    let other = Digest::of(b"other crate").to_string();
    let id = world.built(|claim| claim.decisions = vec![used("reviewer", &other)]);
    assert_eq!(world.ended(id), outcome("failed", &["MF0603"]), "another checksum");
    for elsewhere in
        ["scope = 'other'", "scope = '', toolchain = 'other'", "toolchain = '', expires_at = now()"]
    {
        world.sql.batch_execute(&format!("UPDATE crates SET {elsewhere}")).unwrap();
        let id = world.built_from(&manifest, source, |claim| claim.decisions = vec![used("seed", &checksum)]);
        assert_eq!(world.ended(id), outcome("failed", &["MF0604"]), "{elsewhere}");
    }
    world
        .sql
        .batch_execute("UPDATE crates SET expires_at = NULL, status = 'revoked', reason = 'CVE'")
        .unwrap();
    let id = world.built_from(&manifest, source, |claim| claim.decisions = vec![used("reviewer", &checksum)]);
    assert_eq!(world.ended(id), outcome("refused", &["MF0209"]));
}

#[test]
fn a_revoked_artifact_is_neither_served_nor_signed_again() {
    let mut world = World::new();
    let _signer = world.signer();
    let id = world.built(|_| {});
    assert_eq!(world.ended(id), outcome("admitted", &[]));
    let before = world.set_after(1);
    let digest = Digest::of(artifact()).to_string();
    world
        .sql
        .execute(
            "INSERT INTO revocations (artifact, reason, revoked_by) VALUES ($1, 'test', 'test')",
            &[&digest],
        )
        .unwrap();
    world.sql.batch_execute("SELECT bump_desired_generation()").unwrap();
    let after = world.set_after(before.epoch.0);
    let functions = world.functions(&after);
    assert!(functions[0].versions.is_empty() && functions[0].revoked.contains(&Digest::of(artifact())));
    let id = world.built(|_| {});
    assert_eq!(world.ended(id), outcome("failed", &["MF0706"]));
}

#[test]
fn killed_signers_and_two_at_once_admit_each_deployment_exactly_once() {
    let mut world = World::new();
    let ids: Vec<_> = (0..12).map(|_| world.built(|_| {})).collect();
    for _ in 0..3 {
        let one = world.signer();
        let _two = world.signer();
        // In the middle of the work; dropping kills.
        std::thread::sleep(Duration::from_millis(60));
        drop(one);
    }
    let _last = world.signer();
    for id in ids {
        assert_eq!(world.ended(id), outcome("admitted", &[]));
    }
    assert_eq!(world.count("SELECT count(*) FROM versions"), 12);
    assert_eq!(world.count("SELECT max(version)::bigint FROM versions"), 12, "no number is left out");
    assert_eq!(world.count("SELECT count(*) FROM audit_log WHERE action = 'version.admitted'"), 12);
    let set = world.settled();
    assert_eq!(world.functions(&set)[0].versions.len(), 10, "the newest");
}

/// A database without room for the row fails nobody's deployment, however long it lasts.
#[test]
fn what_a_full_database_does_not_take_is_signed_when_it_has_room() {
    let mut world = World::new();
    let full = "CREATE SEQUENCE refused; GRANT USAGE ON SEQUENCE refused TO mfaas_signer;
                CREATE FUNCTION no_room() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
                    PERFORM nextval('refused');
                    RAISE EXCEPTION 'no room' USING ERRCODE = '53100';
                END $$;
                CREATE TRIGGER no_room BEFORE INSERT ON versions FOR EACH ROW EXECUTE FUNCTION no_room()";
    world.sql.batch_execute(full).unwrap();
    let id = world.built(|_| {});
    let _signer = world.signer();
    // One more than after which what goes wrong is given up.
    wait_for("the fourth try", || (world.count("SELECT last_value FROM refused") > 3).then_some(()));
    world.sql.batch_execute("DROP TRIGGER no_room ON versions").unwrap();
    assert_eq!(world.ended(id), outcome("admitted", &[]));
}

/// A right that the signer lacks, as after half an upgrade, says nothing about a deployment, however long it is missing.
#[test]
fn what_the_signer_may_not_do_yet_is_signed_when_it_may() {
    let mut world = World::new();
    let denied = "CREATE SEQUENCE refused; GRANT USAGE ON SEQUENCE refused TO mfaas_signer;
                  CREATE FUNCTION not_yet() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
                      PERFORM nextval('refused');
                      INSERT INTO tenants (name) VALUES ('other');
                      RETURN NEW;
                  END $$;
                  CREATE TRIGGER not_yet BEFORE INSERT ON versions FOR EACH ROW EXECUTE FUNCTION not_yet()";
    world.sql.batch_execute(denied).unwrap();
    let id = world.built(|_| {});
    let _signer = world.signer();
    // One more than after which what goes wrong is given up.
    wait_for("the fourth try", || (world.count("SELECT last_value FROM refused") > 3).then_some(()));
    world.sql.batch_execute("DROP TRIGGER not_yet ON versions").unwrap();
    assert_eq!(world.ended(id), outcome("admitted", &[]));
}

/// Every change that anybody makes writes an audit row: a signer that cannot sign between two of them never signs.
#[test]
fn sets_are_signed_while_audit_rows_never_stop_coming() {
    let mut world = World::new();
    let _signer = world.signer();
    let first = world.set_after(0);
    let noise = Arc::new(AtomicBool::new(true));
    for _ in 0..2 {
        let (mut other, noise) = (world.connect("mfaas_server"), Arc::clone(&noise));
        // Not joined: a test that fails must not wait for it. It ends with the database at the latest.
        std::thread::spawn(move || {
            while noise.load(Ordering::Relaxed)
                && other.batch_execute("SELECT append_audit('test', 'noise', '', '', '{}')").is_ok()
            {
            }
        });
    }
    let mut epoch = first.epoch;
    for _ in 0..10 {
        world.sql.execute("SELECT bump_desired_generation()", &[]).unwrap();
        epoch = world.set_after(epoch.0).epoch;
    }
    noise.store(false, Ordering::Relaxed);
    assert!(world.count("SELECT count(*) FROM audit_log WHERE action = 'noise'") > 10);
    assert_eq!(world.count("SELECT count(*) FROM audit_log WHERE action = 'serving_set.signed'"), 11);
}

/// With the rights of the server's database role and of the blob store: another program under a benign source.
#[test]
fn a_taken_over_server_gets_nothing_signed() {
    let mut world = World::new();
    let benign = world.built(|_| {});
    let _signer = world.signer();
    assert_eq!(world.ended(benign), outcome("admitted", &[]));
    let mut server = world.connect("mfaas_server");
    let denied = |error: postgres::Error| {
        let cause = error.as_db_error().unwrap().clone();
        (cause.code().code().to_owned(), cause.constraint().map(str::to_owned))
    };
    // What was signed before: finished rows, made at once.
    let copy = "INSERT INTO deployments (id, tenant, function, idempotency_key, source_digest, source_bytes, submitted_by, state)
                SELECT gen_random_uuid(), tenant, 'pay', 'forged', source_digest, source_bytes, submitted_by, 'built'
                FROM deployments";
    assert_eq!(denied(server.execute(copy, &[]).unwrap_err()).0, "42501");
    let rows = "INSERT INTO deployments (tenant, function, idempotency_key, source_digest, source_bytes, submitted_by)
                SELECT tenant, 'pay', 'forged', source_digest, source_bytes, submitted_by FROM deployments RETURNING id";
    let id: Uuid = server.query_one(rows, &[]).unwrap().get(0);
    let claimed =
        "INSERT INTO builds (deployment_id, attempt, fencing_token, committed_token, claim, finished_at)
                   SELECT $1, 1, 1, 1, claim, now() FROM builds LIMIT 1";
    assert_eq!(denied(server.execute(claimed, &[&id]).unwrap_err()).0, "42501");
    server.execute("INSERT INTO builds (deployment_id) VALUES ($1)", &[&id]).unwrap();
    assert_eq!(denied(server.execute("UPDATE builds SET claim = '{}'", &[]).unwrap_err()).0, "42501");
    for state in ["building", "built", "failed"] {
        let moved = server.execute("UPDATE deployments SET state = $2 WHERE id = $1", &[&id, &state]);
        let constraint = denied(moved.unwrap_err()).1.unwrap();
        assert!(constraint.starts_with("deployments_state_"), "{state}: {constraint}");
    }
    // A build that was admitted is not opened again.
    let reopened =
        server.execute("UPDATE builds SET finished_at = NULL WHERE deployment_id = $1", &[&benign]);
    assert_eq!(denied(reopened.unwrap_err()).1.as_deref(), Some("builds_not_waiting"));
    let accepted = server.execute("UPDATE toolchains SET accepted = true", &[]);
    assert_eq!(denied(accepted.unwrap_err()).0, "42501");
    // A benign deployment after it: the signer has been there.
    let next = world.built(|_| {});
    assert_eq!(world.ended(next), outcome("admitted", &[]));
    assert_eq!(world.count("SELECT count(*) FROM versions WHERE function = 'pay'"), 0);
    assert_eq!(world.count("SELECT count(*) FROM statements"), 2);
}

#[test]
fn an_epoch_that_a_node_has_seen_is_never_signed_again() {
    let mut world = World::new();
    let _signer = world.signer();
    let first = world.set_after(0);
    let report = |epoch: i64| {
        format!(
            "INSERT INTO nodes (name, certificate_sha256) VALUES ('node-{epoch}', '{epoch}');
             INSERT INTO node_reports (node, boot, sequence, epoch, body)
             VALUES ('node-{epoch}', gen_random_uuid(), 1, {epoch}, '{{}}')"
        )
    };
    world.sql.batch_execute(&report(500)).unwrap();
    let second = world.set_after(first.epoch.0);
    assert_eq!(second.epoch, Epoch(501), "as after a restored backup");
    world.sql.batch_execute(&report(i64::MAX)).unwrap();
    world.sql.batch_execute("SELECT bump_desired_generation()").unwrap();
    assert_eq!(world.set_after(501).epoch, Epoch(502), "a lying node does not use up the numbers");
}

#[test]
fn keys_are_made_once_and_kept_from_others() {
    let world = World::new();
    let online = world.keys().join("statements.key");
    let before = std::fs::read(&online).unwrap();
    assert_eq!(std::fs::metadata(&online).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(std::fs::metadata(world.keys()).unwrap().permissions().mode() & 0o777, 0o700);
    assert!(world.init().status.success());
    assert_eq!(std::fs::read(&online).unwrap(), before, "a second init changes nothing");
    std::fs::remove_file(world.root().join("root.key")).unwrap();
    let half = world.init();
    assert!(!half.status.success());
    assert!(String::from_utf8_lossy(&half.stderr).contains("root.key"));
    assert_eq!(std::fs::read(&online).unwrap(), before);
}

#[test]
fn only_a_list_of_the_root_is_published() {
    let mut world = World::new();
    let list = world.root().join("keylist.json");
    assert!(world.publish(&list).status.success(), "the same list again is fine");
    let text = std::fs::read_to_string(&list).unwrap();
    std::fs::write(&list, text.replace("payloadType\":\"a", "payloadType\":\"b")).unwrap();
    assert!(!world.publish(&list).status.success());
    assert_eq!(world.count("SELECT count(*) FROM key_lists"), 1);
}
