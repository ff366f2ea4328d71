//! Which documents this node believes: the decisions, without files, clocks or sockets.
//!
//! The chain starts at what was pinned. Key lists are taken one after the other ([`TrustedRoot`]), and count when the newest
//! that was ever seen is reached; a serving set counts when a key of the list that it names, or of a newer one, signed it and no newer set was
//! seen ([`SetOrder`]), before this start included ([`Seen`] is durable). Nothing in here goes back.

use chrono::{DateTime, Utc};
use mfaas_attest::{
    AttestError, EPOCHS_AHEAD_MAX, KeyList, Payload, RootError, ServingSet, SetOrder, Trust, TrustedRoot,
    Verified,
};
use mfaas_ident::{Digest, Epoch};
use mfaas_rules::{Code, codes};

use crate::refused::Refused;
use crate::state::Seen;

/// What to do with a serving set whose signature and epoch are good.
#[derive(Debug)]
pub(crate) enum Admitted {
    /// It may be loaded.
    Valid(Box<Verified<ServingSet>>),
    /// It is expired, or from the future: keep serving, load nothing of it. Its epoch counts as
    /// seen all the same.
    Expired(Box<Verified<ServingSet>>),
}

/// The gate and what it has learned.
#[derive(Debug)]
pub(crate) struct Gate {
    root: TrustedRoot,
    seen: Seen,
}

impl Gate {
    /// A gate that believes `root` for key lists, and has seen what `seen` says.
    pub(crate) fn new(root: TrustedRoot, seen: Seen) -> Self {
        Self { root, seen }
    }

    /// The highest numbers so far. To be made durable before anything is loaded.
    pub(crate) fn seen(&self) -> Seen {
        self.seen
    }

    /// The keys that count at `now`; a key whose time is over drops out by itself.
    pub(crate) fn trust(&self, now: DateTime<Utc>) -> Trust {
        if self.is_behind() { Trust::default() } else { self.root.trust(now) }
    }

    /// The name of what was pinned.
    pub(crate) fn pin(&self) -> Digest {
        self.root.pin()
    }

    /// Of the list that the node has; 0 before the first.
    pub(crate) fn key_list_version(&self) -> u32 {
        self.root.version()
    }

    /// Goes on from the list that the disk holds.
    pub(crate) fn resume(&mut self, kept: &[u8]) -> Result<(), Refused> {
        self.root = self.root.resume(kept).map_err(refused_list)?;
        self.seen.key_list_version = self.seen.key_list_version.max(self.root.version());
        Ok(())
    }

    /// Takes the next key list; `false` if it is the one that the node has.
    pub(crate) fn key_list(&mut self, envelope: &[u8]) -> Result<bool, Refused> {
        let next = self.root.follow(envelope).map_err(refused_list)?;
        let is_next = next.version() > self.root.version();
        self.root = next;
        self.seen.key_list_version = self.seen.key_list_version.max(self.root.version());
        Ok(is_next)
    }

    /// To be asked when there is no further list: a node that has seen a newer one believes nothing before it.
    pub(crate) fn check_reached(&self) -> Result<(), Refused> {
        if !self.is_behind() {
            return Ok(());
        }
        let (version, seen) = (self.root.version(), self.seen.key_list_version);
        Err(Refused::new(codes::MF0702, format!("the list of keys is version {version}, seen was {seen}")))
    }

    fn is_behind(&self) -> bool {
        self.root.version() < self.seen.key_list_version
    }

    /// Judges a serving set by signature, key list, order and time, in this order.
    ///
    /// The same epoch again is the same state signed anew (for a longer validity), so it must not
    /// have been signed earlier than the one seen.
    pub(crate) fn serving_set(&mut self, envelope: &[u8], now: DateTime<Utc>) -> Result<Admitted, Refused> {
        if let Some(list) = self.root.list().filter(|list| list.is_expired(now)) {
            let message = format!("key list {} has expired: no key counts until the next one", list.version);
            return Err(Refused::new(codes::MF0715, message));
        }
        let set = mfaas_attest::verify::<ServingSet>(envelope, &self.trust(now)).map_err(|e| {
            let code = set_code(&e);
            Refused::new(code, format!("the serving set: {e}"))
        })?;
        self.check_order(set.order())?;
        self.seen.see_set(set.order());
        let set = Box::new(set);
        Ok(if set.is_expired(now) { Admitted::Expired(set) } else { Admitted::Valid(set) })
    }
}

impl Gate {
    /// Whether a set may follow the ones that were seen.
    fn check_order(&self, set: SetOrder) -> Result<(), Refused> {
        let held = self.root.version();
        if set.key_list_version > held {
            let message =
                format!("it is for nodes that know key list {}, this one has {held}", set.key_list_version);
            return Err(Refused::new(codes::MF0713, message));
        }
        let seen = self.seen.set_order();
        if set < seen {
            let message = format!("epoch {} after epoch {} was seen", set.epoch, seen.epoch);
            return Err(Refused::new(codes::MF0702, message));
        }
        // The first set of a key list may have any number: nothing that an earlier list's keys did counts against it.
        let is_first = seen.epoch == Epoch(0) || set.key_list_version > seen.key_list_version;
        if !is_first && set.epoch.0 - seen.epoch.0 > EPOCHS_AHEAD_MAX {
            let message = format!("epoch {} after epoch {}: too far ahead", set.epoch, seen.epoch);
            return Err(Refused::new(codes::MF0714, message));
        }
        Ok(())
    }
}

fn refused_list(error: RootError) -> Refused {
    let code = match error {
        RootError::Document(_) => codes::MF0701,
        RootError::Older { .. } => codes::MF0702,
        RootError::TooFew { .. } => codes::MF0716,
        RootError::Skips { .. } => codes::MF0717,
        RootError::Twice { .. } => codes::MF0718,
    };
    Refused::new(code, format!("the list of keys: {error}"))
}

/// Everything that stops a set before its epoch is known means the same to an operator: it is not
/// a set of a key that this node trusts.
fn set_code(error: &AttestError) -> Code {
    match error {
        AttestError::TooLarge { .. }
        | AttestError::Malformed { .. }
        | AttestError::WrongType { .. }
        | AttestError::Untrusted { .. }
        | AttestError::BadSignature { .. }
        | AttestError::Inconsistent { .. }
        | AttestError::Key { .. }
        | AttestError::Passphrase => codes::MF0701,
    }
}

/// Why a shard is not read: it is not what its name says, or contradicts itself.
pub(crate) fn refused_shard(error: AttestError) -> Refused {
    Refused::new(codes::MF0701, format!("a shard of the serving set: {error}"))
}

/// The largest envelopes that are fetched at all, in bytes.
pub(crate) const SET_BYTES_MAX: usize = ServingSet::ENVELOPE_BYTES_MAX;
/// See [`SET_BYTES_MAX`].
pub(crate) const KEY_LIST_BYTES_MAX: usize = KeyList::ENVELOPE_BYTES_MAX;

#[cfg(test)]
mod tests;
