//! Event streams: complete, in order, resumable, and they end.

use std::time::Duration;

use mfaas_ident::Scope;
use mfaas_server::limits;
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

/// What counts is what the database has: a server that was never asked before goes on where another one stopped.
#[tokio::test(flavor = "multi_thread")]
async fn a_stream_goes_on_at_another_server_and_no_event_is_lost_or_repeated() {
    let mut server = Server::start().await;
    let other = server.beside(&[]).await;
    let token = server.token("a", &[Scope::Read, Scope::Deploy]).await;
    let id = deployed(&server, &token).await;
    let path = format!("/v1/deployments/{id}/events");
    let stage = |stage: &str| {
        let event = format!(r#"{{"stage": "{stage}", "kind": "started"}}"#);
        let append = format!("SELECT append_event('{id}', '{event}')");
        tokio::task::block_in_place(|| server.db.sql(&append));
    };
    let mut stream = server.request("GET", &path, &token).send().await.unwrap();
    stage("unpack");
    let mut body = String::new();
    while parsed(&body).len() < 2 {
        let chunk = timeout(Duration::from_secs(5), stream.chunk()).await.expect("an event is late").unwrap();
        body.push_str(std::str::from_utf8(&chunk.expect("the stream ended")).unwrap());
    }
    // While nobody follows, and while the first server is gone.
    stage("audit");
    let db = server.db.clone();
    server.stop().await;
    let last = parsed(&body).last().unwrap().0.to_string();
    let resumed = other.send(other.request("GET", &path, &token).header("last-event-id", &last));
    let working = async {
        tokio::time::sleep(Duration::from_millis(300)).await;
        tokio::task::block_in_place(|| refused_deployment(&db, &id, "unsafe { }"));
    };
    let (answer, ()) =
        timeout(Duration::from_secs(10), async { tokio::join!(resumed, working) }).await.unwrap();
    let seen: Vec<u64> =
        [body, answer.body].iter().flat_map(|body| parsed(body)).map(|(id, ..)| id).collect();
    assert_eq!(seen, [1, 2, 3, 4, 5]);
    // The page of the console follows in the same way, with the cookie of the server that is gone.
    let cookie = crate::console::sign_in(&other, &token).await;
    let again =
        other.request("GET", &format!("/deployments/{id}/events?after=1"), "").header("cookie", cookie);
    let again = parsed(&other.send(again.header("last-event-id", "3")).await.body);
    assert_eq!(again.into_iter().map(|(id, ..)| id).collect::<Vec<_>>(), [4, 5]);
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

/// Opens streams until one is refused; those that are open, and the refusal.
async fn as_many_as_there_are(
    server: &Server,
    token: &str,
    path: &str,
) -> (Vec<reqwest::Response>, Option<u16>) {
    let mut open = Vec::new();
    for _ in 0..limits::STREAMS_MAX {
        let response = server.request("GET", path, token).send().await.unwrap();
        match response.status().as_u16() {
            200 => open.push(response),
            refused => return (open, Some(refused)),
        }
    }
    (open, None)
}

/// Streams live for an hour, so who may open all of them shuts everybody else out.
#[tokio::test]
async fn streams_of_one_tenant_leave_room_for_those_of_others() {
    let server = Server::start().await;
    let (token, other) = (
        server.token("a", &[Scope::Read, Scope::Deploy]).await,
        server.token("b", &[Scope::Read, Scope::Deploy]).await,
    );
    let path = format!("/v1/deployments/{}/events", deployed(&server, &token).await);
    let theirs = format!("/v1/deployments/{}/events", deployed(&server, &other).await);
    let (open, refused) = as_many_as_there_are(&server, &token, &path).await;
    let stream = server.request("GET", &theirs, &other).send().await.unwrap();
    assert_eq!(stream.status().as_u16(), 200, "{} streams of another tenant are open", open.len());
    assert_eq!(refused, Some(429));
    assert_eq!(server.get(&path, &token).await.code(), "MF0912");
    drop(open);
    let again = async {
        while server.request("GET", &path, &token).send().await.unwrap().status().as_u16() != 200 {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    timeout(Duration::from_secs(20), again).await.expect("places are not given back");
}

/// A stream is a question that goes on being asked: it ends with the right to ask it.
#[tokio::test]
async fn a_stream_ends_when_its_token_does() {
    let server = Server::start().await;
    let scopes = [Scope::Read, Scope::Deploy];
    let kept = server.token("a", &scopes).await;
    let path = format!("/v1/deployments/{}/events", deployed(&server, &kept).await);
    let begun = async |token: &str| {
        let mut stream = server.request("GET", &path, token).send().await.unwrap();
        assert!(stream.chunk().await.unwrap().is_some());
        stream
    };
    let mut stays = begun(&kept).await;
    let mut ending_ones = Vec::new();
    for ending in ["revoked_at = now()", "expires_at = now()"] {
        let token = server.token("a", &scopes).await;
        ending_ones.push((ending, begun(&token).await));
        let id = token.split('_').nth(1).unwrap();
        server.db.sql(&format!("UPDATE tokens SET {ending} WHERE id = '{id}'"));
    }
    for (ending, mut ended) in ending_ones {
        let end = async { while ended.chunk().await.unwrap().is_some() {} };
        let outlived = || panic!("the stream outlives its token: {ending}");
        timeout(Duration::from_secs(15), end).await.unwrap_or_else(|_| outlived());
    }
    let goes_on = async { while stays.chunk().await.unwrap().is_some() {} };
    assert!(timeout(Duration::from_secs(1), goes_on).await.is_err(), "another token's stream ended");
}
