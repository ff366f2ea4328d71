//! The outermost layer: every request gets an id and a checked host, every answer its safety
//! headers, every refusal its body and exactly one log line.
//!
//! Nothing behind this layer logs a refusal or writes a problem document. Nothing here reads a
//! body or knows a tenant.

use std::time::Instant;

use axum::extract::{MatchedPath, Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use http::header::{CACHE_CONTROL, CONTENT_TYPE, HOST, REFERRER_POLICY, RETRY_AFTER, X_CONTENT_TYPE_OPTIONS};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use mfaas_ident::{HostError, requested_host, sanitise_line};
use mfaas_rules::codes;
use mfaas_wire::{PROBLEM_MEDIA_TYPE, REQUEST_ID};

use crate::metrics;
use crate::pools::ToKnownCaller;
use crate::refusal::Refusal;
use crate::state::App;
use crate::tally::About;

/// The id of a request, for the log and for the caller. Always made here: an id that a caller
/// chose could point into somebody else's log lines.
#[derive(Debug, Clone)]
pub(crate) struct RequestId(pub String);

/// The nonce of the one script that a page may carry.
#[derive(Debug, Clone)]
pub(crate) struct Nonce(pub String);

/// Marks an answer whose body already shows the refusal (a page of the console).
#[derive(Debug, Clone, Copy)]
pub(crate) struct Shown;

/// The layer of the HTTP listener.
pub(crate) async fn edge(State(app): State<App>, mut request: Request, next: Next) -> Response {
    let begun = Instant::now();
    let seen = Seen::of(&request);
    request.extensions_mut().insert(RequestId(seen.id.clone()));
    request.extensions_mut().insert(Nonce(uuid::Uuid::new_v4().simple().to_string()));
    let response = match check_host(&app, &request) {
        Ok(()) => next.run(request).await,
        Err(refusal) => refusal.into_response(),
    };
    let mut response = finish(&app, response, &seen);
    safety_headers(response.headers_mut());
    metrics::answered(&seen.route, &seen.method, response.status(), begun.elapsed());
    response
}

/// The layer of the node listener, of readiness on its own, and of numbers that are not on the loopback: ids, bodies and the
/// log, without a host to check.
pub(crate) async fn node_edge(State(app): State<App>, mut request: Request, next: Next) -> Response {
    let begun = Instant::now();
    let seen = Seen::of(&request);
    request.extensions_mut().insert(RequestId(seen.id.clone()));
    let response = finish(&app, next.run(request).await, &seen);
    metrics::answered(&seen.route, &seen.method, response.status(), begun.elapsed());
    response
}

/// What is remembered of a request for its log line and its numbers.
struct Seen {
    id: String,
    method: http::Method,
    route: String,
    path: String,
}

impl Seen {
    fn of(request: &Request) -> Self {
        let route = request.extensions().get::<MatchedPath>().map_or("none", MatchedPath::as_str).to_owned();
        Self {
            id: uuid::Uuid::now_v7().simple().to_string(),
            method: request.method().clone(),
            route,
            // Without the query, which may hold what a caller would not want logged.
            path: sanitise_line(request.uri().path(), 300),
        }
    }
}

/// Answers only to its own names. A page of a stranger whose name was re-bound to 127.0.0.1
/// sends the stranger's name, and gets nothing.
fn check_host(app: &App, request: &Request) -> Result<(), Refusal> {
    let name = host_name(host_of(request).map_err(|error| Refusal::new(codes::MF0906, format!("{error}.")))?);
    if app.config.hosts.iter().any(|known| known.eq_ignore_ascii_case(name)) {
        return Ok(());
    }
    let shown = sanitise_line(name, 100);
    Err(Refusal::new(codes::MF0906, format!("This server does not answer to the name `{shown}`.")))
}

/// The one host that the request names; empty when it names none.
fn host_of(request: &Request) -> Result<&str, HostError> {
    let mut headers = request.headers().get_all(HOST).iter();
    let header = headers.next().map(HeaderValue::as_bytes);
    if headers.next().is_some() {
        return Err(HostError::Twice);
    }
    let authority = request.uri().authority().map(http::uri::Authority::as_str);
    Ok(requested_host(authority, header)?.unwrap_or(""))
}

/// `localhost:7700` → `localhost`, `[::1]:7700` → `[::1]`.
fn host_name(host: &str) -> &str {
    match host.rfind(':') {
        Some(colon) if !host[colon..].contains(']') => &host[..colon],
        Some(_) | None => host,
    }
}

/// Turns a refusal into its body, logs it, and names the request in the answer.
fn finish(app: &App, mut response: Response, seen: &Seen) -> Response {
    let refusal = response.extensions_mut().remove::<Refusal>().or_else(|| foreign_failure(&response));
    if let Some(refusal) = refusal {
        log_once(app, &refusal, response.extensions().get::<ToKnownCaller>().is_some(), seen);
        if response.extensions().get::<Shown>().is_none() {
            response = problem_response(&refusal, &seen.id, response.headers());
        }
    }
    if let Ok(id) = HeaderValue::from_str(&seen.id) {
        response.headers_mut().insert(HeaderName::from_static(REQUEST_ID), id);
    }
    response
}

/// A failure that the framework answered by itself, in its own plain text.
fn foreign_failure(response: &Response) -> Option<Refusal> {
    let status = response.status();
    if !(status.is_client_error() || status.is_server_error()) {
        return None;
    }
    let (code, detail) = match status {
        StatusCode::NOT_FOUND => (codes::MF0911, "There is no such route."),
        StatusCode::METHOD_NOT_ALLOWED => (codes::MF0911, "The route does not have this method."),
        StatusCode::UNSUPPORTED_MEDIA_TYPE => {
            (codes::MF0916, "The body is of another type than this route takes.")
        }
        StatusCode::REQUEST_TIMEOUT => (codes::MF0915, "The request came too slowly."),
        StatusCode::PAYLOAD_TOO_LARGE => (codes::MF0907, "The body is larger than this route takes."),
        status if status.is_client_error() => (codes::MF0904, "The request is not valid."),
        _ => (codes::MF0909, "The server could not finish the request."),
    };
    Some(Refusal::new(code, detail).status(status))
}

fn problem_response(refusal: &Refusal, request_id: &str, earlier: &HeaderMap) -> Response {
    let problem = refusal.problem().clone().with_request_id(request_id);
    let mut response = (refusal.http_status(), axum::Json(problem)).into_response();
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(PROBLEM_MEDIA_TYPE));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    if refusal.http_status() == StatusCode::UNAUTHORIZED {
        headers.insert(http::header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer realm=\"mfaas\""));
    }
    if let Some(seconds) = refusal.retry_after_s() {
        headers.insert(RETRY_AFTER, HeaderValue::from(seconds));
    }
    for name in [http::header::ALLOW, http::header::CONNECTION] {
        if let Some(value) = earlier.get(&name) {
            headers.insert(name, value.clone());
        }
    }
    response
}

/// The one line of a refusal; where there are many, most are only counted.
fn log_once(app: &App, refusal: &Refusal, to_known_caller: bool, seen: &Seen) {
    let problem = refusal.problem();
    let about = match (refusal.http_status().is_server_error(), to_known_caller) {
        (true, _) => About::Ourselves,
        (false, true) => About::KnownCaller,
        (false, false) => About::Anybody,
    };
    if !app.tally.has_line(about, &problem.code) {
        return;
    }
    let (request_id, method, path) = (&seen.id, seen.method.as_str(), &seen.path);
    let (code, status) = (&problem.code, problem.status);
    if refusal.http_status().is_server_error() {
        let cause = refusal.cause().unwrap_or("none recorded");
        tracing::error!(%request_id, %method, %path, %code, status, %cause, "request failed");
    } else {
        let (cause, detail) = (refusal.cause().unwrap_or(""), &problem.detail);
        tracing::info!(%request_id, %method, %path, %code, status, %detail, %cause, "request refused");
    }
}

fn safety_headers(headers: &mut HeaderMap) {
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(REFERRER_POLICY, HeaderValue::from_static("same-origin"));
    headers
        .entry(HeaderName::from_static("content-security-policy"))
        .or_insert(HeaderValue::from_static("default-src 'none'; frame-ancestors 'none'"));
    headers.entry(CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
}
