//! Requests as no client sends them, over real sockets: what may be understood in two ways is refused. The probes of an outside
//! test against a node, with what they came to.

use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::{Open, bearer};

/// What the server says until it closes, or says nothing for a while.
async fn said(open: &Open, request: &[u8]) -> String {
    let mut stream = TcpStream::connect(open.address).await.unwrap();
    stream.write_all(request).await.unwrap();
    let mut all = Vec::new();
    let mut piece = [0; 4096];
    while let Ok(Ok(read @ 1..)) =
        tokio::time::timeout(Duration::from_millis(300), stream.read(&mut piece)).await
    {
        all.extend_from_slice(&piece[..read]);
    }
    String::from_utf8(all).unwrap()
}

/// The statuses of all answers.
fn statuses(said: &str) -> Vec<u16> {
    let heads = said.match_indices("HTTP/1.1 ").map(|(at, start)| &said[at + start.len()..]);
    heads.map(|head| head[..3].parse().unwrap()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_that_is_missing_doubled_invalid_or_contradicted_is_refused() {
    let open = Open::new().await;
    for (name, target, hosts, wanted) in [
        ("one", "/healthz", "host: a.example:80\r\n", 200),
        ("an address", "/healthz", "host: [::1]:7800\r\n", 200),
        ("none", "/healthz", "", 400),
        ("two", "/healthz", "host: a\r\nhost: b\r\n", 400),
        ("twice the same", "/healthz", "host: a\r\nhost: a\r\n", 400),
        ("userinfo", "/healthz", "host: a@b\r\n", 400),
        ("empty", "/healthz", "host: \r\n", 400),
        ("a list", "/healthz", "host: a, b\r\n", 400),
        ("a port that is none", "/healthz", "host: a:99999\r\n", 400),
        ("a path", "/healthz", "host: a/b\r\n", 400),
        ("a target with the same", "http://a/healthz", "host: a\r\n", 200),
        ("a target with another", "http://evil.example/healthz", "host: a\r\n", 400),
    ] {
        let head = format!("GET {target} HTTP/1.1\r\n{hosts}\r\n");
        let said = said(&open, head.as_bytes()).await;
        assert_eq!(statuses(&said), [wanted], "{name}: {said}");
        assert!(wanted == 200 || said.contains("MF0821"), "{name}: {said}");
    }
    // What speaks HTTP/1.0 need not name one; what it names must be one.
    assert!(said(&open, b"GET /healthz HTTP/1.0\r\n\r\n").await.contains("alive"));
    assert!(said(&open, b"GET /healthz HTTP/1.0\r\nhost: a@b\r\n\r\n").await.contains("MF0821"));
    open.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn http_2_names_one_host_as_well() {
    let open = Open::new().await;
    let stream = TcpStream::connect(open.address).await.unwrap();
    let io = hyper_util::rt::TokioIo::new(stream);
    let executor = hyper_util::rt::TokioExecutor::new();
    let (mut sender, connection) = hyper::client::conn::http2::handshake(executor, io).await.unwrap();
    tokio::spawn(connection);
    for (host, wanted) in [(None, 200), (Some("a.example"), 200), (Some("A.example"), 200), (Some("b"), 400)]
    {
        let mut request = http::Request::get("http://a.example/healthz");
        if let Some(host) = host {
            request = request.header("host", host);
        }
        let request = request.body(http_body_util::Empty::<bytes::Bytes>::new()).unwrap();
        let answer = sender.send_request(request).await.unwrap();
        assert_eq!(answer.status().as_u16(), wanted, "{host:?}");
    }
    open.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn methods_that_are_not_taken_are_refused_and_say_which_are() {
    let open = Open::new().await;
    for (method, wanted) in [
        ("GET", 404),
        ("DELETE", 404),
        ("OPTIONS", 404),
        ("TRACE", 405),
        ("FOO", 501),
        ("post", 501),
        ("PROPFIND", 501),
    ] {
        let bearer = bearer();
        let head = format!(
            "{method} /f/acme/hello HTTP/1.1\r\nhost: a\r\nauthorization: {bearer}\r\ncontent-length: 0\r\n\r\n"
        );
        let said = said(&open, head.as_bytes()).await;
        assert_eq!(statuses(&said), [wanted], "{method}: {said}");
        if wanted != 404 {
            assert!(said.contains("allow: GET, HEAD, POST") && said.contains("MF0822"), "{method}: {said}");
        }
    }
    let tunnel = said(&open, b"CONNECT 127.0.0.1:5432 HTTP/1.1\r\nhost: 127.0.0.1:5432\r\n\r\n").await;
    assert_eq!(statuses(&tunnel), [405], "{tunnel}");
    open.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn codings_that_stack_or_are_not_known_are_refused() {
    let open = Open::new().await;
    let post = format!("POST /f/acme/hello HTTP/1.1\r\nhost: a\r\nauthorization: {}\r\n", bearer());
    let chunks = "3\r\nhey\r\n0\r\n\r\n";
    // A second request behind it: served only if both readers agree where it begins.
    let next = "GET /healthz HTTP/1.1\r\nhost: a\r\n\r\n";
    for (name, headers, wanted) in [
        ("one", "transfer-encoding: chunked\r\n", vec![404, 200]),
        ("one, odd case", "transfer-encoding: ChUnKeD\r\n", vec![404, 200]),
        ("compressed, too", "transfer-encoding: gzip, chunked\r\n", vec![501]),
        ("two lines", "transfer-encoding: gzip\r\ntransfer-encoding: chunked\r\n", vec![501]),
        ("twice", "transfer-encoding: chunked,chunked\r\n", vec![501]),
        ("identity, too", "transfer-encoding: identity, chunked\r\n", vec![501]),
        ("content, compressed", "content-encoding: gzip\r\ntransfer-encoding: chunked\r\n", vec![415, 200]),
        ("content, as it is", "content-encoding: identity\r\ntransfer-encoding: chunked\r\n", vec![404, 200]),
    ] {
        let request = format!("{post}{headers}\r\n{chunks}{next}");
        let said = said(&open, request.as_bytes()).await;
        assert_eq!(statuses(&said), wanted, "{name}: {said}");
        assert!(wanted[0] == 404 || said.contains("MF0823"), "{name}: {said}");
        assert!(wanted[0] != 415 || said.contains("accept-encoding: identity"), "{name}: {said}");
    }
    // hyper itself refuses what has no end, or two of them.
    for headers in ["transfer-encoding: xchunked\r\n", "transfer-encoding: chunked, identity\r\n"] {
        let request = format!("{post}{headers}\r\n{chunks}{next}");
        assert_eq!(statuses(&said(&open, request.as_bytes()).await), [400], "{headers}");
    }
    open.close().await;
}
