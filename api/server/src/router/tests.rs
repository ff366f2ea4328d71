#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::routing::get;
use http::HeaderMap;
use mfaas_rules::codes;
use tower::ServiceExt as _;

use super::guarded;
use crate::refusal::Refusal;

async fn panics() {
    panic!("an index of {}", 7)
}

fn request(path: &str) -> Request {
    Request::get(path).header("authorization", "Bearer secret").body(Body::empty()).unwrap()
}

#[tokio::test]
async fn a_handler_that_panics_is_a_fault_of_the_server_with_its_cause_and_the_next_request_is_answered() {
    let router = guarded(Router::new().route("/panics", get(panics)).route("/fine", get(async || "fine")));
    let response = router.clone().oneshot(request("/panics")).await.unwrap();
    let refusal = response.extensions().get::<Refusal>().unwrap();
    assert_eq!(refusal.problem().code, codes::MF0909.id());
    assert_eq!(refusal.cause(), Some("a handler panicked: an index of 7"));
    assert_eq!(router.oneshot(request("/fine")).await.unwrap().status(), 200);
}

#[tokio::test]
async fn debug_output_of_a_request_shows_no_token() {
    let shows = async |headers: HeaderMap| format!("{headers:?}");
    let router = guarded(Router::new().route("/", get(shows)));
    let response = router.oneshot(request("/")).await.unwrap();
    let text = axum::body::to_bytes(response.into_body(), 1_000).await.unwrap();
    assert_eq!(String::from_utf8(text.to_vec()).unwrap(), r#"{"authorization": Sensitive}"#);
}
