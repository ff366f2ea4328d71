#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, Once};

use axum::extract::{ConnectInfo, Request as Received, State};
use axum::response::{AppendHeaders, IntoResponse, Response};
use mfaas_abi::frame::encode_headers;
use tempfile::TempDir;
use tokio::net::TcpListener;

use reqwest::header::HeaderName;

use super::*;

mod rebinding;
mod tls;

const KEY: &str = "key-of-the-site-0123";

/// A server on this machine, and how many requests it has had.
struct TestServer {
    address: SocketAddr,
    requests: Arc<AtomicUsize>,
}

impl TestServer {
    async fn start() -> Self {
        Self::at(Ipv4Addr::LOCALHOST.into(), 0).await
    }

    async fn at(address: IpAddr, port: u16) -> Self {
        let requests = Arc::<AtomicUsize>::default();
        let listener = TcpListener::bind((address, port)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let state = (Arc::clone(&requests), Arc::<Mutex<String>>::default());
        let router = axum::Router::new().fallback(answer).with_state(state);
        let service = router.into_make_service_with_connect_info::<SocketAddr>();
        tokio::spawn(async move { axum::serve(listener, service).await });
        Self { address, requests }
    }
}

/// What a path asks for; most tell what they were sent.
async fn answer(
    ConnectInfo(peer): ConnectInfo<SocketAddr>,
    State((requests, kept)): State<(Arc<AtomicUsize>, Arc<Mutex<String>>)>,
    request: Received,
) -> Response {
    requests.fetch_add(1, Ordering::Relaxed);
    let (head, body) = request.into_parts();
    let body = axum::body::to_bytes(body, usize::MAX).await.unwrap();
    let sent = |name: &str| head.headers.get(name).map(|value| value.to_str().unwrap().to_owned());
    match head.uri.path() {
        "/headers" => format!("{:?}", head.headers).into_response(),
        "/in-header" => [("x-you-sent", sent("authorization").unwrap_or_default())].into_response(),
        "/compressed" => [("content-encoding", "gzip")].into_response(),
        "/redirect" => (axum::http::StatusCode::FOUND, [("location", "/elsewhere")]).into_response(),
        "/many-headers" => {
            let mut response = Response::default();
            for number in 0..65 {
                response
                    .headers_mut()
                    .append(HeaderName::try_from(format!("x-{number}")).unwrap(), "1".parse().unwrap());
            }
            response
        }
        "/bytes" => vec![b'x'; head.uri.query().unwrap().parse().unwrap()].into_response(),
        "/part" => axum::http::StatusCode::PARTIAL_CONTENT.into_response(),
        "/keep" => {
            *kept.lock().unwrap() = sent("authorization").unwrap_or_default();
            Response::default()
        }
        "/kept" => kept.lock().unwrap().clone().into_response(),
        "/length" => {
            let sent = sent("authorization").unwrap_or_default();
            sent.split_once(' ')
                .map_or(sent.clone(), |(scheme, rest)| format!("{scheme} + {}", rest.len()))
                .into_response()
        }
        "/peer" => peer.port().to_string().into_response(),
        "/closes" => [("connection", "close")].into_response(),
        "/never" => std::future::pending().await,
        path => {
            let trace = sent("traceparent").unwrap_or_default();
            let answer = format!("{} {path} {:?} {} {trace}", head.method, head.uri.query(), body.len());
            (AppendHeaders([("x-kind", "test"), ("x-kind", "second")]), answer).into_response()
        }
    }
}

/// The TLS provider of this process, which makes clients.
fn provider() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| mfaas_startup::install_tls_provider().unwrap());
}

/// What a file says, and its directory, in which the secret `key` lies.
fn open(text: &str) -> Result<(Outbound, TempDir), OutboundError> {
    provider();
    let directory = tempfile::tempdir().unwrap();
    let file = |name| directory.path().join(name);
    std::fs::write(file("key"), format!("{KEY}\n")).unwrap();
    std::fs::write(file("http.toml"), text).unwrap();
    Ok((Outbound::open(&file("http.toml"))?, directory))
}

/// A table of the file: the server, by this name.
fn at(server: &TestServer, name: &str) -> String {
    let address = server.address;
    format!("[http.{name}]\norigin = \"http://{address}\"\ncleartext = true\nnetworks = [\"127.0.0.0/8\"]\n")
}

/// One server, which may have the secret `key`.
fn over(server: &TestServer) -> (Outbound, TempDir) {
    let text = at(server, "api") + "[secret.key]\nfile = \"key\"\nhttp = [\"api\"]\n";
    open(&text).unwrap()
}

/// What a function asks for.
struct Asked {
    method: &'static str,
    path: String,
    headers: Vec<(&'static str, &'static str)>,
    secrets: Vec<ResourceName>,
    body: usize,
}

impl Asked {
    fn get(path: impl Into<String>) -> Self {
        Self { method: "GET", path: path.into(), headers: vec![], secrets: vec![], body: 0 }
    }

    /// With the secret of this name.
    fn with(secret: &str, path: &str) -> Self {
        Self { secrets: vec![secret.parse().unwrap()], ..Self::get(path) }
    }

    async fn of(self, outbound: &Outbound) -> Result<Answer, SendError> {
        self.for_tenant(outbound, "acme").await
    }

    async fn for_tenant(self, outbound: &Outbound, tenant: &str) -> Result<Answer, SendError> {
        let mut bytes = Vec::new();
        let count = encode_headers(&mut bytes, self.headers).unwrap();
        let request = Request {
            tenant: &tenant.parse().unwrap(),
            method: self.method,
            path: &self.path,
            headers: Headers::decode(count, &bytes).unwrap(),
            secrets: &self.secrets,
            trace: Some("00-trace".to_owned()),
            body: vec![b'x'; self.body].into(),
        };
        let server = "api".parse().unwrap();
        outbound.send(outbound.prepare(&server, request)?).await
    }
}

fn text(answer: &Answer) -> &str {
    std::str::from_utf8(&answer.body).unwrap()
}

#[tokio::test]
async fn a_server_hears_what_was_asked_and_answers() {
    let server = TestServer::start().await;
    let (outbound, _directory) = over(&server);
    for method in ["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"] {
        let body = if method == "GET" { 0 } else { 5_000 };
        let answer = Asked { method, body, ..Asked::get("/a/b?c=d%20e&f") }.of(&outbound).await.unwrap();
        assert_eq!(
            (answer.status, text(&answer)),
            (200, &*format!("{method} /a/b Some(\"c=d%20e&f\") {body} 00-trace"))
        );
        let kinds: Vec<_> =
            answer.headers.iter().filter(|(name, _)| name == "x-kind").map(|(_, value)| value).collect();
        assert_eq!(kinds, ["test", "second"]);
        assert!(answer.headers.iter().all(|(name, _)| name != "content-length"));
    }
    let answer = Asked { headers: vec![("traceparent", "00-own"), ("x-a", "b")], ..Asked::get("/headers") };
    let answer = answer.of(&outbound).await.unwrap();
    for sent in [
        "\"traceparent\": \"00-own\"",
        "\"x-a\": \"b\"",
        "\"accept-encoding\": \"identity\"",
        "\"user-agent\": \"mfaas\"",
    ] {
        assert!(text(&answer).contains(sent), "{sent}: {}", text(&answer));
    }
    let head = Asked { method: "HEAD", ..Asked::get("/bytes?1000") }.of(&outbound).await.unwrap();
    assert_eq!((head.status, head.body.len()), (200, 0));
}

#[tokio::test]
async fn a_redirect_is_an_answer() {
    let server = TestServer::start().await;
    let (outbound, _directory) = over(&server);
    let answer = Asked::get("/redirect").of(&outbound).await.unwrap();
    assert_eq!(answer.status, 302);
    assert!(answer.headers.contains(&("location".to_owned(), "/elsewhere".to_owned())));
    assert_eq!(server.requests.load(Ordering::Relaxed), 1);
}

#[tokio::test]
async fn what_may_not_be_asked_is_not_sent() {
    let server = TestServer::start().await;
    let (outbound, _directory) = over(&server);
    let refused = async |asked: Asked| match asked.of(&outbound).await {
        Err(SendError::Request(wrong)) => wrong,
        other => panic!("{other:?}"),
    };
    for path in ["", "a", "http://other/", "/a\\b", "/a#b"] {
        refused(Asked::get(path)).await;
    }
    for method in ["GET", "HEAD"] {
        refused(Asked { method, body: 1, ..Asked::get("/") }).await;
    }
    for method in ["TRACE", "CONNECT", "get", ""] {
        refused(Asked { method, ..Asked::get("/") }).await;
    }
    for name in crate::reserved::EXAMPLES
        .iter()
        .chain(&["x-forwarded-for", "x_forwarded_for", "transfer_encoding"])
        .copied()
    {
        assert!(refused(Asked { headers: vec![(name, "x")], ..Asked::get("/") }).await.contains(name));
    }
    assert_eq!(server.requests.load(Ordering::Relaxed), 0);
    // What looks like another host is a path.
    assert_eq!(text(&Asked::get("//other/x").of(&outbound).await.unwrap()), "GET //other/x None 0 00-trace");
    assert_eq!(text(&Asked::get("/@other/../x").of(&outbound).await.unwrap()), "GET /x None 0 00-trace");
}

#[tokio::test]
async fn an_answer_is_bounded() {
    let server = TestServer::start().await;
    let (outbound, _directory) = over(&server);
    let most = Asked::get("/bytes?1048576").of(&outbound).await.unwrap();
    assert_eq!(most.body.len(), 1 << 20);
    for path in ["/bytes?1048577", "/many-headers"] {
        let answer = Asked::get(path).of(&outbound).await;
        assert!(matches!(answer, Err(SendError::TooLong { .. })), "{path}: {answer:?}");
    }
}

#[tokio::test]
async fn a_server_that_is_not_there_has_not_answered() {
    let server = TestServer::start().await;
    let gone = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let (outbound, _directory) = over(&TestServer { address: gone, requests: Arc::default() });
    let answer = Asked::get("/").of(&outbound).await;
    assert!(
        matches!(answer, Err(SendError::Unanswered { why: "it cannot be connected to", .. })),
        "{answer:?}"
    );
    let (_, directory) = over(&server);
    let outbound = Outbound::within(&directory.path().join("http.toml"), Duration::from_millis(100)).unwrap();
    let since = std::time::Instant::now();
    let answer = Asked::get("/never").of(&outbound).await;
    assert!(since.elapsed() < Duration::from_secs(20));
    assert!(
        matches!(answer, Err(SendError::Unanswered { why: "it has taken longer than 30 s", .. })),
        "{answer:?}"
    );
}

/// A server that keeps what it is sent, and shows it to whoever asks.
#[tokio::test]
async fn a_secret_reaches_its_server_and_no_function() {
    let server = TestServer::start().await;
    let (outbound, directory) = over(&server);
    assert_eq!(Asked::with("key", "/ok").of(&outbound).await.unwrap().status, 200);
    for path in ["/headers", "/in-header", "/compressed", "/part"] {
        let answer = Asked::with("key", path).of(&outbound).await;
        assert!(matches!(answer, Err(SendError::ShowsSecret(_))), "{path}: {answer:?}");
    }
    // Also where another request has brought it there.
    let keeps = Asked { method: "PUT", ..Asked::with("key", "/keep") };
    assert_eq!(keeps.of(&outbound).await.unwrap().status, 200);
    let kept = Asked::get("/kept").of(&outbound).await;
    assert!(matches!(kept, Err(SendError::ShowsSecret(_))), "{kept:?}");
    // And when it has been replaced.
    std::fs::write(directory.path().join("key"), "another-value-of-the-key").unwrap();
    let kept = Asked::get("/kept").of(&outbound).await;
    assert!(matches!(kept, Err(SendError::ShowsSecret(_))), "{kept:?}");
    let part = Asked { headers: vec![("range", "bytes=0-3")], ..Asked::get("/ok") }.of(&outbound).await;
    assert!(matches!(part, Err(SendError::Request(_))), "{part:?}");
    // What a function writes there itself is replaced.
    let asked = Asked { headers: vec![("authorization", "mine")], ..Asked::with("key", "/in-header") };
    assert!(matches!(asked.of(&outbound).await, Err(SendError::ShowsSecret(_))));
}

/// Without the check it is there: of a server that has no secrets, nothing is withheld.
#[tokio::test]
async fn without_secrets_nothing_is_withheld() {
    let server = TestServer::start().await;
    let (outbound, _directory) = open(&at(&server, "api")).unwrap();
    let asked = |path: &str| Asked { headers: vec![("authorization", KEY)], ..Asked::get(path) };
    assert!(text(&asked("/headers").of(&outbound).await.unwrap()).contains(KEY));
    for path in ["/in-header", "/compressed", "/part"] {
        assert!(asked(path).of(&outbound).await.is_ok(), "{path}");
    }
    let part = Asked { headers: vec![("range", "bytes=0-3")], ..Asked::get("/ok") };
    assert!(part.of(&outbound).await.is_ok());
}

#[tokio::test]
async fn a_secret_is_sent_where_the_operator_says_and_as_it_is_then() {
    let server = TestServer::start().await;
    let of = |http: &str| {
        let servers = at(&server, "api") + &at(&server, "other");
        open(&format!("{servers}[secret.key]\nfile = \"key\"\nhttp = [\"{http}\"]\n")).unwrap()
    };
    let (outbound, _directory) = of("other");
    let elsewhere = Asked::with("key", "/").of(&outbound).await;
    assert!(matches!(elsewhere, Err(SendError::Elsewhere { .. })), "{elsewhere:?}");
    let (twice, _directory) = of("api");
    let asked = Asked { secrets: vec!["key".parse().unwrap(); 2], ..Asked::get("/") };
    let twice = asked.of(&twice).await;
    assert!(matches!(twice, Err(SendError::Request(_))), "{twice:?}");
    let unknown = Asked::with("none", "/").of(&outbound).await;
    assert!(matches!(unknown, Err(SendError::Unknown(_))), "{unknown:?}");
    assert_eq!(server.requests.load(Ordering::Relaxed), 0);
    let (outbound, directory) = of("api");
    let key = directory.path().join("key");
    std::fs::write(&key, "another-value-of-the-key\n").unwrap();
    assert_eq!(text(&Asked::with("key", "/length").of(&outbound).await.unwrap()), "Bearer + 24");
    std::fs::remove_file(&key).unwrap();
    for asked in [Asked::with("key", "/"), Asked::get("/")] {
        let unreadable = asked.of(&outbound).await;
        assert!(matches!(unreadable, Err(SendError::Unreadable(_))), "{unreadable:?}");
    }
}

/// Whatever one tenant sends stands before nothing of another one.
#[tokio::test]
async fn tenants_share_no_connection() {
    let server = TestServer::start().await;
    let (outbound, _directory) = over(&server);
    let peer = async |tenant: &str| {
        text(&Asked::get("/peer").for_tenant(&outbound, tenant).await.unwrap()).to_owned()
    };
    let (first, again, other) = (peer("acme").await, peer("acme").await, peer("evil").await);
    assert_eq!(first, again, "a tenant keeps its connection");
    assert_ne!(first, other);
}

#[test]
fn a_file_that_cannot_be_used_is_refused() {
    let server = |lines: &str| format!("[http.api]\n{lines}\n");
    for (text, says) in [
        ("http = 1".to_owned(), "invalid type"),
        (server(""), "origin"),
        (server("origin = \"https://a.example\"\nhosts = []"), "hosts"),
        (server("origin = \"a.example\""), "no URL"),
        (server("origin = \"ftp://a.example\""), "no scheme"),
        (server("origin = \"https://a.example/v1\""), "more than a scheme"),
        (server("origin = \"https://u:p@a.example\""), "more than a scheme"),
        (server("origin = \"http://a.example\""), "cleartext"),
        (server("origin = \"https://10.0.0.1\""), "networks"),
        (server("origin = \"https://[::1]\""), "networks"),
        (server("origin = \"https://0x7f.1\""), "networks"),
        (server("origin = \"https://a.example\"\nnetworks = [\"10.0.0.0\"]"), "networks"),
        (server("origin = \"https://a.example\"\nca_file = \"none.pem\""), "none.pem"),
        (server("origin = \"https://a.example\"\nca_file = \"key\""), "no certificate"),
        ("[secret.key]\nfile = \"key\"\nhttp = [\"api\"]".to_owned(), "no such table"),
        ("[secret.key]\nfile = \"key\"".to_owned(), "http"),
        ("[secret.key]\nfile = \"none\"\nhttp = []".to_owned(), "none"),
        ("[secret.key]\nfile = \"http.toml\"\nhttp = []".to_owned(), "one line"),
        ("[secret.key]\nfile = \"key\"\nhttp = []\nuser = \"a:b\"".to_owned(), "no `:`"),
        ("[http.\"A b\"]\norigin = \"https://a.example\"".to_owned(), "A b"),
    ] {
        let error = open(&text).unwrap_err().to_string();
        assert!(error.contains(says), "{text:?}: {error}");
    }
    for text in [
        String::new(),
        server("origin = \"https://a.example\""),
        server("origin = \"https://a.example:8443/\""),
        server("origin = \"http://10.0.0.1:80\"\ncleartext = true\nnetworks = [\"10.0.0.1/32\"]"),
        server("origin = \"https://1.1.1.1\""),
    ] {
        assert!(open(&text).is_ok(), "{text:?}: {:?}", open(&text));
    }
}
