//! The serving set: signed whenever nodes should serve something else, and before it expires.

use chrono::{DateTime, TimeDelta, Utc};
use mfaas_attest::{
    EPOCHS_AHEAD_MAX, PrivateKey, Purpose, SERVING_SET_VALID_HOURS, ServingSet, Trust, sign, verify,
};
use mfaas_ident::Epoch;
use mfaas_rules::profiles::lints;
use postgres::{Client, GenericClient, IsolationLevel};

use crate::examine::ABI_VERSIONS;
use crate::ledger::{self, Desired, LastSet};

/// A set with less validity than this left is signed anew.
const RENEW_BEFORE_HOURS: i64 = 12;

/// What decides whether a set is due, and which epoch it gets.
struct Situation {
    last: Option<LastSet>,
    generation: i64,
    /// Above the last epoch after a restored backup: nodes refuse every epoch up to this one.
    reported: Epoch,
}

impl Situation {
    fn look(client: &mut impl GenericClient) -> anyhow::Result<Self> {
        Ok(Self {
            last: ledger::last_set(client)?,
            generation: ledger::desired_generation(client)?,
            reported: ledger::highest_reported(client)?,
        })
    }

    fn is_due(&self, now: DateTime<Utc>) -> bool {
        self.last.as_ref().is_none_or(|last| {
            last.generation < self.generation
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
/// What nodes should serve is read in one snapshot, which ends before anything is written: whoever writes in a snapshot fails
/// as soon as somebody else has written meanwhile. A change that comes between the two makes the next set due.
pub(crate) fn sign_if_due(
    client: &mut Client,
    key: &PrivateKey,
    now: DateTime<Utc>,
) -> anyhow::Result<Option<Epoch>> {
    if !Situation::look(client)?.is_due(now) {
        return Ok(None);
    }
    let Some((situation, desired)) = read_desired(client, now)? else { return Ok(None) };
    let set = next_set(&situation, desired, now);
    let envelope = sign(&set, &[key])?;
    verify::<ServingSet>(&envelope, &Trust::of_key(Purpose::ServingSet, key.public()))?;
    let mut tx = client.transaction()?;
    let last = ledger::last_set(&mut tx)?.map(|last| last.epoch);
    if last != situation.last.as_ref().map(|last| last.epoch) {
        // Another signer was faster.
        return Ok(None);
    }
    if !ledger::store_set(&mut tx, &set, situation.generation, std::str::from_utf8(&envelope)?)? {
        return Ok(None);
    }
    tx.commit()?;
    Ok(Some(set.epoch))
}

/// What to sign, unless it is not due any more.
fn read_desired(client: &mut Client, now: DateTime<Utc>) -> anyhow::Result<Option<(Situation, Desired)>> {
    let snapshot = client.build_transaction().isolation_level(IsolationLevel::RepeatableRead).read_only(true);
    let mut tx = snapshot.start()?;
    let situation = Situation::look(&mut tx)?;
    if !situation.is_due(now) {
        return Ok(None);
    }
    let desired = ledger::desired(&mut tx)?;
    Ok(Some((situation, desired)))
}

fn next_set(situation: &Situation, desired: Desired, now: DateTime<Utc>) -> ServingSet {
    ServingSet {
        version: ServingSet::FORMAT,
        epoch: Epoch(situation.highest_seen().0 + 1),
        key_list_version: desired.key_list_version,
        issued_at: now,
        expires_at: now + TimeDelta::hours(SERVING_SET_VALID_HOURS),
        accepted_toolchains: desired.toolchains,
        abi_versions: ABI_VERSIONS.iter().copied().collect(),
        required_lints: lints::required().map(str::to_owned).collect(),
        functions: desired.functions,
        revoked: desired.revoked,
        call_keys: desired.call_keys,
        audit_head: Some(desired.audit_head),
    }
}
