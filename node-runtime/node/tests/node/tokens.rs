//! Callers and their tokens, with the real programs: what opens a function, what a function sees, and keys that change.

use mfaas_abi::Status;
use mfaas_abi::frame::{ResponseFrame, encode_request};
use mfaas_attest::{CallKey, Declared, PrivateKey, RevokedCalls, ServingSet};
use mfaas_ident::{Access, PersonName, TenantName};
use mfaas_ring::Completion;
use mfaas_ring::client::Client;
use std::path::PathBuf;
use std::time::Duration;

use crate::documents::{PUBLIC, Signer, function, listed, served, set, token};
use crate::program::{Home, Node};
use crate::server::Server;
use crate::{artifact, stage};

const LONG_US: u64 = 1_000_000;

/// A set in which `acme` has one function of each access, and one whose statement does not say.
fn functions(server: &Server, signer: &Signer, epoch: u64) -> ServingSet {
    let mut records = server.records();
    let access = |access| Declared { access, ..PUBLIC };
    let rows = [
        ("open", Some(access(Some(Access::Public)))),
        ("own", Some(access(Some(Access::Tenant)))),
        ("named", Some(access(Some(Access::Token)))),
        ("older", Some(access(None))),
        ("oldest", None),
    ];
    let functions = rows.map(|(name, declared)| {
        let version = served(1, &artifact::build(1), LONG_US);
        function(name, &[&signer.admit_as(&mut records, "acme", name, declared, &version)], 1)
    });
    set(epoch, &functions)
}

async fn serving() -> (Server, Signer, Home, Node) {
    let (server, signer, home) = stage().await;
    let set = functions(&server, &signer, 1);
    signer.publish(&mut server.records(), &set);
    let node = home.start().await;
    node.answers("open", "version 1").await;
    (server, signer, home, node)
}

/// Status, code, and what else a caller learns.
#[derive(Debug, PartialEq, Eq)]
struct Answer {
    status: u16,
    code: String,
    challenge: String,
    retry_after: String,
    body: String,
}

async fn ask(node: &Node, function: &str, headers: &[(&str, &str)], body: &str) -> Answer {
    let client = reqwest::Client::builder().tls_certs_only([]).no_proxy().build().unwrap();
    let mut request = client.post(format!("{}/f/acme/{function}", node.ingress)).body(body.to_owned());
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let response = request.send().await.unwrap();
    let status = response.status().as_u16();
    let header = |name: &str| {
        response.headers().get(name).map_or(String::new(), |value| value.to_str().unwrap().to_owned())
    };
    let (challenge, retry_after) = (header("www-authenticate"), header("retry-after"));
    let body = response.text().await.unwrap();
    let problem: serde_json::Value = serde_json::from_str(&body).unwrap_or_default();
    Answer { status, code: problem["code"].as_str().unwrap_or("").to_owned(), challenge, retry_after, body }
}

async fn status(node: &Node, function: &str, bearer: &str) -> (u16, String) {
    let value = format!("Bearer {bearer}");
    let headers = [("authorization", value.as_str())];
    let answer = ask(node, function, if bearer.is_empty() { &[] } else { &headers }, "").await;
    (answer.status, answer.code)
}

fn refused(status: u16, code: &str) -> (u16, String) {
    (status, code.to_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_function_opens_to_whom_its_statement_says_and_to_nobody_else() {
    let (_server, signer, _home, node) = serving().await;
    let well = refused(200, "");
    assert_eq!(status(&node, "open", "").await, well);
    let missing = ask(&node, "missing", &[], "").await;
    assert_eq!((missing.status, missing.code.as_str()), (401, "MF0816"));
    assert_eq!(missing.challenge, "Bearer");
    for name in ["own", "named", "older", "oldest"] {
        assert_eq!(ask(&node, name, &[], "").await, missing, "{name}: not a word of whether it is there");
    }
    let star = signer.token(&["*"]);
    for (name, wanted) in
        [("own", &well), ("older", &well), ("oldest", &well), ("named", &refused(404, "MF0801"))]
    {
        assert_eq!(status(&node, name, &star).await, *wanted, "{name}");
    }
    assert_eq!(status(&node, "named", &signer.token(&["named"])).await, well);
    let other = format!("Bearer {}", signer.token(&["other"]));
    let stranger = format!("Bearer {}", token(&signer.calls, "umbrella", &["*", "own", "named"], |_| ()));
    for bearer in [&other, &stranger] {
        let headers = [("authorization", bearer.as_str())];
        let missing = ask(&node, "missing", &headers, "").await;
        assert_eq!((missing.status, missing.code.as_str()), (403, "MF0817"));
        assert_eq!(missing.challenge, "Bearer error=\"insufficient_scope\"");
        for name in ["own", "named", "older"] {
            assert_eq!(ask(&node, name, &headers, "").await, missing, "{name}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_forged_an_expired_and_another_kind_of_token_open_nothing() {
    let (_server, signer, _home, node) = serving().await;
    let good = signer.token(&["own"]);
    assert_eq!(status(&node, "own", &good).await.0, 200);
    let over = token(&signer.calls, "acme", &["own"], |claims| {
        claims.issued_at -= chrono::TimeDelta::hours(2);
        claims.expires_at -= chrono::TimeDelta::hours(2);
    });
    let (changed, other) = (good.replacen("v4.public.e", "v4.public.f", 1), PrivateKey::generate().unwrap());
    let none = "eyJhbGciOiJub25lIiwidHlwIjoiSldUIn0.eyJ0ZW5hbnQiOiJhY21lIiwiZnVuY3Rpb25zIjpbIioiXX0.";
    for bad in [over, changed, token(&other, "acme", &["own"], |_| ()), none.to_owned(), "x".to_owned()] {
        for name in ["own", "open", "missing"] {
            assert_eq!(status(&node, name, &bad).await, refused(401, "MF0816"), "{name} {bad}");
        }
    }
}

/// The function answers with the headers that it sees.
#[tokio::test(flavor = "multi_thread")]
async fn a_function_sees_who_calls_and_nothing_that_a_caller_says_about_itself() {
    let (_server, signer, _home, node) = serving().await;
    let forged = [
        ("mfaas-caller", "acme/admin"),
        ("MFAAS-Caller", "acme/admin"),
        ("mfaas_caller", "acme/admin"),
        ("Mfaas_Caller", "acme/admin"),
        ("mfaas.caller", "acme/admin"),
        ("mfaas-anything", "1"),
        ("x-own", "1"),
    ];
    let seen = ask(&node, "open", &forged, "headers").await.body;
    assert!(!seen.contains("mfaas") && !seen.contains("admin") && seen.contains("x-own: 1"), "{seen}");
    let bearer = format!("Bearer {}", signer.token(&["open", "own"]));
    let headers: Vec<_> = forged.into_iter().chain([("authorization", bearer.as_str())]).collect();
    for name in ["open", "own"] {
        let seen = ask(&node, name, &headers, "headers").await.body;
        assert!(seen.contains("mfaas-caller: acme/tests\n"), "{seen}");
        assert_eq!(seen.matches("mfaas").count(), 1, "{seen}");
        assert!(!seen.contains("admin") && !seen.contains("v4.public") && !seen.contains("authorization"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_come_and_go_with_the_signed_set_also_over_a_restart() {
    let (server, signer, home, node) = serving().await;
    let next = PrivateKey::generate().unwrap();
    let (old_token, new_token) = (signer.token(&["own"]), token(&next, "acme", &["own"], |_| ()));
    let publish = |epoch: u64, call_keys: Vec<CallKey>| {
        let set = ServingSet { call_keys, ..functions(&server, &signer, epoch) };
        signer.publish(&mut server.records(), &set);
    };
    let (well, closed) = (refused(200, ""), refused(401, "MF0816"));
    assert_eq!(status(&node, "own", &new_token).await.0, 401);
    publish(2, vec![listed(&next), listed(&signer.calls)]);
    becomes(&node, &new_token, well.clone()).await;
    assert_eq!(status(&node, "own", &old_token).await.0, 200, "until its last token is over");
    publish(3, vec![listed(&next)]);
    becomes(&node, &old_token, closed).await;
    assert_eq!(status(&node, "own", &new_token).await.0, 200);
    node.signal(rustix::process::Signal::TERM);
    assert!(node.ended().await.success());
    let node = home.start().await;
    becomes(&node, &new_token, well.clone()).await;
    assert_eq!(status(&node, "own", &old_token).await.0, 401);
}

/// A token with that id.
fn numbered(signer: &Signer, id: &str) -> String {
    token(&signer.calls, "acme", &["own"], |claims| claims.id = id.to_owned())
}

/// The answer of `acme/own` to that token becomes this one.
async fn becomes(node: &Node, bearer: &str, wanted: (u16, String)) {
    for _ in 0..500 {
        if status(node, "own", bearer).await == wanted {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("it never became {wanted:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn revoked_tokens_are_refused_as_the_set_says_also_over_a_restart_without_a_server() {
    let (mut server, signer, home, node) = serving().await;
    let [one, two] = ["1", "2"].map(|id| numbered(&signer, id));
    let well = refused(200, "");
    assert_eq!(
        (status(&node, "own", &one).await, status(&node, "own", &two).await),
        (well.clone(), well.clone())
    );
    let mut revoked = RevokedCalls::default();
    revoked.revoke_token(TenantName::parse("acme").unwrap(), "1".to_owned());
    let (digest, document) = revoked.encode().unwrap();
    let revoking = ServingSet { revoked_calls: Some(digest), ..functions(&server, &signer, 2) };

    // Without its document a set is not taken: the node goes on with the one before, and says so.
    signer.publish(&mut server.records(), &revoking);
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(status(&node, "own", &one).await, well);
    server.records().blobs.insert(digest, b"{\"tenants\":{}}".to_vec());
    server
        .reported("a damaged document", |report| {
            report.problems.iter().any(|p| p.code == mfaas_rules::codes::MF0701)
        })
        .await;
    assert_eq!(status(&node, "own", &one).await, well);
    server.records().blobs.insert(digest, document.into_bytes());
    becomes(&node, &one, refused(401, "MF0920")).await;
    assert_eq!(status(&node, "own", &two).await, well);
    assert_eq!(status(&node, "open", &one).await, refused(401, "MF0920"), "whoever sends a token means it");

    node.signal(rustix::process::Signal::TERM);
    assert!(node.ended().await.success());
    server.down().await;
    let node = home.start().await;
    becomes(&node, &two, well.clone()).await;
    assert_eq!(status(&node, "own", &one).await, refused(401, "MF0920"));
    server.up().await;
    let nothing = functions(&server, &signer, 3);
    signer.publish(&mut server.records(), &nothing);
    becomes(&node, &one, well).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_caller_beyond_its_share_is_refused_with_the_time_to_come_again() {
    let (_server, signer, _home, node) = serving().await;
    let slow = |name: &str| {
        let slow = token(&signer.calls, "acme", &["*"], |claims| {
            claims.caller = PersonName::parse(name).unwrap();
            claims.rate = Some(1);
        });
        format!("Bearer {slow}")
    };
    let (one, other) = (slow("one"), slow("other"));
    let call = async |bearer: &str, name| ask(&node, name, &[("authorization", bearer)], "").await;
    assert_eq!(call(&one, "own").await.status, 200);
    let answer = call(&one, "own").await;
    assert_eq!((answer.status, answer.code.as_str(), answer.retry_after.as_str()), (429, "MF0818", "1"));
    assert_eq!(call(&one, "open").await.status, 200, "each function by itself");
    assert_eq!(call(&other, "own").await.status, 200, "each caller by itself");
    tokio::time::sleep(Duration::from_millis(1_100)).await;
    assert_eq!(call(&one, "own").await.status, 200);
}

/// What a program of this machine sees of each function: the refusal, and the body.
fn through_the_local_socket(socket: PathBuf) -> Vec<(u32, String)> {
    let names = ["acme/open", "acme/own", "acme/named", "acme/missing"];
    let mut client = Client::connect(socket, &names).unwrap();
    let mut frame = Vec::new();
    encode_request(&mut frame, "POST", "/", [("x-own", "1")], b"headers").unwrap();
    let mut ask = |number| {
        let mut done = Completion::new();
        client.call(number, &frame, &mut done, Duration::from_secs(10)).unwrap();
        assert!(done.refusal != 0 || done.status == Status::Ok, "{done:?}");
        let body = ResponseFrame::decode(&done.response).map_or(&[][..], |response| response.body);
        (done.refusal, String::from_utf8(body.to_vec()).unwrap())
    };
    (0..4).map(&mut ask).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn programs_of_this_machine_call_what_is_public_and_what_the_operator_grants() {
    let (_server, _signer, mut home, node) = serving().await;
    let seen = || (0, "x-own: 1\nmfaas-caller: local\n".to_owned());
    let closed = || (801, String::new());
    let asked = async |home: &Home| {
        let socket = home.path("local.sock");
        tokio::task::spawn_blocking(|| through_the_local_socket(socket)).await.unwrap()
    };
    assert_eq!(asked(&home).await, [seen(), closed(), closed(), closed()]);
    node.signal(rustix::process::Signal::TERM);
    assert!(node.ended().await.success());
    for (grants, wanted) in [
        ("acme/*", [seen(), seen(), closed(), closed()]),
        ("acme/*,acme/named", [seen(), seen(), seen(), closed()]),
        ("umbrella/*", [seen(), closed(), closed(), closed()]),
    ] {
        home.grant_local_calls(grants);
        let node = home.start().await;
        node.answers("open", "version 1").await;
        assert_eq!(asked(&home).await, wanted, "{grants}");
        node.signal(rustix::process::Signal::TERM);
        assert!(node.ended().await.success());
    }
}
