//! The helper: `<program> sandbox-exec`, started by [`crate::Sandbox::run`] and by nobody else.
//!
//! Its standard input is a socket: one line of JSON comes in, one line goes out at the end, and
//! the end of the input means that whoever wanted the command is gone.

use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};
use std::time::Duration;

use mfaas_confine::{Layer, Level, Profile, supervise};
use serde::{Deserialize, Serialize};

use crate::courtesy::be_first_out_of_memory;
use crate::spec::SandboxSpec;

/// The argument that makes a program a helper.
pub const SANDBOX_EXEC: &str = "sandbox-exec";

/// Size of a request: paths and arguments, never file contents.
const REQUEST_BYTES_MAX: usize = 4 << 20;

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Request {
    pub(crate) spec: SandboxSpec,
    /// Refused by [`sandbox_exec_main`]: only a test's helper takes a layer off.
    pub(crate) without: Option<Layer>,
    /// Ends where the program would be executed.
    pub(crate) is_trial: bool,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Reply {
    Ended { level: Level, wait_status: Option<i32>, cpu: Duration, max_rss_bytes: u64 },
    Refused { reason: String },
}

/// Builds a sandbox around this process, runs the command in it and reports. Has to be called before
/// the program starts a thread. The exit code says whether the report could be given.
pub fn sandbox_exec_main() -> ExitCode {
    serve(|profile, without| match without {
        None => Ok(profile),
        Some(_) => Err("no layer of a sandbox can be taken off here".to_owned()),
    })
}

/// The same for a test's helper, which may take a layer off.
#[cfg(feature = "testing")]
pub fn sandbox_exec_main_for_tests(token: &mfaas_confine::AblationToken) -> ExitCode {
    serve(|profile, without| {
        Ok(match without {
            None => profile,
            Some(layer) => profile.without(token, layer),
        })
    })
}

fn serve(finish: impl FnOnce(Profile, Option<Layer>) -> Result<Profile, String>) -> ExitCode {
    let Ok(input) = std::io::stdin().as_fd().try_clone_to_owned() else { return ExitCode::FAILURE };
    let mut socket = UnixStream::from(input);
    let reply = match execute(&mut socket, finish) {
        Ok(reply) => reply,
        Err(reason) => Reply::Refused { reason },
    };
    let sent = serde_json::to_vec(&reply).map(|mut line| {
        line.push(b'\n');
        socket.write_all(&line)
    });
    if matches!(sent, Ok(Ok(()))) { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn execute(
    socket: &mut UnixStream,
    finish: impl FnOnce(Profile, Option<Layer>) -> Result<Profile, String>,
) -> Result<Reply, String> {
    let line = read_line(socket)?;
    let request: Request =
        serde_json::from_slice(&line).map_err(|error| format!("the request is not understood: {error}"))?;
    let spec = request.spec;
    let profile = spec.profile().map_err(|error| error.to_string())?;
    let profile = finish(profile, request.without)?;
    be_first_out_of_memory();
    let ended = supervise(&profile, spec.level, socket.as_fd(), &|_level| {
        if request.is_trial {
            #[allow(
                clippy::disallowed_methods,
                reason = "this is the forked process that would have become the program"
            )]
            std::process::exit(0);
        }
        Command::new(&spec.program)
            .args(&spec.arguments)
            .env_clear()
            .envs(spec.environment.iter().map(|(name, value)| (name, value)))
            .current_dir(&spec.directory)
            .exec()
    });
    let ended = ended.map_err(|error| error.to_string())?;
    Ok(Reply::Ended {
        level: ended.level,
        wait_status: ended.wait_status,
        cpu: ended.cpu,
        max_rss_bytes: ended.max_rss_bytes,
    })
}

fn read_line(socket: &mut UnixStream) -> Result<Vec<u8>, String> {
    let mut line = Vec::new();
    let mut chunk = [0; 64 << 10];
    while line.last() != Some(&b'\n') {
        match socket.read(&mut chunk) {
            Ok(0) => return Err("the request ends early".to_owned()),
            Ok(length) => line.extend_from_slice(&chunk[..length]),
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(format!("the request cannot be read: {error}")),
        }
        if line.len() > REQUEST_BYTES_MAX {
            return Err("the request is too long".to_owned());
        }
    }
    Ok(line)
}
