//! The node's end of a ring that a co-located caller submits calls to, and the words that both exchange before.
//!
//! The caller connects to a Unix stream socket and sends one [`OpenRequest`]; the node answers with one
//! [`Welcome`], which carries the ring's memfd. Each message is a length of four bytes, little-endian, and that much JSON. The
//! socket stays open as long as the ring is used: its end tells either side that the other is gone.
//!
//! The caller is as hostile as a worker is: it must never make the node wait, grow or believe.

use std::io::{IoSlice, IoSliceMut, Read as _, Write as _};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recvmsg, sendmsg,
};
use serde::{Deserialize, Serialize};

use crate::barrier::Order;
use crate::host::make;
use crate::wait::Bell;
use crate::worker::Answering;
use crate::{Answer, Geometry, Job, RingError};

/// Version of this conversation and of the ring's layout.
pub const LOCAL_API_VERSION: u32 = 1;
/// Functions that one client may name.
pub const FUNCTIONS_MAX: usize = 256;
/// `tenant/function@selector`, in bytes.
pub const NAME_BYTES_MAX: usize = 256;
/// One message of the conversation, in bytes.
pub const MESSAGE_BYTES_MAX: usize = 128 << 10;
/// A client has this long to say what it wants, and the node to answer.
pub const GREETING_WAIT_MAX: Duration = Duration::from_secs(2);

/// What stands before each message.
const LENGTH_BYTES: usize = 4;

/// What a client asks for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OpenRequest {
    /// [`LOCAL_API_VERSION`] of the client.
    pub version: u32,
    /// `tenant/function[@selector]`; the position in this list is the function's number in a submission. At most
    /// [`FUNCTIONS_MAX`].
    pub functions: Vec<String>,
}

/// What the node answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Welcome {
    /// The message carries the ring's memory.
    Ring,
    /// There is no ring, for this reason: one sentence.
    Refused {
        /// One sentence.
        reason: String,
    },
}

/// Reads a client's request. A slow, long or malformed one is an error.
pub fn read_open_request(stream: &mut UnixStream) -> Result<OpenRequest, RingError> {
    bound(stream)?;
    let request: OpenRequest = parse(&read_message(stream, &[])?)?;
    if request.version != LOCAL_API_VERSION {
        return Err(RingError::Violation("another version of the local API"));
    }
    if request.functions.is_empty() || request.functions.len() > FUNCTIONS_MAX {
        return Err(RingError::Violation("no function, or too many of them"));
    }
    if request.functions.iter().any(|name| name.len() > NAME_BYTES_MAX) {
        return Err(RingError::Violation("a name that is too long"));
    }
    Ok(request)
}

/// Says why there is no ring.
pub fn refuse(stream: &mut UnixStream, reason: &str) -> Result<(), RingError> {
    bound(stream)?;
    let message = encode(&Welcome::Refused { reason: reason.to_owned() })?;
    stream.write_all(&message).map_err(system("answer a client"))
}

/// Makes a ring of `geometry`, sends it to the client, and gives the node's end of it.
pub fn welcome(stream: &mut UnixStream, geometry: Geometry) -> Result<LocalEnd, RingError> {
    bound(stream)?;
    // Memory is ordered by a fence of our own: a client must not be able to interrupt our cores.
    let (fd, mapping) = make(geometry, false)?;
    send_with(stream, &encode(&Welcome::Ring)?, &fd)?;
    Ok(LocalEnd { ring: Answering::new(mapping, Order::Fence) })
}

/// The client's half of the conversation: says what it wants and gets a ring.
pub(crate) fn ask(
    stream: &mut UnixStream,
    request: &OpenRequest,
) -> Result<Result<OwnedFd, String>, RingError> {
    bound(stream)?;
    stream.write_all(&encode(request)?).map_err(system("ask the node"))?;
    let (first, fd) = receive_with(stream)?;
    match parse(&read_message(stream, &first)?)? {
        Welcome::Ring => Ok(Ok(fd.ok_or(RingError::Violation("a welcome without a ring"))?)),
        Welcome::Refused { reason } => Ok(Err(reason)),
    }
}

/// Whether the other side closed its end. Says nothing that it has not asked for: what comes is dropped.
pub fn is_gone(stream: &UnixStream) -> bool {
    let mut dropped = [0u8; 64];
    match rustix::net::recv(stream, &mut dropped[..], RecvFlags::DONTWAIT) {
        Ok((_, 0)) => true,
        Ok(_) | Err(Errno::AGAIN | Errno::INTR) => false,
        Err(_) => true,
    }
}

/// The node's end of a client's ring: calls are taken in their order, several at a time, and
/// answered in that order.
#[derive(Debug)]
pub struct LocalEnd {
    ring: Answering,
}

impl LocalEnd {
    /// The next call with its frame, if there is one. `frame` is made as long as the frame, at most
    /// [`mfaas_abi::limits::FRAME_BYTES_MAX`], and is otherwise whatever the client wrote.
    pub fn take(&mut self, frame: &mut Vec<u8>) -> Result<Option<Job>, RingError> {
        let position = self.ring.taken;
        let Some(job) = self.ring.take()? else { return Ok(None) };
        frame.clear();
        frame.resize(job.frame_bytes, 0);
        self.ring.frame(position, frame);
        Ok(Some(job))
    }

    /// Whether [`Self::take`] would say something now, be it an error.
    pub fn has_next(&self) -> bool {
        self.ring.has_next()
    }

    /// Calls taken and not answered, at most the slots of the ring.
    pub fn outstanding(&self) -> u64 {
        self.ring.taken - self.ring.answered
    }

    /// Answers the oldest call that was taken. `refusal` is the number of a code when the call never ran or was lost, otherwise
    /// 0. A part that is too large is an error and answers nothing.
    pub fn reply(&mut self, answer: &Answer<'_>, refusal: u32) -> Result<(), RingError> {
        if self.outstanding() == 0 {
            return Err(RingError::Misuse("no call is taken"));
        }
        self.ring.reply(answer, refusal)
    }

    /// What to sleep on with [`crate::wait_any`] until [`Self::has_next`].
    pub fn bell(&self) -> Bell<'_> {
        self.ring.worker_bell()
    }
}

fn bound(stream: &UnixStream) -> Result<(), RingError> {
    let wait_max = Some(GREETING_WAIT_MAX);
    stream.set_read_timeout(wait_max).map_err(system("bound a wait"))?;
    stream.set_write_timeout(wait_max).map_err(system("bound a wait"))
}

fn encode(message: &impl Serialize) -> Result<Vec<u8>, RingError> {
    let json = serde_json::to_vec(message).map_err(|_| RingError::Misuse("a message that is no JSON"))?;
    if json.len() > MESSAGE_BYTES_MAX {
        return Err(RingError::TooLarge { bytes: json.len(), limit: MESSAGE_BYTES_MAX });
    }
    let mut message = (json.len() as u32).to_le_bytes().to_vec();
    message.extend_from_slice(&json);
    Ok(message)
}

fn parse<'m, T: Deserialize<'m>>(json: &'m [u8]) -> Result<T, RingError> {
    serde_json::from_slice(json).map_err(|_| RingError::Violation("a message that cannot be read"))
}

/// Reads one message of which `first` came already; gives its JSON. At most [`MESSAGE_BYTES_MAX`], and all of it within
/// twice [`GREETING_WAIT_MAX`].
fn read_message(stream: &mut UnixStream, first: &[u8]) -> Result<Vec<u8>, RingError> {
    let end = Instant::now() + GREETING_WAIT_MAX;
    let mut message = first.to_vec();
    read_up_to(stream, &mut message, LENGTH_BYTES, end)?;
    let mut length = [0; LENGTH_BYTES];
    length.copy_from_slice(&message[..LENGTH_BYTES]);
    let length = u32::from_le_bytes(length) as usize;
    if length > MESSAGE_BYTES_MAX {
        return Err(RingError::Violation("a message that is too long"));
    }
    read_up_to(stream, &mut message, LENGTH_BYTES + length, end)?;
    message.truncate(LENGTH_BYTES + length);
    Ok(message.split_off(LENGTH_BYTES))
}

fn read_up_to(
    stream: &mut UnixStream,
    message: &mut Vec<u8>,
    bytes: usize,
    end: Instant,
) -> Result<(), RingError> {
    let mut piece = [0; 4096];
    while message.len() < bytes {
        let wanted = (bytes - message.len()).min(piece.len());
        match stream.read(&mut piece[..wanted]).map_err(system("read a message"))? {
            0 => return Err(RingError::Violation("a message that ends early")),
            read => message.extend_from_slice(&piece[..read]),
        }
        if Instant::now() > end {
            return Err(RingError::Violation("a message that comes too slowly"));
        }
    }
    Ok(())
}

/// Sends a message whose first byte carries a descriptor.
fn send_with(stream: &mut UnixStream, message: &[u8], fd: &OwnedFd) -> Result<(), RingError> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut rights = SendAncillaryBuffer::new(&mut space);
    let descriptors = [fd.as_fd()];
    if !rights.push(SendAncillaryMessage::ScmRights(&descriptors)) {
        return Err(RingError::Misuse("no room for a descriptor"));
    }
    let sent = sendmsg(&*stream, &[IoSlice::new(message)], &mut rights, SendFlags::NOSIGNAL)
        .map_err(|errno| RingError::System { step: "send a ring", source: errno.into() })?;
    stream.write_all(&message[sent..]).map_err(system("send a ring"))
}

/// The first bytes of a message, with the descriptor that they may carry.
fn receive_with(stream: &UnixStream) -> Result<(Vec<u8>, Option<OwnedFd>), RingError> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut rights = RecvAncillaryBuffer::new(&mut space);
    let mut first = [0; LENGTH_BYTES];
    let received = recvmsg(stream, &mut [IoSliceMut::new(&mut first)], &mut rights, RecvFlags::CMSG_CLOEXEC)
        .map_err(|errno| RingError::System { step: "receive a ring", source: errno.into() })?;
    let descriptors = rights.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(descriptors) => Some(descriptors),
        _ => None,
    });
    let fd = descriptors.flatten().next();
    Ok((first[..received.bytes].to_vec(), fd))
}

fn system(step: &'static str) -> impl Fn(std::io::Error) -> RingError {
    move |source| RingError::System { step, source }
}
