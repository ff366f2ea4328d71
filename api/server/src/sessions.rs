//! Console sessions: a random cookie stands for a token, inside this one process.
//!
//! The browser never keeps the token, and the server keeps only its hash, so a session can do
//! nothing once the token is withdrawn. Sessions live in memory: a restart signs everybody out,
//! which costs a paste and saves a table of secrets.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use http::HeaderMap;
use http::header::COOKIE;
use mfaas_ident::Digest;

use crate::token::random_hex;

const COOKIE_NAME: &str = "mfaas_session";
const COOKIE_BYTES: usize = 32;

/// Who is signed in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Session {
    /// The hash by which the token is found.
    pub secret_sha256: Digest,
    /// What every form of a signed-in browser has to send along.
    pub csrf: String,
}

/// All sessions of this process.
pub(crate) struct Sessions {
    open: Mutex<HashMap<Digest, (Instant, Session)>>,
    sessions_max: usize,
    life: Duration,
}

impl Sessions {
    /// No session yet; at most `sessions_max`, each for at most `life`.
    pub(crate) fn new(sessions_max: usize, life: Duration) -> Self {
        Self { open: Mutex::new(HashMap::new()), sessions_max, life }
    }

    /// Opens a session for a token; answers with the value of `Set-Cookie`.
    pub(crate) fn open(
        &self,
        secret_sha256: Digest,
        secure: bool,
    ) -> Result<String, rand::rand_core::OsError> {
        let value = random_hex::<COOKIE_BYTES>()?;
        let session = Session { secret_sha256, csrf: random_hex::<COOKIE_BYTES>()? };
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        self.make_room(&mut open);
        open.insert(Digest::of(value.as_bytes()), (Instant::now(), session));
        Ok(cookie(&value, self.life.as_secs(), secure))
    }

    /// Ends the session of these headers; answers with the value of `Set-Cookie`.
    pub(crate) fn close(&self, headers: &HeaderMap, secure: bool) -> String {
        if let Some(key) = key_of(headers) {
            self.open.lock().unwrap_or_else(PoisonError::into_inner).remove(&key);
        }
        cookie("", 0, secure)
    }

    /// The session that the cookie stands for, unless it is over.
    pub(crate) fn of(&self, headers: &HeaderMap) -> Option<Session> {
        let key = key_of(headers)?;
        let open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let (begun, session) = open.get(&key)?;
        (begun.elapsed() < self.life).then(|| session.clone())
    }

    fn make_room(&self, open: &mut HashMap<Digest, (Instant, Session)>) {
        open.retain(|_, (begun, _)| begun.elapsed() < self.life);
        while open.len() >= self.sessions_max {
            let Some(oldest) = open.iter().min_by_key(|(_, (begun, _))| *begun).map(|(key, _)| *key) else {
                return;
            };
            open.remove(&oldest);
        }
    }
}

/// Sessions are found by the hash of the cookie, so the table holds nothing that could be replayed.
fn key_of(headers: &HeaderMap) -> Option<Digest> {
    let value = cookie_value(headers, COOKIE_NAME)?;
    (value.len() == 2 * COOKIE_BYTES).then(|| Digest::of(value.as_bytes()))
}

/// The value of the one cookie of that name.
pub(crate) fn cookie_value<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    let mut values = headers
        .get_all(COOKIE)
        .iter()
        .filter_map(|header| header.to_str().ok())
        .flat_map(|header| header.split(';'))
        .filter_map(|pair| pair.trim().split_once('='))
        .filter(|(known, _)| *known == name)
        .map(|(_, value)| value);
    let value = values.next()?;
    // Two cookies of the name: one was planted by somebody else, and there is no telling which.
    values.next().is_none().then_some(value)
}

fn cookie(value: &str, life_s: u64, secure: bool) -> String {
    let secure = if secure { "; Secure" } else { "" };
    format!("{COOKIE_NAME}={value}; Path=/; HttpOnly; SameSite=Strict; Max-Age={life_s}{secure}")
}

#[cfg(test)]
mod tests;
