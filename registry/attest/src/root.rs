//! Whose signatures make a key list, and how a verifier gets from one list to the next.
//!
//! As clients of The Update Framework do (specification 1.0, section 5.3): a verifier begins with what somebody pinned for
//! it and takes lists one by one. Each must be signed by enough keys of the root before it and, where it names a root, by
//! enough of that one too. So the root can be replaced, and nobody who holds the old one or the new one alone can do it.
//!
//! Must never go back, leave out a list that could have replaced the root, or count one key twice.

use std::cmp::Ordering;

use chrono::{DateTime, Utc};
use mfaas_ident::Digest;

use crate::{AttestError, KeyList, PublicKey, Purpose, RootKeys, Trust, Verified, dsse};

/// How far versions may jump between lists that do not name their root: the releases that wrote them published only the
/// newest, so some are nowhere to be had.
const UNNAMED_AHEAD_MAX: u32 = 100;

impl RootKeys {
    /// The list in `envelope`, if enough of these keys signed it.
    fn verify(&self, envelope: &[u8]) -> Result<Verified<KeyList>, RootError> {
        let trust = Trust::of_keys(Purpose::Root, &self.keys);
        let (list, signed) = dsse::verify_counting::<KeyList>(envelope, &trust)?;
        if signed < self.threshold as usize {
            return Err(RootError::TooFew { version: list.version, signed, threshold: self.threshold });
        }
        Ok(list)
    }
}

/// Why a key list is not the next one.
#[derive(Debug, thiserror::Error)]
pub enum RootError {
    /// Not a key list, or no root key that the verifier believes signed it.
    #[error(transparent)]
    Document(#[from] AttestError),
    /// Some root keys signed, but not enough of the present root, or of the one that the list names.
    #[error("key list {version} is signed by {signed} keys of a root that demands {threshold}")]
    TooFew {
        /// Of the list.
        version: u32,
        /// Different keys with a good signature.
        signed: usize,
        /// How many it takes.
        threshold: u32,
    },
    /// Older than the one that the verifier has.
    #[error("the key list is version {version}, seen was {present}")]
    Older {
        /// Of the list.
        version: u32,
        /// What the verifier has.
        present: u32,
    },
    /// Lists between the verifier's and this one are missing; they may name another root.
    #[error("key list {version} does not come after {present}: those in between are missing")]
    Skips {
        /// Of the list.
        version: u32,
        /// What the verifier has.
        present: u32,
    },
    /// The same version with other words: the holders of the root signed two.
    #[error("there are two key lists of version {version}")]
    Twice {
        /// Of both.
        version: u32,
    },
}

/// The root that a verifier believes, and the newest key list that it has accepted.
#[derive(Debug, Clone)]
pub struct TrustedRoot {
    pin: Digest,
    root: RootKeys,
    /// `None` as long as there is nothing but a pinned key.
    list: Option<Verified<KeyList>>,
}

impl TrustedRoot {
    /// Begins with one key, before any list.
    pub fn of_key(key: PublicKey) -> Self {
        Self { pin: key.id().0, root: RootKeys::single(key), list: None }
    }

    /// Begins with a list that names its root, and that the caller got by a way that is trusted already.
    pub fn of_list(envelope: &[u8]) -> Result<Self, RootError> {
        let root = dsse::Draft::<KeyList>::read(envelope)?.document().root.clone();
        let root = root.ok_or_else(|| AttestError::Inconsistent {
            reason: "a key list that does not name its root cannot be pinned: pin the root key".to_owned(),
        })?;
        let list = root.verify(envelope)?;
        Ok(Self { pin: list.digest(), root, list: Some(list) })
    }

    /// Begins with the content of a file: a public key in PEM, or a key list.
    pub fn of_file(content: &str) -> Result<Self, RootError> {
        if content.trim_start().starts_with('{') {
            Self::of_list(content.trim().as_bytes())
        } else {
            Ok(Self::of_key(PublicKey::from_pem(content)?))
        }
    }

    /// Goes on from a list that was accepted under this pin before, and kept where nobody else writes.
    pub fn resume(&self, kept: &[u8]) -> Result<Self, RootError> {
        let resumed = match dsse::Draft::<KeyList>::read(kept)?.document().root {
            Some(_) => Self { pin: self.pin, ..Self::of_list(kept)? },
            None => Self { list: Some(self.root.verify(kept)?), ..self.clone() },
        };
        if resumed.version() < self.version() {
            return Err(RootError::Older { version: resumed.version(), present: self.version() });
        }
        Ok(resumed)
    }

    /// The root after the list in `envelope`; the present one again for the list that is known already.
    pub fn follow(&self, envelope: &[u8]) -> Result<Self, RootError> {
        let list = self.root.verify(envelope)?;
        let (version, present) = (list.version, self.version());
        match version.cmp(&present) {
            Ordering::Less => return Err(RootError::Older { version, present }),
            Ordering::Equal if self.list.as_ref().is_some_and(|known| known.get() == list.get()) => {
                return Ok(self.clone());
            }
            Ordering::Equal => return Err(RootError::Twice { version }),
            Ordering::Greater => {}
        }
        let names_root = self.list.as_ref().is_some_and(|known| known.root.is_some());
        let root = match &list.root {
            Some(_) if version - present > 1 => return Err(RootError::Skips { version, present }),
            Some(root) => {
                root.verify(envelope).map_err(|error| of_the_new_root(error, version, root))?;
                root.clone()
            }
            None if names_root => {
                let reason = format!("key list {present} names its root and {version} does not");
                return Err(AttestError::Inconsistent { reason }.into());
            }
            None if version - present > UNNAMED_AHEAD_MAX => {
                return Err(RootError::Skips { version, present });
            }
            None => self.root.clone(),
        };
        Ok(Self { pin: self.pin, root, list: Some(list) })
    }

    /// The name of what was pinned: what is remembered under another pin does not count.
    pub fn pin(&self) -> Digest {
        self.pin
    }

    /// Of the newest list; 0 before the first.
    pub fn version(&self) -> u32 {
        self.list.as_ref().map_or(0, |list| list.version)
    }

    /// Whose signatures the next list needs.
    pub fn root(&self) -> &RootKeys {
        &self.root
    }

    /// The newest list.
    pub fn list(&self) -> Option<&Verified<KeyList>> {
        self.list.as_ref()
    }

    /// The keys that count at `now`: those of the newest list that are not past their end, and none if the list is.
    pub fn trust(&self, now: DateTime<Utc>) -> Trust {
        let list = self.list.iter().filter(|list| !list.is_expired(now));
        let keys = list.flat_map(|list| list.keys.iter().filter(|key| key.not_after > now));
        keys.fold(Trust::default(), |trust, key| trust.and_key(key.purpose, key.public))
    }
}

/// Without any signature of the new root the list is still one of the present root: it has too few.
fn of_the_new_root(error: RootError, version: u32, root: &RootKeys) -> RootError {
    match error {
        RootError::Document(AttestError::Untrusted { .. }) => {
            RootError::TooFew { version, signed: 0, threshold: root.threshold }
        }
        other => other,
    }
}

#[cfg(test)]
mod tests;
