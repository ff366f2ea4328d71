//! Why a command did not run, or how its sandbox was lost.

use crate::helper::SANDBOX_EXEC;

/// Why a command did not run, or how its sandbox was lost. How it ended is an [`crate::Exit`].
#[derive(Debug, thiserror::Error)]
pub enum SandboxError {
    /// The sandbox cannot be built here, or not as strong as demanded (MF0409).
    #[error("the sandbox was refused: {reason}")]
    Refused {
        /// What failed.
        reason: String,
    },
    /// The helper could not be started.
    #[error("cannot start {helper} {SANDBOX_EXEC}: {source}")]
    Helper {
        /// The executable.
        helper: String,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// The isolation controller of this machine did not place the command, or ended it because memory was low.
    #[error("the sandbox gave way: {0}")]
    GaveWay(String),
    /// The helper died, or its pipes broke, before it said how the command ended.
    #[error("the sandbox was lost: {0}")]
    Lost(String),
}
