//! mfaas-worker: one thread that takes calls from a ring and answers them from an executor.
//!
//! ```text
//! mfaas-worker                    serve; started by a node with the descriptors of
//!                                 mfaas_ring::preload
//! mfaas-worker --protection CONTROLS  say as one line of JSON what would hold calls on this machine, with
//!                                 these controls over speculation (mfaas_ring::preload)
//! mfaas-worker --probe FILE       load FILE under the production executor, run nothing of it
//! mfaas-worker --call FILE [--budget 10ms] [--memory 4MiB] [--times N] [--raw]
//!                                 a developer's tool: serve FILE to itself, with the body from
//!                                 standard input, and print the answers
//! mfaas-worker --version          say which build this is
//! ```
//! Exit codes: 0 served, loaded or answered · 1 failed · 2 usage · 7 a call did not answer ·
//! 128 + n ended by its own fault with signal n (159: a denied system call).
//!
//! It must never open a file or a socket in the service of a call, never allocate between calls,
//! and never take a call before it is locked down.

#![forbid(unsafe_code)]

mod arguments;
mod harden;
mod inline;
mod limits;
mod probe;
mod serve;
mod solo;

use std::io::Write as _;
use std::process::ExitCode;

use crate::arguments::Command;

const FAILED: u8 = 1;
const USAGE: u8 = 2;

fn main() -> ExitCode {
    let command = match Command::parse(std::env::args_os().skip(1)) {
        Ok(command) => command,
        Err(error) => return fail(&error, USAGE),
    };
    let done = match command {
        Command::Serve => serve::serve(),
        Command::Protection(request) => probe::protection(request),
        Command::Probe(file) => probe::probe(&file),
        Command::Call(call) => solo::call(&call),
        Command::Version => say_version(),
    };
    done.unwrap_or_else(|error| fail(&error, FAILED))
}

fn say_version() -> anyhow::Result<ExitCode> {
    writeln!(std::io::stdout(), "mfaas-worker {}", mfaas_ident::BuildVersion::this())?;
    Ok(ExitCode::SUCCESS)
}

/// One line for whoever started the program.
fn fail(error: &anyhow::Error, code: u8) -> ExitCode {
    // Without a standard error there is nobody to tell.
    let _ = writeln!(std::io::stderr(), "mfaas-worker: {error:#}");
    ExitCode::from(code)
}
