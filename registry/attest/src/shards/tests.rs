#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

use std::collections::{BTreeMap, BTreeSet};

use mfaas_ident::{AliasName, Budget, Digest, FunctionName, MemoryLimit, TenantName, VersionNumber};
use proptest::prelude::*;

use super::{Change, HexDigit, Shard, ShardPrefix, ShardRef, tree_of, update};
use crate::{AttestError, ServedFunction, ServedVersion};

type Store = BTreeMap<Digest, String>;

/// Every function below a shard, and the shards on the way.
fn walk(
    store: &Store,
    at: ShardRef,
    prefix: &ShardPrefix,
    seen: &mut BTreeSet<Digest>,
) -> Vec<ServedFunction> {
    seen.insert(at.digest);
    match Shard::read(store[&at.digest].as_bytes(), &at, prefix).unwrap() {
        Shard::Leaf(functions) => functions,
        Shard::Branch(children) => {
            let below = |(digit, child): (HexDigit, ShardRef)| walk(store, child, &prefix.child(digit), seen);
            children.into_iter().flat_map(below).collect()
        }
    }
}

fn function(number: u32, live: u32) -> ServedFunction {
    let version = VersionNumber::new(live).unwrap();
    ServedFunction {
        tenant: TenantName::parse("acme").unwrap(),
        name: FunctionName::parse(&format!("f{number}")).unwrap(),
        aliases: BTreeMap::from([(AliasName::live(), version)]),
        versions: vec![ServedVersion {
            version,
            digest: Digest::of(&live.to_le_bytes()),
            statement: Digest::of(b"statement"),
            budget_us: Budget::DEFAULT,
            memory_bytes: MemoryLimit::DEFAULT,
        }],
        revoked: BTreeSet::new(),
        resources: BTreeMap::new(),
    }
}

fn set(function: ServedFunction) -> Change {
    ((function.tenant.clone(), function.name.clone()), Some(function))
}

fn gone(number: u32) -> Change {
    let ((tenant, name), _) = set(function(number, 1));
    ((tenant, name), None)
}

/// A tree of so many functions.
fn tree(functions: u32) -> (Store, ShardRef) {
    let (root, store) = tree_of((0..functions).map(|number| function(number, 1))).unwrap();
    (store, root)
}

#[test]
fn a_tree_of_nothing_is_an_empty_leaf_and_a_tree_again() {
    let (mut store, empty) = tree(0);
    assert_eq!((empty.functions, store.len()), (0, 1));
    let one = update(&mut store, Some(empty), [set(function(1, 1))]).unwrap();
    assert_eq!(update(&mut store, Some(one), [gone(1), gone(2)]).unwrap(), empty);
    assert_eq!(store.len(), 1);
}

#[test]
fn one_change_of_many_functions_writes_the_few_shards_on_its_way() {
    let (mut store, root) = tree(5_000);
    let before: BTreeSet<Digest> = store.keys().copied().collect();
    let next = update(&mut store, Some(root), [set(function(77, 2))]).unwrap();
    let new: Vec<usize> =
        store.iter().filter(|(digest, _)| !before.contains(digest)).map(|(_, bytes)| bytes.len()).collect();
    assert!(new.len() <= 6 && new.iter().sum::<usize>() < 16 << 10, "{new:?}");
    assert_ne!(next.digest, root.digest);
    assert_eq!(update(&mut store, Some(next), [set(function(77, 1))]).unwrap(), root, "and back");
    assert_eq!(store.keys().copied().collect::<BTreeSet<_>>(), before);
}

#[test]
fn a_shard_is_read_only_as_what_it_is_named_as() {
    let (store, root) = tree(40);
    let top = ShardPrefix::default();
    let bytes = store[&root.digest].as_bytes();
    let Shard::Branch(children) = Shard::read(bytes, &root, &top).unwrap() else { panic!("a leaf of 40") };
    let more = ShardRef { functions: 41, ..root };
    assert!(matches!(Shard::read(bytes, &more, &top), Err(AttestError::Inconsistent { .. })), "counted");
    let mut flipped = bytes.to_vec();
    flipped[20] ^= 1;
    assert!(matches!(Shard::read(&flipped, &root, &top), Err(AttestError::Inconsistent { .. })), "hashed");
    let (digit, child) = children.into_iter().find(|(_, child)| child.functions > 0).unwrap();
    let bytes = store[&child.digest].as_bytes();
    assert!(Shard::read(bytes, &child, &top.child(digit)).is_ok());
    let elsewhere = HexDigit::try_from(if char::from(digit) == '0' { '1' } else { '0' }).unwrap();
    let moved = Shard::read(bytes, &child, &top.child(elsewhere));
    assert!(
        matches!(moved, Err(AttestError::Inconsistent { .. })),
        "a function in another's place: {moved:?}"
    );
}

#[test]
fn a_leaf_contradicts_itself_in_no_way() {
    let refused = |functions: Vec<ServedFunction>| {
        let (named, bytes) = Shard::Leaf(functions).encode().unwrap();
        match Shard::read(bytes.as_bytes(), &named, &ShardPrefix::default()) {
            Err(AttestError::Inconsistent { reason }) => reason,
            other => panic!("{other:?}"),
        }
    };
    assert!(refused(vec![function(1, 1), function(1, 1)]).contains("not sorted or not unique"));
    let mut nowhere = function(1, 1);
    nowhere.aliases.insert(AliasName::live(), VersionNumber::new(9).unwrap());
    assert!(refused(vec![nowhere]).contains("names version 9"));
    let nothing = ServedFunction { aliases: BTreeMap::new(), versions: vec![], ..function(1, 1) };
    assert!(refused(vec![nothing]).contains("named for nothing"));
    let nine = (0..9).map(|number| function(number, 1)).collect();
    assert!(refused(nine).contains("a leaf of 9 functions"));
    let few = Shard::Branch(BTreeMap::from([(HexDigit::try_from('a').unwrap(), tree(3).1)]));
    let (named, bytes) = few.encode().unwrap();
    assert!(Shard::read(bytes.as_bytes(), &named, &ShardPrefix::default()).is_err(), "a branch of three");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// However it came about, the same functions are the same tree, and nothing else is left in the store.
    #[test]
    fn a_tree_depends_on_its_functions_alone(
        steps in prop::collection::vec(prop::collection::vec((0_u32..60, 0_u32..3), 1..40), 1..12)
    ) {
        let (mut store, mut root) = tree(0);
        let mut functions = BTreeMap::new();
        for step in steps {
            let step: BTreeMap<u32, u32> = step.into_iter().collect();
            let changes = step.iter().map(|(number, live)| match live {
                0 => gone(*number),
                live => set(function(*number, *live)),
            });
            root = update(&mut store, Some(root), changes.collect::<Vec<_>>()).unwrap();
            for (number, live) in step {
                match live {
                    0 => drop(functions.remove(&number)),
                    live => drop(functions.insert(number, live)),
                }
            }
        }
        let mut seen = BTreeSet::new();
        let walked = walk(&store, root, &ShardPrefix::default(), &mut seen);
        prop_assert_eq!(store.keys().copied().collect::<BTreeSet<_>>(), seen);
        let name = |function: &ServedFunction| (function.name.clone(), function.clone());
        let walked: BTreeMap<_, _> = walked.iter().map(name).collect();
        let wanted = functions.iter().map(|(number, live)| function(*number, *live));
        prop_assert_eq!(walked, wanted.map(|function| name(&function)).collect::<BTreeMap<_, _>>());
        let fresh = functions.iter().map(|(number, live)| set(function(*number, *live)));
        prop_assert_eq!(update(&mut Store::new(), None, fresh.collect::<Vec<_>>()).unwrap(), root);
    }
}
