//! The node's HTTP face: `ANY /f/{tenant}/{name}[@selector]`, and what operators look at.
//!
//! Requests are anybody's and answers are a tenant's: both are filtered ([`headers`]). Cookies and
//! credentials never reach a function and a function never speaks for the whole origin, because
//! browsers send cookies to every port of a host. Must never wait for a slow sender without an
//! end, or hold more bodies than their budget ([`body`]).

mod body;
mod callers;
mod headers;
mod hosts;
mod listener;
mod meters;
mod problem;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderValue, Method, Request, StatusCode, header};
use http_body_util::Full;
use hyper::body::Incoming;
use metrics_exporter_prometheus::PrometheusHandle;
use mfaas_abi::{Status, frame};
use mfaas_delivery::Availability;
use mfaas_dispatch::{Outcome, Refusal};
use mfaas_ident::{FunctionRef, TenantName};
use mfaas_ring::Completion;
use mfaas_rules::codes;

pub(crate) use callers::{CALLER, Callers, LOCAL, Peer, Share};
pub(crate) use headers::is_own;
pub(crate) use hosts::Hosts;
pub(crate) use listener::serve;

use body::{Bodies, Response};
use meters::Meters;
use problem::Problem;

use crate::serving::{Answered, Asked, CallError, Dispatcher, Way};

/// Room for what stands before the body of a frame, so that it mostly grows once.
const FRAME_HEAD_BYTES: usize = 512;
/// Where functions are called.
const FUNCTIONS: &str = "/f/";

/// When a caller may ask a node again that is being drained, in seconds: whoever balances calls has noticed by then.
const DRAINING_RETRY_AFTER_S: u32 = 10;

/// What all connections share.
#[derive(Debug)]
pub(crate) struct Face {
    dispatcher: Arc<Dispatcher>,
    prometheus: PrometheusHandle,
    bodies: Bodies,
    callers: Arc<Callers>,
    meters: Meters,
}

impl Face {
    /// Made after the recorder of metrics is installed.
    pub(crate) fn new(
        dispatcher: Arc<Dispatcher>,
        prometheus: PrometheusHandle,
        callers: Arc<Callers>,
    ) -> Self {
        Self { dispatcher, prometheus, bodies: Bodies::default(), callers, meters: Meters::default() }
    }

    /// Answers one request, whatever it is.
    pub(crate) async fn answer(&self, request: Request<Incoming>, peer: Peer) -> Response {
        let is_head = request.method() == Method::HEAD;
        let mut response = if request.uri().path().starts_with(FUNCTIONS) {
            self.invoke(request, peer).await
        } else {
            self.operate(request.method(), request.uri().path())
        };
        if is_head {
            // HTTP/2 would send it; HTTP/1.1 would not.
            *response.body_mut() = Full::default();
        }
        response
    }

    /// What operators look at.
    fn operate(&self, method: &Method, path: &str) -> Response {
        let answer = match path {
            "/healthz" => plain(StatusCode::OK, "alive\n"),
            "/readyz" => self.ready(),
            "/metrics" => self.scrape(),
            _ => return Problem::of(StatusCode::NOT_FOUND, codes::MF0801).into_response(),
        };
        if matches!(*method, Method::GET | Method::HEAD) {
            answer
        } else {
            let mut refused = plain(StatusCode::METHOD_NOT_ALLOWED, "");
            refused.headers_mut().insert(header::ALLOW, HeaderValue::from_static("GET,HEAD"));
            refused
        }
    }

    fn ready(&self) -> Response {
        if self.dispatcher.standing().availability() == Availability::Draining {
            plain(StatusCode::SERVICE_UNAVAILABLE, "the node is being drained\n")
        } else if self.dispatcher.is_serving() {
            plain(StatusCode::OK, "ready\n")
        } else {
            plain(StatusCode::SERVICE_UNAVAILABLE, "no serving set is loaded\n")
        }
    }

    fn scrape(&self) -> Response {
        let mut response =
            plain(StatusCode::OK, self.prometheus.render() + &self.dispatcher.usage().render());
        let content_type = HeaderValue::from_static("text/plain; version=0.0.4");
        response.headers_mut().insert(header::CONTENT_TYPE, content_type);
        response
    }

    async fn invoke(&self, request: Request<Incoming>, peer: Peer) -> Response {
        let mut response = match self.call(request, peer).await {
            Ok(answered) => self.answer_of(answered),
            Err(problem) => problem.into_response(),
        };
        headers::harden(response.headers_mut());
        self.meters.answered(&response);
        response
    }

    /// Parses, reads and runs one call.
    async fn call(&self, request: Request<Incoming>, peer: Peer) -> Result<Answered, Problem> {
        let (parts, body) = request.into_parts();
        let (tenant, function) = target(parts.uri.path())?;
        // Held until the answer is there.
        let admitted = self.callers.admit(&self.dispatcher, peer, &parts.headers, (&tenant, &function))?;
        let path = parts.uri.path_and_query().map_or(parts.uri.path(), |whole| whole.as_str());
        let body = self.bodies.read(body).await?;

        let mut encoded = Vec::with_capacity(body.bytes.len() + FRAME_HEAD_BYTES);
        let passed =
            headers::for_function(&parts.headers).chain(headers::host(&parts)).chain(admitted.header());
        frame::encode_request(&mut encoded, parts.method.as_str(), path, passed, &body.bytes)
            .map_err(|e| Problem::of(StatusCode::BAD_REQUEST, codes::MF0809).detail(&e.to_string()))?;

        let wait_max = headers::wait_max(&parts.headers)
            .map_err(|detail| Problem::of(StatusCode::BAD_REQUEST, codes::MF0809).detail(detail))?;
        let asked = Asked {
            tenant: &tenant,
            function: &function.name,
            selector: function.selector.as_ref(),
            wait_max,
            grant: admitted.grant,
            way: Way::Direct,
        };
        // The body's share of the budget is held until the answer is there: the frame holds as much.
        let answered = self.dispatcher.call(asked, encoded).await;
        drop(body);
        answered.map_err(refused)
    }

    /// The response to an accepted call.
    fn answer_of(&self, answered: Answered) -> Response {
        let Answered { outcome, completion, served, queued, ran } = answered;
        let mut cold = None;
        let mut run = ran;
        let mut response = match (outcome, completion) {
            (Outcome::Finished, Some(completion)) => {
                cold = Some(completion.cold);
                // The worker's clock is finer but hostile: never more than what we saw ourselves.
                run = Duration::from_nanos(completion.wall_ns).min(ran);
                self.meters.ran(run.as_secs_f64());
                self.finished(&completion)
            }
            (Outcome::Overdue, _) => Problem::of(StatusCode::GATEWAY_TIMEOUT, codes::MF0803).into_response(),
            (Outcome::WaitedTooLong, _) => {
                Problem::of(StatusCode::SERVICE_UNAVAILABLE, codes::MF0811).retry_after(1).into_response()
            }
            (Outcome::DeadlinePassed, _) => Problem::of(StatusCode::GATEWAY_TIMEOUT, codes::MF0811)
                .detail("the deadline of the call passed while it waited")
                .into_response(),
            (Outcome::LoadFailed, _) => {
                Problem::of(StatusCode::SERVICE_UNAVAILABLE, codes::MF0709).into_response()
            }
            (Outcome::Withdrawn, _) => Problem::of(StatusCode::NOT_FOUND, codes::MF0801).into_response(),
            (Outcome::Banned, _) => {
                Problem::of(StatusCode::SERVICE_UNAVAILABLE, codes::MF0813).into_response()
            }
            (Outcome::Lost, _) | (Outcome::Finished, None) => {
                Problem::of(StatusCode::SERVICE_UNAVAILABLE, codes::MF0808).into_response()
            }
        };
        headers::describe(response.headers_mut(), served.key.version, cold, queued, run);
        response
    }

    fn finished(&self, completion: &Completion) -> Response {
        let bad_gateway = |code| Problem::of(StatusCode::BAD_GATEWAY, code).into_response();
        match completion.status {
            Status::Ok => self.respond(&completion.response),
            Status::HandlerError => {
                let mut response = self.respond(&completion.response);
                if response.extensions().get::<problem::Shown>().is_none() {
                    response.headers_mut().insert(headers::STATUS, HeaderValue::from_static("handler-error"));
                }
                response
            }
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
    fn respond(&self, encoded: &[u8]) -> Response {
        let malformed = || Problem::of(StatusCode::BAD_GATEWAY, codes::MF0810).into_response();
        let Ok(decoded) = frame::ResponseFrame::decode(encoded) else { return malformed() };
        let Ok(status) = StatusCode::from_u16(decoded.status) else { return malformed() };
        let body = match self.bodies.send(decoded.body) {
            Ok(body) => body,
            Err(problem) => return problem.into_response(),
        };
        let mut response = Response::new(body);
        *response.status_mut() = status;
        response.headers_mut().reserve(headers::ADDED);
        headers::from_function(response.headers_mut(), decoded.headers.iter());
        response
    }
}

/// Text for operators.
fn plain(status: StatusCode, text: impl Into<Bytes>) -> Response {
    let mut response = Response::new(Full::new(text.into()));
    *response.status_mut() = status;
    let content_type = HeaderValue::from_static("text/plain; charset=utf-8");
    response.headers_mut().insert(header::CONTENT_TYPE, content_type);
    response
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

fn refused(error: CallError) -> Problem {
    match error {
        CallError::Unknown | CallError::Refused(Refusal::NotServed) => {
            Problem::of(StatusCode::NOT_FOUND, codes::MF0801)
        }
        CallError::Refused(Refusal::NotLoadable) => {
            Problem::of(StatusCode::SERVICE_UNAVAILABLE, codes::MF0709)
        }
        CallError::Refused(refusal @ Refusal::DeadlinePassed) => {
            Problem::of(StatusCode::GATEWAY_TIMEOUT, codes::MF0811).detail(&refusal.to_string())
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

#[cfg(test)]
mod tests;
