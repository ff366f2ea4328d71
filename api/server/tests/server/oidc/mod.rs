//! Signing in with an OpenID provider that really signs, and everything that must not sign anybody in.

mod provider;

use std::collections::HashMap;
use std::os::unix::fs::PermissionsExt as _;

use mfaas_ident::Scope;
use serde_json::{Value, json};
use tempfile::TempDir;

use self::provider::{CLIENT_ID, CLIENT_SECRET, Endpoint, Provider, Signing};
use crate::console::{csrf_of, page};
use crate::dependencies::{post, reviewing};
use crate::support::{Answer, Server};

/// A server with its provider.
struct Site {
    server: Server,
    provider: Provider,
    files: TempDir,
}

/// A browser on the way between the two.
struct Attempt {
    cookie: String,
    asked: HashMap<String, String>,
}

impl Site {
    async fn start() -> Self {
        Self::with(&json!({})).await
    }

    /// With further keys in the configuration.
    async fn with(more: &Value) -> Self {
        let provider = Provider::start().await;
        let files = tempfile::tempdir().unwrap();
        let mut config = json!({
            "issuer": provider.issuer, "client_id": CLIENT_ID, "client_secret_file": "secret",
            "roles": [
                { "group": "admins", "role": "admin", "tenant": "a" },
                { "group": "reviewers", "role": "reviewer", "tenant": "a" },
                { "group": "operators", "role": "operator", "tenant": "a" },
                { "group": "deployers", "role": "deployer", "tenant": "b" },
                { "group": "everybody", "role": "viewer", "tenant": "b" },
            ],
        });
        for (name, value) in more.as_object().unwrap() {
            config[name] = value.clone();
        }
        let (secret, file) = (files.path().join("secret"), files.path().join("oidc.json"));
        std::fs::write(&secret, CLIENT_SECRET).unwrap();
        std::fs::set_permissions(&secret, std::fs::Permissions::from_mode(0o600)).unwrap();
        std::fs::write(&file, config.to_string()).unwrap();
        let server = Server::start_with(&[("MFAAS_OIDC_FILE", file.to_str().unwrap())]).await;
        Self { server, provider, files }
    }

    /// Another server of the same site.
    async fn another_server(&self) -> Server {
        let file = self.files.path().join("oidc.json");
        let public_url = self.server.url("").replace("127.0.0.1", "localhost");
        let more = [("MFAAS_OIDC_FILE", file.to_str().unwrap()), ("MFAAS_PUBLIC_URL", &public_url)];
        self.server.beside(&more).await
    }

    /// To the provider: what the browser keeps, and what the provider is asked.
    async fn begin(&self) -> Attempt {
        let answer = self.server.get("/sign-in/provider", "").await;
        assert_eq!(answer.status, 303, "{answer:?}");
        let cookie = answer.header("set-cookie");
        assert!(cookie.contains("; Path=/sign-in; HttpOnly; SameSite=Lax; Max-Age=600"), "{cookie}");
        let url = reqwest::Url::parse(answer.header("location")).unwrap();
        assert!(url.as_str().starts_with(&format!("{}/authorize?", self.provider.issuer)), "{url}");
        let asked = url.query_pairs().into_owned().collect();
        Attempt { cookie: cookie.split(';').next().unwrap().to_owned(), asked }
    }

    /// Back from the provider.
    async fn end(&self, cookie: &str, query: &[(&str, &str)]) -> Answer {
        end_at(&self.server, cookie, query).await
    }

    /// The whole way, with these claims.
    async fn sign_in(&self, signing: Signing, claims: Value) -> Answer {
        let attempt = self.begin().await;
        let code = self.provider.authorise(&attempt.asked, signing, claims);
        self.end(&attempt.cookie, &[("code", &code), ("state", &attempt.asked["state"])]).await
    }

    /// Nobody was signed in: no session, no token.
    fn assert_nobody(&self, what: &str, answer: &Answer) {
        let cookies: Vec<_> =
            answer.headers.get_all("set-cookie").iter().map(|c| c.to_str().unwrap()).collect();
        assert!(!cookies.iter().any(|cookie| cookie.starts_with("mfaas_session")), "{what}: {cookies:?}");
        assert_eq!(
            self.server.db.sql("SELECT count(*) FROM tokens WHERE vouched_by = 'provider'"),
            "0",
            "{what}"
        );
    }

    fn assert_refused(&self, what: &str, answer: &Answer) {
        assert_eq!(
            (answer.status, answer.body.contains("role=\"alert\"")),
            (403, true),
            "{what}: {answer:?}"
        );
        assert!(answer.header("content-security-policy").contains("frame-ancestors 'none'"), "{what}");
        self.assert_nobody(what, answer);
    }
}

/// A browser that comes back from the provider to this server.
async fn end_at(server: &Server, cookie: &str, query: &[(&str, &str)]) -> Answer {
    let request = server.request("GET", "/sign-in/callback", "").query(query);
    server.send(request.header("cookie", cookie)).await
}

/// The session of an answer that signed somebody in.
#[track_caller]
fn session_of(answer: &Answer) -> String {
    assert_eq!((answer.status, answer.header("location")), (200, ""), "{answer:?}");
    assert!(answer.body.contains("<meta http-equiv=\"refresh\" content=\"0;url=/\">"), "{}", answer.body);
    assert!(answer.header("content-security-policy").contains("frame-ancestors 'none'"));
    let cookies: Vec<_> = answer.headers.get_all("set-cookie").iter().map(|c| c.to_str().unwrap()).collect();
    let [forget, session] = cookies[..] else { panic!("{cookies:?}") };
    assert!(forget.starts_with("mfaas_sign_in=;") && forget.contains("Max-Age=0"), "{forget}");
    assert!(
        session.starts_with("mfaas_session=") && session.contains("; HttpOnly; SameSite=Strict;"),
        "{session}"
    );
    session.split(';').next().unwrap().to_owned()
}

#[tokio::test]
async fn a_person_signs_in_for_a_while_and_out() {
    let site = Site::start().await;
    let form = site.server.get("/sign-in", "").await.body;
    assert!(form.contains("href=\"/sign-in/provider\"") && form.contains("name=\"token\""), "{form}");
    let asked = site.begin().await.asked;
    assert_eq!((asked["response_type"].as_str(), asked["code_challenge_method"].as_str()), ("code", "S256"));
    assert!(
        asked["scope"].starts_with("openid ") && asked["state"].len() >= 16 && asked["nonce"].len() >= 16
    );

    let cookie = session_of(&site.sign_in(Signing::Rs256, json!({})).await);
    let row = "SELECT tenant, name, person, vouched_by, scopes, made_by, expires_at <= now() + interval '8 hours' FROM tokens";
    assert_eq!(
        site.server.db.sql(row),
        "a|oidc|alice@example.org|provider|{read,review}|mfaas-server:oidc|t"
    );
    let said = site.server.db.sql("SELECT detail ->> 'person' FROM audit_log WHERE action = 'token.created'");
    assert_eq!(said, "alice@example.org");
    let body = page(&site.server, "/reviews", &cookie).await.body;
    assert!(body.contains("<span>a · alice@example.org</span>"), "{body}");
    let out = site.server.request("POST", "/sign-out", "").header("cookie", &cookie);
    let out = site.server.send(out.form(&[("csrf", csrf_of(&body))])).await;
    assert_eq!(out.header("location"), "/sign-in");
    assert_eq!(
        site.server.db.sql("SELECT revoked_at IS NOT NULL FROM tokens"),
        "t",
        "the token outlives its session"
    );
}

#[tokio::test]
async fn a_session_ends_with_its_token() {
    let site = Site::with(&json!({"session_minutes": 1})).await;
    let cookie = session_of(&site.sign_in(Signing::Es256, json!({})).await);
    assert_eq!(site.server.db.sql("SELECT expires_at <= now() + interval '1 minute' FROM tokens"), "t");
    page(&site.server, "/", &cookie).await;
    site.server.db.sql("UPDATE tokens SET expires_at = now() - interval '1 second'");
    let after = site.server.send(site.server.request("GET", "/", "").header("cookie", &cookie)).await;
    assert_eq!(after.header("location"), "/sign-in");
}

#[tokio::test]
async fn groups_make_roles_and_the_first_row_counts() {
    let site = Site::start().await;
    for (groups, scopes, tenant) in [
        (json!(["everybody"]), "{read}", "b"),
        (json!("everybody"), "{read}", "b"),
        (json!(["everybody", "deployers"]), "{read,deploy}", "b"),
        (json!(["operators", "everybody"]), "{read,operate}", "a"),
        (json!(["operators", "reviewers"]), "{read,review}", "a"),
        (json!(["x", "admins"]), "{read,deploy,review,operate,admin}", "a"),
    ] {
        session_of(&site.sign_in(Signing::Rs256, json!({ "groups": groups })).await);
        let row = site.server.db.sql("SELECT scopes, tenant FROM tokens ORDER BY created_at DESC LIMIT 1");
        assert_eq!(row, format!("{scopes}|{tenant}"), "{groups}");
    }
}

#[tokio::test]
async fn an_id_token_that_does_not_hold_signs_nobody_in() {
    let site = Site::start().await;
    let now = chrono::Utc::now().timestamp();
    for signing in
        [Signing::ForeignKey, Signing::None, Signing::ClientSecret, Signing::PublicKey, Signing::Altered]
    {
        let answer = site.sign_in(signing, json!({})).await;
        site.assert_refused(&format!("{signing:?}"), &answer);
    }
    for claims in [
        json!({"iss": "https://evil.example"}),
        json!({"iss": format!("{}/", site.provider.issuer)}),
        json!({"iss": null}),
        json!({"aud": "another-client"}),
        json!({"aud": [CLIENT_ID, "another-client"]}),
        json!({"aud": null}),
        json!({"nonce": "bad"}),
        json!({"nonce": null}),
        json!({"exp": now - 1}),
        json!({"exp": null}),
        json!({"iat": now + 3_600}),
        json!({"sub": null}),
        json!({"at_hash": "AAAAAAAAAAAAAAAAAAAAAA"}),
        json!({"email_verified": false}),
        json!({"email_verified": null}),
        json!({"email": null}),
        json!({"email": "alice"}),
        json!({"email": "alice b@example.org"}),
        json!({"email": "\u{430}lice@example.org"}),
        json!({"email": "alice\u{202e}@example.org"}),
        json!({"groups": ["staff"]}),
        json!({"groups": []}),
        json!({"groups": null}),
        json!({"groups": ["Admins", "admins ", ""]}),
        json!({"groups": {"admins": true}}),
        json!({"groups": ["admins", 1]}),
    ] {
        let answer = site.sign_in(Signing::Rs256, claims.clone()).await;
        site.assert_refused(&claims.to_string(), &answer);
    }
    // The same way, honestly: it was not the way that failed.
    session_of(&site.sign_in(Signing::Rs256, json!({})).await);
}

#[tokio::test]
async fn an_answer_counts_once_and_in_the_browser_that_asked() {
    let site = Site::start().await;
    let attempt = site.begin().await;
    let state = attempt.asked["state"].clone();
    let code = || site.provider.authorise(&attempt.asked, Signing::Rs256, json!({}));
    let other = site.begin().await;
    for (what, cookie, query) in [
        ("no cookie", "", vec![("code", code()), ("state", state.clone())]),
        ("another browser", other.cookie.as_str(), vec![("code", code()), ("state", state.clone())]),
        ("a made-up cookie", "mfaas_sign_in=0", vec![("code", code()), ("state", state.clone())]),
    ] {
        let query: Vec<_> = query.iter().map(|(name, value)| (*name, value.as_str())).collect();
        site.assert_refused(what, &site.end(cookie, &query).await);
    }
    // Every answer ends the attempt, a wrong one too.
    for (what, query) in [
        ("a wrong state", vec![("code", "x"), ("state", "guess")]),
        ("an error", vec![("error", "access_denied"), ("state", "")]),
        ("another issuer", vec![("code", "x"), ("iss", "https://evil.example"), ("state", "")]),
        ("no code", vec![("state", "")]),
        ("a code of nobody", vec![("code", "code-0"), ("state", "")]),
    ] {
        let attempt = site.begin().await;
        let own = attempt.asked["state"].as_str();
        let query: Vec<_> = query
            .into_iter()
            .map(|(name, value)| (name, if name == "state" && value.is_empty() { own } else { value }))
            .collect();
        site.assert_refused(what, &site.end(&attempt.cookie, &query).await);
        let code = site.provider.authorise(&attempt.asked, Signing::Rs256, json!({}));
        let late = site.end(&attempt.cookie, &[("code", &code), ("state", own)]).await;
        site.assert_refused(&format!("a second answer after {what}"), &late);
    }
    let nothing = site.end(&attempt.cookie, &[("code", &code())]).await;
    assert_eq!(nothing.status, 400, "an answer without a state");
    site.assert_nobody("an answer without a state", &nothing);

    let code = code();
    let query = [("code", code.as_str()), ("state", state.as_str()), ("iss", site.provider.issuer.as_str())];
    session_of(&site.end(&attempt.cookie, &query).await);
    let again = site.end(&attempt.cookie, &query).await;
    assert_eq!(
        (again.status, again.headers.get_all("set-cookie").iter().count()),
        (403, 1),
        "a replayed answer"
    );
    // The code of somebody else's attempt: the provider knows to whom it gave it, by the PKCE challenge.
    let (mine, theirs) = (site.begin().await, site.begin().await);
    let code = site.provider.authorise(&theirs.asked, Signing::Rs256, json!({"nonce": mine.asked["nonce"]}));
    let stolen = site.end(&mine.cookie, &[("code", &code), ("state", &mine.asked["state"])]).await;
    assert_eq!(stolen.status, 403, "a stolen code");
    assert_eq!(site.server.db.sql("SELECT count(*) FROM tokens"), "1");
}

/// More beginnings than any table would hold, by nobody in particular, between somebody's beginning and end.
#[tokio::test]
async fn other_peoples_beginnings_end_no_attempt() {
    let site = Site::start().await;
    let attempt = site.begin().await;
    for _ in 0..1_000 {
        site.begin().await;
    }
    let code = site.provider.authorise(&attempt.asked, Signing::Rs256, json!({}));
    session_of(&site.end(&attempt.cookie, &[("code", &code), ("state", &attempt.asked["state"])]).await);
}

/// Begun at one server, ended at another one, and answered nowhere a second time.
#[tokio::test]
async fn any_server_of_the_site_takes_the_answer_and_only_one_does() {
    let site = Site::start().await;
    let other = site.another_server().await;
    let attempt = site.begin().await;
    let code = || site.provider.authorise(&attempt.asked, Signing::Rs256, json!({}));
    let state = attempt.asked["state"].as_str();
    let cookie = session_of(&end_at(&other, &attempt.cookie, &[("code", &code()), ("state", state)]).await);
    let again = site.end(&attempt.cookie, &[("code", &code()), ("state", state)]).await;
    assert_eq!(again.status, 403, "a second answer, at the server where it began: {again:?}");
    let body = page(&site.server, "/", &cookie).await.body;
    assert!(body.contains("alice@example.org"), "{body}");
    assert_eq!(site.server.db.sql("SELECT count(*) FROM tokens"), "1");
    // What is written down tells neither the cookie nor what follows from it.
    let kept = site.server.db.sql("SELECT attempt_sha256 FROM sign_in_answers");
    let value = attempt.cookie.split_once('=').unwrap().1;
    assert!(kept != state && kept != attempt.asked["nonce"] && !value.contains(&kept), "{kept}");
}

/// Only what this site gave out begins anything: not another site's cookie, not one with another beginning.
#[tokio::test]
async fn a_cookie_of_another_site_or_time_is_no_attempt() {
    let (site, other) = (Site::start().await, Site::start().await);
    let attempt = other.begin().await;
    let code = site.provider.authorise(&attempt.asked, Signing::Rs256, json!({}));
    let query = [("code", code.as_str()), ("state", &attempt.asked["state"])];
    site.assert_refused("another site's cookie", &site.end(&attempt.cookie, &query).await);
    let attempt = site.begin().await;
    let code = site.provider.authorise(&attempt.asked, Signing::Rs256, json!({}));
    let query = [("code", code.as_str()), ("state", &attempt.asked["state"])];
    let (name, value) = attempt.cookie.split_once('=').unwrap();
    let later = format!("{name}=00000000000fffff{}", &value[16..]);
    site.assert_refused("a cookie that says when it began", &site.end(&later, &query).await);
    session_of(&site.end(&attempt.cookie, &query).await);
}

#[tokio::test]
async fn a_provider_that_misbehaves_signs_nobody_in() {
    for about in [
        json!({"issuer": "https://evil.example"}),
        json!({"issuer": null}),
        json!({"jwks_uri": "https://evil.example/jwks"}),
        json!({"authorization_endpoint": "https://evil.example/authorize"}),
    ] {
        let site = Site::start().await;
        site.provider.says(about.clone());
        let answer = site.server.get("/sign-in/provider", "").await;
        assert!([403, 503].contains(&answer.status), "{about}: {answer:?}");
        assert!(answer.header("location").is_empty() && answer.body.contains("role=\"alert\""), "{about}");
        site.assert_nobody(&about.to_string(), &answer);
    }
    let site = Site::start().await;
    for (endpoint, status) in [
        (Endpoint::Redirects, 503),
        (Endpoint::Floods, 503),
        (Endpoint::ForgetsIdToken, 403),
        (Endpoint::Fails, 403),
    ] {
        site.provider.endpoint(endpoint);
        let answer = site.sign_in(Signing::Rs256, json!({})).await;
        assert_eq!(answer.status, status, "{endpoint:?}: {answer:?}");
        site.assert_nobody(&format!("{endpoint:?}"), &answer);
    }
    site.provider.endpoint(Endpoint::Answers);
    session_of(&site.sign_in(Signing::Rs256, json!({})).await);
}

#[tokio::test]
async fn a_strangers_page_does_not_begin_it() {
    let site = Site::start().await;
    let begin = site.server.request("GET", "/sign-in/provider", "").header("sec-fetch-site", "cross-site");
    let answer = site.server.send(begin).await;
    site.assert_refused("a stranger's page", &answer);
}

/// Where only signed-in people decide, a token's yes is refused over both interfaces; its no is not.
#[tokio::test]
async fn people_who_signed_in_decide_alone_where_it_says_so() {
    let site = Site::with(&json!({"only_signed_in_people_decide": true})).await;
    let server = &site.server;
    let asks = server.token("a", &[Scope::Deploy]).await;
    let body = json!({"name": "left-pad", "requirement": "^1"});
    let request = post(server, "POST", "/v1/requests", &asks, &body).await.json();
    reviewing(&server.db, request["id"].as_i64().unwrap());
    let token = server.token("b", &[Scope::Review]).await;
    let yes = json!({"approve": true, "note": "read it"});
    assert_eq!(post(server, "POST", "/v1/reviews/1/votes", &token, &yes).await.code(), "MF0913");
    let by_form = crate::console::sign_in(server, &token).await;
    let vote = async |cookie: &str| {
        let csrf = csrf_of(&page(server, "/", cookie).await.body);
        let fields = [("csrf", csrf.as_str()), ("vote", "yes"), ("note", "read it")];
        server
            .send(server.request("POST", "/reviews/1/votes", "").header("cookie", cookie).form(&fields))
            .await
    };
    let refused = vote(&by_form).await;
    assert_eq!((refused.status, refused.body.contains("MF0913")), (403, true), "{refused:?}");
    let signed_in = session_of(&site.sign_in(Signing::Rs256, json!({})).await);
    assert_eq!(vote(&signed_in).await.status, 303);
    assert_eq!(server.db.sql("SELECT person, approve FROM votes"), "alice@example.org|t");
    assert_eq!(server.db.sql("SELECT state FROM reviews"), "approved");
}
