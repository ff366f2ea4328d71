#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use proptest::prelude::{any, prop};
use proptest::proptest;

use super::*;

proptest! {
    /// Names and keys come back out of where an entry lies, so two entries never lie at the same place.
    #[test]
    fn whatever_a_key_is_it_lies_among_those_of_its_resource(
        name in "[a-z][a-z0-9_-]{0,8}", bytes in prop::collection::vec(any::<u8>(), 1..40)
    ) {
        let resource: ResourceName = name.parse().unwrap();
        let place = entry(&resource, &Key::new(bytes.clone()).unwrap());
        let rest = place.strip_prefix(ENTRY.as_bytes()).unwrap();
        let colon = rest.iter().position(|byte| *byte == b':').unwrap();
        assert_eq!((&rest[..colon], &rest[colon + 1..]), (name.as_bytes(), &*bytes));
    }

    #[test]
    fn an_entry_is_there_until_it_expires(
        version in any::<i64>(), expires in any::<u64>(), now in any::<u64>(),
        value in prop::collection::vec(any::<u8>(), 0..40)
    ) {
        let bytes = [&version.to_be_bytes()[..], &expires.to_be_bytes(), &value].concat();
        let is_there = expires == 0 || expires > now;
        let expected = is_there.then(|| Entry { value: Value::Bytes(value.into()), version });
        assert_eq!(decode(&bytes, now), expected);
    }
}

#[test]
fn what_is_no_entry_is_none() {
    for length in 0..16 {
        assert_eq!(decode(&vec![0; length], 1), None);
    }
    assert!(decode(&[0; 16], 1).is_some());
}
