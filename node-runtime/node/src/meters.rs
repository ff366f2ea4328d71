//! What the node's metrics mean, and those that are set every second. What is counted as it happens is counted there.

use std::sync::Arc;
use std::time::Duration;

use metrics::{counter, describe_counter, describe_gauge, describe_histogram, gauge, histogram};
use mfaas_ident::Class;
use mfaas_rules::profiles::image_layout::BANK_BYTES;
use tokio::sync::watch;

use crate::agent::Status;
use crate::serving::{Caches, Dispatcher, Protection};

/// How often gauges are set.
const GAUGES: Duration = Duration::from_secs(1);

/// Says what the names mean. Called once, after the recorder is there.
pub(crate) fn describe() {
    describe_serving();
    describe_workers();
    describe_ingress();
}

fn describe_serving() {
    describe_gauge!("mfaas_epoch", "The epoch of the serving set that is in force; 0 before the first.");
    describe_gauge!("mfaas_versions_loaded", "Versions that answer.");
    describe_gauge!("mfaas_versions_refused", "Versions of the serving set that do not answer.");
    describe_counter!("mfaas_version_loads_total", "Versions that were loaded or refused, by outcome.");
    describe_histogram!(
        "mfaas_version_obtain_seconds",
        "How long a version took to fetch, from the disk or a server, and to verify."
    );
    describe_counter!(
        "mfaas_documents_refused_total",
        "Serving sets, key lists and shards that were refused, by code."
    );
    describe_gauge!("mfaas_functions_resident", "Functions whose images lie in windows.");
    describe_gauge!("mfaas_resident_bytes", "What these images take of windows, in bytes.");
    describe_gauge!(
        "mfaas_functions_suspected",
        "Functions that run alone because a worker died that ran several."
    );
    describe_gauge!("mfaas_windows", "Windows that hold functions.");
    describe_gauge!(
        "mfaas_window_fullest_bytes",
        "What is planned for the fullest bank of a window, in bytes."
    );
    describe_gauge!("mfaas_window_capacity_bytes", "What one bank of a window holds, in bytes.");
    describe_gauge!("mfaas_cache_bytes", "What the caches of functions hold, in bytes.");
    describe_counter!(
        "mfaas_cache_reads_total",
        "Keys that functions asked caches for, by outcome: hit or miss."
    );
    describe_counter!("mfaas_loader_restarts_total", "Loaders that were started again.");
    describe_counter!(
        "mfaas_log_lines_dropped_total",
        "Log lines of functions that were dropped, by reason."
    );
    describe_counter!("mfaas_call_logs_dropped_total", "Logs of whole calls that were dropped, by reason.");
}

fn describe_workers() {
    describe_gauge!("mfaas_queue_calls", "Calls that wait for a worker.");
    describe_gauge!("mfaas_running_calls", "Calls that run.");
    describe_gauge!(
        "mfaas_suspended_calls",
        "Calls that wait for what they asked the node for, in no worker."
    );
    describe_gauge!("mfaas_workers", "Workers that take calls.");
    describe_gauge!("mfaas_worker_processes", "Worker processes, sleeping ones too.");
    describe_gauge!("mfaas_bulk_queue_calls", "Bulk calls that wait for a worker.");
    describe_gauge!("mfaas_bulk_running_calls", "Bulk calls that run.");
    describe_gauge!("mfaas_bulk_worker_processes", "Worker processes of bulk functions, sleeping ones too.");
    describe_gauge!("mfaas_worker_pools", "Pools that have workers.");
    describe_gauge!("mfaas_worker_pools_busy", "Pools of one tenant that have calls.");
    describe_counter!("mfaas_worker_restarts_total", "Workers that were started again after their end.");
    describe_counter!("mfaas_worker_crashes_total", "Workers that died of what they ran.");
    describe_counter!(
        "mfaas_worker_memory_kills_total",
        "Workers that were ended for the memory that they held."
    );
    describe_counter!("mfaas_kills_total", "Calls that were ended before they answered.");
    describe_gauge!("mfaas_protection_keys", "1 where protection keys hold calls.");
    describe_gauge!("mfaas_tenants_share_workers", "1 where tenants share workers.");
    describe_gauge!(
        "mfaas_speculation_control",
        "1 where the control against speculation holds, by control."
    );
}

fn describe_ingress() {
    describe_counter!("mfaas_calls_total", "Answers by status and code, refusals among them.");
    describe_histogram!("mfaas_run_seconds", "How long calls ran, without their waits.");
    describe_histogram!("mfaas_request_seconds", "From a request's head to its answer, by function.");
    describe_gauge!("mfaas_ingress_connections", "Open connections of the ingress.");
    describe_counter!("mfaas_ingress_connections_total", "Connections that the ingress took.");
    describe_counter!(
        "mfaas_ingress_connections_evicted_total",
        "Idle connections that made room, by the bound that was reached."
    );
    describe_counter!(
        "mfaas_ingress_connections_refused_total",
        "Connections that were turned away, by the bound that was reached."
    );
    describe_gauge!("mfaas_ingress_limit", "What the ingress takes at once, by limit.");
    describe_counter!("mfaas_local_api_calls_total", "Calls through the local socket, by code.");
    describe_gauge!("mfaas_local_api_clients", "Programs that hold rings of the local socket.");
    describe_counter!("mfaas_local_api_violations_total", "Programs that broke the rules of their ring.");
}

/// A version was loaded, or will not be as it is.
pub(crate) fn version_loaded(is_loaded: bool) {
    let outcome = if is_loaded { "loaded" } else { "refused" };
    counter!("mfaas_version_loads_total", "outcome" => outcome).increment(1);
}

/// A version was fetched and verified.
pub(crate) fn version_obtained(took: Duration) {
    histogram!("mfaas_version_obtain_seconds").record(took.as_secs_f64());
}

/// Keeps gauges up to date for ever.
pub(crate) async fn watch(
    dispatcher: Arc<Dispatcher>,
    status: watch::Receiver<Status>,
    protection: Arc<Protection>,
    caches: Arc<Caches>,
) {
    loop {
        let cached = caches.numbers();
        gauge!("mfaas_cache_bytes").set(cached.bytes as f64);
        counter!("mfaas_cache_reads_total", "outcome" => "hit").absolute(cached.hits);
        counter!("mfaas_cache_reads_total", "outcome" => "miss").absolute(cached.misses);
        gauge!("mfaas_protection_keys").set(f64::from(u8::from(protection.keys_are_on())));
        gauge!("mfaas_tenants_share_workers").set(f64::from(u8::from(protection.tenants_share())));
        let snapshot = dispatcher.snapshot();
        let (micro, bulk) = (dispatcher.snapshot_of(Class::Micro), dispatcher.snapshot_of(Class::Bulk));
        gauge!("mfaas_queue_calls").set(micro.waiting as f64);
        gauge!("mfaas_running_calls").set(micro.running as f64);
        gauge!("mfaas_workers").set(micro.workers as f64);
        gauge!("mfaas_worker_processes").set(micro.processes as f64);
        gauge!("mfaas_bulk_queue_calls").set(bulk.waiting as f64);
        gauge!("mfaas_bulk_running_calls").set(bulk.running as f64);
        gauge!("mfaas_bulk_worker_processes").set(bulk.processes as f64);
        gauge!("mfaas_suspended_calls").set(snapshot.suspended as f64);
        gauge!("mfaas_worker_pools").set(snapshot.pools as f64);
        gauge!("mfaas_worker_pools_busy").set(snapshot.pools_busy as f64);
        gauge!("mfaas_functions_suspected").set(snapshot.suspects as f64);
        gauge!("mfaas_functions_resident").set(snapshot.resident as f64);
        gauge!("mfaas_resident_bytes").set(snapshot.resident_bytes as f64);
        let fill = dispatcher.fill();
        gauge!("mfaas_windows").set(fill.windows as f64);
        gauge!("mfaas_window_fullest_bytes").set(fill.fullest_bytes as f64);
        gauge!("mfaas_window_capacity_bytes").set(BANK_BYTES as f64);
        counter!("mfaas_kills_total").absolute(snapshot.kills);
        counter!("mfaas_worker_crashes_total").absolute(snapshot.crashes);
        {
            let status = status.borrow();
            gauge!("mfaas_epoch").set(status.epoch.0 as f64);
            gauge!("mfaas_versions_loaded").set(status.versions as f64);
            gauge!("mfaas_versions_refused").set(status.refused_total as f64);
        }
        tokio::time::sleep(GAUGES).await;
    }
}
