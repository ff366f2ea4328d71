//! Event streams: complete, in order, resumable, and they end.

use std::time::Duration;

use mfaas_ident::Scope;
use tokio::time::timeout;

use crate::support::{Server, refused_deployment};

/// The `id:` and `event:` lines of a stream, and its data.
fn parsed(body: &str) -> Vec<(u64, String, serde_json::Value)> {
    let field = |block: &str, name: &str| -> String {
        let line =
            block.lines().find_map(|line| line.strip_prefix(name).and_then(|rest| rest.strip_prefix(':')));
        line.unwrap_or("").trim().to_owned()
    };
    body.split("\n\n")
        .filter(|block| block.contains("data:"))
        .map(|block| {
            let data = serde_json::from_str(&field(block, "data")).unwrap();
            (field(block, "id").parse().unwrap(), field(block, "event"), data)
        })
        .collect()
}

async fn deployed(server: &Server, token: &str) -> String {
    let created = server.upload("hello", token, vec![1]).await.json();
    created["deployment"]["id"].as_str().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_tells_everything_and_ends_with_the_deployment() {
    let server = Server::start().await;
    let token = server.token("a", &[Scope::Read, Scope::Deploy]).await;
    let id = deployed(&server, &token).await;
    let path = format!("/v1/deployments/{id}/events");
    let following = server.get(&path, &token);
    let working = async {
        tokio::time::sleep(Duration::from_millis(300)).await;
        tokio::task::block_in_place(|| refused_deployment(&server.db, &id, "unsafe { }"));
    };
    let (answer, ()) =
        timeout(Duration::from_secs(10), async { tokio::join!(following, working) }).await.unwrap();
    assert_eq!(answer.header("content-type"), "text/event-stream");
    let events = parsed(&answer.body);
    let seen: Vec<_> = events.iter().map(|(id, kind, _)| (*id, kind.as_str())).collect();
    assert_eq!(seen, [(1, "state"), (2, "started"), (3, "state")]);
    let last = &events[2].2;
    assert_eq!((&last["state"], &last["seq"]), (&"refused".into(), &3.into()));
    let drawing = last["diagnostics"][0]["rendered"].as_str().unwrap();
    assert!(drawing.contains("3 | unsafe { }\n  | ^^^^^^\n"), "{drawing}");
    // Again, and resumed: an ended deployment ends its stream at once.
    assert_eq!(parsed(&server.get(&path, &token).await.body).len(), 3);
    let resumed = server.send(server.request("GET", &path, &token).header("last-event-id", "2")).await;
    assert_eq!(parsed(&resumed.body).iter().map(|(id, _, _)| *id).collect::<Vec<_>>(), [3]);
    let done = server.send(server.request("GET", &path, &token).header("last-event-id", "3")).await;
    assert_eq!(parsed(&done.body), []);
    let bad = server.send(server.request("GET", &path, &token).header("last-event-id", "x")).await;
    assert_eq!(bad.code(), "MF0904");
}

#[tokio::test]
async fn an_open_stream_does_not_hold_up_the_end_of_the_server() {
    let mut server = Server::start().await;
    let token = server.token("a", &[Scope::Read, Scope::Deploy]).await;
    let id = deployed(&server, &token).await;
    let request = server.request("GET", &format!("/v1/deployments/{id}/events"), &token);
    let mut response = request.send().await.unwrap();
    assert!(response.chunk().await.unwrap().is_some(), "the first event is there");
    timeout(Duration::from_secs(5), server.stop()).await.expect("the server waits for a stream");
    assert_eq!(response.chunk().await.unwrap_or(None), None, "the stream has ended");
}
