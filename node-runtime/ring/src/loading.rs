//! What a node and its loader say to each other, over a socket that keeps messages apart
//! (`SOCK_SEQPACKET`): one JSON object a message, one answer to each request, in order. Plain data;
//! each side checks what it reads.

use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// Descriptor of the loader's end of the socket.
pub const FD_LOADER: i32 = 3;
/// One message, at most, in bytes.
pub const MESSAGE_BYTES_MAX: usize = 4 << 10;
/// The slab that all tenants share.
pub const SHARED_SLAB: u32 = 0;
/// Assets of one image, at most.
pub const ASSETS_MAX: usize = mfaas_abi::limits::BINDINGS_MAX;
/// Descriptors of one message, at most.
const DESCRIPTORS_MAX: usize = ASSETS_MAX + 1;
/// The sentence of a failure, at most, in bytes.
pub const REASON_BYTES_MAX: usize = 512;

/// An asset of an image.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AssetRow {
    /// The place of its binding among all of the function's.
    pub place: usize,
    /// `sha256:…` of its bytes. The loader hashes what it has copied and refuses anything else.
    pub digest: String,
}

/// From the node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum LoaderRequest {
    /// Make an empty slab under a number that no other has.
    Open {
        /// Its number. [`SHARED_SLAB`] has room for more than others.
        slab: u32,
        /// Whether images must pass the verifier to lie there.
        verified: bool,
    },
    /// Link the image behind the first descriptor that comes with the message: a memfd sealed against
    /// writing. Behind it comes one for each asset, in their order.
    Load {
        /// The slab that it is to lie in.
        slab: u32,
        /// `sha256:…` of the image. The loader hashes what it links and refuses anything else.
        digest: String,
        /// What assets it finds, at most [`ASSETS_MAX`].
        assets: Vec<AssetRow>,
    },
    /// Take an image away that no worker has a call of: with the answer traps stand in its place. Its room is
    /// not free yet.
    Unload {
        /// The slab that it lies in.
        slab: u32,
        /// Its slot.
        slot: u32,
    },
    /// Free the room of an image that was taken away: every worker has ended all calls that it had when the
    /// answer to [`Self::Unload`] was received.
    Reclaim {
        /// The slab that it lay in.
        slab: u32,
        /// Its slot.
        slot: u32,
    },
    /// Give up a slab with all that lies in it. Who has mapped it keeps it.
    Close {
        /// Its number.
        slab: u32,
    },
}

/// From the loader.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum LoaderAnswer {
    /// The first message, unasked.
    Ready {
        /// [`mfaas_abi::ABI_VERSION`] of the loader.
        abi_version: u32,
    },
    /// The slab is there: its memory comes with this as a descriptor.
    Opened {
        /// Its number.
        slab: u32,
    },
    /// The image is resident.
    Loaded {
        /// Its slot, which names it in calls.
        slot: u32,
        /// Bytes of the slab that it takes, its assets included, which others may have too.
        bytes: u64,
        /// Where workers have its first byte. With the image's digest it says what stands there.
        address: u64,
    },
    /// The image is gone: whoever jumps there meets traps.
    Unloaded {
        /// The slot.
        slot: u32,
    },
    /// The slot and its room are free.
    Reclaimed {
        /// The slot.
        slot: u32,
    },
    /// The slab is gone.
    Closed {
        /// Its number.
        slab: u32,
    },
    /// The request was not met, and nothing of it is left.
    Failed {
        /// Whether there is no room for the image now; otherwise something is wrong with it.
        full: bool,
        /// One sentence, at most [`REASON_BYTES_MAX`].
        reason: String,
    },
}

/// Why a message did not go through. The conversation is over then.
#[derive(Debug, thiserror::Error)]
pub enum LoadingError {
    /// The kernel refused, or the peer did not answer within the socket's timeout.
    #[error("{step}")]
    System {
        /// What was being done.
        step: &'static str,
        /// The kernel's answer.
        #[source]
        source: rustix::io::Errno,
    },
    /// The peer sent what it must not.
    #[error("the peer broke the protocol: {0}")]
    Violation(&'static str),
    /// A message that is no JSON of the expected shape.
    #[error("a message cannot be read")]
    Unreadable(#[from] serde_json::Error),
}

/// Sends one message, with the descriptors that are given.
pub fn send<T: Serialize>(to: impl AsFd, message: &T, fds: &[BorrowedFd<'_>]) -> Result<(), LoadingError> {
    let text = serde_json::to_vec(message)?;
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !fds.is_empty() && !control.push(SendAncillaryMessage::ScmRights(fds)) {
        return Err(LoadingError::Violation("no room for the descriptors"));
    }
    let sent = sendmsg(to, &[IoSlice::new(&text)], &mut control, SendFlags::NOSIGNAL)
        .map_err(|source| LoadingError::System { step: "send a message", source })?;
    if sent == text.len() { Ok(()) } else { Err(LoadingError::Violation("half a message was sent")) }
}

/// Waits for one message and the descriptors that come with it; `None` when the peer is gone.
pub fn receive<T: DeserializeOwned>(from: impl AsFd) -> Result<Option<(T, Vec<OwnedFd>)>, LoadingError> {
    let mut text = [0; MESSAGE_BYTES_MAX];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let message = recvmsg(from, &mut [IoSliceMut::new(&mut text)], &mut control, RecvFlags::CMSG_CLOEXEC)
        .map_err(|source| LoadingError::System { step: "wait for a message", source })?;
    if message.flags.contains(ReturnFlags::TRUNC) {
        return Err(LoadingError::Violation("a message is too long"));
    }
    if message.flags.contains(ReturnFlags::CTRUNC) {
        return Err(LoadingError::Violation("a message has too many descriptors"));
    }
    let mut received = Vec::new();
    for part in control.drain() {
        if let RecvAncillaryMessage::ScmRights(fds) = part {
            received.extend(fds);
        }
    }
    if message.bytes == 0 {
        return Ok(None);
    }
    if received.len() > DESCRIPTORS_MAX {
        return Err(LoadingError::Violation("a message has too many descriptors"));
    }
    Ok(Some((serde_json::from_slice(&text[..message.bytes])?, received)))
}
