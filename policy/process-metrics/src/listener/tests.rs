#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};

use super::*;

const LOOPBACK: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

fn ask(address: SocketAddr, head: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    stream.write_all(head.as_bytes()).unwrap();
    let mut answer = String::new();
    // The end of a connection that was reset in the middle is an end too.
    let _ = stream.read_to_string(&mut answer);
    answer
}

fn get(address: SocketAddr, path: &str, host: &str) -> String {
    ask(address, &format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n"))
}

fn status(answer: &str) -> &str {
    answer.split(' ').nth(1).unwrap_or("none")
}

/// One test, since a process has one recorder.
#[test]
fn a_program_shows_its_metrics_and_nothing_else() {
    let listener = MetricsListener::bind(LOOPBACK).unwrap();
    let address = listener.address();
    let scrapes = AtomicU64::new(0);
    let collect = move || format!("own_scrapes {}\n", scrapes.fetch_add(1, Ordering::Relaxed) + 1);
    let buckets: &[(&str, &[f64])] = &[("mfaas_test_seconds", &[0.5])];
    listener.start(("mfaas-test", "9.9.9"), buckets, collect).unwrap();
    metrics::histogram!("mfaas_test_seconds").record(0.25);
    metrics::histogram!("mfaas_other_seconds").record(0.25);

    let answer = get(address, "/metrics", &address.to_string());
    assert_eq!(status(&answer), "200", "{answer}");
    assert!(answer.contains("content-type: text/plain; version=0.0.4"), "{answer}");
    assert!(answer.contains("mfaas_build_info{program=\"mfaas-test\",version=\"9.9.9\"} 1"), "{answer}");
    assert!(answer.contains("mfaas_test_seconds_bucket{le=\"0.5\"} 1"), "its own edges: {answer}");
    assert!(answer.contains("mfaas_other_seconds_bucket{le=\"0.5\"} 1"), "the edges of durations: {answer}");
    assert!(answer.contains("mfaas_other_seconds_bucket{le=\"60\"} 1"), "the edges of durations: {answer}");
    assert!(answer.ends_with("own_scrapes 1\n"), "{answer}");
    assert!(get(address, "/metrics", "localhost").ends_with("own_scrapes 2\n"), "looked at for each scrape");

    for host in ["localhost:9000", "127.0.0.1", "[::1]:80", "[::1]"] {
        assert_eq!(status(&get(address, "/metrics", host)), "200", "{host}");
    }
    for host in ["evil.example", "evil.example:80", "localhost.evil.example", "", "127.0.0.1.evil.example"] {
        assert_eq!(status(&get(address, "/metrics", host)), "421", "a page of a stranger: {host}");
    }
    let twice = "GET /metrics HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\n\r\n";
    assert_eq!(status(&ask(address, twice)), "421");
    assert_eq!(status(&get(address, "/", "localhost")), "404");
    assert_eq!(status(&ask(address, "POST /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")), "405");
    let long = format!("GET /metrics HTTP/1.1\r\nHost: localhost\r\nx: {}\r\n\r\n", "y".repeat(20_000));
    assert_ne!(status(&ask(address, &long)), "200", "a head of any size");

    // Whoever says nothing keeps nobody out, and is not kept.
    let silent: Vec<TcpStream> = (0..CONNECTIONS_MAX).map(|_| TcpStream::connect(address).unwrap()).collect();
    assert_eq!(status(&get(address, "/metrics", "localhost")), "200");
    drop(silent);
}

#[test]
fn an_address_that_is_taken_is_named() {
    let first = MetricsListener::bind(LOOPBACK).unwrap();
    let error = MetricsListener::bind(first.address()).unwrap_err().to_string();
    assert!(
        error.starts_with(&format!("MFAAS_METRICS_LISTEN: listening on {}: ", first.address())),
        "{error}"
    );
}
