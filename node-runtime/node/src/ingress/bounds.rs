//! What the ingress takes at once: from everybody together, and from one peer.
//!
//! A peer is an IPv4 address, or an IPv6 /64, which is what one customer is given. Bounds of one peer are a part of those of
//! all, so that no peer alone can use them up. Whoever puts a proxy before the node names it, since all callers
//! come from its address; the proxy then keeps callers apart.

use std::collections::BTreeSet;
use std::net::IpAddr;

use mfaas_abi::limits;
use mfaas_startup::{VariableError, Variables};

/// Connections at once: each takes a descriptor and up to [`super::listener::HEAD_BYTES_MAX`].
const CONNECTIONS_MAX: usize = 4_096;
/// Of these, of one peer: a load generator's thousand, and still less than a third.
const PEER_CONNECTIONS_MAX: usize = 1_280;
/// What an operator may set: beyond it descriptors are better spent on images.
const CONNECTIONS_CAP: usize = 65_536;
/// Requests between their head and the last byte of their answer. Each may hold a head (64 KiB), the frame that is made of it with a
/// small body (56 KiB), and a small answer with its headers (32 KiB): some 150 KiB, so 1.2 GiB for all of them.
const REQUESTS_MAX: usize = 8_192;
/// Of these, of one peer: as many calls as may wait of one tenant.
const PEER_REQUESTS_MAX: usize = 2_048;
/// Bytes of request bodies that are not small, and of answers that are not. Apart, so that who sends nothing but bodies
/// keeps no answer from leaving.
const BODY_BYTES_MAX: usize = 512 << 20;
/// Of each, of one peer.
const PEER_BODY_BYTES_MAX: usize = 128 << 20;
/// The same for bulk functions, whose bodies may have 64 MiB each: eight requests on their way, and as many answers. A budget
/// of its own, so that callers of bulk functions take nothing from the others.
const BULK_BODY_BYTES_MAX: usize = 8 * limits::BULK_BODY_BYTES_MAX;
/// Of each, of one peer.
const PEER_BULK_BODY_BYTES_MAX: usize = 3 * limits::BULK_BODY_BYTES_MAX;
/// So much of a bulk body is taken in or given away before others have their turn, in bytes: a peer that is as fast as
/// memory would keep them waiting for milliseconds.
pub(super) const TURN_BYTES: usize = 64 << 10;
/// Named proxies, at most.
const PROXIES_MAX: usize = 64;

/// The bounds, in numbers of connections and requests and in bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Bounds {
    /// `MFAAS_INGRESS_CONNECTIONS`.
    pub(super) connections_max: usize,
    /// `MFAAS_INGRESS_PEER_CONNECTIONS`.
    pub(super) peer_connections_max: usize,
    pub(super) requests_max: usize,
    pub(super) peer_requests_max: usize,
    /// Of request bodies and of answers, each.
    pub(super) body_bytes_max: usize,
    pub(super) peer_body_bytes_max: usize,
    /// The same of requests to bulk functions and of their answers.
    pub(super) bulk_body_bytes_max: usize,
    pub(super) peer_bulk_body_bytes_max: usize,
    /// `MFAAS_INGRESS_PROXIES`: addresses that no bound of one peer holds for.
    pub(super) proxies: BTreeSet<IpAddr>,
}

impl Bounds {
    /// What holds where the operator says nothing.
    pub(super) const fn node() -> Self {
        Self {
            connections_max: CONNECTIONS_MAX,
            peer_connections_max: PEER_CONNECTIONS_MAX,
            requests_max: REQUESTS_MAX,
            peer_requests_max: PEER_REQUESTS_MAX,
            body_bytes_max: BODY_BYTES_MAX,
            peer_body_bytes_max: PEER_BODY_BYTES_MAX,
            bulk_body_bytes_max: BULK_BODY_BYTES_MAX,
            peer_bulk_body_bytes_max: PEER_BULK_BODY_BYTES_MAX,
            proxies: BTreeSet::new(),
        }
    }

    /// Reads the three variables.
    pub(crate) fn read(variables: &Variables) -> Result<Self, VariableError> {
        let connections_max =
            variables.number("MFAAS_INGRESS_CONNECTIONS", 1..=CONNECTIONS_CAP, CONNECTIONS_MAX)?;
        let peer_default = PEER_CONNECTIONS_MAX.min(connections_max);
        let peer_connections_max =
            variables.number("MFAAS_INGRESS_PEER_CONNECTIONS", 1..=connections_max, peer_default)?;
        let proxies: BTreeSet<IpAddr> = variables.list("MFAAS_INGRESS_PROXIES", PROXIES_MAX)?;
        let proxies = proxies.iter().map(IpAddr::to_canonical).collect();
        Ok(Self { connections_max, peer_connections_max, proxies, ..Self::node() })
    }

    /// Each bound with its name, for whoever looks at gauges.
    pub(super) fn named(&self) -> [(&'static str, usize); 8] {
        [
            ("connections", self.connections_max),
            ("peer_connections", self.peer_connections_max),
            ("requests", self.requests_max),
            ("peer_requests", self.peer_requests_max),
            ("body_bytes", self.body_bytes_max),
            ("peer_body_bytes", self.peer_body_bytes_max),
            ("bulk_body_bytes", self.bulk_body_bytes_max),
            ("peer_bulk_body_bytes", self.peer_bulk_body_bytes_max),
        ]
    }
}

#[cfg(test)]
mod tests;
