//! One command in a sandbox, with typed ways to end.
//!
//! [`Sandbox::run`] starts the program's own executable again as `<helper> sandbox-exec`, which builds
//! the sandbox around itself (`mfaas-confine`) and runs the command: a builder with threads never
//! forks. Call [`sandbox_exec_main`] first thing in `main` for that argument.
//!
//! Nothing here runs without a limit, passes an environment variable or a descriptor that the
//! spec does not name, leaves a process behind, or decides what a command's output means.

mod cgroup;
mod courtesy;
mod error;
mod exit;
mod helper;
mod monitor;
mod sandbox;
mod spec;
mod tree;
mod trial;
mod written;

pub use error::SandboxError;
pub use exit::Exit;
#[cfg(feature = "testing")]
pub use helper::sandbox_exec_main_for_tests;
pub use helper::{SANDBOX_EXEC, sandbox_exec_main};
pub use mfaas_confine::{Access, Level, Mount};
pub use monitor::tree_limits;
pub use sandbox::{Cancel, Sandbox};
pub use spec::{Filter, Outcome, Placement, SandboxSpec, TreeLimits};
pub use trial::{Tried, try_out};

#[cfg(test)]
mod tests;
