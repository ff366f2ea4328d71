//! The other ways to call: HTTP/2, and rings from the same machine.

use std::path::Path;
use std::time::Duration;

use mfaas_abi::Status;
use mfaas_abi::frame::{ResponseFrame, encode_request};
use mfaas_ring::Completion;
use mfaas_ring::client::Client;

use super::serving;

const PATIENCE: Duration = Duration::from_secs(10);

fn frame(body: &str) -> Vec<u8> {
    let mut frame = Vec::new();
    encode_request(&mut frame, "POST", "/", [], body.as_bytes()).unwrap();
    frame
}

/// How one call through a client's first name ended, and with what body.
fn call(client: &mut Client, body: &str) -> (u32, Status, String) {
    let mut done = Completion::new();
    client.call(0, &frame(body), &mut done, PATIENCE).unwrap();
    let answer = ResponseFrame::decode(&done.response).map_or(&[][..], |response| response.body);
    (done.refusal, done.status, String::from_utf8(answer.to_vec()).unwrap())
}

fn every_end_comes_through_a_ring(socket: &Path) {
    let mut client = Client::connect(socket, &["acme/hello", "acme/hello@9"]).unwrap();
    assert_eq!(call(&mut client, ""), (0, Status::Ok, "version 1".to_owned()));
    assert_eq!(call(&mut client, "count").2, "call 1");
    assert_eq!(call(&mut client, "count").2, "call 1", "no state survives a call");
    for (body, status) in
        [("panic", Status::Panicked), ("spin", Status::OverBudget), ("deep", Status::StackOverflow)]
    {
        assert_eq!(call(&mut client, body), (0, status, String::new()), "{body}");
        assert_eq!(call(&mut client, "").2, "version 1", "after {body}");
    }
    let mut done = Completion::new();
    client.call(1, &frame(""), &mut done, PATIENCE).unwrap();
    assert_eq!(done.refusal, 801, "no such version");
}

fn pipelined_calls_come_back_in_order(socket: &Path) {
    const CALLS: u64 = 1_000;
    let mut client = Client::connect(socket, &["acme/hello"]).unwrap();
    let (frame, mut done) = (frame("count"), Completion::new());
    let (mut sent, mut received) = (0, 0);
    while received < CALLS {
        while sent < CALLS && client.submit(sent, 0, &frame).is_ok() {
            sent += 1;
        }
        assert!(client.wait(PATIENCE).unwrap(), "an answer is missing");
        while client.collect(&mut done).unwrap() {
            assert_eq!((done.call_id, done.refusal, done.status), (received, 0, Status::Ok));
            received += 1;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn programs_of_the_same_machine_call_through_rings() {
    let (_server, _signer, home, node) = serving().await;
    let socket = home.path("local.sock");
    let (one, other) = (socket.clone(), socket.clone());
    let ends = tokio::task::spawn_blocking(move || every_end_comes_through_a_ring(&one));
    let order = tokio::task::spawn_blocking(move || pipelined_calls_come_back_in_order(&other));
    ends.await.unwrap();
    order.await.unwrap();
    // A client that dies with calls on their way disturbs nobody, and a node that stops takes its socket away.
    let dying = socket.clone();
    tokio::task::spawn_blocking(move || {
        let mut client = Client::connect(dying, &["acme/hello"]).unwrap();
        (0..16).for_each(|call_id| client.submit(call_id, 0, &frame("spin")).unwrap());
    })
    .await
    .unwrap();
    assert_eq!(node.call("hello", "").await.body, "version 1");
    node.signal(rustix::process::Signal::TERM);
    assert!(node.ended().await.success());
    assert!(!socket.exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_function_answers_over_http_2() {
    let (_server, _signer, _home, node) = serving().await;
    let client =
        reqwest::Client::builder().tls_certs_only([]).no_proxy().http2_prior_knowledge().build().unwrap();
    let url = format!("{}/f/acme/hello", node.ingress);
    let calls: Vec<_> = (0..200).map(|_| tokio::spawn(client.post(&url).body("count").send())).collect();
    for call in calls {
        let response = call.await.unwrap().unwrap();
        assert_eq!((response.version(), response.status().as_u16()), (http::Version::HTTP_2, 200));
        assert_eq!(response.headers()["mfaas-version"], "1");
        assert_eq!(response.text().await.unwrap(), "call 1");
    }
    let large = client.post(&url).body("x".repeat((1 << 20) + 1)).send().await.unwrap();
    assert_eq!(large.status().as_u16(), 413);
}
