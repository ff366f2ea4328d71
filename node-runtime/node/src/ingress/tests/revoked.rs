//! Revoked call tokens over HTTP: the next call of a connection, in either version, and one whose body is still on its way.

use mfaas_attest::RevokedCalls;
use mfaas_ident::TenantName;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::*;

/// A call token of `acme` with that id.
fn numbered(id: &str) -> String {
    let text = callers::tests::token(&KEY, "acme", &["*"], |claims| claims.id = id.to_owned());
    format!("Bearer {text}")
}

/// From now on the tokens of these ids are revoked.
fn revoke(callers: &Callers, ids: &[&str]) {
    let mut revoked = RevokedCalls::default();
    for id in ids {
        revoked.revoke_token(TenantName::parse("acme").unwrap(), (*id).to_owned());
    }
    callers.hold(&[callers::tests::listed(&KEY)], &Arc::new(revoked));
}

async fn open() -> (Open, Arc<Callers>) {
    let face = face();
    let callers = Arc::clone(&face.callers);
    (Open::of(face, hosts(), Bounds::node()).await, callers)
}

#[tokio::test(flavor = "multi_thread")]
async fn the_next_call_is_refused_over_a_connection_that_is_open() {
    let (open, callers) = open().await;
    for version in BOTH {
        let client = of_version(version).build().unwrap();
        let call = async |id| {
            let request = client.post(open.url("/f/acme/hello")).header(header::AUTHORIZATION, numbered(id));
            let (status, headers, body) = ask(request, version).await;
            let code = body.split("\"code\":\"").nth(1).unwrap_or_default()[..6].to_owned();
            (status.as_u16(), code, headers.get(header::WWW_AUTHENTICATE).cloned())
        };
        // Nothing is served, which only whoever may call it hears.
        let known = (404, "MF0801".to_owned(), None);
        revoke(&callers, &[]);
        assert_eq!((call("1").await, call("2").await), (known.clone(), known.clone()));
        revoke(&callers, &["1"]);
        let challenge = HeaderValue::from_static("Bearer error=\"invalid_token\"");
        assert_eq!(call("1").await, (401, "MF0920".to_owned(), Some(challenge)), "{version:?}");
        assert_eq!(call("2").await, known, "{version:?}");
    }
    open.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_whose_body_is_on_its_way_is_refused_when_it_has_arrived() {
    let (open, callers) = open().await;
    let mut answers = Vec::new();
    for is_revoked in [false, true] {
        let mut stream = TcpStream::connect(open.address).await.unwrap();
        let head = format!(
            "POST /f/acme/hello HTTP/1.1\r\nHost: node\r\nAuthorization: {}\r\nContent-Length: 4\r\n\
             Expect: 100-continue\r\nConnection: close\r\n\r\n",
            numbered("1")
        );
        stream.write_all(head.as_bytes()).await.unwrap();
        // The node asks for the body once it has let the caller in.
        let mut go_on = [0; 25];
        stream.read_exact(&mut go_on).await.unwrap();
        assert_eq!(&go_on, b"HTTP/1.1 100 Continue\r\n\r\n");
        if is_revoked {
            revoke(&callers, &["1"]);
        }
        stream.write_all(b"body").await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answers.push(answer);
    }
    assert!(answers[0].starts_with("HTTP/1.1 404") && answers[0].contains("MF0801"), "{}", answers[0]);
    assert!(answers[1].starts_with("HTTP/1.1 401") && answers[1].contains("MF0920"), "{}", answers[1]);
    open.close().await;
}
