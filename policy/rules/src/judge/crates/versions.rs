//! Which versions an advisory or a violation is about.
//!
//! RustSec orders versions as semver does, pre-releases included: `1.2.0-beta` comes before `1.2.0`
//! and has what `1.2.0` mended. `VersionReq::matches` answers another question (what cargo would
//! pick), and would call `1.3.0-beta` unpatched where `>= 1.2.0` is. The two ways of `^` and `~` to
//! end (`^1.2` ends before every pre-release of `2.0.0`) are RustSec's, too. Where a requirement says
//! less than a whole version, the reading that leaves more versions affected is taken.

use mfaas_ident::CrateName;
use semver::{BuildMetadata, Comparator, Op, Prerelease, Version, VersionReq};

use crate::crate_facts::Advisory;

/// Whether the advisory is about this version of this crate. Whoever looks for artifacts that a new
/// advisory hits asks this, so that no two places answer differently.
pub fn advisory_affects(advisory: &Advisory, name: &CrateName, version: &Version) -> bool {
    let is_free = |free: &VersionReq| within(free, version);
    !advisory.withdrawn
        && same_name(&advisory.package, name)
        && !advisory.patched.iter().any(is_free)
        && !advisory.unaffected.iter().any(is_free)
}

/// Whether a violation is about this version, in either way of reading it.
pub(super) fn violates(versions: &VersionReq, version: &Version) -> bool {
    versions.matches(version) || within(versions, version)
}

/// The registry takes no two names that differ in this alone.
pub(super) fn same_name(a: &CrateName, b: &CrateName) -> bool {
    let plain = |byte: u8| if byte == b'_' { b'-' } else { byte.to_ascii_lowercase() };
    a.as_str().bytes().map(plain).eq(b.as_str().bytes().map(plain))
}

/// Whether the version lies in all ranges of the requirement, by precedence.
fn within(requirement: &VersionReq, version: &Version) -> bool {
    requirement.comparators.iter().all(|comparator| {
        let (from, to) = range(comparator);
        from.is_none_or(|bound| bound.holds_below(version))
            && to.is_none_or(|bound| bound.holds_above(version))
    })
}

/// An end of a range.
struct Bound {
    version: Version,
    included: bool,
}

impl Bound {
    fn including(version: Version) -> Option<Self> {
        Some(Self { version, included: true })
    }

    fn excluding(version: Version) -> Option<Self> {
        Some(Self { version, included: false })
    }

    /// As the lower end. Build metadata has no precedence.
    fn holds_below(&self, version: &Version) -> bool {
        let order = self.version.cmp_precedence(version);
        order.is_lt() || (self.included && order.is_eq())
    }

    /// As the upper end.
    fn holds_above(&self, version: &Version) -> bool {
        let order = self.version.cmp_precedence(version);
        order.is_gt() || (self.included && order.is_eq())
    }
}

/// The ends of one comparator's range. What is not known holds for no version.
fn range(comparator: &Comparator) -> (Option<Bound>, Option<Bound>) {
    let written = || Version {
        major: comparator.major,
        minor: comparator.minor.unwrap_or(0),
        patch: comparator.patch.unwrap_or(0),
        pre: comparator.pre.clone(),
        build: BuildMetadata::EMPTY,
    };
    match comparator.op {
        Op::Exact => (Bound::including(written()), Bound::including(written())),
        Op::Greater => (greater(comparator, written()), None),
        Op::GreaterEq => (Bound::including(written()), None),
        Op::Less => (None, Bound::excluding(written())),
        Op::LessEq => (None, Bound::including(written())),
        Op::Caret => (Bound::including(written()), end(caret(comparator))),
        Op::Tilde => (Bound::including(written()), end(tilde(comparator))),
        _ => (Bound::excluding(written()), Bound::excluding(written())),
    }
}

/// `> 1.2` begins behind every `1.2.x`.
fn greater(comparator: &Comparator, written: Version) -> Option<Bound> {
    match (comparator.minor, comparator.patch) {
        (Some(_), Some(_)) => Bound::excluding(written),
        (Some(minor), None) => Bound::including(Version::new(comparator.major, minor.saturating_add(1), 0)),
        (None, _) => Bound::including(Version::new(comparator.major.saturating_add(1), 0, 0)),
    }
}

fn caret(comparator: &Comparator) -> Version {
    let major = comparator.major;
    match (major, comparator.minor, comparator.patch) {
        (0, Some(0), Some(patch)) => Version::new(0, 0, patch.saturating_add(1)),
        (0, Some(minor), _) => Version::new(0, minor.saturating_add(1), 0),
        (major, _, _) => Version::new(major.saturating_add(1), 0, 0),
    }
}

fn tilde(comparator: &Comparator) -> Version {
    match comparator.minor {
        Some(minor) => Version::new(comparator.major, minor.saturating_add(1), 0),
        None => Version::new(comparator.major.saturating_add(1), 0, 0),
    }
}

/// Before all pre-releases of `version`: `-0` is the lowest of them.
fn end(mut version: Version) -> Option<Bound> {
    version.pre = Prerelease::new("0").unwrap_or_default();
    Bound::excluding(version)
}
