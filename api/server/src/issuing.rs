//! Certificates of nodes: asked of the signer, which decides by itself; this server only passes on what it was asked and shown.
//!
//! A server whose directory still has the key of the authority, as release 0.2 made it, issues them itself until the key is
//! taken away: servers of that release cannot do without it.

use std::path::Path;
use std::time::Duration;

use anyhow::Context as _;
use mfaas_authority::{Authority, AuthorityError, CA_CERTIFICATE, CA_KEY};
use mfaas_catalog::{Catalog, CatalogError, CertificateAnswer, CertificateRefusal, Entitlement};
use mfaas_ident::{Digest, NodeName};
use mfaas_rules::codes;
use uuid::Uuid;

use crate::limits;
use crate::refusal::Refusal;

/// Where certificates of nodes come from.
pub(crate) struct Issuing {
    /// What they hang on, PEM.
    pub ca_pem: String,
    /// The authority itself, if its key lies here.
    own: Option<Authority>,
}

impl Issuing {
    /// Reads the authority's certificate from `tls_dir`, and its key if that is there.
    pub(crate) fn load(tls_dir: &Path) -> anyhow::Result<Self> {
        let path = tls_dir.join(CA_CERTIFICATE);
        let ca_pem = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        let key = tls_dir.join(CA_KEY);
        let own = if key.exists() { Some(Authority::load(tls_dir)?) } else { None };
        if own.is_some() {
            tracing::warn!(
                key = %key.display(),
                "the key of the site's authority lies with a server: an attacker who takes it over makes certificates at will; \
                 take it over with `mfaas-signer init-authority --from` on the signer's host, and remove it here"
            );
        }
        Ok(Self { ca_pem, own })
    }

    /// A certificate for a node that has a join token: it uses it once.
    pub(crate) async fn join(
        &self,
        catalog: &Catalog,
        node: &NodeName,
        secret: &Digest,
        csr_pem: &str,
    ) -> Result<String, Refusal> {
        let Some(authority) = &self.own else {
            return ask(catalog, node, csr_pem, Entitlement::JoinToken(secret)).await;
        };
        // Signed before the token is used, so that a bad request does not cost a use of it. The
        // certificate opens nothing until the catalog knows it, and leaves only if it does.
        let certificate = authority.sign_node(node, csr_pem).map_err(unusable)?;
        match catalog.join_node(node, secret, &certificate.key_sha256, &certificate.sha256).await {
            Ok(_) => Ok(certificate.pem),
            Err(CatalogError::NotFound { .. }) => Err(stranger()),
            Err(error) => Err(error.into()),
        }
    }

    /// Another certificate for a node that has shown the one `shown` (DER).
    pub(crate) async fn renew(
        &self,
        catalog: &Catalog,
        node: &NodeName,
        shown: &[u8],
        csr_pem: &str,
    ) -> Result<String, Refusal> {
        let Some(authority) = &self.own else {
            return ask(catalog, node, csr_pem, Entitlement::Certificate(shown)).await;
        };
        let certificate = authority.renew_node(node, shown, csr_pem).map_err(unusable)?;
        catalog.renew_node(node, &Digest::of(shown), &certificate.sha256).await?;
        Ok(certificate.pem)
    }
}

/// What every join token gets that is not valid, whatever is wrong with it.
pub(crate) fn stranger() -> Refusal {
    Refusal::new(codes::MF0710, "The join token is not valid for this node.")
}

fn unusable(error: AuthorityError) -> Refusal {
    match error {
        AuthorityError::Request(_) | AuthorityError::Shown => request_unusable().because(error),
        other => Refusal::internal(other),
    }
}

fn request_unusable() -> Refusal {
    Refusal::invalid("The certificate request cannot be used.")
}

/// Asks the signer, and waits for what it says.
async fn ask(
    catalog: &Catalog,
    node: &NodeName,
    csr_pem: &str,
    entitlement: Entitlement<'_>,
) -> Result<String, Refusal> {
    let id = catalog.ask_certificate(node, csr_pem, entitlement).await?;
    let answered = tokio::time::timeout(limits::CERTIFICATE_WAIT_MAX, answered(catalog, id)).await;
    // Taken away whatever came of it: one that nobody waits for must use no join token later.
    let at_the_end = catalog.take_certificate_request(id).await;
    let answer = match answered {
        Ok(answer) => Some(answer?),
        Err(_) => at_the_end?,
    };
    match answer {
        Some(CertificateAnswer::Issued(pem)) => Ok(pem),
        Some(CertificateAnswer::Refused(why)) => Err(refused(node, why)),
        None => Err(Refusal::no_certificate("The signer has not answered in time.")),
    }
}

async fn answered(catalog: &Catalog, id: Uuid) -> Result<CertificateAnswer, CatalogError> {
    loop {
        if let Some(answer) = catalog.certificate_answer(id).await? {
            return Ok(answer);
        }
        tokio::time::sleep(ASK_EVERY).await;
    }
}

/// How often the row is looked at: the signer answers within some milliseconds.
const ASK_EVERY: Duration = Duration::from_millis(50);

fn refused(node: &NodeName, why: CertificateRefusal) -> Refusal {
    match why {
        CertificateRefusal::Unknown => stranger(),
        CertificateRefusal::Taken => CatalogError::name_taken(node).into(),
        CertificateRefusal::Unusable => request_unusable(),
        CertificateRefusal::Again => CatalogError::certificate_is_new().into(),
        CertificateRefusal::TooMany => {
            Refusal::no_certificate("As many nodes have joined in this hour as may.")
        }
    }
}
