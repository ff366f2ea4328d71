//! What a function asks a server for over HTTP, and what it hears.
//!
//! ```text
//! request := u8 1 · u32 exchange · u8 0, or u8 1 · u32 upload · secrets · frame of a request
//!          | u8 2 · u32 upload · bytes
//!          | u8 3 · u32 exchange · u32 offset
//! secrets := u8 count · count × u32 binding
//! reply   := u32 bytes of the body · frame of a response
//! ```

use alloc::vec::Vec;

use crate::fields::{Reader, put_bytes, put_u32, with_binding};
use crate::frame::{RequestFrame, ResponseFrame};
use crate::limits::HTTP_SECRETS_MAX;

/// What is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HttpRequest<'a> {
    /// Sends a request: [`HttpReply::Answer`].
    Send {
        /// The call's own number of it.
        exchange: u32,
        /// What was appended before and is the beginning of the body, and no upload any more.
        upload: Option<u32>,
        /// Secrets that it carries, by the function's bindings of them. In which headers, and how, is not the function's to say.
        secrets: Vec<u32>,
        /// The frame of the request, with the last piece of the body.
        frame: &'a [u8],
    },
    /// The next piece of a body: [`HttpReply::Done`].
    Append {
        /// The call's own number of it.
        upload: u32,
        /// The piece.
        bytes: &'a [u8],
    },
    /// The next piece of an answer's body: [`HttpReply::Bytes`].
    Rest {
        /// Of which request.
        exchange: u32,
        /// Where the piece begins.
        offset: u32,
    },
}

/// What came of it.
#[derive(Debug, Clone)]
pub enum HttpReply<'a> {
    /// The piece is kept.
    Done,
    /// What the server answered.
    Answer {
        /// Bytes of the whole body.
        bytes: u32,
        /// The answer, with the first piece of its body.
        frame: ResponseFrame<'a>,
    },
    /// A piece of the body.
    Bytes(&'a [u8]),
}

const SEND: u8 = 1;
const APPEND: u8 = 2;
const REST: u8 = 3;

impl<'a> HttpRequest<'a> {
    /// The operation that asks this of a binding.
    pub fn encode(&self, binding: u32) -> Vec<u8> {
        let mut to = with_binding(binding, &[]);
        match self {
            Self::Send { exchange, upload, secrets, frame } => {
                to.push(SEND);
                to.extend_from_slice(&exchange.to_le_bytes());
                to.push(u8::from(upload.is_some()));
                upload.iter().for_each(|upload| to.extend_from_slice(&upload.to_le_bytes()));
                to.push(secrets.len() as u8);
                secrets.iter().for_each(|secret| to.extend_from_slice(&secret.to_le_bytes()));
                to.extend_from_slice(frame);
            }
            Self::Append { upload, bytes } => {
                to.push(APPEND);
                to.extend_from_slice(&upload.to_le_bytes());
                put_bytes(&mut to, bytes);
            }
            Self::Rest { exchange, offset } => {
                to.push(REST);
                to.extend_from_slice(&exchange.to_le_bytes());
                to.extend_from_slice(&offset.to_le_bytes());
            }
        }
        to
    }

    /// Reads a request of any origin, behind its binding. The frame is not looked into.
    pub fn decode(request: &'a [u8]) -> Option<Self> {
        let mut from = Reader(request);
        let request = match from.byte()? {
            SEND => {
                let exchange = from.u32()? as u32;
                let upload = match from.byte()? {
                    0 => None,
                    1 => Some(from.u32()? as u32),
                    _ => return None,
                };
                let count = usize::from(from.byte()?);
                (count <= HTTP_SECRETS_MAX).then_some(())?;
                let secrets = (0..count).map(|_| Some(from.u32()? as u32)).collect::<Option<_>>()?;
                return Some(Self::Send { exchange, upload, secrets, frame: from.0 });
            }
            APPEND => Self::Append { upload: from.u32()? as u32, bytes: from.bytes()? },
            REST => Self::Rest { exchange: from.u32()? as u32, offset: from.u32()? as u32 },
            _ => return None,
        };
        from.ends().then_some(request)
    }

    /// Whether something may be changed by it where it arrives: at once, and for good.
    pub fn changes(&self) -> bool {
        match self {
            Self::Send { frame, .. } => {
                // Also what is not understood here, and may be where it arrives.
                RequestFrame::decode(frame).map_or(true, |request| !is_safe(request.method))
            }
            Self::Append { .. } | Self::Rest { .. } => false,
        }
    }
}

/// Whether a method asks a server for nothing but an answer.
pub fn is_safe(method: &str) -> bool {
    matches!(method, "GET" | "HEAD")
}

impl<'a> HttpReply<'a> {
    /// An answer as it stands in an outcome: `frame` is that of the response with the first piece of its body.
    pub fn encode_answer(bytes: usize, frame: &[u8]) -> Vec<u8> {
        let mut to = Vec::with_capacity(size_of::<u32>() + frame.len());
        put_u32(&mut to, bytes);
        to.extend_from_slice(frame);
        to
    }

    /// Reads the reply to a request of that form.
    pub fn decode(reply: &'a [u8], request: &HttpRequest<'_>) -> Option<Self> {
        let mut from = Reader(reply);
        match request {
            HttpRequest::Send { .. } => {
                let bytes = from.u32()? as u32;
                let frame = ResponseFrame::decode(from.0).ok()?;
                Some(Self::Answer { bytes, frame })
            }
            HttpRequest::Append { .. } => from.ends().then_some(Self::Done),
            HttpRequest::Rest { .. } => Some(Self::Bytes(reply)),
        }
    }
}

#[cfg(test)]
mod tests;
