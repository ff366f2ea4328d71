//! Whatever goes wrong, the answer is a problem document that names its request.

use mfaas_ident::Scope;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::support::Server;

#[tokio::test]
async fn what_does_not_exist_or_does_not_parse_is_a_problem_document() {
    let server = Server::start().await;
    let token = server.token("a", &[Scope::Read, Scope::Deploy]).await;
    for (method, path, status, code) in [
        ("GET", "/nowhere", 404, "MF0911"),
        ("GET", "/v1/nowhere", 404, "MF0911"),
        ("PATCH", "/v1/functions", 405, "MF0911"),
        ("DELETE", "/healthz", 405, "MF0911"),
        ("GET", "/v1/functions/NotAName", 404, "MF0903"),
        ("GET", "/v1/functions/hello", 404, "MF0903"),
        ("GET", "/v1/deployments/xyz", 404, "MF0903"),
        ("GET", "/v1/functions?limit=minus", 400, "MF0904"),
        ("GET", "/v1/functions?limit=0", 400, "MF0904"),
        ("GET", "/v1/functions?limit=1001", 400, "MF0904"),
        ("GET", "/v1/functions?limit=2147483648", 400, "MF0904"),
        ("GET", "/v1/functions?limit=4294967296", 400, "MF0904"),
        ("GET", "/v1/functions/hello/deployments?limit=0", 400, "MF0904"),
        ("GET", "/v1/functions/hello/versions?limit=0", 400, "MF0904"),
        ("GET", "/v1/functions/hello/logs?limit=0", 400, "MF0904"),
        ("GET", "/v1/functions/hello/logs?after=-1", 400, "MF0904"),
        ("GET", "/v1/functions/hello/versions/0", 404, "MF0903"),
        ("GET", "/v1/artifacts/abc", 404, "MF0903"),
        ("GET", "/static/secret.txt", 404, "MF0903"),
    ] {
        let answer = server.send(server.request(method, path, &token)).await;
        assert_eq!((answer.status, answer.code().as_str()), (status, code), "{method} {path}: {answer:?}");
    }
    let reviewer = server.token("a", &[Scope::Review]).await;
    let put = server.request("PUT", "/v1/functions/hello/aliases/live", &token);
    let not_json = server.send(put.header("content-type", "application/json").body("{")).await;
    assert_eq!((not_json.status, not_json.code().as_str()), (400, "MF0904"));
    let no_type =
        server.send(server.request("PUT", "/v1/functions/hello/aliases/live", &token).body("{}")).await;
    assert_eq!((no_type.status, no_type.code().as_str()), (415, "MF0916"));
    let import = server.request("PUT", "/v1/imports/audits", &reviewer).header("content-type", "text/plain");
    let other_type = server.send(import.body("{}")).await;
    assert_eq!((other_type.status, other_type.code().as_str()), (415, "MF0916"));
    let unknown = serde_json::json!({"version": 1, "force": true});
    let put = server.request("PUT", "/v1/functions/hello/aliases/live", &token).json(&unknown);
    assert_eq!(server.send(put).await.code(), "MF0904", "unknown members are refused");
    let large = serde_json::json!({"version": 1, "x": "y".repeat(70_000)});
    let put = server.request("PUT", "/v1/functions/hello/aliases/live", &token).json(&large);
    let answer = server.send(put).await;
    assert_eq!((answer.status, answer.code().as_str()), (413, "MF0907"));
}

/// Of every route that works for a tenant, as an admin who names one that does not exist: a thing that is not there
/// is the caller's mistake, also where only a constraint of the database knows it. Making a token makes its tenant.
#[tokio::test]
async fn a_tenant_that_does_not_exist_is_not_found_on_any_route() {
    let server = Server::start().await;
    let token = server.token_of("acme", mfaas_ident::Role::Admin).await;
    let everything = server
        .token("acme", &[Scope::Read, Scope::Deploy, Scope::Review, Scope::Operate, Scope::Admin])
        .await;
    let digest = "0".repeat(64);
    let id = "00000000-0000-0000-0000-000000000000";
    let fill = |path: &str| {
        path.replace("{id}", id)
            .replace("{digest}", &digest)
            .replace("{version}", "1")
            .replace("{alias}", "live")
            .replace("{name}", "hello")
    };
    let upload = server.request("POST", "/v1/functions/hello/deployments?tenant=ghost", &token).body("x");
    let answer = server.send(upload).await;
    assert_eq!((answer.status, answer.code().as_str()), (404, "MF0903"), "{answer:?}");
    assert!(answer.body.contains("There is no tenant `ghost`."), "{answer:?}");
    for (method, path, _) in
        mfaas_server::access::TABLE.iter().filter(|(_, path, _)| path.starts_with("/v1/"))
    {
        let path = format!("{}?tenant=ghost", fill(path));
        let request = server.request(method, &path, &everything);
        let request = if *method == "GET" { request } else { request.json(&serde_json::json!({})) };
        let answer = server.send(request).await;
        assert!(answer.status < 500, "{method} {path}: {answer:?}");
    }
    let rows = server.db.sql("SELECT count(*) FROM tenants WHERE name = 'ghost'");
    assert_eq!(rows.trim(), "0", "a tenant came of a question");
    let new = serde_json::json!({"name": "first", "role": "viewer"});
    let made = server.send(server.request("POST", "/v1/tokens?tenant=ghost", &token).json(&new)).await;
    assert_eq!(made.status, 201, "{made:?}");
    assert_eq!(server.get("/v1/functions?tenant=ghost", &token).await.status, 200);
}

#[tokio::test]
async fn a_wrong_method_names_the_right_ones() {
    let server = Server::start().await;
    let answer = server.send(server.request("PATCH", "/v1/functions/hello", "")).await;
    assert_eq!((answer.status, answer.header("allow")), (405, "GET, HEAD, DELETE, OPTIONS"));
    let answer = server.send(server.request("OPTIONS", "/v1/functions/hello", "")).await;
    assert_eq!((answer.status, answer.header("allow")), (204, "GET, HEAD, DELETE, OPTIONS"));
    assert!(answer.header("access-control-allow-origin").is_empty(), "no stranger's page may call");
    let put_only = server.send(server.request("OPTIONS", "/v1/functions/hello/aliases/live", "")).await;
    assert_eq!(put_only.header("allow"), "PUT, OPTIONS");
    assert_eq!(server.send(server.request("OPTIONS", "/nowhere", "")).await.code(), "MF0911");
}

#[tokio::test]
async fn head_is_get_without_the_body_and_no_way_around_the_gate() {
    let server = Server::start().await;
    let token = server.token("a", &[Scope::Read]).await;
    let ask =
        async |method: &str, path: &str, token: &str| server.send(server.request(method, path, token)).await;
    for (path, status) in [("/healthz", 200), ("/v1/functions", 200), ("/v1/tokens", 403), ("/nowhere", 404)]
    {
        let (get, head) = (ask("GET", path, &token).await, ask("HEAD", path, &token).await);
        assert_eq!((get.status, head.status), (status, status), "{path}");
        assert_eq!(head.header("content-type"), get.header("content-type"), "{path}");
        assert!(!get.body.is_empty() && head.body.is_empty(), "{path}: {head:?}");
    }
    assert_eq!(ask("HEAD", "/v1/functions", "").await.status, 401);
    assert_eq!(ask("HEAD", "/", "").await.header("location"), "/sign-in");
}

#[tokio::test]
async fn another_hosts_name_is_refused_before_anything_else() {
    let server = Server::start().await;
    for host in ["evil.example", "evil.example:7700", "localhost.evil.example", "127.0.0.1.evil.example", "x"]
    {
        let answer = server.send(server.request("GET", "/healthz", "").header("host", host)).await;
        assert_eq!((answer.status, answer.code().as_str()), (421, "MF0906"), "{host}");
    }
    for host in ["localhost", "LOCALHOST:1", "127.0.0.1:9", "[::1]:7700"] {
        let answer = server.send(server.request("GET", "/healthz", "").header("host", host)).await;
        assert_eq!(answer.status, 200, "{host}: {answer:?}");
    }
}

/// What two readers could take for different hosts is nobody's.
#[tokio::test]
async fn a_request_names_one_host_and_names_it_once() {
    let server = Server::start().await;
    let address = server.url("").trim_start_matches("http://").to_owned();
    let ask = async |head: &str| {
        let mut stream = tokio::net::TcpStream::connect(&address).await.unwrap();
        stream.write_all(format!("{head}connection: close\r\n\r\n").as_bytes()).await.unwrap();
        let mut said = String::new();
        stream.read_to_string(&mut said).await.unwrap();
        said
    };
    for head in [
        "GET http://evil.example/healthz HTTP/1.1\r\nhost: localhost\r\n",
        "GET http://localhost:1/healthz HTTP/1.1\r\nhost: localhost:2\r\n",
        "GET http://localhost/healthz HTTP/1.1\r\nhost: evil.example\r\n",
        "GET http://anna@localhost/healthz HTTP/1.1\r\nhost: anna@localhost\r\n",
        "GET /healthz HTTP/1.1\r\nhost: localhost\r\nhost: evil.example\r\n",
        "GET /healthz HTTP/1.1\r\nhost: localhost\r\nhost: localhost\r\n",
        "GET /healthz HTTP/1.1\r\nhost: localhost:99999\r\n",
        "GET /healthz HTTP/1.1\r\n",
        "GET /healthz HTTP/1.0\r\n",
    ] {
        let said = ask(head).await;
        assert!(said.starts_with("HTTP/1.1 421 ") || said.starts_with("HTTP/1.0 421 "), "{head}: {said}");
        assert!(said.contains("MF0906"), "{head}: {said}");
    }
    let whole = format!("GET http://{address}/healthz HTTP/1.1\r\nhost: {address}\r\n");
    assert!(ask(&whole).await.starts_with("HTTP/1.1 200 "), "the two agree");
}

/// The same where the name is in the request's own head (RFC 9113 8.3.1).
#[tokio::test]
async fn http2_names_one_host() {
    let server = Server::start().await;
    let client = reqwest::Client::builder().http2_prior_knowledge().build().unwrap();
    let ask = async |host: &str| {
        let answer = client.get(server.url("/healthz")).header("host", host).send().await.unwrap();
        answer.status().as_u16()
    };
    assert_eq!(client.get(server.url("/healthz")).send().await.unwrap().status().as_u16(), 200);
    assert_eq!(ask("evil.example").await, 421);
    assert_eq!(ask("localhost").await, 421, "known, and another one than the address");
}

#[tokio::test]
async fn a_request_id_is_ours_and_every_answer_carries_it() {
    let server = Server::start().await;
    let answer = server.send(server.request("GET", "/healthz", "").header("x-request-id", "chosen")).await;
    assert_eq!(answer.header("x-request-id").len(), 32);
    assert_eq!(answer.header("x-content-type-options"), "nosniff");
    assert_eq!(answer.header("content-security-policy"), "default-src 'none'; frame-ancestors 'none'");
}

#[tokio::test]
async fn the_description_is_openapi_3_1_and_speaks_of_problems() {
    let server = Server::start().await;
    let description = server.get("/openapi.json", "").await.json();
    assert_eq!(description["openapi"], "3.1.0");
    assert!(description["components"]["schemas"]["Problem"]["properties"]["code"].is_object());
    assert!(description["components"]["schemas"]["Event"].is_object());
    assert_eq!(description["components"]["securitySchemes"]["token"]["scheme"], "bearer");
}

/// `scripts/lint-api` asks the server for each of these answers; here it is about whether they are described at all.
#[tokio::test]
async fn every_operation_describes_what_the_gate_answers() {
    let server = Server::start().await;
    let description = server.get("/openapi.json", "").await.json();
    assert_eq!(description["servers"][0]["url"], "/");
    let mut seen = 0;
    for (path, item) in description["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            let open = operation["security"]
                .as_array()
                .is_some_and(|all| all.iter().any(|one| one == &serde_json::json!({})));
            let answers = operation["responses"].as_object().unwrap();
            let mut expected = vec!["421", "500"];
            if path != "/healthz" {
                expected.extend(["429", "503"]);
            }
            if !open {
                expected.extend(["400", "401", "403", "404"]);
            }
            if operation["requestBody"]["content"]["application/json"].is_object() {
                expected.extend(["408", "413", "415"]);
            }
            for status in expected {
                assert!(answers.contains_key(status), "{method} {path} does not describe {status}");
            }
            for (status, answer) in answers {
                let described =
                    answer["$ref"].is_string() || !answer["description"].as_str().unwrap_or("").is_empty();
                assert!(described, "{method} {path} {status}");
            }
            for parameter in operation["parameters"].as_array().into_iter().flatten() {
                let schema = &parameter["schema"];
                let bounded =
                    ["pattern", "format", "enum", "maximum"].iter().any(|key| !schema[key].is_null());
                assert!(bounded || parameter["name"] == "version", "{method} {path}: {parameter}");
            }
            seen += 1;
        }
    }
    assert!(seen > 40, "{seen}");
    let limit = &description["paths"]["/v1/functions"]["get"]["parameters"][1]["schema"];
    assert_eq!((&limit["minimum"], &limit["maximum"]), (&serde_json::json!(1), &serde_json::json!(1_000)));
}
