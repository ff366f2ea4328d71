//! What the signer counts, for its metrics. Nothing here is recorded unless `MFAAS_METRICS_LISTEN` is set.
//!
//! No label names a tenant: whoever scrapes learns of no one.

use std::time::{Duration, Instant};

use chrono::{DateTime, Utc};
use mfaas_ident::Epoch;

/// Says what the names mean.
pub(crate) fn describe() {
    metrics::describe_counter!(
        "mfaas_signings_total",
        "Builds that the signer looked at, by what became of them."
    );
    metrics::describe_histogram!(
        "mfaas_sign_seconds",
        "How long the signer took to examine a build and to sign or refuse it."
    );
    metrics::describe_histogram!(
        "mfaas_sign_wait_seconds",
        "How long a build waited from its end until the signer took it up."
    );
    metrics::describe_histogram!(
        "mfaas_serving_set_sign_seconds",
        "How long a serving set took to make and sign."
    );
    metrics::describe_gauge!("mfaas_serving_set_epoch", "The epoch that this signer signed last.");
    metrics::describe_gauge!(
        "mfaas_signings_deferred",
        "Builds that wait because something of ours failed when they were to be signed."
    );
}

/// A build was looked at, and this became of it.
pub(crate) fn looked(outcome: &'static str, began: Instant) {
    metrics::counter!("mfaas_signings_total", "outcome" => outcome).increment(1);
    metrics::histogram!("mfaas_sign_seconds").record(began.elapsed().as_secs_f64());
}

/// A build was taken up that had ended at that time by the database's clock.
pub(crate) fn taken_up(built_at: DateTime<Utc>) {
    let waited = (Utc::now() - built_at).to_std().unwrap_or(Duration::ZERO);
    metrics::histogram!("mfaas_sign_wait_seconds").record(waited.as_secs_f64());
}

/// A serving set was signed.
pub(crate) fn signed_set(epoch: Epoch, began: Instant) {
    metrics::gauge!("mfaas_serving_set_epoch").set(epoch.0 as f64);
    metrics::histogram!("mfaas_serving_set_sign_seconds").record(began.elapsed().as_secs_f64());
}

/// So many builds wait for something of ours.
pub(crate) fn deferred(count: usize) {
    metrics::gauge!("mfaas_signings_deferred").set(count as f64);
}
