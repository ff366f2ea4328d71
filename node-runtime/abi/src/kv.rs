//! What a function asks of key-value data, and what it hears.

use alloc::vec::Vec;

use crate::fields::{Reader, put_bytes, put_option, put_u32, with_binding};
use crate::limits::KV_KEYS_MAX;

/// How long an entry stays that is set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KvExpiry {
    /// Until it is changed or deleted.
    Never,
    /// So many milliseconds from the commit on.
    AfterMs(u64),
}

/// What is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KvRequest<'a> {
    /// The values of these keys: [`KvReply::Values`].
    Get {
        /// [`KV_KEYS_MAX`] at most.
        keys: Vec<&'a [u8]>,
    },
    /// Sets a value: [`KvReply::Done`].
    Put {
        /// Of which key.
        key: &'a [u8],
        /// The value.
        value: &'a [u8],
        /// How long it stays.
        expiry: KvExpiry,
    },
    /// Removes an entry, which need not be there: [`KvReply::Done`].
    Delete {
        /// Of which key.
        key: &'a [u8],
    },
    /// Adds to a whole number: [`KvReply::Number`].
    Increment {
        /// Of which key.
        key: &'a [u8],
        /// What is added.
        by: i64,
    },
    /// Sets or removes a value if it is the one that is expected: [`KvReply::Changed`].
    CompareAndSet {
        /// Of which key.
        key: &'a [u8],
        /// What has to be there; no entry if absent.
        expected: Option<&'a [u8]>,
        /// What is there then; no entry if absent.
        value: Option<&'a [u8]>,
    },
    /// The next entries whose keys begin alike: [`KvReply::Page`].
    Scan {
        /// What the keys begin with.
        prefix: &'a [u8],
        /// After which key; from the first one if absent.
        after: Option<&'a [u8]>,
        /// Entries at most.
        limit: u32,
    },
}

/// What came of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KvReply<'a> {
    /// The change is made, for the call.
    Done,
    /// A value for each key, in their order; none where there is no entry.
    Values(Vec<Option<&'a [u8]>>),
    /// The sum.
    Number(i64),
    /// Whether the value was the expected one.
    Changed(bool),
    /// Entries in the order of their keys, and after which key the next ones come; the last if absent.
    Page {
        /// Keys and values.
        entries: Vec<(&'a [u8], &'a [u8])>,
        /// Where to go on.
        next: Option<&'a [u8]>,
    },
}

const GET: u8 = 1;
const PUT: u8 = 2;
const DELETE: u8 = 3;
const INCREMENT: u8 = 4;
const COMPARE_AND_SET: u8 = 5;
const SCAN: u8 = 6;

impl<'a> KvRequest<'a> {
    /// The operation that asks this of a binding.
    pub fn encode(&self, binding: u32) -> Vec<u8> {
        let mut to = with_binding(binding, &[]);
        match self {
            Self::Get { keys } => {
                to.push(GET);
                put_u32(&mut to, keys.len());
                keys.iter().for_each(|key| put_bytes(&mut to, key));
            }
            Self::Put { key, value, expiry } => {
                to.push(PUT);
                put_bytes(&mut to, key);
                put_bytes(&mut to, value);
                let (is_after, ms) = match expiry {
                    KvExpiry::Never => (0, 0),
                    KvExpiry::AfterMs(ms) => (1, *ms),
                };
                to.push(is_after);
                to.extend_from_slice(&ms.to_le_bytes());
            }
            Self::Delete { key } => {
                to.push(DELETE);
                put_bytes(&mut to, key);
            }
            Self::Increment { key, by } => {
                to.push(INCREMENT);
                put_bytes(&mut to, key);
                to.extend_from_slice(&by.to_le_bytes());
            }
            Self::CompareAndSet { key, expected, value } => {
                to.push(COMPARE_AND_SET);
                put_bytes(&mut to, key);
                put_option(&mut to, *expected);
                put_option(&mut to, *value);
            }
            Self::Scan { prefix, after, limit } => {
                to.push(SCAN);
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
            GET => {
                let count = from.u32()?;
                // Before anything is reserved for them.
                (count <= KV_KEYS_MAX).then_some(())?;
                Self::Get { keys: (0..count).map(|_| from.bytes()).collect::<Option<_>>()? }
            }
            PUT => {
                let (key, value) = (from.bytes()?, from.bytes()?);
                let expiry = match (from.byte()?, from.u64()?) {
                    (0, 0) => KvExpiry::Never,
                    (1, ms) => KvExpiry::AfterMs(ms),
                    _ => return None,
                };
                Self::Put { key, value, expiry }
            }
            DELETE => Self::Delete { key: from.bytes()? },
            INCREMENT => Self::Increment { key: from.bytes()?, by: from.u64()? as i64 },
            COMPARE_AND_SET => {
                Self::CompareAndSet { key: from.bytes()?, expected: from.option()?, value: from.option()? }
            }
            SCAN => Self::Scan { prefix: from.bytes()?, after: from.option()?, limit: from.u32()? as u32 },
            _ => return None,
        };
        from.ends().then_some(request)
    }

    /// Whether it changes anything.
    pub fn writes(&self) -> bool {
        !matches!(self, Self::Get { .. } | Self::Scan { .. })
    }
}

impl<'a> KvReply<'a> {
    /// As it stands in an outcome.
    pub fn encode(&self) -> Vec<u8> {
        let mut to = Vec::new();
        match self {
            Self::Done => {}
            Self::Values(values) => {
                put_u32(&mut to, values.len());
                values.iter().for_each(|value| put_option(&mut to, *value));
            }
            Self::Number(number) => to.extend_from_slice(&number.to_le_bytes()),
            Self::Changed(changed) => to.push(u8::from(*changed)),
            Self::Page { entries, next } => {
                put_u32(&mut to, entries.len());
                for (key, value) in entries {
                    put_bytes(&mut to, key);
                    put_bytes(&mut to, value);
                }
                put_option(&mut to, *next);
            }
        }
        to
    }

    /// Reads the reply to a request of that form.
    pub fn decode(reply: &'a [u8], request: &KvRequest<'_>) -> Option<Self> {
        let mut from = Reader(reply);
        let reply = match request {
            KvRequest::Get { .. } => {
                let count = from.u32()?;
                (count <= KV_KEYS_MAX).then_some(())?;
                Self::Values((0..count).map(|_| from.option()).collect::<Option<_>>()?)
            }
            KvRequest::Put { .. } | KvRequest::Delete { .. } => Self::Done,
            KvRequest::Increment { .. } => Self::Number(from.u64()? as i64),
            KvRequest::CompareAndSet { .. } => Self::Changed(from.byte()? != 0),
            KvRequest::Scan { .. } => {
                let count = from.u32()?;
                (count <= KV_KEYS_MAX).then_some(())?;
                let entries = (0..count).map(|_| Some((from.bytes()?, from.bytes()?)));
                let entries = entries.collect::<Option<_>>()?;
                Self::Page { entries, next: from.option()? }
            }
        };
        from.ends().then_some(reply)
    }
}
