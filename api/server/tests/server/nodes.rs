//! The node listener: a certificate opens it, a join token buys one certificate.

use std::time::{Duration, Instant};

use mfaas_catalog::Actor;
use mfaas_ident::{NodeName, Scope};
use mfaas_server::limits;
use mfaas_server::token::Secret;
use rcgen::{CertificateParams, KeyPair};
use serde_json::{Value, json};
use tokio::net::TcpListener;

use crate::console::{page, sign_in};
use crate::support::Server;

/// A client that trusts the server's authority, with or without a certificate of its own.
fn client(server: &Server, identity: Option<(&str, &KeyPair)>) -> reqwest::Client {
    let ca = std::fs::read(server.dir().join("tls/ca.pem")).unwrap();
    let builder = reqwest::Client::builder().tls_certs_only([reqwest::Certificate::from_pem(&ca).unwrap()]);
    let builder = match identity {
        None => builder,
        Some((certificate, key)) => {
            let pem = format!("{certificate}{}", key.serialize_pem());
            builder.identity(reqwest::Identity::from_pem(pem.as_bytes()).unwrap())
        }
    };
    builder.build().unwrap()
}

async fn join_token(server: &Server, node: &str) -> String {
    let secret = Secret::generate().unwrap();
    let node = NodeName::parse(node).unwrap();
    server
        .catalog
        .create_join_token(
            &Actor::program("test"),
            &mfaas_catalog::NewJoinToken {
                secret_sha256: &secret.hash(),
                node: Some(&node),
                uses_max: 1,
                valid_for_seconds: 60,
            },
        )
        .await
        .unwrap();
    secret.reveal_bare().to_owned()
}

fn join_request(name: &str, token: &str, key: &KeyPair) -> Value {
    let csr = CertificateParams::default().serialize_request(key).unwrap().pem().unwrap();
    json!({"protocol": 1, "name": name, "token": token, "csr_pem": csr})
}

pub(crate) async fn post(client: &reqwest::Client, url: &str, body: &Value) -> (u16, Value) {
    let response = client.post(url).json(body).send().await.unwrap();
    (response.status().as_u16(), response.json().await.unwrap_or(Value::Null))
}

/// A joined node's client.
pub(crate) async fn joined(server: &Server, name: &str) -> reqwest::Client {
    let key = KeyPair::generate().unwrap();
    let request = join_request(name, &join_token(server, name).await, &key);
    let (status, answer) = post(&client(server, None), &server.node_url("/node/v1/join"), &request).await;
    assert_eq!(status, 200, "{answer}");
    client(server, Some((answer["certificate_pem"].as_str().unwrap(), &key)))
}

/// A node that has joined, and has said that the test listens at its ingress.
pub(crate) async fn listening_node(server: &Server) -> TcpListener {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut told = report(1, 0);
    told["ingress_url"] = format!("http://{}", listener.local_addr().unwrap()).into();
    let node = joined(server, "node-1").await;
    assert_eq!(post(&node, &server.node_url("/node/v1/report"), &told).await.0, 204);
    listener
}

pub(crate) fn report(sequence: u64, epoch: u64) -> Value {
    json!({
        "protocol": 1, "boot": "7f2c0e52-6a3e-4d7c-9b45-0e1c3fd0a001", "sequence": sequence, "epoch": epoch,
        "set": "current", "ingress_url": "http://127.0.0.1:7800", "workers": 2, "cage_level": "full",
        "loaded": [], "refused": [], "problems": [],
    })
}

#[tokio::test]
async fn a_join_token_buys_one_certificate_for_one_name() {
    let server = Server::start().await;
    let (stranger, key) = (client(&server, None), KeyPair::generate().unwrap());
    let url = server.node_url("/node/v1/join");
    let token = join_token(&server, "node-1").await;
    let (status, answer) = post(&stranger, &url, &join_request("node-2", &token, &key)).await;
    assert_eq!((status, &answer["code"]), (403, &json!("MF0710")), "the token is for another name");
    let mut bad = join_request("node-1", &token, &key);
    bad["csr_pem"] = json!("nothing");
    assert_eq!(
        post(&stranger, &url, &bad).await.1["code"],
        "MF0904",
        "a bad request does not cost the token"
    );
    assert_eq!(post(&stranger, &url, &join_request("node-1", &token, &key)).await.0, 200);
    let (status, again) = post(&stranger, &url, &join_request("node-1", &token, &key)).await;
    assert_eq!(status, 200, "the answer was lost, and the same key asks again: {again}");
    let another = join_request("node-1", &token, &KeyPair::generate().unwrap());
    assert_eq!(post(&stranger, &url, &another).await.1["code"], "MF0710");
    assert_eq!(
        post(&stranger, &url, &join_request("node-1", &"0".repeat(64), &key)).await.1["code"],
        "MF0710"
    );
}

#[tokio::test]
async fn a_node_renews_its_certificate_by_the_one_that_it_has() {
    let server = Server::start().await;
    let key = KeyPair::generate().unwrap();
    let request = join_request("node-1", &join_token(&server, "node-1").await, &key);
    let (_, answer) = post(&client(&server, None), &server.node_url("/node/v1/join"), &request).await;
    let old = client(&server, Some((answer["certificate_pem"].as_str().unwrap(), &key)));
    let url = server.node_url("/node/v1/certificate");
    let bad = json!({"protocol": 1, "csr_pem": "nothing"});
    assert_eq!(post(&old, &url, &bad).await.1["code"], "MF0904");
    let wanted = json!({"protocol": 1, "csr_pem": request["csr_pem"]});
    let (status, renewed) = post(&old, &url, &wanted).await;
    assert_eq!(status, 200, "{renewed}");
    assert_ne!(renewed["certificate_pem"], answer["certificate_pem"]);
    let new = client(&server, Some((renewed["certificate_pem"].as_str().unwrap(), &key)));
    for shown in [&old, &new] {
        let told = post(shown, &server.node_url("/node/v1/report"), &report(1, 0)).await;
        assert!(told.0 < 300, "{told:?}");
    }
    assert_eq!(post(&new, &url, &wanted).await.1["code"], "MF0908", "once in a while");
}

#[tokio::test]
async fn everything_but_join_needs_the_current_certificate_of_a_node() {
    let server = Server::start().await;
    let stranger = client(&server, None);
    let digest = "0".repeat(64);
    let routes = [
        ("GET", "/node/v1/serving-set".to_owned()),
        ("POST", "/node/v1/shards".to_owned()),
        ("GET", "/node/v1/key-list".to_owned()),
        ("GET", format!("/node/v1/artifacts/{digest}")),
        ("GET", format!("/node/v1/statements/{digest}")),
        ("POST", "/node/v1/report".to_owned()),
        ("POST", "/node/v1/logs".to_owned()),
        ("GET", "/node/v1/directives".to_owned()),
        ("GET", "/node/v1/orders".to_owned()),
        ("POST", "/node/v1/bans".to_owned()),
        ("POST", "/node/v1/usage".to_owned()),
        ("POST", "/node/v1/load".to_owned()),
        ("POST", "/node/v1/certificate".to_owned()),
    ];
    let node = joined(&server, "node-1").await;
    for (method, path) in &routes {
        let url = server.node_url(path);
        let send = |client: &reqwest::Client| client.request(method.parse().unwrap(), &url).send();
        let refused = send(&stranger).await.unwrap();
        assert_eq!(refused.status(), 403, "{path}");
        assert_eq!(refused.json::<Value>().await.unwrap()["code"], "MF0710");
        assert_ne!(send(&node).await.unwrap().status(), 403, "{path}");
    }
    // A second join makes another certificate the current one; the first is worth nothing then.
    let newer = joined(&server, "node-1").await;
    let url = server.node_url("/node/v1/serving-set");
    assert_eq!(node.get(&url).send().await.unwrap().status(), 403);
    assert_eq!(newer.get(&url).send().await.unwrap().status(), 204);
}

#[tokio::test]
async fn a_certificate_of_another_authority_does_not_even_connect() {
    let (server, other) = (Server::start().await, Server::start().await);
    let key = KeyPair::generate().unwrap();
    let request = join_request("node-1", &join_token(&other, "node-1").await, &key);
    let (_, answer) = post(&client(&other, None), &other.node_url("/node/v1/join"), &request).await;
    let foreign = client(&server, Some((answer["certificate_pem"].as_str().unwrap(), &key)));
    assert!(foreign.get(server.node_url("/node/v1/key-list")).send().await.is_err());
}

#[tokio::test]
async fn a_waiting_node_gets_a_new_serving_set_at_once() {
    let server = Server::start().await;
    let node = joined(&server, "node-1").await;
    let begun = Instant::now();
    let url = server.node_url("/node/v1/serving-set?wait=20");
    let waiting = tokio::spawn(node.get(&url).send());
    tokio::time::sleep(Duration::from_millis(300)).await;
    server.db.sql(
        "INSERT INTO serving_sets (epoch, generation, digest, envelope, issued_at, expires_at)
         VALUES (7, 1, repeat('0', 64), '{\"signed\":  \"as it is\"}', now(), now() + interval '1 hour');
         SELECT pg_notify('mfaas_serving_set', '7');",
    );
    let response = waiting.await.unwrap().unwrap();
    assert_eq!(response.status(), 200);
    assert_eq!(response.text().await.unwrap(), "{\"signed\":  \"as it is\"}", "not one byte may change");
    assert!(begun.elapsed() < Duration::from_secs(10));
    let status = async |query: &str| {
        node.get(server.node_url(&format!("/node/v1/serving-set?{query}"))).send().await.unwrap().status()
    };
    assert_eq!(status(&format!("known={}", "0".repeat(64))).await, 204);
    assert_eq!(status(&format!("known={}", "1".repeat(64))).await, 200, "another set, whatever its epoch");
    assert_eq!((status("after=7").await.as_u16(), status("after=6").await.as_u16()), (204, 200));
}

/// Long polls are held for as long as they wait, so one node that asks without end would keep out all others.
#[tokio::test]
async fn one_node_leaves_room_for_others() {
    let server = Server::start().await;
    let (greedy, other) = (joined(&server, "node-1").await, joined(&server, "node-2").await);
    let url = server.node_url("/node/v1/serving-set?wait=20");
    let mut polls: Vec<_> =
        (0..limits::ONE_NODES_REQUESTS_MAX + 1).map(|_| Box::pin(greedy.get(&url).send())).collect();
    let refused = async { futures::future::select_all(&mut polls).await.0.unwrap().status().as_u16() };
    let refused = tokio::time::timeout(Duration::from_secs(10), refused).await;
    assert_eq!(refused.expect("it may wait as often as it wants"), 429);
    let answer = other.get(server.node_url("/node/v1/serving-set?wait=0")).send().await.unwrap();
    assert_eq!(answer.status().as_u16(), 204);
}

#[tokio::test]
async fn shards_come_in_the_order_of_the_question_or_not_at_all() {
    let server = Server::start().await;
    let node = joined(&server, "node-1").await;
    let [one, two, none] = ["1", "2", "3"].map(|digit| digit.repeat(64));
    server
        .db
        .sql(&format!("INSERT INTO shards (digest, body) VALUES ('{one}', 'first'), ('{two}', 'second')"));
    let url = server.node_url("/node/v1/shards");
    let ask = async |digests: Vec<&String>| node.post(&url).json(&digests).send().await.unwrap();
    let answer = ask(vec![&two, &one, &two]).await;
    assert_eq!(answer.headers()["content-type"], "application/x-ndjson");
    assert_eq!(answer.text().await.unwrap(), "second\nfirst\nsecond\n");
    assert_eq!(ask(vec![&one, &none]).await.status(), 404);
    assert_eq!(ask(vec![&one; 64]).await.status(), 200);
    let refused = ask(vec![&one; 65]).await;
    assert_eq!(
        (refused.status().as_u16(), &refused.json::<Value>().await.unwrap()["code"]),
        (400, &json!("MF0904"))
    );
}

/// The sets of others go on meanwhile; a change that no set says yet, and a node before it, are not ready.
#[tokio::test]
async fn a_function_is_ready_where_the_set_is_not_before_its_own() {
    let server = Server::start().await;
    let token = server.token("a", &[Scope::Read, Scope::Deploy]).await;
    server.admitted("a", "hello", &token).await;
    let version = mfaas_ident::VersionNumber::new(1).unwrap();
    let (root, shards) = mfaas_attest::tree_of([mfaas_attest::ServedFunction {
        tenant: "a".parse().unwrap(),
        name: "hello".parse().unwrap(),
        aliases: [("live".parse().unwrap(), version)].into(),
        versions: vec![mfaas_attest::ServedVersion {
            version,
            digest: "a".repeat(64).parse().unwrap(),
            statement: "b".repeat(64).parse().unwrap(),
            budget_us: mfaas_ident::Budget::DEFAULT,
            memory_bytes: mfaas_ident::MemoryLimit::DEFAULT,
        }],
        revoked: [].into(),
        resources: Default::default(),
    }])
    .unwrap();
    let body = &shards[&root.digest];
    server.db.sql(&format!(
        "INSERT INTO shards (digest, body) VALUES ('{0}', '{body}');
         INSERT INTO serving_sets (epoch, generation, digest, envelope, issued_at, expires_at, shard, functions)
         VALUES (9, 1, repeat('0', 64), 'set', now(), now() + interval '1 hour', '{0}', 1);
         UPDATE functions SET set_epoch = 7",
        root.digest
    ));
    let node = joined(&server, "node-1").await;
    let url = server.node_url("/node/v1/report");
    let endpoint =
        async || server.get("/v1/functions/hello/endpoints", &token).await.json()["items"][0].clone();
    let shown = |row: &Value| (row["ready"].as_bool().unwrap(), row["loaded_versions"].clone());
    assert_eq!(post(&node, &url, &report(1, 8)).await.0, 204);
    assert_eq!(shown(&endpoint().await), (false, json!([1])), "the admission is not in any set yet");
    server.db.sql("DELETE FROM changed_functions");
    assert_eq!(shown(&endpoint().await), (true, json!([1])), "behind, but not behind this");
    assert_eq!(post(&node, &url, &report(2, 6)).await.0, 204);
    assert_eq!(shown(&endpoint().await), (false, json!([])));
    let mut refusing = report(3, 9);
    refusing["protocol"] = json!(3);
    let row = json!({"tenant": "a", "function": "hello", "version": 1, "digest": "a".repeat(64),
                     "code": "MF0712", "message": "x"});
    (refusing["refused"], refusing["refused_total"]) = (json!([row]), json!(1));
    assert_eq!(post(&node, &url, &refusing).await.0, 204);
    assert_eq!(shown(&endpoint().await), (false, json!([])));
    // Under the same number another set can have been signed, of a history that a failover has lost.
    let admin = server.token("a", &[Scope::Admin]).await;
    let state = async || server.get("/v1/nodes", &admin).await.json()["items"][0]["state"].clone();
    for (sequence, digit, is_ours) in [(4, "1", false), (5, "0", true)] {
        let mut told = report(sequence, 9);
        (told["protocol"], told["set_digest"]) = (json!(3), json!(digit.repeat(64)));
        assert_eq!(post(&node, &url, &told).await.0, 204);
        assert_eq!(endpoint().await["ready"], json!(is_ours));
        assert_eq!(state().await, json!(if is_ours { "ready" } else { "behind" }));
    }
    let mut more = report(6, 9);
    (more["protocol"], more["refused_total"]) = (json!(3), json!(5_000));
    assert_eq!(post(&node, &url, &more).await.0, 204);
    assert_eq!(shown(&endpoint().await), (false, json!([])), "it does not say which are not loaded");
    (more["sequence"], more["refused_first"]) = (json!(7), json!(0));
    assert_eq!(post(&node, &url, &more).await.0, 204);
    assert_eq!(shown(&endpoint().await), (true, json!([1])), "of what an alias names, all is loaded");
    (more["sequence"], more["refused_first"]) = (json!(8), json!(1));
    assert_eq!(post(&node, &url, &more).await.0, 204);
    assert_eq!(shown(&endpoint().await), (false, json!([])), "it does not list which one");
}

/// What a node of release 0.2.0 says (tests/releases), as it wrote it.
fn written_by_release_before(file: &str) -> String {
    let path = format!("{}/../../tests/releases/0.2.0/{file}", env!("CARGO_MANIFEST_DIR"));
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"))
}

#[tokio::test]
async fn a_node_of_the_release_before_joins_and_reports() {
    let server = Server::start().await;
    let key = KeyPair::generate().unwrap();
    let csr = CertificateParams::default().serialize_request(&key).unwrap().pem().unwrap();
    let join = written_by_release_before("join.json")
        .replace("TOKEN", &join_token(&server, "node-1").await)
        .replace("\"CSR\"", &json!(csr).to_string());
    let send = async |client: &reqwest::Client, path: &str, agent: &str, body: String| {
        let request = client.post(server.node_url(path)).header("content-type", "application/json");
        let answer = request.header("user-agent", agent).body(body).send().await.unwrap();
        (answer.status().as_u16(), answer.text().await.unwrap())
    };
    let (status, answer) = send(&client(&server, None), "/node/v1/join", "mfaas-node", join).await;
    assert_eq!(status, 200, "{answer}");
    let answer: Value = serde_json::from_str(&answer).unwrap();
    let node = client(&server, Some((answer["certificate_pem"].as_str().unwrap(), &key)));

    let report = written_by_release_before("report.json");
    let told = send(&node, "/node/v1/report", "mfaas-node", report.clone()).await;
    assert_eq!(told, (204, String::new()));
    let admin = server.token("a", &[Scope::Admin]).await;
    let shown = async || server.get("/v1/nodes", &admin).await.json()["items"][0].clone();
    let view = shown().await;
    assert_eq!((&view["reported_epoch"], &view["condition"]), (&json!(3), &json!("cordoned")));
    assert_eq!(view.get("build"), None, "it does not say which build it is");
    // The same node, updated.
    let newer = report.replace("\"sequence\":7", "\"sequence\":8");
    assert_eq!(send(&node, "/node/v1/report", "mfaas-node/0.3.0+1f2e3d4", newer).await.0, 204);
    assert_eq!(shown().await["build"], "0.3.0+1f2e3d4");
    let newest = report.replace("\"sequence\":7", "\"sequence\":9");
    assert_eq!(
        send(&node, "/node/v1/report", "mfaas-node/\u{e9}", newest).await.0,
        204,
        "what it calls itself is no reason"
    );
    assert_eq!(shown().await.get("build"), None);

    for (path, file) in [("/node/v1/usage", "usage.json"), ("/node/v1/logs", "logs.json")] {
        let (status, answer) = send(&node, path, "mfaas-node", written_by_release_before(file)).await;
        assert_eq!(status, 204, "{file}: {answer}");
    }
    let wait = node.get(server.node_url("/node/v1/directives")).send().await.unwrap();
    assert_eq!(
        wait.json::<Value>().await.unwrap(),
        json!({"protocol": 2, "availability": "active", "bans": []})
    );
}

#[tokio::test]
async fn a_report_shows_up_where_people_look() {
    let server = Server::start().await;
    let node = joined(&server, "node-1").await;
    let admin = server.token("a", &[Scope::Admin]).await;
    assert_eq!(server.get("/v1/nodes", &admin).await.json()["items"][0]["state"], "joined");
    let url = server.node_url("/node/v1/report");
    assert_eq!(post(&node, &url, &report(2, 0)).await.0, 204);
    assert_eq!(post(&node, &url, &report(1, 9)).await.0, 204, "an overtaken report is dropped in silence");
    let shown = server.get("/v1/nodes", &admin).await.json()["items"][0].clone();
    assert_eq!(
        (&shown["state"], &shown["reported_epoch"], &shown["workers"]),
        (&json!("ready"), &json!(0), &json!(2))
    );
    let mut future = report(3, 0);
    future["protocol"] = json!(mfaas_delivery::NODE_PROTOCOL + 1);
    assert_eq!(post(&node, &url, &future).await.1["code"], "MF0904");
    let batch = json!({
        "protocol": 1, "boot": "7f2c0e52-6a3e-4d7c-9b45-0e1c3fd0a001", "first": 0, "dropped": 0,
        "lines": [{"at": "2026-01-02T03:04:05Z", "tenant": "a", "function": "invented", "version": 1,
                   "level": "info", "text": "x"}],
    });
    assert_eq!(post(&node, &server.node_url("/node/v1/logs"), &batch).await.0, 204);
    assert_eq!(server.db.sql("SELECT count(*) FROM function_logs"), "0", "a node cannot invent functions");
}

#[tokio::test]
async fn a_version_that_a_node_refuses_says_so_to_its_own_tenant() {
    let server = Server::start().await;
    let token = server.token("a", &[Scope::Read, Scope::Deploy]).await;
    let id = server.admitted("a", "hello", &token).await;
    let node = joined(&server, "node-1").await;
    let refused = |tenant: &str| {
        json!({"tenant": tenant, "function": "hello", "version": 1, "digest": "a".repeat(64),
               "code": "MF0712", "message": format!("{tenant}/hello@1 is not taken<img src=x>\u{1b}[2J")})
    };
    let mut told = report(1, 0);
    told["refused"] = json!([refused("a"), refused("b")]);
    assert_eq!(post(&node, &server.node_url("/node/v1/report"), &told).await.0, 204);
    let endpoints = server.get("/v1/functions/hello/endpoints", &token).await.json();
    let rows = endpoints["items"][0]["refused_versions"].as_array().unwrap().clone();
    assert_eq!(rows.len(), 1, "{rows:?}");
    assert_eq!((&rows[0]["version"], &rows[0]["code"]), (&json!(1), &json!("MF0712")));
    assert!(rows[0]["hint"].as_str().unwrap().contains("Update the node"));
    let cookie = sign_in(&server, &token).await;
    let body = page(&server, &format!("/deployments/{id}"), &cookie).await.body;
    assert!(body.contains("MF0712") && body.contains("a/hello@1 is not taken"), "{body}");
    assert!(!body.contains("b/hello"), "{body}");
    assert!(!body.contains("<img src=x") && !body.contains('\u{1b}'), "a node's words do nothing: {body}");
    let body = page(&server, "/functions/hello", &cookie).await.body;
    assert!(body.contains("<td>process</td><td>yes</td>"), "{body}");
}

#[tokio::test]
async fn an_admin_s_token_joins_several_nodes_and_a_node_that_an_operator_removes_is_refused_at_once() {
    let server = Server::start().await;
    let admin = server.token_of("a", mfaas_ident::Role::Admin).await;
    let operator = server.token_of("a", mfaas_ident::Role::Operator).await;
    let make =
        async |body: Value| server.send(server.request("POST", "/v1/join-tokens", &admin).json(&body)).await;
    for bad in [json!({"uses": 0}), json!({"uses": 1001}), json!({"hours": 0}), json!({"hours": 721})] {
        assert_eq!(make(bad.clone()).await.code(), "MF0904", "{bad}");
    }
    let made = make(json!({"uses": 2, "hours": 2})).await;
    assert_eq!((made.status, &made.json()["uses"]), (201, &json!(2)), "{made:?}");
    let token = made.json()["token"].as_str().unwrap().to_owned();
    let (stranger, url) = (client(&server, None), server.node_url("/node/v1/join"));
    let (key, other) = (KeyPair::generate().unwrap(), KeyPair::generate().unwrap());
    let (status, answer) = post(&stranger, &url, &join_request("node-1", &token, &key)).await;
    assert_eq!(status, 200, "{answer}");
    let (status, taken) = post(&stranger, &url, &join_request("node-1", &token, &other)).await;
    assert_eq!((status, &taken["code"]), (409, &json!("MF0908")), "a name is taken once");
    assert!(taken["detail"].as_str().unwrap().contains("mfaas node remove node-1"), "{taken}");
    assert_eq!(
        post(&stranger, &url, &join_request("node-2", &token, &other)).await.0,
        200,
        "that cost nothing"
    );

    let node = client(&server, Some((answer["certificate_pem"].as_str().unwrap(), &key)));
    let report_url = server.node_url("/node/v1/report");
    assert_eq!(post(&node, &report_url, &report(1, 0)).await.0, 204);
    // It waits for directives, on a connection that is open.
    let first =
        node.get(server.node_url("/node/v1/directives?wait=0")).send().await.unwrap().bytes().await.unwrap();
    let known = mfaas_ident::Digest::of(&first);
    let waiting = node.get(server.node_url(&format!("/node/v1/directives?wait=20&known={known}"))).send();
    let waiting = tokio::spawn(waiting);
    let removed = server.send(server.request("DELETE", "/v1/nodes/node-1", &operator)).await;
    assert_eq!((removed.status, &removed.json()["removed"]), (200, &json!("node node-1")));
    for path in ["/node/v1/report", "/node/v1/usage", "/node/v1/logs"] {
        let (status, refused) = post(&node, &server.node_url(path), &report(2, 0)).await;
        assert_eq!((status, &refused["code"]), (403, &json!("MF0710")), "{path}");
    }
    for path in ["serving-set", "directives", "key-list"] {
        let answer = node.get(server.node_url(&format!("/node/v1/{path}"))).send().await.unwrap();
        assert_eq!(answer.status(), 403, "{path}");
    }
    let listed = server.get("/v1/nodes", &operator).await.json();
    let names: Vec<_> = listed["items"].as_array().unwrap().iter().map(|node| node["name"].clone()).collect();
    assert_eq!(names, ["node-2"]);
    server.db.sql("UPDATE nodes SET availability = 'cordoned' WHERE name = 'node-2'");
    let waited = waiting.await.unwrap().unwrap();
    assert!(!waited.status().is_success(), "who waited when it was removed is told nothing more: {waited:?}");
    let said = "SELECT string_agg(action || ' ' || subject, ', ' ORDER BY seq) FROM audit_log
                WHERE action LIKE 'node.%' OR action LIKE 'join_token.%'";
    assert_eq!(
        server.db.sql(said),
        "join_token.created , node.joined node-1, node.joined node-2, node.removed node-1"
    );
}

#[tokio::test]
async fn join_tokens_are_listed_without_what_they_are_shown_by_and_revoked() {
    let server = Server::start().await;
    let admin = server.token_of("a", mfaas_ident::Role::Admin).await;
    let wanted = json!({"uses": 2, "hours": 2});
    let made = server.send(server.request("POST", "/v1/join-tokens", &admin).json(&wanted)).await.json();
    let (id, token) = (made["id"].as_str().unwrap().to_owned(), made["token"].as_str().unwrap().to_owned());
    let (stranger, url, key) =
        (client(&server, None), server.node_url("/node/v1/join"), KeyPair::generate().unwrap());
    assert_eq!(post(&stranger, &url, &join_request("node-1", &token, &key)).await.0, 200);
    let listed = server.get("/v1/join-tokens", &admin).await;
    assert!(!listed.body.contains(&token), "{}", listed.body);
    let row = listed.json()["items"][0].clone();
    assert_eq!((&row["id"], &row["uses"], &row["uses_left"]), (&json!(id), &json!(2), &json!(1)));
    let maker = server.db.sql("SELECT actor FROM audit_log WHERE action = 'join_token.created'");
    assert_eq!((&row["created_by"], &row["expires_at"]), (&json!(maker), &made["expires_at"]));
    let path = format!("/v1/join-tokens/{id}");
    let revoked = server.send(server.request("DELETE", &path, &admin)).await;
    assert_eq!((revoked.status, revoked.json()["revoked_at"].is_string()), (200, true), "{revoked:?}");
    for (name, key) in [("node-1", &key), ("node-2", &KeyPair::generate().unwrap())] {
        let (status, refused) = post(&stranger, &url, &join_request(name, &token, key)).await;
        assert_eq!((status, &refused["code"]), (403, &json!("MF0710")), "{name}");
    }
    let unknown = "/v1/join-tokens/7f2c0e52-6a3e-4d7c-9b45-0e1c3fd0a001";
    assert_eq!(server.send(server.request("DELETE", unknown, &admin)).await.code(), "MF0903");
    let told = "SELECT count(*) FROM audit_log WHERE action = 'join_token.revoked' AND actor = ".to_owned()
        + &format!("'{maker}'");
    assert_eq!(server.db.sql(&told), "1");
}

/// A set that comes while it waits is not for a node that was removed meanwhile.
#[tokio::test]
async fn a_node_that_waits_for_a_set_when_it_is_removed_does_not_get_it() {
    let server = Server::start().await;
    let operator = server.token_of("a", mfaas_ident::Role::Operator).await;
    let node = joined(&server, "node-1").await;
    let waiting = tokio::spawn(node.get(server.node_url("/node/v1/serving-set?wait=20")).send());
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(server.send(server.request("DELETE", "/v1/nodes/node-1", &operator)).await.status, 200);
    server.db.sql(
        "INSERT INTO serving_sets (epoch, generation, digest, envelope, issued_at, expires_at)
         VALUES (9, 1, repeat('d', 64), 'a set', now(), now() + interval '1 hour')",
    );
    let answer = waiting.await.unwrap().unwrap();
    assert_eq!(answer.status(), 403);
    assert_eq!(answer.json::<Value>().await.unwrap()["code"], "MF0710");
}

#[tokio::test]
async fn calls_go_where_the_site_says_and_nodes_that_are_silent_or_behind_are_counted() {
    let server = Server::start_as(&[("MFAAS_PUBLIC_INGRESS_URL", "https://functions.example/")], |config| {
        config.counts_life = Duration::ZERO;
    })
    .await;
    let token = server.token("a", &[Scope::Read, Scope::Deploy]).await;
    server.admitted("a", "hello", &token).await;
    for (name, epoch) in [("node-1", 7), ("node-2", 6), ("node-3", 7)] {
        let node = joined(&server, name).await;
        assert_eq!(post(&node, &server.node_url("/node/v1/report"), &report(1, epoch)).await.0, 204);
    }
    joined(&server, "node-4").await;
    server.db.sql(
        "INSERT INTO serving_sets (epoch, generation, digest, envelope, issued_at, expires_at)
         VALUES (7, 1, repeat('d', 64), 'a set', now(), now() + interval '1 hour');
         UPDATE node_reports SET at = now() - interval '1 minute' WHERE node = 'node-3'",
    );
    let endpoints = server.get("/v1/functions/hello/endpoints", &token).await.json();
    let urls: Vec<_> = endpoints["items"].as_array().unwrap().iter().map(|row| row["url"].clone()).collect();
    let public = json!("https://functions.example/f/a/hello");
    assert_eq!(urls, [public.clone(), public.clone(), public, Value::Null]);
    let numbers = server.get("/metrics", "").await.body;
    for state in ["ready", "behind", "silent", "joined"] {
        assert!(numbers.contains(&format!("mfaas_node_states{{state=\"{state}\"}} 1")), "{state}: {numbers}");
    }
}

/// A server as sites have them: the key of the authority is the signer's.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_without_the_authority_s_key_passes_on_what_the_signer_says_and_says_that_it_is_away() {
    let server = Server::start_as(&[], |config| {
        std::fs::remove_file(config.tls_dir.join("ca.key")).unwrap();
    })
    .await;
    let (stranger, url) = (client(&server, None), server.node_url("/node/v1/join"));
    let key = KeyPair::generate().unwrap();
    let token = join_token(&server, "node-1").await;
    let request = join_request("node-1", &token, &key);
    let begun = Instant::now();
    let response = stranger.post(&url).json(&request).send().await.unwrap();
    assert!(begun.elapsed() >= limits::CERTIFICATE_WAIT_MAX);
    assert_eq!(
        (response.status().as_u16(), response.headers()["retry-after"].to_str().unwrap()),
        (503, "30")
    );
    assert_eq!(response.json::<Value>().await.unwrap()["code"], "MF0721");
    let left = "SELECT (SELECT count(*) FROM certificate_requests) + (SELECT sum(uses) FROM join_tokens)";
    assert_eq!(server.db.sql(left), "0", "nobody joins later by what nobody waits for");

    for (said, status, code) in [
        ("refusal = 'unknown'", 403, json!("MF0710")),
        ("refusal = 'taken'", 409, json!("MF0908")),
        ("refusal = 'unusable'", 400, json!("MF0904")),
        ("refusal = 'again'", 409, json!("MF0908")),
        ("refusal = 'too_many'", 503, json!("MF0721")),
        ("certificate = 'the certificate'", 200, Value::Null),
    ] {
        let asked = tokio::spawn({
            let (stranger, url, request) = (stranger.clone(), url.clone(), request.clone());
            async move { post(&stranger, &url, &request).await }
        });
        let row = format!(
            "UPDATE certificate_requests SET {said} WHERE node = 'node-1' AND shown IS NULL AND csr LIKE '-----BEGIN%'
             AND secret_sha256 = (SELECT secret_sha256 FROM join_tokens) RETURNING 1"
        );
        let until = Instant::now() + Duration::from_secs(10);
        while server.db.sql(&row).is_empty() {
            assert!(Instant::now() < until, "the server asks nobody");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        let (answered, answer) = asked.await.unwrap();
        assert_eq!((answered, &answer["code"]), (status, &code), "{said}: {answer}");
        if status == 200 {
            assert_eq!(answer["certificate_pem"], "the certificate");
        }
    }
}
