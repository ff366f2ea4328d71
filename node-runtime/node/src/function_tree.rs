//! The functions of the set that the node follows: its tree of shards, as far as the node has it.
//!
//! A shard is read only where its digest is named by one that was read before, up to the root, which the set's signature covers.
//! What has not changed since the set before is not read again, so a change costs what it changes.

use std::collections::{BTreeMap, BTreeSet};

use mfaas_attest::{AttestError, HexDigit, ServedFunction, Shard, ShardPrefix, ShardRef};
use mfaas_ident::{Digest, FunctionName, TenantName};

/// A function by its name.
pub(crate) type Name = (TenantName, FunctionName);

/// A tree, whole or empty.
#[derive(Debug, Default)]
pub(crate) struct FunctionTree {
    shards: BTreeMap<ShardPrefix, Known>,
}

/// A shard that was read.
#[derive(Debug)]
struct Known {
    named: ShardRef,
    shard: Shard,
}

/// On the way from one tree to the next.
#[derive(Debug)]
pub(crate) struct Walk {
    wanted: Vec<(ShardPrefix, ShardRef)>,
    found: BTreeMap<ShardPrefix, Known>,
}

impl FunctionTree {
    /// The function of that name.
    pub(crate) fn function(&self, tenant: &TenantName, name: &FunctionName) -> Option<&ServedFunction> {
        let place = ShardPrefix::of(tenant, name);
        let mut at = ShardPrefix::default();
        loop {
            match &self.shards.get(&at)?.shard {
                Shard::Leaf(functions) => {
                    let found =
                        functions.binary_search_by(|row| (&row.tenant, &row.name).cmp(&(tenant, name)));
                    return found.ok().and_then(|found| functions.get(found));
                }
                Shard::Branch(_) => at = at.towards(&place)?,
            }
        }
    }

    /// Every function.
    pub(crate) fn functions(&self) -> impl Iterator<Item = &ServedFunction> {
        self.shards.values().flat_map(|known| leaf(&known.shard))
    }

    /// The digest of every shard.
    pub(crate) fn digests(&self) -> impl Iterator<Item = Digest> {
        self.shards.values().map(|known| known.named.digest)
    }

    /// Begins to walk to the tree below `root`.
    pub(crate) fn walk_to(&self, root: ShardRef) -> Walk {
        let mut walk = Walk { wanted: Vec::new(), found: BTreeMap::new() };
        walk.want(self, ShardPrefix::default(), root);
        walk
    }

    /// Takes what a walk has found, and returns the functions of which something changed.
    pub(crate) fn take(&mut self, walk: Walk) -> BTreeSet<Name> {
        let (mut before, mut after) = (BTreeMap::new(), BTreeMap::new());
        for (prefix, known) in walk.found {
            let gone = match &known.shard {
                Shard::Leaf(functions) => {
                    after.extend(functions.iter().map(|function| (name(function), function.clone())));
                    vec![prefix.clone()]
                }
                Shard::Branch(children) => self.digits_gone(&prefix, children),
            };
            for gone in gone {
                for function in self.remove_below(&gone) {
                    before.insert(name(&function), function);
                }
            }
            if let Some(old) = self.shards.insert(prefix, known)
                && let Shard::Leaf(functions) = old.shard
            {
                before.extend(functions.into_iter().map(|function| (name(&function), function)));
            }
        }
        let names: BTreeSet<Name> = before.keys().chain(after.keys()).cloned().collect();
        names.into_iter().filter(|name| before.get(name) != after.get(name)).collect()
    }

    /// Where a branch no longer leads.
    fn digits_gone(&self, prefix: &ShardPrefix, children: &BTreeMap<HexDigit, ShardRef>) -> Vec<ShardPrefix> {
        match self.shards.get(prefix).map(|known| &known.shard) {
            Some(Shard::Branch(old)) => {
                let gone = old.keys().filter(|digit| !children.contains_key(digit));
                gone.map(|digit| prefix.child(*digit)).collect()
            }
            Some(Shard::Leaf(_)) | None => Vec::new(),
        }
    }

    /// Removes a shard and all below it; what functions that were.
    fn remove_below(&mut self, prefix: &ShardPrefix) -> Vec<ServedFunction> {
        let below = self.shards.range(prefix.clone()..).take_while(|(place, _)| prefix.holds(place));
        let below: Vec<ShardPrefix> = below.map(|(place, _)| place.clone()).collect();
        let removed = below.iter().filter_map(|place| self.shards.remove(place));
        removed
            .flat_map(|known| if let Shard::Leaf(functions) = known.shard { functions } else { vec![] })
            .collect()
    }
}

impl Walk {
    /// Shards whose bytes are still needed. Whoever begins with the last ones has few in hand at any time.
    pub(crate) fn wanted(&self) -> impl DoubleEndedIterator<Item = Digest> {
        self.wanted.iter().map(|(_, named)| named.digest)
    }

    /// Reads the bytes of one that is wanted; what it leads to is wanted then, unless the tree has it.
    pub(crate) fn read(
        &mut self,
        tree: &FunctionTree,
        digest: Digest,
        bytes: &[u8],
    ) -> Result<(), AttestError> {
        let Some(at) = self.wanted.iter().rposition(|(_, named)| named.digest == digest) else {
            return Ok(());
        };
        let (prefix, named) = self.wanted[at].clone();
        let shard = Shard::read(bytes, &named, &prefix)?;
        self.wanted.swap_remove(at);
        if let Shard::Branch(children) = &shard {
            for (digit, child) in children {
                self.want(tree, prefix.child(*digit), *child);
            }
        }
        self.found.insert(prefix, Known { named, shard });
        Ok(())
    }

    fn want(&mut self, tree: &FunctionTree, prefix: ShardPrefix, named: ShardRef) {
        if tree.shards.get(&prefix).is_none_or(|known| known.named != named) {
            self.wanted.push((prefix, named));
        }
    }
}

fn name(function: &ServedFunction) -> Name {
    (function.tenant.clone(), function.name.clone())
}

fn leaf(shard: &Shard) -> &[ServedFunction] {
    match shard {
        Shard::Leaf(functions) => functions,
        Shard::Branch(_) => &[],
    }
}

#[cfg(test)]
mod tests;
