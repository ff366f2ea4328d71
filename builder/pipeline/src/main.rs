//! `mfaas-builder`: turns an uploaded source into an inspected artifact.
//!
//! Everything that touches hostile source happens below this program, and everything that
//! *executes* on behalf of it happens in a cage. This program never signs, never changes policy,
//! and never runs cargo in a tenant's tree.

mod arguments;
mod cage;
mod check;
mod config;
mod deps;
mod diagnostics;
mod error;
mod exceeded;
mod flags;
mod journal;
mod log;
mod serve;
mod stages;
mod toolchain;
mod workspace;

use std::process::ExitCode;

use clap::Parser as _;

fn main() -> ExitCode {
    // The cage starts this very file as its helper, which must not have a second thread.
    if std::env::args_os().nth(1).is_some_and(|first| first == mfaas_sandbox::CAGE_EXEC) {
        return mfaas_sandbox::cage_exec_main();
    }
    arguments::Arguments::parse().run()
}
