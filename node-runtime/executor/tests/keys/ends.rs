//! Benign functions, and those that only end badly: keys change nothing for them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use mfaas_abi::Status;
use mfaas_executor::TICK_SIGNAL;

use crate::fixture::Fixture;

const FRESH: &str = "7 0 true 1 3 1 0";

pub(crate) fn a_plain_call_answers(fixture: &mut Fixture) {
    let answer = fixture.tenant("hello");
    assert_eq!((answer.status, &*answer.body), (Status::Ok, &b"HELLO"[..]), "{answer:?}");
}

pub(crate) fn what_std_offers_works(fixture: &mut Fixture) {
    for (body, expected) in [
        ("map", "328350"),
        ("libm", "0.479426 0.353553 -0.693147 0.462117"),
        ("clocks", "true true"),
        ("deep", "80200"),
        ("large-frame", "409600"),
        ("count", FRESH),
        ("count", FRESH),
    ] {
        let answer = fixture.tenant(body);
        assert_eq!((answer.status, &*answer.body), (Status::Ok, expected.as_bytes()), "{body}: {answer:?}");
    }
    assert_eq!(fixture.tenant("zeroed").body, [0]);
    assert_eq!(fixture.tenant("most").body.len(), 1 << 20);
}

pub(crate) fn every_end(fixture: &mut Fixture) {
    for (body, status) in [
        ("panic", Status::Panicked),
        ("panic-index", Status::Panicked),
        ("panic-long", Status::Panicked),
        ("panic-caught", Status::Panicked),
        ("panic-hook", Status::Aborted),
        ("panic-display", Status::Aborted),
        ("abort", Status::Aborted),
        ("overflow", Status::StackOverflow),
        ("bomb", Status::OutOfMemory),
        ("bomb-small", Status::OutOfMemory),
        ("bomb-one", Status::OutOfMemory),
        ("huge", Status::BadOutput),
    ] {
        let answer = fixture.tenant(body);
        assert_eq!(answer.status, status, "{body}: {answer:?}");
        fixture.lives(body);
    }
    for body in
        ["spin", "spin-allocating", "spin-working", "spin-locked", "spin-logging", "deadlock", "drop-loop"]
    {
        let answer = fixture.tenant_within(5_000, body);
        assert_eq!(answer.status, Status::OverBudget, "{body}: {answer:?}");
        fixture.lives(body);
    }
    for what in b"hijnopv" {
        let answer = fixture.hostile(*what, &[]);
        assert_eq!(answer.status, Status::Fault, "{}: {answer:?}", char::from(*what));
        fixture.lives("a fault");
    }
    for what in b"kmu" {
        assert_eq!(fixture.hostile(*what, &[]).status, Status::Ok, "flags and floating point");
        fixture.lives("flags");
    }
}

pub(crate) fn printing(fixture: &mut Fixture) {
    assert_eq!(fixture.tenant("print").logs, ["one line", "1 and 2", "no end"]);
    assert!(fixture.tenant("panic").message.starts_with("no panic ("));
}

/// Ends that fall everywhere: into the function, into a gate, into a service.
pub(crate) fn kills(fixture: &mut Fixture) {
    let expected = fixture.tenant("verify").body;
    let endless = ["spin", "spin-allocating", "spin-working", "spin-locked", "spin-logging"];
    let mut random = 88_172_645_463_325_252u64;
    for round in 0..number("MFAAS_TEST_KILLS", 500) as usize {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        let body = endless[round % endless.len()];
        let answer = fixture.tenant_within(10 + random % 500, body);
        assert!(matches!(answer.status, Status::OverBudget | Status::OutOfMemory), "{body}: {answer:?}");
        let answer = fixture.tenant("verify");
        assert_eq!((answer.status, &answer.body), (Status::Ok, &expected), "after {round} kills, {body}");
    }
}

/// A storm of signals, each of which finds that nothing is to be ended, while calls go on.
pub(crate) fn signals(fixture: &mut Fixture) {
    let (sent, over) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
    // SAFETY: takes nothing and cannot fail.
    let thread = unsafe { libc::gettid() };
    let process = std::process::id();
    let (count, ends) = (Arc::clone(&sent), Arc::clone(&over));
    let storm = std::thread::spawn(move || {
        while !ends.load(Ordering::Relaxed) {
            // SAFETY: takes numbers; the thread lives, since it joins this one.
            unsafe { libc::syscall(libc::SYS_tgkill, process, thread, TICK_SIGNAL) };
            count.fetch_add(1, Ordering::Relaxed);
            // One that comes while another waits is not delivered, and calls have to go on.
            (0..2_000).for_each(|_| std::hint::spin_loop());
        }
    });
    let wanted = number("MFAAS_TEST_SIGNALS", 20_000);
    let calls = calls_until(fixture, || sent.load(Ordering::Relaxed) >= wanted);
    over.store(true, Ordering::Relaxed);
    storm.join().expect("it does not panic");
    println!("{wanted} signals in {calls} calls");
}

/// Another thread takes the processor away again and again. With glibc's restartable sequences still
/// registered, the kernel kills a thread that it preempts with the rights of a function.
pub(crate) fn preemptions(fixture: &mut Fixture) {
    let over = Arc::new(AtomicBool::new(false));
    let ends = Arc::clone(&over);
    let urgent = std::thread::spawn(move || {
        let urgent = pin() && make_urgent();
        while urgent && !ends.load(Ordering::Relaxed) {
            // A timer that has run out when it is set puts nobody to sleep, and an urgent thread that
            // does not sleep leaves the processor to nobody.
            std::thread::sleep(std::time::Duration::from_micros(50));
        }
        urgent
    });
    assert!(pin(), "this thread shares its processor");
    let (wanted, before) = (number("MFAAS_TEST_PREEMPTIONS", 20_000), preempted());
    let calls = calls_until(fixture, || urgent.is_finished() || preempted() - before >= wanted);
    over.store(true, Ordering::Relaxed);
    if urgent.join().expect("it does not panic") {
        println!("preempted {} times in {calls} calls", preempted() - before);
    } else {
        println!("skipped: this user may not start urgent threads");
    }
}

/// Calls until it is enough; gives the number of those that answered, all of which must be right. Time in
/// handlers counts as a call's own, so one or the other may come to its budget's end.
fn calls_until(fixture: &mut Fixture, enough: impl Fn() -> bool) -> u64 {
    const PATIENCE: std::time::Duration = std::time::Duration::from_secs(600);
    let begun = std::time::Instant::now();
    let expected = fixture.tenant("verify").body;
    let mut calls = 0;
    while calls == 0 || !enough() {
        assert!(begun.elapsed() < PATIENCE, "{calls} calls, and still not enough");
        let answer = fixture.tenant("verify");
        match answer.status {
            Status::OverBudget => {}
            status => {
                assert_eq!((status, &answer.body), (Status::Ok, &expected), "call {calls}");
                calls += 1;
            }
        }
    }
    calls
}

/// Keeps the calling thread on the first processor.
fn pin() -> bool {
    // SAFETY: plain data, for which zeros are a value.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: a number within the set.
    unsafe { libc::CPU_SET(0, &mut set) };
    // SAFETY: a live local and its size; 0 is the calling thread.
    unsafe { libc::sched_setaffinity(0, size_of_val(&set), &raw const set) == 0 }
}

/// Lets the calling thread run before any other that is not urgent.
fn make_urgent() -> bool {
    let parameter = libc::sched_param { sched_priority: 1 };
    // SAFETY: a live local; 0 is the calling thread.
    unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const parameter) == 0 }
}

/// How often the calling thread lost the processor against its will.
fn preempted() -> u64 {
    // SAFETY: plain data, for which zeros are a value.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: a live local.
    let known = unsafe { libc::getrusage(libc::RUSAGE_THREAD, &raw mut usage) };
    assert_eq!(known, 0);
    usage.ru_nivcsw as u64
}

fn number(name: &str, usual: u64) -> u64 {
    std::env::var(name).map_or(usual, |text| text.parse().expect("a number"))
}
