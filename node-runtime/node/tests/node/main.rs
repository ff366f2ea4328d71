//! The whole node: real programs, real TLS, real signatures, real functions.

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]
#![allow(unreachable_pub, reason = "the modules of a test have no other reader")]

mod artifact;
mod bulk;
mod callers;
mod declared;
mod documents;
mod isolation;
mod operation;
mod pools;
mod program;
mod server;
mod tokens;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use chrono::{TimeDelta, Utc};
use declared::{end_the_one_that_works, worked};
use documents::{Signer, function, set};
use mfaas_attest::{EPOCHS_AHEAD_MAX, ServedFunction, ServingSet, sign};
use mfaas_delivery::{Report, SetState};
use mfaas_ident::{AliasName, Digest, Epoch};
use mfaas_rules::codes;
use program::{Answer, Home, Node, gone, kill};
use rustix::process::Signal;
use server::Server;
use tokio::task::JoinHandle;

const BUDGET_US: u64 = 50_000;

/// A server, a signer and a joined node's home; nothing published. Tenants share two workers, on any
/// machine.
async fn stage() -> (Server, Signer, Home) {
    let (server, signer, mut home) = stage_by_default().await;
    home.share("with-verified-code");
    (server, signer, home)
}

/// The same for a node whose operator says nothing of who shares workers.
async fn stage_by_default() -> (Server, Signer, Home) {
    // Whether this or another test was first.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let (server, signer) = (Server::start().await, Signer::new());
    server.records().key_list = signer.key_list();
    let home = Home::joined(&server, &signer).await;
    (server, signer, home)
}

/// The same with `acme/hello@1` published as epoch 1, and the node serving it.
async fn serving() -> (Server, Signer, Home, Node) {
    let (server, signer, home) = stage().await;
    publish(&server, &signer, 1, 1);
    let node = home.start().await;
    node.answers("hello", "version 1").await;
    (server, signer, home, node)
}

/// Publishes `hello` with all versions up to `live`.
fn publish(server: &Server, signer: &Signer, epoch: u64, live: u32) -> ServingSet {
    publish_as(server, signer, epoch, live, |_| ())
}

/// The same, with something else about it.
fn publish_as(
    server: &Server,
    signer: &Signer,
    epoch: u64,
    newest: u32,
    change: impl FnOnce(&mut ServedFunction),
) -> ServingSet {
    let mut records = server.records();
    let versions: Vec<_> = (1..=newest)
        .map(|n| signer.admit(&mut records, "hello", n, &artifact::build(n), BUDGET_US))
        .collect();
    let mut hello = function("hello", &versions.iter().collect::<Vec<_>>(), newest);
    change(&mut hello);
    let set = set(epoch, &[hello]);
    signer.publish(&mut records, &set);
    set
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_token_joins_nothing_and_the_key_that_asked_is_kept() {
    let (server, signer) = (Server::start().await, Signer::new());
    let home = Home::new(&server, &signer);
    assert!(!home.join("guessed").await.success());
    let key = || std::fs::read_to_string(home.path("state/node.key")).unwrap();
    let asked_with = key();
    assert!(!home.path("state/node.pem").exists());
    assert!(home.join(server::TOKEN).await.success());
    assert_eq!(key(), asked_with, "an answer that is lost is asked for again with the same key");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_published_function_answers_with_its_headers_logs_and_report() {
    let (server, _signer, home, node) = serving().await;
    assert!(home.join("any token: joined already").await.success());
    let answer = node.call("hello@1", "count").await;
    assert_eq!((answer.status, answer.body.as_str()), (200, "call 1"));
    assert_eq!(node.call("hello@live", "count").await.body, "call 1", "no state survives a call");
    assert_eq!(answer.headers["mfaas-version"], "1");
    assert!(answer.headers["server-timing"].to_str().unwrap().starts_with("queue;dur="));
    assert!(!answer.headers.contains_key("set-cookie"));
    assert!(!node.call("hello", "headers").await.body.contains("cookie"));
    assert_eq!(node.call("hello@2", "").await.status, 404);
    assert_eq!(node.get("/readyz").await.status, 200);
    let metrics = node.get("/metrics").await.body;
    assert!(
        metrics.contains("mfaas_calls_total") && metrics.contains("mfaas_run_seconds_bucket"),
        "{metrics}"
    );
    for series in [
        "mfaas_request_seconds_bucket{function=\"acme/hello\",le=\"0.001\"}",
        "mfaas_request_seconds_count{function=\"acme/hello\"} ",
        "mfaas_ingress_connections ",
        "mfaas_ingress_connections_total ",
        "mfaas_ingress_limit{limit=\"peer_connections\"} 1280",
        "mfaas_build_info{program=\"mfaas-node\",version=",
        "process_cpu_seconds_total ",
        "process_resident_memory_bytes ",
        "process_open_fds ",
    ] {
        assert!(metrics.contains(series), "{series}: {metrics}");
    }

    node.call("hello", "log").await;
    let report = server.reported("loaded", |report| report.set == SetState::Current).await;
    assert_eq!((report.epoch, report.workers, report.versions), (Epoch(1), 2, 1));
    for _ in 0..200 {
        if server.records().lines.iter().any(|line| line.text == "a line") {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("the log line never arrived: {:?}", server.records().lines);
}

#[tokio::test(flavor = "multi_thread")]
async fn every_bad_end_has_its_code_and_the_next_call_is_served() {
    let (_server, _signer, _home, node) = serving().await;
    for (body, status, code) in
        [("panic", 502, "MF0802"), ("spin", 504, "MF0803"), ("deep", 502, "MF0804"), ("hoard", 502, "MF0805")]
    {
        let answer = node.call("hello", body).await;
        assert_eq!(answer.status, status, "{body}: {answer:?}");
        assert!(answer.body.contains(code), "{body}: {answer:?}");
        assert_eq!(node.call("hello", "").await.body, "version 1", "after {body}");
    }
    assert_eq!(node.call("hello", &"x".repeat((1 << 20) + 1)).await.status, 413);
}

#[tokio::test(flavor = "multi_thread")]
async fn no_call_fails_while_versions_change() {
    let (server, signer, _home, node) = serving().await;
    let node = Arc::new(node);
    let over = Arc::new(AtomicBool::new(false));
    let callers: Vec<_> = (0..4)
        .map(|_| {
            let (node, over) = (Arc::clone(&node), Arc::clone(&over));
            tokio::spawn(async move {
                let mut calls = 0;
                while !over.load(Ordering::Relaxed) {
                    let answer = node.call("hello", "").await;
                    assert_eq!(answer.status, 200, "{answer:?}");
                    calls += 1;
                }
                calls
            })
        })
        .collect();
    publish(&server, &signer, 2, 2);
    node.answers("hello", "version 2").await;
    // Back: a higher epoch with the old version, the images as they are.
    publish_as(&server, &signer, 3, 2, |hello| {
        hello.aliases.insert(AliasName::live(), hello.versions[0].version);
    });
    node.answers("hello", "version 1").await;
    // And away with version 2: another generation.
    publish(&server, &signer, 4, 1);
    server.reported("epoch 4", |report| report.epoch == Epoch(4) && report.versions == 1).await;
    over.store(true, Ordering::Relaxed);
    for caller in callers {
        assert!(caller.await.unwrap() > 0);
    }
}

/// Replaces what is served by `acme/slow@1`, which may run for five seconds.
async fn serve_slow(server: &Server, signer: &Signer, node: &Node) {
    let slow = signer.admit(&mut server.records(), "slow", 1, &artifact::build(1), 5_000_000);
    signer.publish(&mut server.records(), &set(2, &[function("slow", &[&slow], 1)]));
    node.answers("slow", "version 1").await;
}

/// Starts a call that does not end by itself, and gives it time to reach a worker.
async fn spin(node: &Arc<Node>, function: &'static str) -> JoinHandle<Answer> {
    let node = Arc::clone(node);
    let call = tokio::spawn(async move { node.call(function, "spin").await });
    tokio::time::sleep(Duration::from_millis(200)).await;
    call
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_worker_costs_one_answer_is_replaced_and_in_the_end_bans() {
    let (server, signer, _home, node) = serving().await;
    let shared = settled(&node).await;
    serve_slow(&server, &signer, &node).await;
    let node = Arc::new(node);
    for _ in 0..3 {
        let answer = crash(&node, "acme", "slow").await;
        assert_eq!(answer.status, 503, "{answer:?}");
        assert!(answer.body.contains("MF0808"), "{answer:?}");
    }
    let answer = node.call("slow", "").await;
    assert!(answer.status == 503 && answer.body.contains("MF0813"), "{answer:?}");
    let banned = |report: &Report| report.refused.iter().any(|row| row.code == codes::MF0813);
    server.reported("the ban", banned).await;
    assert_eq!(sorted(settled(&node).await), sorted(shared), "the workers of short calls saw nothing of it");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_stands_still_is_killed_at_the_wall_backstop() {
    let (_server, _signer, _home, node) = serving().await;
    let node = Arc::new(node);
    let workers = settled(&node).await;
    workers.iter().for_each(|pid| kill(*pid, Signal::STOP));
    let answer = node.call("hello", "").await;
    assert!(answer.status == 504 && answer.body.contains("MF0803"), "{answer:?}");
    node.answers("hello", "version 1").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_outlasts_the_node_is_answered_as_lost() {
    let (server, signer, _home, node) = serving().await;
    let longest = signer.admit(&mut server.records(), "slow", 1, &artifact::build(1), 10_000_000);
    signer.publish(&mut server.records(), &set(2, &[function("slow", &[&longest], 1)]));
    node.answers("slow", "version 1").await;
    let node = Arc::new(node);
    let call = spin(&node, "slow").await;
    let asked = Instant::now();
    node.signal(Signal::TERM);
    let answer = call.await.unwrap();
    assert!(answer.status == 503 && answer.body.contains("MF0808"), "{answer:?}");
    assert!(Arc::into_inner(node).unwrap().ended().await.success());
    assert!(asked.elapsed() < Duration::from_secs(10), "{:?}", asked.elapsed());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dead_loader_is_replaced_with_its_slab_and_no_call_fails() {
    let (server, signer, _home, node) = serving().await;
    let node = Arc::new(node);
    let before = settled(&node).await;
    let over = Arc::new(AtomicBool::new(false));
    let caller = {
        let (node, over) = (Arc::clone(&node), Arc::clone(&over));
        tokio::spawn(async move {
            while !over.load(Ordering::Relaxed) {
                let answer = node.call("hello", "").await;
                assert_eq!(answer.status, 200, "{answer:?}");
            }
        })
    };
    let loaders = node.loaders();
    assert_eq!(loaders.len(), 1);
    kill(loaders[0], Signal::KILL);
    publish(&server, &signer, 2, 2);
    node.answers("hello", "version 2").await;
    over.store(true, Ordering::Relaxed);
    caller.await.unwrap();
    assert_eq!(node.call("hello@1", "").await.body, "version 1", "what was resident is so again");
    gone(&before).await;
    assert_eq!(settled(&node).await.len(), 2);
    assert_ne!(node.loaders(), loaders);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_whose_deadline_passes_while_it_waits_does_not_run() {
    let (server, signer, _home, node) = serving().await;
    serve_slow(&server, &signer, &node).await;
    let node = Arc::new(node);
    let (one, other) = (spin(&node, "slow").await, spin(&node, "slow").await);
    let late = node.call_within("slow", "", "150").await;
    assert!(late.status == 504 && late.body.contains("MF0811"), "{late:?}");
    assert!(late.headers["server-timing"].to_str().unwrap().contains("run;dur=0.0000"), "{late:?}");
    assert_eq!(node.call_within("slow", "", "soon").await.status, 400);
    for call in [one, other] {
        assert!(call.await.unwrap().body.contains("MF0803"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_isolated_tenant_gets_a_worker_of_its_own_with_its_first_call() {
    let (server, signer, mut home) = stage().await;
    home.isolate("acme");
    publish(&server, &signer, 1, 1);
    let node = home.start().await;
    server.reported("loaded", |report| report.versions == 1).await;
    let shared = settled(&node).await;
    node.answers("hello", "version 1").await;
    let all = node.workers();
    assert_eq!(all.len(), 3, "two that tenants share, and acme's");
    shared.iter().for_each(|pid| kill(*pid, Signal::STOP));
    assert_eq!(node.call("hello", "").await.body, "version 1", "the shared ones are not needed");
}

/// A call that loses its worker while it runs, and how it is answered. Who is to be struck for it must be the
/// only one that the worker ran.
async fn crash(node: &Arc<Node>, tenant: &'static str, function: &'static str) -> Answer {
    let before = worked(node);
    let calling = Arc::clone(node);
    let call = tokio::spawn(async move { calling.call_of(tenant, function, "spin").await });
    end_the_one_that_works(node, &before).await;
    call.await.unwrap()
}

fn sorted(mut pids: Vec<u32>) -> Vec<u32> {
    pids.sort_unstable();
    pids
}

/// The workers, once there are exactly two.
async fn settled(node: &Node) -> Vec<u32> {
    for _ in 0..500 {
        let workers = node.workers();
        if workers.len() == 2 {
            return workers;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("workers: {:?}", node.workers());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restarted_node_serves_without_its_server_and_refuses_an_old_set() {
    let (mut server, signer, home, node) = serving().await;
    let old = server.records().set.clone().unwrap();
    publish(&server, &signer, 2, 2);
    node.answers("hello", "version 2").await;
    server.down().await;
    node.signal(Signal::TERM);
    assert!(node.ended().await.success());

    let node = home.start().await;
    node.answers("hello", "version 2").await;
    // The replayed set claims to be newer on the outside; what is signed says epoch 1.
    server.records().set = Some(old);
    server.records().reports.clear();
    server.up().await;
    tokio::time::sleep(Duration::from_secs(3)).await;
    let report = server.reported("a report", |_| true).await;
    assert_eq!(report.epoch, Epoch(2));
    assert_eq!(node.call("hello", "").await.body, "version 2");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flipped_byte_or_another_key_stops_that_function_alone() {
    let (server, signer, _home, node) = serving().await;
    let stranger = Signer::new();
    {
        let mut records = server.records();
        let hello = signer.admit(&mut records, "hello", 1, &artifact::build(1), BUDGET_US);
        let flipped = signer.admit(&mut records, "flipped", 1, &artifact::build(2), BUDGET_US);
        records.blobs.get_mut(&flipped.digest).unwrap()[1000] ^= 1;
        let foreign = stranger.admit(&mut records, "foreign", 1, &artifact::build(3), BUDGET_US);
        let broken = signer.admit(&mut records, "broken", 1, b"\x7fELF", BUDGET_US);
        let functions = [
            function("hello", &[&hello], 1),
            function("flipped", &[&flipped], 1),
            function("foreign", &[&foreign], 1),
            function("broken", &[&broken], 1),
        ];
        signer.publish(&mut records, &set(2, &functions));
    }
    let report = server.reported("epoch 2", |report| report.epoch == Epoch(2)).await;
    let codes: Vec<_> = report.refused.iter().map(|row| (row.function.as_str(), row.code)).collect();
    assert_eq!(codes, [("broken", codes::MF0708), ("flipped", codes::MF0704), ("foreign", codes::MF0602)]);
    assert_eq!(node.call("hello", "").await.body, "version 1");
    for name in ["foreign", "broken"] {
        assert_eq!(node.call(name, "").await.status, 404, "{name}: refused for good");
    }
    let coming = node.call("flipped", "").await;
    assert!(coming.status == 503 && coming.body.contains("MF0820"), "its bytes may still come: {coming:?}");
    assert_eq!(coming.headers["retry-after"], "1");
    assert_eq!(node.call("hello@9", "").await.status, 404, "no set names it");
    let healed = artifact::build(2);
    server.records().blobs.insert(Digest::of(&healed), healed);
    node.answers("flipped", "version 2").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_set_of_another_key_changes_nothing() {
    let (server, _signer, _home, node) = serving().await;
    let foreign = sign(&set(9, &[]), &[&Signer::new().online]).unwrap();
    server.records().set = Some(foreign);
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(node.call("hello", "").await.body, "version 1");
    let report = server.reported("a report", |_| true).await;
    assert_eq!(report.epoch, Epoch(1));
}

/// What the stolen key signed stops, however far its set was ahead, and comes back under the next key.
#[tokio::test(flavor = "multi_thread")]
async fn after_a_leak_nothing_runs_that_only_the_stolen_key_vouches_for() {
    let (server, thief, _home, node) = serving().await;
    let ahead = 1 + EPOCHS_AHEAD_MAX;
    let old = publish(&server, &thief, ahead, 2);
    node.answers("hello", "version 2").await;

    let signer = thief.with_another_key();
    server.records().key_list = signer.key_list_of(2);
    let next = ServingSet { key_list_version: 2, epoch: Epoch(2), ..old };
    signer.publish(&mut server.records(), &next);
    let report = server.reported("epoch 2", |report| report.epoch == Epoch(2)).await;
    assert_eq!(report.refused.iter().map(|row| row.code).collect::<Vec<_>>(), [codes::MF0602; 2]);
    assert_eq!(node.call("hello", "").await.status, 404, "neither it nor what it stood before");

    let again = publish(&server, &signer, 3, 1);
    signer.publish(&mut server.records(), &ServingSet { key_list_version: 2, ..again });
    node.answers("hello", "version 1").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_revoked_version_is_gone_even_when_it_is_still_named() {
    let (server, signer, _home, node) = serving().await;
    publish_as(&server, &signer, 3, 1, |hello| {
        hello.revoked.insert(hello.versions[0].digest);
    });
    let report = server.reported("epoch 3", |report| report.epoch == Epoch(3)).await;
    assert_eq!(report.refused[0].code, codes::MF0706);
    assert_eq!(node.call("hello", "").await.status, 404);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_expired_set_serves_on_but_after_a_restart_nothing_until_the_next_set() {
    let (server, signer, home) = stage().await;
    {
        let mut records = server.records();
        let hello = signer.admit(&mut records, "hello", 1, &artifact::build(1), BUDGET_US);
        let mut short = set(1, &[function("hello", &[&hello], 1)]);
        short.expires_at = Utc::now() + TimeDelta::seconds(12);
        signer.publish(&mut records, &short);
    }
    let node = home.start().await;
    node.answers("hello", "version 1").await;
    server.reported("expired", |report| report.set == SetState::Expired).await;
    assert_eq!(node.call("hello", "").await.body, "version 1", "what is loaded goes on");
    node.signal(Signal::TERM);
    assert!(node.ended().await.success());

    server.records().reports.clear();
    let node = home.start().await;
    let report = server.reported("expired", |report| report.set == SetState::Expired).await;
    assert_eq!(report.versions, 0);
    let told = |text: &str| text.contains("the node serves nothing until the server gives it the next one");
    assert!(report.problems.iter().any(|p| p.code == codes::MF0703 && told(&p.message)), "{report:?}");
    let ready = node.get("/readyz").await;
    assert!(ready.status == 503 && ready.body.contains("has expired") && told(&ready.body), "{ready:?}");
    let call = node.call("hello", "").await;
    assert!(call.status == 503 && call.body.contains("MF0820"), "no set is in force: {call:?}");

    // All that was missing is somebody's word that it may run today.
    publish(&server, &signer, 2, 1);
    node.answers("hello", "version 1").await;
    assert_eq!(node.get("/readyz").await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_left_of_a_node_that_stopped_or_was_killed() {
    let (_server, _signer, home, node) = serving().await;
    let left = [settled(&node).await, node.loaders()].concat();
    node.signal(Signal::TERM);
    assert!(node.ended().await.success());
    gone(&left).await;

    let node = home.start().await;
    node.answers("hello", "version 1").await;
    let left = [settled(&node).await, node.loaders()].concat();
    node.signal(Signal::KILL);
    assert!(!node.ended().await.success());
    gone(&left).await;
}

/// Nobody listens at the first address; the second server answers everything, joining too.
#[tokio::test(flavor = "multi_thread")]
async fn a_node_goes_to_the_next_server_and_says_where_the_site_reaches_it() {
    let (server, signer, _) = stage().await;
    let mut home = Home::new(&server, &signer);
    home.ask_first("https://127.0.0.1:1");
    home.advertise("https://n1.example");
    assert!(home.join(server::TOKEN).await.success());
    publish(&server, &signer, 1, 1);
    let node = home.start().await;
    node.answers("hello", "version 1").await;
    let report = server.reported("epoch 1", |report| report.epoch == Epoch(1)).await;
    assert_eq!(report.ingress_url, "https://n1.example");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_renews_its_certificate_and_goes_on_with_it() {
    let (server, signer, _) = stage().await;
    server.records().gives_old_certificates = true;
    let home = Home::new(&server, &signer);
    assert!(home.join(server::TOKEN).await.success());
    let certificate = || std::fs::read_to_string(home.path("state/node.pem")).unwrap();
    let old = certificate();
    let node = home.start().await;
    let begun = std::time::Instant::now();
    while certificate() == old {
        assert!(begun.elapsed() < Duration::from_secs(20), "the node does not renew its certificate");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    publish(&server, &signer, 1, 1);
    node.answers("hello", "version 1").await;
    server.reported("epoch 1", |report| report.epoch == Epoch(1)).await;
    node.signal(Signal::TERM);
    assert!(node.ended().await.success());
    let node = home.start().await;
    node.answers("hello", "version 1").await;
    assert_eq!(server.records().renewals, 1, "the new one is not due");
}

/// Whoever balances calls leaves a node alone that has a set and none of the bytes that the set names.
#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_could_not_get_anything_of_its_first_set_is_not_ready() {
    let (server, signer, home) = stage().await;
    publish(&server, &signer, 1, 1);
    let image = artifact::build(1);
    server.records().blobs.remove(&Digest::of(&image)).unwrap();
    let node = home.start().await;
    server.reported("what is missing", |report| report.epoch == Epoch(1) && report.refused.len() == 1).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(node.get("/readyz").await.status, 503);
    server.records().blobs.insert(Digest::of(&image), image);
    node.answers("hello", "version 1").await;
    assert_eq!(node.get("/readyz").await.status, 200);
}
