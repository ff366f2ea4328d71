//! The pinned compiler: where its parts lie once imported, and how its identity is checked.
//!
//! A toolchain directory is named by its own digest and never changes after the rename that
//! made it. Nothing here runs a tenant's program, and nothing here falls back to a compiler of
//! the machine: another version is an error, not a warning.

mod import;
mod imported;
mod stub;

pub(crate) use import::import;
pub(crate) use imported::{TARGET, Toolchain, host_libraries};
pub(crate) use stub::SCRIPT_FILE;
