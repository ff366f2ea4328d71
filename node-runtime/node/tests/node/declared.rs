//! What a function declares in its signed statement, and what the node makes of it, with the real programs.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use mfaas_attest::{Declared, ServedFunction};
use mfaas_delivery::Report;
use mfaas_ident::{Isolation, TenantName};
use mfaas_rules::codes;
use rustix::process::Signal;
use tokio::task::JoinHandle;

use crate::documents::{PUBLIC, Signer, function, served, set};
use crate::program::{Answer, Node, cpu_ticks, gone, kill};
use crate::server::Server;
use crate::{artifact, settled, stage};

/// Enough for what [`work`] asks of the function, on any machine.
const LONG_US: u64 = 10_000_000;

/// CPU time by which a worker is known to be in the middle of [`work`], in hundredths of a second: more than a
/// worker needs to start, less than the call takes.
const WORKING_TICKS: u64 = 20;

const NOTHING: Declared = PUBLIC;
const IDEMPOTENT: Declared = Declared { idempotent: true, ..NOTHING };
const PROCESS: Declared = Declared { isolation: Isolation::Process, ..NOTHING };

/// A function with one version that declares this.
fn declaring(
    server: &Server,
    signer: &Signer,
    tenant: &str,
    name: &str,
    declared: Option<Declared>,
) -> ServedFunction {
    let version = served(1, &artifact::build(1), LONG_US);
    let version = signer.admit_as(&mut server.desk(), tenant, name, declared, &version);
    ServedFunction { tenant: TenantName::parse(tenant).unwrap(), ..function(name, &[&version], 1) }
}

/// Starts a call that takes a good part of a second.
fn work(node: &Arc<Node>, function: &'static str) -> JoinHandle<Answer> {
    let node = Arc::clone(node);
    tokio::spawn(async move { node.call(function, "work").await })
}

/// CPU time of the workers.
fn worked(node: &Node) -> BTreeMap<u32, u64> {
    node.workers().into_iter().map(|pid| (pid, cpu_ticks(pid))).collect()
}

/// Ends the worker that is in the middle of a call, and no other: a call that is given to one that is about to
/// be found dead has run there, as far as the node can tell.
async fn end_the_one_that_works(node: &Node, before: &BTreeMap<u32, u64>) {
    let deadline = Instant::now() + Duration::from_secs(20);
    loop {
        let now = worked(node);
        let busy = |(pid, ticks): (&u32, &u64)| {
            ticks.saturating_sub(*before.get(pid).unwrap_or(&0)) >= WORKING_TICKS
        };
        if let Some(pid) = now.iter().find(|row| busy(*row)).map(|(pid, _)| *pid) {
            kill(pid, Signal::KILL);
            return gone(&[pid]).await;
        }
        assert!(Instant::now() < deadline, "nobody works: {before:?} {now:?}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn only_a_call_that_may_run_twice_survives_its_worker() {
    let (server, signer, home) = stage().await;
    let functions = [
        declaring(&server, &signer, "acme", "again", Some(IDEMPOTENT)),
        declaring(&server, &signer, "acme", "once", Some(NOTHING)),
        declaring(&server, &signer, "acme", "older", None),
    ];
    signer.publish(&mut server.desk(), &set(1, &functions));
    let node = Arc::new(home.start().await);
    for name in ["again", "once", "older"] {
        node.answers(name, "version 1").await;
    }
    for (name, survives) in [("once", false), ("again", true), ("older", false)] {
        settled(&node).await;
        let before = worked(&node);
        let call = work(&node, name);
        end_the_one_that_works(&node, &before).await;
        let answer = call.await.unwrap();
        if survives {
            assert_eq!((answer.status, answer.body.as_str()), (200, "worked"), "{name}: {answer:?}");
        } else {
            assert!(answer.status == 503 && answer.body.contains("MF0808"), "{name}: {answer:?}");
        }
    }
    // It runs a second time, and not a third.
    settled(&node).await;
    let before = worked(&node);
    let call = work(&node, "again");
    end_the_one_that_works(&node, &before).await;
    let before = worked(&node);
    end_the_one_that_works(&node, &before).await;
    let answer = call.await.unwrap();
    assert!(answer.status == 503 && answer.body.contains("MF0808"), "{answer:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_declares_a_process_runs_in_another_one_than_what_is_shared() {
    let (server, signer, home) = stage().await;
    let functions = [
        declaring(&server, &signer, "acme", "plain", Some(NOTHING)),
        declaring(&server, &signer, "acme", "vault", Some(PROCESS)),
    ];
    signer.publish(&mut server.desk(), &set(1, &functions));
    let node = home.start().await;
    node.answers("plain", "version 1").await;
    let shared = settled(&node).await;
    node.answers("vault", "version 1").await;
    let own: Vec<u32> = node.workers().into_iter().filter(|pid| !shared.contains(pid)).collect();
    assert_eq!(own.len(), 1, "one process more, for acme's own");
    let metrics = async || node.get("/metrics").await.body;
    assert!(metrics().await.contains("mfaas_private_cordons"));

    // Each of the two goes on while the other's process stands still, and goes down with its own alone.
    for (stands_still, runs, stuck) in [(&shared, "vault", "plain"), (&own, "plain", "vault")] {
        stands_still.iter().for_each(|pid| kill(*pid, Signal::STOP));
        let (waits, ()) = tokio::join!(node.call(stuck, ""), async {
            assert_eq!(node.call(runs, "").await.body, "version 1", "{runs}");
            tokio::time::sleep(Duration::from_millis(100)).await;
            stands_still.iter().for_each(|pid| kill(*pid, Signal::KILL));
        });
        assert!(waits.body.contains("MF0808"), "{stuck}: {waits:?}");
        node.answers(stuck, "version 1").await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn beyond_the_limit_a_function_is_refused_and_comes_when_another_tenant_has_left() {
    let (server, signer, mut home) = stage().await;
    home.give_cordons(1);
    let first = declaring(&server, &signer, "acme", "vault", Some(PROCESS));
    let second = declaring(&server, &signer, "umbrella", "vault", Some(PROCESS));
    let plain = declaring(&server, &signer, "umbrella", "plain", Some(NOTHING));
    signer.publish(&mut server.desk(), &set(1, &[first, second.clone(), plain.clone()]));
    let node = home.start().await;
    node.answers("vault", "version 1").await;
    let refused = |report: &Report| {
        let row = report.refused.iter().find(|row| row.code == codes::MF0712);
        row.is_some_and(|row| row.tenant.as_str() == "umbrella" && row.function.as_str() == "vault")
    };
    let report = server.reported("the refusal", refused).await;
    assert_eq!((report.refused.len(), report.loaded.len()), (1, 2), "{report:?}");
    assert_eq!(node.call_of("umbrella", "vault", "").await.status, 503, "and not in a shared worker");
    assert_eq!(node.call_of("umbrella", "plain", "").await.body, "version 1");
    let before = node.workers();
    assert_eq!(before.len(), 3);

    signer.publish(&mut server.desk(), &set(2, &[second, plain]));
    server.reported("both of umbrella", |report| report.refused.is_empty() && report.loaded.len() == 2).await;
    // The worker of acme leaves first: the node has three processes at a time and no more.
    for _ in 0..500 {
        let answer = node.call_of("umbrella", "vault", "").await;
        let workers = node.workers();
        assert!(workers.len() <= 3, "{workers:?}");
        if answer.status == 200 {
            let new: Vec<_> = workers.iter().filter(|pid| !before.contains(pid)).collect();
            assert_eq!(new.len(), 1, "no process of another tenant's is taken over: {before:?} {workers:?}");
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("umbrella never got its worker: {:?}", node.workers());
}
