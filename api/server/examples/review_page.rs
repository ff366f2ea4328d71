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

use std::process::ExitCode;
use std::time::{Duration, Instant};

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
    let cookie = sign_in(&server).await;
    println!(
        "crate: {} bytes of text in {} files; {rounds} rounds of each page",
        large.bytes(),
        large.names.len()
    );
    println!(
        "{:<30} {:>9} {:>9} {:>9} {:>10} {:>8}",
        "page", "p20 ms", "p50 ms", "p80 ms", "bytes", "of 1 s"
    );
    let file = format!("/reviews/{review}/files/{}", large.names[Large::LARGEST]);
    let mut all_in_time = true;
    for (name, path) in [
        ("review", format!("/reviews/{review}")),
        ("largest file, source", file.clone()),
        ("largest file, its end", format!("{file}?line=9000")),
        ("largest file, changes", format!("{file}?view=diff")),
        ("another file, source", format!("/reviews/{review}/files/{}", large.names[OTHER])),
    ] {
        all_in_time &= page(&server, &cookie, (name, &path), rounds).await;
    }
    if all_in_time { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Measures one page and says whether it is there in time.
async fn page(server: &Server, cookie: &str, (name, path): (&str, &str), rounds: usize) -> bool {
    let mut times = Vec::with_capacity(rounds);
    let mut bytes = 0;
    let cpu = cpu_ms();
    for _ in 0..rounds {
        let before = Instant::now();
        let answer = server.send(server.request("GET", path, "").header("cookie", cookie)).await;
        times.push(before.elapsed());
        assert_eq!(answer.status, 200, "{path}");
        bytes = answer.body.len();
    }
    let cpu = (cpu_ms() - cpu) / rounds as f64;
    times.sort_unstable();
    let at = |share: usize| times[(rounds - 1) * share / 100];
    let ms = |time: Duration| time.as_secs_f64() * 1_000.0;
    let share = at(50).as_secs_f64() / OPENS_WITHIN.as_secs_f64() * 100.0;
    println!(
        "{name:<24} {:>8.1} {:>8.1} {:>8.1} {cpu:>8.1} {bytes:>9} {share:>6.1} %",
        ms(at(20)),
        ms(at(50)),
        ms(at(80))
    );
    at(50) <= OPENS_WITHIN
}

/// CPU time that this process, server and client, has used; what Postgres uses is not in it. Beside other work on the
/// machine it says more than the clock.
fn cpu_ms() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    // Fields 14 and 15 of proc(5), counted behind the name, in ticks of 10 ms.
    let (_, fields) = stat.rsplit_once(')').unwrap();
    let ticks: f64 =
        fields.split_whitespace().skip(11).take(2).map(|field| field.parse::<f64>().unwrap()).sum();
    ticks * 10.0
}

async fn sign_in(server: &Server) -> String {
    let token = server.token("b", &[Scope::Review]).await;
    let answer = server.send(server.request("POST", "/sign-in", "").form(&[("token", &token)])).await;
    assert_eq!(answer.status, 303, "{answer:?}");
    answer.header("set-cookie").split(';').next().expect("there is a cookie").to_owned()
}
