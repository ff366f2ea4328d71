//! Keys for call tokens: one at a time is used, and the older ones run out or are withdrawn.

use chrono::{TimeDelta, Utc};
use mfaas_attest::{CALL_TOKEN_LIFE_MAX, PrivateKey, PublicKey};
use mfaas_catalog::{Before, CALL_KEY_LIFE, CALL_KEY_SETTLE, CatalogError};

use crate::fixture::{World, actor};

fn key() -> PublicKey {
    PrivateKey::generate().unwrap().public()
}

fn about(found: chrono::DateTime<Utc>, expected: TimeDelta) -> bool {
    (found - Utc::now() - expected).abs() < TimeDelta::seconds(20)
}

#[tokio::test]
async fn a_new_key_is_used_when_nodes_know_it_and_the_old_one_outlives_its_last_token() {
    let world = World::new().await;
    let before = world.count("SELECT generation FROM desired_generation").await;
    let first = world.server.add_call_key(&actor(), &key(), Before::RunOut(&[])).await.unwrap();
    assert!(first.used_from <= Utc::now(), "there is no other key to use meanwhile");
    assert!(about(first.not_after, CALL_KEY_LIFE));
    let second = world.server.add_call_key(&actor(), &key(), Before::RunOut(&[first.id])).await.unwrap();
    assert!(about(second.used_from, CALL_KEY_SETTLE));
    assert_eq!(world.count("SELECT generation FROM desired_generation").await, before + 2, "nodes hear");
    let keys = world.server.call_keys().await.unwrap();
    assert_eq!(keys.iter().map(|row| row.id).collect::<Vec<_>>(), [second.id, first.id]);
    // Whatever is signed until the second is used counts until its own end.
    assert!(about(keys[1].not_after, CALL_KEY_SETTLE + CALL_TOKEN_LIFE_MAX));
    assert_eq!(world.count("SELECT count(*) FROM audit_log WHERE action = 'call_key.made'").await, 2);
    // Another server of the site has its own, which ends nobody's, and is used at once: that server has no other.
    let other = world.server.add_call_key(&actor(), &key(), Before::RunOut(&[])).await.unwrap();
    assert!(other.used_from <= Utc::now());
    let keys = world.server.call_keys().await.unwrap();
    assert!(about(keys.iter().find(|row| row.id == second.id).unwrap().not_after, CALL_KEY_LIFE));
}

#[tokio::test]
async fn a_leaked_key_is_withdrawn_at_once() {
    let world = World::new().await;
    for _ in 0..2 {
        world.server.add_call_key(&actor(), &key(), Before::RunOut(&[])).await.unwrap();
    }
    let last = world.server.add_call_key(&actor(), &key(), Before::Withdrawn).await.unwrap();
    assert!(last.used_from <= Utc::now());
    let keys = world.server.call_keys().await.unwrap();
    assert_eq!(keys.iter().map(|row| row.id).collect::<Vec<_>>(), [last.id]);
}

#[tokio::test]
async fn keys_that_have_not_ended_are_bounded() {
    let world = World::new().await;
    for _ in 0..8 {
        world.server.add_call_key(&actor(), &key(), Before::RunOut(&[])).await.unwrap();
    }
    let refused = world.server.add_call_key(&actor(), &key(), Before::RunOut(&[])).await;
    assert!(matches!(refused, Err(CatalogError::Conflict { .. })), "{refused:?}");
    assert_eq!(world.server.call_keys().await.unwrap().len(), 8);
    world.server.add_call_key(&actor(), &key(), Before::Withdrawn).await.unwrap();
}
