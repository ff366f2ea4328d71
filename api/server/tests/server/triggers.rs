//! Triggers: what may be said, who may say it, and the calls that come of events, at a node that the test plays.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use mfaas_ident::Role;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::console::{page, sign_in};
use crate::nodes::listening_node;
use crate::support::{Answer, Database, Server};

const UPLOADS: &str = "/v1/functions/hello/triggers/uploads";

/// A server with the function `hello` of tenant `a`, and resources; with the database of functions' data.
struct Site {
    server: Server,
    data: Database,
    deployer: String,
    operator: String,
}

impl Site {
    async fn start() -> Self {
        let data = tokio::task::spawn_blocking(Database::empty).await.unwrap();
        data.sql("DO $$ BEGIN CREATE ROLE mfaas_events LOGIN; EXCEPTION WHEN duplicate_object OR unique_violation THEN NULL; END $$");
        let _ = mfaas_kv::Store::open(&data.url("postgres"), 2, 0).await.unwrap();
        let server = Server::start_with(&[("MFAAS_EVENTS_DATABASE_URL", &data.url("mfaas_events"))]).await;
        let deployer = server.token_of("a", Role::Deployer).await;
        let operator = server.token_of("a", Role::Operator).await;
        server.admitted("a", "hello", &deployer).await;
        let site = Self { server, data, deployer, operator };
        for (name, kind) in [("photos", "object"), ("secret-photos", "object"), ("counts", "kv")] {
            let made =
                site.ask("POST", "/v1/resources", &site.operator, &json!({"name": name, "kind": kind})).await;
            assert!(made.status < 300, "{made:?}");
        }
        for name in ["photos", "counts"] {
            site.grant("PUT", name).await;
        }
        site
    }

    async fn ask(&self, method: &str, path: &str, token: &str, body: &Value) -> Answer {
        self.server.send(self.server.request(method, path, token).json(body)).await
    }

    /// Grants the tenant what it may read, or takes that back.
    async fn grant(&self, method: &str, resource: &str) {
        let path = format!("/v1/resources/{resource}/grants/a");
        let said = self.ask(method, &path, &self.operator, &json!({"access": "read"})).await;
        assert_eq!(said.status, 200, "{said:?}");
    }

    async fn set(&self, token: &str, body: &Value) -> Answer {
        self.ask("PUT", UPLOADS, token, body).await
    }

    /// As a broker's commit does it.
    fn change(&self, sql: &str) {
        self.data.sql(&format!("SET search_path = mfaas_data; {sql}"));
    }

    /// An object is put.
    fn put(&self, name: &str) {
        self.change(&format!(
            "DO $$ DECLARE blob uuid := gen_random_uuid(); BEGIN
                 INSERT INTO staged_blobs (id, resource, bytes) VALUES (blob, 'photos', 9);
                 INSERT INTO entries (resource, key, value, version, blob, blob_bytes)
                 VALUES ('photos', '{name}', '', nextval('versions'), blob, 9); END $$"
        ));
    }

    async fn only(&self) -> Value {
        let page = self.server.get("/v1/functions/hello/triggers", &self.deployer).await.json();
        assert_eq!(page["items"].as_array().unwrap().len(), 1, "{page}");
        page["items"][0].clone()
    }

    /// Waits until the trigger says what `is` asks for.
    async fn settled(&self, is: impl Fn(&Value) -> bool) -> Value {
        for _ in 0..600 {
            let item = self.only().await;
            if is(&item) {
                return item;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        panic!("{}", self.only().await)
    }

    /// A node that answers each call with one of these after the other, and what it was sent.
    async fn node(&self, answers: &'static [&'static str]) -> Arc<Mutex<Vec<String>>> {
        let listener = listening_node(&self.server).await;
        let seen = Arc::new(Mutex::new(Vec::new()));
        let sent = Arc::clone(&seen);
        tokio::spawn(async move {
            for answer in answers {
                let (mut stream, _) = listener.accept().await.unwrap();
                let mut request = Vec::new();
                while !request.ends_with(b"}") {
                    assert_ne!(stream.read_buf(&mut request).await.unwrap(), 0, "the request ends early");
                }
                sent.lock().unwrap().push(String::from_utf8(request).unwrap());
                stream.write_all(answer.as_bytes()).await.unwrap();
            }
        });
        seen
    }
}

const ANSWERED: &str = "HTTP/1.1 204 No Content\r\nconnection: close\r\n\r\n";
const FAILED: &str = "HTTP/1.1 500 Internal Server Error\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";

#[tokio::test]
async fn a_deployer_says_for_which_changes_of_what_its_tenant_may_read() {
    let site = Site::start().await;
    let uploads = json!({"resource": "photos", "prefix": "in/", "on": ["put"]});
    let made = site.set(&site.deployer, &uploads).await;
    assert_eq!((made.status, &made.json()["state"]), (200, &json!("active")), "{made:?}");
    let item = site.only().await;
    assert_eq!(
        (&item["resource"], &item["prefix"], &item["on"], &item["waiting"], item.get("last")),
        (&json!("photos"), &json!("in/"), &json!(["put"]), &json!(0), None)
    );
    for wrong in [
        json!({}),
        json!({"resource": "photos", "on": []}),
        json!({"resource": "photos", "on": ["put", "put"]}),
        json!({"resource": "photos", "on": ["rename"]}),
        json!({"resource": "photos", "prefix": "x".repeat(513)}),
        json!({"resource": "photos", "prefix": "a\u{0}b"}),
        json!({"resource": "photos", "more": 1}),
    ] {
        let answer = site.set(&site.deployer, &wrong).await;
        assert_eq!((answer.status, answer.code().as_str()), (400, "MF0904"), "{answer:?}");
    }
    // What was not granted and what there is not is the same.
    for resource in ["secret-photos", "nothing"] {
        let answer = site.set(&site.deployer, &json!({"resource": resource})).await;
        assert_eq!(answer.code(), "MF1201", "{answer:?}");
    }
    assert_eq!(site.set(&site.deployer, &json!({"resource": "counts"})).await.code(), "MF1223");
    site.change("INSERT INTO homes (resource, server, name) VALUES ('photos', gen_random_uuid(), 'main')");
    let elsewhere = site.set(&site.deployer, &uploads).await;
    assert!(elsewhere.code() == "MF1223" && elsewhere.body.contains("Redis"), "{elsewhere:?}");
    let viewer = site.server.token_of("a", Role::Viewer).await;
    assert_eq!(site.set(&viewer, &uploads).await.code(), "MF0902");
    let stranger = site.server.token_of("b", Role::Deployer).await;
    assert_eq!(site.set(&stranger, &uploads).await.code(), "MF0903");
    assert_eq!(site.server.get("/v1/functions/hello/triggers", &stranger).await.code(), "MF0903");
    let delete = async |token: &str| site.server.send(site.server.request("DELETE", UPLOADS, token)).await;
    assert_eq!(delete(&stranger).await.code(), "MF0903");
    assert_eq!(delete(&site.deployer).await.json(), json!({"removed": "trigger uploads of hello"}));
    assert_eq!(delete(&site.deployer).await.code(), "MF0903");
    assert_eq!(site.data.sql("SELECT count(*) FROM mfaas_data.triggers"), "0");
}

#[tokio::test]
async fn a_site_without_events_refuses_triggers() {
    let server = Server::start().await;
    let deployer = server.token_of("a", Role::Deployer).await;
    server.admitted("a", "hello", &deployer).await;
    let asked = server.request("PUT", UPLOADS, &deployer).json(&json!({"resource": "photos"}));
    let answer = server.send(asked).await;
    assert_eq!((answer.status, answer.code().as_str()), (409, "MF1222"));
}

#[tokio::test]
async fn an_event_is_called_for_until_it_is_answered() {
    let site = Site::start().await;
    let seen = site.node(&[FAILED, ANSWERED]).await;
    assert_eq!(site.set(&site.deployer, &json!({"resource": "photos", "prefix": "in/"})).await.status, 200);
    site.put("out/x");
    site.put("in/cat.jpg");
    let item = site.settled(|item| item["last"]["outcome"] == "failed").await;
    assert_eq!((&item["waiting"], &item["delivered"], &item["failed"]), (&json!(1), &json!(0), &json!(0)));
    assert!(item["oldest_at"].is_string(), "{item}");
    site.change("UPDATE events SET due_at = now()");
    let item = site.settled(|item| item["delivered"] == 1).await;
    assert_eq!((&item["waiting"], &item["last"]["status"]), (&json!(0), &json!(204)));
    let cookie = sign_in(&site.server, &site.deployer).await;
    let shown = page(&site.server, "/functions/hello", &cookie).await.body;
    assert!(shown.contains(">photos/in/*</td>") && shown.contains("answered 204</span>"), "{shown}");
    let requests = seen.lock().unwrap().clone();
    assert_eq!(requests.len(), 2);
    let bodies: Vec<Value> = requests
        .iter()
        .map(|request| serde_json::from_str(request.split_once("\r\n\r\n").unwrap().1).unwrap())
        .collect();
    assert_eq!(bodies[0], bodies[1], "the same event, under the same number");
    assert_eq!(
        (&bodies[0]["name"], &bodies[0]["event"], &bodies[0]["size"], &bodies[0]["resource"]),
        (&json!("in/cat.jpg"), &json!("put"), &json!(9), &json!("photos"))
    );
    let head = requests[0].to_ascii_lowercase();
    assert!(head.starts_with("post /f/a/hello http/1.1\r\n") && head.contains("bearer v4.public"), "{head}");
    assert!(head.contains("content-type: application/json"), "{head}");
    let log =
        site.server.get("/v1/audit?limit=1000", &site.server.token_of("a", Role::Admin).await).await.json();
    let rows = log["items"].as_array().unwrap();
    let issued = rows.iter().find(|row| row["action"] == "call_token.issued").unwrap();
    assert_eq!(issued["detail"]["caller"], "trigger/uploads");
    assert!(rows.iter().any(|row| row["action"] == "trigger.set"), "{log}");
}

#[tokio::test]
async fn a_revoked_grant_ends_calls_and_events() {
    let site = Site::start().await;
    assert_eq!(site.set(&site.deployer, &json!({"resource": "photos"})).await.status, 200);
    // No node takes it.
    site.put("in/a");
    site.settled(|item| item["last"]["outcome"] == "unreachable" && item["waiting"] == 1).await;
    site.grant("DELETE", "photos").await;
    let item = site.settled(|item| item["dropped"] == 1).await;
    assert_eq!((&item["state"], &item["waiting"]), (&json!("not_granted"), &json!(0)));
    site.put("in/b");
    assert_eq!(site.only().await["waiting"], 0);
    assert_eq!(site.set(&site.deployer, &json!({"resource": "photos"})).await.code(), "MF1201");
    site.grant("PUT", "photos").await;
    site.settled(|item| item["state"] == "active").await;
    // The function is gone, and with it all.
    let gone = site.server.send(site.server.request("DELETE", "/v1/functions/hello", &site.deployer)).await;
    assert!(gone.status < 300, "{gone:?}");
    for _ in 0..300 {
        if site.data.sql("SELECT count(*) FROM mfaas_data.triggers") == "0" {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("the trigger is still there");
}

#[tokio::test]
async fn an_event_that_is_never_answered_well_counts_as_failed() {
    let site = Site::start().await;
    let seen = site.node(&[FAILED, FAILED]).await;
    assert_eq!(site.set(&site.deployer, &json!({"resource": "photos"})).await.status, 200);
    // One that was called for seven times, and one whose eighth call was lost with its server.
    site.change(
        "INSERT INTO events (trigger, name, event, tries) SELECT id, 'in/a', 'put', n FROM triggers, unnest(ARRAY[7, 8]) n",
    );
    let item = site.settled(|item| item["failed"] == 2).await;
    assert_eq!((&item["waiting"], &item["delivered"]), (&json!(0), &json!(0)));
    assert_eq!(seen.lock().unwrap().len(), 1, "there is no ninth call");
}
