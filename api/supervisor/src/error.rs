//! Why something of this machine could not be done, in words for the person who asked.

use std::path::{Path, PathBuf};

/// One variant for each thing that somebody would do differently.
#[derive(Debug, thiserror::Error)]
pub enum SupervisorError {
    /// What was asked for does not fit together.
    #[error("{0}")]
    Usage(String),
    /// A key does not match.
    #[error("verification failed: {0}")]
    Unverified(String),
    /// A file or directory.
    #[error("{what} {}: {source}", path.display())]
    Io {
        /// For example `cannot read`.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// The system's reason.
        #[source]
        source: std::io::Error,
    },
    /// A program wrote something that is not in the contract.
    #[error("{what} answered with something unexpected: {cause}")]
    Protocol {
        /// The program, or its file.
        what: String,
        /// What was wrong with it.
        cause: String,
    },
    /// Anything else on this machine.
    #[error("{0}")]
    Local(String),
    /// Ctrl-C or SIGTERM.
    #[error("interrupted")]
    Interrupted,
}

impl SupervisorError {
    /// For `map_err`: names what was tried and on which path.
    pub fn io(what: &'static str, path: impl AsRef<Path>) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.as_ref().to_owned();
        move |source| Self::Io { what, path, source }
    }
}

/// The last cause of an error: "connection refused" instead of "error sending request".
pub fn innermost(error: &dyn std::error::Error) -> String {
    let mut cause = error;
    while let Some(next) = cause.source() {
        cause = next;
    }
    cause.to_string()
}
