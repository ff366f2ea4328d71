//! The root as a node follows it: each attack that The Update Framework names, by its code.

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use mfaas_attest::{PrivateKey, RootKeys, TrustedRoot};
use mfaas_ident::Epoch;
use mfaas_rules::{Code, codes};

use super::Gate;
use crate::agent::testing::{Keys, now, set};
use crate::state::{Seen, StateDir};

/// An installation whose pinned key named three others in list 2, two of which must sign.
struct Rotated {
    keys: Keys,
    holders: [PrivateKey; 3],
}

impl Rotated {
    fn new() -> Self {
        Self { keys: Keys::generate(), holders: std::array::from_fn(|_| PrivateKey::generate().unwrap()) }
    }

    fn single(&self) -> RootKeys {
        RootKeys::single(self.keys.root.public())
    }

    fn two_of_three(&self) -> RootKeys {
        RootKeys { threshold: 2, keys: self.holders.iter().map(PrivateKey::public).collect() }
    }

    fn first(&self) -> Vec<u8> {
        self.keys.list_of(1, self.single(), &[&self.keys.root])
    }

    fn second(&self) -> Vec<u8> {
        let [a, b, _] = &self.holders;
        self.keys.list_of(2, self.two_of_three(), &[&self.keys.root, a, b])
    }

    /// A later list, by these holders.
    fn later(&self, version: u32, by: &[usize]) -> Vec<u8> {
        let by: Vec<_> = by.iter().map(|at| &self.holders[*at]).collect();
        self.keys.list_of(version, self.two_of_three(), &by)
    }

    /// A node that has followed the rotation.
    fn gate(&self) -> Gate {
        let mut gate = Gate::new(self.keys.pin(), Seen::default());
        for list in [self.first(), self.second()] {
            assert!(gate.key_list(&list).unwrap());
        }
        gate
    }
}

fn refusal(gate: &mut Gate, list: &[u8]) -> Code {
    let before = (gate.key_list_version(), gate.seen());
    let code = gate.key_list(list).unwrap_err().code;
    assert_eq!((gate.key_list_version(), gate.seen()), before, "what is refused changes nothing");
    code
}

#[test]
fn a_node_follows_the_root_to_its_new_holders() {
    let rotated = Rotated::new();
    let mut gate = rotated.gate();
    assert!(gate.key_list(&rotated.later(3, &[0, 2])).unwrap());
    assert!(!gate.key_list(&rotated.later(3, &[1, 2])).unwrap(), "the same list again");
    assert_eq!(gate.seen().key_list_version, 3);
    assert!(gate.serving_set(&rotated.keys.sign(&set(5)), now()).is_ok());
}

#[test]
fn too_few_signatures_and_one_given_twice_are_named() {
    let rotated = Rotated::new();
    let mut gate = rotated.gate();
    assert_eq!(refusal(&mut gate, &rotated.later(3, &[1])), codes::MF0716);
    assert_eq!(refusal(&mut gate, &rotated.later(3, &[1, 1])), codes::MF0716);
}

#[test]
fn neither_the_old_root_nor_the_new_one_alone_replaces_it() {
    let rotated = Rotated::new();
    let mut gate = Gate::new(rotated.keys.pin(), Seen::default());
    gate.key_list(&rotated.first()).unwrap();
    assert_eq!(refusal(&mut gate, &rotated.later(2, &[0, 1, 2])), codes::MF0701, "nobody of the old one");
    let old_alone = rotated.keys.list_of(2, rotated.two_of_three(), &[&rotated.keys.root]);
    assert_eq!(refusal(&mut gate, &old_alone), codes::MF0716);
    gate.key_list(&rotated.second()).unwrap();
    let back = rotated.keys.list_of(3, rotated.single(), &[&rotated.keys.root]);
    assert_eq!(refusal(&mut gate, &back), codes::MF0701, "a root that was replaced");
}

#[test]
fn the_root_does_not_go_back_nor_leave_a_list_out() {
    let rotated = Rotated::new();
    let mut gate = rotated.gate();
    gate.key_list(&rotated.later(3, &[0, 1])).unwrap();
    assert_eq!(refusal(&mut gate, &rotated.later(2, &[0, 1])), codes::MF0702);
    for far in [5, u32::MAX] {
        assert_eq!(refusal(&mut gate, &rotated.later(far, &[0, 1])), codes::MF0717);
    }
    let other = Keys { online: PrivateKey::generate().unwrap(), root: PrivateKey::generate().unwrap() };
    let twice = other.list_of(3, rotated.two_of_three(), &[&rotated.holders[0], &rotated.holders[1]]);
    assert_eq!(refusal(&mut gate, &twice), codes::MF0718);
    // A node that never heard of the new root is not taken past the list that names it.
    let mut stale = Gate::new(rotated.keys.pin(), Seen::default());
    assert_eq!(refusal(&mut stale, &rotated.second()), codes::MF0717);
    assert_eq!(refusal(&mut stale, &rotated.later(3, &[0, 1])), codes::MF0701);
}

#[test]
fn a_restart_goes_on_from_the_disk_and_another_pin_begins_anew() {
    let rotated = Rotated::new();
    let home = tempfile::tempdir().unwrap();
    let state = StateDir::open(home.path()).unwrap();
    let before = rotated.gate();
    state.store_key_list(before.pin(), &rotated.second()).unwrap();
    state.record_seen(&before.seen()).unwrap();
    drop((before, state));

    let state = StateDir::open(home.path()).unwrap();
    let mut after = Gate::new(rotated.keys.pin(), state.seen().unwrap());
    after.resume(&state.key_list(after.pin()).unwrap().unwrap()).unwrap();
    assert_eq!((after.key_list_version(), after.check_reached()), (2, Ok(())));
    assert!(after.key_list(&rotated.later(3, &[1, 2])).unwrap());

    let pinned = TrustedRoot::of_list(&rotated.second()).unwrap();
    assert_eq!(state.key_list(pinned.pin()).unwrap(), None, "what another pin led to does not count");
    let mut pinned = Gate::new(pinned, state.seen().unwrap());
    assert!(pinned.key_list(&rotated.later(3, &[0, 2])).unwrap());
    let damaged = rotated.later(2, &[0]);
    assert_eq!(after.resume(&damaged).unwrap_err().code, codes::MF0716, "the disk is checked too");
}

/// Whoever starts from the pin again walks the same way, and believes nothing before it is where it was.
#[test]
fn a_node_that_has_seen_more_believes_nothing_on_its_way() {
    let rotated = Rotated::new();
    let seen = Seen { key_list_version: 2, ..Seen::default() };
    let mut gate = Gate::new(rotated.keys.pin(), seen);
    gate.key_list(&rotated.first()).unwrap();
    assert_eq!(gate.check_reached().unwrap_err().code, codes::MF0702, "the server has no more: it went back");
    let envelope = rotated.keys.sign(&set(5));
    assert_eq!(gate.serving_set(&envelope, now()).unwrap_err().code, codes::MF0701);
    gate.key_list(&rotated.second()).unwrap();
    gate.check_reached().unwrap();
    gate.serving_set(&envelope, now()).unwrap();
    assert_eq!(gate.seen().epoch, Epoch(5));
}

#[test]
fn a_node_of_the_release_before_goes_on_with_the_list_that_it_has() {
    let rotated = Rotated::new();
    let home = tempfile::tempdir().unwrap();
    let state = StateDir::open(home.path()).unwrap();
    std::fs::write(home.path().join("key-list.dsse"), rotated.keys.list(1)).unwrap();
    let mut gate = Gate::new(rotated.keys.pin(), Seen { key_list_version: 1, ..Seen::default() });
    gate.resume(&state.key_list(gate.pin()).unwrap().unwrap()).unwrap();
    assert!(gate.serving_set(&rotated.keys.sign(&set(5)), now()).is_ok());
    assert!(gate.key_list(&rotated.second()).unwrap(), "and to the new root from there");
}
