//! Bulk functions: much memory, large bodies and seconds of CPU time, beside calls that take microseconds.

use std::sync::Arc;
use std::time::{Duration, Instant};

use mfaas_abi::Status;
use mfaas_abi::frame::encode_request;
use mfaas_attest::{Declared, ServedFunction};
use mfaas_ident::{Budget, Class, MemoryLimit};
use mfaas_ring::Completion;
use mfaas_ring::client::Client;
use rustix::process::Signal;
use tokio::task::JoinHandle;

use crate::documents::{PUBLIC, Signer, function, served, set};
use crate::program::{Answer, Home, Node, cpu_ticks, kill};
use crate::server::Server;
use crate::{BUDGET_US, artifact, stage};

const BULK: Declared = Declared { class: Class::Bulk, ..PUBLIC };
const MIB: usize = 1 << 20;
/// What the functions of these tests have at most.
const MEMORY_MIB: u64 = 512;

/// A bulk function with one version.
fn bulk(server: &Server, signer: &Signer, name: &str, budget: &str, memory_mib: u64) -> ServedFunction {
    let (mut version, artifact) = served(1, &artifact::build(1), BUDGET_US);
    version.budget_us = Budget::parse(budget).unwrap();
    version.memory_bytes = MemoryLimit::from_bytes(memory_mib << 20).unwrap();
    let version = signer.admit_as(&mut server.records(), "acme", name, Some(BULK), &(version, artifact));
    function(name, &[&version], 1)
}

/// `hello`, which is of class `micro`.
fn micro(server: &Server, signer: &Signer) -> ServedFunction {
    let version = signer.admit(&mut server.records(), "hello", 1, &artifact::build(1), BUDGET_US);
    function("hello", &[&version], 1)
}

/// A node with so many bulk workers that serves these.
async fn serving(
    workers: usize,
    functions: impl Fn(&Server, &Signer) -> Vec<ServedFunction>,
) -> (Server, Signer, Home, Arc<Node>) {
    let (server, signer, mut home) = stage().await;
    home.give_bulk(workers, workers * 2_000);
    let functions = functions(&server, &signer);
    signer.publish(&mut server.records(), &set(1, &functions));
    let node = home.start().await;
    node.answers("hello", "version 1").await;
    (server, signer, home, Arc::new(node))
}

fn start(node: &Arc<Node>, function: &'static str, body: Vec<u8>) -> JoinHandle<(u16, Vec<u8>)> {
    let node = Arc::clone(node);
    tokio::spawn(async move { node.send_bytes(function, body).await })
}

/// The code of a problem.
fn code(answer: &[u8]) -> String {
    let document: serde_json::Value = serde_json::from_slice(answer).unwrap_or_default();
    document["code"].as_str().unwrap_or_default().to_owned()
}

/// Workers that yield to all others.
fn bulk_workers(node: &Node) -> Vec<u32> {
    node.workers().into_iter().filter(|pid| nice(*pid) == 19).collect()
}

/// proc(5): the 17th field behind the state.
fn nice(pid: u32) -> i32 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let fields = stat.rsplit_once(')').map_or("", |(_, fields)| fields);
    fields.split_whitespace().nth(16).and_then(|field| field.parse().ok()).unwrap_or_default()
}

/// Memory of a process that is resident and its own, in MiB.
fn own_mib(pid: u32) -> usize {
    let statm = std::fs::read_to_string(format!("/proc/{pid}/statm")).unwrap();
    let pages: Vec<usize> = statm.split(' ').take(3).map(|text| text.parse().unwrap()).collect();
    (pages[1] - pages[2]) * 4_096 / MIB
}

async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(30);
    while !holds() {
        assert!(Instant::now() < deadline, "{what} never came");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Twenty megabytes go in, half a gigabyte is used, a second and more is computed, and the answer is right; a micro
/// function answers meanwhile, and afterwards the worker holds nothing of it.
#[tokio::test(flavor = "multi_thread")]
async fn a_bulk_call_is_answered_and_micro_calls_are_answered_beside_it() {
    let functions = |server: &Server, signer: &Signer| {
        vec![micro(server, signer), bulk(server, signer, "much", "600s", MEMORY_MIB)]
    };
    let (_server, _signer, _home, node) = serving(1, functions).await;
    assert_eq!(bulk_workers(&node), [0; 0], "no worker before the first call");
    let mut body = b"crunch".to_vec();
    body.extend((0..20 * MIB).map(|at| (at % 251) as u8));
    let sum = (0..(500 << 20) / 8_usize)
        .fold(0_u64, |sum, at| sum.wrapping_add((at as u64).wrapping_mul(u64::from(body[at % body.len()]))));
    let expected = format!("{} {sum}", body.len());
    let call = start(&node, "much", body);
    until("the worker", || bulk_workers(&node).first().is_some_and(|pid| cpu_ticks(*pid) > 20)).await;
    let shown = node.get("/metrics").await.body;
    assert!(shown.contains("mfaas_bulk_worker_processes "), "{shown}");
    let mut beside = 0;
    while !call.is_finished() {
        assert_eq!(node.call("hello", "").await.body, "version 1");
        beside += 1;
    }
    let (status, answer) = call.await.unwrap();
    assert_eq!((status, String::from_utf8_lossy(&answer).into_owned()), (200, expected));
    assert!(beside >= 20, "{beside} micro calls were answered beside a bulk call");
    // Its caller has the answer before the worker has cleared away what the call left.
    let workers = bulk_workers(&node);
    until("the memory", || own_mib(workers[0]) < 64).await;

    let mut echoed = b"echo".to_vec();
    echoed.resize(64 * MIB, 7);
    let (status, answer) = node.send_bytes("much", echoed.clone()).await;
    assert!(status == 200 && answer == echoed, "{status}, {} bytes", answer.len());
}

/// Another function of the same tenant runs in the same worker, and finds zeros where the first one wrote.
#[tokio::test(flavor = "multi_thread")]
async fn nothing_of_a_bulk_call_is_there_for_the_next() {
    let functions = |server: &Server, signer: &Signer| {
        let two = ["one", "other"].map(|name| bulk(server, signer, name, "60s", MEMORY_MIB));
        [micro(server, signer)].into_iter().chain(two).collect()
    };
    let (_server, _signer, _home, node) = serving(1, functions).await;
    assert_eq!(node.call("one", "leave").await.body, "left 170");
    let workers = bulk_workers(&node);
    assert_eq!(node.call("other", "look").await.body, "found 0");
    assert_eq!(node.call("one", "look").await.body, "found 0");
    assert_eq!(node.call("one", "count").await.body, "call 1");
    assert_eq!(node.call("one", "count").await.body, "call 1", "no state survives a call");
    assert_eq!(bulk_workers(&node), workers, "it was the same worker");
    assert_eq!(workers.len(), 1);
}

/// Every limit of a bulk function has its code, and none ends the worker.
#[tokio::test(flavor = "multi_thread")]
async fn a_bulk_call_beyond_a_limit_is_refused_with_its_code() {
    let functions = |server: &Server, signer: &Signer| {
        vec![micro(server, signer), bulk(server, signer, "little", "400ms", 64)]
    };
    let (_server, _signer, _home, node) = serving(1, functions).await;
    let refused = async |function: &str, body: Vec<u8>| {
        let (status, answer) = node.send_bytes(function, body).await;
        (status, code(&answer))
    };
    assert_eq!(refused("little", b"spin".to_vec()).await, (504, "MF0803".to_owned()));
    assert_eq!(refused("little", b"hoard".to_vec()).await, (502, "MF0805".to_owned()));
    let announced = node.announce("little", 64 * MIB + 1).await;
    assert!(announced.starts_with("HTTP/1.1 413") && announced.contains("MF0809"), "{announced}");
    assert_eq!(refused("hello", vec![b'x'; MIB + 1]).await, (413, "MF0809".to_owned()), "micro is as it was");
    // The connection of what was refused is closed, perhaps with a call on it.
    node.answers("little", "version 1").await;
    assert_eq!(bulk_workers(&node).len(), 1);
}

/// One worker, two calls: the second waits for the first, longer than a micro call may, and takes no worker from micro calls.
#[tokio::test(flavor = "multi_thread")]
async fn bulk_calls_wait_for_their_worker_and_one_that_dies_answers_for_itself_alone() {
    let functions = |server: &Server, signer: &Signer| {
        vec![micro(server, signer), bulk(server, signer, "much", "60s", MEMORY_MIB)]
    };
    let (_server, _signer, _home, node) = serving(1, functions).await;
    let calls: Vec<_> = (0..2).map(|_| start(&node, "much", b"crunch".to_vec())).collect();
    until("the worker", || bulk_workers(&node).first().is_some_and(|pid| cpu_ticks(*pid) > 20)).await;
    assert_eq!(bulk_workers(&node).len(), 1, "one worker for both");
    for call in calls {
        let (status, answer) = call.await.unwrap();
        assert!(status == 200 && answer.starts_with(b"6 "), "{status}: {}", String::from_utf8_lossy(&answer));
    }
    let before = bulk_workers(&node);
    let ticks = cpu_ticks(before[0]);
    let call = start(&node, "much", b"crunch".to_vec());
    until("the call", || cpu_ticks(before[0]) > ticks + 20).await;
    kill(before[0], Signal::KILL);
    let (status, answer) = call.await.unwrap();
    assert_eq!((status, code(&answer).as_str()), (503, "MF0808"));
    assert_eq!(node.call("hello", "").await.body, "version 1");
    assert_eq!(node.call("much", "").await.body, "version 1", "another worker comes");
}

/// A ring of the local API has room for bodies of a megabyte, whatever it is that is called.
#[tokio::test(flavor = "multi_thread")]
async fn through_the_local_socket_a_long_answer_is_refused_with_its_code() {
    let functions = |server: &Server, signer: &Signer| {
        vec![micro(server, signer), bulk(server, signer, "much", "60s", 64)]
    };
    let (_server, _signer, home, node) = serving(1, functions).await;
    let (status, answer) = node.send_bytes("much", b"long".to_vec()).await;
    assert_eq!((status, answer.len()), (200, 2 * MIB));
    let socket = home.path("local.sock");
    let calls = move || {
        let mut client = Client::connect(&socket, &["acme/much"]).unwrap();
        let mut call = |body: &[u8]| {
            let (mut frame, mut done) = (Vec::new(), Completion::new());
            encode_request(&mut frame, "POST", "/", [], body).unwrap();
            client.call(0, &frame, &mut done, Duration::from_secs(30)).unwrap();
            (done.refusal, done.status)
        };
        assert_eq!(call(b"long"), (810, Status::Aborted));
        assert_eq!(call(b"count"), (0, Status::Ok), "the client was not put out");
    };
    tokio::task::spawn_blocking(calls).await.unwrap();
}

/// A node without room for a bulk function says so, with a code, and serves what it can.
#[tokio::test(flavor = "multi_thread")]
async fn a_function_that_asks_for_more_than_the_nodes_workers_have_is_reported() {
    let (server, signer, mut home) = stage().await;
    let functions = [
        micro(&server, &signer),
        bulk(&server, &signer, "fits", "60s", 100),
        bulk(&server, &signer, "large", "60s", MEMORY_MIB),
    ];
    signer.publish(&mut server.records(), &set(1, &functions));
    // What a worker takes besides is some 330 MiB.
    home.give_bulk(1, 450);
    let node = home.start().await;
    node.answers("hello", "version 1").await;
    node.answers("fits", "version 1").await;
    let report = server.reported("a refusal", |report| !report.refused.is_empty()).await;
    let refused: Vec<_> = report.refused.iter().map(|row| (row.function.as_str(), row.code.id())).collect();
    assert_eq!(refused, [("large", "MF0722")]);
    assert_eq!(node.call("large", "").await.status, 404);
    drop(node);
    home.give_bulk(0, 2_000);
    let node = home.start().await;
    node.answers("hello", "version 1").await;
    let report = server.reported("two refusals", |report| report.refused.len() == 2).await;
    assert!(report.refused.iter().all(|row| row.code.id() == "MF0722"), "{:?}", report.refused);
    let _: Answer = node.call("hello", "").await;
}
