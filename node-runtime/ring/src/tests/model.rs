//! Every order of the steps of the three protocols, and every value that the memory model lets a
//! load see. What runs is the code of `protocol`, on the model's atomics.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use loom::cell::UnsafeCell;
use loom::sync::atomic::{AtomicU32, AtomicU64, fence};
use loom::thread;

use crate::protocol::{
    Counter, Exchange, Heard, Turn, Word, announce, ask, forget, hear, look, observe, publish, ring,
    take_question, tell, withdraw, withdraw_question,
};

/// Changes of thread that are forced in one run, at most. Three find every bug of two threads that was ever
/// tried here; without a bound the longer models take minutes.
const PREEMPTIONS_MAX: usize = 3;

impl Word<u64> for AtomicU64 {
    fn load(&self, order: Ordering) -> u64 {
        Self::load(self, order)
    }

    fn store(&self, value: u64, order: Ordering) {
        Self::store(self, value, order);
    }
}

impl Word<u32> for AtomicU32 {
    fn load(&self, order: Ordering) -> u32 {
        Self::load(self, order)
    }

    fn store(&self, value: u32, order: Ordering) {
        Self::store(self, value, order);
    }
}

impl Exchange for AtomicU64 {
    fn exchange(&self, from: u64, to: u64) -> bool {
        self.compare_exchange(from, to, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }
}

impl Counter for AtomicU32 {
    fn increment(&self, order: Ordering) {
        self.fetch_add(1, order);
    }
}

fn check(model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(PREEMPTIONS_MAX);
    builder.check(model);
}

/// A record whose payload may never be reached by both ends at once: the model notices if it is.
#[derive(Default)]
struct Record {
    sequence: AtomicU64,
    payload: UnsafeCell<()>,
}

impl Record {
    fn write(&self, position: u64) {
        self.payload.with_mut(|_| ());
        publish(&self.sequence, position);
    }

    /// Reading wipes, so it is a write as well.
    fn read(&self, position: u64, slots: u32) -> bool {
        match look(&self.sequence, position, slots) {
            Turn::Published => {
                self.payload.with_mut(|_| ());
                true
            }
            Turn::NotYet => false,
            Turn::Alien => panic!("a benign peer wrote {position} out of turn"),
        }
    }
}

/// A queue of `slots` in which `calls` go there and their answers come back.
fn calls_and_answers(slots: u32, calls: u64) {
    let submissions: loom::sync::Arc<Vec<Record>> =
        loom::sync::Arc::new((0..slots).map(|_| Record::default()).collect());
    let completions: loom::sync::Arc<Vec<Record>> =
        loom::sync::Arc::new((0..slots).map(|_| Record::default()).collect());
    let slot = move |position: u64| (position % u64::from(slots)) as usize;
    let worker = {
        let (submissions, completions) = (submissions.clone(), completions.clone());
        thread::spawn(move || {
            for position in 0..calls {
                while !submissions[slot(position)].read(position, slots) {
                    thread::yield_now();
                }
                completions[slot(position)].write(position);
            }
        })
    };
    let (mut submitted, mut collected) = (0, 0);
    while collected < calls {
        if submitted < calls && submitted - collected < u64::from(slots) {
            submissions[slot(submitted)].write(submitted);
            submitted += 1;
        } else if completions[slot(collected)].read(collected, slots) {
            collected += 1;
        } else {
            thread::yield_now();
        }
    }
    worker.join().expect("the worker ends");
}

#[test]
fn a_slot_belongs_to_one_end_at_a_time() {
    check(|| calls_and_answers(1, 2));
    check(|| calls_and_answers(2, 3));
}

/// A bell as the two sides use it. The kernel's part of a futex needs no model: it compares the bell with
/// what the sleeper saw under a lock under which it also wakes, so a sleep ends exactly if the bell changes after it was
/// seen.
#[derive(Default)]
struct Futex {
    bell: AtomicU32,
    sleeps: AtomicU32,
}

impl Futex {
    fn ring(&self) {
        ring(&self.bell, &self.sleeps, |_| ());
    }

    /// Goes to sleep until `ready`: nothing if it is, else the value of the bell that it sleeps on.
    /// `ordered` stands where memory is ordered, with what the sleeper does then.
    fn sleep(&self, ordered: impl FnOnce(), ready: impl FnOnce() -> bool) -> Option<u32> {
        announce(&self.sleeps);
        ordered();
        let seen = observe(&self.bell);
        if ready() {
            withdraw(&self.sleeps);
            None
        } else {
            Some(seen)
        }
    }

    /// Whether a sleep that began has an end. Asked when the other side has done all that it does.
    fn ends(&self, slept_on: Option<u32>) -> bool {
        slept_on.is_none_or(|seen| observe(&self.bell) != seen)
    }
}

/// One publishes and rings, the other goes to sleep.
fn publish_and_wake(fenced: bool) {
    let shared = Arc::new((AtomicU64::new(0), Futex::default()));
    let waker = Arc::clone(&shared);
    let waker = thread::spawn(move || {
        let (sequence, futex) = &*waker;
        publish(sequence, 0);
        if fenced {
            fence(Ordering::SeqCst);
        }
        futex.ring();
    });
    let (sequence, futex) = &*shared;
    let published = || look(sequence, 0, 1) == Turn::Published;
    let slept_on = futex.sleep(|| fence(Ordering::SeqCst), published);
    waker.join().expect("the waker ends");
    assert!(futex.ends(slept_on), "a wake is lost");
    assert!(published(), "who is woken finds what was published");
}

#[test]
fn no_wake_is_lost() {
    check(|| publish_and_wake(true));
}

#[test]
#[should_panic(expected = "a wake is lost")]
fn without_a_fence_the_model_finds_the_lost_wake() {
    check(|| publish_and_wake(false));
}

/// Who is woken saw everything: a bell that changed was changed after the publishing.
#[test]
fn a_reader_that_sees_the_bell_change_sees_what_was_published() {
    check(|| {
        let shared = Arc::new((AtomicU64::new(0), Futex::default()));
        let waker = Arc::clone(&shared);
        announce(&shared.1.sleeps);
        let waker = thread::spawn(move || {
            publish(&waker.0, 0);
            waker.1.ring();
        });
        if observe(&shared.1.bell) != 0 {
            assert_eq!(look(&shared.0, 0, 1), Turn::Published);
        }
        waker.join().expect("the waker ends");
    });
}

/// One ring of one slot with the bells of both ends.
#[derive(Default)]
struct Both {
    submission: AtomicU64,
    completion: AtomicU64,
    worker: Futex,
    host: Futex,
}

impl Both {
    fn answer(&self) {
        publish(&self.completion, 0);
        fence(Ordering::SeqCst);
        self.host.ring();
    }
}

/// The host submits without a fence and goes to sleep over the answer; the worker goes to sleep over the call, or
/// answers it.
fn submit_and_sleep(nudges: bool) {
    let both = Arc::new(Both::default());
    let worker = Arc::clone(&both);
    let worker = thread::spawn(move || {
        let called = || look(&worker.submission, 0, 1) == Turn::Published;
        let slept_on = worker.worker.sleep(|| fence(Ordering::SeqCst), called);
        if slept_on.is_none() {
            worker.answer();
        }
        slept_on
    });
    publish(&both.submission, 0);
    both.worker.ring();
    let before_sleep = || {
        fence(Ordering::SeqCst);
        if nudges {
            both.worker.ring();
        }
    };
    let host_slept_on = both.host.sleep(before_sleep, || look(&both.completion, 0, 1) == Turn::Published);
    let worker_slept_on = worker.join().expect("the worker ends");
    assert!(both.worker.ends(worker_slept_on), "the worker sleeps over a call");
    if worker_slept_on.is_none() {
        assert!(both.host.ends(host_slept_on), "the host sleeps over an answer");
    }
}

#[test]
fn a_worker_that_falls_asleep_during_a_submission_is_woken_before_the_host_sleeps() {
    check(|| submit_and_sleep(true));
}

#[test]
#[should_panic(expected = "the worker sleeps over a call")]
fn without_the_second_look_the_model_finds_both_asleep() {
    check(|| submit_and_sleep(false));
}

/// A question; what it carries there and back may never be reached by both ends at once.
#[derive(Default)]
struct Question {
    word: AtomicU64,
    asked: UnsafeCell<()>,
    told: UnsafeCell<()>,
}

/// A worker asks twice and withdraws what it does not want to wait for; a host looks a few times.
fn questions_and_answers() {
    let question = loom::sync::Arc::new(Question::default());
    let host = {
        let question = question.clone();
        thread::spawn(move || {
            for _ in 0..3 {
                if let Some(bytes) = take_question(&question.word) {
                    question.asked.with_mut(|_| ());
                    question.told.with_mut(|_| ());
                    tell(&question.word, (bytes != 2).then_some(bytes + 10));
                }
                thread::yield_now();
            }
        })
    };
    for bytes in [1, 2] {
        question.asked.with_mut(|_| ());
        ask(&question.word, bytes);
        let mut looks = 0;
        loop {
            match hear(&question.word) {
                Heard::Told(told) => {
                    question.told.with_mut(|_| ());
                    assert_eq!((bytes, told), (1, 11));
                    forget(&question.word);
                    break;
                }
                Heard::Declined => {
                    assert_eq!(bytes, 2);
                    forget(&question.word);
                    break;
                }
                Heard::NotYet => {
                    looks += 1;
                    if looks > 1 && withdraw_question(&question.word, bytes) {
                        break;
                    }
                    thread::yield_now();
                }
            }
        }
    }
    host.join().expect("the host ends");
}

#[test]
fn a_question_is_answered_or_withdrawn() {
    check(questions_and_answers);
}
