//! What a function declares in its signed statement, and what the node makes of it, with the real programs.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use mfaas_attest::{Declared, ServedFunction};
use mfaas_ident::{Isolation, TenantName};
use rustix::process::Signal;
use tokio::task::JoinHandle;

use crate::documents::{PUBLIC, Signer, function, served, set};
use crate::program::{Answer, Node, cpu_ticks, gone, kill};
use crate::server::Server;
use crate::{BUDGET_US, artifact, settled, stage};

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
    budget_us: u64,
) -> ServedFunction {
    let version = served(1, &artifact::build(1), budget_us);
    let version = signer.admit_as(&mut server.records(), tenant, name, declared, &version);
    ServedFunction { tenant: TenantName::parse(tenant).unwrap(), ..function(name, &[&version], 1) }
}

/// Starts a call that takes a good part of a second.
fn work(node: &Arc<Node>, function: &'static str) -> JoinHandle<Answer> {
    let node = Arc::clone(node);
    tokio::spawn(async move { node.call(function, "work").await })
}

/// CPU time of the workers.
pub fn worked(node: &Node) -> BTreeMap<u32, u64> {
    node.workers().into_iter().map(|pid| (pid, cpu_ticks(pid))).collect()
}

/// Ends the worker that is in the middle of a call, and no other: a call that is given to one that is about to
/// be found dead has run there, as far as the node can tell.
pub async fn end_the_one_that_works(node: &Node, before: &BTreeMap<u32, u64>) {
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
        declaring(&server, &signer, "acme", "again", Some(IDEMPOTENT), LONG_US),
        declaring(&server, &signer, "acme", "once", Some(NOTHING), LONG_US),
        declaring(&server, &signer, "acme", "older", None, LONG_US),
    ];
    signer.publish(&mut server.records(), &set(1, &functions));
    let node = Arc::new(home.start().await);
    for name in ["again", "once", "older"] {
        node.answers(name, "version 1").await;
    }
    for (name, survives) in [("once", false), ("again", true), ("older", false)] {
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
        declaring(&server, &signer, "acme", "plain", Some(NOTHING), BUDGET_US),
        declaring(&server, &signer, "acme", "vault", Some(PROCESS), BUDGET_US),
    ];
    signer.publish(&mut server.records(), &set(1, &functions));
    let node = home.start().await;
    node.answers("plain", "version 1").await;
    let shared = settled(&node).await;
    node.answers("vault", "version 1").await;
    let own: Vec<u32> = node.workers().into_iter().filter(|pid| !shared.contains(pid)).collect();
    assert_eq!(own.len(), 1, "one process more, for acme's own");
    let metrics = async || node.get("/metrics").await.body;
    assert!(metrics().await.contains("mfaas_worker_pools"));

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
