//! Tokens: `mfaas_<id>_<secret>`. The secret proves, the id names; only the SHA-256 of the secret
//! is stored.
//!
//! A plain hash is enough because the secret is 256 random bits, not a password: there is
//! nothing to guess. It also is the key by which the row is found, so no comparison of ours can
//! leak a timing. No secret is ever logged: [`Secret`] has no `Display` and a silent `Debug`.

use mfaas_ident::{Digest, PersonName, Scope};
use mfaas_rules::codes;
use rand::TryRngCore as _;
use uuid::Uuid;

use crate::refusal::Refusal;

const PREFIX: &str = "mfaas_";
const SECRET_BYTES: usize = 32;

/// The secret half of a token, or a join token of a node.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// A new secret from the operating system's random source.
    pub fn generate() -> Result<Self, rand::rand_core::OsError> {
        Ok(Self(random_hex::<SECRET_BYTES>()?))
    }

    /// Reads `mfaas_<32 hex digits>_<64 hex digits>`; anything else is no token.
    pub fn parse(text: &str) -> Option<(Uuid, Self)> {
        let (id, secret) = text.strip_prefix(PREFIX)?.split_once('_')?;
        if !is_hex(id, 32) {
            return None;
        }
        Some((Uuid::try_parse(id).ok()?, Self::parse_bare(secret)?))
    }

    /// Reads 64 hexadecimal digits.
    pub fn parse_bare(text: &str) -> Option<Self> {
        is_hex(text, 2 * SECRET_BYTES).then(|| Self(text.to_owned()))
    }

    /// What is stored.
    pub fn hash(&self) -> Digest {
        Digest::of(self.0.as_bytes())
    }

    /// The whole token, for the one answer that shows it.
    pub fn reveal_with(&self, id: Uuid) -> String {
        format!("{PREFIX}{}_{}", id.simple(), self.0)
    }

    /// The bare secret, for the one answer that shows it.
    pub fn reveal_bare(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret(…)")
    }
}

/// Whoever decides about dependencies is a person with a name: two tokens without one would be two votes of
/// somebody. The database holds the same.
pub fn check_person(scopes: &[Scope], person: Option<&PersonName>) -> Result<(), Refusal> {
    match scopes.iter().find(|scope| scope.may_vote()) {
        Some(scope) if person.is_none() => {
            let detail =
                format!("The scope `{scope}` allows voting in reviews, and the token names no person.");
            Err(Refusal::new(codes::MF0913, detail))
        }
        _ => Ok(()),
    }
}

/// `N` random bytes in hexadecimal; also used for sessions and against request forgery.
pub fn random_hex<const N: usize>() -> Result<String, rand::rand_core::OsError> {
    let mut bytes = [0; N];
    rand::rngs::OsRng.try_fill_bytes(&mut bytes)?;
    Ok(hex::encode(bytes))
}

fn is_hex(text: &str, length: usize) -> bool {
    text.len() == length && text.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
}

#[cfg(test)]
mod tests;
