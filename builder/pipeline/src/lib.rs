//! The build machine: turns an uploaded source into an inspected artifact.
//!
//! Everything that touches hostile source happens below this crate, and everything that
//! *executes* on behalf of it happens in a sandbox. It never signs, never changes policy, and never
//! runs cargo in a tenant's tree. A library only so that tests can take layers off one by one
//! (feature `ablation`); the program `mfaas-builder` is [`main`] and nothing else.

#[cfg(feature = "ablation")]
pub mod ablation;
mod acquire;
mod acquirer;
mod arguments;
mod check;
mod config;
mod deps;
mod diagnostics;
mod disk;
mod error;
mod exceeded;
mod facts;
mod flags;
mod health;
mod journal;
mod layers;
mod meters;
mod sandbox;
mod serve;
mod stages;
mod toolchain;
mod workspace;

use std::process::ExitCode;

use clap::Parser as _;

/// The program.
pub fn main() -> ExitCode {
    // The sandbox starts this very file as its helper, which must not have a second thread.
    if std::env::args_os().nth(1).is_some_and(|first| first == mfaas_sandbox::SANDBOX_EXEC) {
        return mfaas_sandbox::sandbox_exec_main();
    }
    // cargo starts it in place of rustc, in the sandbox of the dependency build.
    if let Some(plan) = std::env::var_os(deps::PLAN_VARIABLE) {
        return deps::compile_as_planned(&plan);
    }
    arguments::Arguments::parse().run()
}
