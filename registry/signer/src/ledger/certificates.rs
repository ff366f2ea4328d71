//! Requests for certificates, and what joins and renews a node in the database.

use mfaas_authority::NodeCertificate;
use mfaas_ident::{Digest, NodeName};
use postgres::Transaction;
use uuid::Uuid;

use super::{ACTOR, text};

/// A request that no other signer holds; its row stays locked until the transaction ends.
pub(crate) struct Request {
    pub(crate) id: Uuid,
    /// Who is to have it, unless that is no name.
    pub(crate) node: anyhow::Result<NodeName>,
    /// PKCS#10 in PEM, as the node sent it.
    pub(crate) csr: String,
    pub(crate) entitlement: Entitlement,
}

/// Why the node may have a certificate, as a server says.
pub(crate) enum Entitlement {
    /// The digest of a join token's secret.
    JoinToken(String),
    /// The certificate (DER) that it showed.
    Certificate(Vec<u8>),
}

/// Why there is no certificate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// The join token is unknown, used up, over, revoked or for another node.
    Unknown,
    /// A node has the name, and the token is not for it.
    Taken,
    /// The request cannot be used, or is not for the key of the certificate that was shown.
    Unusable,
    /// The node has another one since half an hour at most, or the certificate that was shown opens nothing any more.
    Again,
    /// As many were issued in this hour as are.
    TooMany,
}

impl Refusal {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Unknown => "unknown",
            Self::Taken => "taken",
            Self::Unusable => "unusable",
            Self::Again => "again",
            Self::TooMany => "too_many",
        }
    }
}

/// The oldest request that waits. Its server has stopped waiting for one that is a minute old.
pub(crate) fn next(tx: &mut Transaction<'_>) -> anyhow::Result<Option<Request>> {
    let row = tx.query_opt(
        "SELECT id, node, csr, secret_sha256, shown FROM certificate_requests
         WHERE certificate IS NULL AND refusal IS NULL AND asked_at > now() - interval '1 minute'
         ORDER BY asked_at, id LIMIT 1 FOR UPDATE SKIP LOCKED",
        &[],
    )?;
    let Some(row) = row else { return Ok(None) };
    let secret: Option<String> = row.try_get("secret_sha256")?;
    let entitlement = match secret {
        Some(secret) => Entitlement::JoinToken(secret),
        None => Entitlement::Certificate(row.try_get("shown")?),
    };
    Ok(Some(Request {
        id: row.try_get("id")?,
        node: text(&row, "node"),
        csr: row.try_get("csr")?,
        entitlement,
    }))
}

/// Uses the join token once and records the node with its certificate; says why not.
pub(crate) fn join(
    tx: &mut Transaction<'_>,
    node: &NodeName,
    secret_sha256: &str,
    certificate: &NodeCertificate,
) -> anyhow::Result<Option<Refusal>> {
    let (key, sha256) = (certificate.key_sha256.to_string(), certificate.sha256.to_string());
    let row = tx.query_one(
        "SELECT join_node($1, $2, $3, $4, $5)",
        &[&node.as_str(), &secret_sha256, &key, &sha256, &ACTOR],
    )?;
    Ok(match row.try_get::<_, String>(0)?.as_str() {
        "joined" => None,
        "taken" => Some(Refusal::Taken),
        _ => Some(Refusal::Unknown),
    })
}

/// Records another certificate of the node that showed the one of that digest; false if it may have none now.
pub(crate) fn renew(
    tx: &mut Transaction<'_>,
    node: &NodeName,
    shown: &Digest,
    certificate: &NodeCertificate,
) -> anyhow::Result<bool> {
    let row = tx.query_one(
        "SELECT renew_node($1, $2, $3, $4)",
        &[&node.as_str(), &shown.to_string(), &certificate.sha256.to_string(), &ACTOR],
    )?;
    Ok(row.try_get(0)?)
}

/// Answers a request.
pub(crate) fn answer(
    tx: &mut Transaction<'_>,
    id: Uuid,
    answer: &Result<NodeCertificate, Refusal>,
) -> anyhow::Result<()> {
    let (certificate, refusal) = match answer {
        Ok(certificate) => (Some(certificate.pem.as_str()), None),
        Err(refusal) => (None, Some(refusal.as_str())),
    };
    tx.execute(
        "UPDATE certificate_requests SET certificate = $2, refusal = $3 WHERE id = $1",
        &[&id, &certificate, &refusal],
    )?;
    Ok(())
}
