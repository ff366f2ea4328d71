//! Numbers for Prometheus. Labels are route templates and statuses, never a tenant's name: a
//! scrape must not tell one tenant about another, nor grow with what callers invent.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use metrics_exporter_prometheus::{BuildError, PrometheusHandle};
use mfaas_catalog::Charged;
use mfaas_process_metrics::WORK_SECONDS;

static RECORDER: Mutex<Option<PrometheusHandle>> = Mutex::new(None);

/// Installs the process's recorder once and returns its handle.
pub(crate) fn install() -> Result<PrometheusHandle, BuildError> {
    let mut installed = RECORDER.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(handle) = installed.as_ref() {
        return Ok(handle.clone());
    }
    let handle = mfaas_process_metrics::install_recorder(&[("mfaas_build_stage_seconds", WORK_SECONDS)])?;
    describe();
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
    metrics::describe_counter!(
        "mfaas_scheduled_calls_total",
        "Calls that this server has made for schedules, by outcome; skipped: times that passed while a call was under way."
    );
    metrics::describe_counter!(
        "mfaas_trigger_calls_total",
        "Calls that this server has made for events of triggers, by outcome."
    );
    metrics::describe_gauge!("mfaas_trigger_events_waiting", "Events that wait for a call or its end.");
    metrics::describe_gauge!(
        "mfaas_trigger_oldest_event_seconds",
        "How long the first of the waiting events has waited; 0 without one."
    );
    metrics::describe_gauge!("mfaas_bans", "Bans in force.");
    metrics::describe_gauge!("mfaas_nodes", "Nodes by what they are to take.");
    metrics::describe_gauge!("mfaas_node_states", "Nodes by how they stand: ready, behind, silent, joined.");
    metrics::describe_counter!("mfaas_upload_bytes_total", "Bytes of accepted uploads.");
    describe_builds();
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
