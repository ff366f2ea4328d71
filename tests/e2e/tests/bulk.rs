//! Bulk functions from their manifests to their answers: what they may have, what they are refused, and that calls of other
//! functions are answered meanwhile.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::io::Read as _;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use flate2::read::GzDecoder;
use mfaas_harness::{Stack, checkout, package};

const MIB: usize = 1 << 20;
const MICRO: &str = "pub fn handle(_request: &[u8]) -> Vec<u8> {\n    b\"at once\".to_vec()\n}\n";
/// Takes what it is sent, fills 500 MiB with it, and computes for some seconds.
const MUCH: &str = "\
pub fn handle(request: &[u8]) -> Vec<u8> {
    match request {
        b\"spin\" => loop {
            std::hint::black_box(());
        },
        b\"hoard\" => {
            let mut kept = Vec::new();
            loop {
                kept.push(std::hint::black_box(vec![1_u8; 1 << 20]));
            }
        }
        b\"long\" => return vec![b'x'; (64 << 20) + 1],
        _ => {}
    }
    let mut memory: Vec<u64> = (0..(500_u64 << 20) / 8).collect();
    for round in 0..3_u64 {
        for (at, word) in memory.iter_mut().enumerate() {
            *word = word.wrapping_mul(6364136223846793005).wrapping_add(round ^ u64::from(request[at % request.len()]));
        }
    }
    let sum = memory.iter().fold(0_u64, |sum, word| sum.wrapping_add(*word));
    format!(\"{} {sum}\", request.len()).into_bytes()
}
";

/// The same as [`MUCH`], here.
fn expected(request: &[u8]) -> String {
    let mut memory: Vec<u64> = (0..(500_u64 << 20) / 8).collect();
    for round in 0..3_u64 {
        for (at, word) in memory.iter_mut().enumerate() {
            let byte = u64::from(request[at % request.len()]);
            *word = word.wrapping_mul(6364136223846793005).wrapping_add(round ^ byte);
        }
    }
    let sum = memory.iter().fold(0_u64, |sum, word| sum.wrapping_add(*word));
    format!("{} {sum}", request.len())
}

fn manifest(budget: &str, memory: &str) -> String {
    format!("[package.metadata.mfaas]\nclass = \"bulk\"\nbudget = \"{budget}\"\nmemory = \"{memory}\"\n")
}

/// What no compressor makes small.
fn noise(bytes: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let next = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state as u8
    };
    std::iter::repeat_with(next).take(bytes).collect()
}

#[test]
fn a_bulk_function_is_deployed_shown_and_answers_beside_others() {
    let stack = Stack::start();
    let shout = package("shout", MICRO, "");
    let _ = stack.deploy(shout.path()).ok();
    let much = package("much", MUCH, &manifest("120s", "512MiB"));
    let _ = stack.deploy(much.path()).ok();

    let proof = stack.cli(["verify", "much", "--json"]).ok().json();
    assert_eq!(proof["class"], "bulk", "{proof}");
    let shown = stack.cli(["versions", "much", "--json"]).ok().json();
    let version = &shown["items"][0];
    assert_eq!((&version["class"], &version["budget_us"]), (&"bulk".into(), &120_000_000.into()), "{shown}");
    let list = stack.cli(["list", "--json"]).ok().json();
    let classes: Vec<_> = list["items"].as_array().unwrap().iter().map(|row| &row["class"]).collect();
    assert_eq!(classes, ["bulk", "micro"], "{list}");

    let body = noise(20 * MIB);
    let (over, beside) = (AtomicBool::new(false), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                assert_eq!(stack.invoke("shout", "x").ok().stdout, "at once");
                beside.fetch_add(1, Ordering::Relaxed);
            }
        });
        let url = format!("{}/f/default/much", stack.ingress());
        let answer = stack.request("POST", &url, &[], body.clone());
        over.store(true, Ordering::Relaxed);
        assert_eq!((answer.status, answer.text()), (200, expected(&body)));
    });
    assert!(beside.load(Ordering::Relaxed) > 3, "{beside:?} calls beside it");

    gives_way(&stack);
    limits(&stack);
    gzip(&stack);
    stack.invariants();
}

/// Its worker is secondary on this machine, and no other of the node's is.
fn gives_way(stack: &Stack) {
    let socket = stack.home().join("run/isolation/socket");
    if !rustix::process::geteuid().is_root() {
        return; // Only root has an isolation controller without a word.
    }
    let asked = ["--json", "node", "isolation", "status", "--socket", socket.to_str().unwrap()];
    let status = stack.cli(asked).ok().json();
    let members = status["members"].as_array().unwrap();
    let workers = members.iter().filter(|member| member["name"] == "mfaas-worker");
    let roles: Vec<_> = workers.map(|member| &member["role"]).collect();
    assert_eq!(roles, ["secondary"], "{status}");
}

/// Each limit has its code, and the worker goes on.
fn limits(stack: &Stack) {
    let little = package("little", MUCH, &manifest("300ms", "64MiB"));
    let _ = stack.deploy(little.path()).ok();
    let url = format!("{}/f/default/little", stack.ingress());
    for (body, status, code) in [("spin", 504, "MF0803"), ("hoard", 502, "MF0805"), ("long", 502, "MF0805")] {
        let answer = stack.request("POST", &url, &[], body.as_bytes().to_vec());
        assert_eq!((answer.status, answer.code().as_str()), (status, code), "{body}");
    }
    let url = format!("{}/f/default/much", stack.ingress());
    let answer = stack.request("POST", &url, &[], b"long".to_vec());
    assert_eq!((answer.status, answer.code().as_str()), (502, "MF0810"), "longer than an answer may be");
    for (name, manifest) in [
        ("budget", "[package.metadata.mfaas]\nbudget = \"20s\"\n".to_owned()),
        ("memory", "[package.metadata.mfaas]\nclass = \"micro\"\nmemory = \"257MiB\"\n".to_owned()),
    ] {
        let refused = package(name, MICRO, &manifest);
        let report = stack.cli(["deploy", "--json", refused.path().to_str().unwrap()]).exits(3).json();
        assert_eq!(report["diagnostics"][0]["code"], "MF0211", "{report}");
    }
}

/// The example packs what any gzip unpacks.
fn gzip(stack: &Stack) {
    let _ = stack.deploy(&checkout().join("examples/gzip")).ok();
    let plain = b"tea, ".repeat(4 * MIB);
    let url = format!("{}/f/default/gzip", stack.ingress());
    let packed = stack.request("POST", &url, &[], plain.clone());
    assert_eq!((packed.status, packed.headers["content-type"].as_str()), (200, "application/gzip"));
    assert!(packed.body.len() < plain.len() / 50, "{} bytes", packed.body.len());
    let mut unpacked = Vec::new();
    GzDecoder::new(packed.body.as_slice()).read_to_end(&mut unpacked).unwrap();
    assert!(unpacked == plain, "{} bytes came back of {}", unpacked.len(), plain.len());
}
