//! Console sessions: a random cookie stands for a token, at every server of the site.
//!
//! The browser never keeps the token, and the database keeps only the cookie's hash, so a session can do nothing once it is
//! closed or the token is withdrawn, and whoever reads the table opens none. What forms send along follows from the cookie, so
//! no server has to remember it.

use std::time::Duration;

use http::HeaderMap;
use http::header::COOKIE;
use mfaas_ident::Digest;

use crate::token::random_hex;

const COOKIE_NAME: &str = "mfaas_session";
const COOKIE_BYTES: usize = 32;

/// What a signed-in browser has shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Session {
    /// By which the session is found.
    pub cookie_sha256: Digest,
    /// What every form of a signed-in browser has to send along.
    pub csrf: String,
}

impl Session {
    /// A new one, with the value of `Set-Cookie` that gives it to a browser for `life`.
    pub(crate) fn generate(life: Duration, secure: bool) -> Result<(Self, String), rand::rand_core::OsError> {
        let value = random_hex::<COOKIE_BYTES>()?;
        Ok((Self::of_cookie(&value), cookie(&value, life.as_secs(), secure)))
    }

    /// What the cookie of these headers says; whether there is such a session, the database knows.
    pub(crate) fn shown(headers: &HeaderMap) -> Option<Self> {
        let value = cookie_value(headers, COOKIE_NAME)?;
        (value.len() == 2 * COOKIE_BYTES).then(|| Self::of_cookie(value))
    }

    /// The secret of forms is another hash of the cookie than the one that is stored: neither tells the other.
    fn of_cookie(value: &str) -> Self {
        let csrf = Digest::of(format!("forms of the session {value}").as_bytes()).to_string();
        Self { cookie_sha256: Digest::of(value.as_bytes()), csrf }
    }
}

/// The value of `Set-Cookie` that takes a browser its session.
pub(crate) fn forget(secure: bool) -> String {
    cookie("", 0, secure)
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
