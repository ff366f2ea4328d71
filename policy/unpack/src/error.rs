//! Why an upload is not a source tree.

use mfaas_ident::sanitise_line;
use mfaas_rules::{Code, Finding, Layer, codes};

/// A path as a person may see it: made visible and bounded.
pub(crate) fn shown(path: &[u8]) -> String {
    sanitise_line(&String::from_utf8_lossy(path), 120)
}

/// Why an upload is refused. Paths inside are sanitised already.
#[derive(Debug, thiserror::Error)]
pub enum UnpackError {
    /// More bytes than an upload may have.
    #[error("the upload has {bytes} bytes, {limit} are allowed")]
    UploadTooLarge {
        /// Size of the upload.
        bytes: u64,
        /// The limit.
        limit: u64,
    },
    /// Not an archive that can be read in exactly one way.
    #[error("the archive cannot be read: {reason}")]
    Malformed {
        /// What is wrong, as a sentence fragment.
        reason: String,
    },
    /// The archive unpacks to more than the limit, or claims to.
    #[error("the archive unpacks to more than {limit} bytes (at {path:?})")]
    UnpackedTooLarge {
        /// The limit.
        limit: u64,
        /// The entry that crossed it.
        path: String,
    },
    /// Too many files and directories.
    #[error("the archive has more than {limit} entries")]
    TooManyEntries {
        /// The limit.
        limit: usize,
    },
    /// A path that is not allowed.
    #[error("the path {path:?} is not allowed: {rule}")]
    Path {
        /// The path.
        path: String,
        /// The rule it broke.
        rule: &'static str,
    },
    /// Neither a regular file nor a directory, or with special permission bits.
    #[error("{path:?} is {what}; only regular files and directories are allowed")]
    EntryType {
        /// The path.
        path: String,
        /// What it is instead.
        what: &'static str,
    },
    /// Two entries with the same path, or with paths that differ only in case.
    #[error("{path:?} collides with {other:?}")]
    Collision {
        /// The later path.
        path: String,
        /// The earlier one.
        other: String,
    },
    /// No Cargo.toml at the root.
    #[error("there is no Cargo.toml at the root of the archive")]
    ManifestMissing,
    /// A file that cargo or rustup would obey, or version-control data.
    #[error("{path:?} is not allowed in an upload: {why}")]
    Forbidden {
        /// The path.
        path: String,
        /// Why not.
        why: &'static str,
    },
    /// The tenant's directory (for `check` and `deploy`) or the builder's could not be read or written.
    #[error("{path}: {source}")]
    Disk {
        /// Where.
        path: String,
        /// The cause.
        #[source]
        source: std::io::Error,
    },
}

impl UnpackError {
    pub(crate) fn malformed(reason: impl Into<String>) -> Self {
        Self::Malformed { reason: reason.into() }
    }

    pub(crate) fn disk(path: &std::path::Path, source: std::io::Error) -> Self {
        Self::Disk { path: sanitise_line(&path.display().to_string(), 200), source }
    }

    /// The code of a refusal. `None` for [`Self::Disk`], which is our failure and not the tenant's.
    pub fn code(&self) -> Option<Code> {
        match self {
            Self::UploadTooLarge { .. } => Some(codes::MF0101),
            Self::Malformed { .. } => Some(codes::MF0102),
            Self::UnpackedTooLarge { .. } => Some(codes::MF0103),
            Self::TooManyEntries { .. } => Some(codes::MF0104),
            Self::Path { .. } => Some(codes::MF0105),
            Self::EntryType { .. } => Some(codes::MF0106),
            Self::Collision { .. } => Some(codes::MF0107),
            Self::ManifestMissing => Some(codes::MF0108),
            Self::Forbidden { .. } => Some(codes::MF0109),
            Self::Disk { .. } => None,
        }
    }

    /// The refusal for the tenant. `None` for [`Self::Disk`].
    pub fn finding(&self) -> Option<Finding> {
        self.code().map(|code| Finding::new(code, Layer::Archive, self.to_string()))
    }
}
