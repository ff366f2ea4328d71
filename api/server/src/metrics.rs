//! Numbers for Prometheus. Labels are route templates and statuses, never a tenant's name: a
//! scrape must not tell one tenant about another, nor grow with what callers invent.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use metrics_exporter_prometheus::{BuildError, Matcher, PrometheusBuilder, PrometheusHandle};
use mfaas_catalog::Charged;

static RECORDER: Mutex<Option<PrometheusHandle>> = Mutex::new(None);

/// Upper edges of the duration buckets, in seconds.
const DURATION_BUCKETS_S: &[f64] = &[0.001, 0.005, 0.025, 0.1, 0.5, 2.5, 10.0];

/// The same of stages of deployments: from a check of some milliseconds to a compilation of minutes.
const STAGE_BUCKETS_S: &[f64] = &[0.01, 0.05, 0.25, 1.0, 5.0, 15.0, 60.0, 300.0, 1_800.0];

/// Installs the process's recorder once and returns its handle.
pub(crate) fn install() -> Result<PrometheusHandle, BuildError> {
    let mut installed = RECORDER.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(handle) = installed.as_ref() {
        return Ok(handle.clone());
    }
    let stages = Matcher::Full("mfaas_build_stage_seconds".to_owned());
    let recorder = PrometheusBuilder::new()
        .set_buckets_for_metric(stages, STAGE_BUCKETS_S)?
        .set_buckets_for_metric(Matcher::Suffix("_seconds".to_owned()), DURATION_BUCKETS_S)?
        .build_recorder();
    let handle = recorder.handle();
    if metrics::set_global_recorder(recorder).is_ok() {
        describe();
    }
    *installed = Some(handle.clone());
    Ok(handle)
}

fn describe() {
    metrics::describe_counter!("mfaas_http_requests_total", "Answered requests by route, method and status.");
    metrics::describe_histogram!("mfaas_http_request_seconds", "Time until the answer's headers, by route.");
    metrics::describe_gauge!("mfaas_http_connections", "Open connections by listener.");
    metrics::describe_counter!(
        "mfaas_http_connections_evicted_total",
        "Idle connections that made room, by the bound that was reached."
    );
    metrics::describe_counter!(
        "mfaas_http_connections_refused_total",
        "Connections that were turned away, none being idle."
    );
    metrics::describe_gauge!(
        "mfaas_deployments",
        "Deployments by state; of those that have ended, the ones of the last day."
    );
    metrics::describe_gauge!(
        "mfaas_counted_seconds",
        "When deployments, nodes and bans were counted, in seconds since 1970."
    );
    metrics::describe_gauge!(
        "mfaas_certificate_ends_seconds",
        "Until when the certificate that the server shows is good, in seconds since 1970."
    );
    metrics::describe_gauge!("mfaas_event_streams", "Open event streams.");
    metrics::describe_counter!("mfaas_usage_reports_total", "Reports of usage by what became of them.");
    metrics::describe_gauge!("mfaas_bans", "Bans in force.");
    metrics::describe_gauge!("mfaas_nodes", "Nodes by what they are to take.");
    metrics::describe_gauge!("mfaas_node_states", "Nodes by how they stand: ready, behind, silent, joined.");
    metrics::describe_counter!("mfaas_upload_bytes_total", "Bytes of accepted uploads.");
    describe_builds();
    describe_database();
}

fn describe_builds() {
    metrics::describe_gauge!("mfaas_builders", "Builders that were seen within half a minute, by health.");
    metrics::describe_gauge!(
        "mfaas_builders_identities",
        "Different database roles of builders that take builds."
    );
    metrics::describe_gauge!(
        "mfaas_builds_agreement",
        "How many builders have to make the same before it is signed; absent before a signer has said so."
    );
    metrics::describe_gauge!("mfaas_builds_queued", "Builds in the queue that nobody works on.");
    metrics::describe_gauge!("mfaas_builds_running", "Builds that a builder holds.");
    metrics::describe_gauge!(
        "mfaas_builds_oldest_queued_seconds",
        "How long the oldest build is in the queue that nobody works on; 0 without one."
    );
    metrics::describe_gauge!(
        "mfaas_builds_awaiting_agreement",
        "Builds in the queue that another builder has to make as well."
    );
    metrics::describe_gauge!(
        "mfaas_builds_postponed",
        "Builds that a fault of the machines or the stores has put back."
    );
    metrics::describe_histogram!(
        "mfaas_build_stage_seconds",
        "How long stages of deployments took that have ended since this server began, by stage."
    );
}

fn describe_database() {
    metrics::describe_gauge!(
        "mfaas_database_connections",
        "Connections of this server to the database, by state."
    );
    metrics::describe_gauge!("mfaas_database_connections_max", "Connections that this server may open.");
    metrics::describe_counter!(
        "mfaas_database_waits_total",
        "How often all connections were busy when a query wanted one."
    );
    metrics::describe_counter!(
        "mfaas_database_wait_milliseconds_total",
        "How long those waited together who found all connections busy."
    );
}

/// How long a stage of a deployment took.
pub(crate) fn stage_took(stage: &'static str, took: Duration) {
    metrics::histogram!("mfaas_build_stage_seconds", "stage" => stage).record(took.as_secs_f64());
}

/// Connections that are open on a listener.
pub(crate) fn connections(listener: &'static str, open: usize) {
    metrics::gauge!("mfaas_http_connections", "listener" => listener).set(open as f64);
}

/// Counts an idle connection that made room for another one.
pub(crate) fn gave_up(listener: &'static str, bound: &'static str) {
    metrics::counter!("mfaas_http_connections_evicted_total", "listener" => listener, "bound" => bound)
        .increment(1);
}

/// Counts a connection that found no place.
pub(crate) fn turned_away(listener: &'static str, bound: &'static str) {
    metrics::counter!("mfaas_http_connections_refused_total", "listener" => listener, "bound" => bound)
        .increment(1);
}

/// Counts one answer.
pub(crate) fn answered(route: &str, method: &http::Method, status: http::StatusCode, took: Duration) {
    let route = route.to_owned();
    let method = known_method(method);
    metrics::counter!("mfaas_http_requests_total", "route" => route.clone(), "method" => method, "status" => status.as_u16().to_string())
        .increment(1);
    metrics::histogram!("mfaas_http_request_seconds", "route" => route).record(took.as_secs_f64());
}

/// Counts one report of usage by what became of it.
pub(crate) fn usage_told(charged: Charged) {
    let outcome = match charged {
        Charged::Now => "charged",
        Charged::Before => "repeated",
        Charged::Ended => "ended",
        Charged::Impossible => "impossible",
    };
    metrics::counter!("mfaas_usage_reports_total", "outcome" => outcome).increment(1);
}

/// A method is a caller's text; only those that HTTP knows become a label.
fn known_method(method: &http::Method) -> &'static str {
    match method.as_str() {
        "GET" => "GET",
        "HEAD" => "HEAD",
        "POST" => "POST",
        "PUT" => "PUT",
        "DELETE" => "DELETE",
        _ => "other",
    }
}

/// The server shows a certificate that is good until then, in seconds since 1970.
pub(crate) fn certificate_shown(ends_at: i64) {
    metrics::gauge!("mfaas_certificate_ends_seconds")
        .set(f64::from(u32::try_from(ends_at).unwrap_or(u32::MAX)));
}
