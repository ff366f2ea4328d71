//! What servers ask the signer for: certificates of nodes. A request is a row that its server takes away again once it has the
//! answer, or has waited long enough; nothing is promised by one.

use mfaas_ident::{Digest, NodeName};
use sqlx::Row as _;
use uuid::Uuid;

use crate::decode::{Decoded, word};
use crate::{Catalog, CatalogError};

/// What is left of a server that did not come back for its answer goes after this time.
const LEFT_FOR_MINUTES: i32 = 10;

/// Why a node may have a certificate.
#[derive(Debug, Clone, Copy)]
pub enum Entitlement<'a> {
    /// It has a join token, whose secret has this digest.
    JoinToken(&'a Digest),
    /// It has shown this certificate (DER), and that it has its key.
    Certificate(&'a [u8]),
}

/// What the signer says to a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CertificateAnswer {
    /// The certificate, PEM. The node is recorded with it.
    Issued(String),
    /// There is none.
    Refused(CertificateRefusal),
}

/// Why the signer issues no certificate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CertificateRefusal {
    /// The join token is unknown, used up, over, revoked or for another node.
    Unknown,
    /// A node has the name, and the token is not for it.
    Taken,
    /// It is no certificate request, or not one for the key of the certificate that was shown.
    Unusable,
    /// The node has another one since half an hour at most, or the certificate that was shown opens nothing any more.
    Again,
    /// The signer has issued as many certificates in this hour as it issues.
    TooMany,
}

impl CertificateRefusal {
    fn parse(text: &str) -> Option<Self> {
        match text {
            "unknown" => Some(Self::Unknown),
            "taken" => Some(Self::Taken),
            "unusable" => Some(Self::Unusable),
            "again" => Some(Self::Again),
            "too_many" => Some(Self::TooMany),
            _ => None,
        }
    }
}

impl Catalog {
    /// Asks the signer for a certificate.
    pub async fn ask_certificate(
        &self,
        node: &NodeName,
        csr_pem: &str,
        entitlement: Entitlement<'_>,
    ) -> Result<Uuid, CatalogError> {
        let (secret, shown) = match entitlement {
            Entitlement::JoinToken(secret_sha256) => (Some(secret_sha256.to_string()), None),
            Entitlement::Certificate(der) => (None, Some(der)),
        };
        let mut tx = self.begin().await?;
        sqlx::query("DELETE FROM certificate_requests WHERE asked_at < now() - make_interval(mins => $1)")
            .bind(LEFT_FOR_MINUTES)
            .execute(&mut *tx)
            .await?;
        let id = sqlx::query_scalar(
            "INSERT INTO certificate_requests (node, csr, secret_sha256, shown) VALUES ($1, $2, $3, $4) RETURNING id",
        )
        .bind(node.as_str())
        .bind(csr_pem)
        .bind(secret)
        .bind(shown)
        .fetch_one(&mut *tx)
        .await?;
        sqlx::query("SELECT pg_notify('mfaas_signer', 'certificate')").execute(&mut *tx).await?;
        tx.commit().await?;
        Ok(id)
    }

    /// What the signer has said, if it has.
    pub async fn certificate_answer(&self, id: Uuid) -> Result<Option<CertificateAnswer>, CatalogError> {
        let row = sqlx::query("SELECT certificate, refusal FROM certificate_requests WHERE id = $1")
            .bind(id)
            .fetch_optional(&self.pool)
            .await?;
        Ok(row.as_ref().map(answer).transpose()?.flatten())
    }

    /// Takes a request away, and says what the signer has said until then. One that is under way is waited for.
    pub async fn take_certificate_request(
        &self,
        id: Uuid,
    ) -> Result<Option<CertificateAnswer>, CatalogError> {
        let row =
            sqlx::query("DELETE FROM certificate_requests WHERE id = $1 RETURNING certificate, refusal")
                .bind(id)
                .fetch_optional(&self.pool)
                .await?;
        Ok(row.as_ref().map(answer).transpose()?.flatten())
    }
}

fn answer(row: &sqlx::postgres::PgRow) -> Decoded<Option<CertificateAnswer>> {
    if let Some(pem) = row.try_get("certificate")? {
        return Ok(Some(CertificateAnswer::Issued(pem)));
    }
    match row.try_get::<Option<String>, _>("refusal")? {
        None => Ok(None),
        Some(_) => {
            word(row, "refusal", CertificateRefusal::parse).map(|why| Some(CertificateAnswer::Refused(why)))
        }
    }
}
