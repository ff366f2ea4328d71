//! Builders that have to make the same before anything is signed.

use mfaas_attest::{BuildClaim, SandboxLevel};
use mfaas_ident::{Digest, ToolchainId};
use uuid::Uuid;

use super::outcome;
use crate::sample::{artifact, other_artifact};
use crate::world::{World, wait_for};

const TWO: (&str, &str) = ("MFAAS_BUILDS_AGREEMENT", "2");

fn other(claim: &mut BuildClaim) {
    claim.artifact = Digest::of(other_artifact());
    claim.artifact_bytes = other_artifact().len() as u64;
}

fn newer(claim: &mut BuildClaim) {
    claim.toolchain = ToolchainId(Digest::of(b"a newer toolchain"));
}

impl World {
    /// A builder's claim, and what becomes of the deployment.
    fn given(&mut self, role: &str, id: Uuid, alter: fn(&mut BuildClaim)) -> (String, Vec<String>) {
        // Whoever takes a build by its own connection heeds no pause; claims do.
        self.built_by(role, id, alter);
        self.ended(id)
    }

    fn accept_newer_toolchain(&mut self) {
        let id = Digest::of(b"a newer toolchain").to_string();
        let sql = "INSERT INTO toolchains (id, accepted, decided_by) VALUES ($1, true, 'seed')";
        self.sql.execute(sql, &[&id]).unwrap();
    }

    fn nothing_is_signed(&mut self) {
        for table in ["versions", "statements", "artifacts", "functions"] {
            assert_eq!(self.count(&format!("SELECT count(*) FROM {table}")), 0, "{table}");
        }
    }
}

fn asked() -> (String, Vec<String>) {
    outcome("received", &["MF0609"])
}

#[test]
fn what_two_builders_made_the_same_is_signed_and_names_them() {
    let mut world = World::new();
    let _signer = world.signer_with(&[TWO, ("MFAAS_SANDBOX_MINIMUM", "landlock")]);
    assert_eq!(
        world.count("SELECT builders::bigint FROM agreement"),
        2,
        "others can tell people why it waits"
    );
    let (one, two) = (world.builder("one"), world.builder("two"));
    let id = world.uploaded();
    assert_eq!(world.given(&one, id, |claim| claim.sandbox_level = SandboxLevel::Landlock), asked());
    world.nothing_is_signed();
    let told = "SELECT count(*) FROM deployment_events WHERE body ->> 'kind' = 'diagnostic'
                AND body #>> '{diagnostics,0,level}' = 'warning'
                AND body #>> '{diagnostics,0,message}' LIKE '2 builders %No other builder is there%'";
    assert_eq!(world.count(told), 1, "whoever follows learns why it waits");
    assert_eq!(world.given(&two, id, |_| {}), outcome("admitted", &[]));
    let admitted = world.statement(id).predicate.clone();
    let fields = admitted.fields.unwrap();
    assert_eq!(fields.optional()["builders"], serde_json::json!([one, two]));
    assert_eq!(admitted.sandbox_level, SandboxLevel::Landlock, "the weaker of the two");
    assert_eq!(world.count("SELECT count(*) FROM audit_log WHERE action = 'signing.another_builder'"), 1);
}

#[test]
fn one_builder_is_enough_where_nothing_else_is_demanded_and_is_not_named() {
    let mut world = World::new();
    let _signer = world.signer();
    let one = world.builder("one");
    let id = world.uploaded();
    assert_eq!(world.given(&one, id, |_| {}), outcome("admitted", &[]));
    assert!(world.statement(id).predicate.fields.clone().unwrap().optional().is_empty());
    for number in ["0", "5", "two"] {
        let said = world.refuses_to_serve(TWO.0, number);
        assert!(said.contains(TWO.0), "{said}");
    }
}

#[test]
fn another_builder_that_is_there_is_not_said_to_be_missing() {
    let mut world = World::new();
    let _signer = world.signer_with(&[TWO]);
    let (one, two) = (world.builder("one"), world.builder("two"));
    for role in [&one, &two] {
        let sql = format!("INSERT INTO builders (instance) VALUES ('of {role}')");
        world.connect(role).batch_execute(&sql).unwrap();
    }
    let missing = "SELECT count(*) FROM deployments WHERE diagnostics #>> '{0,message}' LIKE '%No other%'";
    let id = world.uploaded();
    assert_eq!(world.given(&one, id, |_| {}), asked());
    assert_eq!(world.count(missing), 0);
    world.sql.batch_execute("UPDATE builders SET unwell = 'no room' WHERE role::text LIKE '%two'").unwrap();
    let id = world.uploaded();
    assert_eq!(world.given(&one, id, |_| {}), asked());
    assert_eq!(world.count(missing), 1, "one that cannot build is none");
}

#[test]
fn different_artifacts_end_the_deployment_and_name_both_builders() {
    let mut world = World::new();
    world.put(other_artifact());
    let _signer = world.signer_with(&[TWO]);
    let (one, two) = (world.builder("one"), world.builder("two"));
    let id = world.uploaded();
    assert_eq!(world.given(&one, id, |_| {}), asked());
    assert_eq!(world.given(&two, id, other), outcome("failed", &["MF0608"]));
    world.nothing_is_signed();
    let detail: serde_json::Value = world
        .sql
        .query_one("SELECT detail FROM audit_log WHERE action = 'signing.disagreement'", &[])
        .unwrap()
        .get(0);
    let said = |number: usize, name: &str| detail["claims"][number][name].as_str().unwrap().to_owned();
    assert_eq!((said(0, "builder"), said(1, "builder")), (one.clone(), two.clone()));
    let (first, second) = (Digest::of(artifact()).to_string(), Digest::of(other_artifact()).to_string());
    assert_eq!((said(0, "artifact"), said(1, "artifact")), (first, second));
}

#[test]
fn what_waits_is_signed_when_fewer_builders_have_to_agree() {
    let mut world = World::new();
    world.put(other_artifact());
    let signer = world.signer_with(&[(TWO.0, "3")]);
    let (one, two) = (world.builder("one"), world.builder("two"));
    let [by_two, by_one, different, under_way] = std::array::from_fn(|_| world.uploaded());
    for (id, roles) in
        [(by_two, &[&one, &two][..]), (by_one, &[&one]), (different, &[&one]), (under_way, &[&one])]
    {
        for role in roles {
            assert_eq!(world.given(role, id, |_| {}), asked());
        }
    }
    world.taken_by(&two, under_way);
    signer.stop();

    let signer = world.signer_with(&[TWO]);
    let signed = |world: &mut World, id| {
        let what = "SELECT state FROM deployments WHERE id = $1 AND state = 'admitted'";
        wait_for("what enough builders have made", || world.sql.query_opt(what, &[&id]).unwrap());
        let builders =
            world.statement(id).predicate.fields.clone().unwrap().optional().get("builders").cloned();
        builders.unwrap_or_default()
    };
    assert_eq!(signed(&mut world, by_two), serde_json::json!([one, two]));
    let taken_up = "SELECT count(*) FROM audit_log WHERE action = 'signing.taken_up'";
    assert_eq!(world.count(taken_up), 1, "of the others one builder is not enough");
    // A claim that is kept counts, whatever the signer demands later.
    assert_eq!(world.given(&two, different, other), outcome("failed", &["MF0608"]));
    signer.stop();

    let _signer = world.signer();
    assert_eq!(signed(&mut world, by_one), serde_json::Value::Null, "one stands for itself");
    assert_eq!(world.count(taken_up), 2, "whoever builds goes on");
    assert_eq!(world.count("SELECT count(*) FROM deployments WHERE state = 'building'"), 1);
    assert_eq!(world.count("SELECT count(*) FROM build_claims"), 3, "those that were not the newest");
}

#[test]
fn three_builders_have_to_be_three() {
    let mut world = World::new();
    let _signer = world.signer_with(&[(TWO.0, "3")]);
    let roles = ["one", "two", "three"].map(|name| world.builder(name));
    let id = world.uploaded();
    assert_eq!(world.given(&roles[0], id, |_| {}), asked());
    assert_eq!(world.given(&roles[1], id, |_| {}), asked());
    let again = world.connect(&roles[0]).execute("UPDATE builds SET attempt = 1", &[]).unwrap_err();
    assert_eq!(again.as_db_error().unwrap().constraint(), Some("builds_one_claim_each"));
    world.nothing_is_signed();
    assert_eq!(world.given(&roles[2], id, |_| {}), outcome("admitted", &[]));
}

/// While builders are updated one after the other they work with different compilers, and nobody lies.
#[test]
fn builders_with_other_inputs_are_asked_again_and_not_for_ever() {
    let mut world = World::new();
    world.accept_newer_toolchain();
    let _signer = world.signer_with(&[TWO]);
    let (one, two) = (world.builder("one"), world.builder("two"));
    let id = world.uploaded();
    assert_eq!(world.given(&one, id, |_| {}), asked());
    assert_eq!(world.given(&two, id, newer), asked());
    assert_eq!(world.count("SELECT count(*) FROM build_claims"), 1, "the older one is of no use");
    assert_eq!(world.given(&one, id, newer), outcome("admitted", &[]));
    assert_eq!(world.statement(id).predicate.toolchain, ToolchainId(Digest::of(b"a newer toolchain")));
    let id = world.uploaded();
    assert_eq!(world.given(&one, id, |_| {}), asked());
    for round in 1..8 {
        let (role, alter): (_, fn(&mut BuildClaim)) =
            if round % 2 == 1 { (&two, newer) } else { (&one, |_| {}) };
        assert_eq!(world.given(role, id, alter), asked(), "round {round}");
    }
    assert_eq!(world.given(&one, id, |_| {}), outcome("failed", &["MF0608"]));
}

#[test]
fn a_rebuild_for_other_rules_begins_with_no_claim() {
    let mut world = World::new();
    let _signer = world.signer_with(&[TWO]);
    let (one, two) = (world.builder("one"), world.builder("two"));
    let id = world.uploaded();
    assert_eq!(world.given(&one, id, |_| {}), asked());
    let old = |claim: &mut BuildClaim| claim.policy_revision = "of another release".to_owned();
    assert_eq!(world.given(&two, id, old), outcome("received", &[]));
    assert_eq!(world.count("SELECT (SELECT count(*) FROM build_claims) + max(rounds) FROM builds"), 0);
    assert_eq!(world.given(&one, id, |_| {}), asked());
    assert_eq!(world.given(&two, id, |_| {}), outcome("admitted", &[]));
}
