//! The serving set: what nodes may load, under one signature with one epoch. The functions themselves lie in shards, which it
//! names by digest ([`crate::Shard`]), so it stays small however many there are.
//!
//! A set answers for 24 hours. An expired set still tells what was admitted, so a node keeps
//! serving what it has and loads nothing new. Going back is a higher epoch with an old digest.

use std::collections::BTreeSet;

use chrono::{DateTime, TimeDelta, Utc};
use mfaas_ident::{Digest, Epoch, ToolchainId};

use crate::{AuditHead, CallKey, Payload, Purpose, ShardRef};

/// How long a set may be valid, in hours.
pub const SERVING_SET_VALID_HOURS: i64 = 24;
/// Functions in one set.
const FUNCTIONS_MAX: u32 = 1_000_000;
/// Keys for call tokens in one set: one is used, and older ones stay for a day after each rotation.
const CALL_KEYS_MAX: usize = 16;

/// The desired state of every node.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ServingSet {
    /// Format of this document; 2. Format 1 held every function itself.
    pub version: u32,
    /// Only grows, across restarts of everything, as long as the key list is the same.
    pub epoch: Epoch,
    /// The newest key list when it was signed: whoever holds an older one must not believe the set. A set of a newer list
    /// is newer whatever its epoch is, so numbers that a stolen key has used up end with that key.
    pub key_list_version: u32,
    /// When it was signed.
    pub issued_at: DateTime<Utc>,
    /// At most [`SERVING_SET_VALID_HOURS`] later.
    pub expires_at: DateTime<Utc>,
    /// Artifacts of other toolchains are not loaded.
    pub accepted_toolchains: BTreeSet<ToolchainId>,
    /// Artifacts of other ABI versions are not loaded.
    pub abi_versions: BTreeSet<u32>,
    /// Lints that every statement must name.
    pub required_lints: BTreeSet<String>,
    /// The shard that leads to every function that is served, and how many these are.
    pub functions: ShardRef,
    /// Keys whose call tokens open functions.
    pub call_keys: Vec<CallKey>,
    /// The document of the call tokens that were revoked ([`crate::RevokedCalls`]); nothing where none is. A node of the release
    /// before, which cannot keep them, refuses a set that names some.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revoked_calls: Option<Digest>,
    /// Where the audit log ended when it was signed.
    pub audit_head: AuditHead,
}

/// Where a set stands among all sets: the greater, the newer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct SetOrder {
    /// See [`ServingSet::key_list_version`].
    pub key_list_version: u32,
    /// See [`ServingSet::epoch`].
    pub epoch: Epoch,
    /// The same epoch again is the same state signed anew.
    pub issued_at: Option<DateTime<Utc>>,
}

/// How far epochs may jump under one key list: what a stolen key signs must not use up the numbers.
pub const EPOCHS_AHEAD_MAX: u64 = 1_000_000;

impl ServingSet {
    /// The format that this build writes and reads.
    pub const FORMAT: u32 = 2;

    /// True from `expires_at` on, and before `issued_at` less five minutes of clock skew.
    pub fn is_expired(&self, now: DateTime<Utc>) -> bool {
        // At the beginning of time there is no earlier moment to be skewed to.
        let earliest = self.issued_at.checked_sub_signed(TimeDelta::minutes(5));
        now >= self.expires_at || earliest.is_some_and(|earliest| now < earliest)
    }

    /// Where it stands among all sets.
    pub fn order(&self) -> SetOrder {
        let Self { key_list_version, epoch, issued_at, .. } = *self;
        SetOrder { key_list_version, epoch, issued_at: Some(issued_at) }
    }
}

impl Payload for ServingSet {
    const TYPE: &'static str = "application/vnd.mfaas.serving-set.v2+json";
    const PURPOSE: Purpose = Purpose::ServingSet;
    const ENVELOPE_BYTES_MAX: usize = 256 << 10;

    fn check(&self) -> Result<(), String> {
        if self.version != Self::FORMAT {
            return Err(format!("serving set of format {}, this build knows {}", self.version, Self::FORMAT));
        }
        if self.epoch == Epoch(0) {
            return Err("epoch 0".to_owned());
        }
        let valid = self.expires_at - self.issued_at;
        if valid <= TimeDelta::zero() || valid > TimeDelta::hours(SERVING_SET_VALID_HOURS) {
            return Err(format!("valid for {valid}, at most {SERVING_SET_VALID_HOURS} h are allowed"));
        }
        if self.functions.functions > FUNCTIONS_MAX {
            return Err(format!("{} functions, the limit is {FUNCTIONS_MAX}", self.functions.functions));
        }
        if self.call_keys.len() > CALL_KEYS_MAX {
            return Err(format!("{} keys for calls, the limit is {CALL_KEYS_MAX}", self.call_keys.len()));
        }
        self.call_keys.iter().try_for_each(CallKey::check)
    }
}
