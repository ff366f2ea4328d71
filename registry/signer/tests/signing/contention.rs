//! Another session that takes the signer's locks in an order of its own.

use std::time::{Duration, Instant};

use super::outcome;
use crate::world::{World, wait_for};
use mfaas_test_postgres::OWNER;

/// A deployment that goes wrong by itself is left alone for longer.
const AT_ONCE: Duration = Duration::from_secs(3);

/// The signer locks the function first and what nodes should serve last; the other session goes the other way.
#[test]
fn what_a_foreign_session_locks_in_the_opposite_order_is_signed_at_once() {
    let mut world = World::new();
    // Ours notices the deadlock, and the other session does not.
    let patience = "DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET deadlock_timeout = ''4s''', current_database()); END $$";
    world.sql.batch_execute(patience).unwrap();
    let _signer = world.signer();
    let first = world.built(|_| {});
    assert_eq!(world.ended(first), outcome("admitted", &[]));
    world.settled();
    let mut foreign = world.connect(OWNER);
    foreign
        .batch_execute("SET deadlock_timeout = '1h'; BEGIN; SELECT 1 FROM desired_generation FOR UPDATE")
        .unwrap();
    let id = world.built(|_| {});
    waits(&mut world);
    foreign.batch_execute("SELECT 1 FROM functions FOR UPDATE").unwrap();
    let ended = Instant::now();
    waits(&mut world);
    assert!(ended.elapsed() < AT_ONCE, "it was put off for {:?}", ended.elapsed());
    foreign.batch_execute("ROLLBACK").unwrap();
    assert_eq!(world.ended(id), outcome("admitted", &[]));
    let begun = "SELECT count(*) FROM deployment_events WHERE body ->> 'stage' = 'sign' AND body ->> 'kind' = 'started'";
    assert_eq!(world.count(begun), 2, "what was ended left nothing");
}

/// Until the signer waits for a lock.
fn waits(world: &mut World) {
    let sql = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'
               AND application_name = 'mfaas-signer'";
    wait_for("a signer that waits", || (world.count(sql) == 1).then_some(()));
}
