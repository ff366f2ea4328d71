//! Who needs whom, computed: the way from a request to each crate that comes along, and the version
//! that lies nearest to what was asked for. Pure.

use std::collections::{BTreeMap, VecDeque};

use crate::deps::PackageKey;

/// The shortest way from `from` to everything that it needs, itself first. Of two ways of one length
/// the one whose names come first.
pub(super) fn paths(
    from: &PackageKey,
    needs: &BTreeMap<PackageKey, Vec<PackageKey>>,
) -> BTreeMap<PackageKey, Vec<PackageKey>> {
    let mut found = BTreeMap::from([(from.clone(), vec![from.clone()])]);
    let mut open = VecDeque::from([from.clone()]);
    while let Some(next) = open.pop_front() {
        let path = found.get(&next).cloned().unwrap_or_default();
        let mut needed = needs.get(&next).cloned().unwrap_or_default();
        needed.sort();
        for key in needed {
            found.entry(key.clone()).or_insert_with(|| {
                open.push_back(key.clone());
                path.iter().cloned().chain([key]).collect()
            });
        }
    }
    found
}

#[cfg(test)]
mod tests;
