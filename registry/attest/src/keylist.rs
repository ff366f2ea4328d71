//! The list of keys that nodes trust, signed by the root that they follow.
//!
//! Rotation is a new list with a higher version; a node keeps the highest version it ever saw. How it gets from one to the
//! next says [`TrustedRoot`](crate::TrustedRoot).

use std::collections::BTreeSet;

use chrono::{DateTime, Utc};

use crate::{KeyId, Payload, PublicKey, Purpose};

/// Keys in one list.
const KEYS_MAX: usize = 64;
/// Keys of one root: enough for the holders of a site, and for two roots to sign one envelope.
pub(crate) const ROOT_KEYS_MAX: usize = 8;

/// Which keys may sign what, until when.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeyList {
    /// Only grows; a verifier refuses a lower one than it has seen.
    pub version: u32,
    /// When it was signed.
    pub issued_at: DateTime<Utc>,
    /// From this moment on it vouches for no key: a list that is withheld from a node must not keep a stolen key good for
    /// ever. A list of the release before has no end of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<DateTime<Utc>>,
    /// Whose signatures the next list needs, and this one too. A list of the release before does not say: it is that of the
    /// list before it, and at first the pinned key alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub root: Option<RootKeys>,
    /// The keys.
    pub keys: Vec<ListedKey>,
}

impl KeyList {
    /// Whether it vouches for no key any more.
    pub fn is_expired(&self, now: DateTime<Utc>) -> bool {
        self.expires_at.is_some_and(|end| now >= end)
    }
}

/// One key of the list; a key with two purposes has two rows.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ListedKey {
    /// SHA-256 of the public key.
    pub keyid: KeyId,
    /// The public key in hexadecimal.
    pub public: PublicKey,
    /// What it may sign; never `root`.
    pub purpose: Purpose,
    /// From this moment on nothing it signed is accepted.
    pub not_after: DateTime<Utc>,
}

/// The keys that sign key lists, and how many of them must.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RootKeys {
    /// How many different ones of `keys` must sign.
    pub threshold: u32,
    /// The public keys in hexadecimal.
    pub keys: Vec<PublicKey>,
}

impl RootKeys {
    /// One key that signs alone.
    pub fn single(key: PublicKey) -> Self {
        Self { threshold: 1, keys: vec![key] }
    }

    pub(crate) fn check(&self) -> Result<(), String> {
        let different: BTreeSet<_> = self.keys.iter().map(PublicKey::id).collect();
        if different.len() != self.keys.len() {
            return Err("a root key is named twice".to_owned());
        }
        if self.keys.len() > ROOT_KEYS_MAX {
            return Err(format!("{} root keys, the limit is {ROOT_KEYS_MAX}", self.keys.len()));
        }
        if self.threshold == 0 || self.threshold as usize > self.keys.len() {
            return Err(format!("{} of {} root keys must sign", self.threshold, self.keys.len()));
        }
        Ok(())
    }
}

impl Payload for KeyList {
    const TYPE: &'static str = "application/vnd.mfaas.key-list.v1+json";
    const PURPOSE: Purpose = Purpose::Root;
    const ENVELOPE_BYTES_MAX: usize = 64 << 10;

    fn check(&self) -> Result<(), String> {
        if self.version == 0 {
            return Err("key list version 0".to_owned());
        }
        if self.keys.len() > KEYS_MAX {
            return Err(format!("{} keys, the limit is {KEYS_MAX}", self.keys.len()));
        }
        if self.expires_at.is_some_and(|end| end <= self.issued_at) {
            return Err("the key list ends before it begins".to_owned());
        }
        self.root.as_ref().map_or(Ok(()), RootKeys::check)?;
        for key in &self.keys {
            if key.keyid != key.public.id() {
                return Err(format!("key {} does not name its public key", key.keyid));
            }
            // Root keys stand in `root`, where what it takes to replace them is checked.
            if key.purpose == Purpose::Root {
                return Err(format!("key {} is listed as a root", key.keyid));
            }
            // It would be on the signer's machine, and a thief there would have a vote on the next list.
            if self.root.as_ref().is_some_and(|root| root.keys.contains(&key.public)) {
                return Err(format!("key {} is an online key and a root key", key.keyid));
            }
        }
        Ok(())
    }
}
