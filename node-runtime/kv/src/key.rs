//! Keys, and where they are looked up.

use mfaas_ident::ResourceName;

use crate::KvError;
use crate::limits::KEY_BYTES_MAX;

/// A key: some bytes, compared as such.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key(Vec<u8>);

impl Key {
    /// A key of at least one and at most [`KEY_BYTES_MAX`] bytes.
    pub fn new(bytes: impl Into<Vec<u8>>) -> Result<Self, KvError> {
        let bytes = bytes.into();
        if (1..=KEY_BYTES_MAX).contains(&bytes.len()) {
            Ok(Self(bytes))
        } else {
            Err(KvError::Key(bytes.len()))
        }
    }

    /// One that the database gave back.
    pub(crate) fn of_entry(bytes: Vec<u8>) -> Self {
        Self(bytes)
    }

    /// Its bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

/// A key of a resource.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    /// The resource.
    pub resource: ResourceName,
    /// The key.
    pub key: Key,
}

/// Keys from one, inclusive, to another one, exclusive. These need not be keys themselves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Range {
    pub(crate) from: Vec<u8>,
    pub(crate) to: Vec<u8>,
}

impl Range {
    /// Keys that begin with `prefix` and come after `after`.
    pub(crate) fn of_prefix(prefix: &[u8], after: Option<&[u8]>) -> Self {
        let from = match after {
            Some(after) if after >= prefix => follower(after),
            Some(_) | None => prefix.to_vec(),
        };
        Self { from, to: end_of_prefix(prefix) }
    }

    /// The same up to a key of it, inclusive.
    pub(crate) fn up_to(&self, last: &[u8]) -> Self {
        Self { from: self.from.clone(), to: follower(last) }
    }

    /// The same from behind a key of it on.
    pub(crate) fn behind(&self, last: &[u8]) -> Self {
        Self { from: follower(last), to: self.to.clone() }
    }

    pub(crate) fn contains(&self, key: &[u8]) -> bool {
        *self.from <= *key && *key < *self.to
    }
}

/// The first bytes after these.
fn follower(bytes: &[u8]) -> Vec<u8> {
    [bytes, &[0]].concat()
}

/// Bytes after all keys that begin with these, and before all others that come after.
fn end_of_prefix(prefix: &[u8]) -> Vec<u8> {
    let Some(last) = prefix.iter().rposition(|byte| *byte < u8::MAX) else {
        // Longer than any key, so after all of them: a range has an end, which the database finds by its index.
        return vec![u8::MAX; KEY_BYTES_MAX + 1];
    };
    let mut end = prefix[..=last].to_vec();
    end[last] += 1;
    end
}

#[cfg(test)]
mod tests;
