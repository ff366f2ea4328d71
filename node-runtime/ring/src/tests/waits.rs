//! Waits on several bells, between threads.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use super::{LONG, SHORT, answer, collect, ring, submit, take};
use crate::{BELLS_MAX, Next, WakeWord, WorkerEnd, WorkerState, wait_any};

/// Answers everything, looking so seldom before it sleeps that it sleeps nearly always.
fn sleepy(mut worker: WorkerEnd) -> std::thread::JoinHandle<()> {
    worker.set_spin_rounds(0);
    std::thread::spawn(move || {
        loop {
            match worker.next(LONG).expect("a benign host") {
                Next::Call(_) => worker.reply(&answer(b"", b"", b"")).expect("within limits"),
                Next::Idle => {}
                Next::Stop => return worker.set_state(WorkerState::Stopped),
            }
        }
    })
}

#[test]
fn a_sleeper_on_several_bells_wakes_for_each() {
    let word = WakeWord::new();
    let (_a, mut one, mut first) = ring(1);
    let (_b, mut two, mut second) = ring(1);
    submit(&mut one, 1, b"").expect("room");
    submit(&mut two, 2, b"").expect("room");
    take(&mut first);
    take(&mut second);
    let bells = [word.bell(), one.bell(), two.bell()];
    let answered = || one.is_ready() || two.is_ready();
    assert!(!wait_any(&bells, SHORT, answered).expect("a wait"), "nobody rang");
    std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(SHORT);
            second.reply(&answer(b"", b"", b"")).expect("within limits");
        });
        assert!(wait_any(&bells, LONG, || two.is_ready()).expect("a wait"));
    });
    let rung = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(SHORT);
            rung.store(true, Ordering::Release);
            word.ring();
        });
        assert!(wait_any(&bells, LONG, || rung.load(Ordering::Acquire)).expect("a wait"));
    });
    assert!(!one.is_ready() && two.is_ready());
}

#[test]
fn more_bells_than_the_kernel_takes_still_end_a_wait() {
    let words: Vec<WakeWord> = (0..=BELLS_MAX).map(|_| WakeWord::new()).collect();
    let bells: Vec<_> = words.iter().map(WakeWord::bell).collect();
    let rung = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(SHORT);
            rung.store(true, Ordering::Release);
            words[BELLS_MAX].ring();
        });
        assert!(wait_any(&bells, LONG, || rung.load(Ordering::Acquire)).expect("a wait"));
    });
    assert!(!wait_any(&[], SHORT, || false).expect("a sleep without a bell"));
}

/// Both ends sleep between all calls, so each of them rests on a wake.
#[test]
fn no_wake_is_lost_between_sleepy_ends() {
    const CALLS: u64 = 3_000;
    let (_fd, mut host, worker) = ring(2);
    let worker = sleepy(worker);
    for call_id in 0..CALLS {
        submit(&mut host, call_id, b"").expect("room");
        while collect(&mut host).is_none() {
            let bell = host.bell();
            assert!(wait_any(&[bell], LONG, || host.is_ready()).expect("a wait"), "a wake was lost");
        }
    }
    host.stop();
    worker.join().expect("the worker ends");
}

#[test]
fn two_halves_on_two_threads_lose_no_wake() {
    const CALLS: u64 = 3_000;
    let (_fd, host, worker) = ring(2);
    let worker = sleepy(worker);
    let (mut submitter, mut collector) = host.split();
    let room = Arc::new(WakeWord::new());
    let collected = Arc::new(AtomicU64::new(0));
    let (bell, count) = (Arc::clone(&room), Arc::clone(&collected));
    let collecting = std::thread::spawn(move || {
        let mut completion = crate::Completion::new();
        while count.load(Ordering::Relaxed) < CALLS {
            assert!(wait_any(&[collector.bell()], LONG, || collector.is_ready()).expect("a wait"));
            while collector.collect(&mut completion).expect("a benign worker") {
                count.fetch_add(1, Ordering::Release);
                bell.ring();
            }
        }
    });
    for call_id in 0..CALLS {
        assert!(wait_any(&[room.bell()], LONG, || submitter.has_room()).expect("a wait"));
        let call = crate::Submission {
            call_id,
            function: 0,
            budget_us: 0,
            memory_bytes: 0,
            frame: b"",
            resumes: false,
            may_ask: false,
            yields: false,
        };
        submitter.submit(call).expect("room");
        if call_id % 3 == 0 {
            std::thread::sleep(Duration::from_micros(50));
        }
    }
    collecting.join().expect("everything is collected");
    submitter.stop();
    worker.join().expect("the worker ends");
}
