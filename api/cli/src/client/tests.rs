#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use super::*;

#[test]
fn a_token_never_travels_in_the_clear_to_another_machine() {
    // The provider is process-wide; a second install by another test is no error.
    let _ = rustls::crypto::ring::default_provider().install_default();
    for good in ["http://127.0.0.1:7700", "http://localhost:1", "http://[::1]:1", "https://mfaas.example"] {
        assert!(Client::new(good, None, None).is_ok(), "{good}");
    }
    for bad in ["http://mfaas.example", "http://127.0.0.1.example", "ftp://127.0.0.1", "127.0.0.1:7700", ""] {
        assert!(Client::new(bad, None, None).is_err(), "{bad}");
    }
}

#[test]
fn a_tenant_becomes_part_of_every_address() {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let client = Client::new("http://127.0.0.1:7700", None, Some("acme".to_owned())).unwrap();
    assert_eq!(
        client.url("/v1/functions").unwrap().as_str(),
        "http://127.0.0.1:7700/v1/functions?tenant=acme"
    );
    assert_eq!(client.url("/v1/x?after=3").unwrap().query(), Some("after=3&tenant=acme"));
}

/// A server that gives one answer to each connection and then no more.
async fn server_that_says(answers: &'static [&'static str]) -> String {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        for answer in answers {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut request = Vec::new();
            let is_asked = |request: &[u8]| request.starts_with(b"GET ") && request.ends_with(b"\r\n\r\n");
            while !request.ends_with(b"archive") && !is_asked(&request) {
                assert_ne!(stream.read_buf(&mut request).await.unwrap(), 0, "the request ends early");
            }
            stream.write_all(answer.as_bytes()).await.unwrap();
        }
    });
    format!("http://{address}")
}

const NO_ROOM: &str = "HTTP/1.1 429 Too Many Requests\r\nretry-after: 0\r\nconnection: close\r\n\
                       content-length: 0\r\n\r\n";
const ACCEPTED: &str = "HTTP/1.1 202 Accepted\r\nconnection: close\r\ncontent-length: 4\r\n\r\ntrue";

#[tokio::test]
async fn an_upload_waits_for_room_and_not_for_ever() {
    let client = async |answers| Client::new(&server_that_says(answers).await, None, None).unwrap();
    let upload = async |client: Client| client.upload::<bool>("/upload", b"archive".to_vec()).await;
    assert!(upload(client(&[NO_ROOM, NO_ROOM, ACCEPTED]).await).await.unwrap());
    let full = upload(client(&[NO_ROOM; ROOM_WAITS as usize + 1]).await).await;
    assert!(matches!(full, Err(Failure::Protocol { .. })), "{full:?}");
}

#[tokio::test]
async fn a_follower_waits_for_room_and_not_for_ever() {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let follow = async |answers| {
        let client = Client::new(&server_that_says(answers).await, None, None).unwrap();
        client.events("/events", None).await
    };
    assert!(follow(&[NO_ROOM, NO_ROOM, ACCEPTED]).await.is_ok());
    let full = follow(&[NO_ROOM; STREAM_WAITS as usize + 1]).await;
    assert!(matches!(full, Err(Failure::Protocol { .. })), "{full:?}");
}
