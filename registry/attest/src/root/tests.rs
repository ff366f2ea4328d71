//! What The Update Framework promises about the root, one test for each attack.

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use chrono::{DateTime, TimeDelta, Utc};

use super::{RootError, TrustedRoot, UNNAMED_AHEAD_MAX};
use crate::keylist::ROOT_KEYS_MAX;
use crate::{AttestError, Draft, KeyList, ListedKey, Payload as _, PrivateKey, Purpose, RootKeys, sign};

fn now() -> DateTime<Utc> {
    DateTime::from_timestamp(1_800_000_000, 0).unwrap()
}

fn keys<const N: usize>() -> [PrivateKey; N] {
    std::array::from_fn(|_| PrivateKey::generate().unwrap())
}

fn root(threshold: u32, keys: &[PrivateKey]) -> RootKeys {
    RootKeys { threshold, keys: keys.iter().map(PrivateKey::public).collect() }
}

/// A list as the release before wrote it: whose it is stands nowhere.
fn unnamed(version: u32) -> KeyList {
    KeyList { version, issued_at: now(), expires_at: None, root: None, keys: Vec::new() }
}

fn named(version: u32, root: RootKeys) -> KeyList {
    KeyList { root: Some(root), ..unnamed(version) }
}

fn signed(list: &KeyList, by: &[&PrivateKey]) -> Vec<u8> {
    sign(list, by).unwrap()
}

/// The pinned key `first`, and list 2 under which two of `three` sign.
fn two_of_three(first: &PrivateKey, three: &[PrivateKey; 3]) -> TrustedRoot {
    let pinned = TrustedRoot::of_key(first.public());
    let one = pinned.follow(&signed(&named(1, RootKeys::single(first.public())), &[first])).unwrap();
    one.follow(&signed(&named(2, root(2, three)), &[first, &three[0], &three[1]])).unwrap()
}

fn too_few(result: Result<TrustedRoot, RootError>) -> (usize, u32) {
    match result {
        Err(RootError::TooFew { signed, threshold, .. }) => (signed, threshold),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_root_is_replaced_by_the_old_and_the_new_together() {
    let ([first], three) = (keys(), keys::<3>());
    let after = two_of_three(&first, &three);
    assert_eq!((after.version(), after.root()), (2, &root(2, &three)));
    // From now on the new holders sign alone, and any two of them.
    let next = named(3, root(2, &three));
    for two in [[0, 1], [0, 2], [1, 2]] {
        let by: Vec<_> = two.iter().map(|at: &usize| &three[*at]).collect();
        assert_eq!(after.follow(&signed(&next, &by)).unwrap().version(), 3);
    }
    assert_eq!(after.pin(), first.public().id().0, "what was pinned stays the name of all that");
}

#[test]
fn fewer_than_the_threshold_sign_nothing() {
    let ([first], three) = (keys(), keys::<3>());
    let after = two_of_three(&first, &three);
    let next = named(3, root(2, &three));
    assert_eq!(too_few(after.follow(&signed(&next, &[&three[0]]))), (1, 2));
    let [stranger] = keys();
    assert_eq!(too_few(after.follow(&signed(&next, &[&three[0], &stranger]))), (1, 2));
    let nobody = after.follow(&Draft::new(next).unwrap().to_bytes().unwrap());
    assert!(matches!(nobody, Err(RootError::Document(AttestError::Untrusted { .. }))), "{nobody:?}");
}

#[test]
fn a_key_that_signs_twice_counts_once() {
    let ([first], three) = (keys(), keys::<3>());
    let after = two_of_three(&first, &three);
    let next = named(3, root(2, &three));
    assert_eq!(too_few(after.follow(&signed(&next, &[&three[0], &three[0]]))), (1, 2));
    let mut envelope: serde_json::Value = serde_json::from_slice(&signed(&next, &[&three[0]])).unwrap();
    let twice = envelope["signatures"][0].clone();
    envelope["signatures"].as_array_mut().unwrap().push(twice);
    assert_eq!(too_few(after.follow(&serde_json::to_vec(&envelope).unwrap())), (1, 2));
    // Nor can it stand in the root twice, or under another name.
    let mut doubled = root(2, &three);
    doubled.keys[1] = doubled.keys[0];
    assert!(named(3, doubled).check().unwrap_err().contains("twice"));
    envelope["signatures"][1]["keyid"] = serde_json::json!(three[1].public().id());
    let renamed = after.follow(&serde_json::to_vec(&envelope).unwrap());
    assert!(matches!(renamed, Err(RootError::Document(AttestError::BadSignature { .. }))));
}

#[test]
fn the_new_root_alone_replaces_nothing() {
    let ([first], three) = (keys(), keys::<3>());
    let pinned = TrustedRoot::of_key(first.public());
    let usurped = pinned.follow(&signed(&named(1, root(2, &three)), &[&three[0], &three[1]]));
    assert!(matches!(usurped, Err(RootError::Document(AttestError::Untrusted { .. }))), "{usurped:?}");
    let (after, more) = (two_of_three(&first, &three), keys::<2>());
    let next = signed(&named(3, root(1, &more)), &[&three[0], &more[0], &more[1]]);
    assert_eq!(too_few(after.follow(&next)), (1, 2), "one of the old root is not enough");
}

#[test]
fn the_old_root_alone_names_nobody_who_does_not_agree() {
    let ([first], three) = (keys(), keys::<3>());
    let pinned = TrustedRoot::of_key(first.public());
    assert_eq!(too_few(pinned.follow(&signed(&named(1, root(2, &three)), &[&first]))), (0, 2));
    assert_eq!(too_few(pinned.follow(&signed(&named(1, root(2, &three)), &[&first, &three[2]]))), (1, 2));
}

#[test]
fn a_root_that_was_replaced_signs_nothing_any_more() {
    let ([first], three) = (keys(), keys::<3>());
    let after = two_of_three(&first, &three);
    let back = named(3, RootKeys::single(first.public()));
    let back = after.follow(&signed(&back, &[&first]));
    assert!(matches!(back, Err(RootError::Document(AttestError::Untrusted { .. }))), "{back:?}");
}

#[test]
fn versions_do_not_go_back_and_are_not_used_twice() {
    let ([first], three) = (keys(), keys::<3>());
    let after = two_of_three(&first, &three);
    let older = after.follow(&signed(&named(1, root(2, &three)), &[&three[0], &three[1]]));
    assert!(matches!(older, Err(RootError::Older { version: 1, present: 2 })), "{older:?}");
    let same = named(2, root(2, &three));
    let again = signed(&same, &[&three[1], &three[2]]);
    assert_eq!(after.follow(&again).unwrap().version(), 2, "the same words, other signatures");
    let other = KeyList { issued_at: now() + TimeDelta::seconds(1), ..same };
    let other = after.follow(&signed(&other, &[&three[0], &three[1]]));
    assert!(matches!(other, Err(RootError::Twice { version: 2 })), "{other:?}");
}

/// A node that was away must not miss a list that replaced the root, and no list can use up the numbers.
#[test]
fn no_list_that_names_a_root_is_left_out_or_far_ahead() {
    let ([first], three) = (keys(), keys::<3>());
    let after = two_of_three(&first, &three);
    for version in [4, u32::MAX] {
        let next = after.follow(&signed(&named(version, root(2, &three)), &[&three[0], &three[1]]));
        assert!(matches!(next, Err(RootError::Skips { present: 2, .. })), "{next:?}");
    }
    let pinned = TrustedRoot::of_key(first.public());
    let second = signed(&named(2, root(2, &three)), &[&first, &three[0], &three[1]]);
    assert!(matches!(pinned.follow(&second), Err(RootError::Skips { version: 2, present: 0 })));
}

#[test]
fn lists_of_the_release_before_are_those_of_the_pinned_key() {
    let [first, other] = keys();
    let pinned = TrustedRoot::of_key(first.public());
    let fourth = pinned.follow(&signed(&unnamed(4), &[&first])).unwrap();
    assert_eq!((fourth.version(), fourth.root()), (4, &RootKeys::single(first.public())));
    assert!(fourth.follow(&signed(&unnamed(5), &[&other])).is_err());
    let far = fourth.follow(&signed(&unnamed(5 + UNNAMED_AHEAD_MAX), &[&first]));
    assert!(matches!(far, Err(RootError::Skips { .. })), "{far:?}");
    let far = fourth.follow(&signed(&unnamed(4 + UNNAMED_AHEAD_MAX), &[&first]));
    assert_eq!(far.unwrap().version(), 4 + UNNAMED_AHEAD_MAX);
    // Once a list names its root, every later one does.
    let fifth = named(5, RootKeys::single(first.public()));
    let fifth = fourth.follow(&signed(&fifth, &[&first])).unwrap();
    let sixth = fifth.follow(&signed(&unnamed(6), &[&first]));
    assert!(matches!(sixth, Err(RootError::Document(AttestError::Inconsistent { .. }))), "{sixth:?}");
    assert!(!String::from_utf8(serde_json::to_vec(&unnamed(1)).unwrap()).unwrap().contains("root"));
}

#[test]
fn a_list_can_be_pinned_in_the_place_of_a_key() {
    let ([first], three) = (keys(), keys::<3>());
    let second = signed(&named(2, root(2, &three)), &[&first, &three[0], &three[1]]);
    let pinned = TrustedRoot::of_file(&format!("{}\n", String::from_utf8(second).unwrap())).unwrap();
    assert_eq!((pinned.version(), pinned.root()), (2, &root(2, &three)));
    let third = named(3, root(2, &three));
    assert!(pinned.follow(&signed(&third, &[&three[0], &three[2]])).is_ok());
    assert_eq!(too_few(pinned.follow(&signed(&third, &[&three[0]]))), (1, 2));
    assert_eq!(too_few(TrustedRoot::of_list(&signed(&third, &[&three[0]]))), (1, 2));
    assert!(TrustedRoot::of_list(&signed(&unnamed(2), &[&first])).is_err(), "whose it is stands nowhere");
    let pem = TrustedRoot::of_file(&first.public().to_pem().unwrap()).unwrap();
    assert_eq!(pem.pin(), first.public().id().0);
}

#[test]
fn what_was_kept_goes_on_where_it_was_and_no_further_back() {
    let ([first], three) = (keys(), keys::<3>());
    let pinned = TrustedRoot::of_key(first.public());
    let kept = signed(&named(3, root(2, &three)), &[&three[0], &three[1]]);
    let resumed = pinned.resume(&kept).unwrap();
    assert_eq!((resumed.version(), resumed.pin()), (3, pinned.pin()));
    assert!(pinned.resume(&signed(&named(3, root(2, &three)), &[&three[0]])).is_err(), "it is checked again");
    let second = TrustedRoot::of_list(&signed(&named(4, root(2, &three)), &[&three[0], &three[1]])).unwrap();
    assert!(matches!(second.resume(&kept), Err(RootError::Older { version: 3, present: 4 })));
    // One of the release before counts if the pinned key signed it.
    for version in [7, 1_000] {
        assert_eq!(pinned.resume(&signed(&unnamed(version), &[&first])).unwrap().version(), version);
    }
    assert!(pinned.resume(&signed(&unnamed(7), &[&three[0]])).is_err());
}

#[test]
fn a_draft_goes_from_holder_to_holder() {
    let ([first], three) = (keys(), keys::<3>());
    let pinned = TrustedRoot::of_key(first.public());
    let mut bytes = Draft::new(named(1, root(2, &three))).unwrap().to_bytes().unwrap();
    for (holder, done) in [(&first, false), (&three[0], false), (&three[0], false), (&three[1], true)] {
        let mut draft = Draft::<KeyList>::read(&bytes).unwrap();
        draft.sign(holder).unwrap();
        bytes = draft.to_bytes().unwrap();
        assert_eq!(pinned.follow(&bytes).is_ok(), done);
    }
    assert_eq!(Draft::<KeyList>::read(&bytes).unwrap().signed_by().count(), 3, "each once");
}

#[test]
fn roots_that_nobody_or_a_thief_could_meet_are_refused() {
    let [a, b, online] = keys::<3>();
    let all: Vec<_> = (0..=ROOT_KEYS_MAX).map(|_| PrivateKey::generate().unwrap().public()).collect();
    for (bad, why) in [
        (root(0, &[a]), "0 of 1"),
        (root(2, &[b]), "2 of 1"),
        (RootKeys { threshold: 1, keys: Vec::new() }, "1 of 0"),
        (RootKeys { threshold: 1, keys: all }, "limit"),
    ] {
        let said = named(1, bad).check().unwrap_err();
        assert!(said.contains(why), "{said}");
    }
    let public = online.public();
    let row = ListedKey { keyid: public.id(), public, purpose: Purpose::ServingSet, not_after: now() };
    let list = KeyList { keys: vec![row], ..named(1, RootKeys::single(public)) };
    assert!(list.check().unwrap_err().contains("online key and a root key"));
}
