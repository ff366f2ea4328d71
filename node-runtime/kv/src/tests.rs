//! What a call reads of its own changes, without a database: everything that it may ask for is known here before.
#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use crate::key::Range;
use crate::limits::{VALUE_BYTES_MAX, WRITTEN_BYTES_MAX, WRITTEN_KEYS_MAX};
use crate::transaction::Entry;
use crate::{Expiry, Key, KvError, Place, Transaction, Value};

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

/// Whether it is put, and as what.
fn put(transaction: &mut Transaction, key: &str, value: &str) {
    transaction.put(place(key), value.into(), Expiry::Never).unwrap();
}

fn read(transaction: &Transaction, key: &str) -> Option<String> {
    let value = transaction.known(&place(key)).expect("it is known").map(|value| value.into_bytes().unwrap());
    value.map(|bytes| String::from_utf8(bytes.to_vec()).unwrap())
}

fn text(text: &str) -> Option<String> {
    Some(text.to_owned())
}

/// What the database held under a key, as a read of it tells the call.
fn saw(transaction: &mut Transaction, key: &str, version: i64) {
    let entry = Entry { value: Value::Bytes(b"stored".as_slice().into()), version };
    transaction.saw(vec![place(key)], vec![Some(entry)]).unwrap();
}

#[test]
fn a_callee_sees_what_its_callers_have_done_and_they_what_it_did_when_it_has_succeeded() {
    let mut root = Transaction::default();
    put(&mut root, "a", "of the root");
    saw(&mut root, "seen", 7);
    let mut callee = root.of_callee();
    assert_eq!(read(&callee, "a"), text("of the root"));
    assert_eq!(read(&callee, "seen"), text("stored"));
    assert!(!callee.needs_commit(), "it has done nothing itself");
    put(&mut callee, "a", "of the callee");
    let mut below = callee.of_callee();
    assert_eq!(read(&below, "a"), text("of the callee"));
    below.delete(place("a")).unwrap();
    put(&mut below, "b", "below");
    assert_eq!(read(&root, "a"), text("of the root"), "nobody else sees it yet");
    callee.absorb(below).unwrap();
    assert_eq!((read(&callee, "a"), read(&callee, "b")), (None, text("below")));
    // One that fails is dropped.
    let mut failed = callee.of_callee();
    put(&mut failed, "b", "failed");
    drop(failed);
    root.absorb(callee).unwrap();
    assert_eq!((read(&root, "a"), read(&root, "b")), (None, text("below")));
    assert_eq!(root.writes.len(), 2);
}

#[test]
fn of_two_callees_that_meet_the_later_has_done_nothing() {
    let root = || {
        let mut root = Transaction::default();
        put(&mut root, "counter", "5");
        root
    };
    type Touch = fn(&mut Transaction);
    let meets: [(&str, Touch); 4] = [
        ("a change", |callee| put(callee, "counter", "6")),
        ("a read", |callee| {
            callee.relies_on(std::iter::once(place("counter")));
            put(callee, "other", "of what it read");
        }),
        ("a read of what was not changed yet", |callee| saw(callee, "fresh", 1)),
        ("a scan", |callee| {
            let range = Range::of_prefix(b"", None);
            callee.scanned(&place("any").resource, range, 10, Vec::new()).unwrap();
        }),
    ];
    for (what, touch) in meets {
        let mut root = root();
        let (mut first, mut second) = (root.of_callee(), root.of_callee());
        put(&mut first, "counter", "6");
        put(&mut first, "fresh", "1");
        touch(&mut second);
        root.absorb(first).unwrap();
        let held = root.held_bytes();
        assert!(matches!(root.absorb(second), Err(KvError::Conflict)), "{what}");
        assert_eq!((root.held_bytes(), read(&root, "counter")), (held, text("6")), "{what}");
        // Run again it begins with what the first one did.
        let mut again = root.of_callee();
        touch(&mut again);
        if what != "a read of what was not changed yet" {
            root.absorb(again).unwrap();
        }
    }
    // Each of what the other one changes, which their caller had read.
    let mut reader = Transaction::default();
    saw(&mut reader, "x", 1);
    saw(&mut reader, "y", 1);
    let (mut first, mut second) = (reader.of_callee(), reader.of_callee());
    for (callee, changes) in [(&mut first, "x"), (&mut second, "y")] {
        callee.relies_on(["x", "y"].map(place).into_iter());
        put(callee, changes, "of the other");
    }
    reader.absorb(first).unwrap();
    assert!(matches!(reader.absorb(second), Err(KvError::Conflict)));
    // What they do apart from each other is both done.
    let mut root = root();
    let (mut first, mut second) = (root.of_callee(), root.of_callee());
    put(&mut first, "a", "1");
    put(&mut second, "b", "2");
    saw(&mut first, "both", 3);
    saw(&mut second, "both", 3);
    root.absorb(first).unwrap();
    root.absorb(second).unwrap();
    assert_eq!((read(&root, "a"), read(&root, "b")), (text("1"), text("2")));
    // Others have changed what both read in between: the call as a whole would not be committed.
    let mut late = root.of_callee();
    saw(&mut late, "later", 1);
    saw(&mut root, "later", 2);
    assert!(matches!(root.absorb(late), Err(KvError::Conflict)));
}

#[test]
fn a_call_changes_no_more_with_its_callees_than_without() {
    let mut root = Transaction::default();
    for number in 0..WRITTEN_KEYS_MAX {
        put(&mut root, &number.to_string(), "");
    }
    let mut same = root.of_callee();
    put(&mut same, "0", "once more");
    root.absorb(same).unwrap();
    let mut more = root.of_callee();
    put(&mut more, "more", "");
    let error = root.absorb(more).unwrap_err();
    assert_eq!(limit(error), ("keys changed by one call", WRITTEN_KEYS_MAX + 1, WRITTEN_KEYS_MAX));
    assert_eq!(root.writes.len(), WRITTEN_KEYS_MAX);

    let mut root = Transaction::default();
    let most = WRITTEN_BYTES_MAX / VALUE_BYTES_MAX;
    for number in 1..most {
        root.put(place(&format!("{number:03}")), vec![0; VALUE_BYTES_MAX], Expiry::Never).unwrap();
    }
    let mut callee = root.of_callee();
    callee.put(place("a"), vec![0; VALUE_BYTES_MAX], Expiry::Never).unwrap();
    assert_eq!(limit(root.absorb(callee).unwrap_err()).0, "bytes changed by one call");
}
