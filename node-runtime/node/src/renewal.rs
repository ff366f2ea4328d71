//! The node's certificate, renewed by itself before it ends: another one over the same key. A node whose certificate has
//! ended has to join again.

use std::time::Duration;

use anyhow::Context as _;
use chrono::{DateTime, Utc};
use mfaas_delivery::{NODE_PROTOCOL, RenewalRequest, SERVER_PROTOCOL};
use rcgen::KeyPair;
use x509_parser::pem::parse_x509_pem;

use crate::config::Membership;
use crate::join::certificate_request;
use crate::state::{NodeIdentity, StateDir};
use crate::upstream::Upstream;

const LOOK_EVERY: Duration = Duration::from_secs(3_600);

/// What looks after the certificate.
pub(crate) struct Renewal {
    pub(crate) membership: Membership,
    pub(crate) state: StateDir,
    pub(crate) upstream: Upstream,
}

/// From when until when a certificate is good.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Validity {
    begin: DateTime<Utc>,
    end: DateTime<Utc>,
}

impl Validity {
    fn of(certificate_pem: &[u8]) -> anyhow::Result<Self> {
        let (_, pem) = parse_x509_pem(certificate_pem).context("the certificate is no PEM")?;
        let certificate = pem.parse_x509().context("the certificate cannot be read")?;
        let time = |seconds| DateTime::from_timestamp(seconds, 0).context("the certificate names no time");
        let validity = certificate.validity();
        Ok(Self { begin: time(validity.not_before.timestamp())?, end: time(validity.not_after.timestamp())? })
    }

    /// From two thirds of its life on.
    fn is_due(self, now: DateTime<Utc>) -> bool {
        now >= self.begin + (self.end - self.begin) / 3 * 2
    }
}

impl Renewal {
    /// Looks now and then, without an end. What goes wrong is tried again at the next look.
    pub(crate) async fn run(self) {
        loop {
            match self.renew_if_due(Utc::now()).await {
                Ok(None) => {}
                Ok(Some(validity)) => {
                    tracing::info!(until = %validity.end, "the node has renewed its certificate")
                }
                Err(error) => {
                    tracing::warn!(error = format!("{error:#}"), "the node's certificate is not renewed")
                }
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    async fn renew_if_due(&self, now: DateTime<Utc>) -> anyhow::Result<Option<Validity>> {
        let identity = self.state.identity()?.context("it is gone from MFAAS_STATE_DIR")?;
        let before = Validity::of(&identity.certificate_pem)?;
        if !before.is_due(now) {
            return Ok(None);
        }
        let key = str::from_utf8(&identity.key_pem).context("the key is no text")?;
        let key = KeyPair::from_pem(key).context("the key cannot be read")?;
        let csr_pem = certificate_request(self.membership.name.as_str(), &key)?;
        let request = RenewalRequest { protocol: NODE_PROTOCOL, csr_pem };
        let answer = self
            .upstream
            .renew(&request)
            .await
            .with_context(|| format!("it is good until {}", before.end))?;
        anyhow::ensure!(
            answer.protocol == SERVER_PROTOCOL,
            "the server speaks node protocol {}",
            answer.protocol
        );
        let certificate_pem = answer.certificate_pem.into_bytes();
        let after = Validity::of(&certificate_pem)?;
        anyhow::ensure!(after.end > before.end, "the server gives one that ends no later");
        let renewed = NodeIdentity { certificate_pem, ..identity };
        // The pair must work before it is kept.
        let fresh =
            Upstream::joined(&self.membership, &renewed).context("the certificate does not fit the key")?;
        self.state.store_identity(&renewed)?;
        self.upstream.show_that_of(&fresh);
        Ok(Some(after))
    }
}

#[cfg(test)]
mod tests;
