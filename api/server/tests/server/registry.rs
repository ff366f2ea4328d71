//! Functions, versions, aliases, artifacts, the allowlist, the audit log.

use mfaas_blobs::Blobs;
use mfaas_ident::Scope;
use serde_json::json;

use crate::console::sign_in;
use crate::support::{Server, admitted_version};

/// A server with function `hello` of tenant `a` at version 1; answers with a token for it and the
/// digest of its artifact, whose bytes are `so!`.
async fn with_function() -> (Server, String, String) {
    let server = Server::start().await;
    let token = server.token("a", &[Scope::Read, Scope::Deploy]).await;
    let created = server.upload("hello", &token, vec![1]).await.json();
    let blobs = Blobs::open(&format!("file://{}", server.dir().join("blobs").display())).unwrap();
    let artifact = blobs.put("so!".into()).await.unwrap().to_string();
    admitted_version(&server.db, "a", "hello", created["deployment"]["id"].as_str().unwrap(), &artifact);
    (server, token, artifact)
}

#[tokio::test]
async fn a_function_is_shown_moved_and_deleted_by_its_tenant_only() {
    let (server, token, artifact) = with_function().await;
    let stranger = server.token("b", &[Scope::Read, Scope::Deploy]).await;
    let function = server.get("/v1/functions/hello", &token).await.json();
    assert_eq!((&function["live_version"], &function["latest_version"]), (&json!(1), &json!(1)));
    let version = server.get("/v1/functions/hello/versions/1", &token).await.json();
    assert_eq!(version["artifact_digest"], artifact);
    assert_eq!((&version["budget_us"], &version["aliases"]), (&json!(1000), &json!(["live"])));
    assert_eq!((&version["idempotent"], &version["isolation"]), (&json!(true), &json!("process")));
    assert_eq!((&version["class"], &function["class"]), (&json!("micro"), &json!("micro")));
    server.db.sql("UPDATE versions SET class = 'bulk'");
    assert_eq!(server.get("/v1/functions/hello/versions/1", &token).await.json()["class"], "bulk");
    assert_eq!(server.get("/v1/functions", &token).await.json()["items"][0]["class"], "bulk");
    server.db.sql("UPDATE versions SET class = 'micro'");
    assert_eq!(server.get("/v1/functions/hello/versions", &token).await.json()["items"][0], version);
    assert_eq!(server.get("/v1/functions/hello/endpoints", &token).await.json()["items"], json!([]));
    for path in ["", "/versions", "/versions/1", "/aliases", "/logs", "/endpoints"] {
        let answer = server.get(&format!("/v1/functions/hello{path}"), &stranger).await;
        assert_eq!(answer.code(), "MF0903", "{path}");
    }
    let put = |token: &str, alias: &str, version: u32| {
        let path = format!("/v1/functions/hello/aliases/{alias}");
        server.send(server.request("PUT", &path, token).json(&json!({"version": version})))
    };
    assert_eq!(put(&token, "stable", 1).await.json()["version"], 1);
    assert_eq!(put(&token, "stable", 2).await.code(), "MF0903");
    assert_eq!(put(&stranger, "stable", 1).await.code(), "MF0903");
    let delete = |token: &str| server.send(server.request("DELETE", "/v1/functions/hello", token));
    assert_eq!(delete(&stranger).await.code(), "MF0903");
    assert_eq!(delete(&token).await.status, 200);
    assert_eq!(server.get("/v1/functions/hello", &token).await.code(), "MF0903");
    let admin = server.token("a", &[Scope::Admin]).await;
    let audit = server.get("/v1/audit", &admin).await.json();
    let actions: Vec<_> =
        audit["items"].as_array().unwrap().iter().map(|row| row["action"].clone()).collect();
    assert!(
        actions.contains(&json!("alias.moved")) && actions.contains(&json!("function.deleted")),
        "{actions:?}"
    );
}

#[tokio::test]
async fn an_artifact_is_hashed_on_its_way_out() {
    let (server, token, artifact) = with_function().await;
    let stranger = server.token("b", &[Scope::Read]).await;
    let path = format!("/v1/artifacts/{artifact}");
    assert_eq!(server.get(&path, &token).await.body, "so!");
    assert_eq!(server.get(&path, &stranger).await.code(), "MF0903");
    assert_eq!(server.get(&format!("{path}/statement"), &token).await.body, "{\"signed\": true}");
    let named = |digit: &str| format!("{path}/statement?statement={}", digit.repeat(64));
    assert_eq!(server.get(&named("5"), &token).await.body, "{\"signed\": true}");
    assert_eq!(server.get(&named("6"), &token).await.code(), "MF0903");
    assert_eq!(server.get(&format!("{path}/statement"), &stranger).await.code(), "MF0903");
    let blob = walk(&server.dir().join("blobs")).into_iter().find(|path| path.ends_with(&artifact)).unwrap();
    std::fs::write(&blob, "sp!").unwrap();
    let answer = server.get(&path, &token).await;
    assert_eq!((answer.status, answer.code().as_str()), (500, "MF0601"));
    std::fs::remove_file(&blob).unwrap();
    assert_eq!(server.get(&path, &token).await.code(), "MF0607");
}

fn walk(dir: &std::path::Path) -> Vec<std::path::PathBuf> {
    let entries = std::fs::read_dir(dir).unwrap().flatten().map(|entry| entry.path());
    entries.flat_map(|path| if path.is_dir() { walk(&path) } else { vec![path] }).collect()
}

#[tokio::test]
async fn the_allowlist_says_what_nobody_here_has_reviewed_and_what_waits() {
    let (server, token, _) = with_function().await;
    let created = server.upload("other", &token, vec![2]).await.json();
    let id = created["deployment"]["id"].as_str().unwrap();
    let sum = "0".repeat(64);
    server.db.sql(&format!(
        "INSERT INTO crates (name, version, checksum, features, direct, status, decided_by, reason) VALUES
         ('itoa', '1.0.0', '{sum}', '{{}}', true, 'allowed', 'seed', 'shipped'),
         ('hex', '0.4.3', '{sum}', '{{std}}', true, 'denied', 'token:x:anna', 'no');
         INSERT INTO crate_requests (deployment_id, tenant, name, requirement, features, code)
         VALUES ('{id}', 'a', 'rand', '^0.9', '{{}}', 'MF0204');
         UPDATE deployments SET state = 'building' WHERE id = '{id}';
         UPDATE deployments SET state = 'waiting', diagnostics = '[{{\"code\": \"MF0204\", \"level\": \"error\",
            \"message\": \"`rand` is not on the allowlist\", \"hint\": \"\", \"rendered\": \"\", \"span\": null,
            \"layer\": \"manifest\"}}]' WHERE id = '{id}';"
    ));
    let waiting = server.get(&format!("/v1/deployments/{id}"), &token).await.json();
    let problem = &waiting["problem"];
    assert_eq!((&problem["code"], &problem["crate"]), (&json!("MF0204"), &json!("rand")), "{waiting}");
    assert_eq!(problem["review_url"], waiting["review_url"]);
    assert!(problem["review_url"].as_str().unwrap().ends_with("/reviews"));
    let items = server.get("/v1/crates", &token).await.json()["items"].clone();
    let brief: Vec<_> = items
        .as_array()
        .unwrap()
        .iter()
        .map(|row| (&row["name"], &row["status"], &row["reviewed"]))
        .collect();
    assert_eq!(
        brief,
        [
            (&json!("rand"), &json!("waiting"), &json!(false)),
            (&json!("hex"), &json!("denied"), &json!(true)),
            (&json!("itoa"), &json!("allowed"), &json!(false)),
        ]
    );
    let stranger = server.token("b", &[Scope::Read]).await;
    let theirs = server.get("/v1/crates", &stranger).await;
    assert!(!theirs.body.contains("rand"), "another tenant's request shows: {}", theirs.body);
    let reviewer = server.token("b", &[Scope::Read, Scope::Review]).await;
    assert!(server.get("/v1/crates", &reviewer).await.body.contains("rand"));
    server.db.sql(&format!(
        "INSERT INTO crates (name, version, checksum, features, direct, status, decided_by, reason, scope) VALUES
         ('memchr', '2.7.6', '{sum}', '{{}}', true, 'denied', 'token:x:anna', 'not for this project', 'a')"
    ));
    for (who, sees) in [(&token, true), (&stranger, false), (&reviewer, true)] {
        let body = server.get("/v1/crates", who).await.body;
        assert_eq!(body.contains("memchr"), sees, "a decision for one tenant: {body}");
        let cookie = sign_in(&server, who).await;
        let request = server.request("GET", "/crates/memchr", "").header("cookie", cookie);
        let page = server.send(request).await;
        assert_eq!(page.status, if sees { 200 } else { 404 }, "{page:?}");
        assert_eq!(page.body.contains("not for this project"), sees, "the page of the crate: {page:?}");
    }
}

#[tokio::test]
async fn the_audit_log_is_read_page_by_page() {
    let server = Server::start().await;
    let admin = server.token("a", &[Scope::Admin]).await;
    for n in 0..6 {
        assert_eq!(server.upload("hello", &admin, vec![n]).await.status, 202);
    }
    let whole = server.get("/v1/audit?limit=1000", &admin).await.json();
    let all: Vec<i64> =
        whole["items"].as_array().unwrap().iter().map(|row| row["seq"].as_i64().unwrap()).collect();
    assert!(all.len() >= 8 && whole["next"].is_null(), "{whole}");
    let (mut seen, mut after) = (Vec::new(), "0".to_owned());
    loop {
        let page = server.get(&format!("/v1/audit?after={after}&limit=3"), &admin).await.json();
        let items = page["items"].as_array().unwrap();
        assert!((1..=3).contains(&items.len()), "{page}");
        seen.extend(items.iter().map(|row| row["seq"].as_i64().unwrap()));
        let Some(next) = page["next"].as_str() else { break };
        after = next.to_owned();
    }
    assert_eq!(seen, all, "no row twice, none left out");
    let behind = server.get(&format!("/v1/audit?after={}", all.last().unwrap()), &admin).await.json();
    assert_eq!(behind["items"].as_array().map(Vec::len), Some(0));
    assert_eq!(server.get("/v1/audit?after=x", &admin).await.code(), "MF0904");
}
