//! Handlers that wait, from their source to their answers: through the gate, in verified code, beside others.
#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::time::{Duration, Instant};

use mfaas_harness::{Answer, Stack, package};

const SLEEPER: &str = r#"
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use mfaas::{Request, join, join_all, sleep, timeout};

static COUNT: AtomicU32 = AtomicU32::new(7);

pub async fn handle(request: Request, body: Vec<u8>) -> Result<String, mfaas::Error> {
    let kept: Vec<u64> = (0..request.body().len() as u64).collect();
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    match body.as_slice() {
        b"long" => sleep(Duration::from_secs(3_600)).await,
        b"never" => std::future::pending::<()>().await,
        b"spin" => {
            sleep(Duration::from_millis(1)).await;
            loop { std::hint::black_box(()); }
        }
        b"panic" => {
            sleep(Duration::from_millis(1)).await;
            panic!("after it waited");
        }
        b"error" => {
            sleep(Duration::from_millis(1)).await;
            "x".parse::<u32>()?;
        }
        b"large" => {
            let large = vec![1u8; 2 << 20];
            sleep(Duration::from_millis(1)).await;
            return Ok(large.len().to_string());
        }
        _ => {
            let pause = Duration::from_millis(100);
            join(sleep(pause), sleep(pause)).await;
            join_all((0..100).map(|_| sleep(Duration::from_millis(10)))).await;
            timeout(pause, sleep(Duration::from_secs(3_600))).await.unwrap_err();
        }
    }
    println!("it went on");
    let count = (count, COUNT.load(Ordering::Relaxed));
    Ok(format!("{} {count:?} {}", kept.iter().sum::<u64>(), String::from_utf8_lossy(&body)))
}
"#;

const MANIFEST: &str = "[package.metadata.mfaas]\nbudget = \"50ms\"\n\n[dependencies]\nmfaas = \"0.1\"\n";

fn call(stack: &Stack, body: &str, headers: &[(&str, &str)]) -> Answer {
    let url = format!("{}/f/default/sleeper", stack.ingress());
    stack.request("POST", &url, headers, body.as_bytes().to_vec())
}

#[test]
fn a_handler_that_waits_is_admitted_and_goes_on_where_it_was() {
    let stack = Stack::start();
    let sleeper = package("sleeper", SLEEPER, MANIFEST);
    let _ = stack.deploy(sleeper.path()).ok();
    // Many at a time, in few workers: what each had is its own.
    let begin = Instant::now();
    std::thread::scope(|scope| {
        let callers: Vec<_> = (1..=40_u64)
            .map(|length| {
                let stack = &stack;
                scope.spawn(move || {
                    let body = "a".repeat(length as usize);
                    let answer = call(stack, &body, &[]);
                    let expected = format!("{} (7, 8) {body}", length * (length - 1) / 2);
                    assert_eq!((answer.status, answer.text()), (200, expected));
                })
            })
            .collect();
        callers.into_iter().for_each(|caller| caller.join().unwrap());
    });
    // Each takes 220 ms, and one after the other they would take nine seconds.
    assert!(begin.elapsed() < Duration::from_secs(6), "{:?}", begin.elapsed());

    for (body, status, code) in [
        ("never", 502, "MF0810"),
        ("spin", 504, "MF0803"),
        ("panic", 502, "MF0802"),
        ("large", 502, "MF0805"),
    ] {
        let answer = call(&stack, body, &[]);
        assert_eq!((answer.status, answer.code().as_str()), (status, code), "{body}: {}", answer.text());
    }
    let failed = call(&stack, "error", &[]);
    assert_eq!((failed.status, failed.text().as_str()), (500, "invalid digit found in string"));
    let late = call(&stack, "long", &[("mfaas-deadline-ms", "300")]);
    assert_eq!((late.status, late.code().as_str()), (504, "MF0811"), "{}", late.text());
}
