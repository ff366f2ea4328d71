//! What a function asks of objects, and what it hears.

use alloc::vec::Vec;

use crate::fields::{Reader, put_bytes, put_option, put_u32, with_binding};
use crate::limits::KV_KEYS_MAX;

/// What is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ObjectRequest<'a> {
    /// How large an object is: [`ObjectReply::Size`].
    Size {
        /// Its name.
        name: &'a [u8],
    },
    /// A piece of an object: [`ObjectReply::Piece`].
    Read {
        /// Its name.
        name: &'a [u8],
        /// Where the piece begins.
        offset: u64,
        /// Its bytes at most.
        bytes: u32,
    },
    /// The next piece of what is to become an object: [`ObjectReply::Done`].
    Append {
        /// The call's own number of it.
        upload: u32,
        /// The piece.
        bytes: &'a [u8],
    },
    /// Makes an object of the pieces of an upload, if one is named, and of these bytes: [`ObjectReply::Done`].
    Put {
        /// Its name.
        name: &'a [u8],
        /// What was appended before, which is no upload any more.
        upload: Option<u32>,
        /// The last piece.
        bytes: &'a [u8],
    },
    /// Removes an object, which need not be there: [`ObjectReply::Done`].
    Delete {
        /// Its name.
        name: &'a [u8],
    },
    /// The next objects whose names begin alike: [`ObjectReply::Page`].
    List {
        /// What the names begin with.
        prefix: &'a [u8],
        /// After which name; from the first one if absent.
        after: Option<&'a [u8]>,
        /// Objects at most.
        limit: u32,
    },
}

/// What came of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ObjectReply<'a> {
    /// The change is made, for the call.
    Done,
    /// Bytes of the object; absent if there is none.
    Size(Option<u64>),
    /// Bytes of the whole object, and the piece, which is short where the object ends; absent if there is none.
    Piece(Option<(u64, &'a [u8])>),
    /// Objects in the order of their names, and after which name the next ones come; the last if absent.
    Page {
        /// Names and sizes in bytes.
        objects: Vec<(&'a [u8], u64)>,
        /// Where to go on.
        next: Option<&'a [u8]>,
    },
}

const SIZE: u8 = 1;
const READ: u8 = 2;
const APPEND: u8 = 3;
const PUT: u8 = 4;
const DELETE: u8 = 5;
const LIST: u8 = 6;

impl<'a> ObjectRequest<'a> {
    /// The operation that asks this of a binding.
    pub fn encode(&self, binding: u32) -> Vec<u8> {
        let mut to = with_binding(binding, &[]);
        match self {
            Self::Size { name } => {
                to.push(SIZE);
                put_bytes(&mut to, name);
            }
            Self::Read { name, offset, bytes } => {
                to.push(READ);
                put_bytes(&mut to, name);
                to.extend_from_slice(&offset.to_le_bytes());
                to.extend_from_slice(&bytes.to_le_bytes());
            }
            Self::Append { upload, bytes } => {
                to.push(APPEND);
                to.extend_from_slice(&upload.to_le_bytes());
                put_bytes(&mut to, bytes);
            }
            Self::Put { name, upload, bytes } => {
                to.push(PUT);
                put_bytes(&mut to, name);
                to.push(u8::from(upload.is_some()));
                to.extend_from_slice(&upload.unwrap_or_default().to_le_bytes());
                put_bytes(&mut to, bytes);
            }
            Self::Delete { name } => {
                to.push(DELETE);
                put_bytes(&mut to, name);
            }
            Self::List { prefix, after, limit } => {
                to.push(LIST);
                put_bytes(&mut to, prefix);
                put_option(&mut to, *after);
                to.extend_from_slice(&limit.to_le_bytes());
            }
        }
        to
    }

    /// Reads a request of any origin, behind its binding.
    pub fn decode(request: &'a [u8]) -> Option<Self> {
        let mut from = Reader(request);
        let request = match from.byte()? {
            SIZE => Self::Size { name: from.bytes()? },
            READ => Self::Read { name: from.bytes()?, offset: from.u64()?, bytes: from.u32()? as u32 },
            APPEND => Self::Append { upload: from.u32()? as u32, bytes: from.bytes()? },
            PUT => {
                let name = from.bytes()?;
                let upload = match (from.byte()?, from.u32()?) {
                    (0, 0) => None,
                    (1, upload) => Some(upload as u32),
                    _ => return None,
                };
                Self::Put { name, upload, bytes: from.bytes()? }
            }
            DELETE => Self::Delete { name: from.bytes()? },
            LIST => Self::List { prefix: from.bytes()?, after: from.option()?, limit: from.u32()? as u32 },
            _ => return None,
        };
        from.ends().then_some(request)
    }

    /// Whether it changes anything.
    pub fn writes(&self) -> bool {
        match self {
            Self::Size { .. } | Self::Read { .. } | Self::List { .. } => false,
            Self::Append { .. } | Self::Put { .. } | Self::Delete { .. } => true,
        }
    }
}

impl<'a> ObjectReply<'a> {
    /// As it stands in an outcome.
    pub fn encode(&self) -> Vec<u8> {
        let mut to = Vec::new();
        match self {
            Self::Done => {}
            Self::Size(size) => {
                to.push(u8::from(size.is_some()));
                size.iter().for_each(|bytes| to.extend_from_slice(&bytes.to_le_bytes()));
            }
            Self::Piece(piece) => {
                to.push(u8::from(piece.is_some()));
                if let Some((total, bytes)) = piece {
                    to.extend_from_slice(&total.to_le_bytes());
                    put_bytes(&mut to, bytes);
                }
            }
            Self::Page { objects, next } => {
                put_u32(&mut to, objects.len());
                for (name, bytes) in objects {
                    put_bytes(&mut to, name);
                    to.extend_from_slice(&bytes.to_le_bytes());
                }
                put_option(&mut to, *next);
            }
        }
        to
    }

    /// Reads the reply to a request of that form.
    pub fn decode(reply: &'a [u8], request: &ObjectRequest<'_>) -> Option<Self> {
        let mut from = Reader(reply);
        let is_there = |from: &mut Reader<'_>| match from.byte()? {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        };
        let reply = match request {
            ObjectRequest::Size { .. } => {
                Self::Size(if is_there(&mut from)? { Some(from.u64()?) } else { None })
            }
            ObjectRequest::Read { .. } => {
                Self::Piece(if is_there(&mut from)? { Some((from.u64()?, from.bytes()?)) } else { None })
            }
            ObjectRequest::Append { .. } | ObjectRequest::Put { .. } | ObjectRequest::Delete { .. } => {
                Self::Done
            }
            ObjectRequest::List { .. } => {
                let count = from.u32()?;
                (count <= KV_KEYS_MAX).then_some(())?;
                let objects = (0..count).map(|_| Some((from.bytes()?, from.u64()?)));
                let objects = objects.collect::<Option<_>>()?;
                Self::Page { objects, next: from.option()? }
            }
        };
        from.ends().then_some(reply)
    }
}
