//! What a review is compared with, on its pages and in the API; and that a large crate does not make a large page.

use mfaas_ident::Scope;
use serde_json::{Value, json};

use crate::reviews::{Person, Site, holds, judgement};
use crate::support::hostile::{assert_only_our_markup, colourless, shown, strings};
use crate::support::large::Large;
use crate::support::{Server, compared, crate_report, delta, file_delta, source_file, span};

/// The pages of a crate of 5 MB, in bytes.
const PAGE_BYTES_MAX: usize = 2 << 20;

/// A comparison with texts that are in the store.
async fn compare(site: &Site, old: &[(&str, &str)], delta: &Value, decided_by: &str) {
    let (blobs, mut stored) = (site.server.blobs(), Vec::new());
    for (path, text) in old {
        stored.push(((*path).to_owned(), blobs.put(text.as_bytes().to_vec().into()).await.unwrap()));
    }
    compared(&site.server, site.review, &stored, delta, decided_by);
}

const OLD: &str = "fn f() {}\nfn gone() {}\n";
const NEW: &str = "fn f() {}\nunsafe { x }\n";

async fn site() -> Site {
    let hotspot = json!({ "kind": "unsafe", "what": "unsafe block", "span": span("src/lib.rs", 2, (1, 7), "unsafe { x }") });
    let report = crate_report(&[source_file("src/lib.rs", "library", &[hotspot])], &json!("clean"), &[]);
    let reason = json!({ "risk": "unsafe-tokens", "text": "1 place of power", "spots": [] });
    let texts = [("src/lib.rs", NEW), ("src/new.rs", "mod new;"), ("src/same.rs", "//")];
    Site::with(&report, &judgement(&json!([reason]), &json!([])), &texts, "^1").await
}

#[tokio::test]
async fn the_shortest_way_begins_at_what_was_approved() {
    let site = site().await;
    let reviewer = Person::reviewer(&site.server, "b").await;
    let before = reviewer.read(&site.server, &site.path("")).await;
    holds(&before, &["nobody has compared it", "full review", "Most severe reasons", "1 place of power"]);
    let answer = site
        .server
        .get(&format!("/v1/reviews/{}", site.review), &site.server.token("d", &[Scope::Review]).await)
        .await;
    assert_eq!(
        (&answer.json()["delta"], &answer.json()["no_delta"]),
        (&Value::Null, &json!("nobody has compared it yet"))
    );
    let files = [
        file_delta("src/lib.rs", "changed", 1, 1),
        file_delta("src/new.rs", "added", 1, 0),
        file_delta("src/old.rs", "removed", 0, 7),
    ];
    let old = [("src/lib.rs", OLD), ("src/old.rs", "mod old;\n"), ("src/same.rs", "//")];
    compare(&site, &old, &delta(&files, &[]), "ann, bob").await;
    let body = reviewer.read(&site.server, &site.path("")).await;
    holds(
        &body,
        &[
            "read what changed since 1.0.3: 153 lines instead of 3,412",
            "3,412 lines in 70 files",
            "allowed by ann, bob on",
            "+120 −33 lines in 4 files",
            "1 files are no text and were not compared",
            "against 1.0.3",
            "<th scope=\"row\">build script</th><td>no</td><td><span class=\"state bad\">yes</span>",
            "reaches for: network",
            "none</td><td><span class=\"state bad\">4 errors",
            "href=\"/crates/itoa\"",
            "<td class=\"mono\">1.9.0</td>",
            "files/src/lib.rs?view=diff\">changed +1 −1</a>",
            "files/src/old.rs?view=diff\">removed +0 −7</a>",
            "it is there no more",
        ],
    );
    let places = [
        "class=\"verdict",
        "id=\"reading\"",
        "Risks\"",
        "id=\"capabilities\"",
        "id=\"needs\"",
        "id=\"world\"",
        "id=\"hints\"",
        "id=\"files\"",
        "id=\"hotspots\"",
        "id=\"decision\"",
    ];
    let order: Vec<_> = places.map(|place| body.find(place)).into();
    assert!(order.iter().all(Option::is_some) && order.is_sorted(), "{order:?}");

    let answer = site
        .server
        .get(&format!("/v1/reviews/{}", site.review), &site.server.token("d", &[Scope::Review]).await)
        .await
        .json();
    let found = &answer["delta"];
    assert_eq!(
        (&found["from"], &found["added"], &found["removed"], &found["files"]),
        (&json!("1.0.3"), &json!(120), &json!(33), &json!(4))
    );
    assert_eq!(
        (&found["stands"], &found["reviewed"], &answer["whole"]["lines"]),
        (&json!(true), &json!(true), &json!(3_412))
    );
    assert_eq!(
        found["changes"][2],
        json!({ "path": "src/old.rs", "change": "removed", "added": 0, "removed": 7 })
    );

    site.server.db.sql("UPDATE crates SET status = 'revoked'");
    let body = reviewer.read(&site.server, &site.path("")).await;
    holds(&body, &["full review, 3,412 lines", "Version 1.0.3 is allowed no more"]);
}

#[tokio::test]
async fn a_file_is_shown_as_what_changed_with_its_hotspots() {
    let site = site().await;
    let reviewer = Person::reviewer(&site.server, "b").await;
    let diff = |path: &str| site.path(&format!("/files/{path}?view=diff"));
    assert_eq!(reviewer.get(&site.server, &diff("src/old.rs")).await.status, 404);
    holds(
        &reviewer.read(&site.server, &diff("src/lib.rs")).await,
        &["There is no version to compare it with"],
    );
    let old = [("src/lib.rs", OLD), ("src/old.rs", "mod old;\n"), ("src/same.rs", "//")];
    compare(&site, &old, &delta(&[], &[]), "seed").await;
    let body = reviewer.read(&site.server, &diff("src/lib.rs")).await;
    holds(
        &colourless(&body),
        &[
            "+1 −1 lines",
            "<tr class=\"went\"><td class=\"number\">2</td><th scope=\"row\" class=\"number\"></th><td class=\"sign\">−</td><td><code>fn gone() {}</code>",
            "<tr class=\"came\" id=\"L2\">",
            "<mark>unsafe</mark> { x }",
            "value=\"diff\"",
            "nobody of this site has looked at it",
            "1 hotspots stand in lines that did not change",
        ],
    );
    holds(
        &body,
        &[
            "<span class=\"t-kw\">fn</span>",
            "files/src/lib.rs\">Source</a>",
            "aria-current=\"page\">Changes since 1.0.3",
        ],
    );
    holds(&colourless(&reviewer.read(&site.server, &diff("src/old.rs")).await), &["mod old;", "+0 −1 lines"]);
    assert_eq!(
        reviewer.get(&site.server, &site.path("/files/src/old.rs")).await.status,
        404,
        "it has no source"
    );
    holds(&colourless(&reviewer.read(&site.server, &diff("src/new.rs")).await), &["mod new;", "+1 −0 lines"]);
    holds(&reviewer.read(&site.server, &diff("src/same.rs")).await, &["The two texts are the same."]);
    assert_eq!(reviewer.get(&site.server, &diff("src/none.rs")).await.status, 404);
    let source = reviewer.read(&site.server, &site.path("/files/src/lib.rs")).await;
    holds(&source, &["files/src/lib.rs?view=diff\">Changes since 1.0.3"]);
    let mark = [("hotspot", "src/lib.rs:2:1:unsafe"), ("state", "seen"), ("note", ""), ("back", "diff")];
    let marked = reviewer.send(&site.server, &site.path("/hotspots"), &mark).await;
    assert_eq!(marked.header("location"), site.path("/files/src/lib.rs?view=diff&line=2#hotspot-2"));
}

#[tokio::test]
async fn hostile_strings_of_a_comparison_stay_text() {
    let (strings, site) = (strings(), site().await);
    let reviewer = Person::reviewer(&site.server, "b").await;
    let files: Vec<Value> = strings.iter().map(|text| file_delta(text, "removed", 0, 1)).collect();
    let text = strings.join("\n");
    compare(&site, &[("src/lib.rs", &text)], &delta(&files, &strings[..15]), "seed").await;
    let body = reviewer.read(&site.server, &site.path("")).await;
    for text in strings.iter().take(15) {
        holds(&body, &[&shown(text)]);
    }
    let body = colourless(&reviewer.read(&site.server, &site.path("/files/src/lib.rs?view=diff")).await);
    for text in &strings {
        holds(&body, &[&format!("<code>{}</code>", shown(text))]);
    }
    assert_only_our_markup("the delta", &body);
}

/// The page of the review names the files and reads none of them, the page of a file reads that one.
#[tokio::test]
async fn a_large_crate_makes_no_large_page_and_no_blob_is_read_that_is_not_shown() {
    let server = Server::start().await;
    let large = Large::new();
    assert!(large.bytes() >= 5_000_000 && large.names.len() == 500, "{}", large.bytes());
    let shown = 7;
    let review = large.store(&server, &[shown]).await;
    let site = Site { server, review };
    let reviewer = Person::reviewer(&site.server, "b").await;
    let file = format!("/files/{}", large.names[shown]);
    for (path, word) in [
        (String::new(), "0 of 2000 hotspots seen"),
        (file.clone(), "0 of 4 hotspots seen"),
        (format!("{file}?view=diff"), "+2 −2 lines"),
    ] {
        let body = reviewer.read(&site.server, &site.path(&path)).await;
        assert!(body.len() <= PAGE_BYTES_MAX, "{path}: {} bytes", body.len());
        holds(&body, &[word]);
    }
    let other = site.path(&format!("/files/{}", large.names[shown + 1]));
    assert!(reviewer.get(&site.server, &other).await.status >= 500, "it is not there");
}
