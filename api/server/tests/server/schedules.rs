//! Schedules: what may be said, who may say it, and the calls that come of it, at a node that the test plays.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use mfaas_ident::Role;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::console::{page, sign_in};
use crate::nodes::listening_node;
use crate::support::{Answer, Server};

const NIGHTLY: &str = "/v1/functions/hello/schedules/nightly";

async fn set(server: &Server, token: &str, path: &str, body: &Value) -> Answer {
    server.send(server.request("PUT", path, token).json(body)).await
}

async fn only(server: &Server, token: &str) -> Value {
    let page = server.get("/v1/functions/hello/schedules", token).await.json();
    assert_eq!(page["items"].as_array().unwrap().len(), 1, "{page}");
    page["items"][0].clone()
}

/// Waits until the schedule says what `is` asks for.
async fn settled(server: &Server, token: &str, is: impl Fn(&Value) -> bool) -> Value {
    for _ in 0..400 {
        let item = only(server, token).await;
        if is(&item) {
            return item;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("{}", only(server, token).await)
}

#[tokio::test]
async fn a_deployer_says_when_and_with_what() {
    let server = Server::start().await;
    let deployer = server.token_of("a", Role::Deployer).await;
    server.admitted("a", "hello", &deployer).await;
    let nightly = json!({"cron": "0 3 * * *", "body": "all"});
    let made = set(&server, &deployer, NIGHTLY, &nightly).await;
    assert_eq!((made.status, &made.json()["body"]), (200, &json!("all")), "{made:?}");
    let item = only(&server, &server.token_of("a", Role::Viewer).await).await;
    let due_at: chrono::DateTime<chrono::Utc> = item["due_at"].as_str().unwrap().parse().unwrap();
    assert!(due_at > chrono::Utc::now() && due_at.format("%H:%M:%S").to_string() == "03:00:00", "{item}");
    assert_eq!(
        (&item["function"], &item["name"], &item["cron"]),
        (&json!("hello"), &json!("nightly"), &json!("0 3 * * *"))
    );
    assert_eq!((&item["runs"], item.get("last")), (&json!(0), None));

    for wrong in [
        json!({}),
        json!({"cron": "0 3 * *"}),
        json!({"cron": "0 0 30 2 *"}),
        json!({"cron": "0 3 * * *", "body": "x".repeat(16_385)}),
        json!({"cron": "0 3 * * *", "body": "a\u{0}b"}),
        json!({"cron": "0 3 * * *", "more": 1}),
    ] {
        let answer = set(&server, &deployer, NIGHTLY, &wrong).await;
        assert_eq!((answer.status, answer.code().as_str()), (400, "MF0904"), "{answer:?}");
    }
    let viewer = server.token_of("a", Role::Viewer).await;
    assert_eq!(set(&server, &viewer, NIGHTLY, &nightly).await.code(), "MF0902");
    let stranger = server.token_of("b", Role::Deployer).await;
    assert_eq!(set(&server, &stranger, NIGHTLY, &nightly).await.code(), "MF0903");
    assert_eq!(server.get("/v1/functions/hello/schedules", &stranger).await.code(), "MF0903");
    let delete = async |token: &str| server.send(server.request("DELETE", NIGHTLY, token)).await;
    assert_eq!(delete(&stranger).await.code(), "MF0903");
    assert_eq!(delete(&deployer).await.json(), json!({"removed": "schedule nightly of hello"}));
    assert_eq!(delete(&deployer).await.code(), "MF0903");
}

/// A server with the function `hello` of tenant `a` and a schedule that is due once, and what its node was sent: the node answers
/// with each of `answers` once, and then no more.
async fn due_now(answers: &[&str]) -> (Server, String, Arc<Mutex<Vec<String>>>) {
    let server = Server::start().await;
    let deployer = server.token_of("a", Role::Deployer).await;
    server.admitted("a", "hello", &deployer).await;
    let listener = listening_node(&server).await;
    let (seen, answers) =
        (Arc::new(Mutex::new(Vec::new())), answers.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>());
    let sent = Arc::clone(&seen);
    tokio::spawn(async move {
        for answer in answers {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut request = Vec::new();
            while !request.ends_with(b"the body") {
                assert_ne!(stream.read_buf(&mut request).await.unwrap(), 0, "the request ends early");
            }
            sent.lock().unwrap().push(String::from_utf8(request).unwrap());
            stream.write_all(answer.as_bytes()).await.unwrap();
        }
    });
    let yearly = json!({"cron": "0 3 1 1 *", "body": "the body"});
    assert_eq!(set(&server, &deployer, NIGHTLY, &yearly).await.status, 200);
    server.db.sql("UPDATE schedules SET due_at = now() - interval '2 days'");
    (server, deployer, seen)
}

#[tokio::test]
async fn a_time_that_is_due_is_one_call() {
    let (server, deployer, seen) = due_now(&["HTTP/1.1 204 No Content\r\n\r\n"]).await;
    let item = settled(&server, &deployer, |item| item["last"]["outcome"] == "answered").await;
    assert_eq!(
        (&item["runs"], &item["failures"], &item["last"]["status"]),
        (&json!(1), &json!(0), &json!(204))
    );
    assert!(item["due_at"].as_str().unwrap().contains("-01-01T03:00:00"), "{item}");
    let cookie = sign_in(&server, &deployer).await;
    let page = page(&server, "/functions/hello", &cookie).await.body;
    assert!(page.contains(">0 3 1 1 *</td>") && page.contains("answered 204</span>"), "{page}");
    let request = seen.lock().unwrap()[0].to_ascii_lowercase();
    assert!(request.starts_with("post /f/a/hello http/1.1\r\n"), "{request}");
    assert!(
        request.contains("x-scheduled-for: 20") && request.contains("authorization: bearer v4.public"),
        "{request}"
    );
    let log = server.get("/v1/audit?limit=1000", &server.token_of("a", Role::Admin).await).await.json();
    let row =
        log["items"].as_array().unwrap().iter().find(|row| row["action"] == "call_token.issued").unwrap();
    assert_eq!(
        (&row["actor"], &row["detail"]["caller"]),
        (&json!("mfaas-server"), &json!("schedule/nightly"))
    );
    assert_eq!(row["detail"]["functions"], json!(["hello"]));
    tokio::time::sleep(Duration::from_millis(2_500)).await;
    assert_eq!(seen.lock().unwrap().len(), 1, "and no more than one");
}

/// What a node answers that has not called the function, or whose function has failed.
fn problem(status: &str, code: &str) -> String {
    let body = json!({ "code": code, "detail": "played" }).to_string();
    let length = body.len();
    format!("HTTP/1.1 {status}\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{body}")
}

#[tokio::test]
async fn a_call_that_was_not_begun_is_tried_again_and_no_other() {
    let stranger = problem("401 Unauthorized", "MF0816");
    let busy = problem("503 Service Unavailable", "MF0811");
    let panicked = problem("500 Internal Server Error", "MF0802");
    let (server, deployer, seen) = due_now(&[&stranger, &busy, &panicked, "HTTP/1.1 200 OK\r\n\r\n"]).await;
    let item = settled(&server, &deployer, |item| item["last"]["ended_at"].is_string()).await;
    let last = &item["last"];
    assert_eq!(
        (&last["outcome"], &last["status"], &last["code"]),
        (&json!("failed"), &json!(500), &json!("MF0802"))
    );
    assert_eq!((&item["runs"], &item["failures"]), (&json!(1), &json!(1)));
    assert_eq!(
        seen.lock().unwrap().len(),
        3,
        "again where nothing was begun, and not because the function panicked"
    );
}

#[tokio::test]
async fn an_answer_that_breaks_off_is_no_reason_to_call_again() {
    let (server, deployer, seen) = due_now(&["HTTP/1.1 200 O", "HTTP/1.1 200 OK\r\n\r\n"]).await;
    let item = settled(&server, &deployer, |item| item["last"]["ended_at"].is_string()).await;
    assert_eq!((&item["last"]["outcome"], &item["failures"]), (&json!("unreachable"), &json!(1)));
    assert_eq!(seen.lock().unwrap().len(), 1);
}
