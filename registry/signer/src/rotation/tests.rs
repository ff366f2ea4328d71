#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use chrono::{DateTime, TimeDelta, Utc};
use mfaas_attest::{KeyList, PrivateKey, PublicKey, Purpose, Trust, sign, verify};

use super::{Change, Leaked, OnlineKeys, first_list, next_list};

fn key() -> PublicKey {
    PrivateKey::generate().unwrap().public()
}

/// One key for both, as in an installation from before there were two.
fn single(key: PublicKey) -> OnlineKeys<PublicKey> {
    OnlineKeys { statements: key, sets: key }
}

fn two() -> OnlineKeys<PublicKey> {
    OnlineKeys { statements: key(), sets: key() }
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
    let (old, new) = (key(), two());
    let first = first_list(&key(), &single(old), start());
    assert_eq!(days(&first, &old), both(365));
    let later = start() + TimeDelta::days(100);
    let second = next_list(&first, None, (&single(old), &new), Change::Replace, later).unwrap();
    assert_eq!((second.version, second.issued_at), (2, later));
    assert_eq!(second.expires_at, Some(later + TimeDelta::days(365)));
    assert_eq!(days(&second, &old), [(Purpose::Artifact, 365), (Purpose::ServingSet, 107)]);
    assert_eq!(days(&second, &new.statements), [(Purpose::Artifact, 465)]);
    assert_eq!(days(&second, &new.sets), [(Purpose::ServingSet, 465)]);
}

#[test]
fn renewing_keeps_an_installation_alive_with_all_that_it_ever_admitted() {
    let (old, new) = (key(), key());
    let first = first_list(&key(), &single(old), start());
    let mut list = next_list(&first, None, (&single(old), &single(new)), Change::Replace, start()).unwrap();
    for year in 1..=5 {
        let now = start() + TimeDelta::days(360 * year);
        list = next_list(&list, None, (&single(new), &single(new)), Change::Renew, now).unwrap();
        assert_eq!(days(&list, &new), both(360 * year + 365));
        assert_eq!(days(&list, &old), [(Purpose::Artifact, 360 * year + 365)], "its last set is long gone");
    }
    assert_eq!(list.version, 7);
}

#[test]
fn a_leaked_key_counts_for_nothing_and_the_other_one_stays() {
    let old = two();
    let first = first_list(&key(), &old, start());
    let later = start() + TimeDelta::days(10);
    let next = |online: &OnlineKeys<PublicKey>, leaked| {
        next_list(&first, None, (&old, online), Change::ReplaceLeaked(leaked), later).unwrap()
    };
    let new = two();
    let list = next(&new, Leaked::Both);
    assert_eq!((days(&list, &old.statements), days(&list, &old.sets)), (vec![], vec![]));
    assert_eq!(days(&list, &new.statements), [(Purpose::Artifact, 375)]);

    let list = next(&OnlineKeys { sets: new.sets, ..old }, Leaked::Sets);
    assert_eq!(days(&list, &old.sets), []);
    assert_eq!(days(&list, &new.sets), [(Purpose::ServingSet, 375)]);
    assert_eq!(days(&list, &old.statements), [(Purpose::Artifact, 375)], "no statement is lost");

    let list = next(&OnlineKeys { statements: new.statements, ..old }, Leaked::Statements);
    assert_eq!(days(&list, &old.statements), []);
    assert_eq!(days(&list, &old.sets), [(Purpose::ServingSet, 375)]);
}

#[test]
fn a_single_key_cannot_leak_by_half() {
    let (old, new) = (key(), key());
    let first = first_list(&key(), &single(old), start());
    let next = |online, leaked| {
        next_list(&first, None, (&single(old), &online), Change::ReplaceLeaked(leaked), start())
    };
    assert!(next(OnlineKeys { statements: old, sets: new }, Leaked::Sets).is_err());
    assert!(next(OnlineKeys { statements: new, sets: old }, Leaked::Statements).is_err());
    let list = next(two(), Leaked::Both).unwrap();
    assert_eq!(days(&list, &old), []);
}

#[test]
fn a_rotation_that_broke_off_can_be_done_again() {
    let (old, unused, new) = (two(), two(), two());
    // The list was written, the keys were not.
    let broken = |change| {
        next_list(&first_list(&key(), &old, start()), None, (&old, &unused), change, start()).unwrap()
    };
    for change in [Change::Replace, Change::ReplaceLeaked(Leaked::Both)] {
        let list = next_list(&broken(change), None, (&old, &new), change, start()).unwrap();
        assert_eq!(days(&list, &new.sets), [(Purpose::ServingSet, 365)], "{change:?}");
    }
}

#[test]
fn keys_of_another_installation_are_refused() {
    let list = first_list(&key(), &two(), start());
    for change in [Change::Replace, Change::Renew] {
        assert!(next_list(&list, None, (&two(), &two()), change, start()).is_err());
    }
}

#[test]
fn a_thousand_rotations_make_no_list_that_nodes_refuse() {
    let root = PrivateKey::generate().unwrap();
    let mut present = two();
    let mut list = first_list(&key(), &present, start());
    for day in 0..1_000 {
        let (next, now) = (two(), start() + TimeDelta::days(7 * day));
        list = next_list(&list, None, (&present, &next), Change::Replace, now).unwrap();
        present = next;
    }
    let trust = Trust::of_key(Purpose::Root, root.public());
    assert!(verify::<KeyList>(&sign(&list, &[&root]).unwrap(), &trust).is_ok());
}
