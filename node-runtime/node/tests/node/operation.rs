//! Usage, bans that last, cordon and drain, with the real programs.

use std::sync::Arc;
use std::time::Duration;

use mfaas_delivery::{Availability, Ban, Condition, Directives, Kill, SERVER_PROTOCOL};
use mfaas_ident::Epoch;
use mfaas_rules::codes;
use rustix::process::Signal;

use crate::documents::{function, set};
use crate::server::Server;
use crate::{BUDGET_US, artifact, crash, serve_slow, serving, spin};

fn direct(server: &Server, availability: Availability, bans: Vec<Ban>) {
    server.records().directives = Some(Directives { protocol: SERVER_PROTOCOL, availability, bans });
}

#[tokio::test(flavor = "multi_thread")]
async fn every_call_is_reported_the_last_ones_when_the_node_stops() {
    let (server, _signer, _home, node) = serving().await;
    for _ in 0..5 {
        assert_eq!(node.call("hello", "panic").await.status, 502);
    }
    assert_eq!(node.call("hello", "spin").await.status, 504);
    let metrics = node.get("/metrics").await.body;
    for line in [
        "mfaas_function_run_seconds_bucket{tenant=\"acme\",function=\"hello\",le=\"0.000001\"}",
        "mfaas_function_kills_total{tenant=\"acme\",function=\"hello\",reason=\"panicked\"} 5",
    ] {
        assert!(metrics.contains(line), "{line}: {metrics}");
    }
    let shown = "mfaas_function_run_seconds_count{tenant=\"acme\",function=\"hello\"} ";
    let calls = metrics.lines().find_map(|line| line.strip_prefix(shown)).unwrap().parse::<u64>().unwrap();
    node.signal(Signal::TERM);
    assert!(node.ended().await.success());
    let last = server.records().usage.last().cloned().unwrap();
    let row = &last.rows[0];
    assert_eq!((row.calls, row.kills.get(&Kill::Panicked)), (calls, Some(&5)));
    assert_eq!(row.kills.get(&Kill::OverBudget), Some(&1));
    // The loop had 50 ms of the core.
    assert!(row.cpu_ns > 40_000_000 && row.run_ns_max > 40_000_000, "{row:?}");
    assert!(row.runs.is_empty(), "a server of the release before knows no run times: {row:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn load_is_reported_and_run_times_to_a_server_that_takes_it() {
    let (server, _signer, _home, node) = serving().await;
    server.records().takes_load = true;
    assert_eq!(node.call("hello", "spin").await.status, 504);
    // Every ten seconds.
    let reported = async {
        while server.records().load.is_empty() {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), reported).await.unwrap();
    let told: u64 = server.records().load.iter().map(|load| load.cpu_ns).sum();
    assert!(told > 40_000_000, "the loop had 50 ms of the core: {:?}", server.records().load);
    node.signal(Signal::TERM);
    assert!(node.ended().await.success());
    let row = server.records().usage.last().unwrap().rows[0].clone();
    assert_eq!(row.runs.iter().sum::<u64>(), row.calls, "{row:?}");
    assert!(row.runs.len() > 14, "50 ms are above 20 ms: {row:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_drained_node_answers_what_it_accepted_and_nothing_else() {
    let (mut server, signer, home, node) = serving().await;
    serve_slow(&server, &signer, &node).await;
    let node = Arc::new(node);
    let accepted = spin(&node, "slow").await;
    direct(&server, Availability::Draining, Vec::new());
    server.reported("draining", |report| report.condition == Condition::Draining).await;
    let refused = node.call("slow", "").await;
    assert!(refused.status == 503 && refused.body.contains("MF0815"), "{refused:?}");
    assert!(refused.headers.contains_key("retry-after"), "{refused:?}");
    assert_eq!(node.get("/readyz").await.status, 503);
    assert_eq!(accepted.await.unwrap().status, 504, "it ran to the end of its budget");
    server.reported("drained", |report| report.condition == Condition::Drained).await;

    node.signal(Signal::TERM);
    assert!(Arc::into_inner(node).unwrap().ended().await.success());
    server.down().await;
    let node = home.start().await;
    let refused = node.call("slow", "").await;
    assert!(refused.body.contains("MF0815"), "without its server, too: {refused:?}");
    direct(&server, Availability::Active, Vec::new());
    server.up().await;
    node.answers("slow", "version 1").await;
    server.reported("active", |report| report.condition == Condition::Active).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cordoned_node_serves_what_it_has_and_takes_the_rest_later() {
    let (server, signer, home, node) = serving().await;
    let versions =
        [1, 2].map(|n| signer.admit(&mut server.records(), "hello", n, &artifact::build(n), BUDGET_US));
    let publish = |epoch: u64, live: u32| {
        let served: Vec<_> = versions.iter().take(live as usize).collect();
        signer.publish(&mut server.records(), &set(epoch, &[function("hello", &served, live)]));
    };
    publish(2, 1);
    server.reported("epoch 2", |report| report.epoch == Epoch(2)).await;
    direct(&server, Availability::Cordoned, Vec::new());
    server.reported("cordoned", |report| report.condition == Condition::Cordoned).await;
    publish(3, 2);
    let is_refused = |report: &mfaas_delivery::Report| {
        report.refused.iter().any(|row| row.code == codes::MF0711 && row.version.get() == 2)
    };
    server.reported("version 2 is not taken", is_refused).await;
    assert_eq!(node.call("hello", "").await.body, "version 1");
    node.signal(Signal::TERM);
    assert!(node.ended().await.success());

    let node = home.start().await;
    node.answers("hello", "version 1").await;
    assert_eq!(node.call("hello@2", "").await.status, 503, "named, and not loaded before it is uncordoned");
    direct(&server, Availability::Active, Vec::new());
    node.answers("hello", "version 2").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_ban_outlives_the_node_and_holds_until_it_is_lifted() {
    let (mut server, signer, home, node) = serving().await;
    direct(&server, Availability::Active, Vec::new());
    serve_slow(&server, &signer, &node).await;
    let node = Arc::new(node);
    for _ in 0..3 {
        assert_eq!(crash(&node, "acme", "slow").await.status, 503);
    }
    let banned = async |node: &crate::program::Node| {
        for _ in 0..500 {
            let answer = node.call("slow", "").await;
            if answer.status == 503 && answer.body.contains("MF0813") {
                return;
            }
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
        panic!("it is not banned");
    };
    banned(&node).await;
    for _ in 0..500 {
        if !server.records().bans.is_empty() {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    let reported = server.records().bans.clone();
    assert_eq!((reported.len(), reported[0].ban.function.as_str(), reported[0].ban.crashes), (1, "slow", 3));

    node.signal(Signal::KILL);
    assert!(!Arc::into_inner(node).unwrap().ended().await.success());
    server.down().await;
    let node = home.start().await;
    banned(&node).await;
    server.up().await;
    direct(&server, Availability::Active, Vec::new());
    node.answers("slow", "version 1").await;
    // Spoken by another node.
    direct(&server, Availability::Active, vec![reported[0].ban.clone()]);
    banned(&node).await;
}
