#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::collections::{BTreeMap, BTreeSet};

use mfaas_attest::{AttestError, ServedFunction, ShardRef, tree_of};
use mfaas_ident::Digest;
use proptest::prelude::*;

use super::{FunctionTree, Name};
use crate::agent::testing::{key, served};

/// `acme/f{number}`, at that version.
fn function(number: u32, version: u32) -> ServedFunction {
    served(&[&key(&format!("f{number}"), version)])
}

fn name(number: u32) -> Name {
    let key = key(&format!("f{number}"), 1);
    (key.tenant, key.function)
}

/// Leads `tree` to these functions; returns what changed, and how many shards were read for it.
fn lead(tree: &mut FunctionTree, functions: &BTreeMap<u32, u32>) -> (BTreeSet<Name>, usize) {
    let (root, shards) =
        tree_of(functions.iter().map(|(number, version)| function(*number, *version))).unwrap();
    let (mut walk, mut read) = (tree.walk_to(root), 0);
    loop {
        let Some(digest) = walk.wanted().next_back() else { break };
        walk.read(tree, digest, shards[&digest].as_bytes()).unwrap();
        read += 1;
    }
    (tree.take(walk), read)
}

#[test]
fn one_change_of_many_reads_the_few_shards_on_its_way() {
    let mut tree = FunctionTree::default();
    let mut functions: BTreeMap<u32, u32> = (0..3_000).map(|number| (number, 1)).collect();
    let (changed, all) = lead(&mut tree, &functions);
    assert_eq!((changed.len(), tree.functions().count()), (3_000, 3_000));
    functions.insert(7, 2);
    let (changed, read) = lead(&mut tree, &functions);
    assert_eq!(changed, BTreeSet::from([name(7)]));
    assert!(read <= 6 && all > 100, "{read} of {all}");
    assert_eq!(lead(&mut tree, &functions), (BTreeSet::new(), 0), "the same again");
}

#[test]
fn a_shard_that_is_not_what_is_wanted_changes_nothing() {
    let mut tree = FunctionTree::default();
    let functions: BTreeMap<u32, u32> = (0..100).map(|number| (number, 1)).collect();
    lead(&mut tree, &functions);
    let (root, shards) = tree_of([function(1, 2)]).unwrap();
    let mut walk = tree.walk_to(root);
    let mut damaged = shards[&root.digest].clone().into_bytes();
    damaged[10] ^= 1;
    assert!(matches!(walk.read(&tree, root.digest, &damaged), Err(AttestError::Inconsistent { .. })));
    assert_eq!(walk.wanted().collect::<Vec<_>>(), [root.digest], "it is still wanted");
    walk.read(&tree, Digest::of(b"unasked"), b"unasked").unwrap();
    let counted = ShardRef { functions: 2, ..root };
    assert!(tree.walk_to(counted).read(&tree, root.digest, shards[&root.digest].as_bytes()).is_err());
    assert_eq!(tree.functions().count(), 100);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    /// Whatever the trees are, what is said to have changed is what differs, and everything is found.
    #[test]
    fn a_walk_finds_exactly_what_differs(
        steps in prop::collection::vec(prop::collection::btree_map(0_u32..200, 1_u32..3, 0..150), 1..6)
    ) {
        let mut tree = FunctionTree::default();
        let mut before = BTreeMap::new();
        for after in steps {
            let (changed, _) = lead(&mut tree, &after);
            let differs = |number: &u32| before.get(number) != after.get(number);
            let wanted: BTreeSet<Name> = (0..200).filter(differs).map(name).collect();
            prop_assert_eq!(changed, wanted);
            prop_assert_eq!(tree.functions().count(), after.len());
            for number in 0..200 {
                let (tenant, function_name) = name(number);
                let wanted = after.get(&number).map(|version| function(number, *version));
                prop_assert_eq!(tree.function(&tenant, &function_name), wanted.as_ref());
            }
            before = after;
        }
    }
}
