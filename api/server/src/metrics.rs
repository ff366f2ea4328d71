//! Numbers for Prometheus. Labels are route templates and statuses, never a tenant's name: a
//! scrape must not tell one tenant about another, nor grow with what callers invent.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use metrics_exporter_prometheus::{BuildError, Matcher, PrometheusBuilder, PrometheusHandle};
use mfaas_catalog::Charged;

use crate::connections::Full;

static RECORDER: Mutex<Option<PrometheusHandle>> = Mutex::new(None);

/// Upper edges of the duration buckets, in seconds.
const DURATION_BUCKETS_S: &[f64] = &[0.001, 0.005, 0.025, 0.1, 0.5, 2.5, 10.0];

/// Installs the process's recorder once and returns its handle.
pub fn install() -> Result<PrometheusHandle, BuildError> {
    let mut installed = RECORDER.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(handle) = installed.as_ref() {
        return Ok(handle.clone());
    }
    let recorder = PrometheusBuilder::new()
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
    metrics::describe_gauge!("mfaas_event_streams", "Open event streams.");
    metrics::describe_counter!("mfaas_usage_reports_total", "Reports of usage by what became of them.");
    metrics::describe_gauge!("mfaas_bans", "Bans in force.");
    metrics::describe_gauge!("mfaas_nodes", "Nodes by what they are to take.");
    metrics::describe_counter!("mfaas_upload_bytes_total", "Bytes of accepted uploads.");
}

/// Connections that are open on a listener.
pub(crate) fn connections(listener: &'static str, open: usize) {
    metrics::gauge!("mfaas_http_connections", "listener" => listener).set(open as f64);
}

/// Counts an idle connection that made room for another one.
pub(crate) fn gave_up(listener: &'static str, full: Full) {
    metrics::counter!("mfaas_http_connections_evicted_total", "listener" => listener, "bound" => full.as_str())
        .increment(1);
}

/// Counts a connection that found no place.
pub(crate) fn turned_away(listener: &'static str, full: Full) {
    metrics::counter!("mfaas_http_connections_refused_total", "listener" => listener, "bound" => full.as_str())
        .increment(1);
}

/// Counts one answer.
pub fn answered(route: &str, method: &http::Method, status: http::StatusCode, took: Duration) {
    let route = route.to_owned();
    let method = known_method(method);
    metrics::counter!("mfaas_http_requests_total", "route" => route.clone(), "method" => method, "status" => status.as_u16().to_string())
        .increment(1);
    metrics::histogram!("mfaas_http_request_seconds", "route" => route).record(took.as_secs_f64());
}

/// Counts one report of usage by what became of it.
pub fn usage_told(charged: Charged) {
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
