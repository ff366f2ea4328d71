//! Who needs whom, computed: the way from a request to each crate that comes along, and the version
//! that lies nearest to what was asked for. Pure.

use std::collections::{BTreeMap, VecDeque};

use semver::{Version, VersionReq};

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

/// The version among these that somebody who asked for `requirement` would miss least: one that it
/// takes, else the one whose numbers are nearest, the newer of two.
pub(super) fn nearest(requirement: &VersionReq, versions: &[Version]) -> Option<Version> {
    let matching = versions.iter().filter(|version| requirement.matches(version)).max();
    let wanted = requirement
        .comparators
        .first()
        .map_or((0, 0, 0), |asked| (asked.major, asked.minor.unwrap_or(0), asked.patch.unwrap_or(0)));
    // What comes behind a number that differs says nothing.
    let distance = |version: &Version| {
        let major = version.major.abs_diff(wanted.0);
        let minor = if major == 0 { version.minor.abs_diff(wanted.1) } else { 0 };
        let patch = if major + minor == 0 { version.patch.abs_diff(wanted.2) } else { 0 };
        (major, minor, patch, std::cmp::Reverse(version.clone()))
    };
    matching.or_else(|| versions.iter().min_by_key(|version| distance(version))).cloned()
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

    #[test]
    fn the_nearest_version_is_one_that_fits_or_the_least_far_one() {
        let versions = ["0.9.0", "1.2.0", "1.8.3", "3.0.0"].map(|text| text.parse::<Version>().unwrap());
        let nearest = |text: &str| nearest(&text.parse().unwrap(), &versions).unwrap().to_string();
        assert_eq!(nearest("^1"), "1.8.3");
        assert_eq!(nearest("=1.3.0"), "1.2.0");
        assert_eq!(nearest(">=1.9, <2"), "1.8.3");
        assert_eq!(nearest("^2"), "3.0.0");
        assert_eq!(nearest("^7"), "3.0.0");
        assert_eq!(nearest("=1.8.4"), "1.8.3");
        let minors = ["0.13.0", "0.14.0"].map(|text| text.parse::<Version>().unwrap());
        assert_eq!(super::nearest(&"^99".parse().unwrap(), &minors).unwrap().to_string(), "0.14.0");
        assert_eq!(super::nearest(&VersionReq::STAR, &[]), None);
    }
}
