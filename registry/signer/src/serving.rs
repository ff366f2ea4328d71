//! The serving set: signed whenever nodes should serve something else, and before it expires.

use chrono::{DateTime, TimeDelta, Utc};
use mfaas_attest::{
    PrivateKey, Purpose, REQUIRED_LINTS, SERVING_SET_VALID_HOURS, ServingSet, Trust, sign, verify,
};
use mfaas_ident::Epoch;
use postgres::{Client, IsolationLevel};

use crate::examine::ABI_VERSIONS;
use crate::ledger::{self, Desired, LastSet};

/// A set with less validity than this left is signed anew.
const RENEW_BEFORE_HOURS: i64 = 12;

/// Signs the next serving set if one is due; returns its epoch.
pub(crate) fn sign_if_due(client: &mut Client, key: &PrivateKey, now: DateTime<Utc>) -> anyhow::Result<Option<Epoch>> {
    let last = ledger::last_set(client)?;
    if !is_due(last.as_ref(), ledger::desired_generation(client)?, now) {
        return Ok(None);
    }
    let mut tx = client.build_transaction().isolation_level(IsolationLevel::RepeatableRead).start()?;
    let last = ledger::last_set(&mut tx)?;
    let desired = ledger::desired(&mut tx)?;
    let generation = desired.generation;
    if !is_due(last.as_ref(), generation, now) {
        return Ok(None);
    }
    let set = next_set(last.as_ref(), desired, now);
    let envelope = sign(&set, &[key])?;
    verify::<ServingSet>(&envelope, &Trust::of_key(Purpose::ServingSet, key.public()))?;
    ledger::store_set(&mut tx, &set, generation, std::str::from_utf8(&envelope)?)?;
    // Two signers that come here at once want the same epoch; the key of the table lets one win.
    tx.commit()?;
    Ok(Some(set.epoch))
}

fn is_due(last: Option<&LastSet>, generation: i64, now: DateTime<Utc>) -> bool {
    last.is_none_or(|last| {
        last.generation < generation || last.expires_at - now < TimeDelta::hours(RENEW_BEFORE_HOURS)
    })
}

fn next_set(last: Option<&LastSet>, desired: Desired, now: DateTime<Utc>) -> ServingSet {
    ServingSet {
        version: ServingSet::FORMAT,
        epoch: Epoch(last.map_or(0, |last| last.epoch.0) + 1),
        issued_at: now,
        expires_at: now + TimeDelta::hours(SERVING_SET_VALID_HOURS),
        accepted_toolchains: desired.toolchains,
        abi_versions: ABI_VERSIONS.iter().copied().collect(),
        required_lints: REQUIRED_LINTS.iter().map(|lint| (*lint).to_owned()).collect(),
        functions: desired.functions,
        revoked: desired.revoked,
    }
}
