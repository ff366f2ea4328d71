#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::time::Duration;

use reqwest::Response;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use super::{UpstreamError, body};

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
    let client = reqwest::Client::builder().tls_certs_only([]).no_proxy().build().unwrap();
    let request = client.get(format!("http://{address}/")).timeout(Duration::from_millis(300));
    let given_up = body(request.send().await.unwrap(), "/", 1_000).await.unwrap_err();
    assert!(matches!(given_up, UpstreamError::Unreachable(error) if error.is_timeout()));
    trickle.await.unwrap();
}
