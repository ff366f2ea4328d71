//! Usage, bans, and what nodes are to take: from the node listener to the API and the console.

use mfaas_ident::{Digest, Role, Scope};
use serde_json::{Value, json};

use crate::console::{csrf_of, page, sign_in};
use crate::nodes::{joined, post};
use crate::support::{Server, admitted_version};

const BOOT: &str = "7f2c0e52-6a3e-4d7c-9b45-0e1c3fd0a001";

/// `tenant/hello@1` with this artifact.
async fn version(server: &Server, tenant: &str, artifact: &str) {
    let token = server.token(tenant, &[Scope::Deploy]).await;
    let created = server.upload("hello", &token, vec![1]).await.json();
    admitted_version(&server.db, tenant, "hello", created["deployment"]["id"].as_str().unwrap(), artifact);
}

fn usage_row(tenant: &str, calls: u64) -> Value {
    json!({
        "tenant": tenant, "function": "hello", "version": 1, "calls": calls, "cpu_ns": calls * 1_000,
        "run_ns": calls * 2_000, "queue_ns": calls, "run_ns_max": 2_000, "memory_bytes_max": 4_096,
        "kills": {"over_budget": calls / 2},
    })
}

fn usage(sequence: u64, rows: &[Value]) -> Value {
    json!({"protocol": 2, "boot": BOOT, "sequence": sequence, "rows": rows})
}

fn ban(tenant: &str, artifact: &str, told: u32) -> Value {
    json!({
        "protocol": 2, "told": format!("7f2c0e52-6a3e-4d7c-9b45-0e1c3fd0a{told:03}"),
        "ban": {"tenant": tenant, "function": "hello", "version": 1, "digest": artifact, "crashes": 3,
                "since": "2026-01-02T03:04:05Z"},
    })
}

#[tokio::test]
async fn usage_is_charged_once_and_each_tenant_sees_its_own() {
    let server = Server::start().await;
    version(&server, "a", &"a".repeat(64)).await;
    let node = joined(&server, "node-1").await;
    let url = server.node_url("/node/v1/usage");
    let told = usage(1, &[usage_row("a", 10), usage_row("nobody", 10)]);
    assert_eq!(post(&node, &url, &told).await.0, 204);
    assert_eq!(post(&node, &url, &told).await.0, 204, "a repetition is taken in silence");
    let more_than_a_node_can = usage(2, &[usage_row("a", 1 << 50)]);
    assert_eq!(post(&node, &url, &more_than_a_node_can).await.1["code"], "MF0904");
    let mut contradiction = usage_row("a", 10);
    contradiction["kills"]["lost"] = json!(9);
    assert_eq!(post(&node, &url, &usage(2, &[contradiction])).await.1["code"], "MF0904");

    let viewer = server.token_of("a", Role::Viewer).await;
    let seen = server.get("/v1/usage", &viewer).await.json();
    assert_eq!(seen["rows"].as_array().unwrap().len(), 1, "{seen}");
    let row = &seen["rows"][0];
    assert_eq!(
        (&row["calls"], &row["cpu_ns"], &row["run_ns_max"]),
        (&json!(10), &json!(10_000), &json!(2_000))
    );
    assert_eq!(row["kills"], json!({"over_budget": 5}));
    for by in ["hour", "day"] {
        let seen = server.get(&format!("/v1/usage?by={by}&since=2h&function=hello"), &viewer).await.json();
        assert_eq!((&seen["by"], &seen["rows"][0]["calls"]), (&json!(by), &json!(10)));
    }

    let other = server.token_of("b", Role::Viewer).await;
    assert_eq!(server.get("/v1/usage", &other).await.json()["rows"], json!([]));
    assert_eq!(server.get("/v1/usage?tenant=a", &other).await.code(), "MF0903");
    let operator = server.token_of("b", Role::Operator).await;
    for path in ["/v1/usage", "/v1/usage?tenant=a"] {
        assert_eq!(server.get(path, &operator).await.json()["rows"][0]["tenant"], "a", "{path}");
    }
    assert_eq!(server.get("/v1/usage?tenant=b", &operator).await.json()["rows"], json!([]));
    for wrong in ["by=week", "since=tomorrow", "since=1h&until=2h", "function=Hello", "since=500d"] {
        assert_eq!(server.get(&format!("/v1/usage?{wrong}"), &viewer).await.code(), "MF0904", "{wrong}");
    }

    let cookie = sign_in(&server, &viewer).await;
    let body = page(&server, "/usage?since=7d", &cookie).await.body;
    assert!(
        body.contains("5 over_budget") && body.contains("10.0 µs") && !body.contains(">Tenant<"),
        "{body}"
    );
    let cookie = sign_in(&server, &operator).await;
    assert!(page(&server, "/usage", &cookie).await.body.contains(">Tenant<"));
    let metrics = server.get("/metrics", "").await.body;
    assert!(metrics.contains("mfaas_usage_reports_total{outcome=\"charged\"}"), "{metrics}");
}

#[tokio::test]
async fn a_ban_reaches_every_node_and_lifted_by_an_operator() {
    let server = Server::start().await;
    let artifact = "a".repeat(64);
    version(&server, "a", &artifact).await;
    let (node, other) = (joined(&server, "node-1").await, joined(&server, "node-2").await);
    let directives = server.node_url("/node/v1/directives");
    let first = other.get(&directives).send().await.unwrap().bytes().await.unwrap();
    let known = format!("{directives}?known={}", Digest::of(&first));
    assert_eq!(other.get(&known).send().await.unwrap().status(), 204);
    let waiting = tokio::spawn(other.get(format!("{known}&wait=20")).send());

    let url = server.node_url("/node/v1/bans");
    assert_eq!(
        post(&node, &url, &ban("a", &artifact, 1)).await,
        (200, json!({"protocol": 2, "everywhere": true}))
    );
    let unknown = post(&node, &url, &ban("a", &"b".repeat(64), 2)).await;
    assert_eq!(unknown.1["everywhere"], false, "the artifact is unknown");
    let received: Value = waiting.await.unwrap().unwrap().json().await.unwrap();
    assert_eq!(
        (&received["bans"][0]["digest"], &received["bans"][0]["crashes"]),
        (&json!(artifact), &json!(3))
    );

    let viewer = server.token_of("a", Role::Viewer).await;
    let operator = server.token_of("b", Role::Operator).await;
    let bans = server.get("/v1/bans", &viewer).await.json();
    assert_eq!((&bans["items"][0]["node"], &bans["items"][0]["version"]), (&json!("node-1"), &json!(1)));
    let stranger = server.token_of("b", Role::Viewer).await;
    assert_eq!(server.get("/v1/bans", &stranger).await.json()["items"], json!([]));
    assert_eq!(server.get("/v1/bans", &operator).await.json(), bans);
    let cookie = sign_in(&server, &viewer).await;
    let function = page(&server, "/functions/hello", &cookie).await.body;
    assert!(function.contains("crashed its worker 3 times on node-1"), "{function}");

    let cookie = sign_in(&server, &operator).await;
    let body = page(&server, "/nodes", &cookie).await.body;
    let id = bans["items"][0]["id"].as_i64().unwrap();
    assert!(body.contains(&format!("action=\"/bans/{id}/lift\"")), "{body}");
    let lift = server.request("POST", &format!("/bans/{id}/lift"), "").header("cookie", &cookie);
    let lifted = server.send(lift.form(&[("csrf", csrf_of(&body))])).await;
    assert_eq!((lifted.status, lifted.header("location")), (303, "/nodes#bans"));
    assert_eq!(server.get("/v1/bans", &viewer).await.json()["items"], json!([]));
    let again = server.request("DELETE", &format!("/v1/bans/{id}?tenant=a"), &operator);
    let again = server.send(again).await;
    assert_eq!(again.code(), "MF0908");
    assert_eq!(other.get(&known).send().await.unwrap().status(), 204, "directives are what they were");
    let audit = server.get("/v1/audit?limit=1000", &operator).await.json();
    let lifted: Vec<_> = audit["items"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|row| row["action"] == "function.unbanned")
        .collect();
    assert_eq!((lifted.len(), &lifted[0]["subject"]), (1, &json!("a/hello@1")), "{audit}");
    assert!(lifted[0]["actor"].as_str().unwrap().starts_with("token:"), "{lifted:?}");
}

#[tokio::test]
async fn a_node_is_cordoned_and_drained_by_an_operator() {
    let server = Server::start().await;
    let node = joined(&server, "node-1").await;
    let operator = server.token_of("b", Role::Operator).await;
    let set = async |availability: &str| {
        let request = server.request("PUT", "/v1/nodes/node-1/availability", &operator);
        server.send(request.json(&json!({ "availability": availability }))).await
    };
    let received = async || -> Value {
        node.get(server.node_url("/node/v1/directives")).send().await.unwrap().json().await.unwrap()
    };
    for (availability, cordoned) in [("cordoned", true), ("draining", true), ("active", false)] {
        let view = set(availability).await.json();
        assert_eq!((&view["availability"], &view["cordoned"]), (&json!(availability), &json!(cordoned)));
        assert_eq!(received().await["availability"], availability);
    }
    assert_eq!(set("away").await.code(), "MF0904");
    let request = server.request("PUT", "/v1/nodes/node-9/availability", &operator);
    assert_eq!(server.send(request.json(&json!({"availability": "active"}))).await.code(), "MF0903");

    // In the console, where what the node says of itself decides about `drained`.
    let cookie = sign_in(&server, &operator).await;
    let body = page(&server, "/nodes", &cookie).await.body;
    let form = [("csrf", csrf_of(&body)), ("availability", "draining".to_owned())];
    let drain = server.request("POST", "/nodes/node-1/availability", "").header("cookie", &cookie);
    assert_eq!(server.send(drain.form(&form)).await.status, 303);
    assert!(page(&server, "/nodes", &cookie).await.body.contains(">draining<"));
    let mut report = crate::nodes::report(1, 0);
    (report["protocol"], report["condition"]) = (json!(2), json!("drained"));
    assert_eq!(post(&node, &server.node_url("/node/v1/report"), &report).await.0, 204);
    assert!(page(&server, "/nodes", &cookie).await.body.contains(">drained<"));
    let shown = server.get("/v1/nodes", &operator).await.json()["items"][0].clone();
    assert_eq!((&shown["condition"], &shown["availability"]), (&json!("drained"), &json!("draining")));
    let said = "SELECT string_agg(action, ' ' ORDER BY seq) FROM audit_log WHERE subject = 'node-1'
                AND actor LIKE 'token:%'";
    assert_eq!(server.db.sql(said), "node.cordoned node.draining node.uncordoned node.draining");
    assert!(server.get("/metrics", "").await.body.contains("mfaas_nodes{availability=\"draining\"} 1"));
}
