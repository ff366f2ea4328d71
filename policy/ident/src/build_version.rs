//! Which build a program is.

use std::sync::LazyLock;

use crate::text_newtype;

/// The longest version, in bytes.
const BUILD_BYTES_MAX: usize = 100;
/// Digits of a commit: as few as git shortens one to, and all of them.
const COMMIT_DIGITS: std::ops::RangeInclusive<usize> = 7..=40;

text_newtype!(
    /// A version in the form of SemVer 2.0, and behind a `+` the commit that it was built from, where that was said:
    /// `0.3.0+1f2e3d4c5b6a`. Versions are shown and never compared: what a program can do is told by protocol numbers.
    BuildVersion, "build version",
    "1 to 100 characters of A-Z, a-z, 0-9, '.', '-', '+', starting with a digit",
    |t| (1..=BUILD_BYTES_MAX).contains(&t.len())
        && t.as_bytes()[0].is_ascii_digit()
        && t.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-' | b'+'))
);

/// What whoever built this said that it was built from. Nothing else of a build's time or place comes into a program, so that
/// the same sources give the same bytes.
const COMMIT: Option<&str> = option_env!("MFAAS_COMMIT");
const _: () = assert!(
    is_commit_or_absent(COMMIT),
    "MFAAS_COMMIT is no commit: 7 to 40 hexadecimal digits in lower case"
);

static THIS: LazyLock<BuildVersion> = LazyLock::new(|| {
    let version = env!("CARGO_PKG_VERSION");
    BuildVersion(COMMIT.map_or_else(|| version.to_owned(), |commit| format!("{version}+{commit}")))
});

impl BuildVersion {
    /// That of this program. All programs of a release have the same.
    pub fn this() -> &'static Self {
        &THIS
    }
}

const fn is_commit_or_absent(commit: Option<&str>) -> bool {
    let Some(commit) = commit else { return true };
    let digits = commit.as_bytes();
    let mut at = 0;
    while at < digits.len() {
        if !matches!(digits[at], b'0'..=b'9' | b'a'..=b'f') {
            return false;
        }
        at += 1;
    }
    *COMMIT_DIGITS.start() <= at && at <= *COMMIT_DIGITS.end()
}

#[cfg(test)]
mod tests;
