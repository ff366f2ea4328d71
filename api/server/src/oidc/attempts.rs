//! Attempts to sign in that are under way. Each is bound to one browser by a cookie, counts once, and ends by itself.
//!
//! Nothing is kept of an attempt but that it was answered: the cookie is a time and random bytes, and state, nonce and verifier
//! follow from it for this provider and this site. So any server of the site takes the answer, and anybody may begin as many
//! as they like, and takes nothing from others. Whoever makes up a cookie has begun an attempt of their own, no more.
//!
//! The cookie is `SameSite=Lax` and not `Strict` like that of a session: the browser has to send it when the
//! provider leads it back. It opens nothing; without the provider's answer it is worth nothing.

use std::time::Duration;

use http::HeaderMap;
use mfaas_ident::Digest;
use openidconnect::{CsrfToken, Nonce, PkceCodeVerifier};
use ring::error::Unspecified;
use ring::hmac::{HMAC_SHA256, Key, sign};
use ring::rand::{SecureRandom as _, SystemRandom};

use crate::sessions::cookie_value;

const COOKIE_NAME: &str = "mfaas_sign_in";
const TIME_BYTES: usize = 8;
const RANDOM_BYTES: usize = 32;
/// The second of Unix time in which it began, and random bytes.
type Seed = [u8; TIME_BYTES + RANDOM_BYTES];

/// What only the browser and we know of an attempt.
pub(super) struct Attempt {
    /// Its name, which tells nothing else of it.
    pub(super) id: Digest,
    pub(super) state: CsrfToken,
    pub(super) nonce: Nonce,
    pub(super) verifier: PkceCodeVerifier,
}

/// Those of this site.
pub(super) struct Attempts {
    /// What is particular to the provider and the site: an attempt of another one is none here.
    site: String,
    life: Duration,
    /// How far the clocks of two servers may be apart.
    apart_max: Duration,
}

impl Attempts {
    pub(super) fn new(site: String, life: Duration, apart_max: Duration) -> Self {
        Self { site, life, apart_max }
    }

    /// A new attempt, `now` after 1970, and the value of `Set-Cookie`.
    pub(super) fn begin(&self, now: Duration, secure: bool) -> Result<(Attempt, String), Unspecified> {
        let mut seed = [0; TIME_BYTES + RANDOM_BYTES];
        let (second, random) = seed.split_at_mut(TIME_BYTES);
        second.copy_from_slice(&now.as_secs().to_be_bytes());
        SystemRandom::new().fill(random)?;
        Ok((self.attempt(&seed), cookie(&hex::encode(seed), self.life.as_secs(), secure)))
    }

    /// The attempt of this browser; `None` when there is none, or when it is over or would begin later.
    pub(super) fn shown(&self, now: Duration, headers: &HeaderMap) -> Option<Attempt> {
        let seed: Seed = hex::decode(cookie_value(headers, COOKIE_NAME)?).ok()?.try_into().ok()?;
        let begun = Duration::from_secs(u64::from_be_bytes(*seed.first_chunk()?));
        let is_under_way = begun <= now + self.apart_max && now.saturating_sub(begun) < self.life;
        is_under_way.then(|| self.attempt(&seed))
    }

    fn attempt(&self, seed: &Seed) -> Attempt {
        let key = Key::new(HMAC_SHA256, seed);
        // Each purpose has a word of its own, so that none of the values tells another one.
        let derive = |purpose: &str| hex::encode(sign(&key, format!("{purpose}\n{}", self.site).as_bytes()));
        Attempt {
            id: Digest::of(seed),
            state: CsrfToken::new(derive("state")),
            nonce: Nonce::new(derive("nonce")),
            verifier: PkceCodeVerifier::new(derive("verifier")),
        }
    }
}

impl Attempt {
    /// Whether an answer has the state of this attempt. Hashes are compared, so that the time it takes says nothing about it.
    pub(super) fn has_state(&self, state: &str) -> bool {
        Digest::of(state.as_bytes()) == Digest::of(self.state.secret().as_bytes())
    }
}

/// The cookie of an attempt.
pub(super) fn cookie(value: &str, life_s: u64, secure: bool) -> String {
    let secure = if secure { "; Secure" } else { "" };
    format!("{COOKIE_NAME}={value}; Path=/sign-in; HttpOnly; SameSite=Lax; Max-Age={life_s}{secure}")
}

#[cfg(test)]
mod tests;
