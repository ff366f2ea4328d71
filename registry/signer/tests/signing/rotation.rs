//! Rotation of the online key, with the trust that a node derives from its pinned root.

use chrono::{TimeDelta, Utc};
use mfaas_attest::{ServingSet, Statement, Trust, verify};
use mfaas_ident::Digest;

use crate::world::World;

fn accepts_set(trust: &Trust, envelope: &str) -> bool {
    verify::<ServingSet>(envelope.as_bytes(), trust).is_ok()
}

fn accepts_statement(trust: &Trust, envelope: &str) -> bool {
    verify::<Statement>(envelope.as_bytes(), trust).is_ok()
}

/// A version admitted by a running signer, with its statement and the set that serves it.
fn admitted(world: &mut World) -> (String, String) {
    let before = world.set_after(0).epoch.0;
    let id = world.built(|_| {});
    assert_eq!(world.ended(id).0, "admitted");
    let _ = world.set_after(before);
    (world.statement_envelope(id), world.set_envelope())
}

#[test]
fn both_keys_count_during_the_overlap_and_statements_outlive_it() {
    let mut world = World::new();
    let signer = world.signer();
    let (old_statement, old_set) = admitted(&mut world);
    let stale = world.trust();
    world.rotate(&[]);
    // The signer that still runs has the old key; nodes have either list.
    let (statement, set) = admitted(&mut world);
    for trust in [&stale, &world.trust()] {
        assert!(accepts_statement(trust, &statement) && accepts_set(trust, &set), "signed with the old key");
    }
    signer.stop();
    let _signer = world.signer();
    let (new_statement, new_set) = admitted(&mut world);
    let overlap = world.trust();
    assert!(accepts_statement(&overlap, &old_statement) && accepts_set(&overlap, &old_set));
    assert!(accepts_statement(&overlap, &new_statement) && accepts_set(&overlap, &new_set));
    assert!(!accepts_set(&stale, &new_set), "a node without the new list waits for it");
    let after = world.trust_at(Utc::now() + TimeDelta::days(8));
    assert!(!accepts_set(&after, &old_set) && accepts_set(&after, &new_set));
    assert!(accepts_statement(&after, &old_statement), "what was admitted is served on");
}

#[test]
fn a_renewed_key_signs_on_without_a_new_one() {
    let mut world = World::new();
    let online = |world: &World| ["statements.key", "serving-sets.key"].map(|name| world.key_file(name));
    let before = online(&world);
    let _signer = world.signer();
    let (statement, _) = admitted(&mut world);
    world.rotate(&["--renew"]);
    assert_eq!(online(&world), before);
    let late = world.trust_at(Utc::now() + TimeDelta::days(364));
    assert!(accepts_statement(&late, &statement) && accepts_set(&late, &world.set_envelope()));
    assert_eq!(world.count("SELECT max(version)::bigint FROM key_lists"), 2);
}

#[test]
fn after_a_leak_nothing_of_the_old_key_counts_and_a_new_set_is_signed() {
    let mut world = World::new();
    let signer = world.signer();
    let (old_statement, old_set) = admitted(&mut world);
    signer.stop();
    world.rotate(&["--leaked"]);
    let trust = world.trust();
    assert!(!accepts_statement(&trust, &old_statement) && !accepts_set(&trust, &old_set));
    let before = world.count("SELECT max(epoch) FROM serving_sets");
    let _signer = world.signer();
    let next = world.set_after(u64::try_from(before).unwrap());
    assert!(i64::try_from(next.epoch.0).unwrap() > before, "publishing a list makes a set due");
}

#[test]
fn statements_come_back_after_a_leak_without_a_build() {
    let mut world = World::new();
    let signer = world.signer();
    let (old_statement, _) = admitted(&mut world);
    let (retired, _) = admitted(&mut world);
    world.sql.batch_execute("UPDATE versions SET retired_at = now() WHERE version = 2").unwrap();
    signer.stop();
    world.rotate(&["--leaked", "statements"]);
    let trust = world.trust();
    assert!(!accepts_statement(&trust, &old_statement));
    let _signer = world.signer();
    let before = world.set_after(0).epoch.0;
    let output = world.resign();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(String::from_utf8_lossy(&output.stdout).starts_with("1 statements are signed again, 0 "));

    // A set may have been signed in between, for the list.
    world.set_after(before);
    let set = world.settled();
    let named = world.functions(&set)[0].versions[0].statement;
    assert_ne!(named, Digest::of(old_statement.as_bytes()));
    let sql = format!("SELECT envelope FROM statements WHERE digest = '{named}'");
    let statement: String = world.sql.query_one(&sql, &[]).unwrap().get(0);
    assert!(accepts_statement(&trust, &statement) && !accepts_statement(&trust, &retired));
    let (old, new) = (payload(&old_statement), payload(&statement));
    assert_eq!(old, new, "another signature under the same words");
    let again = world.resign();
    assert!(String::from_utf8_lossy(&again.stdout).starts_with("0 statements are signed again, 1 "));
    assert_eq!(world.count("SELECT count(*) FROM audit_log WHERE action = 'statements.resigned'"), 1);
}

#[test]
fn what_the_database_does_not_say_is_not_signed_again() {
    let mut world = World::new();
    let signer = world.signer();
    let _ = admitted(&mut world);
    let _ = admitted(&mut world);
    signer.stop();
    // The statement of version 2 about version 1, and one of a key that was never listed.
    world
        .sql
        .batch_execute("UPDATE versions SET statement = (SELECT statement FROM versions WHERE version = 2)")
        .unwrap();
    world.rotate(&["--leaked"]);
    let output = world.resign();
    assert!(!output.status.success());
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("acme/hello@1: the statement is about something else"), "{said}");
    assert!(String::from_utf8_lossy(&output.stdout).starts_with("1 statements are signed again"));
}

#[test]
fn the_single_key_of_an_older_installation_signs_on_and_becomes_two() {
    let mut world = World::new();
    world.back_to_one_key();
    let signer = world.signer();
    let (statement, set) = admitted(&mut world);
    let trust = world.trust();
    assert!(accepts_statement(&trust, &statement) && accepts_set(&trust, &set));
    assert!(world.init().status.success(), "nothing is missing");
    signer.stop();
    world.rotate(&[]);
    assert!(!world.keys().join("online.key").exists());
    assert_ne!(world.key_file("statements.key"), world.key_file("serving-sets.key"));
    let _signer = world.signer();
    let (statement, set) = admitted(&mut world);
    let trust = world.trust();
    assert!(accepts_statement(&trust, &statement) && accepts_set(&trust, &set));
}

/// What was signed.
fn payload(envelope: &str) -> String {
    let envelope: serde_json::Value = serde_json::from_str(envelope).unwrap();
    envelope["payload"].as_str().unwrap().to_owned()
}
