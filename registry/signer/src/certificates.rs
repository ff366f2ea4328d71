//! Certificates of nodes. A server passes on what a node asked for; whether the node may have it is decided here again: by the
//! row of its join token, which is used in the same transaction, or by the certificate that it has, which names it and has the
//! key that the new one gets.
//!
//! Must never issue a certificate for anything but one node's name as a client, believe a server about what a node has shown,
//! or issue more of them to nodes that join than the site says, since a server that is broken into can make join tokens.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use mfaas_authority::{Authority, AuthorityError, NodeCertificate};
use mfaas_ident::{Digest, NodeName};
use postgres::{Client, Transaction};

use crate::config::AuthorityConfig;
use crate::ledger::certificates::{self, Entitlement, Refusal};

/// How far back joins are counted.
const COUNTED_FOR: Duration = Duration::from_secs(3_600);
/// How many requests are answered before anything else is done.
const ANSWERS_AT_ONCE_MAX: usize = 100;

/// The authority, and how much of it was used.
pub(crate) struct Issuer {
    authority: Authority,
    joins_per_hour: usize,
    /// When nodes joined within the hour, the oldest first.
    joined: VecDeque<Instant>,
}

impl Issuer {
    pub(crate) fn open(config: &AuthorityConfig) -> anyhow::Result<Self> {
        let authority =
            Authority::load(&config.ca_dir).context("MFAAS_CA_DIR (run `mfaas-signer init-authority`)")?;
        Ok(Self { authority, joins_per_hour: config.joins_per_hour, joined: VecDeque::new() })
    }

    /// Answers what waits, up to a number: whoever asks without end keeps no deployment from its signature.
    pub(crate) fn answer(&mut self, client: &mut Client) -> anyhow::Result<()> {
        for _ in 0..ANSWERS_AT_ONCE_MAX {
            if !self.answer_next(client)? {
                break;
            }
        }
        Ok(())
    }

    fn answer_next(&mut self, client: &mut Client) -> anyhow::Result<bool> {
        let mut tx = client.transaction()?;
        let Some(request) = certificates::next(&mut tx)? else { return Ok(false) };
        let is_join = matches!(request.entitlement, Entitlement::JoinToken(_));
        let answer = match &request.node {
            Ok(node) => self.decide(&mut tx, node, &request.csr, &request.entitlement)?,
            Err(_) => Err(Refusal::Unusable),
        };
        certificates::answer(&mut tx, request.id, &answer)?;
        tx.commit()?;
        let node = request.node.map(|node| node.to_string()).unwrap_or_default();
        match answer {
            Ok(_) => {
                if is_join {
                    self.joined.push_back(Instant::now());
                }
                tracing::info!(node, is_join, "issued a certificate");
            }
            Err(Refusal::TooMany) => tracing::error!(
                node,
                joins_per_hour = self.joins_per_hour,
                "no more nodes join in this hour: look who makes join tokens, or raise MFAAS_JOINS_PER_HOUR"
            ),
            Err(refusal) => tracing::warn!(node, is_join, ?refusal, "issued no certificate"),
        }
        Ok(true)
    }

    fn decide(
        &mut self,
        tx: &mut Transaction<'_>,
        node: &NodeName,
        csr: &str,
        entitlement: &Entitlement,
    ) -> anyhow::Result<Result<NodeCertificate, Refusal>> {
        let certificate = match entitlement {
            Entitlement::JoinToken(_) if self.joins_left() == 0 => return Ok(Err(Refusal::TooMany)),
            Entitlement::JoinToken(_) => self.authority.sign_node(node, csr),
            Entitlement::Certificate(shown) => self.authority.renew_node(node, shown, csr),
        };
        let certificate = match certificate {
            Ok(certificate) => certificate,
            Err(AuthorityError::Request(_) | AuthorityError::Shown) => return Ok(Err(Refusal::Unusable)),
            Err(error) => return Err(error).context("signing a certificate"),
        };
        // It leaves with this transaction alone, which records it or refuses it.
        let refusal = match entitlement {
            Entitlement::JoinToken(secret) => certificates::join(tx, node, secret, &certificate)?,
            Entitlement::Certificate(shown) => {
                let is_renewed = certificates::renew(tx, node, &Digest::of(shown), &certificate)?;
                (!is_renewed).then_some(Refusal::Again)
            }
        };
        Ok(refusal.map_or(Ok(certificate), Err))
    }

    fn joins_left(&mut self) -> usize {
        while self.joined.front().is_some_and(|at| at.elapsed() > COUNTED_FOR) {
            self.joined.pop_front();
        }
        self.joins_per_hour.saturating_sub(self.joined.len())
    }
}
