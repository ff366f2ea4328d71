//! Call tokens: verified once, then known by digest until they are over.

use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, SystemTime};

use chrono::{DateTime, Utc};
use mfaas_attest::{CALL_TOKEN_BYTES_MAX, CallClaims, CallKey, CallTokenError, verify_call};
use mfaas_ident::Digest;

use super::limiter::Share;
use super::recent::Recent;

/// Tokens that are known at a time, about 1 KiB each. One that was forgotten is verified again.
const KNOWN: usize = 8_192;

/// A token that counts.
#[derive(Debug)]
pub(super) struct Known {
    pub(super) claims: CallClaims,
    /// `tenant/caller`.
    pub(super) name: String,
    /// From when on it counts no more, since the beginning of 1970.
    ends: Duration,
    /// The keys that it was verified with.
    generation: u64,
}

impl Known {
    /// What it gets of a function where everybody gets `share`.
    pub(super) fn share(&self, share: Share) -> Share {
        share.at_most(self.claims.rate, self.claims.concurrency)
    }
}

/// The keys of a serving set.
#[derive(Debug, Default)]
struct Keys {
    keys: Vec<CallKey>,
    /// Grows with each change.
    generation: u64,
}

/// Keys, and the tokens that they were found to have signed.
#[derive(Debug)]
pub(super) struct Tokens {
    keys: RwLock<Arc<Keys>>,
    known: Recent<Digest, Arc<Known>>,
}

impl Default for Tokens {
    fn default() -> Self {
        Self { keys: RwLock::default(), known: Recent::new(KNOWN) }
    }
}

impl Tokens {
    /// Takes other keys. What was known by the ones before is verified again.
    pub(super) fn hold_keys(&self, keys: &[CallKey]) {
        let mut held = self.keys.write().unwrap_or_else(PoisonError::into_inner);
        // The first time says that there is a set, even if it has none.
        if held.keys != keys || held.generation == 0 {
            *held = Arc::new(Keys { keys: keys.to_vec(), generation: held.generation + 1 });
            self.known.clear();
        }
    }

    /// Whether any keys, or none, were ever taken.
    pub(super) fn are_ready(&self) -> bool {
        self.keys().generation > 0
    }

    fn keys(&self) -> Arc<Keys> {
        Arc::clone(&self.keys.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// The token, if it was verified before, with the keys that are held now, and is not over.
    pub(super) fn known(&self, text: &str, now: SystemTime) -> Option<Arc<Known>> {
        if text.len() > CALL_TOKEN_BYTES_MAX {
            return None;
        }
        let digest = Digest::of(text.as_bytes());
        let known = Arc::clone(self.known.piece(&digest).get(&digest)?);
        let now = now.duration_since(SystemTime::UNIX_EPOCH).ok()?;
        // A clock that was set back may not let it begin before it began: it is verified again then.
        let began = Duration::from_secs(u64::try_from(known.claims.issued_at.timestamp()).ok()?);
        (known.generation == self.keys().generation && now < known.ends && now >= began).then_some(known)
    }

    /// Verifies a token and remembers it.
    pub(super) fn verify(&self, text: &str, now: SystemTime) -> Result<Arc<Known>, CallTokenError> {
        let keys = self.keys();
        let (claims, ends_at) = verify_call(text, &keys.keys, DateTime::<Utc>::from(now))?;
        let ends = u64::try_from(ends_at.timestamp()).map_err(|_| CallTokenError::Expired)?;
        let known = Arc::new(Known {
            name: format!("{}/{}", claims.tenant, claims.caller),
            claims,
            ends: Duration::from_secs(ends),
            generation: keys.generation,
        });
        let digest = Digest::of(text.as_bytes());
        self.known.piece(&digest).put(digest, Arc::clone(&known));
        Ok(known)
    }
}
