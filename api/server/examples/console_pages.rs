//! How long the pages of a large site take, over HTTP, from a real server over a real Postgres: 10,000 functions of 100
//! tenants with 10 versions each, 500 crates. `cargo run --release -p mfaas-server --example
//! console_pages`; the first argument is the number of rounds. It fails when the median of a page is beyond what we promise.
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
use mfaas_ident::Scope;
use support::Server;

/// A page is there within this time.
const OPENS_WITHIN: Duration = Duration::from_millis(300);
/// Rounds of each page when nobody says another number, and the fewest.
const ROUNDS: (usize, usize) = (40, 20);

#[tokio::main]
async fn main() -> ExitCode {
    let rounds = std::env::args().nth(1).and_then(|word| word.parse().ok()).unwrap_or(ROUNDS.0).max(ROUNDS.1);
    let server = Server::start().await;
    // The tenant of the pages has a row before it has a hundredth of the functions.
    let cookie = sign_in(&server, "t0", Scope::Admin).await;
    server.db.script(include_str!("console_pages.sql"));
    println!("{}; {rounds} rounds of each page", server.db.sql("SELECT what FROM filled"));
    heading(OPENS_WITHIN);
    let deployment = server.db.sql("SELECT id FROM deployments WHERE tenant = 't0' LIMIT 1");
    let mut all_in_time = true;
    for (name, path) in [
        ("dashboard", "/".to_owned()),
        ("functions", "/functions".to_owned()),
        ("function", "/functions/f100".to_owned()),
        ("deployment", format!("/deployments/{deployment}")),
        ("allowlist", "/crates".to_owned()),
        ("allowlist, searched", "/crates?q=c1&only=unsafe&sort=functions&page=2".to_owned()),
        ("crate", "/crates/c100".to_owned()),
        ("revocation", "/crates/c100/1.0.0/revocation".to_owned()),
        ("reviews", "/reviews".to_owned()),
        ("usage", "/usage".to_owned()),
        ("nodes", "/nodes".to_owned()),
        ("audit", "/audit".to_owned()),
    ] {
        all_in_time &= page(&server, &cookie, (name, &path), rounds, OPENS_WITHIN).await;
    }
    if all_in_time { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
