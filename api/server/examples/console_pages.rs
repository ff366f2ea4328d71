//! How long the pages of a large site take, over HTTP, from a real server over a real Postgres: 10,000 functions of 100
//! tenants with 10 versions each, 500 crates. `cargo run --release -p mfaas-server --example
//! console_pages`; the first argument is the number of rounds. It fails when a page takes longer than we promise, the first
//! time or in the median. With `--browser` a browser opens the same pages, light and dark, and axe looks at them.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    reason = "a program for people at a terminal"
)]

#[path = "../tests/server/support/mod.rs"]
#[allow(dead_code, unused_imports, reason = "the tests use the rest")]
mod support;

mod measure;

use std::process::ExitCode;
use std::time::Duration;

use measure::{heading, page, sign_in};
use mfaas_harness::{browse, demand_browser, pictures};
use mfaas_ident::Scope;
use serde_json::json;
use support::Server;

/// A page is there within this time.
const OPENS_WITHIN: Duration = Duration::from_millis(300);
/// A browser is through with all of them, light and dark, within this time.
const LOOKED_AT_WITHIN: Duration = Duration::from_secs(300);
/// Rounds of each page when nobody says another number, and the fewest.
const ROUNDS: (usize, usize) = (40, 20);

#[tokio::main]
async fn main() -> ExitCode {
    let (flags, numbers): (Vec<String>, Vec<String>) =
        std::env::args().skip(1).partition(|word| word == "--browser");
    let rounds = numbers.first().and_then(|word| word.parse().ok()).unwrap_or(ROUNDS.0).max(ROUNDS.1);
    if !flags.is_empty() {
        demand_browser();
    }
    let server = Server::start().await;
    // The tenant of the pages has a row before it has a hundredth of the functions.
    let cookie = sign_in(&server, "t0", Scope::Admin).await;
    server.db.script(include_str!("console_pages.sql"));
    println!("{}; {rounds} rounds of each page", server.db.sql("SELECT what FROM filled"));
    heading(OPENS_WITHIN);
    let deployment = server.db.sql("SELECT id FROM deployments WHERE tenant = 't0' LIMIT 1");
    let pages = pages(&deployment);
    let mut all_in_time = true;
    for (name, path) in &pages {
        all_in_time &= page(&server, &cookie, (name, path), rounds, OPENS_WITHIN).await;
    }
    let is_clean = flags.is_empty() || look(&server, &cookie, &pages);
    if all_in_time && is_clean { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// The list of crates comes first: nothing has counted yet who uses them.
fn pages(deployment: &str) -> Vec<(&'static str, String)> {
    vec![
        ("allowlist", "/crates".to_owned()),
        ("allowlist, searched", "/crates?q=c1&only=unsafe&sort=functions&page=2".to_owned()),
        ("crate", "/crates/c200".to_owned()),
        ("crate, graph", "/crates/c100".to_owned()),
        ("crate, long list", "/crates/c300".to_owned()),
        ("revocation", "/crates/c100/1.0.0/revocation".to_owned()),
        ("dashboard", "/".to_owned()),
        ("functions", "/functions".to_owned()),
        ("function", "/functions/f100".to_owned()),
        ("deployment", format!("/deployments/{deployment}")),
        ("reviews", "/reviews".to_owned()),
        ("usage", "/usage".to_owned()),
        ("charts, all tenants", "/charts?since=24h".to_owned()),
        ("charts, one tenant", "/charts?tenant=t0&since=30d".to_owned()),
        ("charts, builds", "/charts/builds?since=24h".to_owned()),
        ("charts, nodes", "/charts/nodes?since=24h".to_owned()),
        ("charts, function", "/functions/f100/charts?since=24h".to_owned()),
        ("nodes", "/nodes".to_owned()),
        ("audit", "/audit".to_owned()),
    ]
}

/// Has a browser open the pages, and says whether axe and the browser object to nothing.
fn look(server: &Server, cookie: &str, pages: &[(&'static str, String)]) -> bool {
    let directory = pictures(concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/tmp"), "console-pages");
    let named =
        |(name, path): &(&'static str, String)| json!({ "name": name.replace(", ", "-"), "path": path });
    let config = json!({
        "url": server.url(""),
        "cookie": cookie.split_once('=').map(|(_, value)| value),
        "pages": pages.iter().map(named).collect::<Vec<_>>(),
        "pictures": directory,
    });
    let found = tokio::task::block_in_place(|| browse("pages.mjs", &config, LOOKED_AT_WITHIN, |_| ()));
    let violations = found["violations"].as_array().expect("a list");
    let seen = found["seen"].as_object().expect("lists by kind");
    let seen: Vec<_> = seen.values().flat_map(|list| list.as_array().expect("a list")).collect();
    println!(
        "{} pages, {} pictures in {}, at least {} rules of axe; {} violations, {} other objections",
        found["pages"],
        found["pictures"],
        directory.display(),
        found["rules"],
        violations.len(),
        seen.len()
    );
    violations.iter().chain(seen.iter().copied()).for_each(|objection| println!("{objection}"));
    violations.is_empty() && seen.is_empty() && found["pages"] == pages.len()
}
