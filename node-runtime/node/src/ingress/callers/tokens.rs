//! Call tokens: verified once, then known by digest until they are over.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, SystemTime};

use chrono::{DateTime, Utc};
use mfaas_attest::{CALL_TOKEN_BYTES_MAX, CallClaims, CallKey, CallTokenError, RevokedCalls, verify_call};
use mfaas_ident::Digest;

use crate::limiter::Share;
use crate::recent::Recent;

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
    /// The revocations among which it was looked for last, and not found.
    cleared: AtomicU64,
}

impl Known {
    /// What it gets of a function where everybody gets `share`.
    pub(super) fn share(&self, share: Share) -> Share {
        share.at_most(self.claims.rate, self.claims.concurrency)
    }
}

/// What a serving set says of call tokens.
#[derive(Debug, Default)]
struct Held {
    keys: Vec<CallKey>,
    revoked: Arc<RevokedCalls>,
    /// Grows with each change of the keys.
    generation: u64,
    /// Grows with each set: a token is looked up among the revocations once a set, and not once a call.
    revision: u64,
}

impl Held {
    fn check(&self, known: &Known) -> Result<(), CallTokenError> {
        if known.cleared.load(Ordering::Relaxed) == self.revision {
            return Ok(());
        }
        if self.revoked.revokes(&known.claims) {
            return Err(CallTokenError::Revoked);
        }
        // Whoever still holds a set from before may write its number here; then it is looked up once more.
        known.cleared.store(self.revision, Ordering::Relaxed);
        Ok(())
    }
}

/// Keys, and the tokens that they were found to have signed.
#[derive(Debug)]
pub(super) struct Tokens {
    held: RwLock<Arc<Held>>,
    known: Recent<Digest, Arc<Known>>,
}

impl Default for Tokens {
    fn default() -> Self {
        Self { held: RwLock::default(), known: Recent::new(KNOWN) }
    }
}

impl Tokens {
    /// Takes keys and revocations. What was known by other keys is verified again; what is known and revoked now is refused
    /// where it is looked up.
    pub(super) fn hold(&self, keys: &[CallKey], revoked: Arc<RevokedCalls>) {
        let mut held = self.held.write().unwrap_or_else(PoisonError::into_inner);
        // The first time says that there is a set, even if it has no keys.
        let is_other = held.keys != keys || held.generation == 0;
        let generation = held.generation + u64::from(is_other);
        let revision = held.revision + 1;
        *held = Arc::new(Held { keys: keys.to_vec(), revoked, generation, revision });
        if is_other {
            self.known.clear();
        }
    }

    /// Whether any keys, or none, were ever taken.
    pub(super) fn are_ready(&self) -> bool {
        self.held().generation > 0
    }

    fn held(&self) -> Arc<Held> {
        Arc::clone(&self.held.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Whether a token that counted a moment ago was revoked meanwhile.
    pub(super) fn check(&self, known: &Known) -> Result<(), CallTokenError> {
        self.held().check(known)
    }

    /// The token, if it was verified before, with the keys that are held now, and is not over; or that it was revoked.
    pub(super) fn known(&self, text: &str, now: SystemTime) -> Option<Result<Arc<Known>, CallTokenError>> {
        if text.len() > CALL_TOKEN_BYTES_MAX {
            return None;
        }
        let digest = Digest::of(text.as_bytes());
        let known = Arc::clone(self.known.piece(&digest).get(&digest)?);
        let now = now.duration_since(SystemTime::UNIX_EPOCH).ok()?;
        // A clock that was set back may not let it begin before it began: it is verified again then.
        let began = Duration::from_secs(u64::try_from(known.claims.issued_at.timestamp()).ok()?);
        let held = self.held();
        (known.generation == held.generation && now < known.ends && now >= began)
            .then(|| held.check(&known).map(|()| known))
    }

    /// Verifies a token and remembers it.
    pub(super) fn verify(&self, text: &str, now: SystemTime) -> Result<Arc<Known>, CallTokenError> {
        let held = self.held();
        let (claims, ends_at) = verify_call(text, &held.keys, DateTime::<Utc>::from(now))?;
        let ends = u64::try_from(ends_at.timestamp()).map_err(|_| CallTokenError::Expired)?;
        let known = Arc::new(Known {
            name: format!("{}/{}", claims.tenant, claims.caller),
            claims,
            ends: Duration::from_secs(ends),
            generation: held.generation,
            // Before the first set there is no key, and so no token.
            cleared: AtomicU64::new(0),
        });
        let digest = Digest::of(text.as_bytes());
        self.known.piece(&digest).put(digest, Arc::clone(&known));
        // Afterwards: a revoked token that is shown again costs no second check of its signature.
        held.check(&known).map(|()| known)
    }
}
