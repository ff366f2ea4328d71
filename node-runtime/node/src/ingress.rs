//! The node's HTTP face: `ANY /f/{tenant}/{name}[@selector]`, and what operators look at.
//!
//! Requests are anybody's and answers are a tenant's: both are checked ([`validate`]) and filtered ([`headers`], [`answers`]). Cookies and
//! credentials never reach a function and a function never speaks for the whole origin, because
//! browsers send cookies to every port of a host. Must never wait for a slow sender without an
//! end, hold more bodies than their budget ([`body`]), or let one peer use up what all share ([`peers`]).

mod answers;
mod body;
mod bounds;
mod callers;
mod connection_meters;
mod fairness;
mod headers;
mod hosts;
mod listener;
mod meters;
mod peers;
mod problem;
mod refusal;
mod response;
mod validate;

use std::convert::Infallible;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use bytes::Bytes;
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Method, Request, StatusCode, header};
use hyper::body::Incoming;
use metrics_exporter_prometheus::PrometheusHandle;
use mfaas_abi::frame::{FrameError, GrowingRequest};
use mfaas_abi::{Status, frame, limits};
use mfaas_delivery::Availability;
use mfaas_dispatch::Outcome;
use mfaas_ident::{Class, FunctionRef, PeerKey, TenantName, TraceParent};
use mfaas_ring::Completion;
use mfaas_rules::codes;
use mfaas_trace::Work;

pub(crate) use bounds::Bounds;
pub(crate) use callers::{Callers, LOCAL};
pub(crate) use headers::is_own;
pub(crate) use hosts::Hosts;
pub(crate) use listener::serve;
pub(crate) use meters::REQUEST_SECONDS;
pub(crate) use peers::Peers;

use body::{Received, ReceivedFrame};
use meters::Meters;
use peers::{Connection, Pass};
use problem::Problem;
use refusal::refused;
use response::{Answer, Response};

use crate::serving::{Answered, Asked, Dispatcher, Served, Way};

/// Room for what stands before the body of a frame, so that it mostly grows once.
const FRAME_HEAD_BYTES: usize = 512;
/// Headers of most answers: what the node adds, and two of the function's own.
const HEADERS_EXPECTED: usize = 8;
/// Where functions are called.
const FUNCTIONS: &str = "/f/";

/// What all connections share.
#[derive(Debug)]
pub(crate) struct Face {
    dispatcher: Arc<Dispatcher>,
    /// What is scraped here; nothing where metrics have a listener of their own.
    prometheus: Option<PrometheusHandle>,
    callers: Arc<Callers>,
    meters: Meters,
}

/// What a call is answered with regard to.
struct Asking<'r> {
    parts: &'r Parts,
    /// The host that the request names.
    host: Option<&'r str>,
    /// Where it comes from.
    peer: PeerKey,
}

impl Face {
    /// Made after the recorder of metrics is installed.
    pub(crate) fn new(
        dispatcher: Arc<Dispatcher>,
        prometheus: Option<PrometheusHandle>,
        callers: Arc<Callers>,
    ) -> Self {
        Self { dispatcher, prometheus, callers, meters: Meters::default() }
    }

    /// Answers one request of a connection, whatever it is. Taken apart before the future is made, which hyper moves: what it
    /// holds twice is copied with each request.
    fn answer(
        self: Arc<Self>,
        request: Request<Incoming>,
        connection: &Arc<Connection>,
    ) -> impl Future<Output = Result<Response, Infallible>> + use<> {
        let peer = connection.peer();
        let pass = connection.ask();
        let (parts, body) = request.into_parts();
        async move {
            // Whoever gives the answer's bytes away gives this with them: the request lasts as long as they do.
            let mut pass = match pass {
                Ok(pass) => Some(pass),
                Err(full) => return Ok(self.refuse(body::no_room(full, "requests"))),
            };
            let mut response = match validate::check(&parts) {
                Err(problem) => self.refuse(problem),
                Ok(host) if parts.uri.path().starts_with(FUNCTIONS) => {
                    self.invoke(Asking { parts: &parts, host, peer }, body, &mut pass).await
                }
                Ok(_) => self.operate(&parts.method, parts.uri.path()),
            };
            let answer = response.body_mut();
            if parts.method == Method::HEAD {
                // HTTP/2 would send it; HTTP/1.1 would not.
                answer.clear();
            }
            answer.keep(pass);
            Ok(response)
        }
    }

    /// The answer to what is no request that is taken.
    fn refuse(&self, problem: Problem) -> Response {
        let mut response = problem.into_response();
        headers::harden(response.headers_mut());
        self.meters.answered(&response);
        response
    }

    /// What operators look at.
    fn operate(&self, method: &Method, path: &str) -> Response {
        let answer = match (path, &self.prometheus) {
            ("/healthz", _) => plain(StatusCode::OK, "alive\n"),
            ("/readyz", _) => self.ready(),
            ("/metrics", Some(prometheus)) => self.scrape(prometheus),
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
        } else if !self.callers.know_names(&self.dispatcher) {
            plain(StatusCode::SERVICE_UNAVAILABLE, self.callers.why_no_set())
        } else if !self.dispatcher.is_whole() {
            plain(StatusCode::SERVICE_UNAVAILABLE, "the first serving set is being loaded\n")
        } else {
            plain(StatusCode::OK, "ready\n")
        }
    }

    fn scrape(&self, prometheus: &PrometheusHandle) -> Response {
        let mut response = plain(StatusCode::OK, prometheus.render() + &self.dispatcher.usage().render());
        let content_type = HeaderValue::from_static("text/plain; version=0.0.4");
        response.headers_mut().insert(header::CONTENT_TYPE, content_type);
        response
    }

    async fn invoke(&self, asking: Asking<'_>, body: Incoming, pass: &mut Option<Pass>) -> Response {
        let began = Instant::now();
        let traced = Traced::of(&asking.parts.headers);
        let answered = match self.call(&asking, body, pass.as_ref()).await {
            Ok(answered) => answered,
            Err(problem) => return self.refuse(problem),
        };
        let served = Arc::clone(&answered.served);
        let mut response = self.answer_of(answered, asking.host, pass);
        headers::harden(response.headers_mut());
        self.meters.answered(&response);
        self.meters.took(&served, began.elapsed().as_secs_f64());
        if let Some(traced) = traced {
            traced.tell(&served, response.status());
        }
        response
    }

    /// Parses, reads and runs one call.
    async fn call(
        &self,
        Asking { parts, host, peer }: &Asking<'_>,
        body: Incoming,
        pass: Option<&Pass>,
    ) -> Result<Answered, Problem> {
        let (tenant, function) = target(parts.uri.path())?;
        // Held until the answer is there.
        let admitted = self.callers.admit(&self.dispatcher, *peer, &parts.headers, (&tenant, &function))?;
        let wait_max = headers::wait_max(&parts.headers)
            .map_err(|detail| Problem::of(StatusCode::BAD_REQUEST, codes::MF0809).detail(detail))?;
        let (method, path) = (parts.method.as_str(), parts.uri.path_and_query());
        let path = path.map_or(parts.uri.path(), |whole| whole.as_str());
        let passed = headers::for_function(&parts.headers)
            .chain(headers::host(&parts.headers, *host))
            .chain(admitted.header());
        let malformed =
            |e: FrameError| Problem::of(StatusCode::BAD_REQUEST, codes::MF0809).detail(&e.to_string());
        let (encoded, share, long_call) = match admitted.class {
            Class::Micro => {
                let Received { bytes, share } = body::read(body, pass).await?;
                let mut encoded = Vec::with_capacity(bytes.len() + FRAME_HEAD_BYTES);
                frame::encode_request(&mut encoded, method, path, passed, &bytes).map_err(malformed)?;
                // The frame holds as much: the body's share of the budget is its share now.
                (encoded, share, None)
            }
            Class::Bulk => {
                let request = GrowingRequest::new(method, path, passed, limits::BULK_BODY_BYTES_MAX);
                let request = request.map_err(malformed)?;
                let ReceivedFrame { frame, share } = body::read_into(request, body, pass).await?;
                (frame, share, pass.map(Pass::long_call))
            }
        };
        // A sender may take long. What was given to the dispatcher is no longer asked about.
        self.callers.check(&admitted)?;

        let asked = Asked {
            tenant: &tenant,
            function: &function.name,
            selector: function.selector.as_ref(),
            wait_max,
            grant: admitted.grant,
            way: Way::Direct,
        };
        let answered = self.dispatcher.call(asked, encoded).await;
        drop((share, long_call));
        answered.map_err(refused)
    }

    /// The response to an accepted call.
    fn answer_of(&self, answered: Answered, host: Option<&str>, pass: &mut Option<Pass>) -> Response {
        let Answered { outcome, completion, served, queued, ran, .. } = answered;
        let mut cold = None;
        let mut run = ran;
        let mut response = match (outcome, completion) {
            (Outcome::Finished, Some(completion)) => {
                cold = Some(completion.cold);
                // The worker's clock is finer but hostile: never more than what we saw ourselves.
                run = Duration::from_nanos(completion.wall_ns).min(ran);
                self.meters.ran(run.as_secs_f64());
                finished(completion, (&served, host), pass)
            }
            (Outcome::Overdue | Outcome::OverBudget, _) => {
                Problem::of(StatusCode::GATEWAY_TIMEOUT, codes::MF0803).into_response()
            }
            (Outcome::TookTooLong, _) => {
                Problem::of(StatusCode::GATEWAY_TIMEOUT, codes::MF0819).into_response()
            }
            (Outcome::TooManySuspended, _) => Problem::of(StatusCode::SERVICE_UNAVAILABLE, codes::MF0811)
                .detail("as many calls wait for something as may")
                .retry_after(1)
                .into_response(),
            (Outcome::Stuck, _) => Problem::of(StatusCode::BAD_GATEWAY, codes::MF0810)
                .detail("the handler waited for nothing that could come")
                .into_response(),
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
}

/// A call whose caller has a trace of which spans are kept, where they go anywhere.
struct Traced {
    place: TraceParent,
    began: SystemTime,
}

impl Traced {
    fn of(headers: &HeaderMap) -> Option<Self> {
        // Where nothing is sent, nothing is looked for.
        let text = mfaas_trace::is_on().then(|| headers.get("traceparent")).flatten()?;
        let place = TraceParent::parse(text.to_str().ok()?).ok().filter(TraceParent::is_sampled)?;
        Some(Self { place, began: SystemTime::now() })
    }

    fn tell(&self, served: &Served, status: StatusCode) {
        let attributes = [
            ("mfaas.function", served.key.to_string()),
            ("http.response.status_code", status.as_str().to_owned()),
        ];
        let (ended, attributes) = (SystemTime::now(), attributes.as_slice());
        mfaas_trace::record(&self.place, Work { name: "invoke", began: self.began, ended, attributes });
    }
}

/// The answer of a call that ended, however it did.
fn finished(completion: Completion, whom: (&Served, Option<&str>), pass: &mut Option<Pass>) -> Response {
    let bad_gateway = |code| Problem::of(StatusCode::BAD_GATEWAY, code).into_response();
    match completion.status {
        Status::Ok => respond(completion.response, whom, pass),
        Status::HandlerError => {
            let mut response = respond(completion.response, whom, pass);
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
fn respond(encoded: Vec<u8>, (served, host): (&Served, Option<&str>), pass: &mut Option<Pass>) -> Response {
    let malformed = || Problem::of(StatusCode::BAD_GATEWAY, codes::MF0810).into_response();
    let Ok(decoded) = frame::ResponseFrame::decode_within(&encoded, served.body_bytes_max()) else {
        return malformed();
    };
    let Ok(status) = StatusCode::from_u16(decoded.status) else { return malformed() };
    let mut headers = HeaderMap::with_capacity(HEADERS_EXPECTED);
    answers::take_over(&mut headers, decoded.headers.iter(), (&served.key.tenant, host));
    // A body where there may be none (RFC 9110 15.3.5, 15.3.6, 15.4.5) is the next answer for who reads it differently.
    let has_no_body =
        matches!(status, StatusCode::NO_CONTENT | StatusCode::RESET_CONTENT | StatusCode::NOT_MODIFIED);
    let body_bytes = if has_no_body { 0 } else { decoded.body.len() };
    // A frame ends with its body.
    let from = encoded.len() - body_bytes;
    match Answer::of_function(encoded, from, served.terms.class, pass) {
        Ok(body) => {
            let mut response = Response::new(body);
            *response.status_mut() = status;
            *response.headers_mut() = headers;
            response
        }
        Err(full) => body::no_room(full, "large answers").into_response(),
    }
}

/// Text for operators.
fn plain(status: StatusCode, text: impl Into<Bytes>) -> Response {
    let mut response = Response::new(Answer::from(text.into()));
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

#[cfg(test)]
mod tests;
