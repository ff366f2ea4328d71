#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

//! Files that outlive the controller.

use mfaas_isolation_client::{Change, Limit, Mode, Role};

use super::Store;
use crate::members::{Record, Terms};

#[test]
fn what_was_kept_is_there_in_the_next_life() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(&dir.path().join("state")).unwrap();
    assert_eq!(store.settings().unwrap(), Change::default());
    assert!(store.members().unwrap().is_empty() && !store.is_off());

    let change = Change {
        mode: Some(Mode::Blind),
        buffer_cores: Some(3),
        memory_bytes: Some(Limit::None),
        off: None,
        revision: Some(7),
    };
    store.keep_settings(&change).unwrap();
    let record = Record {
        pid: 7,
        started: 8,
        name: "rustc".to_owned(),
        placed_by: 6,
        terms: Terms { role: Role::Secondary, may_stop: true, own_cores: vec![] },
    };
    store.keep_members(std::slice::from_ref(&record)).unwrap();
    store.set_off(true).unwrap();

    let again = Store::open(&dir.path().join("state")).unwrap();
    assert_eq!(again.settings().unwrap(), change);
    assert_eq!(again.members().unwrap(), [record]);
    assert!(again.is_off());
    again.set_off(false).unwrap();
    again.set_off(false).unwrap();
    assert!(!store.is_off());
}

#[test]
fn what_cannot_be_read_is_an_error_and_no_default() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path()).unwrap();
    std::fs::write(dir.path().join("settings.json"), "{\"mode\":\"blin").unwrap();
    let error = store.settings().unwrap_err().to_string();
    assert!(error.contains("settings.json"), "{error}");
}
