//! Counts of connections, and the bounds beside them.

use metrics::{counter, gauge};

use super::bounds::Bounds;

/// How many connections are open now.
pub(super) fn connections(open: usize) {
    gauge!("mfaas_ingress_connections").set(open as f64);
}

/// A connection was taken.
pub(super) fn accepted() {
    counter!("mfaas_ingress_connections_total").increment(1);
}

/// An idle connection made room: for another one of its peer, or of anybody (`all`).
pub(super) fn evicted(bound: &'static str) {
    counter!("mfaas_ingress_connections_evicted_total", "bound" => bound).increment(1);
}

/// A connection was turned away.
pub(super) fn turned_away(bound: &'static str) {
    counter!("mfaas_ingress_connections_refused_total", "bound" => bound).increment(1);
}

/// The bounds, so that a rule can be written against them.
pub(super) fn bounds(bounds: &Bounds) {
    for (name, most) in bounds.named() {
        gauge!("mfaas_ingress_limit", "limit" => name).set(most as f64);
    }
}
