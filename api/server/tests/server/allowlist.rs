//! The list of crates: what is known beside each decision, and how it is searched.

use std::time::Instant;

use mfaas_catalog::ShippedFacts;
use mfaas_ident::Scope;
use mfaas_server::limits::SITE_USE_LIFE;
use serde_json::{Value, json};

use crate::reviews::{Person, holds};
use crate::support::hostile::assert_only_our_markup;
use crate::support::{Database, Server, admitted_version};

/// Allows a crate, whose source was examined if there is a report.
fn allow(db: &Database, name: &str, number: u64, report: Option<Value>) {
    let checksum = format!("{number:064x}");
    db.sql(&format!(
        "INSERT INTO crates (name, version, checksum, features, direct, status, decided_by, reason)
         VALUES ('{name}', '1.0.0', '{checksum}', '{{}}', true, 'allowed', 'seed', 'shipped')"
    ));
    let Some(report) = report else { return };
    db.sql(&format!(
        "INSERT INTO crate_archives (checksum, name, version, bytes) VALUES ('{checksum}', '{name}', '1.0.0', 9);
         INSERT INTO crate_reports (key, checksum, report) VALUES ('{checksum}', '{checksum}', '{report}')"
    ));
}

/// The parts of a report that the list is made from, as the acquirer writes them.
fn report(unsafe_items: u64, compiler: Value, build_script: bool) -> Value {
    let count = |found: u64| json!({ "safe": 1, "unsafe": found });
    let none = count(0);
    json!({
        "source": { "summary": {
            "unsafe": if unsafe_items == 0 { "none" } else { "counted" },
            "geiger": { "functions": none, "exprs": count(unsafe_items), "impls": none, "traits": none, "methods": none },
        } },
        "compiler": compiler,
        "kind": { "proc_macro": false, "build_script": build_script, "links": null, "edition": "2024" },
    })
}

#[tokio::test]
async fn the_list_says_what_is_known_of_a_crate_and_who_uses_it_and_can_be_searched() {
    let server = Server::start().await;
    let hotspot = json!({ "code": "E0133", "span": "long" });
    let unsound = json!({ "unsafe": { "errors": 3, "spots": [hotspot] } });
    allow(&server.db, "itoa", 1, Some(report(7, unsound, true)));
    allow(&server.db, "ryu", 2, Some(report(0, json!("clean"), false)));
    allow(&server.db, "base64", 3, None);
    // What another release has gathered is no fact of ours.
    allow(&server.db, "hex", 4, Some(json!({ "source": {}, "compiler": "clean" })));
    let token = server.token("d", &[Scope::Deploy]).await;
    let created = server.upload("uses-itoa", &token, vec![9]).await.json();
    let deployment = created["deployment"]["id"].as_str().unwrap();
    admitted_version(&server.db, "d", "uses-itoa", deployment, &"a".repeat(64));
    server.db.sql(
        "INSERT INTO version_crates VALUES ('d', 'uses-itoa', 1, 'itoa', '1.0.0', repeat('0', 63) || '1')",
    );

    let reviewer = Person::reviewer(&server, "b").await;
    let all = reviewer.read(&server, "/crates").await;
    let row = |page: &str, name: &str| {
        let row = page.split("<tr>").find(|row| row.contains(&format!("/crates/{name}\"")));
        row.unwrap_or_default().to_owned()
    };
    holds(&all, &["4 of 4 decisions"]);
    let numbers = "<td class=\"number\">1</td><td class=\"number\">1</td>";
    holds(&row(&all, "itoa"), &["7 unsafe items", "compiler: 3", "build script", numbers]);
    holds(&row(&all, "ryu"), &["no unsafe code", "compiler: none", "<td class=\"number\">0</td>"]);
    holds(&row(&all, "base64"), &["not examined"]);
    holds(&row(&all, "hex"), &["not examined"]);

    let found = reviewer.read(&server, "/crates?q=IT&only=unsafe&sort=functions").await;
    holds(&found, &["1 of 4 decisions", "/crates/itoa\"", "value=\"IT\"", "value=\"unsafe\" selected"]);
    assert!(row(&found, "ryu").is_empty());
    let none = reviewer.read(&server, "/crates?q=%22%3E%3Cscript%3E&only=&sort=").await;
    assert_only_our_markup("/crates", &none);
    holds(&none, &["0 of 4 decisions", "No decision fits."]);
    assert_eq!(reviewer.get(&server, "/crates?only=everything").await.status, 400);

    // The count of the site is made anew now and then, behind a page that shows the last one.
    server.db.sql(
        "INSERT INTO version_crates VALUES ('d', 'uses-itoa', 1, 'ryu', '1.0.0', repeat('0', 63) || '2')",
    );
    let begun = Instant::now();
    while !row(&reviewer.read(&server, "/crates").await, "ryu").contains(numbers) {
        assert!(begun.elapsed() < 5 * SITE_USE_LIFE, "who uses ryu is never counted");
        tokio::time::sleep(SITE_USE_LIFE / 20).await;
    }

    // Another tenant's functions are nobody's business but the reviewers'.
    let stranger = Person::new(&server, "e", &[Scope::Read]).await;
    let page = stranger.read(&server, "/crates").await;
    holds(&row(&page, "itoa"), &["<td class=\"number\">0</td><td class=\"number\">0</td>"]);
    holds(&page, &["functions of yours are counted"]);
}

#[tokio::test]
async fn a_long_list_has_pages_that_keep_the_search() {
    let server = Server::start().await;
    server.db.sql(
        "INSERT INTO crates (name, version, checksum, features, direct, status, decided_by, reason)
         SELECT 'crate-' || i, '1.0.0', lpad(to_hex(i), 64, '0'), '{}', true, 'allowed', 'seed', 'shipped'
         FROM generate_series(1, 250) i",
    );
    let reviewer = Person::reviewer(&server, "b").await;
    let second = reviewer.read(&server, "/crates?q=crate&sort=decided&page=2").await;
    holds(&second, &["Page 2 of 3", "q=crate&amp;only=&amp;sort=decided&amp;page=3", "page=1\""]);
    assert_eq!(second.matches("<th scope=\"row\"").count(), 100);
    let behind = reviewer.read(&server, "/crates?page=99").await;
    holds(&behind, &["Page 3 of 3"]);
    assert_eq!(behind.matches("<th scope=\"row\"").count(), 50);
}

/// `top` needs `left` and `right`, and both need `bottom`: as an import of what ships records it.
fn cache(db: &Database) {
    db.sql("INSERT INTO toolchains (id, accepted, decided_by) VALUES (repeat('a', 64), true, 'seed')");
    let linked = |(name, number): (&str, u64)| json!({ "name": name, "version": "1.0.0", "checksum": format!("{number:064x}") });
    let (left, right, bottom) = (("left", 2), ("right", 3), ("bottom", 4));
    let holds = [
        (("top", 1), vec![bottom, left, right]),
        (left, vec![bottom]),
        (right, vec![bottom]),
        (bottom, vec![]),
    ];
    for ((name, number), needs) in holds {
        let closure = Value::from_iter(needs.into_iter().map(linked));
        db.sql(&format!(
            "INSERT INTO cached_crates (cache, base, toolchain, name, version, checksum, closure)
             VALUES (repeat('b', 64), repeat('b', 64), repeat('a', 64), '{name}', '1.0.0', '{number:064x}', '{closure}')"
        ));
    }
}

#[tokio::test]
async fn the_page_of_a_crate_draws_and_lists_what_it_needs() {
    let server = Server::start().await;
    cache(&server.db);
    allow(&server.db, "top", 1, Some(report(0, json!("clean"), false)));
    allow(&server.db, "left", 2, Some(report(7, json!("clean"), true)));
    // Another source than the one that the cache holds.
    allow(&server.db, "bottom", 9, None);
    let reviewer = Person::reviewer(&server, "b").await;
    let page = reviewer.read(&server, "/crates/top").await;
    assert_only_our_markup("/crates/top", &page);
    holds(&page, &["What 1.0.0 needs", "left 1.0.0, right 1.0.0", "7 unsafe items", "not examined"]);
    let graph = page.split("<svg").nth(1).and_then(|rest| rest.split("</svg>").next()).unwrap();
    assert_eq!((graph.matches("<line").count(), graph.matches("<a href").count()), (4, 4), "{graph}");
    holds(graph, &["<a href=\"/crates/left\" class=\"unsafe\">", ">unsafe, build script<", ">not examined<"]);
    let other = reviewer.read(&server, "/crates/bottom").await;
    assert!(!other.contains("needs"), "{other}");
}

#[tokio::test]
async fn what_ships_is_examined_without_a_report_and_a_report_goes_before() {
    let server = Server::start().await;
    let (checksum, shipped) = ShippedFacts::of_release()
        .crates
        .iter()
        .find(|(_, row)| row.name.as_str() == "itoa")
        .expect("itoa ships");
    let items = shipped.facts.geiger.unsafe_total();
    assert!(items > 0);
    server.db.sql(&format!(
        "INSERT INTO crates (name, version, checksum, features, direct, status, decided_by, reason)
         VALUES ('itoa', '{}', '{checksum}', '{{}}', true, 'allowed', 'seed', 'shipped')",
        shipped.version
    ));
    let reviewer = Person::reviewer(&server, "b").await;
    let page = reviewer.read(&server, "/crates").await;
    holds(&page, &[&format!("{items} unsafe items"), "compiler: "]);
    assert!(!page.contains("<span class=\"state off\">not examined"), "{page}");
    let report = report(items + 1, json!("clean"), false);
    server.db.sql(&format!(
        "INSERT INTO crate_archives (checksum, name, version, bytes) VALUES ('{checksum}', 'itoa', '{}', 9);
         INSERT INTO crate_reports (key, checksum, report) VALUES ('{checksum}', '{checksum}', '{report}')",
        shipped.version
    ));
    let page = reviewer.read(&server, "/crates").await;
    holds(&page, &[&format!("{} unsafe items", items + 1), "compiler: none"]);
}
