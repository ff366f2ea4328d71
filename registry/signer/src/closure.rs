//! Everything that is linked into a function because of what its manifest asks for.
//!
//! Pure: the site's caches go in as the registry recorded them, and what a build with one of them links comes out. Must
//! never take a crate from a claim.

use std::collections::{BTreeMap, BTreeSet};

use mfaas_rules::{Granted, LinkedCrate};

/// A crate of one dependency cache, with everything that it needs there.
#[derive(Debug, Clone)]
pub(crate) struct CachedCrate {
    /// The key of the cache.
    pub(crate) cache: String,
    /// The crate.
    pub(crate) of: LinkedCrate,
    /// What it needs, itself not included.
    pub(crate) needs: Vec<LinkedCrate>,
}

/// What a build with each of the caches links that have everything that was granted; the same for most of them. Empty
/// if none has.
pub(crate) fn closures(granted: &[Granted], caches: &[CachedCrate]) -> BTreeSet<BTreeSet<LinkedCrate>> {
    let mut by_cache: BTreeMap<&str, Vec<&CachedCrate>> = BTreeMap::new();
    for row in caches {
        by_cache.entry(&row.cache).or_default().push(row);
    }
    if granted.is_empty() {
        return BTreeSet::from([BTreeSet::new()]);
    }
    by_cache.values().filter_map(|held| closure(granted, held)).collect()
}

/// What a build with one cache links; nothing if it lacks one of these crates.
fn closure(granted: &[Granted], held: &[&CachedCrate]) -> Option<BTreeSet<LinkedCrate>> {
    let mut linked = BTreeSet::new();
    for grant in granted {
        let found = held.iter().find(|row| {
            (&row.of.name, &row.of.version, &row.of.checksum)
                == (&grant.name, &grant.version, &grant.checksum)
        })?;
        linked.insert(found.of.clone());
        linked.extend(found.needs.iter().cloned());
    }
    Some(linked)
}

/// The first crate that is in one and not in the other, with whether it is missing from `claimed`.
pub(crate) fn difference<'a>(
    claimed: &'a BTreeSet<LinkedCrate>,
    expected: &'a BTreeSet<LinkedCrate>,
) -> Option<(&'a LinkedCrate, bool)> {
    let missing = expected.difference(claimed).next().map(|part| (part, true));
    missing.or_else(|| claimed.difference(expected).next().map(|part| (part, false)))
}
