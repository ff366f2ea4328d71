//! Every route for every role, as it is meant to be: written down here, and not read off the access table.
//! A row that changes there fails here, and so does a route that is new.

use std::collections::BTreeSet;

use mfaas_ident::{Role, Scope};
use mfaas_server::access::TABLE;

use crate::console::{csrf_of, page, sign_in};
use crate::support::{Answer, Server};

/// How a route knows its caller.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Credential {
    /// It does not ask.
    Open,
    /// By a bearer token.
    Token,
    /// By a console session.
    Session,
}
use Credential::{Open, Session, Token};

/// Route, credential, who may come in, and what they get for this request without a body (forms: with nothing but the
/// secret of their session) on an empty site. One letter each: **v**iewer, **d**eployer, **r**eviewer,
/// **o**perator, **a**dmin, and an admin's token from **b**efore persons were asked for.
const MATRIX: &[(&str, &str, Credential, &str, u16)] = &[
    ("GET", "/healthz", Open, "", 200),
    ("GET", "/readyz", Open, "", 200),
    ("GET", "/metrics", Open, "", 200),
    ("GET", "/openapi.json", Open, "", 200),
    ("POST", "/v1/functions/{name}/deployments", Token, "dab", 400),
    ("GET", "/v1/functions/{name}/deployments", Token, "vdroab", 200),
    ("GET", "/v1/deployments/{id}", Token, "vdroab", 404),
    ("GET", "/v1/deployments/{id}/events", Token, "vdroab", 404),
    ("GET", "/v1/functions", Token, "vdroab", 200),
    ("GET", "/v1/functions/{name}", Token, "vdroab", 404),
    ("DELETE", "/v1/functions/{name}", Token, "dab", 404),
    ("GET", "/v1/functions/{name}/versions", Token, "vdroab", 404),
    ("GET", "/v1/functions/{name}/versions/{version}", Token, "vdroab", 404),
    ("GET", "/v1/functions/{name}/aliases", Token, "vdroab", 404),
    ("PUT", "/v1/functions/{name}/aliases/{alias}", Token, "dab", 415),
    ("GET", "/v1/functions/{name}/logs", Token, "vdroab", 404),
    ("GET", "/v1/functions/{name}/endpoints", Token, "vdroab", 404),
    ("GET", "/v1/artifacts/{digest}", Token, "vdroab", 404),
    ("GET", "/v1/artifacts/{digest}/statement", Token, "vdroab", 404),
    ("GET", "/v1/crates", Token, "vdroab", 200),
    ("GET", "/v1/allowlist", Token, "vdroab", 404),
    ("POST", "/v1/crates/{name}/{version}/revocation", Token, "ra", 415),
    ("PUT", "/v1/imports/advisories", Token, "ra", 415),
    ("PUT", "/v1/imports/audits", Token, "ra", 415),
    ("GET", "/v1/requests", Token, "vdroab", 200),
    ("POST", "/v1/requests", Token, "dab", 415),
    ("GET", "/v1/requests/{id}", Token, "vdroab", 404),
    ("GET", "/v1/reviews", Token, "ra", 200),
    ("GET", "/v1/reviews/{id}", Token, "ra", 404),
    ("GET", "/v1/reviews/{id}/report", Token, "ra", 404),
    ("POST", "/v1/reviews/{id}/votes", Token, "ra", 415),
    ("PUT", "/v1/reviews/{id}/hotspots", Token, "ra", 415),
    ("GET", "/v1/keys", Token, "vdroab", 404),
    ("GET", "/v1/whoami", Token, "vdroab", 200),
    ("GET", "/v1/builders", Token, "oab", 200),
    ("GET", "/v1/nodes", Token, "oab", 200),
    ("DELETE", "/v1/nodes/{name}", Token, "oab", 404),
    ("PUT", "/v1/nodes/{name}/availability", Token, "oab", 415),
    ("GET", "/v1/nodes/{name}/isolation", Token, "oab", 404),
    ("GET", "/v1/isolation", Token, "oab", 200),
    ("PUT", "/v1/isolation", Token, "oab", 415),
    ("GET", "/v1/join-tokens", Token, "ab", 200),
    ("POST", "/v1/join-tokens", Token, "ab", 415),
    ("DELETE", "/v1/join-tokens/{id}", Token, "ab", 404),
    ("GET", "/v1/bans", Token, "vdroab", 200),
    ("DELETE", "/v1/bans/{id}", Token, "oab", 404),
    ("GET", "/v1/resources", Token, "vdroab", 200),
    ("POST", "/v1/resources", Token, "oab", 415),
    ("PUT", "/v1/resources/{name}/asset", Token, "oab", 400),
    ("GET", "/v1/resources/{name}/grants", Token, "oab", 404),
    ("PUT", "/v1/resources/{name}/grants/{tenant}", Token, "oab", 415),
    ("DELETE", "/v1/resources/{name}/grants/{tenant}", Token, "oab", 404),
    ("GET", "/v1/usage", Token, "vdroab", 200),
    ("GET", "/v1/functions/{name}/series", Token, "vdroab", 404),
    ("GET", "/v1/series/tenants", Token, "vdroab", 200),
    ("GET", "/v1/series/builds", Token, "oab", 200),
    ("GET", "/v1/series/nodes", Token, "oab", 200),
    ("GET", "/v1/functions/{name}/triggers", Token, "vdroab", 404),
    ("PUT", "/v1/functions/{name}/triggers/{trigger}", Token, "dab", 415),
    ("DELETE", "/v1/functions/{name}/triggers/{trigger}", Token, "dab", 404),
    ("GET", "/v1/functions/{name}/schedules", Token, "vdroab", 404),
    ("PUT", "/v1/functions/{name}/schedules/{schedule}", Token, "dab", 415),
    ("DELETE", "/v1/functions/{name}/schedules/{schedule}", Token, "dab", 404),
    ("GET", "/v1/call-tokens", Token, "dab", 200),
    ("POST", "/v1/call-tokens", Token, "dab", 415),
    ("DELETE", "/v1/call-tokens", Token, "dab", 400),
    ("DELETE", "/v1/call-tokens/{id}", Token, "dab", 404),
    ("POST", "/v1/call-keys", Token, "ab", 415),
    ("GET", "/v1/tokens", Token, "ab", 200),
    ("POST", "/v1/tokens", Token, "ab", 415),
    ("DELETE", "/v1/tokens/{id}", Token, "ab", 404),
    ("GET", "/v1/audit", Token, "oab", 200),
    ("GET", "/v1/audit/chain", Token, "oab", 200),
    ("GET", "/v1/serving-set", Token, "oab", 404),
    ("GET", "/index/config.json", Token, "vdroab", 200),
    ("GET", "/index/{first}/{second}", Token, "vdroab", 404),
    ("GET", "/index/{first}/{second}/{name}", Token, "vdroab", 404),
    ("GET", "/index-archives/{name}/{version}", Token, "vdroab", 404),
    ("GET", "/static/{file}", Open, "", 200),
    ("GET", "/sign-in", Open, "", 200),
    ("POST", "/sign-in", Open, "", 415),
    ("GET", "/sign-in/provider", Open, "", 404),
    ("GET", "/sign-in/callback", Open, "", 404),
    ("POST", "/sign-out", Session, "vdroab", 303),
    ("GET", "/", Session, "vdroab", 200),
    ("GET", "/functions", Session, "vdroab", 200),
    ("GET", "/functions/{name}", Session, "vdroab", 404),
    ("GET", "/functions/{name}/comparison", Session, "vdroab", 400),
    ("POST", "/functions/{name}/calls", Session, "dab", 400),
    ("GET", "/deployments/{id}", Session, "vdroab", 404),
    ("GET", "/deployments/{id}/events", Session, "vdroab", 404),
    ("GET", "/crates", Session, "vdroab", 200),
    ("GET", "/crates/{name}", Session, "vdroab", 404),
    ("GET", "/crates/{name}/{version}/revocation", Session, "ra", 404),
    ("POST", "/crates/{name}/{version}/revocation", Session, "ra", 400),
    ("GET", "/reviews", Session, "ra", 200),
    ("GET", "/reviews/{id}", Session, "ra", 404),
    ("POST", "/reviews/{id}/votes", Session, "ra", 400),
    ("POST", "/reviews/{id}/hotspots", Session, "ra", 400),
    ("GET", "/reviews/{id}/files/{*path}", Session, "ra", 404),
    ("GET", "/usage", Session, "vdroab", 200),
    ("GET", "/charts", Session, "vdroab", 200),
    ("GET", "/charts/builds", Session, "oab", 200),
    ("GET", "/charts/nodes", Session, "oab", 200),
    ("GET", "/functions/{name}/charts", Session, "vdroab", 404),
    ("GET", "/nodes", Session, "oab", 200),
    ("GET", "/nodes/{name}", Session, "oab", 404),
    ("POST", "/nodes/{name}/availability", Session, "oab", 400),
    ("POST", "/bans/{id}/lift", Session, "oab", 404),
    ("GET", "/resources", Session, "oab", 200),
    ("POST", "/resources", Session, "oab", 400),
    ("GET", "/resources/{name}", Session, "oab", 404),
    ("POST", "/resources/{name}/grants", Session, "oab", 400),
    ("POST", "/resources/{name}/grants/{tenant}/revocation", Session, "oab", 404),
    ("GET", "/audit", Session, "oab", 200),
];

/// The path with something plausible in place of each variable.
pub(crate) fn filled(template: &str) -> String {
    let numbered = ["reviews", "requests", "bans"].iter().any(|noun| template.contains(noun));
    let id = if numbered { "1" } else { "7f2c0e52-6a3e-4d7c-9b45-0e1c3fd0a001" };
    let version = if template.contains("functions") { "1" } else { "1.0.0" };
    template
        .replace("{name}", "hello")
        .replace("{id}", id)
        .replace("{version}", version)
        .replace("{alias}", "live")
        .replace("{schedule}", "nightly")
        .replace("{trigger}", "uploads")
        .replace("{digest}", &"0".repeat(64))
        .replace("{first}", "he")
        .replace("{second}", "ll")
        .replace("{tenant}", "a")
        .replace("{file}", "console.css")
        .replace("{*path}", "src/lib.rs")
}

/// A caller.
struct Caller {
    letter: char,
    token: String,
    cookie: String,
    csrf: String,
}

impl Caller {
    async fn new(server: &Server, letter: char, token: String) -> Self {
        let cookie = sign_in(server, &token).await;
        let csrf = csrf_of(&page(server, "/", &cookie).await.body);
        Self { letter, token, cookie, csrf }
    }

    /// The same with a session of its own, where the request ends it.
    async fn fresh(&self, server: &Server) -> Self {
        Self::new(server, self.letter, self.token.clone()).await
    }
}

/// Everybody who is known, one of each letter.
async fn everybody(server: &Server) -> Vec<Caller> {
    let roles = [
        ('v', Role::Viewer),
        ('d', Role::Deployer),
        ('r', Role::Reviewer),
        ('o', Role::Operator),
        ('a', Role::Admin),
    ];
    let mut all = Vec::new();
    for (letter, role) in roles {
        all.push(Caller::new(server, letter, server.token_of("a", role).await).await);
    }
    let before = Caller::new(server, 'b', server.token_of("b", Role::Admin).await).await;
    server.db.sql("UPDATE tokens SET vouched_by = 'nobody' WHERE tenant = 'b'");
    all.push(before);
    all
}

/// What every answer has, whoever asked for what: nobody frames it, nothing of it is executed but our own.
fn check(what: &str, answer: &Answer) {
    let policy = answer.header("content-security-policy");
    assert!(
        policy.contains("frame-ancestors 'none'") && policy.contains("default-src 'none'"),
        "{what}: {policy}"
    );
    assert!(!policy.contains("unsafe-") && !policy.contains('*'), "{what}: {policy}");
    assert_eq!(answer.header("x-content-type-options"), "nosniff", "{what}");
    for cookie in answer.headers.get_all("set-cookie") {
        let cookie = cookie.to_str().unwrap();
        assert!(cookie.contains("; HttpOnly; SameSite=Strict;"), "{what}: {cookie}");
    }
}

async fn send(server: &Server, what: &str, request: reqwest::RequestBuilder) -> Answer {
    let answer = server.send_stranger(request).await;
    check(what, &answer);
    answer
}

/// A request with a token, or with none.
async fn with_token(server: &Server, row: (&str, &str), token: &str) -> Answer {
    send(server, &format!("{} {}", row.0, row.1), server.request(row.0, &filled(row.1), token)).await
}

/// A request with a cookie and, where it is a form, a secret.
async fn with_session(server: &Server, row: (&str, &str), cookie: &str, csrf: Option<&str>) -> Answer {
    let mut request = server.request(row.0, &filled(row.1), "").header("cookie", cookie);
    if row.0 == "POST" {
        let fields: Vec<_> = csrf.map(|csrf| ("csrf", csrf)).into_iter().collect();
        request = request.form(&fields);
    }
    send(server, &format!("{} {}", row.0, row.1), request).await
}

#[test]
fn every_route_is_in_the_matrix_and_the_other_way_round() {
    let meant: BTreeSet<_> = MATRIX.iter().map(|(method, path, ..)| (*method, *path)).collect();
    let known: BTreeSet<_> = TABLE.iter().map(|(method, path, _)| (*method, *path)).collect();
    assert_eq!(meant.len(), MATRIX.len(), "a route is in the matrix twice");
    assert_eq!(
        known.difference(&meant).collect::<Vec<_>>(),
        Vec::<&(&str, &str)>::new(),
        "routes without a row"
    );
    assert_eq!(
        meant.difference(&known).collect::<Vec<_>>(),
        Vec::<&(&str, &str)>::new(),
        "rows without a route"
    );
}

/// A refusal of somebody known: they lack the scope, or nobody vouches for them.
fn check_refused(what: &str, letter: char, letters: &str, answer: &Answer) {
    let code = if letter == 'b' && letters.contains('a') { "MF0913" } else { "MF0902" };
    assert_eq!((answer.status, answer.body.contains(code)), (403, true), "{what}: {answer:?}");
}

#[tokio::test]
async fn every_route_with_a_token_lets_in_whom_the_matrix_says() {
    let server = Server::start().await;
    let everybody = everybody(&server).await;
    let (expired, withdrawn) =
        (server.token_of("x", Role::Admin).await, server.token_of("y", Role::Admin).await);
    server.db.sql("UPDATE tokens SET expires_at = now() - interval '1 second' WHERE tenant = 'x'");
    server.db.sql("UPDATE tokens SET revoked_at = now() WHERE tenant = 'y'");
    let mut asked = 0;
    for (method, template, credential, letters, status) in MATRIX {
        let row = (*method, *template);
        if *credential == Open {
            assert_eq!(with_token(&server, row, "").await.status, *status, "{row:?}");
        }
        if *credential != Token {
            continue;
        }
        let cookie = &everybody[4].cookie;
        let by_session = with_session(&server, row, cookie, Some(&everybody[4].csrf)).await;
        assert_eq!(
            (by_session.status, by_session.code().as_str()),
            (401, "MF0901"),
            "a session opens {row:?}"
        );
        for token in ["", &expired, &withdrawn, "mfaas_x"] {
            let answer = with_token(&server, row, token).await;
            assert_eq!((answer.status, answer.code().as_str()), (401, "MF0901"), "{row:?} {token:.10}");
        }
        if *method == "GET" {
            assert_eq!(with_token(&server, ("HEAD", template), "").await.status, 401, "HEAD {template}");
        }
        for caller in &everybody {
            let answer = with_token(&server, row, &caller.token).await;
            let what = format!("{row:?} for {}", caller.letter);
            if letters.contains(caller.letter) {
                assert_eq!(answer.status, *status, "{what}: {answer:?}");
            } else {
                check_refused(&what, caller.letter, letters, &answer);
            }
            asked += 1;
        }
    }
    assert!(asked >= 37 * 6, "only {asked} requests were made");
}

#[tokio::test]
async fn every_page_and_form_lets_in_whom_the_matrix_says() {
    let server = Server::start().await;
    let everybody = everybody(&server).await;
    let gone = Caller::new(&server, 'x', server.token_of("x", Role::Admin).await).await;
    let withdrawn = Caller::new(&server, 'y', server.token_of("y", Role::Admin).await).await;
    server.db.sql("UPDATE tokens SET expires_at = now() - interval '1 second' WHERE tenant = 'x'");
    server.db.sql("UPDATE tokens SET revoked_at = now() WHERE tenant = 'y'");
    let mut asked = 0;
    for (method, template, _, letters, status) in MATRIX.iter().filter(|row| row.2 == Session) {
        let row = (*method, *template);
        for stranger in [("", ""), (&gone.cookie, &gone.csrf), (&withdrawn.cookie, &withdrawn.csrf)] {
            let answer = with_session(&server, row, stranger.0, Some(stranger.1)).await;
            assert_eq!((answer.status, answer.header("location")), (303, "/sign-in"), "{row:?}");
        }
        let by_token = with_token(&server, row, &everybody[4].token).await;
        assert_eq!(
            (by_token.status, by_token.header("location")),
            (303, "/sign-in"),
            "a token opens {row:?}"
        );
        for caller in &everybody {
            let caller = if *template == "/sign-out" { &caller.fresh(&server).await } else { caller };
            let what = format!("{row:?} for {}", caller.letter);
            let is_in = letters.contains(caller.letter);
            if *method == "POST" && is_in {
                forged(&server, row, caller).await;
            }
            let answer = with_session(&server, row, &caller.cookie, Some(&caller.csrf)).await;
            if is_in {
                assert_eq!(answer.status, *status, "{what}: {answer:?}");
            } else {
                check_refused(&what, caller.letter, letters, &answer);
            }
            asked += 1;
        }
    }
    assert!(asked >= 15 * 6, "only {asked} requests were made");
}

/// The form as a stranger's page would send it: without the secret, with a wrong one, with somebody else's, and
/// with the right one from another site.
async fn forged(server: &Server, row: (&str, &str), caller: &Caller) {
    let other = caller.fresh(server).await;
    for csrf in [None, Some(""), Some("0"), Some(&caller.csrf[1..]), Some(&other.csrf)] {
        let answer = with_session(server, row, &caller.cookie, csrf).await;
        assert_eq!((answer.status, answer.body.contains("MF0902")), (403, true), "{row:?} with {csrf:?}");
    }
    for (name, value) in [("origin", "https://evil.example"), ("sec-fetch-site", "cross-site")] {
        let request = server.request(row.0, &filled(row.1), "").header("cookie", &caller.cookie);
        let request = request.header(name, value).form(&[("csrf", &caller.csrf)]);
        assert_eq!(send(server, row.1, request).await.status, 403, "{row:?} from another site");
    }
}

#[tokio::test]
async fn over_https_cookies_stay_there() {
    let server = Server::start_with(&[("MFAAS_PUBLIC_URL", "https://mfaas.example")]).await;
    let token = server.token("a", &[Scope::Read]).await;
    let request = server.request("POST", "/sign-in", "").form(&[("token", &token)]);
    let answer = send(&server, "sign-in", request).await;
    let cookie = answer.header("set-cookie");
    assert!(cookie.contains("; HttpOnly; SameSite=Strict;") && cookie.ends_with("; Secure"), "{cookie}");
}

/// Making tokens: for people where it allows voting, by role or by scopes, and never by anybody but an admin.
#[tokio::test]
async fn a_token_that_reviews_is_made_for_a_person() {
    let server = Server::start().await;
    let admin = server.token_of("a", Role::Admin).await;
    let make = async |body: serde_json::Value| {
        server.send(server.request("POST", "/v1/tokens", &admin).json(&body)).await
    };
    for given in [
        serde_json::json!({"name": "x", "role": "reviewer"}),
        serde_json::json!({"name": "x", "role": "admin"}),
        serde_json::json!({"name": "x", "scopes": ["read", "review"]}),
        serde_json::json!({"name": "x", "scopes": ["admin"]}),
    ] {
        assert_eq!(make(given.clone()).await.code(), "MF0913", "{given}");
    }
    for given in [
        serde_json::json!({"name": "x"}),
        serde_json::json!({"name": "x", "role": "viewer", "scopes": ["read"]}),
        serde_json::json!({"name": "x", "role": "root"}),
    ] {
        assert_eq!(make(given.clone()).await.code(), "MF0904", "{given}");
    }
    for role in Role::ALL {
        let made = make(serde_json::json!({"name": "x", "role": role, "person": "alice"})).await.json();
        let secret = made["secret"].as_str().unwrap();
        let who = server.get("/v1/whoami", secret).await.json();
        assert_eq!((&who["role"], &who["person"]), (&role.as_str().into(), &"alice".into()), "{who}");
        assert_eq!(who["identity_source"], "admin");
        assert!(made["token"]["made_by"].as_str().unwrap().starts_with("token:"), "{made}");
    }
    let ci = make(serde_json::json!({"name": "ci", "role": "deployer"})).await.json();
    assert_eq!((&ci["token"]["person"], &ci["token"]["identity_source"]), (&"a/ci".into(), &"nobody".into()));
}
