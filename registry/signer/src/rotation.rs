//! Which keys the next key list names, and until when. No files, no clock.
//!
//! A statement is signed once and counts as long as its version is served, which may be years; a
//! serving set is signed anew every day. So a key that was replaced soon loses the right to sign
//! sets, while the statements that it signed stay valid.

use anyhow::ensure;
use chrono::{DateTime, TimeDelta, Utc};
use mfaas_attest::{KeyList, ListedKey, PublicKey, Purpose, RootKeys};

/// How long nodes accept what a listed key signed, unless a later list renews it.
const KEY_VALID_DAYS: i64 = 365;
/// How long nodes accept the list: a key that was taken out of it lives on for so long on a node that never gets the next.
/// As long as its keys, so that no site has to renew more often than it had to.
const LIST_VALID_DAYS: i64 = KEY_VALID_DAYS;
/// How long nodes go on accepting serving sets of a key that was replaced: time to start the
/// signer anew, and for nodes that are away to come back.
const OVERLAP_DAYS: i64 = 7;

/// The keys that the signer holds. Whoever steals one of them can do what that one is for and nothing else; in an
/// installation from before there were two, both are the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct OnlineKeys<K> {
    /// Signs the statements about artifacts.
    pub(crate) statements: K,
    /// Signs serving sets.
    pub(crate) sets: K,
}

/// Which of the two was stolen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Leaked {
    Statements,
    Sets,
    Both,
}

/// What happens to the present online keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Change {
    /// They stay and are valid for another [`KEY_VALID_DAYS`], as are the statements of their predecessors.
    Renew,
    /// Others take their place; they overlap for [`OVERLAP_DAYS`], their statements stay valid.
    Replace,
    /// Others take the place of those that were stolen, and nothing that these signed counts any more.
    ReplaceLeaked(Leaked),
}

impl Change {
    /// Which keys are made anew.
    pub(crate) fn replaces(self) -> OnlineKeys<bool> {
        let (statements, sets) = match self {
            Self::Renew => (false, false),
            Self::Replace | Self::ReplaceLeaked(Leaked::Both) => (true, true),
            Self::ReplaceLeaked(Leaked::Statements) => (true, false),
            Self::ReplaceLeaked(Leaked::Sets) => (false, true),
        };
        OnlineKeys { statements, sets }
    }
}

/// The list of a new installation, whose root key signs alone.
pub(crate) fn first_list(root: &PublicKey, online: &OnlineKeys<PublicKey>, now: DateTime<Utc>) -> KeyList {
    list(1, Some(RootKeys::single(*root)), rows(online, now).to_vec(), now)
}

/// The list after `before`: `present` have been the online keys, `online` are from now on (the same where nothing is replaced).
/// Rows whose time is over are left out.
pub(crate) fn next_list(
    before: &KeyList,
    root: Option<RootKeys>,
    (present, online): (&OnlineKeys<PublicKey>, &OnlineKeys<PublicKey>),
    change: Change,
    now: DateTime<Utc>,
) -> anyhow::Result<KeyList> {
    for key in [present.statements, present.sets] {
        // After a rotation that broke off, the list may not name a stolen key any more.
        ensure!(
            before.keys.iter().any(|row| row.public == key) || matches!(change, Change::ReplaceLeaked(_)),
            "the key list does not name the online key {}: these directories do not belong together",
            key.id()
        );
    }
    let new = rows(online, now);
    let is_new =
        |row: &ListedKey| new.iter().any(|new| (new.purpose, new.public) == (row.purpose, row.public));
    let is_stolen = |row: &ListedKey| {
        let replaced = change.replaces();
        matches!(change, Change::ReplaceLeaked(_))
            && ((replaced.statements && row.public == present.statements)
                || (replaced.sets && row.public == present.sets))
    };
    // A key that was both and was stolen as one of them is stolen.
    ensure!(!new.iter().any(is_stolen), "both keys are the same in this installation: replace both");
    let kept = before.keys.iter().filter(|row| !is_new(row) && row.not_after > now && !is_stolen(row));
    let kept = kept.map(|row| ListedKey { not_after: kept_until(row, change, now), ..row.clone() });
    let keys = kept.chain(new.clone()).collect();
    Ok(list(before.version + 1, root, keys, now))
}

fn list(version: u32, root: Option<RootKeys>, keys: Vec<ListedKey>, now: DateTime<Utc>) -> KeyList {
    KeyList { version, issued_at: now, expires_at: Some(now + TimeDelta::days(LIST_VALID_DAYS)), root, keys }
}

fn kept_until(row: &ListedKey, change: Change, now: DateTime<Utc>) -> DateTime<Utc> {
    match (row.purpose, change) {
        (Purpose::Artifact, Change::Renew) => row.not_after.max(now + TimeDelta::days(KEY_VALID_DAYS)),
        (Purpose::ServingSet, Change::Replace | Change::ReplaceLeaked(_)) => {
            row.not_after.min(now + TimeDelta::days(OVERLAP_DAYS))
        }
        (Purpose::Artifact | Purpose::ServingSet | Purpose::Root, _) => row.not_after,
    }
}

fn rows(online: &OnlineKeys<PublicKey>, now: DateTime<Utc>) -> [ListedKey; 2] {
    let not_after = now + TimeDelta::days(KEY_VALID_DAYS);
    [(Purpose::Artifact, online.statements), (Purpose::ServingSet, online.sets)]
        .map(|(purpose, public)| ListedKey { keyid: public.id(), public, purpose, not_after })
}

#[cfg(test)]
mod tests;
