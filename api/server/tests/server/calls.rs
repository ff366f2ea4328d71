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
        json!({"functions": ["pay"], "caller": "schedule/nightly"}),
        json!({"functions": ["pay"], "caller": "trigger/uploads"}),
        json!({"functions": ["pay"], "caller": "function/order"}),
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

/// Issues a token for `caller`; its id and the second in which it begins.
async fn issued(server: &Server, token: &str, caller: &str) -> (String, chrono::DateTime<Utc>) {
    let created = ask(server, token, &json!({"functions": ["pay"], "caller": caller})).await.json();
    let (claims, _) =
        verify_call(created["token"].as_str().unwrap(), &keys(server).await, Utc::now()).unwrap();
    (claims.id, claims.issued_at)
}

async fn revoke(server: &Server, token: &str, what: &str) -> Answer {
    server.send(server.request("DELETE", &format!("/v1/call-tokens{what}"), token)).await
}

/// Ids of the list, and whether they are revoked.
async fn listed(server: &Server, token: &str) -> Vec<(String, bool)> {
    let page = server.get("/v1/call-tokens", token).await.json();
    let of = |row: &Value| (row["id"].as_str().unwrap().to_owned(), !row["revoked_at"].is_null());
    page["items"].as_array().unwrap().iter().map(of).collect()
}

#[tokio::test]
async fn a_deployer_revokes_a_token_of_their_tenant() {
    let server = Server::start().await;
    let deployer = server.token_of("acme", Role::Deployer).await;
    let stranger = server.token_of("umbrella", Role::Deployer).await;
    let ((one, _), (two, _)) =
        (issued(&server, &deployer, "shop").await, issued(&server, &deployer, "shop").await);
    let list = server.get("/v1/call-tokens", &deployer).await;
    assert!(!list.body.contains("v4.public"), "{}", list.body);
    let row = &list.json()["items"][0];
    assert_eq!((&row["caller"], &row["functions"]), (&json!("shop"), &json!(["pay"])));
    assert!(row["issued_by"].as_str().unwrap().starts_with("token:"), "{row}");
    assert_eq!(listed(&server, &stranger).await, []);
    for role in [Role::Viewer, Role::Reviewer, Role::Operator] {
        let token = server.token_of("acme", role).await;
        assert_eq!(revoke(&server, &token, &format!("/{one}")).await.code(), "MF0902", "{role}");
    }
    assert_eq!(revoke(&server, &stranger, &format!("/{one}")).await.code(), "MF0903", "another tenant's");
    assert_eq!(revoke(&server, &deployer, "/0193a5d0-0000-7000-8000-000000000001").await.code(), "MF0903");
    assert_eq!(revoke(&server, &deployer, "/nothing").await.status, 404);

    let first = revoke(&server, &deployer, &format!("/{one}")).await;
    assert_eq!((first.status, &first.json()["id"]), (200, &json!(one)), "{first:?}");
    assert_eq!(revoke(&server, &deployer, &format!("/{one}")).await.json(), first.json(), "again");
    let mut both = vec![(one.clone(), true), (two.clone(), false)];
    let mut found = listed(&server, &deployer).await;
    both.sort();
    found.sort();
    assert_eq!(found, both);
    server.db.sql(&format!(
        "UPDATE call_tokens SET issued_at = now() - interval '2 hours', expires_at = now() WHERE id = '{two}'"
    ));
    let over = revoke(&server, &deployer, &format!("/{two}")).await;
    assert_eq!((over.status, over.code().as_str()), (409, "MF0921"));

    let admin = server.token_of("acme", Role::Admin).await;
    let log = server.get("/v1/audit?limit=1000", &admin).await.json();
    let rows: Vec<_> =
        log["items"].as_array().unwrap().iter().filter(|row| row["action"] == "call_token.revoked").collect();
    assert_eq!((rows.len(), &rows[0]["subject"], &rows[0]["tenant"]), (1, &json!(one), &json!("acme")));
    let who = server.get("/v1/whoami", &deployer).await.json();
    assert!(rows[0]["actor"].as_str().unwrap().contains(who["token_id"].as_str().unwrap()), "{}", rows[0]);
}

#[tokio::test]
async fn a_caller_is_revoked_until_now_and_gets_tokens_again_at_once() {
    let server = Server::start().await;
    let deployer = server.token_of("acme", Role::Deployer).await;
    let by = "?caller=shop%2Bone@example.org";
    assert_eq!(revoke(&server, &deployer, by).await.code(), "MF0903", "nobody of that name");
    assert_eq!(revoke(&server, &deployer, "").await.status, 400);
    assert_eq!(revoke(&server, &deployer, "?caller=Shop").await.status, 400);
    let caller = "shop+one@example.org";
    let (one, _) = issued(&server, &deployer, caller).await;
    let (two, _) = issued(&server, &deployer, caller).await;
    let (other, _) = issued(&server, &deployer, "till").await;
    let revoked = revoke(&server, &deployer, by).await;
    assert_eq!((revoked.status, &revoked.json()["caller"]), (200, &json!(caller)), "{revoked:?}");
    let until: chrono::DateTime<Utc> = revoked.json()["issued_until"].as_str().unwrap().parse().unwrap();
    assert_eq!(revoke(&server, &deployer, by).await.json(), revoked.json(), "again");
    let mut expected = vec![(one, true), (two, true), (other, false)];
    let mut found = listed(&server, &deployer).await;
    expected.sort();
    found.sort();
    assert_eq!(found, expected);
    // In the same second, most of the time: a node would not tell it from those that are revoked.
    let (new, issued_at) = issued(&server, &deployer, caller).await;
    assert!(issued_at > until, "{issued_at} {until}");
    assert!(listed(&server, &deployer).await.contains(&(new, false)));
}

#[tokio::test]
async fn a_tenant_revokes_within_its_share() {
    let server = Server::start().await;
    let deployer = server.token_of("acme", Role::Deployer).await;
    let (one, _) = issued(&server, &deployer, "shop").await;
    server.db.sql(
        "INSERT INTO call_revocations (tenant, caller, issued_until, ends_at, revoked_by)
         SELECT 'acme', 'c' || i, now(), now() + interval '1 hour', 'test' FROM generate_series(1, 64) i",
    );
    let refused = revoke(&server, &deployer, &format!("/{one}")).await;
    assert_eq!((refused.status, refused.code().as_str()), (429, "MF0922"), "{refused:?}");
    assert_eq!(listed(&server, &deployer).await, [(one, false)]);
}
