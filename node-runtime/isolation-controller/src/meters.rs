//! What the controller counts, for its metrics.

use std::io;

/// Says what the names mean.
pub(crate) fn describe() {
    metrics::describe_gauge!(
        "mfaas_secondary_cores",
        "Cores that the secondary may use; 0 while it is stopped."
    );
    metrics::describe_gauge!(
        "mfaas_secondary_bytes",
        "Memory of the secondary that cannot be reclaimed, in bytes."
    );
    metrics::describe_gauge!("mfaas_machine_available_bytes", "Memory that the machine has left, in bytes.");
    metrics::describe_counter!(
        "mfaas_secondary_kills_total",
        "Members of the secondary that were ended because memory was low."
    );
    metrics::describe_counter!(
        "mfaas_isolation_failures_total",
        "What the isolation controller tried in vain, by what it was."
    );
}

/// The secondary may use so many.
pub(crate) fn secondary_cores(count: usize) {
    metrics::gauge!("mfaas_secondary_cores").set(count as f64);
}

/// What was measured.
pub(crate) fn memory(available: u64, secondary: u64) {
    metrics::gauge!("mfaas_machine_available_bytes").set(available as f64);
    metrics::gauge!("mfaas_secondary_bytes").set(secondary as f64);
}

/// A member was ended.
pub(crate) fn killed() {
    metrics::counter!("mfaas_secondary_kills_total").increment(1);
}

/// Counts what failed, and says it: the loop goes on with the next decision.
pub(crate) fn note(what: &'static str, done: io::Result<()>) {
    if let Err(error) = done {
        metrics::counter!("mfaas_isolation_failures_total", "what" => what).increment(1);
        tracing::error!(%error, "{what} failed");
    }
}
