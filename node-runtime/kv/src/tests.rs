//! What a call reads of its own changes, without a database: everything that it may ask for is known here before.
#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use crate::limits::{VALUE_BYTES_MAX, WRITTEN_BYTES_MAX, WRITTEN_KEYS_MAX};
use crate::{Expiry, Key, KvError, Place, Transaction};

fn place(key: &str) -> Place {
    Place { resource: "hotels".parse().unwrap(), key: Key::new(key).unwrap() }
}

fn limit(error: KvError) -> (&'static str, usize, usize) {
    match error {
        KvError::Limit { what, count, max } => (what, count, max),
        error => panic!("{error}"),
    }
}

#[test]
fn a_call_changes_so_much_and_no_more() {
    let mut transaction = Transaction::default();
    let long = vec![0; VALUE_BYTES_MAX + 1];
    let error = transaction.put(place("a"), long, Expiry::Never).unwrap_err();
    assert_eq!(limit(error), ("bytes of a value", VALUE_BYTES_MAX + 1, VALUE_BYTES_MAX));
    assert!(!transaction.writes(), "nothing was kept of it");

    // A key that is changed again counts once, with what it is changed to last.
    for _ in 0..100 {
        transaction.put(place("a"), vec![0; VALUE_BYTES_MAX], Expiry::Never).unwrap();
    }
    let full = WRITTEN_BYTES_MAX / VALUE_BYTES_MAX;
    let more = (1..full).map(|number| place(&format!("{number:03}")));
    let error =
        more.map(|at| transaction.put(at, vec![0; VALUE_BYTES_MAX], Expiry::Never)).find_map(Result::err);
    assert_eq!(limit(error.unwrap()).0, "bytes changed by one call");
    transaction.delete(place("a")).unwrap();
    transaction.put(place("b"), vec![0; VALUE_BYTES_MAX - 600], Expiry::Never).unwrap();

    let mut transaction = Transaction::default();
    for number in 0..WRITTEN_KEYS_MAX {
        transaction.delete(place(&number.to_string())).unwrap();
    }
    transaction.delete(place("0")).unwrap();
    let error = transaction.delete(place("more")).unwrap_err();
    assert_eq!(limit(error), ("keys changed by one call", WRITTEN_KEYS_MAX + 1, WRITTEN_KEYS_MAX));
}

#[test]
fn an_entry_expires_within_a_year() {
    let mut transaction = Transaction::default();
    let year = crate::limits::EXPIRY_MAX;
    transaction.put(place("a"), vec![], Expiry::After(year)).unwrap();
    let later = Expiry::After(year + std::time::Duration::from_secs(1));
    assert_eq!(
        limit(transaction.put(place("a"), vec![], later).unwrap_err()).0,
        "seconds until an entry expires"
    );
}

#[test]
fn what_was_not_seen_and_not_changed_needs_no_commit() {
    let mut transaction = Transaction::default();
    assert!(!transaction.needs_commit());
    transaction.delete(place("a")).unwrap();
    assert!(transaction.needs_commit() && transaction.writes());
}
