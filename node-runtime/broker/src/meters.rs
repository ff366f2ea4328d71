//! What the broker counts, for its metrics.

use std::time::Duration;

use mfaas_broker_protocol::CommitResult;
use mfaas_ident::ResourceKind;
use mfaas_kv::Swept;

/// Says what the names mean.
pub(crate) fn describe() {
    metrics::describe_counter!(
        "mfaas_broker_operations_total",
        "Operations of calls on data, by the kind of the resource and the outcome: done, or the code of the refusal."
    );
    metrics::describe_histogram!(
        "mfaas_broker_operation_seconds",
        "From an operation's coming to its outcome, by the kind of the resource."
    );
    metrics::describe_counter!(
        "mfaas_broker_commits_total",
        "Calls whose changes were to take effect, by what came of it."
    );
    metrics::describe_histogram!(
        "mfaas_broker_commit_seconds",
        "From the request for a commit to its answer."
    );
    metrics::describe_counter!(
        "mfaas_broker_reads_unaudited_total",
        "Reads that were to be audited and were left out: too many at once, or the database did not take them."
    );
    metrics::describe_counter!(
        "mfaas_broker_changes_untold_total",
        "Changes of files and requests to servers whose audit records say no more than that they were begun: too many waited for the database."
    );
    metrics::describe_counter!(
        "mfaas_broker_audit_moved_total",
        "Audit records that were moved from Redis servers to the database."
    );
    metrics::describe_gauge!("mfaas_broker_calls", "Calls that have reached data and have not ended.");
    metrics::describe_counter!(
        "mfaas_broker_swept_total",
        "What was removed: expired entries, identities of calls of long ago, old audit records, and bytes of objects without a name."
    );
}

/// An operation has ended.
pub(crate) fn operated(kind: ResourceKind, outcome: &'static str, took: Duration) {
    metrics::counter!("mfaas_broker_operations_total", "kind" => kind.as_str(), "outcome" => outcome)
        .increment(1);
    metrics::histogram!("mfaas_broker_operation_seconds", "kind" => kind.as_str()).record(took.as_secs_f64());
}

/// A commit has ended.
pub(crate) fn committed(result: CommitResult, took: Duration) {
    let result = match result {
        CommitResult::Done => "done",
        CommitResult::Conflict => "conflict",
        CommitResult::Unavailable => "unavailable",
        CommitResult::Unknown => "unknown",
        CommitResult::Full => "full",
        CommitResult::TooMuch => "too_much",
        CommitResult::SeveralStores => "several_stores",
    };
    metrics::counter!("mfaas_broker_commits_total", "result" => result).increment(1);
    metrics::histogram!("mfaas_broker_commit_seconds").record(took.as_secs_f64());
}

/// A call has begun, or ended.
pub(crate) fn calls(more: bool) {
    let calls = metrics::gauge!("mfaas_broker_calls");
    if more { calls.increment(1.0) } else { calls.decrement(1.0) }
}

/// Rows were removed.
pub(crate) fn swept(swept: &Swept) {
    metrics::counter!("mfaas_broker_swept_total", "of" => "entries").increment(swept.entries);
    metrics::counter!("mfaas_broker_swept_total", "of" => "commits").increment(swept.commits);
    metrics::counter!("mfaas_broker_swept_total", "of" => "audit").increment(swept.audit);
    metrics::counter!("mfaas_broker_swept_total", "of" => "events").increment(swept.events);
}

/// Audit records have come from the servers.
pub(crate) fn audit_moved(records: u64) {
    metrics::counter!("mfaas_broker_audit_moved_total").increment(records);
}

/// Expired entries were removed from the servers.
pub(crate) fn swept_servers(entries: u64) {
    metrics::counter!("mfaas_broker_swept_total", "of" => "entries").increment(entries);
}

/// Bytes of objects were removed that have no name.
pub(crate) fn swept_blobs(blobs: usize) {
    metrics::counter!("mfaas_broker_swept_total", "of" => "blobs").increment(blobs as u64);
}

/// Audit records of changes are not completed.
pub(crate) fn untold(changes: u64) {
    metrics::counter!("mfaas_broker_changes_untold_total").increment(changes);
}

/// Reads that were to be audited were left out.
pub(crate) fn unaudited(reads: usize) {
    metrics::counter!("mfaas_broker_reads_unaudited_total").increment(reads as u64);
}
