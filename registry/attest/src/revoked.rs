//! Call tokens that were revoked before their end.
//!
//! They stand in one document beside the shards, which a serving set names by digest: a set stays small, and a node fetches the
//! document again only when it has changed. Whoever reads it has the digest from a signed set.

use std::collections::{BTreeMap, BTreeSet};

use chrono::{DateTime, Utc};
use mfaas_ident::{Digest, PersonName, TenantName};

use crate::{AttestError, CallClaims, SHARD_BYTES_MAX};

/// Revocations in one document, of all tenants together: as many as fit into a shard whatever the names are.
pub const CALL_REVOCATIONS_MAX: usize = 800;
/// The longest id of a call token in the document, in bytes: a UUID has 36.
const TOKEN_ID_BYTES_MAX: usize = 64;

/// The revocations of every tenant whose tokens are not over.
#[derive(Debug, Clone, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RevokedCalls {
    tenants: BTreeMap<TenantName, RevokedOfTenant>,
}

#[derive(Debug, Clone, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct RevokedOfTenant {
    /// Tokens by their id.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    tokens: BTreeSet<String>,
    /// Callers, and the last second in which a token of theirs was issued that is revoked, since the beginning of 1970.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    callers: BTreeMap<PersonName, i64>,
}

impl RevokedCalls {
    /// Revokes the token of that id.
    pub fn revoke_token(&mut self, tenant: TenantName, id: String) {
        self.tenants.entry(tenant).or_default().tokens.insert(id);
    }

    /// Revokes every token of the caller that was issued at that time or before.
    pub fn revoke_caller(&mut self, tenant: TenantName, caller: PersonName, issued_until: DateTime<Utc>) {
        let until = self.tenants.entry(tenant).or_default().callers.entry(caller).or_insert(i64::MIN);
        *until = issued_until.timestamp().max(*until);
    }

    /// Whether no token is revoked.
    pub fn is_empty(&self) -> bool {
        self.tenants.is_empty()
    }

    /// Whether the token that says `claims` is revoked. Tokens count in whole seconds, and so does this.
    pub fn revokes(&self, claims: &CallClaims) -> bool {
        self.tenants.get(&claims.tenant).is_some_and(|of_tenant| {
            let until = of_tenant.callers.get(&claims.caller);
            until.is_some_and(|until| claims.issued_at.timestamp() <= *until)
                || of_tenant.tokens.contains(&claims.id)
        })
    }

    /// Its bytes and what they are named by.
    ///
    /// # Errors
    /// When there are more revocations than a document holds.
    pub fn encode(&self) -> Result<(Digest, String), AttestError> {
        self.check()?;
        let bytes = serde_json::to_string(self).map_err(|e| malformed(&e))?;
        check_size(bytes.len())?;
        Ok((Digest::of(bytes.as_bytes()), bytes))
    }

    /// The document of that digest. Other bytes are not parsed.
    pub fn read(bytes: &[u8], digest: &Digest) -> Result<Self, AttestError> {
        check_size(bytes.len())?;
        let found = Digest::of(bytes);
        if found != *digest {
            return Err(inconsistent(format!("the revoked call tokens {digest} have the digest {found}")));
        }
        let revoked: Self = serde_json::from_slice(bytes).map_err(|e| malformed(&e))?;
        revoked.check()?;
        Ok(revoked)
    }

    fn check(&self) -> Result<(), AttestError> {
        let count: usize = self.tenants.values().map(|row| row.tokens.len() + row.callers.len()).sum();
        if count > CALL_REVOCATIONS_MAX {
            let reason = format!("{count} revocations of call tokens, the limit is {CALL_REVOCATIONS_MAX}");
            return Err(inconsistent(reason));
        }
        let mut ids = self.tenants.values().flat_map(|row| &row.tokens);
        match ids.find(|id| !(1..=TOKEN_ID_BYTES_MAX).contains(&id.len())) {
            Some(id) => Err(inconsistent(format!("the id of a call token has {} bytes", id.len()))),
            None => Ok(()),
        }
    }
}

fn check_size(bytes: usize) -> Result<(), AttestError> {
    if bytes > SHARD_BYTES_MAX {
        return Err(AttestError::TooLarge { bytes, bytes_max: SHARD_BYTES_MAX });
    }
    Ok(())
}

fn malformed(error: &serde_json::Error) -> AttestError {
    AttestError::Malformed { reason: error.to_string() }
}

fn inconsistent(reason: String) -> AttestError {
    AttestError::Inconsistent { reason }
}

#[cfg(test)]
mod tests;
