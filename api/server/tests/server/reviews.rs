//! The console of reviewers: what the pages show, what their forms do, and what neither does.

use mfaas_ident::{Digest, Scope};
use serde_json::{Value, json};

use crate::console::{csrf_of, page, sign_in};
use crate::support::hostile::{assert_only_our_markup, colourless, shown, strings};
use crate::support::{
    Answer, AskedFor, Server, admitted_version, crate_report, open_review, source_file, span,
};

/// A signed-in person.
pub(crate) struct Person {
    cookie: String,
    csrf: String,
}

impl Person {
    pub(crate) async fn new(server: &Server, tenant: &str, scopes: &[Scope]) -> Self {
        let cookie = sign_in(server, &server.token(tenant, scopes).await).await;
        let csrf = csrf_of(&page(server, "/", &cookie).await.body);
        Self { cookie, csrf }
    }

    pub(crate) async fn reviewer(server: &Server, tenant: &str) -> Self {
        Self::new(server, tenant, &[Scope::Review]).await
    }

    pub(crate) async fn get(&self, server: &Server, path: &str) -> Answer {
        server.send(server.request("GET", path, "").header("cookie", &self.cookie)).await
    }

    /// A page that is there and holds nothing but our own markup.
    pub(crate) async fn read(&self, server: &Server, path: &str) -> String {
        let body = page(server, path, &self.cookie).await.body;
        assert_only_our_markup(path, &body);
        body
    }

    pub(crate) async fn send(&self, server: &Server, path: &str, fields: &[(&str, &str)]) -> Answer {
        let mut fields = fields.to_vec();
        fields.push(("csrf", &self.csrf));
        server.send(server.request("POST", path, "").header("cookie", &self.cookie).form(&fields)).await
    }
}

/// A server with one open review of left-pad 1.2.3 that `a/test` asked for.
pub(crate) struct Site {
    pub(crate) server: Server,
    pub(crate) review: i64,
}

const LIB: &str = "fn f() {}\nunsafe { x }\n\tlet s = \"\u{202e}\";\n";
const HOTSPOT: &str = "src/lib.rs:2:1:unsafe";

pub(crate) fn judgement(reasons: &Value, hints: &Value) -> Value {
    let suggestion = json!({ "review": { "people": 2 } });
    json!({ "suggestion": suggestion, "reasons": reasons, "hints": hints, "rules_revision": "test" })
}

fn audit(words: &[String]) -> Value {
    let audit = json!({
        "source": words[0], "package": "left-pad", "kind": { "full": { "version": "1.2.3" } },
        "criteria": words, "who": words, "notes": words.join(" "),
    });
    json!({ "audit": audit, "this_version": true, "trust": word(), "why": words[1] })
}

fn word() -> Value {
    serde_json::to_value(mfaas_rules::profiles::crate_rules::Trust::Careful).unwrap()
}

impl Site {
    async fn start() -> Self {
        let hotspot = json!({ "kind": "unsafe", "what": "unsafe block", "span": span("src/lib.rs", 2, (1, 7), "unsafe { x }") });
        let aside = json!({ "kind": "unsafe", "what": "in a test", "span": span("tests/t.rs", 1, (1, 7), "unsafe {}") });
        let files =
            [source_file("tests/t.rs", "aside", &[aside]), source_file("src/lib.rs", "library", &[hotspot])];
        let compiler = json!({ "unsafe": { "errors": 1, "spots": [
            { "span": span("src/lib.rs", 2, (1, 13), "unsafe { x }"), "message": "usage of an `unsafe` block" }] } });
        let report = crate_report(&files, &compiler, &["MIT".to_owned()]);
        let place = json!({ "span": span("src/lib.rs", 2, (1, 7), "unsafe { x }"), "what": "unsafe block" });
        let reasons = json!([
            { "risk": "unsafe-tokens", "text": "1 place of power", "spots": [place] },
            { "risk": "licence-unknown", "text": "no expression", "spots": [] },
        ]);
        let hints = json!([audit(&["mozilla".to_owned(), "asks about honest callers".to_owned()])]);
        let texts = [("Cargo.toml", "[package]"), ("src/lib.rs", LIB), ("tests/t.rs", "unsafe {}")];
        Self::with(&report, &judgement(&reasons, &hints), &texts, "^1").await
    }

    pub(crate) async fn with(
        report: &Value,
        judgement: &Value,
        texts: &[(&str, &str)],
        requirement: &str,
    ) -> Self {
        let server = Server::start().await;
        let token = server.token("a", &[Scope::Deploy]).await;
        let created = server.upload("hello", &token, vec![1]).await.json();
        let deployment = created["deployment"]["id"].as_str().unwrap();
        let blobs =
            mfaas_blobs::Blobs::open(&format!("file://{}", server.dir().join("blobs").display())).unwrap();
        let mut files = Vec::new();
        for (path, text) in texts {
            files.push(((*path).to_owned(), blobs.put(text.as_bytes().to_vec().into()).await.unwrap()));
        }
        let asked = AskedFor { people: 2, report, judgement, files: &files, requirement, deployment };
        let review = open_review(&server.db, &asked);
        Self { server, review }
    }

    pub(crate) fn path(&self, rest: &str) -> String {
        format!("/reviews/{}{rest}", self.review)
    }

    fn votes(&self) -> String {
        self.server.db.sql("SELECT count(*) FROM votes")
    }

    fn notes(&self) -> String {
        self.server.db.sql("SELECT spot || ' ' || state || ' ' || note FROM spot_notes")
    }
}

#[track_caller]
pub(crate) fn holds(body: &str, texts: &[&str]) {
    for text in texts {
        assert!(body.contains(text), "{text} is not in {body}");
    }
}

#[tokio::test]
async fn the_pages_of_a_review_show_what_there_is() {
    let site = Site::start().await;
    let reviewer = Person::reviewer(&site.server, "b").await;
    let queue = reviewer.read(&site.server, "/reviews").await;
    holds(
        &queue,
        &[
            &site.path(""),
            "left-pad",
            "2 people decide",
            "unsafe code (token scan)",
            "0 of 2",
            "a/test",
            "0 min",
        ],
    );
    let body = reviewer.read(&site.server, &site.path("")).await;
    holds(
        &body,
        &[
            "2 people decide",
            "Open</strong>: 0 of 2 approvals",
            "unsafe code (token scan) (1)",
            "href=\"#hotspot-2\"",
            "licence unknown (1)",
            "0 of 3 hotspots seen",
            "1 errors",
            "2 places of power, and the rest is unknown",
            "3 unsafe items, and the rest is unknown",
            "<th scope=\"row\">files</th><td class=\"number\">30</td>",
            "29 further places",
            "href=\"/crates/memchr\"",
            "licence unknown: no expression",
            "asks about honest callers",
            "careful",
            "version 1.2.3 (this one)",
            "a/test",
            "left-pad ^1",
            "waits",
            "No votes yet",
            "value=\"src/lib.rs:2:1:unsafe\"",
            "value=\"src/lib.rs:2:1:compiler\"",
            "value=\"src/lib.rs:0:0:geiger\"",
            "binary file, not shown, not kept",
            "value=\"machine-code\"",
            "name=\"tenant\"",
            "value=\"yes\">Approve",
            "value=\"no\">Deny",
        ],
    );
    assert!(!body.contains("tests/t.rs:1:1:unsafe"), "what users do not compile is no hotspot");
    let order: Vec<_> =
        ["files/src/lib.rs\"", "files/Cargo.toml\"", "files/tests/t.rs\""].map(|path| body.find(path)).into();
    assert!(order.iter().all(Option::is_some) && order.is_sorted(), "{order:?}");
    let anchors: Vec<_> = (1..=3).map(|number| body.find(&format!("id=\"hotspot-{number}\""))).collect();
    assert!(anchors.iter().all(Option::is_some) && anchors.is_sorted(), "{anchors:?}");
}

#[tokio::test]
async fn the_page_of_a_file_marks_its_hotspots_and_reviewers_alone_are_led_there() {
    let site = Site::start().await;
    let reviewer = Person::reviewer(&site.server, "b").await;
    let file = reviewer.read(&site.server, &site.path("/files/src/lib.rs")).await;
    holds(&file, &["<mark><span class=\"t-unsafe\">unsafe</span> <span class=\"t-op\">{</span> x"]);
    holds(
        &colourless(&file),
        &[
            "<tr id=\"L2\" class=\"hit\">",
            "<code><mark>unsafe { x }</mark></code>",
            "\tlet s = &#34;\\u{202e}&#34;;",
            "3 lines",
            "0 of 3 hotspots seen",
            "About the whole file",
            "value=\"file\"",
        ],
    );
    assert!(page(&site.server, "/", &reviewer.cookie).await.body.contains("href=\"/reviews\""));
    let reader = Person::new(&site.server, "b", &[Scope::Read]).await;
    let plain = page(&site.server, "/", &reader.cookie).await.body;
    assert!(!plain.contains("href=\"/reviews\"") && !plain.contains("href=\"/audit\""), "{plain}");
}

#[tokio::test]
async fn two_people_walk_the_hotspots_and_approve() {
    let site = Site::start().await;
    let (one, two) = (Person::reviewer(&site.server, "b").await, Person::reviewer(&site.server, "c").await);
    let (hotspots, votes) = (site.path("/hotspots"), site.path("/votes"));
    let mark = |state: &'static str, note: &'static str, back: &'static str| {
        [("hotspot", HOTSPOT), ("state", state), ("note", note), ("back", back)]
    };
    let marked = one.send(&site.server, &hotspots, &mark("unsound", "x is freed\r\ntwice", "review")).await;
    assert_eq!((marked.status, marked.header("location")), (303, site.path("#hotspot-2").as_str()));
    let body = one.read(&site.server, &site.path("")).await;
    holds(
        &body,
        &[
            "1 of 3 hotspots seen",
            "x is freed\ntwice",
            "b/test",
            "A hotspot is marked unsound",
            "value=\"no\">Deny",
        ],
    );
    assert!(!body.contains(">Approve<"), "an unsound hotspot can be approved");
    let yes = [
        ("vote", "yes"),
        ("note", "fine"),
        ("tenant", "a"),
        ("grant", "threads"),
        ("grant", "unwind"),
        ("days", "10"),
    ];
    assert_eq!(one.send(&site.server, &votes, &yes).await.status, 409);
    let marked = one.send(&site.server, &hotspots, &mark("justified", "it is not", "file")).await;
    assert_eq!(marked.header("location"), site.path("/files/src/lib.rs?line=2#hotspot-2"));
    holds(
        &one.read(&site.server, &site.path("/files/src/lib.rs")).await,
        &["1 of 3 hotspots seen", "it is not", "justified"],
    );
    let first = one.send(&site.server, &votes, &yes).await;
    assert_eq!((first.status, first.header("location")), (303, site.path("#votes").as_str()), "{first:?}");
    let body = one.read(&site.server, &site.path("")).await;
    holds(
        &body,
        &[
            "Open</strong>: 1 of 2 approvals",
            "You are b/test and have voted",
            "for a, granted threads, unwind, 20",
        ],
    );
    assert!(!body.contains("name=\"vote\""), "a reviewer who has voted gets a form");
    assert_eq!(one.send(&site.server, &votes, &yes).await.status, 409, "one vote each");
    let body = two.read(&site.server, &site.path("")).await;
    holds(&body, &["A yes is for the terms that stand", "name=\"terms\" value=\"standing\""]);
    assert!(!body.contains("name=\"tenant\""), "terms that stand can be changed");
    let other = [("vote", "yes"), ("note", "fine"), ("tenant", "b")];
    assert_eq!(two.send(&site.server, &votes, &other).await.status, 409, "other terms");
    let second = [("vote", "yes"), ("note", "I agree"), ("terms", "standing")];
    assert_eq!(two.send(&site.server, &votes, &second).await.header("location"), site.path(""));
    let row =
        "SELECT status, scope, grants, decided_by, (expires_at - now()) > '9 days 23 hours' FROM crates";
    assert_eq!(site.server.db.sql(row), "allowed|a|{threads,unwind}|b/test, c/test|t");
    let body = two.read(&site.server, &site.path("")).await;
    holds(&body, &["This review is approved and takes no more votes", "I agree"]);
    assert!(
        !body.contains("name=\"vote\"") && !body.contains("name=\"hotspot\""),
        "a closed review has forms"
    );
    assert_eq!(two.send(&site.server, &hotspots, &mark("seen", "", "review")).await.status, 409);
    let queue = two.read(&site.server, "/reviews").await;
    holds(&queue, &["Nothing waits for a decision", "Reviews that are approved", "I agree"]);
    holds(
        &two.read(&site.server, "/crates/left-pad").await,
        &["b/test, c/test", "I agree", "fine", "Revoke 1.2.3"],
    );
}

#[tokio::test]
async fn one_no_ends_it_and_the_deployment_reads_the_words() {
    let site = Site::start().await;
    let reviewer = Person::reviewer(&site.server, "b").await;
    let no = [("vote", "no"), ("note", "reads <b>files</b>")];
    assert_eq!(reviewer.send(&site.server, &site.path("/votes"), &no).await.status, 303);
    assert_eq!(site.server.db.sql("SELECT state FROM reviews"), "denied");
    assert_eq!(site.server.db.sql("SELECT state FROM deployments"), "refused");
    holds(&reviewer.read(&site.server, "/reviews").await, &["reads &#60;b&#62;files&#60;/b&#62;"]);
}

#[tokio::test]
async fn the_requester_cannot_vote_and_reads_why() {
    let site = Site::start().await;
    let asker = Person::reviewer(&site.server, "a").await;
    let body = asker.read(&site.server, &site.path("")).await;
    holds(&body, &["You are a/test, and the requester of a crate cannot vote on it."]);
    assert!(!body.contains("name=\"vote\""), "the requester gets a form");
    for vote in ["yes", "no"] {
        let answer =
            asker.send(&site.server, &site.path("/votes"), &[("vote", vote), ("note", "mine")]).await;
        assert_eq!(answer.status, 409, "{vote}: {answer:?}");
    }
    assert_eq!(
        (site.votes().as_str(), site.server.db.sql("SELECT state FROM reviews")),
        ("0", "open".to_owned())
    );
}

#[tokio::test]
async fn who_does_not_review_gets_nowhere() {
    let site = Site::start().await;
    site.server.db.sql(
        "INSERT INTO crates (name, version, checksum, features, direct, status, decided_by, reason)
        VALUES ('itoa', '1.0.0', repeat('0', 64), '{}', true, 'allowed', 'seed', 'shipped')",
    );
    let deployer = Person::new(&site.server, "b", &[Scope::Deploy]).await;
    for path in [
        "/reviews",
        &site.path(""),
        &site.path("/files/src/lib.rs"),
        "/crates/itoa/1.0.0/revocation",
        "/audit",
    ] {
        let answer = deployer.get(&site.server, path).await;
        assert_eq!((answer.status, answer.body.contains("left-pad")), (403, false), "{path}");
    }
    let reviewer = Person::reviewer(&site.server, "b").await;
    assert_eq!(reviewer.get(&site.server, "/audit").await.status, 403);
    let history = deployer.read(&site.server, "/crates/itoa").await;
    assert!(!history.contains("revocation") && !history.contains("<h2 id=\"reviews\">"), "{history}");
    holds(
        &reviewer.read(&site.server, "/crates/itoa").await,
        &["/crates/itoa/1.0.0/revocation", "Nobody has reviewed it"],
    );
    assert_eq!(
        deployer.get(&site.server, "/crates/left-pad").await.status,
        404,
        "an open review is not for everybody"
    );
    let vote = [("vote", "no"), ("note", "mine")];
    assert_eq!(deployer.send(&site.server, &site.path("/votes"), &vote).await.status, 403);
    assert_eq!(site.votes(), "0");
}

#[tokio::test]
async fn forms_of_strangers_change_nothing() {
    let site = Site::start().await;
    site.server.db.sql(
        "INSERT INTO crates (name, version, checksum, features, direct, status, decided_by, reason)
        VALUES ('itoa', '1.0.0', repeat('0', 64), '{}', true, 'allowed', 'seed', 'shipped')",
    );
    let (one, two) = (Person::reviewer(&site.server, "b").await, Person::reviewer(&site.server, "c").await);
    let page = one.read(&site.server, "/crates/itoa/1.0.0/revocation").await;
    let affected = page.split("name=\"affected\" value=\"").nth(1).unwrap().split('"').next().unwrap();
    let (votes, hotspots) = (site.path("/votes"), site.path("/hotspots"));
    let forms: [(&str, Vec<(&str, &str)>); 3] = [
        (&votes, vec![("vote", "no"), ("note", "stranger")]),
        (&hotspots, vec![("hotspot", HOTSPOT), ("state", "seen"), ("note", ""), ("back", "review")]),
        (
            "/crates/itoa/1.0.0/revocation",
            vec![("severity", "unload"), ("reason", "stranger"), ("affected", affected)],
        ),
    ];
    let mut tried = 0;
    for (path, fields) in &forms {
        let request = || site.server.request("POST", path, "").header("cookie", &one.cookie);
        let with = |csrf: &str| {
            [fields.clone(), vec![("csrf", csrf)]]
                .concat()
                .into_iter()
                .map(|(k, v)| (k.to_owned(), v.to_owned()))
                .collect::<Vec<_>>()
        };
        let twice = [with(&one.csrf), with(&two.csrf)].concat();
        let good = with(&one.csrf);
        for request in [
            request().form(fields),
            request().form(&with("")),
            request().form(&with(&two.csrf)),
            request().form(&twice),
            request().form(&good).header("origin", "http://evil.example"),
            request().form(&good).header("origin", "null"),
            request().form(&good).header("sec-fetch-site", "cross-site"),
            request().form(&good).header("sec-fetch-site", "same-site"),
        ] {
            assert_eq!(site.server.send(request).await.status, 403, "{path}");
            tried += 1;
        }
        // As an address, as JSON, and with a token instead of a session.
        assert_eq!(
            site.server.send(request().json(&json!({ "csrf": one.csrf }))).await.status,
            415,
            "{path}"
        );
        let token = site.server.token("b", &[Scope::Admin]).await;
        let bearer = site.server.request("POST", path, &token).form(&good);
        assert_eq!(site.server.send(bearer).await.header("location"), "/sign-in", "{path}");
    }
    assert_eq!((tried, site.votes().as_str(), site.notes().as_str()), (24, "0", ""));
    assert_eq!(site.server.db.sql("SELECT status FROM crates"), "allowed");
    assert_eq!(
        one.send(&site.server, &hotspots, &forms[1].1).await.status,
        303,
        "the same form with its own secret"
    );
}

#[tokio::test]
async fn what_is_not_on_the_form_is_refused() {
    let site = Site::start().await;
    let reviewer = Person::reviewer(&site.server, "b").await;
    let long = "x".repeat(2_001);
    let hotspots: [(&[(&str, &str)], u16); 8] = [
        (&[("hotspot", "src/lib.rs:9:9:unsafe"), ("state", "seen"), ("note", ""), ("back", "review")], 404),
        (&[("hotspot", "tests/t.rs:1:1:unsafe"), ("state", "seen"), ("note", ""), ("back", "review")], 404),
        (&[("hotspot", HOTSPOT), ("state", "approved"), ("note", ""), ("back", "review")], 400),
        (&[("hotspot", HOTSPOT), ("state", "justified"), ("note", "  "), ("back", "review")], 400),
        (&[("hotspot", HOTSPOT), ("state", "unsound"), ("note", ""), ("back", "review")], 400),
        (&[("hotspot", HOTSPOT), ("state", "seen"), ("note", &long), ("back", "review")], 400),
        (
            &[
                ("hotspot", HOTSPOT),
                ("state", "seen"),
                ("state", "unsound"),
                ("note", "x"),
                ("back", "review"),
            ],
            400,
        ),
        (&[("hotspot", HOTSPOT), ("state", "seen")], 400),
    ];
    for (fields, status) in hotspots {
        assert_eq!(
            reviewer.send(&site.server, &site.path("/hotspots"), fields).await.status,
            status,
            "{fields:?}"
        );
    }
    let long = "x".repeat(4_001);
    let votes: [&[(&str, &str)]; 10] = [
        &[("vote", "yes"), ("note", "a\0b")],
        &[("vote", "yes"), ("note", " ")],
        &[("vote", "yes"), ("note", &long)],
        &[("vote", "maybe"), ("note", "x")],
        &[("vote", "yes"), ("vote", "no"), ("note", "x")],
        &[("vote", "yes"), ("note", "x"), ("days", "0")],
        &[("vote", "yes"), ("note", "x"), ("days", "3654")],
        &[("vote", "yes"), ("note", "x"), ("days", "-1")],
        &[("vote", "yes"), ("note", "x"), ("grant", "everything")],
        &[("vote", "yes"), ("note", "x"), ("tenant", "<b>")],
    ];
    for fields in votes {
        assert_eq!(reviewer.send(&site.server, &site.path("/votes"), fields).await.status, 400, "{fields:?}");
    }
    assert_eq!((site.votes().as_str(), site.notes().as_str()), ("0", ""));
    // A way back to somewhere else is not taken from the form.
    let away = [("hotspot", HOTSPOT), ("state", "seen"), ("note", ""), ("back", "//evil.example/")];
    let answer = reviewer.send(&site.server, &site.path("/hotspots"), &away).await;
    assert_eq!(answer.header("location"), site.path("#hotspot-2"));
}

#[tokio::test]
async fn hostile_strings_stay_text_on_every_page() {
    let strings = strings();
    assert!(strings.len() >= 50, "{}", strings.len());
    let hotspots = |line: u32| -> Vec<Value> {
        let hotspot = |(at, text): (u32, &String)| json!({ "kind": "unsafe", "what": text, "inside": text, "span": span("src/lib.rs", line + at, (0, 0), text) });
        (0..).zip(&strings).map(hotspot).collect()
    };
    let messages = (0_u32..)
        .zip(&strings)
        .map(|(at, text)| json!({ "span": span("src/lib.rs", 1 + at, (0, 0), text), "message": text }));
    let compiler = json!({ "unsafe": { "errors": 1, "spots": messages.collect::<Vec<_>>() } });
    let report = crate_report(&[source_file("src/lib.rs", "library", &hotspots(1))], &compiler, &strings);
    let reason = |text: &String| {
        let place = json!({ "span": span("src/other.rs", 1, (0, 0), text), "what": text });
        json!({ "risk": "licence-unknown", "text": text, "spots": [place] })
    };
    let reasons: Vec<Value> = strings.iter().map(reason).collect();
    let judgement = judgement(&json!(reasons), &json!([audit(&strings)]));
    let text = strings.join("\n");
    let site = Site::with(&report, &judgement, &[("src/lib.rs", &text)], &strings[0]).await;
    let (one, admin) =
        (Person::reviewer(&site.server, "b").await, Person::new(&site.server, "c", &[Scope::Admin]).await);
    // Every string as a note about a hotspot of its own; those that are too long, or not what they look like, are
    // refused.
    let is_visible = |text: &&String| mfaas_ident::sanitise(text, usize::MAX) == **text;
    let mut noted = 0;
    for (at, text) in (1_u32..).zip(&strings) {
        let key = format!("src/lib.rs:{at}:0:unsafe");
        let fields = [("hotspot", key.as_str()), ("state", "seen"), ("note", text), ("back", "review")];
        let status = one.send(&site.server, &site.path("/hotspots"), &fields).await.status;
        assert!(status == 303 || status == 400, "{text:?}: {status}");
        assert!(is_visible(&text) || status == 400, "{text:?} was taken");
        noted += usize::from(status == 303);
    }
    assert!(noted >= 30, "{noted}");
    let refused = [("vote", "no"), ("note", "no \u{202e}sey")];
    assert_eq!(one.send(&site.server, &site.path("/votes"), &refused).await.status, 400);
    let visible: Vec<&str> = strings.iter().filter(is_visible).map(String::as_str).collect();
    let words: String = visible.join(" ").chars().take(4_000).collect();
    let vote = [("vote", "no"), ("note", words.as_str())];
    let before = one.read(&site.server, &site.path("")).await;
    assert_eq!(one.send(&site.server, &site.path("/votes"), &vote).await.status, 303);
    let review = one.read(&site.server, &site.path("")).await;
    let file = colourless(&one.read(&site.server, &site.path("/files/src/lib.rs")).await);
    for text in &strings {
        holds(&before, &[&shown(text)]);
        holds(&review, &[&shown(text)]);
        holds(&file, &[&format!("<code>{}</code>", shown(text))]);
    }
    // The allowlist cuts the words of a decision.
    for (path, least) in [("/reviews", 25), ("/crates/left-pad", 25), ("/crates", 10)] {
        let body = one.read(&site.server, path).await;
        let seen = strings.iter().filter(|text| body.contains(&shown(text))).count();
        assert!(seen >= least, "{path} shows {seen}");
    }
    for path in ["/audit", "/"] {
        admin.read(&site.server, path).await;
    }
}

#[tokio::test]
async fn a_file_is_found_by_exactly_its_path_and_shown_in_pieces() {
    let lines: String = (1..=4_001).map(|number| format!("line {number};\n")).collect();
    let long = format!("{}\nend", "x".repeat(9_000));
    let report = crate_report(&[], &json!("clean"), &[]);
    let texts = [("src/lib.rs", lines.as_str()), ("long.txt", &long), ("a b?#%.rs", "odd"), ("empty", "")];
    let site = Site::with(&report, &judgement(&json!([]), &json!([])), &texts, "^1").await;
    let reviewer = Person::reviewer(&site.server, "b").await;
    let first = colourless(&reviewer.read(&site.server, &site.path("/files/src/lib.rs")).await);
    assert!(
        first.contains("line 2000;") && !first.contains("line 2001;") && !first.contains("Earlier lines")
    );
    let last = colourless(&reviewer.read(&site.server, &site.path("/files/src/lib.rs?line=4001")).await);
    assert!(last.contains("line 4001;") && !last.contains("line 4000;") && last.contains("Earlier lines"));
    let cut = reviewer.read(&site.server, &site.path("/files/long.txt")).await;
    holds(&cut, &["5000 more bytes of this line are not shown", ">end</code>"]);
    let list = reviewer.read(&site.server, &site.path("")).await;
    let odd = site.path("/files/a%20b%3F%23%25.rs");
    assert!(list.contains(&odd), "{list}");
    holds(&reviewer.read(&site.server, &odd).await, &["odd"]);
    holds(&reviewer.read(&site.server, &site.path("/files/empty")).await, &["The file is empty."]);
    for path in [
        "src/Lib.rs",
        "src//lib.rs",
        "src%2flib.rs/",
        "%2e%2e/%2e%2e/etc/passwd",
        "src/./lib.rs%00",
        "x.bin",
        "1?line=-1",
    ] {
        let status = reviewer.get(&site.server, &site.path(&format!("/files/{path}"))).await.status;
        assert!([400, 404].contains(&status), "{path}: {status}");
    }
    let blob = Digest::of(lines.as_bytes()).to_string();
    std::fs::write(site.server.dir().join("blobs/sha256").join(&blob[..2]).join(&blob), "another text")
        .unwrap();
    let corrupt = reviewer.get(&site.server, &site.path("/files/src/lib.rs")).await;
    assert!(corrupt.status >= 500 && !corrupt.body.contains("another text"), "{corrupt:?}");
}

#[tokio::test]
async fn taking_back_shows_what_it_concerns_before_it_does_anything() {
    let site = Site::start().await;
    let server = &site.server;
    server.db.sql(
        "INSERT INTO crates (name, version, checksum, features, direct, status, decided_by, reason)
        VALUES ('itoa', '1.0.0+b', repeat('0', 64), '{}', true, 'allowed', 'seed', 'shipped')",
    );
    let token = server.token("d", &[Scope::Deploy]).await;
    let created = server.upload("uses-itoa", &token, vec![9]).await.json();
    let reviewer = Person::reviewer(server, "b").await;
    let path = "/crates/itoa/1.0.0+b/revocation";
    let before = reviewer.read(server, path).await;
    holds(&before, &["0 versions of functions", "No version of a function was built with it."]);
    admitted_version(
        &server.db,
        "d",
        "uses-itoa",
        created["deployment"]["id"].as_str().unwrap(),
        &"a".repeat(64),
    );
    server
        .db
        .sql("INSERT INTO version_crates VALUES ('d', 'uses-itoa', 1, 'itoa', '1.0.0+b', repeat('0', 64))");
    let digest = |body: &str| {
        body.split("name=\"affected\" value=\"").nth(1).unwrap().split('"').next().unwrap().to_owned()
    };
    let stale = digest(&before);
    let form = |affected: &str| {
        [
            ("severity", "unload".to_owned()),
            ("reason", "unsound".to_owned()),
            ("affected", affected.to_owned()),
        ]
    };
    let send = async |affected: &str| {
        let fields = form(affected);
        let fields: Vec<_> = fields.iter().map(|(name, value)| (*name, value.as_str())).collect();
        reviewer.send(server, path, &fields).await
    };
    let again = send(&stale).await;
    assert_eq!(again.status, 409);
    assert_only_our_markup(path, &again.body);
    holds(&again.body, &["has changed since", "uses-itoa", "1 versions of functions", "live"]);
    assert_eq!(server.db.sql("SELECT status FROM crates"), "allowed");
    assert_eq!(send(&digest(&again.body)).await.header("location"), "/crates/itoa");
    assert_eq!(server.db.sql("SELECT status FROM crates"), "revoked");
    assert_eq!(server.db.sql("SELECT count(*) FROM revocations"), "1");
    holds(&reviewer.read(server, "/crates/itoa").await, &["revoked", "unsound", "b/test"]);
    assert_eq!(reviewer.get(server, path).await.status, 404, "a revoked version is offered again");
}

#[tokio::test]
async fn the_audit_log_has_pages_and_tells_when_its_chain_is_broken() {
    let site = Site::start().await;
    let admin = Person::new(&site.server, "b", &[Scope::Admin]).await;
    for _ in 0..105 {
        site.server.token("b", &[Scope::Read]).await;
    }
    let first = admin.read(&site.server, "/audit").await;
    holds(&first, &["The chain holds", "token.created"]);
    let older = first.split("href=\"/audit?before=").nth(1).unwrap().split('"').next().unwrap();
    let second = admin.read(&site.server, &format!("/audit?before={older}")).await;
    holds(
        &second,
        &["deployment.received", "The chain is checked on the <a href=\"/audit\">first page</a>", ">1</th>"],
    );
    assert!(!second.contains("Older rows"));
    site.server.token("b", &[Scope::Read]).await;
    let last = site.server.db.sql(
        "ALTER TABLE audit_log DISABLE TRIGGER ALL;
         UPDATE audit_log SET actor = 'nobody' WHERE seq = (SELECT max(seq) FROM audit_log) RETURNING seq",
    );
    let changed = format!("audit row {} does not match its hash", last.trim());
    for _ in 0..2 {
        holds(&admin.read(&site.server, "/audit").await, &["The chain is broken", &changed]);
    }
}

/// A report that this release cannot read hides no review: it can be denied.
#[tokio::test]
async fn a_report_of_another_shape_is_said_to_be_one() {
    let report = json!({ "revision": 99 });
    let site = Site::with(&report, &judgement(&json!([]), &json!([])), &[("src/lib.rs", LIB)], "^1").await;
    let reviewer = Person::reviewer(&site.server, "b").await;
    let body = reviewer.read(&site.server, &site.path("")).await;
    holds(&body, &["cannot be read by this one", "0 of 0 hotspots seen", "Deny"]);
    assert!(!body.contains(">Approve<"), "what nobody can look at can be approved");
    let yes = [("vote", "yes"), ("note", "unread")];
    assert_eq!(reviewer.send(&site.server, &site.path("/votes"), &yes).await.status, 409);
    assert_eq!(site.votes(), "0");
}
