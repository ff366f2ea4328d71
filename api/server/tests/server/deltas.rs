//! What a review is compared with, on its pages and in the API; and that a large crate does not make a large page.

use std::fmt::Write as _;

use mfaas_ident::{Digest, Scope};
use serde_json::{Value, json};

use crate::reviews::{Person, Site, holds, judgement};
use crate::support::hostile::{assert_only_our_markup, colourless, shown, strings};
use crate::support::{crate_report, source_file, span};

/// The review page and the page of a file of a crate of 5 MB, in bytes.
const PAGE_BYTES_MAX: usize = 2 << 20;

/// What the acquirer writes about a comparison with left-pad 1.0.3, whose texts these are.
async fn compared(site: &Site, old: &[(&str, &str)], delta: &Value, decided_by: &str) {
    let (from, blobs) = ("b".repeat(64), blobs(site));
    let mut rows = Vec::new();
    for (path, text) in old {
        let blob = blobs.put(text.as_bytes().to_vec().into()).await.unwrap();
        rows.push(format!("('{from}', '{path}', '{blob}', {})", text.len()));
    }
    let quoted = |text: &str| text.replace('\'', "''");
    let volumes =
        json!({ "code": { "files": 70, "lines": 3_412 }, "other": { "files": 1, "lines": 2 }, "unkept": 1 });
    site.server.db.sql(&format!(
        "INSERT INTO crate_archives (checksum, name, version, bytes) VALUES ('{from}', 'left-pad', '1.0.3', 9);
         INSERT INTO crate_files (checksum, path, blob, bytes) VALUES {rows};
         INSERT INTO crates (name, version, checksum, features, direct, status, decided_by, reason)
         VALUES ('left-pad', '1.0.3', '{from}', '{{}}', true, 'allowed', 'seed', 'looked at');
         ALTER TABLE crates DISABLE TRIGGER crates_decided;
         UPDATE crates SET decided_by = '{decided_by}';
         INSERT INTO crate_deltas (key, from_checksum, to_checksum, delta)
         VALUES ('{from}', '{from}', '{to}', '{delta}');
         INSERT INTO review_deltas (review_id, volumes, from_version, from_checksum, from_features, from_scope,
                                    decided_by, decided_at, delta)
         VALUES ({review}, '{volumes}', '1.0.3', '{from}', '{{}}', '', '{decided_by}', now(), '{from}');",
        rows = rows.join(", "),
        to = "c".repeat(64),
        delta = quoted(&delta.to_string()),
        review = site.review,
    ));
}

fn blobs(site: &Site) -> mfaas_blobs::Blobs {
    mfaas_blobs::Blobs::open(&format!("file://{}", site.server.dir().join("blobs").display())).unwrap()
}

fn file_delta(path: &str, change: &str, added: u64, removed: u64) -> Value {
    json!({ "path": path, "change": change, "code": true, "added": added, "removed": removed })
}

/// Everything in words is `words`.
fn delta(files: &[Value], words: &[String]) -> Value {
    let side = |version: &str, checksum: &str| json!({ "version": version, "checksum": checksum.repeat(64), "features": [], "unkept": 1 });
    let same = json!({ "from": false, "to": false });
    let first = words.first();
    json!({
        "revision": 1, "from": side("1.0.3", "b"), "to": side("1.2.3", "c"),
        "code": { "files": 4, "added": 120, "removed": 33 }, "other": { "files": 0, "added": 0, "removed": 0 },
        "files": files,
        "facts": {
            "touches": [{ "class": "net", "places": { "from": 0, "to": 3 } }], "spots": [],
            "geiger": { "from": 0, "to": null }, "compiler": { "from": { "errors": 0 }, "to": { "errors": 4 } },
            "shapes": { "from": 0, "to": 0 }, "proc_macro": same, "build_script": { "from": false, "to": true },
            "links": { "from": null, "to": first }, "edition": { "from": null, "to": null },
            "licence": { "from": first, "to": null }, "features": { "came": words, "went": words },
            "macros": { "came": words, "went": [] }, "binaries": { "came": words, "went": [] },
            "native_sources": { "came": [], "went": words },
            "needs_came": [{ "name": "itoa", "version": "1.0.0" }], "needs_went": [],
            "needs_changed": [{ "name": "memchr", "version": { "from": "1.9.0", "to": "2.0.0" },
                                "checksum": { "from": "a".repeat(64), "to": "b".repeat(64) } }],
        },
    })
}

const OLD: &str = "fn f() {}\nfn gone() {}\n";
const NEW: &str = "fn f() {}\nunsafe { x }\n";

async fn site() -> Site {
    let spot = json!({ "kind": "unsafe", "what": "unsafe block", "span": span("src/lib.rs", 2, (1, 7), "unsafe { x }") });
    let report = crate_report(&[source_file("src/lib.rs", "library", &[spot])], &json!("clean"), &[]);
    let reason = json!({ "risk": "unsafe-tokens", "text": "1 place of power", "spots": [] });
    let texts = [("src/lib.rs", NEW), ("src/new.rs", "mod new;"), ("src/same.rs", "//")];
    Site::with(&report, &judgement(&json!([reason]), &json!([])), &texts, "^1").await
}

#[tokio::test]
async fn the_shortest_way_begins_at_what_was_approved() {
    let site = site().await;
    let reviewer = Person::reviewer(&site.server, "b").await;
    let before = reviewer.read(&site.server, &site.path("")).await;
    holds(&before, &["nobody has compared it", "full review", "Gravest reasons", "1 place of power"]);
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
    compared(&site, &old, &delta(&files, &[]), "ann, bob").await;
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
        "id=\"spots\"",
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
async fn a_file_is_shown_as_what_changed_with_its_spots() {
    let site = site().await;
    let reviewer = Person::reviewer(&site.server, "b").await;
    let diff = |path: &str| site.path(&format!("/files/{path}?view=diff"));
    assert_eq!(reviewer.get(&site.server, &diff("src/old.rs")).await.status, 404);
    holds(
        &reviewer.read(&site.server, &diff("src/lib.rs")).await,
        &["There is no version to compare it with"],
    );
    let old = [("src/lib.rs", OLD), ("src/old.rs", "mod old;\n"), ("src/same.rs", "//")];
    compared(&site, &old, &delta(&[], &[]), "seed").await;
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
            "1 spots stand in lines that did not change",
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
    let mark = [("spot", "src/lib.rs:2:1:unsafe"), ("state", "seen"), ("note", ""), ("back", "diff")];
    let marked = reviewer.send(&site.server, &site.path("/spots"), &mark).await;
    assert_eq!(marked.header("location"), site.path("/files/src/lib.rs?view=diff&line=2#spot-2"));
}

#[tokio::test]
async fn hostile_strings_of_a_comparison_stay_text() {
    let (strings, site) = (strings(), site().await);
    let reviewer = Person::reviewer(&site.server, "b").await;
    let files: Vec<Value> = strings.iter().map(|text| file_delta(text, "removed", 0, 1)).collect();
    let text = strings.join("\n");
    compared(&site, &[("src/lib.rs", &text)], &delta(&files, &strings[..15]), "seed").await;
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

/// Five megabytes in 500 files with 2,000 spots: the page of the review names the files and reads none of them, the
/// page of a file reads that one.
#[tokio::test]
async fn a_large_crate_makes_no_large_page_and_no_blob_is_read_that_is_not_shown() {
    let mut text = String::new();
    for line in 0..250 {
        writeln!(text, "pub fn f{line}(a: &[u8]) -> u8 {{ a[{line}] /* {line} */ }}").unwrap();
    }
    let names: Vec<String> = (0..500).map(|n| format!("src/m{n:03}.rs")).collect();
    let own: Vec<String> = names.iter().map(|name| format!("// {name}\n{text}")).collect();
    assert!(own.iter().map(String::len).sum::<usize>() >= 5 << 20);
    let texts: Vec<(&str, &str)> =
        names.iter().map(String::as_str).zip(own.iter().map(String::as_str)).collect();
    let spot = |name: &str, at: u32| json!({ "kind": "unsafe", "what": "unsafe block", "span": span(name, at * 7 + 2, (1, 7), "unsafe { x }") });
    let files: Vec<Value> = names
        .iter()
        .map(|name| source_file(name, "library", &(0..4).map(|at| spot(name, at)).collect::<Vec<_>>()))
        .collect();
    let report = crate_report(&files, &json!("clean"), &[]);
    let site = Site::with(&report, &judgement(&json!([]), &json!([])), &texts, "^1").await;
    let changed: Vec<Value> = names.iter().map(|name| file_delta(name, "changed", 1, 1)).collect();
    let old = own[7].replace("a[100]", "a[1]");
    compared(&site, &[("src/m007.rs", &old)], &delta(&changed, &[]), "ann").await;
    // What no page shows is not there.
    let kept = [Digest::of(own[7].as_bytes()), Digest::of(old.as_bytes())];
    for text in own.iter().map(|text| Digest::of(text.as_bytes())).filter(|blob| !kept.contains(blob)) {
        let name = text.to_string();
        std::fs::remove_file(site.server.dir().join("blobs/sha256").join(&name[..2]).join(&name)).unwrap();
    }
    let reviewer = Person::reviewer(&site.server, "b").await;
    for (path, word) in [
        (String::new(), "0 of 2500 spots seen"),
        ("/files/src/m007.rs".to_owned(), "0 of 5 spots seen"),
        ("/files/src/m007.rs?view=diff".to_owned(), "+1 −1 lines"),
    ] {
        let body = reviewer.read(&site.server, &site.path(&path)).await;
        assert!(body.len() <= PAGE_BYTES_MAX, "{path}: {} bytes", body.len());
        holds(&body, &[word]);
    }
    assert!(
        reviewer.get(&site.server, &site.path("/files/src/m008.rs")).await.status >= 500,
        "it is not there"
    );
}
