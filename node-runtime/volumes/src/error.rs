//! Why an operation did not do what it was asked for.

use std::time::Duration;

/// Why an operation did not do what it was asked for.
#[derive(Debug, thiserror::Error)]
pub enum VolumeError {
    /// Volumes cannot lie there.
    #[error(
        "`{0}`: expected file:///DIRECTORY, or nfs://HOST/EXPORT with uid, gid, nfsport and mountport as parameters"
    )]
    Address(String),
    /// No file is there.
    #[error("there is no file at this path")]
    NotThere,
    /// Something else is.
    #[error("what is at this path is no file, or what is above it no directory; links are not followed")]
    OtherKind,
    /// It is not removed.
    #[error("the directory is not empty")]
    NotEmpty,
    /// More than there is room for.
    #[error("the volume has no room for this")]
    Full,
    /// This program may not.
    #[error("the place of the volumes does not let this program do that")]
    Forbidden,
    /// The server was started again, and what was written before may be lost.
    #[error("the file server was started again: what was written before may be lost")]
    Restarted,
    /// What was looked up before is not there any more: looked up again it may be.
    #[error("the file server does not know a file any more that it had named")]
    Stale,
    /// It cannot be known, or done, at the moment.
    #[error("{0}")]
    Unavailable(String),
}

impl VolumeError {
    pub(crate) fn unavailable(error: impl std::fmt::Display) -> Self {
        Self::Unavailable(error.to_string())
    }

    pub(crate) fn silent(waited: Duration) -> Self {
        Self::Unavailable(format!("no answer within {} seconds", waited.as_secs()))
    }
}
