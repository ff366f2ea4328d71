//! How long a reviewer waits: the pages of a crate of 5 MB, over HTTP, from a real server over a real Postgres and
//! files on disk. `cargo run --release -p mfaas-server --example review_page`; the first argument is the number of
//! rounds. It fails when the median of a page is beyond what we promise.
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
use support::large::Large;

/// A page of a crate of 5 MB is there within this time.
const OPENS_WITHIN: Duration = Duration::from_secs(1);
/// Rounds of each page when nobody says another number, and the fewest.
const ROUNDS: (usize, usize) = (40, 20);

/// One of the files of usual size.
const OTHER: usize = 7;

#[tokio::main]
async fn main() -> ExitCode {
    let rounds = std::env::args().nth(1).and_then(|word| word.parse().ok()).unwrap_or(ROUNDS.0).max(ROUNDS.1);
    let (server, large) = (Server::start().await, Large::new());
    let review = large.store(&server, &[Large::LARGEST, OTHER]).await;
    let cookie = sign_in(&server, "b", Scope::Review).await;
    println!(
        "crate: {} bytes of text in {} files; {rounds} rounds of each page",
        large.bytes(),
        large.names.len()
    );
    heading(OPENS_WITHIN);
    let file = format!("/reviews/{review}/files/{}", large.names[Large::LARGEST]);
    let mut all_in_time = true;
    for (name, path) in [
        ("review", format!("/reviews/{review}")),
        ("largest file, source", file.clone()),
        ("largest file, its end", format!("{file}?line=9000")),
        ("largest file, changes", format!("{file}?view=diff")),
        ("another file, source", format!("/reviews/{review}/files/{}", large.names[OTHER])),
    ] {
        all_in_time &= page(&server, &cookie, (name, &path), rounds, OPENS_WITHIN).await;
    }
    if all_in_time { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
