//! Requests, reviews and imports over HTTP.

use mfaas_attest::AuditHead;
use mfaas_ident::Scope;
use serde_json::{Value, json};

use crate::support::{Answer, Database, Server, crate_report};

/// What the acquirer would have found out about the open request `id`: one review, for one person.
pub(crate) fn reviewing(db: &Database, request: i64) {
    let (checksum, key) = ("c".repeat(64), "e".repeat(64));
    let judgement =
        json!({"suggestion": {"review": {"people": 1}}, "reasons": [], "hints": [], "rules_revision": "t"});
    let report = facts();
    db.sql(&format!(
        "INSERT INTO crate_archives (checksum, name, version, bytes) VALUES ('{checksum}', 'left-pad', '1.2.3', 7);
         INSERT INTO crate_reports (key, checksum, report) VALUES ('{key}', '{checksum}', '{report}');
         INSERT INTO reviews (name, version, checksum, features, toolchain, report, people, rules_revision, judgement)
         VALUES ('left-pad', '1.2.3', '{checksum}', '{{std}}', '{key}', '{key}', 1, 't', '{judgement}');
         INSERT INTO request_members (request_id, name, version, checksum, features, path, review_id)
         SELECT {request}, name, version, checksum, features, '{{left-pad}}', id FROM reviews;
         UPDATE crate_requests SET status = 'reviewing', chosen = '1.2.3' WHERE id = {request};"
    ));
}

fn facts() -> Value {
    crate_report(&[], &json!({ "unsafe": { "errors": 0, "spots": [] } }), &[])
}

pub(crate) async fn post(server: &Server, method: &str, path: &str, token: &str, body: &Value) -> Answer {
    server.send(server.request(method, path, token).json(body)).await
}

#[tokio::test]
async fn a_request_is_made_once_and_seen_by_its_tenant_and_reviewers() {
    let server = Server::start().await;
    let (mine, theirs) =
        (server.token("a", &[Scope::Deploy]).await, server.token("b", &[Scope::Deploy]).await);
    let body = json!({"name": "left-pad", "requirement": "^1", "features": ["std", "std"]});
    let first = post(&server, "POST", "/v1/requests", &mine, &body).await;
    assert_eq!((first.status, &first.json()["status"]), (202, &json!("open")), "{first:?}");
    assert_eq!(first.json()["features"], json!(["std"]));
    assert_eq!(first.json()["requested_by"], "a/test");
    let again = post(&server, "POST", "/v1/requests", &mine, &body).await.json();
    assert_eq!(again["id"], first.json()["id"]);
    let path = format!("/v1/requests/{}", again["id"]);
    assert_eq!(server.get(&path, &mine).await.status, 200);
    assert_eq!(server.get(&path, &theirs).await.code(), "MF0903", "another tenant's request does not exist");
    assert_eq!(server.get("/v1/requests", &theirs).await.json()["items"], json!([]));
    let reviewer = server.token("b", &[Scope::Review]).await;
    assert_eq!(server.get("/v1/requests", &reviewer).await.json()["items"][0]["id"], again["id"]);
    for bad in [
        json!({"name": "left-pad", "requirement": "one"}),
        json!({"name": "../x", "requirement": "*"}),
        json!({"name": "x", "requirement": "*", "features": ["a b"]}),
        json!({"name": "x", "requirement": "*", "features": vec!["a"; 65]}),
        json!({"name": "x", "requirement": "*", "more": 1}),
    ] {
        assert_eq!(post(&server, "POST", "/v1/requests", &mine, &bad).await.code(), "MF0904", "{bad}");
    }
}

#[tokio::test]
async fn a_review_is_decided_with_a_note_by_a_reviewer_who_did_not_ask() {
    let server = Server::start().await;
    let asks = server.token("a", &[Scope::Deploy, Scope::Review]).await;
    let body = json!({"name": "left-pad", "requirement": "^1"});
    let request = post(&server, "POST", "/v1/requests", &asks, &body).await.json();
    reviewing(&server.db, request["id"].as_i64().unwrap());
    let decides = server.token("b", &[Scope::Review]).await;
    let open = server.get("/v1/reviews?state=open", &decides).await.json();
    let id = open["items"][0]["id"].clone();
    let votes = format!("/v1/reviews/{id}/votes");
    assert_eq!(server.get(&format!("/v1/reviews/{id}/report"), &decides).await.json(), facts());

    for note in ["", "  ", "\u{1b}[2Jsound", "so\u{202e}und", &"x".repeat(4_001)] {
        let answer = post(&server, "POST", &votes, &decides, &json!({"approve": true, "note": note})).await;
        assert_eq!(answer.code(), "MF0904", "{note:?}");
    }
    let yes = json!({"approve": true, "note": "read it", "terms": {"grants": ["machine-code"]}});
    assert_eq!(post(&server, "POST", &votes, &asks, &yes).await.code(), "MF0908", "whoever asked");
    let marks = format!("/v1/reviews/{id}/hotspots");
    let mark = |state| json!({"hotspot": "src/lib.rs:1:1:unsafe", "state": state, "note": ""});
    assert_eq!(post(&server, "PUT", &marks, &asks, &mark("seen")).await.code(), "MF0908");
    assert_eq!(post(&server, "PUT", &marks, &decides, &mark("unsound")).await.status, 200);
    assert_eq!(post(&server, "POST", &votes, &decides, &yes).await.code(), "MF0908", "a hotspot is unsound");
    assert_eq!(post(&server, "PUT", &marks, &decides, &mark("justified")).await.status, 200);
    server.db.sql("UPDATE crate_reports SET report = report - 'compiler'");
    let blind = post(&server, "POST", &votes, &decides, &yes).await;
    assert_eq!(blind.code(), "MF0908", "nobody can approve what nobody can look at");
    assert!(blind.body.contains("cannot be read"), "{}", blind.body);
    server.db.sql(&format!("UPDATE crate_reports SET report = '{}'", facts()));
    let done = post(&server, "POST", &votes, &decides, &yes).await;
    assert_eq!((done.status, &done.json()["state"]), (200, &json!("approved")), "{done:?}");
    assert_eq!(done.json()["terms"]["grants"], json!(["machine-code"]));
    let crates = server.get("/v1/crates", &decides).await.json();
    let row = crates["items"].as_array().unwrap().iter().find(|row| row["status"] == "allowed").unwrap();
    assert_eq!((&row["decided_by"], &row["direct"]), (&json!("b/test"), &json!(true)), "{row}");

    let path = "/v1/crates/left-pad/1.2.3/revocation";
    let dry = json!({"severity": "unload", "reason": "a flaw", "dry_run": true});
    assert_eq!(post(&server, "POST", path, &decides, &dry).await.json()["done"], false);
    let wet = json!({"severity": "unload", "reason": "a flaw"});
    assert_eq!(post(&server, "POST", path, &decides, &wet).await.json()["done"], true);
    assert_eq!(
        post(&server, "POST", path, &decides, &wet).await.code(),
        "MF0903",
        "it is not allowed any more"
    );
}

/// Paths and fields of the release before are taken for one more release, behind the same gate.
#[tokio::test]
async fn paths_and_fields_of_the_release_before_are_still_taken() {
    let server = Server::start().await;
    let asks = server.token("a", &[Scope::Deploy]).await;
    let body = json!({"name": "left-pad", "requirement": "^1"});
    let request = post(&server, "POST", "/v1/requests", &asks, &body).await.json();
    reviewing(&server.db, request["id"].as_i64().unwrap());
    let reviewer = server.token("b", &[Scope::Review]).await;
    let mark = json!({"spot": "src/lib.rs:1:1:unsafe", "state": "seen", "note": ""});
    let marked = post(&server, "PUT", "/v1/reviews/1/spots", &reviewer, &mark).await;
    assert_eq!((marked.status, &marked.json()["hotspots"][0]["hotspot"]), (200, &mark["spot"]), "{marked:?}");
    let no = json!({"approve": false, "note": "too small"});
    assert_eq!(post(&server, "POST", "/v1/reviews/1/voices", &asks, &no).await.status, 403);
    assert_eq!(server.send_stranger(server.request("POST", "/v1/reviews/1/voices", "")).await.status, 401);
    let voted = post(&server, "POST", "/v1/reviews/1/voices", &reviewer, &no).await;
    assert_eq!((voted.status, &voted.json()["votes"][0]["approve"]), (200, &json!(false)), "{voted:?}");
    for (old, new) in mfaas_server::access::RENAMED {
        let known = mfaas_server::access::TABLE.iter().filter(|(_, path, _)| path == new).count();
        let path = old.replace("{id}", "1");
        let method = if path == "/v1/reviews/1/spots" { "PUT" } else { "POST" };
        let answer = server.send_stranger(server.request(method, &path, "")).await;
        assert!(known == 1 && [303, 401].contains(&answer.status), "{method} {path}: {answer:?}");
    }
}

#[tokio::test]
async fn an_import_larger_than_other_bodies_is_taken_and_nonsense_is_not() {
    let server = Server::start().await;
    let reviewer = server.token("a", &[Scope::Review]).await;
    let advisory = |n: usize| {
        json!({"id": format!("RUSTSEC-2099-{n:04}"), "package": "left-pad", "kind": "unsound", "title": "x".repeat(100),
               "patched": [">=9.0.0"], "unaffected": [], "withdrawn": false, "url": null})
    };
    let set = json!({"advisories": (0..9_000).map(advisory).collect::<Vec<_>>(), "unread": []});
    let body = json!({"set": set, "severity": "block"});
    let done = post(&server, "PUT", "/v1/imports/advisories", &reviewer, &body).await;
    assert_eq!((done.status, &done.json()["advisories"]), (200, &json!(9_000)), "{}", done.status);
    assert_eq!(done.json()["matches"], json!([]));
    let nonsense = json!({"set": {"advisories": [{}], "unread": []}, "severity": "block"});
    assert_eq!(post(&server, "PUT", "/v1/imports/advisories", &reviewer, &nonsense).await.code(), "MF0904");
    let audits = json!({"audits": [], "unread": [], "left_out": 0});
    assert_eq!(post(&server, "PUT", "/v1/imports/audits", &reviewer, &audits).await.status, 200);
}

#[tokio::test]
async fn the_chain_is_given_as_its_hashes_cover_it() {
    let server = Server::start().await;
    let admin = server.token("a", &[Scope::Admin]).await;
    let (mut head, mut after) = (AuditHead::START, "0".to_owned());
    loop {
        let page = server.get(&format!("/v1/audit/chain?after={after}&limit=2"), &admin).await;
        let page: mfaas_wire::Page<mfaas_wire::AuditLink> = serde_json::from_str(&page.body).unwrap();
        for link in &page.items {
            let number = link.row.to_string();
            head = head.next([number.as_str()].into_iter().chain(link.fields.iter().map(String::as_str)));
            assert_eq!((head.row, head.hash), (link.row, link.hash));
        }
        let Some(next) = page.next else { break };
        after = next;
    }
    assert!(head.row > 0);
}
