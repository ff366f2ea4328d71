//! The console: pages that show hostile text harmlessly, and forms that only their own pages send.

use mfaas_ident::Scope;

use crate::support::{Answer, Server, admitted_version, refused_deployment};

/// What a tenant would write to break a page or a terminal.
const HOSTILE: &str = "</pre><script>alert(1)</script>\u{1b}[2J\u{202e}<img src=x onerror=alert(1)>";

/// Signs in and answers with the cookie.
pub(crate) async fn sign_in(server: &Server, token: &str) -> String {
    let answer = server.send(server.request("POST", "/sign-in", "").form(&[("token", token)])).await;
    assert_eq!((answer.status, answer.header("location")), (303, "/"), "{answer:?}");
    let cookie = answer.header("set-cookie");
    assert!(cookie.contains("HttpOnly") && cookie.contains("SameSite=Strict"), "{cookie}");
    assert!(!cookie.contains(token.rsplit('_').next().unwrap()), "the cookie holds the token");
    cookie.split(';').next().unwrap().to_owned()
}

pub(crate) async fn page(server: &Server, path: &str, cookie: &str) -> Answer {
    let answer = server.send(server.request("GET", path, "").header("cookie", cookie)).await;
    assert_eq!(answer.status, 200, "{path}: {answer:?}");
    let policy = answer.header("content-security-policy");
    assert!(policy.contains("default-src 'none'") && policy.contains("script-src 'nonce-"), "{policy}");
    assert!(!answer.body.contains("<script>") && !answer.body.contains(" onerror=\""), "{path}");
    answer
}

/// What the forms of a page send along.
pub(crate) fn csrf_of(body: &str) -> String {
    body.split("name=\"csrf\" value=\"").nth(1).unwrap().split('"').next().unwrap().to_owned()
}

#[tokio::test]
async fn without_a_session_there_is_only_the_sign_in_page() {
    let server = Server::start().await;
    for path in ["/", "/functions", "/functions/hello", "/crates", "/reviews", "/reviews/1", "/audit"] {
        let answer = server.get(path, "").await;
        assert_eq!((answer.status, answer.header("location")), (303, "/sign-in"), "{path}");
    }
    // A bearer token is no session: a page must not be readable by whoever can set a header.
    let token = server.token("a", &[Scope::Read]).await;
    assert_eq!(server.get("/functions", &token).await.status, 303);
    let wrong = server.send(server.request("POST", "/sign-in", "").form(&[("token", "mfaas_x")])).await;
    assert_eq!(wrong.status, 401);
    assert!(wrong.body.contains("role=\"alert\"") && wrong.header("set-cookie").is_empty());
    let deployer = server.token("a", &[Scope::Deploy]).await;
    sign_in(&server, &deployer).await;
}

#[tokio::test]
async fn hostile_lines_are_shown_and_do_nothing() {
    let server = Server::start().await;
    let token = server.token("a", &[Scope::Read, Scope::Deploy]).await;
    let upload = async |n: u8| {
        let created = server.upload("hello", &token, vec![n]).await.json();
        created["deployment"]["id"].as_str().unwrap().to_owned()
    };
    let (good, bad) = (upload(1).await, upload(2).await);
    admitted_version(&server.db, "a", "hello", &good, &"a".repeat(64));
    refused_deployment(&server.db, &bad, HOSTILE);
    let quoted = HOSTILE.replace('\'', "''");
    server.db.sql(&format!(
        "INSERT INTO function_logs (tenant, function, version, node, boot, line, at, level, text)
         VALUES ('a', 'hello', 1, 'node-1', gen_random_uuid(), 1, now(), 'info', '{quoted}')"
    ));
    let cookie = sign_in(&server, &token).await;
    for path in ["/functions/hello".to_owned(), format!("/deployments/{bad}")] {
        let body = page(&server, &path, &cookie).await.body;
        assert!(body.contains("script&#62;alert(1)"), "{path} does not show the line: {body}");
        assert!(body.contains("\\u{1b}[2J\\u{202e}"), "{path} hides control characters");
        assert!(!body.contains(['\u{1b}', '\u{202e}']) && !body.contains("<img"), "{path} lets them through");
    }
    let logs = server.get("/v1/functions/hello/logs", &token).await.json();
    let message = logs["items"][0]["message"].as_str().unwrap();
    assert!(message.contains("\\u{1b}[2J") && !message.contains('\u{1b}'), "{message}");
}

#[tokio::test]
async fn a_deployment_that_waits_for_a_builder_shows_its_place() {
    let server = Server::start().await;
    let token = server.token("a", &[Scope::Read, Scope::Deploy]).await;
    let other = server.token("b", &[Scope::Read, Scope::Deploy]).await;
    let mut ids = Vec::new();
    for (token, n) in [(&token, 1), (&token, 2), (&other, 3)] {
        let created = server.upload("hello", token, vec![n]).await.json();
        ids.push(created["deployment"]["id"].as_str().unwrap().to_owned());
    }
    let cookie = sign_in(&server, &token).await;
    let deployment = async || page(&server, &format!("/deployments/{}", ids[1]), &cookie).await.body;
    // The other tenant came later and has its turn first.
    assert!(deployment().await.contains("<dd class=\"small\">3rd of 3; no builder takes builds</dd>"));
    server.db.sql(
        "INSERT INTO builders (instance, unwell) VALUES ('one', NULL), ('two', NULL), ('three', 'a disk')",
    );
    assert!(deployment().await.contains("3rd of 3; 2 builders take builds"));
    let dashboard = page(&server, "/", &cookie).await.body;
    for shown in ["1st of 3 in the queue; 2 builders take builds", "3rd of 3 in the queue"] {
        assert!(dashboard.contains(shown), "{shown}: {dashboard}");
    }
    assert!(!dashboard.contains("2nd of 3") && !dashboard.contains(&ids[2]), "another tenant's is shown");
    server.db.sql("UPDATE builds SET finished_at = now()");
    assert!(!deployment().await.contains("in the queue") && !deployment().await.contains("Place in"));
}

#[tokio::test]
async fn pages_show_what_there_is() {
    let server = Server::start().await;
    let token = server.token("a", &[Scope::Admin]).await;
    let created = server.upload("hello", &token, vec![1]).await.json();
    let id = created["deployment"]["id"].as_str().unwrap();
    let cookie = sign_in(&server, &token).await;
    let dashboard = page(&server, "/", &cookie).await.body;
    assert!(dashboard.contains(id) && dashboard.contains("No node has joined."), "{dashboard}");
    let deployment = page(&server, &format!("/deployments/{id}"), &cookie).await;
    let nonce = deployment.header("content-security-policy").split("'nonce-").nth(1).unwrap();
    let nonce = nonce.split('\'').next().unwrap();
    let script = format!("<script type=\"module\" src=\"/static/live.js\" nonce=\"{nonce}\"></script>");
    assert!(deployment.body.contains(&script), "{}", deployment.body);
    assert!(deployment.body.contains(&format!("data-events=\"/deployments/{id}/events?after=1\"")));
    let again = page(&server, &format!("/deployments/{id}"), &cookie).await;
    assert_ne!(again.header("content-security-policy"), deployment.header("content-security-policy"));
    let sum = "0".repeat(64);
    server.db.sql(&format!(
        "INSERT INTO crates (name, version, checksum, features, direct, status, decided_by, reason)
         VALUES ('itoa', '1.0.0', '{sum}', '{{}}', true, 'allowed', 'seed', 'shipped')"
    ));
    assert!(page(&server, "/crates", &cookie).await.body.contains("not yet reviewed for hostile callers"));
    page(&server, "/functions", &cookie).await;
    let missing =
        server.send(server.request("GET", "/functions/nothing", "").header("cookie", &cookie)).await;
    assert_eq!((missing.status, missing.header("content-type")), (404, "text/html; charset=utf-8"));
    assert!(missing.body.contains("MF0903") && missing.body.contains(missing.header("x-request-id")));
    for file in ["console.css", "live.js", "hotspots.js", "icon.svg"] {
        assert_eq!(server.get(&format!("/static/{file}"), "").await.status, 200);
    }
}

#[tokio::test]
async fn a_static_file_is_small_on_the_wire_and_is_sent_once() {
    let server = Server::start().await;
    let path = "/static/console.css";
    let whole = server.get(path, "").await;
    let packed = server.send(server.request("GET", path, "").header("accept-encoding", "gzip")).await;
    assert_eq!((packed.status, packed.header("content-encoding")), (200, "gzip"));
    assert_eq!(packed.header("etag"), whole.header("etag"));
    let again = server.request("GET", path, "").header("if-none-match", whole.header("etag"));
    let again = server.send(again).await;
    assert_eq!((again.status, again.body.as_str()), (304, ""));
    let other = server.send(server.request("GET", path, "").header("if-none-match", "\"other\"")).await;
    assert_eq!((other.status, other.body), (200, whole.body));
    // What may hold a secret beside what a caller wrote is not packed: its length would tell of it.
    let token = server.token("acme", &[mfaas_ident::Scope::Read]).await;
    let list = server.request("GET", "/v1/functions", &token).header("accept-encoding", "gzip");
    assert_eq!(server.send(list).await.header("content-encoding"), "");
}

#[tokio::test]
async fn a_browser_reads_pages_and_the_api_keeps_its_problem_documents() {
    let server = Server::start().await;
    let browser = "text/html,application/xhtml+xml,*/*;q=0.8";
    let ask = async |method: &str, path: &str| {
        server.send(server.request(method, path, "").header("accept", browser)).await
    };
    for (method, path, status) in
        [("GET", "/nowhere", 404), ("GET", "/crates/serde/latest", 404), ("POST", "/crates", 405)]
    {
        let answer = ask(method, path).await;
        assert_eq!(
            (answer.status, answer.header("content-type")),
            (status, "text/html; charset=utf-8"),
            "{path}"
        );
        assert!(
            answer.body.contains("MF0911") && answer.body.contains(answer.header("x-request-id")),
            "{path}"
        );
        assert!(answer.header("content-security-policy").contains("script-src 'nonce-"), "{path}");
    }
    assert_eq!(ask("POST", "/crates").await.header("allow"), "GET, HEAD, OPTIONS");
    assert_eq!(ask("GET", "/v1/nowhere").await.code(), "MF0911");
    assert_eq!(server.get("/nowhere", "").await.code(), "MF0911", "who names no HTML gets none");
}

#[tokio::test]
async fn forms_of_strangers_do_nothing() {
    let server = Server::start().await;
    let token = server.token("a", &[Scope::Read]).await;
    let login = || server.request("POST", "/sign-in", "").form(&[("token", &token)]);
    for (name, value) in [
        ("origin", "http://evil.example"),
        ("origin", "null"),
        ("sec-fetch-site", "cross-site"),
        ("sec-fetch-site", "same-site"),
    ] {
        let answer = server.send(login().header(name, value)).await;
        assert_eq!(answer.status, 403, "{name}: {value}");
        assert!(answer.header("set-cookie").is_empty());
    }
    let own = server.url("");
    assert_eq!(server.send(login().header("origin", &own)).await.status, 303);
    let cookie = sign_in(&server, &token).await;
    let out = |csrf: &str| {
        server.request("POST", "/sign-out", "").header("cookie", &cookie).form(&[("csrf", csrf)])
    };
    assert_eq!(server.send(out("guess")).await.status, 403);
    let body = page(&server, "/", &cookie).await.body;
    assert_eq!(server.send(out(&csrf_of(&body))).await.header("location"), "/sign-in");
    let after = server.send(server.request("GET", "/", "").header("cookie", &cookie)).await;
    assert_eq!(after.header("location"), "/sign-in", "the cookie still opens the console");
}

/// A balancer gives each request to another server.
#[tokio::test]
async fn a_session_counts_at_every_server_and_ends_at_all_of_them() {
    let server = Server::start().await;
    let other = server.beside(&[]).await;
    let token = server.token("a", &[Scope::Read]).await;
    let (cookie, second) = (sign_in(&server, &token).await, sign_in(&other, &token).await);
    let value = cookie.split_once('=').unwrap().1;
    let kept = server.db.sql("SELECT string_agg(s::text, '') FROM sessions s");
    let csrf = csrf_of(&page(&server, "/", &cookie).await.body);
    assert!(!kept.contains(value) && !kept.contains(&csrf), "the table opens sessions: {kept}");
    assert_eq!(
        csrf_of(&page(&other, "/", &cookie).await.body),
        csrf,
        "a form of one server is sent to the other"
    );
    page(&server, "/", &second).await;
    let out = other.request("POST", "/sign-out", "").header("cookie", &cookie).form(&[("csrf", &csrf)]);
    assert_eq!(other.send(out).await.header("location"), "/sign-in");
    let shows = async |server: &Server, cookie: &str| {
        let answer = server.send(server.request("GET", "/", "").header("cookie", cookie)).await;
        (answer.status, answer.header("location").to_owned())
    };
    assert_eq!(
        shows(&server, &cookie).await,
        (303, "/sign-in".to_owned()),
        "it is ended at one server alone"
    );
    assert_eq!(shows(&server, &second).await.0, 200, "the person's other session was ended");
    server.db.sql("UPDATE sessions SET opened_at = now() - interval '13 hours', expires_at = now()");
    for server in [&server, &other] {
        assert_eq!(shows(server, &second).await.0, 303, "it outlives its time");
    }
}

/// Cookies that nobody was given are looked up in the strangers' lane, and not for ever.
#[tokio::test]
async fn made_up_sessions_are_refused_and_disturb_nobody_who_has_one() {
    let server = Server::start().await;
    let cookie = sign_in(&server, &server.token("a", &[Scope::Read]).await).await;
    page(&server, "/", &cookie).await;
    let mut statuses = std::collections::BTreeSet::new();
    for number in 0..=5 * mfaas_server::limits::UNKNOWN_SECRETS_MAX {
        let made_up = format!("mfaas_session={number:064x}");
        let answer = server.send(server.request("GET", "/", "").header("cookie", &made_up)).await;
        statuses.insert(answer.status);
    }
    assert_eq!(statuses.into_iter().collect::<Vec<_>>(), [303, 429]);
    page(&server, "/", &cookie).await;
}

#[tokio::test]
async fn a_withdrawn_token_ends_its_session() {
    let server = Server::start().await;
    let token = server.token("a", &[Scope::Read]).await;
    let cookie = sign_in(&server, &token).await;
    page(&server, "/", &cookie).await;
    server.db.sql("UPDATE tokens SET revoked_at = now()");
    let after = server.send(server.request("GET", "/", "").header("cookie", &cookie)).await;
    assert_eq!(after.header("location"), "/sign-in");
}
