//! What programs of a machine say to its isolation controller, and how: one connection to its Unix socket, one line of JSON
//! each way.
//!
//! Who may connect is decided by the socket's file; what they may ask is decided by their user id, which the kernel tells the
//! controller. To become secondary only takes away from whoever asks, so each may ask it for itself and for its children.

mod messages;

use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

pub use messages::{
    Change, Cores, CpuTime, Disk, Limit, Mechanism, Member, Mode, Refused, Request, Response, Role, Status,
};

/// A request and its line's end, in bytes, at most.
pub const REQUEST_BYTES_MAX: u64 = 4 << 10;
/// An answer and its line's end, in bytes, at most: a status with every member that a controller has.
pub const RESPONSE_BYTES_MAX: u64 = 1 << 20;
/// What the names of a primary's threads begin with whose work can wait: they are never in the real-time class.
pub const BACKGROUND_THREADS: &str = "bulk-";
/// How long the controller may take: it answers from memory, or after a few writes to control groups.
const ANSWER_MAX: Duration = Duration::from_secs(5);

/// Why a request was not carried out.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// There is no controller, or it does not answer.
    #[error("the isolation controller at {socket} does not answer: {source}")]
    Away {
        /// Where it was asked.
        socket: PathBuf,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// What came back is no answer.
    #[error(
        "the isolation controller at {socket} gave an answer that this program does not understand: {reason}"
    )]
    Answer {
        /// Where it was asked.
        socket: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// It was refused.
    #[error(transparent)]
    Refused(#[from] Refused),
}

/// Asks the controller that listens at `socket`.
pub fn ask(socket: &Path, request: &Request) -> Result<Response, ClientError> {
    let away = |source| ClientError::Away { socket: socket.to_owned(), source };
    let answer = |reason: String| ClientError::Answer { socket: socket.to_owned(), reason };
    let line = exchange(socket, request).map_err(away)?;
    if !line.ends_with('\n') {
        return Err(answer(format!("it ends after {} bytes", line.len())));
    }
    match serde_json::from_str(&line).map_err(|error| answer(error.to_string()))? {
        Response::Refused(refused) => Err(refused.into()),
        response => Ok(response),
    }
}

/// Makes this process, and what it starts from now on, part of the secondary.
pub fn join_secondary(socket: &Path) -> Result<(), ClientError> {
    place_child(socket, std::process::id())
}

/// Makes a child of this process, and what it starts, part of the secondary.
pub fn place_child(socket: &Path, pid: u32) -> Result<(), ClientError> {
    place_secondary(socket, pid, false)
}

/// The same, and it may stand still for a while and be ended when memory runs low.
pub fn place_stoppable_child(socket: &Path, pid: u32) -> Result<(), ClientError> {
    place_secondary(socket, pid, true)
}

fn place_secondary(socket: &Path, pid: u32, may_stop: bool) -> Result<(), ClientError> {
    ask(socket, &Request::Place { pid, role: Role::Secondary, may_stop, own_cores: vec![] }).map(drop)
}

/// Whether the controller ended that child of this process, which was lost just now.
pub fn has_ended(socket: &Path, pid: u32) -> Result<bool, ClientError> {
    Ok(matches!(ask(socket, &Request::Ended { pid })?, Response::Ended { by_us: true }))
}

/// Makes this process, and what it starts from now on, part of the primary. Its workers have `own_cores` for themselves.
pub fn join_primary(socket: &Path, own_cores: &[usize]) -> Result<(), ClientError> {
    place_primary(socket, std::process::id(), own_cores)
}

/// The same of a child of this process.
pub fn place_primary(socket: &Path, pid: u32, own_cores: &[usize]) -> Result<(), ClientError> {
    let own_cores = own_cores.to_vec();
    ask(socket, &Request::Place { pid, role: Role::Primary, may_stop: false, own_cores }).map(drop)
}

fn exchange(socket: &Path, request: &Request) -> io::Result<String> {
    let mut stream = UnixStream::connect(socket)?;
    stream.set_read_timeout(Some(ANSWER_MAX))?;
    stream.set_write_timeout(Some(ANSWER_MAX))?;
    let mut line = serde_json::to_vec(request)?;
    line.push(b'\n');
    stream.write_all(&line)?;
    let mut answer = String::new();
    BufReader::new(stream.take(RESPONSE_BYTES_MAX)).read_line(&mut answer)?;
    Ok(answer)
}

#[cfg(test)]
mod tests;
