//! One command in a cage, with typed ways to end.
//!
//! [`Cage::run`] starts the program's own executable again as `<helper> cage-exec`, which builds
//! the cage around itself (`mfaas-confine`) and runs the command: a builder with threads never
//! forks. Call [`cage_exec_main`] first thing in `main` for that argument.
//!
//! Nothing here runs without a limit, passes an environment variable or a descriptor that the
//! spec does not name, leaves a process behind, or decides what a command's output means.

mod cage;
mod cgroup;
mod courtesy;
mod exit;
mod helper;
mod keeper;
mod spec;
mod tree;
mod written;

pub use cage::{Cage, Cancel};
pub use exit::Exit;
#[cfg(feature = "testing")]
pub use helper::cage_exec_main_for_tests;
pub use helper::{CAGE_EXEC, cage_exec_main};
pub use keeper::{TreeLimits, tree_limits};
pub use mfaas_confine::{Access, Level, Mount, Support, probe};
pub use spec::{CageSpec, Filter, Outcome, Placement};

/// Why a command did not run, or how its cage was lost. How it ended is an [`Exit`].
#[derive(Debug, thiserror::Error)]
pub enum SandboxError {
    /// The cage cannot be built here, or not as strong as demanded (MF0409).
    #[error("the cage was refused: {reason}")]
    Refused {
        /// What failed.
        reason: String,
    },
    /// The helper could not be started.
    #[error("cannot start {helper} {CAGE_EXEC}: {source}")]
    Helper {
        /// The executable.
        helper: String,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// The helper died, or its pipes broke, before it said how the command ended.
    #[error("the cage was lost: {0}")]
    Lost(String),
}

#[cfg(test)]
mod tests;
