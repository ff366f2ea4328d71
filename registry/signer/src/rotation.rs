//! Which keys the next key list names, and until when. No files, no clock.
//!
//! A statement is signed once and counts as long as its version is served, which may be years; a
//! serving set is signed anew every day. So a key that was replaced soon loses the right to sign
//! sets, while the statements that it signed stay valid.

use anyhow::ensure;
use chrono::{DateTime, TimeDelta, Utc};
use mfaas_attest::{KeyList, ListedKey, PublicKey, Purpose};

/// How long nodes accept what a listed key signed, unless a later list renews it.
const KEY_VALID_DAYS: i64 = 365;
/// How long nodes accept the list: a key that was taken out of it lives on for so long on a node that never gets the next.
/// As long as its keys, so that no site has to renew more often than it had to.
const LIST_VALID_DAYS: i64 = KEY_VALID_DAYS;
/// How long nodes go on accepting serving sets of a key that was replaced: time to start the
/// signer anew, and for nodes that are away to come back.
const OVERLAP_DAYS: i64 = 7;

/// What happens to the present online key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Change {
    /// It stays and is valid for another [`KEY_VALID_DAYS`], as are the statements of its predecessors.
    Renew,
    /// Another one takes its place; it overlaps for [`OVERLAP_DAYS`], its statements stay valid.
    Replace,
    /// Another one takes its place and nothing that it signed counts any more.
    ReplaceLeaked,
}

/// The list of a new installation.
pub(crate) fn first_list(online: &PublicKey, now: DateTime<Utc>) -> KeyList {
    list(1, rows(online, now).to_vec(), now)
}

/// The list after `list`: `present` has been the online key, `online` is from now on (the same for
/// [`Change::Renew`]). Rows whose time is over are left out.
pub(crate) fn next_list(
    list: &KeyList,
    present: &PublicKey,
    online: &PublicKey,
    change: Change,
    now: DateTime<Utc>,
) -> anyhow::Result<KeyList> {
    ensure!(
        list.keys.iter().any(|row| row.public == *present),
        "the key list does not name the online key {}: these directories do not belong together",
        present.id()
    );
    let earlier = list.keys.iter().filter(|row| row.public != *online && row.not_after > now);
    let kept = earlier.filter(|row| change != Change::ReplaceLeaked || row.public != *present);
    let kept = kept.map(|row| ListedKey { not_after: kept_until(row, change, now), ..row.clone() });
    let keys = kept.chain(rows(online, now)).collect();
    Ok(self::list(list.version + 1, keys, now))
}

fn list(version: u32, keys: Vec<ListedKey>, now: DateTime<Utc>) -> KeyList {
    KeyList { version, issued_at: now, expires_at: Some(now + TimeDelta::days(LIST_VALID_DAYS)), keys }
}

fn kept_until(row: &ListedKey, change: Change, now: DateTime<Utc>) -> DateTime<Utc> {
    match (row.purpose, change) {
        (Purpose::Artifact, Change::Renew) => row.not_after.max(now + TimeDelta::days(KEY_VALID_DAYS)),
        (Purpose::ServingSet, Change::Replace | Change::ReplaceLeaked) => {
            row.not_after.min(now + TimeDelta::days(OVERLAP_DAYS))
        }
        (Purpose::Artifact | Purpose::ServingSet | Purpose::Root, _) => row.not_after,
    }
}

fn rows(key: &PublicKey, now: DateTime<Utc>) -> [ListedKey; 2] {
    let not_after = now + TimeDelta::days(KEY_VALID_DAYS);
    [Purpose::Artifact, Purpose::ServingSet].map(|purpose| ListedKey {
        keyid: key.id(),
        public: *key,
        purpose,
        not_after,
    })
}

#[cfg(test)]
mod tests;
