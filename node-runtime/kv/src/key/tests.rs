#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use proptest::prelude::prop;
use proptest::proptest;

use super::*;

#[test]
fn keys_have_a_length() {
    assert!(matches!(Key::new([]), Err(KvError::Key(0))));
    assert!(Key::new([7; KEY_BYTES_MAX]).is_ok());
    assert!(
        matches!(Key::new([7; KEY_BYTES_MAX + 1]), Err(KvError::Key(count)) if count == KEY_BYTES_MAX + 1)
    );
}

/// Few different bytes, the largest among them, so that prefixes are met.
fn bytes() -> impl proptest::strategy::Strategy<Value = Vec<u8>> {
    prop::collection::vec(prop::sample::select(vec![0, 1, 254, 255]), 0..5)
}

proptest! {
    #[test]
    fn a_range_holds_what_has_the_prefix_and_comes_after(
        prefix in bytes(), after in prop::option::of(bytes()), key in bytes(), last in bytes()
    ) {
        let range = Range::of_prefix(&prefix, after.as_deref());
        let is_after = after.as_ref().is_none_or(|after| key > *after);
        let within = key.starts_with(&prefix) && is_after;
        assert_eq!(range.contains(&key), within);
        if range.contains(&last) {
            assert_eq!(range.up_to(&last).contains(&key), within && key <= last);
        }
    }

    #[test]
    fn nothing_lies_between_bytes_and_their_follower(all in bytes(), length in 0..5usize, more in bytes()) {
        let bytes = &all[..length.min(all.len())];
        assert!(*bytes < *follower(bytes));
        for other in [&*all, &*[bytes, &more].concat()] {
            assert!(!(bytes < other && *other < *follower(bytes)), "{other:?}");
        }
    }
}
