//! The serving set: signed whenever nodes should serve something else, and before it expires.

use std::collections::BTreeMap;

use chrono::{DateTime, TimeDelta, Utc};
use mfaas_attest::{
    EPOCHS_AHEAD_MAX, PrivateKey, Purpose, RevokedCalls, SERVING_SET_VALID_HOURS, ServingSet, ShardRef,
    Trust, sign, verify,
};
use mfaas_ident::{Digest, Epoch};
use mfaas_rules::profiles::lints;
use postgres::{Client, GenericClient, IsolationLevel, Transaction};

use crate::examine::ABI_VERSIONS;
use crate::ledger::sets::{self, Changes, Desired, LastSet};
use crate::tree::{Changed, Tree, TreeError};

/// A set with less validity than this left is signed anew.
const RENEW_BEFORE_HOURS: i64 = 12;

/// What decides whether a set is due, and which epoch it gets.
struct Situation {
    last: Option<LastSet>,
    generation: i64,
    /// Functions changed since the last set.
    has_changes: bool,
    /// Above the last epoch after a restored backup: nodes refuse every epoch up to this one.
    reported: Epoch,
}

impl Situation {
    fn look(client: &mut impl GenericClient) -> anyhow::Result<Self> {
        Ok(Self {
            last: sets::last(client)?,
            generation: sets::desired_generation(client)?,
            has_changes: sets::has_changes(client)?,
            reported: sets::highest_reported(client)?,
        })
    }

    fn is_due(&self, now: DateTime<Utc>) -> bool {
        self.last.as_ref().is_none_or(|last| {
            last.generation < self.generation
                || self.has_changes
                || last.expires_at - now < TimeDelta::hours(RENEW_BEFORE_HOURS)
                || self.highest_seen() > last.epoch
        })
    }

    /// What the next epoch must be above. A node that reports one further ahead than nodes take lies, or follows a stolen key.
    fn highest_seen(&self) -> Epoch {
        let last = self.last.as_ref().map_or(Epoch(0), |last| last.epoch);
        let believable = self.reported.0 <= last.0.saturating_add(EPOCHS_AHEAD_MAX);
        if believable { last.max(self.reported) } else { last }
    }
}

/// Signs the next serving set if one is due; returns its epoch.
///
/// What nodes should serve is read in one snapshot, which ends before the set is written: whoever writes in a snapshot what
/// others write too fails as soon as somebody else has written meanwhile. Shards are the signer's alone, and are stored before
/// the set that leads to them. A change that comes between the two makes the next set due.
pub(crate) fn sign_if_due(
    client: &mut Client,
    key: &PrivateKey,
    now: DateTime<Utc>,
) -> anyhow::Result<Option<Epoch>> {
    if !Situation::look(client)?.is_due(now) {
        return Ok(None);
    }
    let Some(Draft { situation, set, changes, changed, is_rebuilt }) = draft(client, now)? else {
        return Ok(None);
    };
    let envelope = sign(&set, &[key])?;
    verify::<ServingSet>(&envelope, &Trust::of_key(Purpose::ServingSet, key.public()))?;
    let mut tx = client.transaction()?;
    let last = sets::last(&mut tx)?.map(|last| last.epoch);
    if last != situation.last.as_ref().map(|last| last.epoch) {
        // Another signer was faster.
        return Ok(None);
    }
    if !sets::use_shards(&mut tx, &changed.used, &changed.unused)? {
        tracing::warn!("a shard of the next serving set was removed meanwhile; signing it anew");
        return Ok(None);
    }
    if is_rebuilt {
        sets::use_only(&mut tx, &changed.used)?;
    }
    sets::settle_changes(&mut tx, &changes, set.epoch)?;
    if !sets::store(&mut tx, &set, situation.generation, std::str::from_utf8(&envelope)?)? {
        return Ok(None);
    }
    tx.commit()?;
    sets::remove_unused_shards(client)?;
    Ok(Some(set.epoch))
}

/// A set that is not signed yet.
struct Draft {
    situation: Situation,
    set: ServingSet,
    /// What it says anew.
    changes: Changes,
    changed: Changed,
    /// Its tree was made anew from all functions.
    is_rebuilt: bool,
}

/// What to sign, unless it is not due any more.
fn draft(client: &mut Client, now: DateTime<Utc>) -> anyhow::Result<Option<Draft>> {
    let mut tx = client.build_transaction().isolation_level(IsolationLevel::RepeatableRead).start()?;
    let situation = Situation::look(&mut tx)?;
    if !situation.is_due(now) {
        return Ok(None);
    }
    let desired = sets::desired(&mut tx)?;
    let mut changes = sets::changes(&mut tx)?;
    let root = situation.last.as_ref().and_then(|last| last.functions);
    let brought = match root.map(|root| Tree::new(&mut tx, Some(root)).bring(&changes.names)) {
        Some(Ok(brought)) => Some(brought),
        Some(Err(TreeError::Database(error))) => return Err(error),
        Some(Err(TreeError::Damaged(reason))) => {
            tracing::error!(reason, "the tree of the last serving set is damaged and is made anew");
            None
        }
        // The first set, or the first after one without a tree.
        None => None,
    };
    let is_rebuilt = brought.is_none();
    let (functions, mut changed) = match brought {
        Some(brought) => brought,
        None => {
            changes.names.extend(sets::all_names(&mut tx)?);
            Tree::new(&mut tx, None).bring(&changes.names)?
        }
    };
    let revoked_calls = write_revoked(&mut tx, &desired.revoked_calls)?;
    changed.used.extend(revoked_calls);
    let before = situation.last.as_ref().and_then(|last| last.revoked_calls);
    changed.unused.extend(before.filter(|before| revoked_calls != Some(*before)));
    tx.commit()?;
    let set = ServingSet { revoked_calls, ..next_set(&situation, desired, functions, now) };
    Ok(Some(Draft { situation, set, changes, changed, is_rebuilt }))
}

/// Stores the document of the revoked call tokens beside the shards; nothing where none is revoked.
fn write_revoked(tx: &mut Transaction<'_>, revoked: &RevokedCalls) -> anyhow::Result<Option<Digest>> {
    if revoked.is_empty() {
        return Ok(None);
    }
    let (digest, bytes) = revoked.encode()?;
    sets::store_shards(tx, &BTreeMap::from([(digest, bytes)]))?;
    Ok(Some(digest))
}

fn next_set(situation: &Situation, desired: Desired, functions: ShardRef, now: DateTime<Utc>) -> ServingSet {
    ServingSet {
        version: ServingSet::FORMAT,
        epoch: Epoch(situation.highest_seen().0 + 1),
        key_list_version: desired.key_list_version,
        issued_at: now,
        expires_at: now + TimeDelta::hours(SERVING_SET_VALID_HOURS),
        accepted_toolchains: desired.toolchains,
        abi_versions: ABI_VERSIONS.iter().copied().collect(),
        required_lints: lints::required().map(str::to_owned).collect(),
        functions,
        call_keys: desired.call_keys,
        revoked_calls: None,
        audit_head: desired.audit_head,
    }
}
