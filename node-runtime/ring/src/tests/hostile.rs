//! Peers that write anything anywhere: word by word beside a benign one, and as fast as they can
//! from another thread on another mapping while the host goes on.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use mfaas_abi::limits::{FRAME_BYTES_MAX, LOG_BYTES_MAX};
use proptest::prelude::*;

use super::{CALL, LONG, answer, collect, ring, submit, take};
use crate::map::Mapping;
use crate::{Completion, INLINE_CALLEES_MAX, InlineUse, Next, RingError, Submission, WorkerEnd, wait_any};

/// How long the host holds out against the scribbler.
const SIEGE: Duration = Duration::from_secs(2);
/// Words of the header and the records and small payloads of a ring of 4 slots: header page, then two pages a side.
const HOT_WORDS: usize = 3 * 512;

/// Writes by a peer: which word, and what.
fn scribbles() -> impl Strategy<Value = Vec<(usize, u64)>> {
    let value = prop_oneof![any::<u64>(), 0u64..9, Just(u64::MAX), any::<u32>().prop_map(u64::from)];
    // Header lines, the first submissions, the first completions, anything else that is used.
    let word = prop_oneof![0usize..80, 512usize..520, 584usize..592, 1024usize..1040, 0..HOT_WORDS];
    proptest::collection::vec((word, value), 1..40)
}

proptest! {
    #[test]
    fn random_bytes_from_a_worker_never_panic_the_host(scribbles in scribbles(), benign in 0u32..4) {
        let (fd, mut host, mut worker) = ring(4);
        let evil = Mapping::attach(&fd).expect("our own ring");
        for call_id in 0..4 {
            host.submit(Submission { call_id, frame: b"frame", may_ask: true, ..CALL }).expect("room");
        }
        for _ in 0..benign {
            take(&mut worker);
            worker.reply(&answer(b"response", b"", b"")).expect("within limits");
        }
        let mut collected = 0;
        let (mut done, mut question) = (Completion::new(), Vec::new());
        for (word, value) in scribbles {
            evil.words()[word].store(value, Ordering::SeqCst);
            let _ = host.worker_state();
            let _ = host.watch_deadline();
            let _ = host.wait(Duration::ZERO);
            if let Ok(Some(call_id)) = host.question(&mut question) {
                prop_assert_eq!(call_id, collected, "ids are the host's own");
                prop_assert!(question.len() <= FRAME_BYTES_MAX);
                host.tell(Some(b"told"));
            }
            if let Ok(true) = host.collect(&mut done) {
                prop_assert_eq!(done.call_id, collected, "ids are the host's own");
                prop_assert!(done.response.len() <= FRAME_BYTES_MAX && done.logs.len() <= LOG_BYTES_MAX);
                prop_assert!(done.inline.len() <= INLINE_CALLEES_MAX * InlineUse::BYTES);
                collected += 1;
            }
            prop_assert!(collected <= 4, "never more answers than calls");
        }
    }

    #[test]
    fn random_bytes_from_a_host_never_panic_the_worker(scribbles in scribbles()) {
        let (fd, _host, mut worker) = ring(4);
        let evil = Mapping::attach(&fd).expect("our own ring");
        let mut buffer = vec![0; WorkerEnd::BUFFER_BYTES];
        for (word, value) in scribbles {
            evil.words()[word].store(value, Ordering::SeqCst);
            if let Ok(Next::Call(job)) = worker.next(Duration::ZERO) {
                prop_assert!(job.frame_bytes <= FRAME_BYTES_MAX);
                worker.take_frame(&mut buffer).expect("it fits");
                let _ = worker.ask(b"question", &mut buffer);
                worker.reply(&answer(b"", b"", b"")).expect("within limits");
            }
        }
    }
}

#[test]
fn a_sequence_number_out_of_turn_is_a_violation() {
    let (fd, mut host, mut worker) = ring(2);
    let evil = Mapping::attach(&fd).expect("our own ring");
    let mut done = Completion::new();
    evil.completion(0).sequence.store(1, Ordering::Release);
    assert!(matches!(host.collect(&mut done), Err(RingError::Violation(_))), "nothing was called");
    submit(&mut host, 1, b"").expect("room");
    evil.completion(0).sequence.store(3, Ordering::Release);
    assert!(matches!(host.collect(&mut done), Err(RingError::Violation(_))), "of a later lap");
    evil.submission(0).sequence.store(5, Ordering::Release);
    assert!(matches!(worker.next(Duration::ZERO), Err(RingError::Violation(_))), "of a later lap");
}

/// Numbers that mean something, now and then something else.
struct Scribbler(u64);

impl Scribbler {
    fn number(&mut self) -> u64 {
        // xorshift64*: any sequence will do, as long as it is long.
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn value(&mut self, near: u64) -> u64 {
        match self.number() % 4 {
            0 => self.number(),
            1 => self.number() % 8,
            2 => self.number() & 0xffff_ffff,
            _ => near.wrapping_add(self.number() % 6),
        }
    }
}

/// Writes all over the ring until told to stop: mostly where it hurts, also into the large areas.
fn besiege(evil: &Mapping, over: &AtomicBool) -> u64 {
    let mut scribbler = Scribbler(0x9e37_79b9_7f4a_7c15);
    let words = evil.words();
    let mut writes = 0;
    while !over.load(Ordering::Relaxed) {
        let near = evil.submission(0).sequence.load(Ordering::Relaxed);
        let word = match scribbler.number() % 8 {
            0 => scribbler.number() as usize % words.len(),
            1..4 => 1024 + scribbler.number() as usize % 16,
            _ => scribbler.number() as usize % HOT_WORDS,
        };
        words[word].store(scribbler.value(near), Ordering::SeqCst);
        writes += 1;
    }
    writes
}

/// What a dispatcher does with a ring whose worker broke the protocol: gives it up and goes on.
/// Here the memory stays the enemy's, so that every new beginning is under siege, too.
fn hold_out(host: &mut crate::HostEnd, done: &mut Completion) -> bool {
    let _ = host.submit(Submission { call_id: 7, frame: &[0x5a; 700], may_ask: true, ..CALL });
    let _ = host.worker_state();
    let _ = host.watch_deadline();
    let _ = wait_any(&[host.bell()], Duration::from_micros(200), || host.is_ready());
    let mut question = Vec::new();
    if let Ok(Some(call_id)) = host.question(&mut question) {
        assert!(call_id == 7 && question.len() <= FRAME_BYTES_MAX);
        host.tell(Some(&question));
    }
    let collected = host.collect(done);
    assert!(done.response.len() <= FRAME_BYTES_MAX && done.logs.len() <= LOG_BYTES_MAX);
    assert!(host.in_flight() <= 4);
    collected.is_err()
}

#[test]
fn a_host_holds_out_while_every_shared_word_changes_and_its_benign_ring_goes_on() {
    let (fd, mut host, _worker) = ring(4);
    let evil = Mapping::attach(&fd).expect("our own ring");
    let (_benign_fd, mut benign, mut worker) = ring(4);
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let enemy = scope.spawn(|| besiege(&evil, &over));
        scope.spawn(|| {
            let mut buffer = [0; 8];
            while !over.load(Ordering::Relaxed) {
                if let Next::Call(_) = worker.next(Duration::from_millis(1)).expect("a benign host") {
                    let bytes = worker.take_frame(&mut buffer).expect("a call is taken");
                    worker.reply(&answer(&buffer[..bytes], b"", b"")).expect("within limits");
                }
            }
        });
        let (start, mut rounds, mut violations, mut answered) = (Instant::now(), 0u64, 0u64, 0u64);
        let mut done = Completion::new();
        while start.elapsed() < SIEGE {
            violations += u64::from(hold_out(&mut host, &mut done));
            submit(&mut benign, rounds, &rounds.to_le_bytes()).expect("room");
            let round = Instant::now();
            while !benign.is_ready() {
                assert!(benign.wait(LONG).expect("a wait"), "the benign worker is disturbed");
            }
            let done = collect(&mut benign).expect("ready");
            assert_eq!((done.call_id, &*done.response), (rounds, &rounds.to_le_bytes()[..]));
            assert!(round.elapsed() < LONG);
            rounds += 1;
            answered += 1;
        }
        over.store(true, Ordering::Relaxed);
        let writes = enemy.join().expect("the enemy ends");
        assert!(writes > 100_000 && violations > 0, "{writes} writes, {violations} violations");
        assert_eq!(answered, rounds, "every benign call has its answer");
    });
}
