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
mod tests {
    #![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

    use super::*;

    fn key(text: &str) -> PackageKey {
        let (name, version) = text.split_once(' ').unwrap();
        (name.parse().unwrap(), version.parse().unwrap())
    }

    #[test]
    fn the_way_to_a_crate_is_the_shortest_one() {
        let needs = BTreeMap::from([
            (key("regex 1.0.0"), vec![key("regex-automata 0.4.0"), key("aho-corasick 1.1.0")]),
            (key("regex-automata 0.4.0"), vec![key("memchr 2.8.0"), key("aho-corasick 1.1.0")]),
            (key("aho-corasick 1.1.0"), vec![key("memchr 2.8.0"), key("regex 1.0.0")]),
            (key("stranger 1.0.0"), vec![key("other 1.0.0")]),
        ]);
        let paths = paths(&key("regex 1.0.0"), &needs);
        assert_eq!(paths.len(), 4);
        assert_eq!(
            paths[&key("memchr 2.8.0")],
            [key("regex 1.0.0"), key("aho-corasick 1.1.0"), key("memchr 2.8.0")]
        );
        assert_eq!(paths[&key("regex 1.0.0")], [key("regex 1.0.0")]);
        assert!(!paths.contains_key(&key("other 1.0.0")));
    }
}
