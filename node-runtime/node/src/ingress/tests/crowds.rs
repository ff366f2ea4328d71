//! Many connections, requests and bodies of one peer, over real sockets: others are served meanwhile. A peer here is an address of
//! the loopback network.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream};

use super::{Bounds, Open, bearer};

const FLOODER: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);
const OTHER: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 3);
const THIRD: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 4);

const HEALTH: &[u8] = b"GET /healthz HTTP/1.1\r\nhost: a\r\n\r\n";
/// The head of a call that may be made, with these headers.
fn head(headers: &str) -> String {
    format!("POST /f/acme/hello HTTP/1.1\r\nhost: a\r\nauthorization: {}\r\n{headers}\r\n\r\n", bearer())
}

async fn connect(open: &Open, from: Ipv4Addr) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind(SocketAddr::from((from, 0))).unwrap();
    socket.connect(open.address).await.unwrap()
}

/// What comes within a second: one answer, or the end.
async fn received(stream: &mut TcpStream) -> String {
    let mut piece = [0; 4096];
    match tokio::time::timeout(Duration::from_secs(1), stream.read(&mut piece)).await {
        Ok(Ok(read)) => String::from_utf8_lossy(&piece[..read]).into_owned(),
        Ok(Err(_)) => String::new(),
        Err(_) => "silence".to_owned(),
    }
}

async fn asked(open: &Open, from: Ipv4Addr) -> String {
    let mut stream = connect(open, from).await;
    // It may be turned away before it has asked.
    let _ = stream.write_all(HEALTH).await;
    received(&mut stream).await
}

/// Connections with a request that has begun, seen by the node.
async fn busy(open: &Open, from: Ipv4Addr, count: usize) -> Vec<TcpStream> {
    let mut all = Vec::new();
    for _ in 0..count {
        let mut stream = connect(open, from).await;
        // A request that takes its time: its body never comes to an end.
        let unfinished = head("transfer-encoding: chunked") + "1\r\nx\r\n";
        stream.write_all(unfinished.as_bytes()).await.unwrap();
        all.push(stream);
    }
    tokio::time::sleep(Duration::from_millis(200)).await;
    all
}

fn bounds() -> Bounds {
    Bounds { connections_max: 8, peer_connections_max: 6, ..Bounds::node() }
}

#[tokio::test(flavor = "multi_thread")]
async fn idle_connections_of_one_peer_shut_nobody_out() {
    let open = Open::within(bounds()).await;
    let mut idle = Vec::new();
    for _ in 0..20 {
        idle.push(connect(&open, FLOODER).await);
        // Half a head is no request.
        let _ = idle.last_mut().unwrap().write_all(b"GET /healthz HTTP/1.1\r\n").await;
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert!(asked(&open, OTHER).await.contains("alive"));
    assert!(asked(&open, FLOODER).await.contains("alive"), "its own oldest made room");
    assert_eq!(received(&mut idle[0]).await, "", "the oldest left");
    open.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_oldest_idle_connection_makes_room_when_all_places_are_taken() {
    let open = Open::within(bounds()).await;
    let mut first = connect(&open, FLOODER).await;
    let mut second = connect(&open, FLOODER).await;
    tokio::time::sleep(Duration::from_millis(100)).await;
    // Whoever asks is not the oldest any more.
    first.write_all(HEALTH).await.unwrap();
    assert!(received(&mut first).await.contains("alive"));
    let _busy = busy(&open, FLOODER, 4).await;
    let _others = busy(&open, OTHER, 2).await;
    assert!(asked(&open, THIRD).await.contains("alive"));
    assert_eq!(received(&mut second).await, "", "longest without a request");
    first.write_all(HEALTH).await.unwrap();
    assert!(received(&mut first).await.contains("alive"), "kept");
    open.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_peer_whose_connections_are_all_busy_is_refused_and_others_are_served() {
    let open = Open::within(bounds()).await;
    let held = busy(&open, FLOODER, 6).await;
    let refused = received(&mut connect(&open, FLOODER).await).await;
    assert!(refused.starts_with("HTTP/1.1 429") && refused.contains("MF0824"), "{refused}");
    assert!(refused.contains("retry-after: 1"), "{refused}");
    assert!(asked(&open, OTHER).await.contains("alive"));
    let _others = busy(&open, OTHER, 2).await;
    let full = received(&mut connect(&open, THIRD).await).await;
    assert!(full.starts_with("HTTP/1.1 429") && full.contains("MF0811"), "{full}");
    drop(held);
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert!(asked(&open, FLOODER).await.contains("alive"), "places come back");
    assert!(asked(&open, THIRD).await.contains("alive"));
    open.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_named_proxy_has_no_bound_of_its_own() {
    let proxies = [FLOODER.into()].into();
    let open = Open::within(Bounds { proxies, ..bounds() }).await;
    let _held = busy(&open, FLOODER, 7).await;
    assert!(asked(&open, FLOODER).await.contains("alive"));
    open.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_on_their_way_are_bounded_for_a_peer_and_for_all() {
    let open = Open::within(Bounds { requests_max: 4, peer_requests_max: 3, ..Bounds::node() }).await;
    let held = busy(&open, FLOODER, 3).await;
    let refused = asked(&open, FLOODER).await;
    assert!(refused.starts_with("HTTP/1.1 429") && refused.contains("MF0824"), "{refused}");
    assert!(asked(&open, OTHER).await.contains("alive"));
    let _other = busy(&open, OTHER, 1).await;
    let full = asked(&open, THIRD).await;
    assert!(full.starts_with("HTTP/1.1 429") && full.contains("MF0811"), "{full}");
    drop(held);
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert!(asked(&open, FLOODER).await.contains("alive"));
    open.close().await;
}

/// A chunked request of so many bytes that does not end.
async fn sends(open: &Open, from: Ipv4Addr, bytes: usize) -> TcpStream {
    let mut stream = connect(open, from).await;
    let head = head("transfer-encoding: chunked");
    stream.write_all(format!("{head}{bytes:x}\r\n").as_bytes()).await.unwrap();
    let _ = stream.write_all(&vec![b'x'; bytes]).await;
    stream
}

/// Sends a body that is whole, and hears what comes of it: 404 once it was read.
async fn sent(open: &Open, from: Ipv4Addr, bytes: usize) -> String {
    let mut stream = sends(open, from, bytes).await;
    let _ = stream.write_all(b"\r\n0\r\n\r\n").await;
    received(&mut stream).await
}

#[tokio::test(flavor = "multi_thread")]
async fn bodies_that_are_announced_and_do_not_come_hold_nothing() {
    const KIB: usize = 1 << 10;
    let open =
        Open::within(Bounds { body_bytes_max: 512 * KIB, peer_body_bytes_max: 512 * KIB, ..Bounds::node() })
            .await;
    let mut held = busy(&open, FLOODER, 64).await;
    for _ in 0..64 {
        let mut stream = connect(&open, FLOODER).await;
        let begun = head(&format!("content-length: {}", 1 << 20)) + "x";
        stream.write_all(begun.as_bytes()).await.unwrap();
        held.push(stream);
    }
    tokio::time::sleep(Duration::from_millis(200)).await;
    let answer = sent(&open, OTHER, 200 * KIB).await;
    assert!(answer.starts_with("HTTP/1.1 404"), "{answer}");
    open.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn bytes_of_bodies_are_bounded_for_a_peer_and_for_all() {
    const KIB: usize = 1 << 10;
    let open = Open::within(Bounds {
        body_bytes_max: 1_100 * KIB,
        peer_body_bytes_max: 600 * KIB,
        ..Bounds::node()
    })
    .await;
    let held = sends(&open, FLOODER, 500 * KIB).await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    let refused = sent(&open, FLOODER, 200 * KIB).await;
    assert!(refused.starts_with("HTTP/1.1 429") && refused.contains("MF0824"), "{refused}");
    let small = sent(&open, FLOODER, 10 * KIB).await;
    assert!(small.starts_with("HTTP/1.1 404"), "small ones need none: {small}");
    let other = sent(&open, OTHER, 400 * KIB).await;
    assert!(other.starts_with("HTTP/1.1 404"), "{other}");
    let _second = sends(&open, OTHER, 400 * KIB).await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    let full = sent(&open, THIRD, 200 * KIB).await;
    assert!(full.starts_with("HTTP/1.1 429") && full.contains("MF0811"), "{full}");
    drop(held);
    tokio::time::sleep(Duration::from_millis(300)).await;
    let again = sent(&open, FLOODER, 200 * KIB).await;
    assert!(again.starts_with("HTTP/1.1 404"), "what was read gives its bytes back: {again}");
    open.close().await;
}

/// What an outside test did: more at once than any load generator.
#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_and_more_calls_on_their_way_are_not_refused_here() {
    let open = Open::new().await;
    let held = busy(&open, FLOODER, 1_024).await;
    assert_eq!(held.len(), 1_024);
    assert!(asked(&open, FLOODER).await.contains("alive"));
    open.close().await;
}
