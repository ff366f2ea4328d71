#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod proxy;

use std::time::Instant;

use self::proxy::{Deed, Proxy};
use super::*;
use crate::failure::Exit;

#[test]
fn a_token_never_travels_in_the_clear_to_another_machine() {
    // The provider is process-wide; a second install by another test is no error.
    let _ = rustls::crypto::ring::default_provider().install_default();
    for good in ["http://127.0.0.1:7700", "http://localhost:1", "http://[::1]:1", "https://mfaas.example"] {
        assert!(Client::new(good, None, None, None).is_ok(), "{good}");
    }
    for bad in ["http://mfaas.example", "http://127.0.0.1.example", "ftp://127.0.0.1", "127.0.0.1:7700", ""] {
        assert!(Client::new(bad, None, None, None).is_err(), "{bad}");
    }
}

#[test]
fn a_tenant_becomes_part_of_every_address() {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let client = Client::new("http://127.0.0.1:7700", None, None, Some("acme".to_owned())).unwrap();
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
    let client = async |answers| Client::new(&server_that_says(answers).await, None, None, None).unwrap();
    let upload = async |client: Client| {
        client.upload::<bool>("/upload", b"archive".to_vec(), &mfaas_trace::new_trace()).await
    };
    assert!(upload(client(&[NO_ROOM, NO_ROOM, ACCEPTED]).await).await.unwrap());
    let full = upload(client(&[NO_ROOM; ROOM_WAITS as usize + 1]).await).await;
    assert!(matches!(full, Err(Failure::Protocol { .. })), "{full:?}");
}

#[tokio::test]
async fn a_follower_waits_for_room_and_not_for_ever() {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let follow = async |answers| {
        let client = Client::new(&server_that_says(answers).await, None, None, None).unwrap();
        client.events("/events", None).await
    };
    assert!(follow(&[NO_ROOM, NO_ROOM, ACCEPTED]).await.is_ok());
    let full = follow(&[NO_ROOM; STREAM_WAITS as usize + 1]).await;
    assert!(matches!(full, Err(Failure::Protocol { .. })), "{full:?}");
}

const BAD_GATEWAY: Deed =
    Deed::Say("HTTP/1.1 502 Bad Gateway\r\nconnection: close\r\ncontent-length: 3\r\n\r\nbad");
const NO_SERVER: Deed = Deed::Say(
    "HTTP/1.1 503 Service Unavailable\r\nconnection: close\r\nretry-after: 1\r\ncontent-length: 0\r\n\r\n",
);
const NO_DATABASE: Deed = Deed::Say(
    "HTTP/1.1 503 Service Unavailable\r\nconnection: close\r\nretry-after: 0\r\n\
     content-type: application/problem+json\r\ncontent-length: 130\r\n\r\n\
     {\"type\":\"urn:mfaas:error:MF0910\",\"title\":\"away\",\"status\":503,\"detail\":\"The database is away.\",\
     \"code\":\"MF0910\",\"hint\":\"Try again.\"}",
);

fn client_of(proxy: &Proxy) -> Client {
    let _ = rustls::crypto::ring::default_provider().install_default();
    Client::new(&proxy.url, None, None, None).unwrap()
}

#[tokio::test]
async fn a_read_is_asked_again_until_it_is_answered_as_a_whole() {
    let proxy = Proxy::new(&[Deed::Cut, BAD_GATEWAY, Deed::CutBeforeAnswer, Deed::CutInAnswer]).await;
    assert!(client_of(&proxy).get::<bool>("/v1/functions").await.unwrap());
    assert_eq!((proxy.left(), proxy.arrived()), (0, 3));
}

#[tokio::test]
async fn a_read_waits_as_long_as_the_balancer_asks_for() {
    let proxy = Proxy::new(&[NO_SERVER]).await;
    let begin = Instant::now();
    assert!(client_of(&proxy).get::<bool>("/v1/functions").await.unwrap());
    assert!(begin.elapsed() >= Duration::from_secs(1), "{:?}", begin.elapsed());
}

#[tokio::test]
async fn a_read_gives_up_and_says_what_came_last() {
    for (deed, told) in [
        (Deed::Cut, "cannot reach"),
        (BAD_GATEWAY, "status 502 Bad Gateway without a problem document"),
        (NO_DATABASE, "MF0910: The database is away."),
    ] {
        let proxy = Proxy::new(&[deed; 9]).await;
        let failure = client_of(&proxy).get::<bool>("/v1/functions").await.unwrap_err();
        assert!(failure.to_string().contains(told), "{failure}");
        assert_eq!((failure.exit(), proxy.left()), (Exit::Failed, 4), "{failure}");
    }
}

#[tokio::test]
async fn an_upload_is_made_again_under_one_key() {
    let proxy = Proxy::new(&[Deed::CutBeforeAnswer, BAD_GATEWAY, Deed::Cut, Deed::CutInAnswer]).await;
    assert!(
        client_of(&proxy)
            .upload::<bool>("/v1/x", b"archive".to_vec(), &mfaas_trace::new_trace())
            .await
            .unwrap()
    );
    let keys = proxy.values("idempotency-key");
    assert_eq!(keys.len(), 3, "{keys:?}");
    assert!(keys.iter().all(|key| *key == keys[0]), "two deployments: {keys:?}");
    assert_eq!(proxy.left(), 0);
}

/// Nobody knows whether it was done.
#[tokio::test]
async fn what_writes_is_not_made_again() {
    for deed in [Deed::CutBeforeAnswer, BAD_GATEWAY, NO_SERVER] {
        let proxy = Proxy::new(&[deed]).await;
        let client = client_of(&proxy);
        assert!(client.post::<_, bool>("/v1/tokens", &true).await.is_err(), "{deed:?}");
        assert!(client.delete::<bool>("/v1/tokens/1").await.is_ok(), "{deed:?}");
        assert_eq!(proxy.values("content-type").len(), usize::from(matches!(deed, Deed::CutBeforeAnswer)));
    }
}

#[tokio::test]
async fn a_follower_waits_for_a_server() {
    let proxy = Proxy::new(&[BAD_GATEWAY, NO_DATABASE]).await;
    let mut stream = client_of(&proxy).events("/v1/x/events", Some("7")).await.unwrap();
    assert_eq!(stream.chunk().await.unwrap().unwrap(), "true");
    assert_eq!(proxy.values("last-event-id"), ["7"]);
}

/// A server with a certificate of this authority, which answers everything with `true`.
async fn secure_server(authority: &rcgen::Issuer<'_, rcgen::KeyPair>) -> String {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    let key = rcgen::KeyPair::generate().unwrap();
    let names = rcgen::CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
    let certificate = names.signed_by(&key, authority).unwrap();
    let config = rustls::ServerConfig::builder()
        .with_no_client_auth()
        .with_single_cert(vec![certificate.der().clone()], key.serialize_der().try_into().unwrap())
        .unwrap();
    let acceptor = tokio_rustls::TlsAcceptor::from(std::sync::Arc::new(config));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            // A client that does not trust it leaves in the handshake.
            let Ok(mut stream) = acceptor.accept(stream).await else { continue };
            let mut request = Vec::new();
            while !request.ends_with(b"\r\n\r\n") && stream.read_buf(&mut request).await.unwrap() > 0 {}
            stream.write_all(ACCEPTED.as_bytes()).await.unwrap();
            stream.shutdown().await.unwrap();
        }
    });
    format!("https://localhost:{port}")
}

fn authority() -> (String, rcgen::Issuer<'static, rcgen::KeyPair>) {
    let mut params = rcgen::CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let key = rcgen::KeyPair::generate().unwrap();
    let pem = params.self_signed(&key).unwrap().pem();
    (pem, rcgen::Issuer::new(params, key))
}

#[tokio::test]
async fn a_private_authority_is_trusted_alone_and_only_when_named() {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let ((pem, issuer), (other, _)) = (authority(), authority());
    let server = secure_server(&issuer).await;
    let dir = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = dir.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    };
    let ask = async |ca_file: Option<&Path>| -> Result<bool, Failure> {
        Client::new(&server, ca_file, None, None)?.get("/v1/functions").await
    };
    assert!(ask(Some(&file("ca.pem", &pem))).await.unwrap());
    assert!(ask(Some(&file("both.pem", &format!("{other}{pem}")))).await.unwrap());
    for ca_file in [None, Some(file("other.pem", &other))] {
        let failure = ask(ca_file.as_deref()).await.unwrap_err();
        assert!(matches!(failure, Failure::Unreachable { .. }), "{ca_file:?}: {failure}");
    }
    let empty = ask(Some(&file("empty.pem", "nothing"))).await.unwrap_err();
    assert_eq!((empty.exit(), empty.to_string().contains("empty.pem")), (Exit::Usage, true), "{empty}");
    let missing = ask(Some(&dir.path().join("missing.pem"))).await.unwrap_err();
    assert!(missing.to_string().contains("missing.pem"), "{missing}");
}
