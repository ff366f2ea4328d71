//! The node's end of the loader: starts the process, asks it for slabs, and hands it verified images.
//!
//! Every call waits for the loader's one answer, so it belongs on a thread that may block. A loader that
//! does not answer in time, breaks the protocol or ends is not used again: its slabs are as good as
//! lost, and the holder of this starts another with new slabs.

use std::fs::File;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use command_fds::{CommandFdExt as _, FdMapping};
use mfaas_ident::sanitise_line;
use mfaas_ring::loading::{
    AssetRow, FD_LOADER, LoaderAnswer, LoaderRequest, REASON_BYTES_MAX, receive, send,
};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair, sockopt};

use super::process::StartError;
use crate::image::{ImageAsset, VerifiedImage};

/// The longest that one answer may take: linking the largest admissible image takes some 50 ms, reading and hashing
/// the largest assets some seconds.
const ANSWER_WAIT_MAX: Duration = Duration::from_secs(30);

/// A running loader. Dropping it ends the process; workers that mapped a slab keep it.
#[derive(Debug)]
pub(crate) struct Loader {
    child: Child,
    socket: OwnedFd,
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
    /// Starts `program` and waits until it listens.
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
        let first = await_answer(&socket).map_err(|e| failed("its first message", &e))?;
        match first {
            (LoaderAnswer::Ready { abi_version: mfaas_abi::ABI_VERSION }, None) => {
                let child = starting.child.take().ok_or_else(|| failed("its process", &"gone"))?;
                Ok(Self { child, socket, broken: false })
            }
            (LoaderAnswer::Ready { abi_version }, _) => {
                Err(failed("another release", &format!("it speaks version {abi_version} of the ABI")))
            }
            (other, _) => Err(failed("its first message", &format!("{other:?}"))),
        }
    }

    /// Process id, for logs.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Makes an empty slab; its memory, for workers to map. `verified`: images must pass the verifier.
    pub(crate) fn open(&mut self, slab: u32, verified: bool) -> Result<OwnedFd, LoadError> {
        match self.ask(&LoaderRequest::Open { slab, verified }, &[])? {
            (LoaderAnswer::Opened { slab: opened }, Some(memory)) if opened == slab => Ok(memory),
            other => Err(self.not_done(other)),
        }
    }

    /// Gives up a slab that no worker maps any more.
    pub(crate) fn close(&mut self, slab: u32) -> Result<(), LoadError> {
        match self.ask(&LoaderRequest::Close { slab }, &[])? {
            (LoaderAnswer::Closed { slab: closed }, None) if closed == slab => Ok(()),
            other => Err(self.not_done(other)),
        }
    }

    /// Makes an image resident.
    pub(crate) fn load(&mut self, slab: u32, image: &VerifiedImage) -> Result<Resident, LoadError> {
        let row =
            |asset: &ImageAsset| AssetRow { place: asset.place, digest: asset.content.digest.to_string() };
        let assets = image.assets().iter().map(row).collect();
        let request = LoaderRequest::Load { slab, digest: image.key().digest.to_string(), assets };
        let files = image.asset_files().iter().map(File::as_fd);
        let descriptors: Vec<_> = std::iter::once(image.memory()).chain(files).collect();
        match self.ask(&request, &descriptors)? {
            (LoaderAnswer::Loaded { slot, bytes, address }, None) => Ok(Resident { slot, bytes, address }),
            other => Err(self.not_done(other)),
        }
    }

    /// Takes away an image that no worker has a call of. With the answer traps stand in its place.
    pub(crate) fn unload(&mut self, slab: u32, slot: u32) -> Result<(), LoadError> {
        match self.ask(&LoaderRequest::Unload { slab, slot }, &[])? {
            (LoaderAnswer::Unloaded { slot: gone }, None) if gone == slot => Ok(()),
            other => Err(self.not_done(other)),
        }
    }

    /// Frees the room of an image that was taken away.
    pub(crate) fn reclaim(&mut self, slab: u32, slot: u32) -> Result<(), LoadError> {
        match self.ask(&LoaderRequest::Reclaim { slab, slot }, &[])? {
            (LoaderAnswer::Reclaimed { slot: free }, None) if free == slot => Ok(()),
            other => Err(self.not_done(other)),
        }
    }

    fn ask(
        &mut self,
        request: &LoaderRequest,
        with: &[BorrowedFd<'_>],
    ) -> Result<(LoaderAnswer, Option<OwnedFd>), LoadError> {
        if self.broken {
            return Err(LoadError::Gone("it broke before".to_owned()));
        }
        let sent = send(&self.socket, request, with).map_err(|error| error.to_string());
        sent.and_then(|()| await_answer(&self.socket)).map_err(|error| self.broke(&error))
    }

    /// The loader refused, or what answers no request of ours.
    fn not_done(&mut self, answer: (LoaderAnswer, Option<OwnedFd>)) -> LoadError {
        match answer {
            (LoaderAnswer::Failed { full: true, .. }, None) => LoadError::Full,
            (LoaderAnswer::Failed { full: false, reason }, None) => {
                LoadError::Refused(sanitise_line(&reason, REASON_BYTES_MAX))
            }
            _ => self.broke("an answer to another request"),
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

/// A loader that has not reported that it is ready.
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
        Ok(Some((answer, mut descriptors))) if descriptors.len() < 2 => Ok((answer, descriptors.pop())),
        Ok(Some(_)) => Err("an answer with more descriptors than one".to_owned()),
        Ok(None) => Err("it ended".to_owned()),
        Err(error) => Err(error.to_string()),
    }
}
