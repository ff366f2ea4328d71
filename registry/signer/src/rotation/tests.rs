#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use chrono::{DateTime, TimeDelta, Utc};
use mfaas_attest::{KeyList, PrivateKey, PublicKey, Purpose, Trust, sign, verify};

use super::{Change, first_list, next_list};

fn key() -> PublicKey {
    PrivateKey::generate().unwrap().public()
}

fn start() -> DateTime<Utc> {
    "2027-01-01T00:00:00Z".parse().unwrap()
}

/// For each purpose in the order of rows: days after `start` at which the key stops counting.
fn days(list: &KeyList, key: &PublicKey) -> Vec<(Purpose, i64)> {
    let of_key = list.keys.iter().filter(|row| row.public == *key);
    of_key.map(|row| (row.purpose, (row.not_after - start()).num_days())).collect()
}

fn both(days: i64) -> Vec<(Purpose, i64)> {
    vec![(Purpose::Artifact, days), (Purpose::ServingSet, days)]
}

#[test]
fn a_replaced_key_signs_sets_for_a_week_and_its_statements_stay() {
    let (old, new) = (key(), key());
    let first = first_list(&old, start());
    assert_eq!(days(&first, &old), both(365));
    let later = start() + TimeDelta::days(100);
    let second = next_list(&first, &old, &new, Change::Replace, later).unwrap();
    assert_eq!((second.version, second.issued_at), (2, later));
    assert_eq!(days(&second, &old), [(Purpose::Artifact, 365), (Purpose::ServingSet, 107)]);
    assert_eq!(days(&second, &new), both(465));
}

#[test]
fn renewing_keeps_an_installation_alive_with_all_that_it_ever_admitted() {
    let (old, new) = (key(), key());
    let mut list = next_list(&first_list(&old, start()), &old, &new, Change::Replace, start()).unwrap();
    for year in 1..=5 {
        let now = start() + TimeDelta::days(360 * year);
        list = next_list(&list, &new, &new, Change::Renew, now).unwrap();
        assert_eq!(days(&list, &new), both(360 * year + 365));
        assert_eq!(days(&list, &old), [(Purpose::Artifact, 360 * year + 365)], "its last set is long gone");
    }
    assert_eq!(list.version, 7);
}

#[test]
fn a_leaked_key_counts_for_nothing() {
    let (old, new) = (key(), key());
    let next = next_list(&first_list(&old, start()), &old, &new, Change::ReplaceLeaked, start()).unwrap();
    assert_eq!((days(&next, &old), days(&next, &new)), (vec![], both(365)));
}

#[test]
fn a_key_of_another_installation_is_refused() {
    let list = first_list(&key(), start());
    assert!(next_list(&list, &key(), &key(), Change::Replace, start()).is_err());
}

#[test]
fn a_thousand_rotations_make_no_list_that_nodes_refuse() {
    let root = PrivateKey::generate().unwrap();
    let mut present = key();
    let mut list = first_list(&present, start());
    for day in 0..1_000 {
        let (next, now) = (key(), start() + TimeDelta::days(7 * day));
        list = next_list(&list, &present, &next, Change::Replace, now).unwrap();
        present = next;
    }
    assert!(verify::<KeyList>(&sign(&list, &[&root]).unwrap(), &Trust::pinned(root.public())).is_ok());
}
