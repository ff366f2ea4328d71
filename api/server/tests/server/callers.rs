//! Callers that send slowly, nothing, or too much, and those who want an answer meanwhile.

use std::time::Duration;

use futures::future::join_all;
use mfaas_ident::Scope;
use mfaas_server::limits::{Bounds, Deadlines};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::nodes::joined;
use crate::support::Server;

/// As many as the server works on at once.
const SLOW_SENDERS: usize = 256;
/// Within this a machine under load closes what was due after a second; a connection that nobody closes outlives it.
const CLOSED_WITHIN: Duration = Duration::from_secs(60);
/// What no test waits for.
const LONG: Duration = Duration::from_secs(3_600);
const SHORT: Duration = Duration::from_secs(1);

/// Deadlines that do not pass while a test runs, but for those that it names.
const PATIENT: Deadlines = Deadlines {
    handshake: LONG,
    first_request: LONG,
    head: LONG,
    idle: LONG,
    body_pause: LONG,
    body: LONG,
    anonymous_body: LONG,
    upload: LONG,
    work: LONG,
};

async fn server(deadlines: Deadlines) -> Server {
    Server::start_as(&[], |config| config.deadlines = deadlines).await
}

/// Host and port of the HTTP listener.
fn address(server: &Server) -> String {
    server.url("").trim_start_matches("http://").to_owned()
}

/// A connection on which these bytes are sent and nothing more.
async fn sender(address: &str, bytes: &[u8]) -> TcpStream {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(bytes).await.unwrap();
    stream
}

/// Whether it is open, and nothing has come yet.
fn is_waiting(stream: &TcpStream) -> bool {
    stream.try_read(&mut [0; 1]).is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock)
}

/// What comes until the server closes the connection.
async fn until_closed(mut stream: impl tokio::io::AsyncRead + Unpin) -> String {
    let mut answer = Vec::new();
    // A reset is a way to close, too.
    let closed = timeout(CLOSED_WITHIN, stream.read_to_end(&mut answer)).await;
    assert!(closed.is_ok(), "the connection is still open: {}", String::from_utf8_lossy(&answer));
    String::from_utf8_lossy(&answer).into_owned()
}

/// The head of a form, and the beginning of the form.
fn half_a_sign_in(address: &str) -> String {
    format!(
        "POST /sign-in HTTP/1.1\r\nhost: {address}\r\ncontent-type: application/x-www-form-urlencoded\r\n\
         content-length: 1000\r\n\r\ntoken="
    )
}

/// The head of an upload, and the beginning of the upload.
fn half_an_upload(address: &str, token: &str) -> String {
    format!(
        "POST /v1/functions/hello/deployments HTTP/1.1\r\nhost: {address}\r\nauthorization: Bearer {token}\r\n\
         content-length: 1000\r\n\r\nhalf"
    )
}

#[tokio::test]
async fn slow_senders_keep_nobody_from_an_answer() {
    let server = server(PATIENT).await;
    let token = server.token("a", &[Scope::Read, Scope::Deploy]).await;
    let address = address(&server);
    let mut senders = Vec::new();
    for _ in 0..SLOW_SENDERS {
        senders.push(sender(&address, half_a_sign_in(&address).as_bytes()).await);
    }
    for path in ["/healthz", "/readyz", "/metrics"] {
        let answer = server.get(path, "").await;
        assert_eq!(answer.status, 200, "{path}: {answer:?}");
    }
    assert_eq!(server.get("/v1/functions", &token).await.status, 200);
    assert_eq!(server.upload("hello", &token, vec![1]).await.status, 202);
    let sign_in = server.request("POST", "/sign-in", "").form(&[("token", token.as_str())]);
    assert_eq!(server.send(sign_in).await.status, 303);
    // Meanwhile is what it was: none of them has an answer.
    assert!(senders.iter().all(is_waiting), "a sender is gone");
}

#[tokio::test]
async fn who_sends_nothing_or_half_a_beginning_is_closed() {
    let server = server(Deadlines { first_request: SHORT, ..PATIENT }).await;
    let address = address(&server);
    let beginnings: [&[u8]; 4] = [b"", b"G", b"PRI * HTTP/2.0\r\n\r\n", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"];
    // At the same time: each is closed by itself.
    let all = beginnings.map(async |bytes| (bytes, until_closed(sender(&address, bytes).await).await));
    for (bytes, said) in join_all(all).await {
        assert!(!said.starts_with("HTTP/1.1 200"), "{bytes:?}: {said}");
    }
    assert_eq!(server.get("/healthz", "").await.status, 200);
}

#[tokio::test]
async fn a_head_that_does_not_end_and_an_idle_connection_are_closed() {
    let quick = server(Deadlines { head: SHORT, ..PATIENT }).await;
    let idle = server(Deadlines { idle: SHORT, ..PATIENT }).await;
    let (quick, idle) = (address(&quick), address(&idle));
    let request = format!("GET /healthz HTTP/1.1\r\nhost: {idle}\r\n\r\n");
    let half = async { until_closed(sender(&quick, b"GET /healthz HTTP/1.1\r\nhost: loc").await).await };
    let whole = async { until_closed(sender(&idle, request.as_bytes()).await).await };
    let (_, said) = tokio::join!(half, whole);
    assert!(said.starts_with("HTTP/1.1 200"), "{said}");
}

#[tokio::test]
async fn a_body_that_comes_too_slowly_is_told_so() {
    let token_of = async |server: &Server| server.token("a", &[Scope::Deploy]).await;
    let (all, pause) =
        (Deadlines { anonymous_body: SHORT, ..PATIENT }, Deadlines { body_pause: SHORT, ..PATIENT });
    for deadlines in [all, pause] {
        let server = server(deadlines).await;
        let said =
            until_closed(sender(&address(&server), half_a_sign_in(&address(&server)).as_bytes()).await).await;
        assert!(said.starts_with("HTTP/1.1 408 ") && said.contains("MF0915"), "{said}");
    }
    let server = server(Deadlines { body: SHORT, ..PATIENT }).await;
    let (address, token) = (address(&server), token_of(&server).await);
    let head =
        half_an_upload(&address, &token).replace("POST", "PUT").replace("/deployments", "/aliases/live");
    let said = until_closed(sender(&address, head.as_bytes()).await).await;
    assert!(said.starts_with("HTTP/1.1 408 ") && said.contains("MF0915"), "{said}");
}

/// It never pauses, and is not done in time.
#[tokio::test]
async fn an_upload_has_a_time_in_all() {
    let server = server(Deadlines { upload: Duration::from_secs(2), ..PATIENT }).await;
    let token = server.token("a", &[Scope::Deploy]).await;
    let address = address(&server);
    let (reading, mut writing) =
        sender(&address, half_an_upload(&address, &token).as_bytes()).await.into_split();
    let dripping = tokio::spawn(async move {
        while writing.write_all(b".").await.is_ok() {
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    });
    let said = until_closed(reading).await;
    dripping.abort();
    assert!(said.starts_with("HTTP/1.1 408 ") && said.contains("MF0915"), "{said}");
    assert_eq!(server.db.sql("SELECT count(*) FROM deployments"), "0");
    assert_eq!(server.upload("hello", &token, vec![1]).await.status, 202, "its place is free again");
}

#[tokio::test]
async fn the_node_listener_closes_who_is_silent_with_and_without_tls() {
    let server = server(Deadlines { handshake: SHORT, first_request: SHORT, ..PATIENT }).await;
    let url = server.node_url("");
    let address = url.trim_start_matches("https://").to_owned();
    let without = async { until_closed(TcpStream::connect(&address).await.unwrap()).await };
    let with = ["h2", "http/1.1", ""].map(async |protocol| {
        let tls = without_certificate(&server, protocol);
        let name = rustls::pki_types::ServerName::try_from("localhost").unwrap();
        let stream = TcpStream::connect(&address).await.unwrap();
        until_closed(tls.connect(name, stream).await.unwrap()).await
    });
    let (said, _) = tokio::join!(without, join_all(with));
    assert_eq!(said, "", "before TLS");
}

/// To close with bytes unread would reset the connection while the client still writes.
#[tokio::test]
async fn a_client_that_sends_on_after_a_refusal_reads_why() {
    let server = server(PATIENT).await;
    let address = address(&server);
    let head = format!(
        "POST /v1/functions/hello/deployments HTTP/1.1\r\nhost: {address}\r\nauthorization: Bearer nobody\r\n\
         content-length: {}\r\n\r\n",
        8 << 20
    );
    let mut stream = sender(&address, head.as_bytes()).await;
    stream.readable().await.unwrap();
    for _ in 0..16 {
        stream.write_all(&vec![b'x'; 512 << 10]).await.unwrap();
    }
    let said = until_closed(stream).await;
    assert!(said.starts_with("HTTP/1.1 401 "), "{said}");
}

/// TLS of somebody who has no certificate, with one protocol or none.
fn without_certificate(server: &Server, protocol: &str) -> tokio_rustls::TlsConnector {
    use rustls::pki_types::pem::PemObject as _;
    let mut roots = rustls::RootCertStore::empty();
    let ca = std::fs::read(server.dir().join("tls/ca.pem")).unwrap();
    roots.add(rustls::pki_types::CertificateDer::from_pem_slice(&ca).unwrap()).unwrap();
    let mut config = rustls::ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
    config.alpn_protocols =
        [protocol].iter().filter(|name| !name.is_empty()).map(|name| name.as_bytes().to_vec()).collect();
    tokio_rustls::TlsConnector::from(std::sync::Arc::new(config))
}

#[tokio::test]
async fn the_oldest_idle_connection_makes_room_and_a_busy_one_does_not() {
    let bounds = Bounds { connections_max: 4, peer_connections_max: 3 };
    let change = |config: &mut mfaas_server::config::ServeConfig| {
        (config.http_bounds, config.deadlines) = (bounds, PATIENT);
    };
    let server = Server::start_as(&[], change).await;
    let token = server.token("a", &[Scope::Read, Scope::Deploy]).await;
    let address = address(&server);
    let health = format!("GET /healthz HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n");
    // Silent, or sending slowly what anybody may send: neither is worth more than a new connection.
    let (silent, slow) =
        (sender(&address, b"").await, sender(&address, half_a_sign_in(&address).as_bytes()).await);
    let third = sender(&address, b"").await;
    let answer = until_closed(sender(&address, health.as_bytes()).await).await;
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    assert_eq!(until_closed(silent).await, "", "the oldest is still open");
    drop((slow, third));
    // Uploads of a known caller are worked on: nobody is put out for a stranger. Before their heads are read they are
    // idle, too, so one may have to be begun again.
    let mut uploads: Vec<TcpStream> = Vec::new();
    let refused = async {
        loop {
            uploads.retain(is_waiting);
            while uploads.len() < bounds.peer_connections_max {
                uploads.push(sender(&address, half_an_upload(&address, &token).as_bytes()).await);
            }
            // A stranger who came at once would take the place of the one that was begun last, for ever.
            tokio::time::sleep(SHORT).await;
            let (mut stranger, mut said) = (sender(&address, b"").await, Vec::new());
            let read = timeout(SHORT, stranger.read_to_end(&mut said)).await;
            if read.is_ok() && !said.is_empty() {
                return String::from_utf8_lossy(&said).into_owned();
            }
        }
    };
    let said = timeout(CLOSED_WITHIN, refused).await.expect("the bound does not hold");
    assert!(said.starts_with("HTTP/1.1 429 ") && said.contains("MF0912"), "{said}");
}

/// Behind the name of the table is a view that counts who reads it.
const COUNTED: &str = "
    CREATE SEQUENCE scans;
    CREATE FUNCTION note() RETURNS boolean VOLATILE SECURITY DEFINER LANGUAGE sql
        AS $$ SELECT nextval('public.scans') > 0 $$;
    ALTER TABLE deployments RENAME TO hidden;
    CREATE VIEW deployments AS SELECT * FROM hidden WHERE note();
    GRANT SELECT ON deployments TO mfaas_server;";

#[tokio::test]
async fn numbers_are_not_counted_for_each_scrape() {
    for (life, scans) in [(LONG, "1"), (Duration::ZERO, "10")] {
        let server = Server::start_as(&[], |config| config.counts_life = life).await;
        let token = server.token("a", &[Scope::Deploy]).await;
        assert_eq!(server.upload("hello", &token, vec![1]).await.status, 202);
        server.db.sql(COUNTED);
        for _ in 0..10 {
            let numbers = server.get("/metrics", "").await;
            assert_eq!(numbers.status, 200);
            assert!(numbers.body.contains("mfaas_deployments{state="), "{}", numbers.body);
        }
        assert_eq!(server.db.sql("SELECT last_value FROM scans"), scans);
    }
}

/// A token of the right shape that nobody made.
fn made_up(number: usize) -> String {
    format!("mfaas_{number:032x}_{number:064x}")
}

/// Anybody can ask for a look-up, so whoever keeps asking for tokens that nobody made is not looked up; those who
/// have shown a good one go on, from the same address too.
#[tokio::test]
async fn made_up_tokens_of_one_peer_are_not_looked_up_for_ever() {
    let server = Server::start().await;
    let token = server.token("a", &[Scope::Read]).await;
    assert_eq!(server.get("/v1/whoami", &token).await.status, 200);
    let crowd = join_all((0..100).map(|number| {
        let request = server.request("GET", "/v1/whoami", &made_up(number));
        server.send(request)
    }));
    let (answers, known) = tokio::join!(crowd, server.get("/v1/whoami", &token));
    assert_eq!(known.status, 200, "a known caller pays for strangers: {known:?}");
    let refused: Vec<_> = answers.iter().filter(|answer| answer.status != 401).collect();
    assert!(!refused.is_empty(), "all were looked up");
    for answer in refused {
        let told = (answer.status, answer.code(), answer.header("retry-after"));
        assert_eq!(told, (429, "MF0912".to_owned(), "1"));
    }
    assert_eq!(server.get("/v1/whoami", &token).await.status, 200);
    tokio::time::sleep(2 * SHORT).await;
    assert_eq!(server.get("/v1/whoami", &made_up(1)).await.status, 401, "a moment later it is asked again");
}

/// Nodes and people are looked up in different tables; who waits for the one does not keep up the other.
#[tokio::test(flavor = "multi_thread")]
async fn nodes_do_not_wait_for_the_look_ups_of_tokens() {
    let server = Server::start().await;
    let node = joined(&server, "node-1").await;
    let stuck = "BEGIN; LOCK TABLE tokens IN ACCESS EXCLUSIVE MODE; SELECT pg_sleep(8);";
    tokio::task::block_in_place(|| {
        std::thread::scope(|scope| {
            scope.spawn(|| server.db.sql(stuck));
            tokio::runtime::Handle::current().block_on(async {
                tokio::time::sleep(SHORT).await;
                let askers: Vec<_> = (0..40)
                    .map(|number| tokio::spawn(server.request("GET", "/v1/whoami", &made_up(number)).send()))
                    .collect();
                tokio::time::sleep(SHORT).await;
                let answer = node.get(server.node_url("/node/v1/serving-set?wait=0")).send();
                let answer = timeout(Duration::from_secs(3), answer).await.expect("a node waits for tokens");
                assert_eq!(answer.unwrap().status().as_u16(), 204);
                for asker in askers {
                    let _ = asker.await.unwrap();
                }
            });
        });
    });
}

/// What nodes-to-be send slowly is not taken from what people may send.
#[tokio::test]
async fn half_sent_joins_leave_room_for_a_sign_in() {
    let server = server(PATIENT).await;
    let token = server.token("a", &[Scope::Read]).await;
    let url = server.node_url("");
    let address = url.trim_start_matches("https://").to_owned();
    let tls = without_certificate(&server, "http/1.1");
    let mut joins = Vec::new();
    // The small ones at the end take what the large ones leave.
    let small = (0..34).map(|index| 1 << (16 - index / 2)).filter(|bytes| *bytes < 65_000);
    for bytes in std::iter::repeat_n(65_000, SLOW_SENDERS + 2).chain(small) {
        let (body, length) = (vec![b' '; bytes], bytes + 1);
        let head = format!(
            "POST /node/v1/join HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
             content-length: {length}\r\n\r\n"
        );
        let name = rustls::pki_types::ServerName::try_from("localhost").unwrap();
        let stream = TcpStream::connect(&address).await.unwrap();
        let mut stream = tls.connect(name, stream).await.unwrap();
        // Who was refused may be closed before all is written.
        let _ = stream.write_all(head.as_bytes()).await;
        let _ = stream.write_all(&body).await;
        let _ = stream.flush().await;
        joins.push(stream);
    }
    let sign_in = server.request("POST", "/sign-in", "").form(&[("token", token.as_str())]);
    let answer = server.send(sign_in).await;
    assert_eq!(answer.status, 303, "{answer:?}");
    let mut refused = String::new();
    let one = &mut joins[SLOW_SENDERS];
    let read = timeout(SHORT, one.read_to_string(&mut refused)).await;
    assert!(refused.starts_with("HTTP/1.1 429 ") && refused.contains("MF0912"), "{read:?} {refused}");
}
