//! Pages of the console over HTTP: how long each takes, and whether that is within what we promise.

use std::time::{Duration, Instant};

use mfaas_ident::Scope;

use crate::support::Server;

/// Measures one page and says whether it is there in time, the first time and mostly.
pub(crate) async fn page(
    server: &Server,
    cookie: &str,
    (name, path): (&str, &str),
    rounds: usize,
    within: Duration,
) -> bool {
    let mut times = Vec::with_capacity(rounds);
    let mut bytes = 0;
    let cpu = cpu_ms();
    for _ in 0..rounds {
        let before = Instant::now();
        let answer = server.send(server.request("GET", path, "").header("cookie", cookie)).await;
        times.push(before.elapsed());
        assert_eq!(answer.status, 200, "{path}: {}", answer.body);
        bytes = answer.body.len();
    }
    let cpu = (cpu_ms() - cpu) / rounds as f64;
    let first = times[0];
    times.sort_unstable();
    let at = |share: usize| times[(rounds - 1) * share / 100];
    let ms = |time: Duration| time.as_secs_f64() * 1_000.0;
    let share = at(50).as_secs_f64() / within.as_secs_f64() * 100.0;
    println!(
        "{name:<24} {:>8.1} {:>8.1} {:>8.1} {cpu:>8.1} {bytes:>9} {share:>6.1} %",
        ms(first),
        ms(at(50)),
        ms(at(95))
    );
    at(50) <= within && first <= within
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

/// Somebody who may see everything.
pub(crate) async fn sign_in(server: &Server, tenant: &str, scope: Scope) -> String {
    let token = server.token(tenant, &[scope]).await;
    let answer = server.send(server.request("POST", "/sign-in", "").form(&[("token", &token)])).await;
    assert_eq!(answer.status, 303, "{answer:?}");
    answer.header("set-cookie").split(';').next().expect("there is a cookie").to_owned()
}

/// The first line of a table of pages.
pub(crate) fn heading(within: Duration) {
    println!(
        "{:<24} {:>8} {:>8} {:>8} {:>8} {:>9} of {within:?}",
        "page", "first ms", "p50 ms", "p95 ms", "CPU ms", "bytes"
    );
}
