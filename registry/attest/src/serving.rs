//! The serving set: everything that nodes may load, signed as one document with one epoch.
//!
//! A set answers for 24 hours. An expired set still tells what was admitted, so a node keeps
//! serving what it has and loads nothing new. Going back is a higher epoch with an old digest.

use std::collections::{BTreeMap, BTreeSet};

use chrono::{DateTime, TimeDelta, Utc};
use mfaas_ident::{
    AliasName, Budget, Digest, Epoch, FunctionName, MemoryLimit, Selector, TenantName, ToolchainId,
    VersionNumber,
};

use crate::{AuditHead, CallKey, Payload, Purpose};

/// How long a set may be valid, in hours.
pub const SERVING_SET_VALID_HOURS: i64 = 24;
/// Functions in one set.
const FUNCTIONS_MAX: usize = 100_000;
/// Keys for call tokens in one set: one is used, and older ones stay for a day after each rotation.
const CALL_KEYS_MAX: usize = 16;

/// The desired state of every node.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ServingSet {
    /// Format of this document; 1.
    pub version: u32,
    /// Only grows, across restarts of everything, as long as the key list is the same.
    pub epoch: Epoch,
    /// The newest key list when it was signed: whoever holds an older one must not believe the set. A set of a newer list
    /// is newer whatever its epoch is, so numbers that a stolen key has used up end with that key. A set of the release
    /// before names none.
    #[serde(default, skip_serializing_if = "is_none_named")]
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
    /// What is served, sorted by tenant and name.
    pub functions: Vec<ServedFunction>,
    /// Artifacts that must not run whatever else says so.
    pub revoked: BTreeSet<Digest>,
    /// Keys whose call tokens open functions; a set of the release before has none, and a set without keys is one
    /// that nodes of that release read.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub call_keys: Vec<CallKey>,
    /// Where the audit log ended when it was signed; a set of the release before does not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub audit_head: Option<AuditHead>,
}

/// One function of the set.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ServedFunction {
    /// Its owner.
    pub tenant: TenantName,
    /// Its name within the tenant.
    pub name: FunctionName,
    /// Alias to version; every version named here is in `versions`.
    pub aliases: BTreeMap<AliasName, VersionNumber>,
    /// The versions that can be called, ascending.
    pub versions: Vec<ServedVersion>,
}

/// One callable version.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ServedVersion {
    /// Its number.
    pub version: VersionNumber,
    /// The artifact.
    pub digest: Digest,
    /// The envelope of the statement about this artifact as this version.
    pub statement: Digest,
    /// CPU time per invocation, µs.
    pub budget_us: Budget,
    /// Arena size, bytes.
    pub memory_bytes: MemoryLimit,
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

fn is_none_named(version: &u32) -> bool {
    *version == 0
}

impl ServingSet {
    /// The format that this build writes and reads.
    pub const FORMAT: u32 = 1;

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

    /// The function of that name.
    pub fn function(&self, tenant: &TenantName, name: &FunctionName) -> Option<&ServedFunction> {
        self.functions
            .binary_search_by(|f| (&f.tenant, &f.name).cmp(&(tenant, name)))
            .ok()
            .map(|i| &self.functions[i])
    }

    /// Every artifact that the set lets run: named and not revoked.
    pub fn artifacts(&self) -> impl Iterator<Item = (&ServedFunction, &ServedVersion)> {
        self.functions
            .iter()
            .flat_map(|f| f.versions.iter().map(move |v| (f, v)))
            .filter(|(_, v)| !self.revoked.contains(&v.digest))
    }
}

impl ServedFunction {
    /// The version that `selector` means; none given means the alias `live`.
    pub fn resolve(&self, selector: Option<&Selector>) -> Option<&ServedVersion> {
        let number = match selector {
            Some(Selector::Version(number)) => *number,
            Some(Selector::Alias(alias)) => *self.aliases.get(alias)?,
            None => *self.aliases.get(&AliasName::live())?,
        };
        self.versions.iter().find(|v| v.version == number)
    }

    fn check(&self) -> Result<(), String> {
        let ascending = self.versions.windows(2).all(|w| w[0].version < w[1].version);
        if self.versions.is_empty() || !ascending {
            return Err(format!("versions of {}/{} are empty or not ascending", self.tenant, self.name));
        }
        match self.aliases.iter().find(|(_, n)| !self.versions.iter().any(|v| v.version == **n)) {
            Some((alias, n)) => Err(format!(
                "{}/{}@{alias} names version {n}, which is not in the set",
                self.tenant, self.name
            )),
            None => Ok(()),
        }
    }
}

impl Payload for ServingSet {
    const TYPE: &'static str = "application/vnd.mfaas.serving-set.v1+json";
    const PURPOSE: Purpose = Purpose::ServingSet;
    const ENVELOPE_BYTES_MAX: usize = 64 << 20;

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
        if self.functions.len() > FUNCTIONS_MAX {
            return Err(format!("{} functions, the limit is {FUNCTIONS_MAX}", self.functions.len()));
        }
        if !self.functions.windows(2).all(|w| (&w[0].tenant, &w[0].name) < (&w[1].tenant, &w[1].name)) {
            return Err("functions are not sorted or not unique".to_owned());
        }
        if self.call_keys.len() > CALL_KEYS_MAX {
            return Err(format!("{} keys for calls, the limit is {CALL_KEYS_MAX}", self.call_keys.len()));
        }
        self.call_keys.iter().try_for_each(CallKey::check)?;
        self.functions.iter().try_for_each(ServedFunction::check)
    }
}
