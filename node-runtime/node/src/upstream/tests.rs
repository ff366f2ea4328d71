#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, RwLock};
use std::time::Duration;

use mfaas_delivery::{LoadReport, NODE_PROTOCOL};
use reqwest::{Response, StatusCode};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use super::{Servers, Upstream, UpstreamError, body};

#[tokio::test]
async fn no_answer_is_read_beyond_its_limit() {
    let answer = |bytes: usize| Response::from(http::Response::new(vec![0; bytes]));
    assert_eq!(body(answer(10), "/x", 10).await.unwrap().len(), 10);
    let refused = body(answer(11), "/x", 10).await.unwrap_err();
    assert!(matches!(refused, UpstreamError::TooLarge { bytes_max: 10, .. }), "{refused}");
}

/// The time of a request counts to its last byte, not to its first: whoever sends one now and then is no server.
#[tokio::test]
async fn a_server_that_trickles_is_given_up() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let trickle = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        // The beginning of any request.
        stream.read_exact(&mut [0; 5]).await.unwrap();
        stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\n").await.unwrap();
        while stream.write_all(b"x").await.is_ok() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    });
    let client = client();
    let request = client.get(format!("http://{address}/")).timeout(Duration::from_millis(300));
    let given_up = body(request.send().await.unwrap(), "/", 1_000).await.unwrap_err();
    assert!(matches!(given_up, UpstreamError::Unreachable(error) if error.is_timeout()));
    trickle.await.unwrap();
}

/// Answers every question with that status; how many there were.
async fn answering(status: &'static str) -> (String, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let asked = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&asked);
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                head.push(stream.read_u8().await.unwrap());
            }
            counted.fetch_add(1, Ordering::Relaxed);
            let answer = format!("HTTP/1.1 {status}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
            stream.write_all(answer.as_bytes()).await.unwrap();
        }
    });
    (url, asked)
}

fn client() -> reqwest::Client {
    // Another test may have been first.
    let _ = mfaas_startup::install_tls_provider();
    reqwest::Client::builder().tls_certs_only([]).no_proxy().build().unwrap()
}

fn upstream_of(urls: &[&str]) -> Upstream {
    let client = Arc::new(RwLock::new(client()));
    Upstream { client, servers: Arc::new(Servers::of(urls.iter().map(|url| (*url).to_owned()).collect())) }
}

/// Who cannot be reached has not had the question, so that the next one gets it; who takes none is left for the next one.
#[tokio::test]
async fn a_server_that_is_away_is_left_for_the_next_and_one_that_answers_is_kept() {
    let nobody = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let away = format!("http://{}", nobody.local_addr().unwrap());
    drop(nobody);
    let (stopping, first) = answering("503 Service Unavailable").await;
    let (good, second) = answering("204 No Content").await;
    let upstream = upstream_of(&[&away, &stopping, &good]);
    let ask = async || upstream.get_if_any("/x", Duration::from_secs(5), 10).await;
    let refused = ask().await.unwrap_err();
    assert!(
        matches!(refused, UpstreamError::Refused { status: StatusCode::SERVICE_UNAVAILABLE, .. }),
        "{refused}"
    );
    for _ in 0..3 {
        assert_eq!(ask().await.unwrap(), None);
    }
    assert_eq!((first.load(Ordering::Relaxed), second.load(Ordering::Relaxed)), (1, 3));
    let alone = upstream_of(&[&away, &away]);
    let lost = alone.get_if_any("/x", Duration::from_secs(5), 10).await.unwrap_err();
    assert!(matches!(lost, UpstreamError::Unreachable(_)), "each is tried once: {lost}");
}

/// A server of the release before has no such route; any other refusal says nothing about what it knows.
#[tokio::test]
async fn a_server_that_does_not_know_of_load_is_told_by_its_answer() {
    let load = LoadReport {
        protocol: NODE_PROTOCOL,
        interval_ms: 10_000,
        cpu_ns: 0,
        cores: 1,
        running: 0,
        waiting: 0,
        processes: 0,
        pools: 0,
        pools_busy: 0,
        resident: 0,
        resident_bytes: 0,
    };
    for (status, expected) in
        [("204 No Content", Some(true)), ("404 Not Found", Some(false)), ("400 Bad Request", None)]
    {
        let (url, _) = answering(status).await;
        assert_eq!(upstream_of(&[&url]).load(&load).await.ok(), expected, "{status}");
    }
}
