//! The allowlist as a cargo registry: who may ask, what is in the answers, and that nothing outlives its
//! decision.

use mfaas_blobs::Blobs;
use mfaas_ident::Scope;
use serde_json::json;

use crate::support::Server;

const TOOLCHAIN: &str = "1111111111111111111111111111111111111111111111111111111111111111";

/// Allows a version for `scope` (everybody if empty), with a line and an archive whose bytes are `.crate of`
/// the name. Answers the archive's digest.
async fn offer(server: &Server, name: &str, version: &str, scope: &str) -> String {
    let blobs = Blobs::open(&format!("file://{}", server.dir().join("blobs").display())).unwrap();
    let digest = blobs.put(format!(".crate of {name} {version}").into()).await.unwrap().to_string();
    let line = json!({"name": name, "vers": version, "cksum": digest, "deps": []});
    server.db.sql(&format!(
        "INSERT INTO toolchains (id, accepted, decided_by) VALUES ('{TOOLCHAIN}', true, 'test') ON CONFLICT DO NOTHING;
         INSERT INTO index_entries (name, version, decided, decided_as, archive, line, revision)
         VALUES ('{name}', '{version}', '{digest}', '{name}', '{digest}', '{line}', 1) ON CONFLICT DO NOTHING;
         INSERT INTO crates (name, version, checksum, features, direct, status, decided_by, reason, scope)
         VALUES ('{name}', '{version}', '{digest}', '{{}}', false, 'allowed', 'seed', 'test', '{scope}');"
    ));
    digest
}

#[tokio::test]
async fn cargo_is_told_where_archives_are_and_that_it_needs_a_token() {
    let server = Server::start().await;
    let nobody = server.get("/index/config.json", "").await;
    assert_eq!((nobody.status, nobody.code().as_str()), (401, "MF0901"));
    assert!(!nobody.header("www-authenticate").is_empty());
    let token = server.token("a", &[Scope::Read]).await;
    let config = server.get("/index/config.json", &token).await.json();
    assert_eq!(config["auth-required"], true);
    assert!(config["dl"].as_str().unwrap().ends_with("/index-archives/{crate}/{version}"), "{config}");
    assert_eq!(config.get("api"), None);
}

/// cargo sends the token as it is; everywhere else it still needs the word in front of it.
#[tokio::test]
async fn a_bare_token_opens_the_index_and_nothing_else() {
    let server = Server::start().await;
    let token = server.token("a", &[Scope::Read]).await;
    let bare = |path: &str, token: &str| {
        server.send(server.request("GET", path, "").header("authorization", token.to_owned()))
    };
    assert_eq!(bare("/index/config.json", &token).await.status, 200);
    assert_eq!(bare("/v1/crates", &token).await.code(), "MF0901");
    for wrong in ["", "Basic x", &token[..token.len() - 1], &format!("bearer {token}"), &format!(" {token}x")]
    {
        assert_eq!(bare("/index/config.json", wrong).await.code(), "MF0901", "{wrong}");
    }
}

#[tokio::test]
async fn lines_are_found_under_the_path_of_the_name_alone() {
    let server = Server::start().await;
    let token = server.token("a", &[Scope::Read]).await;
    for (name, path) in [
        ("x", "1/x"),
        ("xy", "2/xy"),
        ("xyz", "3/x/xyz"),
        ("Inflector", "in/fl/inflector"),
        ("serde_json", "se/rd/serde_json"),
    ] {
        let digest = offer(&server, name, "1.0.0", "").await;
        offer(&server, name, "1.2.0", "").await;
        let answer = server.get(&format!("/index/{path}"), &token).await;
        assert_eq!(answer.status, 200, "{answer:?}");
        let lines: Vec<serde_json::Value> =
            answer.body.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(lines.len(), 2, "{name}");
        assert_eq!((&lines[0]["name"], &lines[0]["cksum"]), (&json!(name), &json!(digest)));
        let archive = server.get(&format!("/index-archives/{name}/1.0.0"), &token).await;
        assert_eq!((archive.status, archive.body), (200, format!(".crate of {name} 1.0.0")));
    }
    for path in [
        "2/x",
        "1/xy",
        "3/y/xyz",
        "in/fl/Inflector",
        "se/rd/other_json",
        "rd/se/serde_json",
        "xy/zz/xyz",
        "no/th/nothing",
        "se/rd/serde-json",
        "3/%27/%27or",
    ] {
        assert_eq!(server.get(&format!("/index/{path}"), &token).await.code(), "MF0903", "{path}");
    }
    for path in ["xyz/9.9.9", "xyz/1", "inflector/1.0.0", "..%2fx/1.0.0"] {
        assert_eq!(server.get(&format!("/index-archives/{path}"), &token).await.code(), "MF0903", "{path}");
    }
}

#[tokio::test]
async fn a_line_that_is_known_is_not_sent_again() {
    let server = Server::start().await;
    let token = server.token("a", &[Scope::Read]).await;
    offer(&server, "regex", "1.0.0", "").await;
    let first = server.get("/index/re/ge/regex", &token).await;
    assert_eq!(first.header("cache-control"), "private, no-cache");
    let again = |tag: &str| {
        let request = server.request("GET", "/index/re/ge/regex", &token);
        server.send(request.header("if-none-match", tag.to_owned()))
    };
    let known = again(first.header("etag")).await;
    assert_eq!((known.status, known.body.as_str()), (304, ""));
    offer(&server, "regex", "1.1.0", "").await;
    let changed = again(first.header("etag")).await;
    assert_eq!((changed.status, changed.body.lines().count()), (200, 2));
}

/// The index shows what a build would be judged by: of the tenant, of the toolchain, not expired, not revoked.
#[tokio::test]
async fn only_what_is_allowed_for_the_tenant_today_is_shown() {
    let server = Server::start().await;
    let (a, b) = (server.token("a", &[Scope::Read]).await, server.token("b", &[Scope::Read]).await);
    offer(&server, "mine", "1.0.0", "a").await;
    offer(&server, "ended", "1.0.0", "").await;
    offer(&server, "revoked", "1.0.0", "").await;
    offer(&server, "elsewhere", "1.0.0", "").await;
    offer(&server, "other", "1.0.0", "").await;
    offer(&server, "empty", "1.0.0", "").await;
    for path in ["en/de/ended", "re/vo/revoked", "el/se/elsewhere", "ot/he/other", "em/pt/empty"] {
        assert_eq!(server.get(&format!("/index/{path}"), &a).await.status, 200, "{path}");
    }
    let reviewer = server.token("a", &[Scope::Review]).await;
    server.db.sql(&format!(
        "UPDATE crates SET expires_at = now() - interval '1 second' WHERE name = 'ended';
         UPDATE crates SET toolchain = '{}' WHERE name = 'elsewhere';
         UPDATE crates SET checksum = '{}' WHERE name = 'other';
         UPDATE index_entries SET line = NULL, problem = 'none' WHERE name = 'empty';",
        "2".repeat(64),
        "3".repeat(64),
    ));
    let body = json!({"severity": "block", "reason": "a test", "dry_run": false});
    let path = "/v1/crates/revoked/1.0.0/revocation";
    let revoked = server.send(server.request("POST", path, &reviewer).json(&body)).await;
    assert_eq!(revoked.status, 200, "{revoked:?}");
    for name in ["ended", "revoked", "elsewhere", "other", "empty"] {
        let folder = format!("{}/{}", &name[..2], &name[2..4]);
        assert_eq!(server.get(&format!("/index/{folder}/{name}"), &a).await.code(), "MF0903", "{name}");
        let archive = format!("/index-archives/{name}/1.0.0");
        assert_eq!(server.get(&archive, &a).await.code(), "MF0903", "{name}");
    }
    for (token, status) in [(&a, 200), (&b, 404)] {
        assert_eq!(server.get("/index/mi/ne/mine", token).await.status, status);
        assert_eq!(server.get("/index-archives/mine/1.0.0", token).await.status, status);
    }
}

#[tokio::test]
async fn an_archive_is_hashed_on_its_way_out() {
    let server = Server::start().await;
    let token = server.token("a", &[Scope::Read]).await;
    let digest = offer(&server, "regex", "1.0.0", "").await;
    let file = server.dir().join(format!("blobs/sha256/{}/{digest}", &digest[..2]));
    std::fs::write(&file, "something else").unwrap();
    let answer = server.get("/index-archives/regex/1.0.0", &token).await;
    assert_eq!((answer.status, answer.code().as_str()), (500, "MF0601"));
}

/// The parts of the SDK are offered with the SDK, and go with it.
#[tokio::test]
async fn parts_of_a_crate_follow_its_decision() {
    let server = Server::start().await;
    let token = server.token("a", &[Scope::Read]).await;
    let digest = offer(&server, "mfaas", "0.1.0", "").await;
    server.db.sql(&format!(
        "INSERT INTO index_entries (name, version, decided, decided_as, archive, line, revision)
         VALUES ('mfaas-abi', '0.1.0', '{digest}', 'mfaas', '{digest}', '{{}}', 1)"
    ));
    assert_eq!(server.get("/index/mf/aa/mfaas-abi", &token).await.status, 200);
    server.db.sql("UPDATE crates SET status = 'denied' WHERE name = 'mfaas'");
    assert_eq!(server.get("/index/mf/aa/mfaas-abi", &token).await.status, 404);
}
