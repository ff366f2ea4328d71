//! Which versions an entry affects, worked out another way than the rules do: the texts of its ranges
//! become half-open intervals of one long line on which every version is a point, as the RustSec
//! project exports them; what lies in none is affected. And the versions to ask about.

use semver::{BuildMetadata, Prerelease, Version};

use super::table::Row;

/// What is not affected: from the first, up to but without the second.
pub(crate) struct Intervals {
    free: Vec<(Version, Option<Version>)>,
    withdrawn: bool,
}

impl Intervals {
    pub(crate) fn of(row: &Row) -> Self {
        let texts = row.patched.iter().chain(&row.unaffected);
        Self { free: texts.map(|text| interval(text)).collect(), withdrawn: row.advisory.withdrawn }
    }

    pub(crate) fn affects(&self, version: &Version) -> bool {
        let point = plain(version.clone());
        let is_free = |(from, to): &(Version, Option<Version>)| {
            *from <= point && to.as_ref().is_none_or(|to| point < *to)
        };
        !self.withdrawn && !self.free.iter().any(is_free)
    }
}

/// Build metadata is no part of the line.
fn plain(mut version: Version) -> Version {
    version.build = BuildMetadata::EMPTY;
    version
}

fn lowest() -> Version {
    first_of(Version::new(0, 0, 0))
}

/// The lowest pre-release of a version.
fn first_of(mut version: Version) -> Version {
    version.pre = Prerelease::new("0").unwrap();
    version
}

/// The next point of the line.
fn next(version: &Version) -> Version {
    let mut next = version.clone();
    if version.pre.is_empty() {
        next.patch += 1;
        return first_of(next);
    }
    next.pre = Prerelease::new(&format!("{}.0", version.pre)).unwrap();
    next
}

fn interval(text: &str) -> (Version, Option<Version>) {
    let mut found = (lowest(), None);
    for part in text.split(',').map(str::trim) {
        let at = part.find(|c: char| c.is_ascii_digit()).unwrap();
        let (operator, number) = (part[..at].trim(), part[at..].trim());
        let version = whole(number);
        match operator {
            ">=" => found.0 = version,
            ">" => found.0 = next(&version),
            "<" => found.1 = Some(version),
            "<=" => found.1 = Some(next(&version)),
            "=" => found = (version.clone(), Some(next(&version))),
            "" | "^" => found = (version.clone(), Some(first_of(breaking(number, &version)))),
            other => panic!("{other:?} does not occur in the snapshot"),
        }
    }
    found
}

/// `1` is `1.0.0`.
fn whole(number: &str) -> Version {
    let dots = number.split(['-', '+']).next().unwrap().matches('.').count();
    Version::parse(&format!("{number}{}", &".0.0"[2 * dots.min(2)..])).unwrap()
}

/// The first version that is not compatible any more.
fn breaking(number: &str, version: &Version) -> Version {
    let parts = number.split('.').count();
    match (version.major, version.minor, parts) {
        (0, 0, 3) => Version::new(0, 0, version.patch + 1),
        (0, minor, 2 | 3) => Version::new(0, minor + 1, 0),
        (major, _, _) => Version::new(major + 1, 0, 0),
    }
}

/// At, just below and just above each border, their pre-releases, and the ends of the line.
pub(crate) fn samples(row: &Row) -> Vec<Version> {
    let mut found = vec![
        lowest(),
        Version::new(0, 0, 0),
        Version::new(0, 1, 0),
        Version::new(1, 0, 0),
        first_of(Version::new(1, 0, 0)),
        Version::new(999_999, 0, 0),
        Version::new(u64::MAX, u64::MAX, u64::MAX),
    ];
    for text in row.patched.iter().chain(&row.unaffected) {
        for part in text.split(',') {
            let number = part.trim_start_matches(|c: char| !c.is_ascii_digit()).trim();
            around(&whole(number), &mut found);
        }
        let (from, to) = interval(text);
        around(&from, &mut found);
        to.iter().for_each(|to| around(to, &mut found));
    }
    found.sort();
    found.dedup();
    found
}

fn around(border: &Version, found: &mut Vec<Version>) {
    let Version { major, minor, patch, .. } = *border;
    let with = |pre: &str| {
        let mut version = Version::new(major, minor, patch);
        version.pre = Prerelease::new(pre).unwrap();
        version
    };
    let mut built = border.clone();
    built.build = BuildMetadata::new("build.1").unwrap();
    found.extend([border.clone(), built, next(border), Version::new(major, minor, patch)]);
    found.extend(["0", "alpha", "alpha.1", "beta.2", "rc.1", "zz"].map(with));
    found.extend([
        Version::new(major, minor, patch + 1),
        Version::new(major, minor + 1, 0),
        first_of(Version::new(major, minor + 1, 0)),
        Version::new(major + 1, 0, 0),
        first_of(Version::new(major + 1, 0, 0)),
    ]);
    let below = match (major, minor, patch) {
        (0, 0, 0) => None,
        (major, 0, 0) => Some(Version::new(major - 1, 999, 999)),
        (major, minor, 0) => Some(Version::new(major, minor - 1, 999)),
        (major, minor, patch) => Some(Version::new(major, minor, patch - 1)),
    };
    found.extend(below);
}
