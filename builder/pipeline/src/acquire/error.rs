//! Why a crate could not be acquired: one variant for each thing that somebody would do about it.

use mfaas_ident::CrateName;

/// Every text inside is sanitised.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum AcquireError {
    /// The registry has no crate of that name.
    #[error("the registry has no crate `{name}`")]
    NoSuchCrate {
        /// The name.
        name: String,
    },
    /// It has the crate, and no version that the requirement takes.
    #[error("no version of `{name}` matches `{requirement}`; the newest are {}{}", .newest.join(", "), .offered.as_ref().map_or_else(String::new, |version| format!("; the site offers {version}")))]
    NoVersion {
        /// The crate.
        name: String,
        /// What was asked for, as cargo writes it.
        requirement: String,
        /// The newest published versions.
        newest: Vec<String>,
        /// The version that the site has of it, the nearest of several.
        offered: Option<semver::Version>,
    },
    /// It has a version that the requirement takes, and that version lacks a feature.
    #[error("`{name}` has no feature `{feature}`")]
    NoFeature {
        /// The crate.
        name: String,
        /// The feature.
        feature: String,
    },
    /// It needs another version of a crate than the one that the site offers, and both cannot be
    /// there. A tenant can use what is offered.
    #[error("it does not fit the site's one resolution, which has `{name}` {offered}: {reason}")]
    Conflict {
        /// The crate that is there already.
        name: CrateName,
        /// Its version.
        offered: semver::Version,
        /// What was wanted instead.
        reason: String,
    },
    /// The registry did not answer. It may later.
    #[error("the registry did not answer: {reason}")]
    Network {
        /// What cargo printed.
        reason: String,
    },
    /// The downloaded bytes are not those of the lock, or are not there.
    #[error("the archive of `{name}` {version}: {reason}")]
    Archive {
        /// The crate.
        name: CrateName,
        /// Its version.
        version: semver::Version,
        /// What is wrong.
        reason: String,
    },
    /// Anything else.
    #[error("cargo cannot resolve it: {reason}")]
    Other {
        /// Why.
        reason: String,
    },
}
