//! The node's HTTP face: `ANY /f/{tenant}/{name}[@selector]`, and what operators look at.
//!
//! Requests are anybody's and answers are a tenant's: both are filtered ([`headers`]). Cookies and
//! credentials never reach a function and a function never speaks for the whole origin, because
//! browsers send cookies to every port of a host. Must never wait for a slow sender without an
//! end, or hold more than one body for each connection.

mod headers;
mod listener;
mod problem;

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use axum::routing::{any, get};
use http::{HeaderValue, StatusCode, header};
use metrics_exporter_prometheus::PrometheusHandle;
use mfaas_abi::{Status, frame, limits};
use mfaas_delivery::Availability;
use mfaas_dispatch::{Outcome, Refusal};
use mfaas_ident::{FunctionRef, TenantName};
use mfaas_ring::Completion;
use mfaas_rules::codes;

pub(crate) use listener::serve;
use problem::Problem;

use crate::serving::{Answered, CallError, Dispatcher};

/// A whole request body must arrive within this.
const BODY_WAIT_MAX: Duration = Duration::from_secs(15);

/// When a caller may ask a node again that is being drained, in seconds: whoever balances calls has noticed by then.
const DRAINING_RETRY_AFTER_S: u32 = 10;

/// What the handlers share.
#[derive(Debug)]
pub(crate) struct Face {
    pub(crate) dispatcher: Arc<Dispatcher>,
    pub(crate) prometheus: PrometheusHandle,
}

/// The routes.
pub(crate) fn router(face: Arc<Face>) -> Router {
    Router::new()
        .route("/f/{tenant}/{function}", any(invoke))
        .route("/healthz", get(|| async { "alive\n" }))
        .route("/readyz", get(ready))
        .route("/metrics", get(scrape))
        .fallback(|| async { Problem::of(StatusCode::NOT_FOUND, codes::MF0801).into_response() })
        .with_state(face)
}

async fn ready(State(face): State<Arc<Face>>) -> Response {
    if face.dispatcher.standing().availability() == Availability::Draining {
        return (StatusCode::SERVICE_UNAVAILABLE, "the node is being drained\n").into_response();
    }
    match face.dispatcher.snapshot().current {
        Some(_) => "ready\n".into_response(),
        None => (StatusCode::SERVICE_UNAVAILABLE, "no serving set is loaded\n").into_response(),
    }
}

async fn scrape(State(face): State<Arc<Face>>) -> Response {
    let content_type = HeaderValue::from_static("text/plain; version=0.0.4");
    ([(header::CONTENT_TYPE, content_type)], face.prometheus.render() + &face.dispatcher.usage().render())
        .into_response()
}

async fn invoke(State(face): State<Arc<Face>>, request: Request) -> Response {
    let mut response = match call(&face, request).await {
        Ok(answered) => answer(answered),
        Err(problem) => problem.into_response(),
    };
    headers::harden(response.headers_mut());
    count(&response);
    response
}

/// Parses, reads and runs one call.
async fn call(face: &Face, request: Request) -> Result<Answered, Problem> {
    let (parts, body) = request.into_parts();
    let (tenant, function) = target(parts.uri.path())?;
    let path = parts.uri.path_and_query().map_or(parts.uri.path(), |whole| whole.as_str());
    let body = read_body(body).await?;

    let mut encoded = Vec::with_capacity(body.len() + 1024);
    let passed = headers::for_function(&parts.headers);
    frame::encode_request(&mut encoded, parts.method.as_str(), path, passed, &body)
        .map_err(|e| Problem::of(StatusCode::BAD_REQUEST, codes::MF0809).detail(&e.to_string()))?;

    let selector = function.selector.as_ref();
    face.dispatcher.call(&tenant, &function.name, selector, encoded).await.map_err(refused)
}

/// Tenant and function of `/f/{tenant}/{name}[@selector]`. What is not a name is not served: the
/// same answer as for a name that does not exist.
fn target(path: &str) -> Result<(TenantName, FunctionRef), Problem> {
    let unknown = || Problem::of(StatusCode::NOT_FOUND, codes::MF0801);
    let (tenant, function) =
        path.strip_prefix("/f/").and_then(|rest| rest.split_once('/')).ok_or_else(unknown)?;
    let tenant = TenantName::parse(tenant).map_err(|_| unknown())?;
    let function = function.parse().map_err(|_| unknown())?;
    Ok((tenant, function))
}

async fn read_body(body: Body) -> Result<bytes::Bytes, Problem> {
    let reading = axum::body::to_bytes(body, limits::BODY_BYTES_MAX);
    match tokio::time::timeout(BODY_WAIT_MAX, reading).await {
        Ok(Ok(bytes)) => Ok(bytes),
        Ok(Err(error)) if is_too_large(&error) => {
            Err(Problem::of(StatusCode::PAYLOAD_TOO_LARGE, codes::MF0809))
        }
        Ok(Err(_)) => Err(Problem::of(StatusCode::BAD_REQUEST, codes::MF0809).detail("the body broke off")),
        Err(_) => {
            Err(Problem::of(StatusCode::REQUEST_TIMEOUT, codes::MF0809).detail("the body came too slowly"))
        }
    }
}

fn is_too_large(error: &axum::Error) -> bool {
    let mut next = Some(error as &(dyn std::error::Error + 'static));
    while let Some(error) = next {
        if error.is::<http_body_util::LengthLimitError>() {
            return true;
        }
        next = error.source();
    }
    false
}

fn refused(error: CallError) -> Problem {
    match error {
        CallError::Unknown | CallError::Refused(Refusal::NotLoaded) => {
            Problem::of(StatusCode::NOT_FOUND, codes::MF0801)
        }
        CallError::Refused(Refusal::QueueFull { retry_after_s }) => {
            Problem::of(StatusCode::TOO_MANY_REQUESTS, codes::MF0811).retry_after(retry_after_s)
        }
        CallError::Refused(Refusal::Banned { .. }) => {
            Problem::of(StatusCode::SERVICE_UNAVAILABLE, codes::MF0813)
        }
        CallError::Refused(refusal @ Refusal::NotServing) => {
            Problem::of(StatusCode::SERVICE_UNAVAILABLE, codes::MF0811)
                .detail(&refusal.to_string())
                .retry_after(1)
        }
        CallError::Draining => {
            Problem::of(StatusCode::SERVICE_UNAVAILABLE, codes::MF0815).retry_after(DRAINING_RETRY_AFTER_S)
        }
        CallError::Gone => Problem::of(StatusCode::SERVICE_UNAVAILABLE, codes::MF0808),
    }
}

/// The response to an accepted call.
fn answer(answered: Answered) -> Response {
    let Answered { outcome, completion, served, queued, ran } = answered;
    let mut cold = None;
    let mut run = ran;
    let mut response = match (outcome, completion) {
        (Outcome::Finished, Some(completion)) => {
            cold = Some(completion.cold);
            // The worker's clock is finer but hostile: never more than what we saw ourselves.
            run = Duration::from_nanos(completion.wall_ns).min(ran);
            metrics::histogram!("mfaas_run_seconds").record(run.as_secs_f64());
            finished(&completion)
        }
        (Outcome::Overdue, _) => Problem::of(StatusCode::GATEWAY_TIMEOUT, codes::MF0803).into_response(),
        (Outcome::WaitedTooLong, _) => {
            Problem::of(StatusCode::SERVICE_UNAVAILABLE, codes::MF0811).retry_after(1).into_response()
        }
        (Outcome::Withdrawn, _) => Problem::of(StatusCode::NOT_FOUND, codes::MF0801).into_response(),
        (Outcome::Banned, _) => Problem::of(StatusCode::SERVICE_UNAVAILABLE, codes::MF0813).into_response(),
        (Outcome::Lost, _) | (Outcome::Finished, None) => {
            Problem::of(StatusCode::SERVICE_UNAVAILABLE, codes::MF0808).into_response()
        }
    };
    headers::describe(response.headers_mut(), served.key.version, cold, queued, run);
    response
}

fn finished(completion: &Completion) -> Response {
    let bad_gateway = |code| Problem::of(StatusCode::BAD_GATEWAY, code).into_response();
    match completion.status {
        Status::Ok => respond(&completion.response).unwrap_or_else(|| bad_gateway(codes::MF0810)),
        Status::HandlerError => match respond(&completion.response) {
            Some(mut response) => {
                response.headers_mut().insert(headers::STATUS, HeaderValue::from_static("handler-error"));
                response
            }
            None => bad_gateway(codes::MF0810),
        },
        Status::Panicked => bad_gateway(codes::MF0802),
        Status::OverBudget => Problem::of(StatusCode::GATEWAY_TIMEOUT, codes::MF0803).into_response(),
        Status::StackOverflow => bad_gateway(codes::MF0804),
        Status::OutOfMemory => bad_gateway(codes::MF0805),
        Status::Denied => bad_gateway(codes::MF0806),
        Status::Fault => bad_gateway(codes::MF0807),
        Status::Aborted => bad_gateway(codes::MF0814),
        Status::BadOutput => bad_gateway(codes::MF0810),
    }
}

/// The function's own response, if its bytes are one.
fn respond(encoded: &[u8]) -> Option<Response> {
    let decoded = frame::ResponseFrame::decode(encoded).ok()?;
    let mut response = Response::new(Body::from(decoded.body.to_vec()));
    *response.status_mut() = StatusCode::from_u16(decoded.status).ok()?;
    headers::from_function(response.headers_mut(), decoded.headers.iter());
    Some(response)
}

fn count(response: &Response) {
    let code = response.extensions().get::<problem::Shown>().map_or("", |shown| shown.0.id());
    let status = response.status().as_str().to_owned();
    metrics::counter!("mfaas_calls_total", "status" => status, "code" => code).increment(1);
}

#[cfg(test)]
mod tests;
