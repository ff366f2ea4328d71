//! How entries stand in Redis.
//!
//! ```text
//! mfaas:{kv}:identity              which server this is: a number that no other one has
//! mfaas:{kv}:entry:RESOURCE:KEY    8 bytes of version, 8 of expiry in ms since 1970 or 0, the value
//! mfaas:{kv}:index:RESOURCE        the keys of a resource, a sorted set in the order of their bytes
//! mfaas:{kv}:expiring              RESOURCE:KEY of entries that expire, by when
//! mfaas:{kv}:sizes                 what each resource holds, in bytes
//! mfaas:{kv}:call:CALL             1: its changes took effect; 0: they never will
//! mfaas:{kv}:outbox                audit records on their way to PostgreSQL
//! ```
//! The name of a resource has no colon, so whatever bytes a key has, it stays behind the one that ends it.

use mfaas_ident::ResourceName;

use crate::key::Key;
use crate::transaction::{Entry, Value};

const ENTRY: &str = "mfaas:{kv}:entry:";
const INDEX: &str = "mfaas:{kv}:index:";
pub(crate) const IDENTITY: &str = "mfaas:{kv}:identity";
pub(crate) const SIZES: &str = "mfaas:{kv}:sizes";
pub(crate) const OUTBOX: &str = "mfaas:{kv}:outbox";

/// What all entries of a resource begin with.
pub(crate) fn entries(resource: &ResourceName) -> Vec<u8> {
    format!("{ENTRY}{resource}:").into_bytes()
}

/// Where an entry lies.
pub(crate) fn entry(resource: &ResourceName, key: &Key) -> Vec<u8> {
    [&*entries(resource), key.as_bytes()].concat()
}

/// Where the keys of a resource stand.
pub(crate) fn index(resource: &ResourceName) -> String {
    format!("{INDEX}{resource}")
}

/// A version; no bytes for that of what is not there.
pub(crate) fn version(version: Option<i64>) -> Vec<u8> {
    version.map_or_else(Vec::new, |version| version.to_be_bytes().to_vec())
}

/// What lies there, unless it has expired by then.
pub(crate) fn decode(bytes: &[u8], now_ms: u64) -> Option<Entry> {
    let (version, rest) = bytes.split_first_chunk()?;
    let (expires, value) = rest.split_first_chunk()?;
    let expires_ms = u64::from_be_bytes(*expires);
    let is_there = expires_ms == 0 || expires_ms > now_ms;
    is_there.then(|| Entry { value: Value::Bytes(value.into()), version: i64::from_be_bytes(*version) })
}

#[cfg(test)]
mod tests;
