//! What a node and its data broker say to each other over a Unix socket: messages behind their lengths, both ways at any time.
//!
//! ```text
//! frame := u32 bytes (little-endian) · a message in postcard's format
//! ```
//! The broker believes the node: what a call may do with which resource is the node's word, which has it from signed documents. Who may
//! connect is decided by the user id that the kernel tells. What stands in an operation comes from a function, and is hostile.
//!
//! A connection begins with [`Hello`] from either side. A call begins with [`ToBroker::Begin`], and all of it is over with its
//! connection, but for what was committed.

use mfaas_ident::{DataAccess, FunctionName, ResourceKind, ResourceName, TenantName, VersionNumber};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// What both sides have to speak.
pub const PROTOCOL: u32 = 6;
/// What is asked of a resource at once, in bytes: two values and all keys of one operation.
pub const REQUEST_BYTES_MAX: usize = 272 << 10;
/// A message, in bytes: a request, and what stands around it.
pub const MESSAGE_BYTES_MAX: usize = REQUEST_BYTES_MAX + (4 << 10);
/// What stands in front of a message, in bytes.
pub const HEAD_BYTES: usize = 4;

/// The first message of either side.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// [`PROTOCOL`].
    pub protocol: u32,
}

/// Whose call it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Caller {
    /// The call, each time that it runs: no other one ever has the same.
    pub id: Uuid,
    /// Whose function it runs.
    pub tenant: TenantName,
    /// The function.
    pub function: FunctionName,
    /// And its version.
    pub version: VersionNumber,
    /// The trace that it is part of.
    pub trace: Option<String>,
}

/// What a node says. `call` is its own number of a call, which no other call of the connection has.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum ToBroker {
    /// A call wants to reach data.
    Begin {
        /// Its number.
        call: u64,
        /// Whose it is.
        caller: Caller,
        /// A call that has begun and makes this one: this one sees what that one has changed, and its commit is part of that one.
        parent: Option<u64>,
    },
    /// It asks for something: [`FromBroker::Outcome`] tells what comes of it.
    Operate {
        /// A call that has begun.
        call: u64,
        /// What the call calls the operation.
        id: u32,
        /// Of what.
        resource: ResourceName,
        /// What the resource is.
        kind: ResourceKind,
        /// What the call may do with it.
        access: DataAccess,
        /// The secrets that it names, in its order.
        secrets: Vec<ResourceName>,
        /// What is asked for, as the function wrote it.
        #[serde(with = "serde_bytes")]
        request: Vec<u8>,
    },
    /// The call has succeeded: what it changed is to take effect, or to be part of the call that made it. [`FromBroker::Committed`] tells whether it did.
    Commit {
        /// The call, which is over.
        call: u64,
    },
    /// The call is over, and nothing of it takes effect.
    Forget {
        /// The call.
        call: u64,
    },
    /// A call that was asked to be committed over another connection must not take effect any more, or has:
    /// [`FromBroker::Committed`] tells.
    Settle {
        /// The number by which the answer names it.
        call: u64,
        /// Whose it was.
        caller: Caller,
    },
}

/// What a broker says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum FromBroker {
    /// An operation has ended.
    Outcome {
        /// Of which call.
        call: u64,
        /// Which.
        id: u32,
        /// 0, or the number of an error's code: 1202 of `MF1202`.
        code: u32,
        /// What came of it, or a sentence.
        #[serde(with = "serde_bytes")]
        bytes: Vec<u8>,
        /// Whether the call's answer counts only after a commit.
        needs_commit: bool,
    },
    /// What the request for a commit came to.
    Committed {
        /// Of which call.
        call: u64,
        /// What it came to.
        result: CommitResult,
    },
}

/// What a commit came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum CommitResult {
    /// All of it took effect.
    Done,
    /// Nothing did: others have changed what the call read.
    Conflict,
    /// Nothing did: others stood in the way, or the data cannot be reached.
    Unavailable,
    /// It is not known.
    Unknown,
    /// Nothing did: a resource that it would have stored something in holds as much as it may.
    Full,
    /// Nothing did: it is more than the call that made it may see or change.
    TooMuch,
    /// Nothing did: it changes data of several stores, with the calls that it made or the one that made it.
    SeveralStores,
}

/// Bytes that are no message.
#[derive(Debug, thiserror::Error)]
pub enum ProtocolError {
    /// Longer than any.
    #[error("a message of {0} bytes, the limit is {MESSAGE_BYTES_MAX}")]
    TooLong(usize),
    /// Not of this protocol.
    #[error("a message that is not understood: {0}")]
    Malformed(#[from] postcard::Error),
}

/// The frame of a message.
pub fn encode(message: &impl Serialize) -> Result<Vec<u8>, ProtocolError> {
    let mut frame = postcard::to_extend(message, vec![0; HEAD_BYTES])?;
    let bytes = frame.len() - HEAD_BYTES;
    if bytes > MESSAGE_BYTES_MAX {
        return Err(ProtocolError::TooLong(bytes));
    }
    frame[..HEAD_BYTES].copy_from_slice(&(bytes as u32).to_le_bytes());
    Ok(frame)
}

/// How many bytes of a message come behind this head.
pub fn message_bytes(head: [u8; HEAD_BYTES]) -> Result<usize, ProtocolError> {
    let bytes = u32::from_le_bytes(head) as usize;
    if bytes <= MESSAGE_BYTES_MAX { Ok(bytes) } else { Err(ProtocolError::TooLong(bytes)) }
}

/// The message that these bytes are, all of them.
pub fn decode<M: DeserializeOwned>(message: &[u8]) -> Result<M, ProtocolError> {
    let (decoded, rest) = postcard::take_from_bytes(message)?;
    if rest.is_empty() { Ok(decoded) } else { Err(postcard::Error::DeserializeBadEncoding.into()) }
}

#[cfg(test)]
mod tests;
