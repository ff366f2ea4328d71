//! Of several versions the one that somebody who wanted another would miss least.

use semver::{Version, VersionReq};

/// One that `requirement` takes, the newest of them; else the one whose numbers are nearest to those that it
/// names, the newer of two. `None` only among no versions.
pub fn nearest<'a>(
    requirement: &VersionReq,
    versions: impl IntoIterator<Item = &'a Version>,
) -> Option<&'a Version> {
    let wanted = requirement
        .comparators
        .first()
        .map_or((0, 0, 0), |asked| (asked.major, asked.minor.unwrap_or(0), asked.patch.unwrap_or(0)));
    // What comes behind a number that differs says nothing.
    let distance = |version: &Version| {
        let major = version.major.abs_diff(wanted.0);
        let minor = if major == 0 { version.minor.abs_diff(wanted.1) } else { 0 };
        let patch = if major + minor == 0 { version.patch.abs_diff(wanted.2) } else { 0 };
        (major, minor, patch)
    };
    versions.into_iter().min_by_key(|version| {
        let fits = requirement.matches(version);
        let distance = if fits { (0, 0, 0) } else { distance(version) };
        (!fits, distance, std::cmp::Reverse(*version))
    })
}

#[cfg(test)]
mod tests;
