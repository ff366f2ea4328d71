//! Rotation of the online key, with the trust that a node derives from its pinned root.

use chrono::{TimeDelta, Utc};
use mfaas_attest::{ServingSet, Statement, Trust, verify};

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
    let online = std::fs::read(world.keys().join("online.key")).unwrap();
    let _signer = world.signer();
    let (statement, _) = admitted(&mut world);
    world.rotate(&["--renew"]);
    assert_eq!(std::fs::read(world.keys().join("online.key")).unwrap(), online);
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
