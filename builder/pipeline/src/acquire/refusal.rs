//! What cargo says when it cannot resolve, as something that can be acted upon.
//!
//! The words are those of the pinned cargo; the tests hold texts that it printed. Whatever is not
//! recognised stays an error with its text, and is never taken for a success.

use mfaas_ident::{CrateName, sanitise, sanitise_line};

use super::error::AcquireError;

/// Bytes of cargo's output that are kept.
const OUTPUT_BYTES_MAX: usize = 2_000;
/// Phrases that stand in an error about the way to the registry, and in none about what it says.
const NETWORK: &[&str] = &[
    "spurious network error",
    "failed to download from",
    "download of config.json failed",
    "Could not resolve host",
    "Could not connect to server",
    "Timeout was reached",
    "failed to get successful HTTP response",
];

/// Reads the standard error of a cargo that failed.
pub(super) fn classify(stderr: &str) -> AcquireError {
    // What comes before is progress.
    let text = stderr.split_once("error: ").map_or(stderr, |(_, text)| text);
    no_such_crate(text)
        .or_else(|| no_feature(text))
        .or_else(|| conflict(text))
        .or_else(|| no_version(text))
        .unwrap_or_else(|| unknown(stderr, text))
}

fn unknown(stderr: &str, text: &str) -> AcquireError {
    let reason = sanitise(text.trim_end(), OUTPUT_BYTES_MAX);
    if NETWORK.iter().any(|phrase| stderr.contains(phrase)) {
        AcquireError::Network { reason }
    } else {
        AcquireError::Other { reason }
    }
}

fn no_such_crate(text: &str) -> Option<AcquireError> {
    let name = text.strip_prefix("no matching package named ").and_then(first_quoted)?;
    Some(AcquireError::NoSuchCrate { name: sanitise_line(name, 100) })
}

fn no_feature(text: &str) -> Option<AcquireError> {
    let line = text.lines().find(|line| line.ends_with("does not have that feature."))?;
    let mut quoted = line.split('`').skip(1).step_by(2).skip(1);
    let (name, feature) = (quoted.next()?, quoted.next()?);
    Some(AcquireError::NoFeature { name: sanitise_line(name, 100), feature: sanitise_line(feature, 100) })
}

/// Two versions of one compatible range: cargo names the one that is there.
fn conflict(text: &str) -> Option<AcquireError> {
    let there = text.split("previously selected package ").nth(1).and_then(first_quoted)?;
    let (name, version) = there.split_once(" v")?;
    let version = version.split(' ').next()?;
    let wanted = text.lines().find_map(|line| line.strip_prefix("versions that meet the requirements "));
    let reason = wanted.map_or_else(
        || "two crates cannot be there together".to_owned(),
        |line| format!("another version is asked for, {}", sanitise_line(line, 200)),
    );
    Some(AcquireError::Conflict {
        name: CrateName::parse(name).ok()?,
        offered: semver::Version::parse(version).ok()?,
        reason,
    })
}

fn no_version(text: &str) -> Option<AcquireError> {
    let line = text.lines().next()?;
    let asked =
        line.strip_prefix("failed to select a version for the requirement ").and_then(first_quoted)?;
    let (name, requirement) = asked.split_once(" = ")?;
    let list = text.lines().find_map(|line| {
        let found = line.strip_prefix("candidate versions found which didn't match: ");
        found.or_else(|| line.strip_prefix("versions found: "))
    });
    let newest = list
        .unwrap_or_default()
        .split(", ")
        .filter(|version| semver::Version::parse(version).is_ok())
        .map(str::to_owned)
        .collect();
    let requirement = requirement.trim_matches('"');
    Some(AcquireError::NoVersion {
        name: sanitise_line(name, 100),
        requirement: sanitise_line(requirement, 100),
        newest,
        offered: None,
    })
}

fn first_quoted(text: &str) -> Option<&str> {
    text.split('`').nth(1)
}

#[cfg(test)]
mod tests;
