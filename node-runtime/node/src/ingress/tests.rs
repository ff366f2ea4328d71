#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod attacks;
mod crowds;
mod heads;
mod revoked;

use std::net::SocketAddr;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use futures::FutureExt as _;
use http::{HeaderMap, HeaderValue, StatusCode, Version, header};
use http_body_util::BodyExt as _;
use hyper::body::Body as _;
use metrics_exporter_prometheus::PrometheusBuilder;
use mfaas_abi::{Status, frame, limits};
use mfaas_attest::PrivateKey;
use mfaas_dispatch::{Limits, Outcome, Refusal};
use mfaas_ident::Access;
use mfaas_ring::Completion;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::callers;
use super::listener::{HEAD_BYTES_MAX, HEADERS_MAX};
use super::response::Response;
use super::{Bounds, Callers, Face, Hosts, Peers, headers, refused, serve};
use crate::agent::testing::key;
use crate::limiter::Share;
use crate::logs::LogSink;
use crate::serving::{self, Answered, CallError, Served, Used};

const BOTH: [Version; 2] = [Version::HTTP_11, Version::HTTP_2];

/// More than a test uses.
const SHARE: Share = Share { rate: 1_000_000, concurrency: 1_000_000 };

/// Signs the tokens of [`client`].
static KEY: LazyLock<PrivateKey> = LazyLock::new(|| PrivateKey::generate().unwrap());

fn face() -> Face {
    let face = new_face();
    face.dispatcher.route(&[]);
    face.dispatcher.note_whole();
    face.callers.hold(&[callers::tests::listed(&KEY)], &Arc::default());
    face
}

/// The face of a node that has just started.
fn new_face() -> Face {
    let prometheus = PrometheusBuilder::new().build_recorder().handle();
    let dispatcher = Arc::new(serving::alone(Limits::NODE, Arc::new(LogSink::default())).unwrap());
    Face::new(dispatcher, Some(prometheus), Arc::new(Callers::new(SHARE)))
}

/// Threads as a node has them; the test's own where it has one alone, since it may have stopped the clock.
fn hosts() -> Hosts {
    match Handle::current().runtime_flavor() {
        RuntimeFlavor::CurrentThread => Hosts::here(),
        _ => Hosts::start(2).unwrap(),
    }
}

/// The ingress of a node that serves an empty set, on a port of its own.
struct Open {
    address: SocketAddr,
    stop: watch::Sender<bool>,
    task: JoinHandle<()>,
}

impl Open {
    async fn new() -> Self {
        Self::of(face(), hosts(), Bounds::node()).await
    }

    async fn on(hosts: Hosts) -> Self {
        Self::of(face(), hosts, Bounds::node()).await
    }

    async fn within(bounds: Bounds) -> Self {
        Self::of(face(), hosts(), bounds).await
    }

    async fn of(face: Face, hosts: Hosts, bounds: Bounds) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (stop, stopping) = watch::channel(false);
        let parts = (Arc::new(face), Peers::new(bounds));
        Self { address, stop, task: tokio::spawn(serve(listener, hosts, parts, stopping)) }
    }

    fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    async fn close(self) {
        self.stop.send_replace(true);
        tokio::time::timeout(Duration::from_secs(10), self.task).await.unwrap().unwrap();
    }
}

/// A client that speaks one version alone, and may call everything of `acme`.
/// What opens everything of `acme`.
fn bearer() -> String {
    format!("Bearer {}", callers::tests::token(&KEY, "acme", &["*"], |_| ()))
}

fn client(version: Version) -> reqwest::Client {
    let bearer = HeaderValue::try_from(bearer()).unwrap();
    of_version(version)
        .default_headers(HeaderMap::from_iter([(header::AUTHORIZATION, bearer)]))
        .build()
        .unwrap()
}

/// A client that nobody knows.
fn stranger(version: Version) -> reqwest::Client {
    of_version(version).build().unwrap()
}

fn of_version(version: Version) -> reqwest::ClientBuilder {
    // Whether this or another test was first.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let builder = reqwest::Client::builder().tls_certs_only([]).no_proxy();
    if version == Version::HTTP_2 { builder.http2_prior_knowledge() } else { builder.http1_only() }
}

/// Status, headers and text of an answer in that version.
async fn ask(request: reqwest::RequestBuilder, version: Version) -> (StatusCode, HeaderMap, String) {
    let response = request.send().await.unwrap();
    assert_eq!(response.version(), version);
    (response.status(), response.headers().clone(), response.text().await.unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_without_a_set_lives_but_is_not_ready_and_knows_no_name_yet() {
    let open = Open::of(new_face(), hosts(), Bounds::node()).await;
    for version in BOTH {
        let client = client(version);
        let status = async |path| ask(client.get(open.url(path)), version).await.0;
        assert_eq!(status("/healthz").await, StatusCode::OK);
        assert_eq!(status("/readyz").await, StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(status("/metrics").await, StatusCode::OK);
        let (called, headers, body) = ask(client.get(open.url("/f/acme/hello")), version).await;
        assert_eq!(
            (called, &headers[header::RETRY_AFTER]),
            (StatusCode::SERVICE_UNAVAILABLE, &"1".parse().unwrap())
        );
        assert!(body.contains("\"code\":\"MF0820\""), "{body}");
        assert_eq!(status("/f/ACME/hello").await, StatusCode::NOT_FOUND, "no name at all");
        let posted = ask(client.post(open.url("/healthz")), version).await;
        assert_eq!(posted.0, StatusCode::METHOD_NOT_ALLOWED);
        assert_eq!(posted.1[header::ALLOW], "GET,HEAD");
        let (status, _, body) = ask(client.head(open.url("/healthz")), version).await;
        assert_eq!((status, body.as_str()), (StatusCode::OK, ""));
    }
    open.close().await;
}

/// It serves functions as they come, and balancers leave it alone until all were tried.
#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_is_loading_its_first_set_is_not_ready() {
    let face = new_face();
    face.dispatcher.route(&[]);
    face.callers.hold(&[], &Arc::default());
    let dispatcher = Arc::clone(&face.dispatcher);
    let open = Open::of(face, hosts(), Bounds::node()).await;
    let client = client(Version::HTTP_11);
    let ready = async || ask(client.get(open.url("/readyz")), Version::HTTP_11).await;
    let (status, _, body) = ready().await;
    assert_eq!(
        (status, body.as_str()),
        (StatusCode::SERVICE_UNAVAILABLE, "the first serving set is being loaded\n")
    );
    let stranger = stranger(Version::HTTP_11);
    let call = async || ask(stranger.get(open.url("/f/acme/hello")), Version::HTTP_11).await;
    let (status, headers, body) = call().await;
    assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE, "it may be public, and on its way: {body}");
    assert!(body.contains("\"code\":\"MF0820\"") && headers.contains_key(header::RETRY_AFTER), "{body}");
    dispatcher.note_whole();
    assert_eq!(ready().await.0, StatusCode::OK);
    assert_eq!(call().await.0, StatusCode::UNAUTHORIZED, "all was tried");
    open.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_served_is_one_and_the_same_answer_and_what_is_no_name_a_404() {
    let open = Open::new().await;
    for version in BOTH {
        let client = stranger(version);
        for (path, wanted, code) in [
            ("/f/acme/hello", StatusCode::UNAUTHORIZED, "MF0816"),
            ("/f/acme/hello@7", StatusCode::UNAUTHORIZED, "MF0816"),
            ("/f/acme/hello@0", StatusCode::NOT_FOUND, "MF0801"),
            ("/f/ACME/hello", StatusCode::NOT_FOUND, "MF0801"),
            ("/f/acme/..%2f", StatusCode::NOT_FOUND, "MF0801"),
            ("/f/acme/a@b@c", StatusCode::NOT_FOUND, "MF0801"),
            ("/f/", StatusCode::NOT_FOUND, "MF0801"),
            ("/x", StatusCode::NOT_FOUND, "MF0801"),
        ] {
            let (status, headers, body) = ask(client.get(open.url(path)), version).await;
            assert_eq!(status, wanted, "{path}");
            assert!(body.contains(&format!("\"code\":\"{code}\"")), "{path}: {body}");
            let challenge = headers.get(header::WWW_AUTHENTICATE).map(|value| value.as_bytes());
            assert_eq!(challenge, (code == "MF0816").then_some(&b"Bearer"[..]), "{path}");
        }
    }
    open.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_of_more_than_a_mebibyte_is_refused() {
    let open = Open::new().await;
    for version in BOTH {
        let request = client(version).post(open.url("/f/acme/hello"));
        let (status, headers, body) =
            ask(request.body(vec![b'x'; limits::BODY_BYTES_MAX + 1]), version).await;
        assert_eq!(status, StatusCode::PAYLOAD_TOO_LARGE);
        assert!(body.contains("MF0809"));
        assert_eq!(headers[header::CONTENT_TYPE], "application/problem+json");
        assert_eq!(headers[header::X_CONTENT_TYPE_OPTIONS], "nosniff");
        assert_eq!(headers[header::CONTENT_SECURITY_POLICY], "sandbox");
        let whole = client(version).post(open.url("/f/acme/hello"));
        let (status, ..) = ask(whole.body(vec![b'x'; limits::BODY_BYTES_MAX]), version).await;
        assert_eq!(status, StatusCode::NOT_FOUND, "as large as it may be");
    }
    open.close().await;
}

/// To close with bytes unread would reset the connection while the caller still writes.
#[tokio::test(flavor = "multi_thread")]
async fn a_caller_who_sends_on_after_a_refusal_reads_why() {
    let open = Open::new().await;
    let length = 4 * limits::BODY_BYTES_MAX;
    let mut stream = TcpStream::connect(open.address).await.unwrap();
    let head = format!(
        "POST /f/acme/hello HTTP/1.1\r\nhost: node\r\nauthorization: {}\r\ncontent-length: {length}\r\n\r\n",
        bearer()
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    stream.readable().await.unwrap();
    for _ in 0..16 {
        stream.write_all(&vec![b'x'; length / 16]).await.unwrap();
    }
    let mut answer = String::new();
    tokio::time::timeout(Duration::from_secs(10), stream.read_to_string(&mut answer)).await.unwrap().unwrap();
    assert!(answer.starts_with("HTTP/1.1 413 ") && answer.contains("MF0809"), "{answer}");
    open.close().await;
}

/// A body whose length nobody said beforehand.
#[tokio::test(flavor = "multi_thread")]
async fn a_body_in_pieces_is_bounded_as_well() {
    let open = Open::new().await;
    for (pieces, wanted) in [(16, StatusCode::NOT_FOUND), (17, StatusCode::PAYLOAD_TOO_LARGE)] {
        for version in BOTH {
            let piece = vec![b'x'; limits::BODY_BYTES_MAX / 16];
            let whole = vec![piece; pieces].into_iter().map(Ok::<_, std::io::Error>);
            let body = reqwest::Body::wrap_stream(futures::stream::iter(whole));
            let request = client(version).post(open.url("/f/acme/hello")).body(body);
            assert_eq!(ask(request, version).await.0, wanted, "{pieces} pieces, {version:?}");
        }
    }
    open.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_connection_carries_many_requests() {
    let open = Open::new().await;
    for version in BOTH {
        let client = client(version);
        // More than may be on their way at once: the others wait for the first.
        let asked: Vec<_> = (0..300)
            .map(|number| {
                tokio::spawn(ask(client.get(open.url(&format!("/f/acme/hello@{number}"))), version))
            })
            .collect();
        for answer in asked {
            assert_eq!(answer.await.unwrap().0, StatusCode::NOT_FOUND);
        }
    }
    open.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_head_beyond_its_limits_is_refused() {
    let open = Open::new().await;
    for version in BOTH {
        let client = client(version);
        let large =
            client.get(open.url("/healthz")).header("x-large", "x".repeat(3 * HEAD_BYTES_MAX as usize));
        // HTTP/2 may also end the stream: the head is not taken in either case.
        match large.send().await {
            Ok(response) => assert_eq!(response.status(), StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE),
            Err(error) => assert_eq!(version, Version::HTTP_2, "{error}"),
        }
        assert_eq!(ask(client.get(open.url("/healthz")), version).await.0, StatusCode::OK);
    }
    open.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn more_headers_than_the_limit_are_refused() {
    let open = Open::new().await;
    let client = client(Version::HTTP_11);
    for (more, wanted) in
        [(HEADERS_MAX - 10, StatusCode::OK), (HEADERS_MAX + 1, StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE)]
    {
        let request = (0..more).fold(client.get(open.url("/healthz")), |request, number| {
            request.header(format!("x-{number}"), "1")
        });
        assert_eq!(ask(request, Version::HTTP_11).await.0, wanted, "{more}");
    }
    open.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_on_threads_of_their_own_are_served_and_ended() {
    let open = Open::on(Hosts::start(2).unwrap()).await;
    for version in BOTH {
        for _ in 0..4 {
            // A client of its own, and with it a connection.
            let answer = ask(client(version).get(open.url("/healthz")), version).await;
            assert_eq!(answer.0, StatusCode::OK);
        }
    }
    open.close().await;
}

#[test]
fn a_function_sees_the_host_by_either_version() {
    let mut headers = HeaderMap::new();
    assert_eq!(headers::host(&headers, Some("node.example:7800")), Some(("host", "node.example:7800")));
    headers.insert(header::HOST, HeaderValue::from_static("said"));
    assert_eq!(headers::host(&headers, Some("said")), None, "it is among the headers");
}

fn completed(status: Status, response: Vec<u8>) -> Completion {
    Completion {
        call_id: 1,
        status,
        cold: true,
        waits: false,
        refusal: 0,
        response,
        logs: Vec::new(),
        message: Vec::new(),
        inline: Vec::new(),
        wall_ns: 1_500_000,
        cpu_ns: 0,
        memory_bytes: 0,
    }
}

fn answered(outcome: Outcome, completion: Option<Completion>) -> Response {
    let served = Arc::new(Served::for_test(mfaas_dispatch::FunctionId(1), key("hello", 3), Access::Public));
    let (queued, ran) = (Duration::from_micros(20), Duration::from_millis(2));
    face().answer_of(
        Answered { outcome, completion, served, queued, ran, used: Used::default() },
        Some("node.example"),
        &mut None,
    )
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
    for (outcome, wanted) in [
        (Outcome::Lost, 503),
        (Outcome::Overdue, 504),
        (Outcome::DeadlinePassed, 504),
        (Outcome::LoadFailed, 503),
        (Outcome::Withdrawn, 404),
    ] {
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
        (CallError::TooLarge, 413),
        (CallError::NotLoaded, 503),
        (CallError::Refused(Refusal::NotServed), 404),
        (CallError::Refused(Refusal::NotLoadable), 503),
        (CallError::Refused(Refusal::DeadlinePassed), 504),
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
        ("x-fn-own", "1"),
        ("x-accel-redirect", "/internal"),
        ("www-authenticate", "Basic"),
        ("accept-ch", "sec-ch-ua-model"),
        ("set-login", "logged-in"),
        ("origin-trial", "x"),
        ("use-as-dictionary", "match=\"/*\""),
        ("service-worker-allowed", "/"),
        ("access-control-allow-credentials", "true"),
        ("content-length", "99"),
        ("transfer-encoding", "chunked"),
        ("refresh", "0"),
        ("link", "</f/other/x>; rel=preload"),
    ];
    let mut response = answered(Outcome::Finished, Some(completed(Status::Ok, encoded(200, &said))));
    headers::harden(response.headers_mut());
    let headers = response.headers();
    assert_eq!(headers["mfaas-version"], "3");
    assert_eq!(headers["mfaas-start"], "cold");
    assert_eq!(headers["server-timing"], "queue;dur=0.020, run;dur=1.5000");
    assert_eq!(headers["content-security-policy"], "sandbox");
    assert_eq!(headers["content-type"], "text/html");
    let passed = ["content-type", "x-fn-own"];
    let own = [
        "content-security-policy",
        "x-content-type-options",
        "mfaas-version",
        "mfaas-start",
        "server-timing",
    ];
    for name in headers.keys().map(http::HeaderName::as_str) {
        assert!(passed.contains(&name) || own.contains(&name), "{name}");
    }
    assert_eq!(headers.len(), passed.len() + own.len());
}

#[test]
fn where_there_is_no_body_none_is_sent() {
    for (status, bytes) in [(200, 4), (204, 0), (205, 0), (304, 0), (206, 4)] {
        let mut response = answered(Outcome::Finished, Some(completed(Status::Ok, encoded(status, &[]))));
        assert_eq!(response.status().as_u16(), status);
        assert_eq!(response.body().size_hint().exact(), Some(bytes), "{status}");
        assert_eq!(response.body().is_end_stream(), bytes == 0, "{status}");
        assert_eq!(response.body_mut().frame().now_or_never().unwrap().is_some(), bytes > 0, "{status}");
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
