//! Call tokens: who may call which functions, for a short time, verified by a node alone.
//!
//! A token is a PASETO `v4.public` (<https://github.com/paseto-standard/paseto-spec>): Ed25519 and nothing else, so no token can
//! choose how it is checked. Its footer names the key. Whoever verifies brings the keys, which come out of the signed serving
//! set, and the time. A claim that this build does not know is a refusal: it may be a restriction.

use chrono::{DateTime, TimeDelta, Utc};
use mfaas_ident::{CallScope, PersonName, TenantName};
use pasetors::Public;
use pasetors::keys::{AsymmetricPublicKey, AsymmetricSecretKey};
use pasetors::token::UntrustedToken;
use pasetors::version4::{PublicToken, V4};

use crate::{AttestError, KeyId, PrivateKey, PublicKey};

/// How long a token is good for unless its maker says otherwise.
pub const CALL_TOKEN_LIFE: TimeDelta = TimeDelta::minutes(15);
/// How long at most; so long a revocation is kept.
pub const CALL_TOKEN_LIFE_MAX: TimeDelta = TimeDelta::hours(24);
/// How far the clock of whoever issues may be ahead. An end is an end: nothing is added there.
pub const CALL_CLOCK_SKEW: TimeDelta = TimeDelta::seconds(30);
/// The longest token that is looked at, in bytes: 32 names of functions with room to spare.
pub const CALL_TOKEN_BYTES_MAX: usize = 4 << 10;

/// Whom tokens are for. Signed along, so that a token for another kind of reader by the same key opens nothing.
const AUDIENCE: &str = "mfaas-node";

/// A key whose tokens open functions, as a serving set names it.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CallKey {
    /// SHA-256 of the public key.
    pub keyid: KeyId,
    /// The public key in hexadecimal.
    pub public: PublicKey,
    /// From this moment on nothing it signed is accepted.
    pub not_after: DateTime<Utc>,
}

impl CallKey {
    pub(crate) fn check(&self) -> Result<(), String> {
        if self.keyid == self.public.id() {
            Ok(())
        } else {
            Err(format!("key {} for calls does not name its public key", self.keyid))
        }
    }
}

/// What a call token says.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CallClaims {
    /// Whose functions it opens.
    pub tenant: TenantName,
    /// Who calls, as whoever issued it says.
    #[serde(rename = "sub")]
    pub caller: PersonName,
    /// Which functions.
    pub functions: CallScope,
    /// When it was issued.
    #[serde(rename = "iat", with = "chrono::serde::ts_seconds")]
    pub issued_at: DateTime<Utc>,
    /// From when on it opens nothing.
    #[serde(rename = "exp", with = "chrono::serde::ts_seconds")]
    pub expires_at: DateTime<Utc>,
    /// Its name in the audit log.
    #[serde(rename = "jti")]
    pub id: String,
    /// Calls a second of each function on each node, where that is less than the node's own limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<u32>,
    /// The same for calls on their way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub concurrency: Option<u32>,
}

/// Why a text is no call token that counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum CallTokenError {
    /// Not a PASETO `v4.public` with a footer that names a key, or too long.
    #[error("it is no call token")]
    Malformed,
    /// The key is none of those that count now.
    #[error("its key is unknown or has ended")]
    UnknownKey,
    /// Changed, or signed by another key than it names, or for another audience.
    #[error("its signature does not match")]
    BadSignature,
    /// Signed, but not a token that this release would have issued.
    #[error("its claims cannot be read")]
    BadClaims,
    /// Issued in the future.
    #[error("it is not valid yet")]
    NotYet,
    /// Over.
    #[error("it has expired")]
    Expired,
    /// Revoked by its tenant ([`crate::RevokedCalls`]).
    #[error("it was revoked")]
    Revoked,
}

#[derive(serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Footer {
    kid: KeyId,
}

impl CallClaims {
    /// Rules that the types cannot express.
    fn fits(&self) -> bool {
        let life = self.expires_at - self.issued_at;
        life > TimeDelta::zero()
            && life <= CALL_TOKEN_LIFE_MAX
            && self.rate != Some(0)
            && self.concurrency != Some(0)
    }
}

/// The token that says `claims`. Refuses what [`verify_call`] would refuse.
pub fn sign_call(claims: &CallClaims, key: &PrivateKey) -> Result<String, AttestError> {
    let malformed = |reason: String| AttestError::Malformed { reason };
    if !claims.fits() {
        return Err(AttestError::Inconsistent { reason: "the claims contradict each other".to_owned() });
    }
    let secret = AsymmetricSecretKey::<V4>::from(key.to_pair().as_ref())
        .map_err(|e| AttestError::Key { reason: format!("{e:?}") })?;
    let message = serde_json::to_vec(claims).map_err(|e| malformed(e.to_string()))?;
    let footer =
        serde_json::to_vec(&Footer { kid: key.public().id() }).map_err(|e| malformed(e.to_string()))?;
    let token = PublicToken::sign(&secret, &message, Some(&footer), Some(AUDIENCE.as_bytes()))
        .map_err(|e| malformed(format!("{e:?}")))?;
    if token.len() > CALL_TOKEN_BYTES_MAX {
        return Err(AttestError::TooLarge { bytes: token.len(), bytes_max: CALL_TOKEN_BYTES_MAX });
    }
    Ok(token)
}

/// What a token says, if one of `keys` signed it and it is good at `now`; with it the moment from which on it opens nothing,
/// which may be its key's end.
pub fn verify_call(
    text: &str,
    keys: &[CallKey],
    now: DateTime<Utc>,
) -> Result<(CallClaims, DateTime<Utc>), CallTokenError> {
    if text.len() > CALL_TOKEN_BYTES_MAX {
        return Err(CallTokenError::Malformed);
    }
    let token = UntrustedToken::<Public, V4>::try_from(text).map_err(|_| CallTokenError::Malformed)?;
    let footer: Footer =
        serde_json::from_slice(token.untrusted_footer()).map_err(|_| CallTokenError::Malformed)?;
    let key = keys.iter().find(|key| key.keyid == footer.kid && now < key.not_after);
    let key = key.ok_or(CallTokenError::UnknownKey)?;
    let public =
        AsymmetricPublicKey::<V4>::from(key.public.as_bytes()).map_err(|_| CallTokenError::UnknownKey)?;
    let trusted = PublicToken::verify(&public, &token, None, Some(AUDIENCE.as_bytes()))
        .map_err(|_| CallTokenError::BadSignature)?;
    let claims: CallClaims =
        serde_json::from_str(trusted.payload()).map_err(|_| CallTokenError::BadClaims)?;
    if !claims.fits() {
        return Err(CallTokenError::BadClaims);
    }
    // A difference has a value for any two moments, a sum would not.
    if claims.issued_at - now > CALL_CLOCK_SKEW {
        return Err(CallTokenError::NotYet);
    }
    if now >= claims.expires_at {
        return Err(CallTokenError::Expired);
    }
    let ends_at = claims.expires_at.min(key.not_after);
    Ok((claims, ends_at))
}

#[cfg(test)]
mod tests;
