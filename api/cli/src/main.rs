//! `mfaas`: the one program that people type. It uploads, asks and shows; on a single machine it
//! also sets up and supervises the others (`mfaas-supervisor`).
//!
//! It must never compile, load or run a tenant's code itself, and it holds no key: the programs
//! beside it do that, each in its own process.

mod client;
mod commands;
mod events;
mod failure;
mod root;
mod screen;
mod settings;

use std::process::ExitCode;

use clap::Parser as _;

use crate::commands::Arguments;
use crate::failure::Exit;
use crate::settings::Context;

fn main() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => {
            // Help and version are no errors; clap prints each where it belongs.
            let _ = error.print();
            return code(if error.use_stderr() { Exit::Usage } else { Exit::Ok });
        }
    };
    code(run(arguments))
}

fn run(arguments: Arguments) -> Exit {
    if rustls::crypto::ring::default_provider().install_default().is_err() {
        return Exit::Failed;
    }
    let (global, command) = arguments.parts();
    let screen = screen::Screen::new(global.json, global.quiet, global.verbose);
    let result = Context::of(global, command.needs_profile()).and_then(|context| command.run(&context));
    match result {
        Ok(exit) => exit,
        Err(failure) => {
            screen.failure(&failure);
            failure.exit()
        }
    }
}

fn code(exit: Exit) -> ExitCode {
    // The codes are 0 to 130, all within a byte.
    ExitCode::from(exit as u8)
}
