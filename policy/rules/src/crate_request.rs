//! A request for a crate, as builds, people and the acquirer hand it on.

use mfaas_ident::CrateName;
use semver::{Version, VersionReq};

use crate::Code;

/// A crate in a range of versions, with features.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CrateRequest {
    /// The package.
    pub name: CrateName,
    /// Which versions; of an approved crate exactly one.
    pub requirement: VersionReq,
    /// Features asked for, without `default`.
    pub features: Vec<String>,
    /// Whether the default features are asked for, too.
    pub default_features: bool,
}

impl CrateRequest {
    /// One version with the features that it was resolved with, of which `default` stands for the default ones.
    pub fn of_version(name: CrateName, version: &Version, features: &[String]) -> Self {
        Self {
            name,
            requirement: exact(version),
            features: features.iter().filter(|feature| *feature != "default").cloned().collect(),
            default_features: features.iter().any(|feature| feature == "default"),
        }
    }

    /// The same crate in exactly this version.
    pub fn exactly(&self, version: &Version) -> Self {
        Self { requirement: exact(version), ..self.clone() }
    }
}

/// A request that reviewers have to decide about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UndecidedCrate {
    /// What is asked for.
    pub request: CrateRequest,
    /// Why it is not allowed today: MF0204, MF0205 or MF0206.
    pub code: Code,
}

/// The requirement that takes one version alone.
pub fn exact(version: &Version) -> VersionReq {
    VersionReq {
        comparators: vec![semver::Comparator {
            op: semver::Op::Exact,
            major: version.major,
            minor: Some(version.minor),
            patch: Some(version.patch),
            pre: version.pre.clone(),
        }],
    }
}

#[cfg(test)]
mod tests;
