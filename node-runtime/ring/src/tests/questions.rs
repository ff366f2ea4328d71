//! A call that stays in its worker and asks.

use std::sync::atomic::Ordering;
use std::time::Instant;

use super::{CALL, LONG, answer, collect, ring, submit, take};
use crate::layout::pack;
use crate::map::Mapping;
use crate::{Geometry, HostEnd, RingError, Submission, Told, WorkerEnd};

/// A call that may ask, taken by its worker.
fn begun(host: &mut HostEnd, worker: &mut WorkerEnd, call_id: u64) {
    host.submit(Submission { call_id, may_ask: true, ..CALL }).expect("room");
    assert!(take(worker).0.may_ask);
}

/// Asks until the host looks: a test's threads may be without a core for longer than a worker waits.
fn asked(worker: &WorkerEnd, question: &[u8], into: &mut [u8]) -> Option<usize> {
    let begun = Instant::now();
    while begun.elapsed() < LONG {
        if let Told::Bytes(told) = worker.ask(question, into).expect("a benign host") {
            return Some(told);
        }
    }
    None
}

/// The next question, which is answered with what `tell` makes of it.
fn answered(host: &mut HostEnd, tell: impl Fn(&[u8]) -> Option<Vec<u8>>) -> u64 {
    let (begun, mut question) = (Instant::now(), Vec::new());
    while begun.elapsed() < LONG {
        if let Some(call_id) = host.question(&mut question).expect("a benign worker") {
            host.tell(tell(&question).as_deref());
            return call_id;
        }
        std::thread::yield_now();
    }
    panic!("nothing is asked");
}

#[test]
fn what_a_call_asks_is_told_to_it_and_it_is_answered_as_any() {
    let (_fd, mut host, mut worker) = ring(4);
    submit(&mut host, 1, b"").expect("room");
    take(&mut worker);
    worker.reply(&answer(b"first", b"", b"")).expect("within limits");
    begun(&mut host, &mut worker, 2);
    assert_eq!(collect(&mut host).expect("it is answered").call_id, 1);
    // Small ones, and ones that have a place of their own.
    for bytes in [3, 5_000] {
        let told = std::thread::scope(|scope| {
            let worker = &worker;
            let asking = scope.spawn(move || {
                let mut into = vec![0; 6_000];
                asked(worker, &vec![7; bytes], &mut into).map(|told| into[..told].to_vec())
            });
            let of = answered(&mut host, |question| Some(question.iter().map(|byte| byte + 1).collect()));
            assert_eq!(of, 2, "identities are the host's own");
            asking.join().expect("it ends")
        });
        assert_eq!(told, Some(vec![8; bytes]));
    }
    worker.reply(&answer(b"second", b"", b"")).expect("within limits");
    let done = collect(&mut host).expect("it is answered");
    assert_eq!((done.call_id, &*done.response), (2, &b"second"[..]));
}

/// Declined, too large to be told, or not looked at: then the worker goes another way, and nothing stays behind.
#[test]
fn a_question_without_an_answer_is_over() {
    let (fd, mut host, mut worker) = ring(4);
    begun(&mut host, &mut worker, 1);
    let mapping = Mapping::attach(&fd).expect("our own ring");
    let is_clean = || {
        let words = mapping.words();
        let asked = u64::from_ne_bytes(*b"question");
        words.iter().all(|word| word.load(Ordering::Relaxed) != asked)
    };
    let since = Instant::now();
    let told = worker.ask(b"question", &mut [0; 8]).expect("a benign host");
    assert_eq!(told, Told::Nothing, "nobody looks");
    assert!(since.elapsed() < LONG && is_clean());
    assert_eq!(host.question(&mut Vec::new()).expect("a benign worker"), None, "it was withdrawn");
    for told in [None, Some(b"question".repeat(2))] {
        std::thread::scope(|scope| {
            let worker = &worker;
            let asking = scope.spawn(move || {
                let ask = || worker.ask(b"question", &mut [0; 8]).expect("a benign host");
                std::iter::repeat_with(ask).find(|told| *told != Told::Nothing)
            });
            let mut question = Vec::new();
            while !asking.is_finished() {
                if host.question(&mut question).expect("a benign worker").is_some() {
                    host.tell(told.as_deref());
                }
            }
            assert_eq!(asking.join().expect("it ends"), Some(Told::Declined));
        });
        assert!(is_clean());
    }
}

/// A call that may not ask does not. Whether its host would look is told.
#[test]
fn a_call_that_may_not_ask_does_not() {
    let (fd, mut host, mut worker) = ring(4);
    let mapping = Mapping::attach(&fd).expect("our own ring");
    worker.set_ask_us(10_000);
    let asks = |worker: &WorkerEnd, position| {
        std::thread::scope(|scope| {
            let asking = scope.spawn(move || worker.ask(b"question", &mut [0; 8]).expect("a benign host"));
            let mut was_asked = false;
            while !asking.is_finished() {
                was_asked |= mapping.completion(position).question.load(Ordering::Relaxed) != 0;
            }
            was_asked
        })
    };
    submit(&mut host, 1, b"").expect("room");
    take(&mut worker);
    assert!(!asks(&worker, 0));
    worker.reply(&answer(b"", b"", b"")).expect("within limits");
    begun(&mut host, &mut worker, 2);
    assert!(asks(&worker, 1), "the twin");
    assert!(!worker.host_sleeps());
    mapping.header().host_sleeps.0.store(1, Ordering::Relaxed);
    assert!(worker.host_sleeps());
}

/// A question that no benign worker asks: of no call, of one that may not ask, or longer than one may be.
#[test]
fn an_alien_question_is_not_read() {
    let (fd, mut host, mut worker) = ring(4);
    let mapping = Mapping::attach(&fd).expect("our own ring");
    let asked =
        |position, bytes| mapping.completion(position).question.store(pack(1, bytes), Ordering::Relaxed);
    asked(0, 8);
    assert_eq!(host.question(&mut Vec::new()).expect("nothing runs"), None);
    submit(&mut host, 7, b"").expect("room");
    take(&mut worker);
    assert_eq!(host.question(&mut Vec::new()).expect("it may not ask"), None);
    worker.reply(&answer(b"", b"", b"")).expect("within limits");
    assert!(collect(&mut host).is_some());
    begun(&mut host, &mut worker, 1);
    asked(1, 8);
    assert_eq!(host.question(&mut Vec::new()).expect("eight bytes"), Some(1), "the twin");
    for bytes in [Geometry::new(4).expect("a power of two").question_bytes_max() as u32 + 1, u32::MAX] {
        asked(1, bytes);
        let read = host.question(&mut Vec::new());
        assert!(matches!(read, Err(RingError::Violation(_))), "{read:?}");
    }
}
