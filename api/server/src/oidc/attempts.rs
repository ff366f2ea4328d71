//! Attempts to sign in that are under way. Each is bound to one browser by a cookie, counts once, and ends by
//! itself.
//!
//! The cookie is `SameSite=Lax` and not `Strict` like that of a session: the browser has to send it when the
//! provider leads it back. It opens nothing; without the state of the answer it is worth nothing.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use http::HeaderMap;
use mfaas_ident::Digest;
use openidconnect::{CsrfToken, Nonce, PkceCodeVerifier};

use crate::console::cookie_value;
use crate::token::random_hex;

const COOKIE_NAME: &str = "mfaas_sign_in";
const COOKIE_BYTES: usize = 32;

/// What only we know of an attempt.
pub(super) struct Attempt {
    pub(super) state: CsrfToken,
    pub(super) nonce: Nonce,
    pub(super) verifier: PkceCodeVerifier,
}

/// Those of this process.
pub(super) struct Attempts {
    open: Mutex<HashMap<Digest, (Instant, Attempt)>>,
    attempts_max: usize,
    life: Duration,
}

impl Attempts {
    pub(super) fn new(attempts_max: usize, life: Duration) -> Self {
        Self { open: Mutex::new(HashMap::new()), attempts_max, life }
    }

    /// Keeps an attempt; answers with the value of `Set-Cookie`. Where there are too many the oldest goes.
    pub(super) fn begin(&self, attempt: Attempt, secure: bool) -> Result<String, rand::rand_core::OsError> {
        let value = random_hex::<COOKIE_BYTES>()?;
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.retain(|_, (begun, _)| begun.elapsed() < self.life);
        while open.len() >= self.attempts_max {
            let Some(oldest) = open.iter().min_by_key(|(_, (begun, _))| *begun).map(|(key, _)| *key) else {
                break;
            };
            open.remove(&oldest);
        }
        open.insert(Digest::of(value.as_bytes()), (Instant::now(), attempt));
        Ok(cookie(&value, self.life.as_secs(), secure))
    }

    /// Takes the attempt of this browser out, whatever comes of it: a second answer finds none. `None` when
    /// there is none, when it is over, or when the answer has another state.
    pub(super) fn take(&self, headers: &HeaderMap, state: &str) -> Option<Attempt> {
        let value = cookie_value(headers, COOKIE_NAME).filter(|value| value.len() == 2 * COOKIE_BYTES)?;
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let (begun, attempt) = open.remove(&Digest::of(value.as_bytes()))?;
        // Hashes are compared, so that the time it takes says nothing about the state.
        let fits = Digest::of(state.as_bytes()) == Digest::of(attempt.state.secret().as_bytes());
        (fits && begun.elapsed() < self.life).then_some(attempt)
    }
}

/// The cookie of an attempt.
pub(super) fn cookie(value: &str, life_s: u64, secure: bool) -> String {
    let secure = if secure { "; Secure" } else { "" };
    format!("{COOKIE_NAME}={value}; Path=/sign-in; HttpOnly; SameSite=Lax; Max-Age={life_s}{secure}")
}
