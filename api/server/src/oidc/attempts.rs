//! Attempts to sign in that are under way. Each is bound to one browser by a cookie, counts once, and ends by itself.
//!
//! Nothing is kept of an attempt here: the cookie is random bytes and a time with our tag, and what only we may know
//! follows from it and a key of this process. So anybody may begin as many as they like, and takes nothing from others.
//!
//! The cookie is `SameSite=Lax` and not `Strict` like that of a session: the browser has to send it when the
//! provider leads it back. It opens nothing; without the state of the answer it is worth nothing.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use http::HeaderMap;
use mfaas_ident::Digest;
use openidconnect::{CsrfToken, Nonce, PkceCodeVerifier};
use ring::error::Unspecified;
use ring::hmac::{HMAC_SHA256, Key, sign, verify};
use ring::rand::{SecureRandom as _, SystemRandom};

use crate::sessions::cookie_value;

const COOKIE_NAME: &str = "mfaas_sign_in";
const RANDOM_BYTES: usize = 32;
/// The second of the process's life in which it began, and random bytes.
const SEED_BYTES: usize = 8 + RANDOM_BYTES;
const TAG_BYTES: usize = 32;

/// What only we know of an attempt.
pub(super) struct Attempt {
    pub(super) state: CsrfToken,
    pub(super) nonce: Nonce,
    pub(super) verifier: PkceCodeVerifier,
}

/// Those of this process.
pub(super) struct Attempts {
    key: Key,
    since: Instant,
    life: Duration,
    /// Attempts that were answered, oldest first.
    answered: Mutex<VecDeque<Digest>>,
    answers_max: usize,
}

impl Attempts {
    pub(super) fn new(answers_max: usize, life: Duration) -> Result<Self, Unspecified> {
        let key = Key::generate(HMAC_SHA256, &SystemRandom::new())?;
        Ok(Self { key, since: Instant::now(), life, answered: Mutex::default(), answers_max })
    }

    /// A new attempt and the value of `Set-Cookie`.
    pub(super) fn begin(&self, secure: bool) -> Result<(Attempt, String), Unspecified> {
        let mut seed = [0; SEED_BYTES];
        let (second, random) = seed.split_at_mut(SEED_BYTES - RANDOM_BYTES);
        second.copy_from_slice(&self.since.elapsed().as_secs().to_be_bytes());
        SystemRandom::new().fill(random)?;
        let value = format!("{}{}", hex::encode(seed), self.derive("cookie", &seed));
        Ok((self.attempt(&seed), cookie(&value, self.life.as_secs(), secure)))
    }

    /// The attempt of this browser, over now whatever comes of it: a second answer finds none. `None` when there is
    /// none, when it is over, or when the answer has another state.
    pub(super) fn take(&self, headers: &HeaderMap, state: &str) -> Option<Attempt> {
        let value = hex::decode(cookie_value(headers, COOKIE_NAME)?).ok()?;
        let (seed, tag) = value.split_at_checked(SEED_BYTES).filter(|(_, tag)| tag.len() == TAG_BYTES)?;
        let message = [b"cookie", seed].concat();
        verify(&self.key, &message, tag).ok()?;
        let begun = Duration::from_secs(u64::from_be_bytes(*seed.first_chunk()?));
        if self.since.elapsed() >= begun + self.life || !self.is_first_answer(seed) {
            return None;
        }
        let attempt = self.attempt(seed);
        // Hashes are compared, so that the time it takes says nothing about the state.
        let fits = Digest::of(state.as_bytes()) == Digest::of(attempt.state.secret().as_bytes());
        fits.then_some(attempt)
    }

    /// Remembers that an attempt was answered. Whoever makes us forget that gains an answer with a code that the
    /// provider has taken already.
    fn is_first_answer(&self, seed: &[u8]) -> bool {
        let seed = Digest::of(seed);
        let mut answered = self.answered.lock().unwrap_or_else(PoisonError::into_inner);
        if answered.contains(&seed) {
            return false;
        }
        if answered.len() >= self.answers_max {
            answered.pop_front();
        }
        answered.push_back(seed);
        true
    }

    fn attempt(&self, seed: &[u8]) -> Attempt {
        Attempt {
            state: CsrfToken::new(self.derive("state", seed)),
            nonce: Nonce::new(self.derive("nonce", seed)),
            verifier: PkceCodeVerifier::new(self.derive("verifier", seed)),
        }
    }

    /// Each purpose has a word of its own, so that none of the values tells another one.
    fn derive(&self, purpose: &str, seed: &[u8]) -> String {
        hex::encode(sign(&self.key, &[purpose.as_bytes(), seed].concat()))
    }
}

/// The cookie of an attempt.
pub(super) fn cookie(value: &str, life_s: u64, secure: bool) -> String {
    let secure = if secure { "; Secure" } else { "" };
    format!("{COOKIE_NAME}={value}; Path=/sign-in; HttpOnly; SameSite=Lax; Max-Age={life_s}{secure}")
}
