//! The node's end of the loader: starts the process, hands it verified images, and keeps the slab's
//! memory for the workers.
//!
//! Every call waits for the loader's one answer, so it belongs on a thread that may block. A loader that
//! does not answer in time, breaks the protocol or ends is not used again: its slab is as good as
//! lost, and whoever holds this starts another with a new slab.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use command_fds::{CommandFdExt as _, FdMapping};
use mfaas_ident::sanitise_line;
use mfaas_ring::loading::{FD_LOADER, LoaderAnswer, LoaderRequest, REASON_BYTES_MAX, receive, send};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair, sockopt};

use super::process::StartError;
use crate::agent::VerifiedImage;

/// The longest that one answer may take: linking the largest admissible image takes some 50 ms.
const ANSWER_WAIT_MAX: Duration = Duration::from_secs(10);

/// A running loader and its slab. Dropping it ends the process; workers that mapped the slab keep it.
#[derive(Debug)]
pub(crate) struct Loader {
    child: Child,
    socket: OwnedFd,
    slab: OwnedFd,
    broken: bool,
}

/// An image in the slab.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Resident {
    /// What names it in a call.
    pub(crate) slot: u32,
    /// Bytes of the slab that it takes.
    pub(crate) bytes: u64,
    /// Where workers have its first byte.
    pub(crate) address: u64,
}

/// Why an image is not resident.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum LoadError {
    /// There is no room now; another time there may be.
    #[error("the slab has no room for it")]
    Full,
    /// Something is wrong with the image; one sentence.
    #[error("{0}")]
    Refused(String),
    /// The loader is not to be used any more; one sentence.
    #[error("the loader is gone: {0}")]
    Gone(String),
}

impl Loader {
    /// Starts `program` and waits for its slab.
    pub(crate) fn start(program: &Path) -> Result<Self, StartError> {
        let failed = |action: &str, error: &dyn std::fmt::Display| {
            StartError::Worker(format!("the loader: {action}: {error}"))
        };
        let (socket, theirs) =
            socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
                .map_err(|e| failed("making a socket", &e))?;
        sockopt::set_socket_timeout(&socket, sockopt::Timeout::Recv, Some(ANSWER_WAIT_MAX))
            .and_then(|()| {
                sockopt::set_socket_timeout(&socket, sockopt::Timeout::Send, Some(ANSWER_WAIT_MAX))
            })
            .map_err(|e| failed("setting a timeout", &e))?;
        let mut command = Command::new(program);
        command.env_clear().stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::inherit());
        command
            .fd_mappings(vec![FdMapping { parent_fd: theirs, child_fd: FD_LOADER }])
            .map_err(|e| failed("passing the socket", &e))?;
        let child = command.spawn().map_err(|e| failed("starting it", &e))?;
        // The command holds our copy of the other end.
        drop(command);
        let mut starting = Starting { child: Some(child) };
        let (answer, slab) = await_answer(&socket).map_err(|e| failed("its first message", &e))?;
        match (answer, slab) {
            (LoaderAnswer::Ready { abi_version: mfaas_abi::ABI_VERSION }, Some(slab)) => {
                let child = starting.child.take().ok_or_else(|| failed("its process", &"gone"))?;
                Ok(Self { child, socket, slab, broken: false })
            }
            (LoaderAnswer::Ready { abi_version }, _) => {
                Err(failed("another release", &format!("it speaks version {abi_version} of the ABI")))
            }
            (other, _) => Err(failed("its first message", &format!("{other:?}"))),
        }
    }

    /// The slab's memory, for workers to map.
    pub(crate) fn slab(&self) -> BorrowedFd<'_> {
        self.slab.as_fd()
    }

    /// Process id, for logs.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Makes an image resident.
    pub(crate) fn load(&mut self, image: &VerifiedImage) -> Result<Resident, LoadError> {
        let request = LoaderRequest::Load { digest: image.key().digest.to_string() };
        match self.ask(&request, Some(image.memory()))? {
            LoaderAnswer::Loaded { slot, bytes, address } => Ok(Resident { slot, bytes, address }),
            LoaderAnswer::Failed { full: true, .. } => Err(LoadError::Full),
            LoaderAnswer::Failed { full: false, reason } => {
                Err(LoadError::Refused(sanitise_line(&reason, REASON_BYTES_MAX)))
            }
            LoaderAnswer::Ready { .. } | LoaderAnswer::Unloaded { .. } => {
                Err(self.broke("an answer to another request"))
            }
        }
    }

    /// Takes away an image that no worker runs or will run.
    pub(crate) fn unload(&mut self, slot: u32) -> Result<(), LoadError> {
        match self.ask(&LoaderRequest::Unload { slot }, None)? {
            LoaderAnswer::Unloaded { slot: gone } if gone == slot => Ok(()),
            LoaderAnswer::Failed { reason, .. } => {
                Err(LoadError::Refused(sanitise_line(&reason, REASON_BYTES_MAX)))
            }
            LoaderAnswer::Ready { .. } | LoaderAnswer::Loaded { .. } | LoaderAnswer::Unloaded { .. } => {
                Err(self.broke("an answer to another request"))
            }
        }
    }

    fn ask(
        &mut self,
        request: &LoaderRequest,
        with: Option<BorrowedFd<'_>>,
    ) -> Result<LoaderAnswer, LoadError> {
        if self.broken {
            return Err(LoadError::Gone("it broke before".to_owned()));
        }
        let sent = send(&self.socket, request, with).map_err(|error| error.to_string());
        let answer = sent.and_then(|()| await_answer(&self.socket));
        match answer {
            Ok((answer, None)) => Ok(answer),
            Ok((_, Some(_))) => Err(self.broke("a descriptor that nobody asked for")),
            Err(error) => Err(self.broke(&error)),
        }
    }

    /// An answer that came late would be taken for the next one's.
    fn broke(&mut self, why: &str) -> LoadError {
        self.broken = true;
        LoadError::Gone(why.to_owned())
    }
}

impl Drop for Loader {
    fn drop(&mut self) {
        end(&mut self.child);
    }
}

/// A loader that did not say that it is ready yet.
struct Starting {
    child: Option<Child>,
}

impl Drop for Starting {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            end(child);
        }
    }
}

/// Both fail only for a process that is gone.
fn end(child: &mut Child) {
    let _ = child.kill();
    let _ = child.wait();
}

/// The next answer; a loader that is gone is an error too.
fn await_answer(from: &OwnedFd) -> Result<(LoaderAnswer, Option<OwnedFd>), String> {
    match receive(from) {
        Ok(Some(answer)) => Ok(answer),
        Ok(None) => Err("it ended".to_owned()),
        Err(error) => Err(error.to_string()),
    }
}
