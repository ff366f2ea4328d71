#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, to_bytes};
use axum::response::IntoResponse as _;
use http::{HeaderMap, HeaderValue, Request, StatusCode, header};
use metrics_exporter_prometheus::PrometheusBuilder;
use mfaas_abi::{Status, frame, limits};
use mfaas_dispatch::{Limits, Outcome, Refusal};
use mfaas_ring::Completion;
use tower::ServiceExt as _;

use super::{Face, answer, headers, refused, router};
use crate::agent::testing::key;
use crate::logs::LogSink;
use crate::serving::{Answered, CallError, Dispatcher, Served};

fn face() -> Arc<Face> {
    let prometheus = PrometheusBuilder::new().build_recorder().handle();
    let (standing, usage) = Default::default();
    let dispatcher = Arc::new(Dispatcher::new(Limits::NODE, Arc::new(LogSink::default()), standing, usage));
    Arc::new(Face { dispatcher, prometheus })
}

async fn ask(request: Request<Body>) -> (StatusCode, HeaderMap, String) {
    let response = router(face()).oneshot(request).await.unwrap();
    let (parts, body) = response.into_parts();
    let body = to_bytes(body, 1 << 20).await.unwrap();
    (parts.status, parts.headers, String::from_utf8(body.to_vec()).unwrap())
}

fn get(path: &str) -> Request<Body> {
    Request::builder().uri(path).body(Body::empty()).unwrap()
}

#[tokio::test]
async fn a_node_without_a_set_lives_but_is_not_ready() {
    assert_eq!(ask(get("/healthz")).await.0, StatusCode::OK);
    assert_eq!(ask(get("/readyz")).await.0, StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(ask(get("/metrics")).await.0, StatusCode::OK);
}

#[tokio::test]
async fn what_is_not_a_served_name_is_one_and_the_same_404() {
    for path in ["/f/acme/hello", "/f/acme/hello@0", "/f/ACME/hello", "/f/acme/..%2f", "/f/acme/a@b@c", "/x"]
    {
        let (status, _, body) = ask(get(path)).await;
        assert_eq!(status, StatusCode::NOT_FOUND, "{path}");
        assert!(body.contains("\"code\":\"MF0801\""), "{path}: {body}");
    }
}

#[tokio::test]
async fn a_body_of_more_than_a_mebibyte_is_refused() {
    let body = Body::from(vec![b'x'; limits::BODY_BYTES_MAX + 1]);
    let request = Request::post("/f/acme/hello").body(body).unwrap();
    let (status, headers, body) = ask(request).await;
    assert_eq!(status, StatusCode::PAYLOAD_TOO_LARGE);
    assert!(body.contains("MF0809"));
    assert_eq!(headers[header::CONTENT_TYPE], "application/problem+json");
    assert_eq!(headers[header::X_CONTENT_TYPE_OPTIONS], "nosniff");
    assert_eq!(headers[header::CONTENT_SECURITY_POLICY], "sandbox");
}

fn completed(status: Status, response: Vec<u8>) -> Completion {
    Completion {
        call_id: 1,
        status,
        cold: true,
        response,
        logs: Vec::new(),
        message: Vec::new(),
        wall_ns: 1_500_000,
        cpu_ns: 0,
        memory_bytes: 0,
    }
}

fn answered(outcome: Outcome, completion: Option<Completion>) -> axum::response::Response {
    let served = Arc::new(Served { id: mfaas_dispatch::FunctionId(1), key: key("hello", 3) });
    let (queued, ran) = (Duration::from_micros(20), Duration::from_millis(2));
    answer(Answered { outcome, completion, served, queued, ran })
}

fn encoded(status: u16, headers: &[(&str, &str)]) -> Vec<u8> {
    let mut bytes = Vec::new();
    frame::encode_response(&mut bytes, status, headers.iter().copied(), b"body").unwrap();
    bytes
}

#[test]
fn every_end_of_a_call_has_its_status() {
    let cases = [
        (Status::Panicked, 502),
        (Status::OverBudget, 504),
        (Status::StackOverflow, 502),
        (Status::OutOfMemory, 502),
        (Status::Denied, 502),
        (Status::Fault, 502),
        (Status::Aborted, 502),
        (Status::BadOutput, 502),
    ];
    for (status, wanted) in cases {
        let response = answered(Outcome::Finished, Some(completed(status, Vec::new())));
        assert_eq!(response.status().as_u16(), wanted, "{status}");
    }
    for (outcome, wanted) in [(Outcome::Lost, 503), (Outcome::Overdue, 504), (Outcome::Withdrawn, 404)] {
        assert_eq!(answered(outcome, None).status().as_u16(), wanted, "{outcome:?}");
    }
    let garbage = answered(Outcome::Finished, Some(completed(Status::Ok, b"garbage".to_vec())));
    assert_eq!(garbage.status(), StatusCode::BAD_GATEWAY);
}

#[test]
fn a_call_that_is_not_accepted_has_its_status() {
    let full = refused(CallError::Refused(Refusal::QueueFull { retry_after_s: 7 })).into_response();
    assert_eq!(full.status(), StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(full.headers()[header::RETRY_AFTER], "7");
    for (error, wanted) in [
        (CallError::Unknown, 404),
        (CallError::Refused(Refusal::NotLoaded), 404),
        (CallError::Refused(Refusal::Banned { crashes: 3 }), 503),
        (CallError::Refused(Refusal::NotServing), 503),
        (CallError::Draining, 503),
        (CallError::Gone, 503),
    ] {
        assert_eq!(refused(error).into_response().status().as_u16(), wanted, "{error:?}");
    }
}

#[test]
fn a_handlers_own_error_passes_and_is_marked() {
    let response = answered(Outcome::Finished, Some(completed(Status::HandlerError, encoded(500, &[]))));
    assert_eq!(response.status(), StatusCode::INTERNAL_SERVER_ERROR);
    assert_eq!(response.headers()["mfaas-status"], "handler-error");
}

#[test]
fn an_answer_says_its_version_and_times_and_nothing_for_the_origin() {
    let said = [
        ("content-type", "text/html"),
        ("set-cookie", "a=b"),
        ("content-security-policy", "default-src *"),
        ("clear-site-data", "*"),
        ("connection", "close"),
        ("mfaas-version", "99"),
        ("x-own", "1"),
    ];
    let mut response = answered(Outcome::Finished, Some(completed(Status::Ok, encoded(200, &said))));
    headers::harden(response.headers_mut());
    let headers = response.headers();
    assert_eq!(headers["mfaas-version"], "3");
    assert_eq!(headers["mfaas-start"], "cold");
    assert_eq!(headers["server-timing"], "queue;dur=0.020, run;dur=1.5000");
    assert_eq!(headers["content-security-policy"], "sandbox");
    assert_eq!(headers["content-type"], "text/html");
    assert_eq!(headers["x-own"], "1");
    for gone in ["set-cookie", "clear-site-data", "connection"] {
        assert!(!headers.contains_key(gone), "{gone}");
    }
}

#[test]
fn a_function_sees_no_credentials_and_nothing_of_the_connection() {
    let mut sent = HeaderMap::new();
    for (name, value) in [
        ("cookie", "session=1"),
        ("authorization", "Bearer x"),
        ("connection", "keep-alive, X-Hop"),
        ("x-hop", "1"),
        ("mfaas-version", "1"),
        ("accept", "text/plain"),
    ] {
        sent.append(name, HeaderValue::from_static(value));
    }
    sent.append("x-bytes", HeaderValue::from_bytes(b"\xff").unwrap());
    let seen: Vec<_> = headers::for_function(&sent).collect();
    assert_eq!(seen, [("accept", "text/plain")]);
}
