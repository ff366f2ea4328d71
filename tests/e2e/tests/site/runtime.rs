//! What functions do to themselves, and that the next call is served.

use std::time::Duration;

use mfaas_harness::{Answer, Stack, package, wait_for};

const TROUBLE: &str = r#"
use std::{cell::Cell, collections::HashMap, sync::OnceLock, sync::atomic::{AtomicU32, Ordering}};

static COUNTER: AtomicU32 = AtomicU32::new(0);
static ONCE: OnceLock<Vec<u8>> = OnceLock::new();
thread_local! { static LOCAL: Cell<u32> = const { Cell::new(0) }; }

fn recurse(depth: u64) -> u64 {
    let frame = [depth; 64];
    std::hint::black_box(&frame);
    recurse(depth + 1) + frame[(depth % 64) as usize]
}

pub fn handle(request: &[u8]) -> Vec<u8> {
    match request {
        b"panic" => panic!("a message for the log"),
        b"loop" => loop { std::hint::black_box(1); },
        b"stack" => recurse(0).to_string().into_bytes(),
        b"memory" => {
            let mut all = Vec::new();
            loop { all.push(vec![1u8; 1 << 20]); }
        }
        b"huge" => vec![b'x'; 3 << 20],
        b"log" => {
            println!("a line by println");
            Vec::new()
        }
        b"map" => {
            let mut map = HashMap::new();
            for n in 0..100u32 { map.insert(n, n * n); }
            map.values().sum::<u32>().to_string().into_bytes()
        }
        _ => {
            ONCE.get_or_init(|| request.to_vec());
            let count = COUNTER.fetch_add(1, Ordering::Relaxed);
            let local = LOCAL.with(|cell| { cell.set(cell.get() + 1); cell.get() });
            format!("{count} {local} {}", String::from_utf8_lossy(ONCE.get().unwrap())).into_bytes()
        }
    }
}
"#;

#[test]
fn every_end_has_its_code_and_the_next_call_is_served() {
    let stack = Stack::start();
    let source =
        package("trouble", TROUBLE, "[package.metadata.mfaas]\nbudget = \"50ms\"\nmemory = \"8MiB\"\n");
    let _ = stack.deploy(source.path()).ok();
    let call = |body: &str| call(&stack, body);
    let pristine = |stage: &str| {
        for word in ["first", "second"] {
            let answer = call(word);
            assert_eq!((answer.status, answer.text()), (200, format!("0 1 {word}")), "after {stage}");
        }
    };
    pristine("nothing");
    let workers = stack.workers();
    for (body, code) in [
        ("panic", "MF0802"),
        ("loop", "MF0803"),
        ("stack", "MF0804"),
        ("memory", "MF0805"),
        ("huge", "MF0810"),
    ] {
        let answer = call(body);
        assert_eq!(answer.code(), code, "{body}: {} {}", answer.status, answer.text());
        assert!(answer.status >= 500, "{body}: {}", answer.status);
        pristine(body);
    }
    assert_eq!(call("map").text(), "328350");
    assert_eq!(stack.workers(), workers, "a function ended a worker");
    logs_arrive(&stack);
    command_exits_with_seven(&stack);
    killed_worker(&stack);
    locked_down(&stack);
}

fn call(stack: &Stack, body: &str) -> Answer {
    stack.request("POST", &format!("{}/f/default/trouble", stack.ingress()), &[], body.as_bytes().to_vec())
}

fn logs_arrive(stack: &Stack) {
    let _ = call(stack, "log");
    let lines = wait_for("log lines", Duration::from_secs(20), || {
        let text = stack.cli(["logs", "trouble"]).ok().stdout;
        (text.contains("a line by println") && text.contains("a message for the log")).then_some(text)
    });
    assert!(!lines.contains('\u{1b}'));
}

fn command_exits_with_seven(stack: &Stack) {
    let run = stack.invoke("trouble", "loop").exits(7);
    assert!(run.stderr.contains("MF0803"), "{}", run.stderr);
}

/// The call in flight is answered once, and the worker is replaced.
fn killed_worker(stack: &Stack) {
    let slow = package(
        "slow",
        "pub fn handle(_: &[u8]) -> Vec<u8> {\n    loop {\n        std::hint::black_box(1);\n    }\n}\n",
        "[package.metadata.mfaas]\nbudget = \"10s\"\n",
    );
    let _ = stack.deploy(slow.path()).ok();
    let (answer, before) = std::thread::scope(|scope| {
        let url = format!("{}/f/default/slow", stack.ingress());
        let call = scope.spawn(move || stack.request("POST", &url, &[], vec![]));
        std::thread::sleep(Duration::from_millis(500));
        assert!(!call.is_finished(), "the call ended before the worker was killed");
        // Long calls have a process beside that of short ones, which came with the call.
        let before = stack.workers();
        assert!(before.len() >= 2, "{before:?}");
        for worker in &before {
            rustix::process::kill_process(*worker, rustix::process::Signal::KILL).unwrap();
        }
        (call.join().unwrap(), before)
    });
    assert_eq!((answer.status, answer.code().as_str()), (503, "MF0808"), "{}", answer.text());
    wait_for("an answer of a new worker", Duration::from_secs(10), || {
        (call(stack, "again").text() == "0 1 again").then_some(())
    });
    let now = stack.workers();
    assert!(!now.is_empty() && now.iter().all(|pid| !before.contains(pid)), "{before:?} {now:?}");
}

/// Each worker runs under a filter, without new privileges and without the root user's id. One that
/// was just started is waited for: it takes no calls before.
fn locked_down(stack: &Stack) {
    wait_for("workers that are locked down", Duration::from_secs(10), || {
        let all = stack.workers();
        (!all.is_empty() && all.iter().all(|worker| field(&status(*worker), "Seccomp:") == "2")).then_some(())
    });
    for worker in stack.workers() {
        let status = status(worker);
        assert_eq!(field(&status, "NoNewPrivs:"), "1", "{status}");
        assert_eq!(field(&status, "CapEff:"), "0000000000000000", "{status}");
        if rustix::process::geteuid().is_root() {
            assert_ne!(field(&status, "Uid:"), "0", "{status}");
        }
    }
}

/// The kernel's words on a process; none of one that is gone.
fn status(process: rustix::process::Pid) -> String {
    std::fs::read_to_string(format!("/proc/{}/status", process.as_raw_nonzero())).unwrap_or_default()
}

fn field(status: &str, name: &str) -> String {
    let line = status.lines().find(|line| line.starts_with(name)).unwrap_or_default();
    line.split_whitespace().nth(1).unwrap_or_default().to_owned()
}
