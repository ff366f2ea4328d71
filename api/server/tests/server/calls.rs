//! Call tokens: who gets one, for what, with which key, and what is on record.

use std::os::unix::fs::PermissionsExt as _;

use chrono::{TimeDelta, Utc};
use mfaas_attest::{CallKey, PrivateKey, verify_call};
use mfaas_catalog::{Actor, Before};
use mfaas_ident::{Access, Role};
use serde_json::{Value, json};

use crate::support::{Answer, Server};

async fn ask(server: &Server, token: &str, body: &Value) -> Answer {
    server.send(server.request("POST", "/v1/call-tokens", token).json(body)).await
}

/// The keys as the signer would put them into a set.
async fn keys(server: &Server) -> Vec<CallKey> {
    let listed = server.catalog.call_keys().await.unwrap();
    listed
        .into_iter()
        .map(|row| {
            let path = server.dir().join(format!("tls/call-keys/{}.key", row.id));
            let mode = std::fs::metadata(&path).unwrap().permissions().mode() & 0o777;
            assert_eq!(mode, 0o600, "{}", path.display());
            let key = PrivateKey::from_pem(&std::fs::read_to_string(path).unwrap()).unwrap();
            CallKey { keyid: row.id, public: key.public(), not_after: row.not_after }
        })
        .collect()
}

#[tokio::test]
async fn a_deployer_gets_a_token_that_nodes_can_verify_alone() {
    let server = Server::start().await;
    let deployer = server.token_of("acme", Role::Deployer).await;
    let answer = ask(&server, &deployer, &json!({"functions": ["pay", "*"]})).await;
    assert_eq!(answer.status, 201, "{answer:?}");
    let created = answer.json();
    let token = created["token"].as_str().unwrap();
    let (claims, end) = verify_call(token, &keys(&server).await, Utc::now()).unwrap();
    assert_eq!((claims.tenant.as_str(), claims.caller.as_str()), ("acme", "deployer"));
    assert!(claims.functions.opens(&"pay".parse().unwrap(), Access::Token));
    assert!(claims.functions.opens(&"other".parse().unwrap(), Access::Tenant));
    assert_eq!((claims.rate, claims.concurrency), (None, None));
    assert!((end - Utc::now() - TimeDelta::minutes(15)).abs() < TimeDelta::seconds(20));
    assert_eq!(created["expires_at"].as_str().unwrap().parse::<chrono::DateTime<Utc>>().unwrap(), end);
    let named = json!({"functions": ["pay"], "caller": "shop", "ttl_s": 60, "rate": 5, "concurrency": 2});
    let created = ask(&server, &deployer, &named).await.json();
    let token = created["token"].as_str().unwrap();
    let (claims, end) = verify_call(token, &keys(&server).await, Utc::now()).unwrap();
    assert_eq!((claims.caller.as_str(), claims.rate, claims.concurrency), ("shop", Some(5), Some(2)));
    assert!(end <= Utc::now() + TimeDelta::seconds(60));
    // The log says who asked, for whom and what, and holds nothing that opens anything.
    let admin = server.token_of("acme", Role::Admin).await;
    let log = server.get("/v1/audit?limit=1000", &admin).await;
    let rows = log.json();
    let row = rows["items"].as_array().unwrap().iter().find(|row| row["subject"] == created["id"]).unwrap();
    assert_eq!((&row["action"], &row["tenant"]), (&json!("call_token.issued"), &json!("acme")));
    assert_eq!((&row["detail"]["caller"], &row["detail"]["functions"]), (&json!("shop"), &json!(["pay"])));
    assert!(!log.body.contains("v4.public"), "{}", log.body);
}

#[tokio::test]
async fn a_token_is_for_ones_own_tenant_and_within_bounds() {
    let server = Server::start().await;
    let pay = json!({"functions": ["pay"]});
    for role in [Role::Viewer, Role::Reviewer, Role::Operator] {
        let token = server.token_of("acme", role).await;
        assert_eq!(ask(&server, &token, &pay).await.code(), "MF0902", "{role}");
    }
    assert_eq!(ask(&server, "", &pay).await.code(), "MF0901");
    let deployer = server.token_of("acme", Role::Deployer).await;
    let elsewhere = server.request("POST", "/v1/call-tokens?tenant=umbrella", &deployer).json(&pay);
    assert_eq!(server.send(elsewhere).await.status, 404, "another tenant's functions are not theirs to open");
    for bad in [
        json!({}),
        json!({"functions": []}),
        json!({"functions": ["pay@3"]}),
        json!({"functions": vec!["pay"; 33]}),
        json!({"functions": ["pay"], "ttl_s": 0}),
        json!({"functions": ["pay"], "ttl_s": 86_401}),
        json!({"functions": ["pay"], "rate": 0}),
        json!({"functions": ["pay"], "concurrency": 0}),
        json!({"functions": ["pay"], "caller": "A\u{202e}b"}),
        json!({"functions": ["pay"], "tenant": "umbrella"}),
    ] {
        assert_eq!(ask(&server, &deployer, &bad).await.status, 400, "{bad}");
    }
    assert_eq!(ask(&server, &deployer, &json!({"functions": ["pay"], "ttl_s": 86_400})).await.status, 201);
}

#[tokio::test]
async fn a_new_key_is_used_when_nodes_had_time_to_hear_of_it() {
    let server = Server::start().await;
    let deployer = server.token_of("acme", Role::Deployer).await;
    let key_of = async || {
        let body = json!({"functions": ["pay"]});
        ask(&server, &deployer, &body).await.json()["key_id"].as_str().unwrap().to_owned()
    };
    let first = key_of().await;
    let admin = server.token_of("acme", Role::Admin).await;
    let rotate = async |body: Value| {
        let made = server.send(server.request("POST", "/v1/call-keys", &admin).json(&body)).await;
        assert_eq!(made.status, 201, "{made:?}");
        made.json()["key_id"].as_str().unwrap().to_owned()
    };
    let second = rotate(json!({})).await;
    assert_eq!(key_of().await, first, "nodes may not know the new one yet");
    server.db.sql("UPDATE call_keys SET used_from = now() WHERE used_from > now()");
    assert_eq!(key_of().await, second);
    assert_eq!(keys(&server).await.len(), 2);
    let third = rotate(json!({"leaked": true})).await;
    assert_eq!(key_of().await, third, "at once");
    let left = keys(&server).await;
    assert_eq!(
        left.iter().map(|key| key.keyid.to_string()).collect::<Vec<_>>(),
        std::slice::from_ref(&third)
    );
    let files = std::fs::read_dir(server.dir().join("tls/call-keys")).unwrap().count();
    assert_eq!(files, 1, "what signs nothing any more is not kept");
    // One whose private half is elsewhere is another server's.
    let other = PrivateKey::generate().unwrap();
    server.catalog.add_call_key(&Actor::program("test"), &other.public(), Before::Withdrawn).await.unwrap();
    let last = key_of().await;
    assert_ne!(last, third, "it was withdrawn");
    assert_ne!(last, other.public().id().to_string());
}
