//! Resources and grants: who makes and sees them, over the API and in the console, and what versions show of them.

use mfaas_ident::Role;
use mfaas_server::limits::RESOURCE_GRANTS_SHOWN_MAX;
use serde_json::{Value, json};

use crate::console::{csrf_of, page, sign_in};
use crate::support::{Answer, Server};

async fn put(server: &Server, token: &str, path: &str, access: &str) -> Answer {
    server.send(server.request("PUT", path, token).json(&json!({ "access": access }))).await
}

async fn create(server: &Server, token: &str, body: &Value) -> Answer {
    server.send(server.request("POST", "/v1/resources", token).json(body)).await
}

#[tokio::test]
async fn an_operator_makes_and_grants_and_a_tenant_sees_its_own() {
    let server = Server::start().await;
    let operator = server.token_of("site", Role::Operator).await;
    let (viewer, stranger) =
        (server.token_of("a", Role::Viewer).await, server.token_of("b", Role::Viewer).await);
    let links = json!({"name": "links", "kind": "kv"});
    let made = create(&server, &operator, &links).await;
    assert_eq!((made.status, &made.json()["name"]), (201, &json!("links")), "{made:?}");
    assert!(made.json()["created_by"].as_str().unwrap().starts_with("token:"), "{made:?}");
    assert_eq!(create(&server, &operator, &links).await.status, 200, "the same again");
    for wrong in [
        json!({"name": "links"}),
        json!({"name": "links", "kind": "sql"}),
        json!({"name": "Links", "kind": "kv"}),
        json!({"name": "links", "kind": "kv", "more": 1}),
    ] {
        let answer = create(&server, &operator, &wrong).await;
        assert_eq!((answer.status, answer.code().as_str()), (400, "MF0904"), "{wrong}: {answer:?}");
    }

    let of_a = "/v1/resources/links/grants/a";
    let granted = put(&server, &operator, of_a, "read").await;
    assert_eq!((granted.status, &granted.json()["access"]), (200, &json!("read")), "{granted:?}");
    assert_eq!(put(&server, &operator, of_a, "write").await.json()["access"], "write");
    for (path, what) in [
        ("/v1/resources/links/grants/nobody", "tenant"),
        ("/v1/resources/nothing/grants/a", "resource"),
        ("/v1/resources/Links/grants/a", ""),
    ] {
        let answer = put(&server, &operator, path, "read").await;
        assert_eq!((answer.status, answer.code().as_str()), (404, "MF0903"), "{path}: {answer:?}");
        assert!(answer.body.contains(what), "{path}: {answer:?}");
    }
    assert_eq!(put(&server, &operator, of_a, "own").await.code(), "MF0904");
    assert_eq!(put(&server, &viewer, of_a, "write").await.code(), "MF0902");

    let all = server.get("/v1/resources", &operator).await.json();
    let item = &all["items"][0];
    assert_eq!((&item["name"], &item["kind"], item.get("access")), (&json!("links"), &json!("kv"), None));
    let grant = &item["grants"][0];
    assert_eq!((&grant["tenant"], &grant["access"]), (&json!("a"), &json!("write")), "{all}");
    let own = server.get("/v1/resources", &viewer).await.json();
    assert_eq!(own["items"].as_array().unwrap().len(), 1, "{own}");
    assert_eq!(own["items"][0]["access"], "write");
    let told: Vec<&String> = own["items"][0].as_object().unwrap().keys().collect();
    assert!(!told.iter().any(|key| ["grants", "created_by"].contains(&key.as_str())), "{own}");
    assert_eq!(server.get("/v1/resources?tenant=a", &operator).await.json(), own);
    assert_eq!(server.get("/v1/resources", &stranger).await.json()["items"], json!([]));
    assert_eq!(server.get("/v1/resources?tenant=a", &stranger).await.code(), "MF0903");

    let revoke = async || server.send(server.request("DELETE", of_a, &operator)).await;
    assert_eq!(revoke().await.json(), json!({"removed": "grant of links to a"}));
    assert_eq!(revoke().await.code(), "MF0903");
    assert_eq!(server.get("/v1/resources", &viewer).await.json()["items"], json!([]));
    let actions = server.db.sql(
        "SELECT string_agg(action || ' ' || tenant || ' ' || subject, ', ' ORDER BY seq) FROM audit_log
         WHERE action LIKE 'resource.%' AND actor LIKE 'token:%'",
    );
    assert_eq!(
        actions,
        "resource.created  links, resource.granted a links, resource.granted a links, resource.revoked a links"
    );
}

/// Many resources, and one that many tenants have: each list has pages.
#[tokio::test]
async fn lists_of_resources_and_grants_have_pages() {
    let server = Server::start().await;
    let operator = server.token_of("a", Role::Operator).await;
    let many = RESOURCE_GRANTS_SHOWN_MAX + 5;
    server.db.script(&format!(
        "INSERT INTO resources (name, kind, created_by) SELECT 'r' || i, 'kv', 'test' FROM generate_series(1, 3) i;
         INSERT INTO tenants (name) SELECT 't' || i FROM generate_series(101, 100 + {many}) i;
         INSERT INTO resource_grants (resource, tenant, access, granted_by)
         SELECT 'r2', 't' || i, 'read', 'test' FROM generate_series(101, 100 + {many}) i;"
    ));
    let first = server.get("/v1/resources?limit=2", &operator).await.json();
    let names = |page: &Value| -> Vec<Value> {
        page["items"].as_array().unwrap().iter().map(|item| item["name"].clone()).collect()
    };
    assert_eq!((names(&first), &first["next"]), (vec![json!("r1"), json!("r2")], &json!("r2")));
    let shared = &first["items"][1];
    let shown = shared["grants"].as_array().unwrap();
    assert_eq!((shown.len(), &shared["truncated"]), (RESOURCE_GRANTS_SHOWN_MAX as usize, &json!(true)));
    assert_eq!(first["items"][0]["truncated"], false);
    let second = server.get("/v1/resources?limit=2&after=r2", &operator).await.json();
    assert_eq!((names(&second), second.get("next")), (vec![json!("r3")], None));

    let grants = server.get("/v1/resources/r2/grants?limit=20", &operator).await.json();
    assert_eq!((grants["items"].as_array().unwrap().len(), &grants["next"]), (20, &json!("t120")));
    let rest = server.get("/v1/resources/r2/grants?limit=20&after=t120", &operator).await.json();
    assert_eq!((rest["items"].as_array().unwrap().len(), rest.get("next")), (many as usize - 20, None));
    assert_eq!(server.get("/v1/resources/r9/grants", &operator).await.code(), "MF0903");
    for wrong in ["/v1/resources?limit=0", "/v1/resources?after=R", "/v1/resources/r2/grants?after=T"] {
        assert_eq!(server.get(wrong, &operator).await.code(), "MF0904", "{wrong}");
    }
}

#[tokio::test]
async fn a_version_shows_what_it_binds() {
    let server = Server::start().await;
    let token = server.token_of("a", Role::Deployer).await;
    server.admitted("a", "hello", &token).await;
    let cookie = sign_in(&server, &token).await;
    let path = "/v1/functions/hello/versions/1";
    assert_eq!(server.get(path, &token).await.json().get("bindings"), None, "it binds nothing");
    server.db.script(
        "INSERT INTO resources (name, kind, created_by) VALUES ('short-links', 'kv', 'test');
         INSERT INTO version_bindings (tenant, function, version, name, kind, resource, access)
         VALUES ('a', 'hello', 1, 'links', 'kv', 'short-links', 'write');",
    );
    let bindings = json!({"links": {"kind": "kv", "resource": "short-links", "access": "write"}});
    assert_eq!(server.get(path, &token).await.json()["bindings"], bindings);
    let all = server.get("/v1/functions/hello/versions", &token).await.json();
    assert_eq!(all["items"][0]["bindings"], bindings);
    let body = page(&server, "/functions/hello", &cookie).await.body;
    assert!(body.contains("<td>links (write kv short-links)</td>"), "{body}");
}

#[tokio::test]
async fn an_operator_makes_and_grants_in_the_console() {
    let server = Server::start().await;
    let operator = server.token_of("site", Role::Operator).await;
    server.token_of("a", Role::Viewer).await;
    let cookie = sign_in(&server, &operator).await;
    let csrf = csrf_of(&page(&server, "/resources", &cookie).await.body);
    let send = async |path: &str, fields: &[(&str, &str)]| {
        let fields = [fields, &[("csrf", csrf.as_str())]].concat();
        server.send(server.request("POST", path, "").header("cookie", &cookie).form(&fields)).await
    };
    let made = send("/resources", &[("name", "links"), ("kind", "kv")]).await;
    assert_eq!((made.status, made.header("location")), (303, "/resources/links"), "{made:?}");
    assert!(page(&server, "/resources/links", &cookie).await.body.contains("No tenant may bind it."));
    let grants = "/resources/links/grants";
    let granted = send(grants, &[("tenant", "a"), ("access", "write")]).await;
    assert_eq!((granted.status, granted.header("location")), (303, "/resources/links"), "{granted:?}");
    let body = page(&server, "/resources", &cookie).await.body;
    assert!(body.contains("href=\"/resources/links\"") && body.contains("<td>a (write)</td>"), "{body}");
    for (fields, status, code) in [
        ([("tenant", "nobody"), ("access", "read")], 404, "MF0903"),
        ([("tenant", "A"), ("access", "read")], 400, "MF0904"),
        ([("tenant", "a"), ("access", "own")], 400, "MF0904"),
    ] {
        let answer = send(grants, &fields).await;
        assert_eq!((answer.status, answer.body.contains(code)), (status, true), "{fields:?}: {answer:?}");
    }
    let revocation = "/resources/links/grants/a/revocation";
    let body = page(&server, "/resources/links", &cookie).await.body;
    assert!(body.contains(&format!("action=\"{revocation}\"")) && body.contains("<td>write</td>"), "{body}");
    assert_eq!(send(revocation, &[]).await.header("location"), "/resources/links");
    assert_eq!(server.db.sql("SELECT count(*) FROM resource_grants"), "0");
}

/// An asset is made of a body whose digest was announced, and never of anything else.
#[tokio::test]
async fn an_asset_is_made_of_the_bytes_that_were_announced() {
    let server = Server::start().await;
    let operator = server.token_of("site", Role::Operator).await;
    let viewer = server.token_of("a", Role::Viewer).await;
    let (bytes, digest) = (b"model".to_vec(), mfaas_ident::Digest::of(b"model"));
    let put = async |token: &str, digest: &str, bytes: &[u8]| {
        let path = format!("/v1/resources/model/asset?digest={digest}");
        server.send(server.request("PUT", &path, token).body(bytes.to_vec())).await
    };
    let announced = digest.to_string();
    assert_eq!(put(&viewer, &announced, &bytes).await.code(), "MF0902");
    let other = put(&operator, &announced, b"other").await;
    assert_eq!((other.status, other.code().as_str()), (422, "MF1221"), "{other:?}");
    assert_eq!(put(&operator, &mfaas_ident::Digest::of(b"").to_string(), b"").await.status, 400);
    assert_eq!(put(&operator, "abc", &bytes).await.code(), "MF0904");
    let bare = create(&server, &operator, &json!({"name": "model", "kind": "asset"})).await;
    assert_eq!((bare.status, bare.code().as_str()), (422, "MF1221"), "{bare:?}");
    assert_eq!(server.get("/v1/resources", &operator).await.json()["items"], json!([]), "nothing was made");
    let made = put(&operator, &announced, &bytes).await;
    assert_eq!((made.status, &made.json()["content"]), (201, &json!({"digest": announced, "bytes": 5})));
    assert_eq!(put(&operator, &announced, &bytes).await.status, 200, "the same again");
    let other = put(&operator, &mfaas_ident::Digest::of(b"other").to_string(), b"other").await;
    assert_eq!((other.status, other.code().as_str()), (409, "MF0908"), "{other:?}");
    let listed = server.get("/v1/resources", &operator).await.json();
    assert_eq!(listed["items"][0]["content"]["digest"], json!(announced), "{listed}");
    let cookie = sign_in(&server, &operator).await;
    let shown = page(&server, "/resources/model", &cookie).await;
    assert!(shown.body.contains(&announced), "{shown:?}");
}
