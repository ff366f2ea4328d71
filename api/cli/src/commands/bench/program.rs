//! The programs of `bench/`, which are built apart from what ships, since they bring wasmtime; what they print goes to
//! standard output as it is.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::failure::{Exit, Failure};
use crate::settings::Global;

/// How they come to be there.
const BUILD: &str = "(cd bench && cargo build --release)";

/// Adds an option that was given.
pub(super) fn add(arguments: &mut Vec<OsString>, name: &str, value: Option<impl Into<OsString>>) {
    if let Some(value) = value {
        arguments.extend([name.into(), value.into()]);
    }
}

/// Runs the program of that name, beside our own, with the settings of ours.
pub(super) fn run(name: &str, arguments: &[OsString], global: &Global) -> Result<Exit, Failure> {
    let own = std::env::current_exe()
        .map_err(|e| Failure::Local(format!("cannot find our own executable: {e}")))?;
    let program = beside(&own, name)?;
    let status = Command::new(&program)
        .args(arguments)
        .envs(variables(global))
        .stdin(Stdio::null())
        .status()
        .map_err(Failure::io("cannot start", &program))?;
    match Exit::of_status(status) {
        Exit::Ok => Ok(Exit::Ok),
        // It has said itself what is missing or missed.
        other => Err(Failure::Told(other)),
    }
}

/// What was typed counts for a `mfaas` that the program starts, too.
fn variables(global: &Global) -> impl Iterator<Item = (&'static str, OsString)> {
    let tenant = global.tenant.as_ref().map(ToString::to_string);
    let settings: [(_, Option<OsString>); 4] = [
        ("MFAAS_SERVER", global.server.clone().map(Into::into)),
        ("MFAAS_TOKEN", global.token.clone().map(Into::into)),
        ("MFAAS_TENANT", tenant.map(Into::into)),
        ("MFAAS_PROFILE_FILE", global.profile_file.clone().map(Into::into)),
    ];
    settings.into_iter().filter_map(|(name, value)| Some((name, value?)))
}

/// The program in the directory of `own`; where it is not, the failure says how to build it.
fn beside(own: &Path, name: &str) -> Result<PathBuf, Failure> {
    let program = own.with_file_name(name);
    if program.is_file() {
        return Ok(program);
    }
    Err(Failure::Local(format!("{name} is not beside {}; in the source tree: {BUILD}", own.display())))
}

#[cfg(test)]
mod tests;
