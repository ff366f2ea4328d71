//! Every described route has a row in the access table, and the row is enforced.

use std::collections::BTreeSet;

use mfaas_ident::Scope;
use mfaas_server::access::{Access, TABLE, access_of};
use mfaas_server::description;

use crate::console::{csrf_of, page, sign_in};
use crate::support::{Server, admitted_version, refused_deployment};

/// Every method and path of the OpenAPI description, with the description's own words.
fn described() -> BTreeSet<(String, String)> {
    let json = serde_json::to_value(description()).unwrap();
    let paths = json["paths"].as_object().unwrap();
    let of_path = |(path, item): (&String, &serde_json::Value)| -> Vec<(String, String)> {
        let methods = item
            .as_object()
            .unwrap()
            .keys()
            .filter(|key| ["get", "put", "post", "delete"].contains(&key.as_str()));
        methods.map(|method| (method.to_uppercase(), path.clone())).collect()
    };
    paths.iter().flat_map(of_path).collect()
}

/// A path with something plausible in place of each variable.
fn filled(template: &str) -> String {
    template
        .replace("{name}", "hello")
        .replace("{id}", "7f2c0e52-6a3e-4d7c-9b45-0e1c3fd0a001")
        .replace("{version}", "1")
        .replace("{alias}", "live")
        .replace("{schedule}", "nightly")
        .replace("{trigger}", "uploads")
        .replace("{tenant}", "a")
        .replace("{digest}", &"0".repeat(64))
        .replace("{*path}", "src/lib.rs")
}

#[test]
fn every_described_route_has_an_access_row_and_the_other_way_round() {
    let described = described();
    for (method, path) in &described {
        let access = access_of(&method.parse().unwrap(), path);
        let access = access.unwrap_or_else(|| panic!("{method} {path} has no row in the access table"));
        assert!(!path.starts_with("/v1/") || matches!(access, Access::Token(_)), "{method} {path} is open");
    }
    for (method, path, access) in TABLE {
        if let Access::Token(_) = access {
            assert!(
                described.contains(&((*method).to_owned(), (*path).to_owned())),
                "{method} {path} is not described"
            );
        }
    }
    assert!(described.len() >= 23, "the description lost routes: {}", described.len());
}

#[tokio::test]
async fn every_route_refuses_no_token_a_wrong_token_and_too_small_a_scope() {
    let server = Server::start().await;
    let stranger = format!("mfaas_{}_{}", "0".repeat(32), "0".repeat(64));
    let mut walked = 0;
    for (method, template, access) in TABLE {
        let (Access::Token(scope) | Access::Registry(scope)) = access else { continue };
        let path = filled(template);
        let others: Vec<_> = Scope::ALL.into_iter().filter(|other| !other.implies(*scope)).collect();
        // Every scope implies `read`, so there is none that is too small for it.
        let small = if others.is_empty() { None } else { Some(server.token("a", &others).await) };
        let mut refused = vec![("", 401, "MF0901"), (stranger.as_str(), 401, "MF0901")];
        refused.extend(small.as_deref().map(|small| (small, 403, "MF0902")));
        for (token, status, code) in refused {
            let answer = server.send_stranger(server.request(method, &path, token)).await;
            assert_eq!(answer.status, status, "{method} {path} with {token:.12}: {answer:?}");
            assert_eq!(answer.code(), code);
            assert!(status != 401 || answer.header("www-authenticate").starts_with("Bearer"));
        }
        let enough = server.token("a", &[*scope]).await;
        let answer = server.send(server.request(method, &path, &enough)).await;
        assert!(![401, 403].contains(&answer.status), "{method} {path} with {scope}: {answer:?}");
        walked += 1;
    }
    assert!(walked >= 23, "only {walked} routes were walked");
}

#[tokio::test]
async fn every_page_refuses_no_session_and_too_small_a_scope_and_every_form_a_wrong_secret() {
    let server = Server::start().await;
    let (mut walked, mut forms) = (0, 0);
    for (method, template, access) in TABLE {
        let Access::Session(scope) = access else { continue };
        let numbered = template.replace("/reviews/{id}", "/reviews/1").replace("/bans/{id}", "/bans/1");
        let path = filled(&numbered).replace("/1/revocation", "/1.0.0/revocation");
        let send = async |cookie: &str, csrf: &str| {
            let request = server.request(method, &path, "").header("cookie", cookie);
            server.send(if *method == "POST" { request.form(&[("csrf", csrf)]) } else { request }).await
        };
        let stranger = send("", "").await;
        assert_eq!((stranger.status, stranger.header("location")), (303, "/sign-in"), "{method} {path}");
        let others: Vec<_> = Scope::ALL.into_iter().filter(|other| !other.implies(*scope)).collect();
        if !others.is_empty() {
            let (cookie, csrf) = signed_in(&server, &others).await;
            assert_eq!(send(&cookie, &csrf).await.code(), "MF0902", "{method} {path} with {others:?}");
        }
        let (cookie, csrf) = signed_in(&server, &[*scope]).await;
        if *method == "POST" {
            for wrong in ["", "0", &csrf[1..], &csrf.to_uppercase()] {
                let answer = send(&cookie, wrong).await;
                assert_eq!((answer.status, answer.body.contains("MF0902")), (403, true), "{method} {path}");
            }
            forms += 1;
        }
        let answer = send(&cookie, &csrf).await;
        assert!(![401, 403].contains(&answer.status), "{method} {path} with {scope}: {answer:?}");
        walked += 1;
    }
    assert!(walked >= 16 && forms >= 4, "only {walked} pages and {forms} forms were walked");
}

/// A session of a new token, and the secret of its forms.
async fn signed_in(server: &Server, scopes: &[Scope]) -> (String, String) {
    let token = server.token("a", scopes).await;
    let cookie = sign_in(server, &token).await;
    let csrf = csrf_of(&page(server, "/", &cookie).await.body);
    (cookie, csrf)
}

/// A token that only deploys gets everything that a deploy and its aftermath need, and no more.
#[tokio::test]
async fn a_token_that_only_deploys_can_follow_what_it_deployed() {
    let server = Server::start().await;
    let token = server.token("a", &[Scope::Deploy]).await;
    let created = server.upload("hello", &token, vec![1]).await;
    assert_eq!(created.status, 202, "{created:?}");
    let id = created.json()["deployment"]["id"].as_str().unwrap().to_owned();
    // The stream of a deployment in a final state ends by itself.
    refused_deployment(&server.db, &id, "x");
    for path in [
        format!("/v1/deployments/{id}"),
        format!("/v1/deployments/{id}/events"),
        "/v1/functions".to_owned(),
        "/v1/functions/hello/deployments".to_owned(),
        "/v1/whoami".to_owned(),
        "/v1/crates".to_owned(),
    ] {
        assert_eq!(server.get(&path, &token).await.status, 200, "{path}");
    }
    admitted_version(&server.db, "a", "hello", &upload_again(&server, &token).await, &"a".repeat(64));
    assert_eq!(server.get("/v1/functions/hello/endpoints", &token).await.status, 200);
    assert_eq!(server.get("/v1/tokens", &token).await.code(), "MF0902");
    let reader = server.token("a", &[Scope::Read]).await;
    assert_eq!(server.upload("hello", &reader, vec![2]).await.code(), "MF0902");
}

async fn upload_again(server: &Server, token: &str) -> String {
    let created = server.upload("hello", token, vec![3]).await.json();
    created["deployment"]["id"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn a_withdrawn_or_mangled_token_opens_nothing() {
    let server = Server::start().await;
    let admin = server.token("a", &[Scope::Admin]).await;
    let body = serde_json::json!({"name": "reader", "scopes": ["read"]});
    let created = server.send(server.request("POST", "/v1/tokens", &admin).json(&body)).await;
    assert_eq!(created.status, 201, "{created:?}");
    let created = created.json();
    let (secret, id) = (created["secret"].as_str().unwrap(), created["token"]["id"].as_str().unwrap());
    assert_eq!(server.get("/v1/whoami", secret).await.json()["tenant"], "a");
    let listed = server.get("/v1/tokens", &admin).await;
    assert!(!listed.body.contains(secret.rsplit('_').next().unwrap()), "a list shows a secret");
    // The right secret under another id is not the token.
    let other_id = format!("mfaas_{}_{}", "1".repeat(32), secret.rsplit('_').next().unwrap());
    assert_eq!(server.get("/v1/whoami", &other_id).await.status, 401);
    let gone = server.send(server.request("DELETE", &format!("/v1/tokens/{id}"), &admin)).await;
    assert_eq!(gone.status, 200, "{gone:?}");
    assert_eq!(server.get("/v1/whoami", secret).await.code(), "MF0901");
}

#[tokio::test]
async fn only_an_admin_names_another_tenant() {
    let server = Server::start().await;
    let (reader, admin) = (server.token("a", &[Scope::Read]).await, server.token("a", &[Scope::Admin]).await);
    server.token("b", &[Scope::Read]).await;
    assert_eq!(server.get("/v1/functions?tenant=b", &reader).await.code(), "MF0903");
    assert_eq!(server.get("/v1/functions?tenant=a", &reader).await.status, 200);
    assert_eq!(server.get("/v1/whoami?tenant=b", &admin).await.json()["tenant"], "b");
    assert_eq!(server.get("/v1/functions?tenant=b&tenant=a", &admin).await.code(), "MF0904");
    assert_eq!(server.get("/v1/functions?tenant=B%20", &admin).await.code(), "MF0904");
}
