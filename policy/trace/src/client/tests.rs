#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::time::Instant;

use super::*;

fn client() -> CollectorClient {
    // Another test of this process may have done it; either is the same.
    let _ = rustls::crypto::ring::default_provider().install_default();
    CollectorClient::start().unwrap()
}

fn sent(client: &CollectorClient, to: &TcpListener) -> Result<Response<Bytes>, HttpError> {
    let url = format!("http://{}/v1/traces", to.local_addr().unwrap());
    let request = Request::post(url).header("x-token", "secret").body(Bytes::from_static(b"spans")).unwrap();
    let asking = tokio::runtime::Builder::new_current_thread().build().unwrap();
    asking.block_on(client.send_bytes(request))
}

#[test]
fn a_collector_sends_nobody_elsewhere() {
    let (collector, elsewhere) =
        (TcpListener::bind("127.0.0.1:0").unwrap(), TcpListener::bind("127.0.0.1:0").unwrap());
    elsewhere.set_nonblocking(true).unwrap();
    let location = elsewhere.local_addr().unwrap();
    let served = collector.try_clone().unwrap();
    let serving = std::thread::spawn(move || {
        let (mut stream, _) = served.accept().unwrap();
        let read = stream.read(&mut [0; 4096]).unwrap();
        assert!(read > 0);
        let answer = format!(
            "HTTP/1.1 307 Temporary Redirect\r\nlocation: http://{location}/\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
        );
        stream.write_all(answer.as_bytes()).unwrap();
    });
    let client = CollectorClient { answer_max: Duration::from_secs(3), ..client() };
    assert_eq!(sent(&client, &collector).unwrap().status(), 307);
    serving.join().unwrap();
    assert!(elsewhere.accept().is_err(), "nobody came");
}

#[test]
fn an_answer_is_not_waited_for_longer_than_was_said() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let begin = Instant::now();
    let client = CollectorClient { answer_max: Duration::from_millis(100), ..client() };
    assert!(sent(&client, &silent).is_err());
    assert!(begin.elapsed() < Duration::from_secs(5), "{:?}", begin.elapsed());
}
