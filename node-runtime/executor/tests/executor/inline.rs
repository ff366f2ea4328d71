//! Calls within calls: what is called finds everything as at the start and leaves nothing, what called it goes on where it was, and what
//! does more than answer is not called so.

use std::cell::{Cell, RefCell};
use std::os::unix::fs::FileExt as _;

use mfaas_abi::frame::encode_request;
use mfaas_abi::limits::BODY_BYTES_MAX;
use mfaas_abi::{DONE, Record, Status};
use mfaas_executor::{AskHost, Inline, Limits, NoAnswer, RequestHead, Start};
use mfaas_ident::{Budget, MemoryLimit};

use crate::{Answer, Fixture, answer, state, toolchain};

/// What a call within a call came to.
type Called = Result<(Status, String), NoAnswer>;

/// The slot of the image that is called.
const CALLEE: u32 = 1;

/// Calls the image in a slot.
fn called(inline: &mut Inline<'_>, slot: u32, body: &str, limits: Limits) -> Called {
    assert!(inline.request()[..2_048].iter().all(|byte| *byte == 0), "nothing of an earlier call");
    let answer = inline.call(slot, &head(), body.as_bytes(), limits)?;
    assert_eq!(answer.http_status, 200);
    Ok((answer.status, String::from_utf8(answer.body.to_vec()).expect("text")))
}

/// Of a plain request.
fn head() -> RequestHead {
    let mut frame = Vec::new();
    encode_request(&mut frame, "POST", "/", [], b"").expect("a plain request");
    RequestHead::read(&frame[..frame.len() - size_of::<u32>()]).expect("its head")
}

/// Tells a call that its sleep is over.
fn told(place: &mut [u8]) -> usize {
    let mut records = Vec::new();
    Record { id: 1, code: DONE, bytes: b"" }.append_to(&mut records);
    place[..records.len()].copy_from_slice(&records);
    records.len()
}

fn fresh() -> Called {
    Ok((Status::Ok, state::FRESH.to_owned()))
}

impl Fixture {
    /// The function of `tests/functions/waiter.rs`, and one that knows what a fresh start looks like.
    fn of_caller_and(callee: &[u8]) -> Self {
        Self::with(&[toolchain::waiter(), callee])
    }

    /// Begins a call that waits so often, with so many bytes in its arena. What it answered, and whether it waits.
    fn runs(&mut self, rounds: u8, bytes: u32, ask: AskHost<'_>) -> (Answer, bool) {
        let mut frame = Vec::new();
        let body = [&[b'w', rounds][..], &bytes.to_le_bytes()].concat();
        encode_request(&mut frame, "POST", "/", [], &body).expect("a plain request");
        self.executor.request()[..frame.len()].copy_from_slice(&frame);
        let word = self.watcher.word();
        let start = Start { slot: 0, frame_bytes: frame.len(), resumes: false, limits: self.limits };
        let mut ended = self.executor.enter(start, word, ask).expect("resident");
        let outcome = ended.outcome();
        if outcome.waits {
            let nothing = mfaas_executor::Outcome { response: b"", status: Status::Aborted, ..outcome };
            return (answer(nothing), true);
        }
        (answer(outcome), false)
    }

    /// A call whose first wait calls others one after the other: what they came to. Then it goes on, and finds its memory whole.
    fn calls(&mut self, bodies: &[&str]) -> Vec<Called> {
        let (limits, came) = (self.limits, RefCell::new(Vec::new()));
        let ask = |_: &[u8], place: &mut [u8], inline: &mut Inline<'_>| {
            came.borrow_mut().extend(bodies.iter().map(|body| called(inline, CALLEE, body, limits)));
            Some(told(place))
        };
        let (answer, waits) = self.runs(1, 3_000, &ask);
        assert!(!waits);
        assert_eq!((answer.status, answer.body[16]), (Status::Ok, 1), "its memory is whole: {answer:?}");
        assert!(answer.logs.is_empty() && answer.message.is_empty(), "{answer:?}");
        came.into_inner()
    }
}

#[test]
fn a_call_within_a_call_begins_afresh_and_leaves_nothing() {
    let mut fixture = Fixture::of_caller_and(toolchain::tenant());
    for _ in 0..50 {
        assert_eq!(fixture.calls(&["count", "count", "count"]), [fresh(), fresh(), fresh()]);
        // By itself as well, before and after.
        fixture.slot = CALLEE;
        assert_eq!(fixture.ok("count"), state::FRESH);
    }
}

/// However much memory each of them has.
#[test]
fn caller_and_callee_have_memory_of_their_own() {
    let mut fixture = Fixture::of_caller_and(toolchain::tenant()).with_budget_us(2_000_000);
    let limits = fixture.limits;
    for bytes in [0, 15_000, 60_000, 300_000] {
        let ask = |_: &[u8], place: &mut [u8], inline: &mut Inline<'_>| {
            for body in ["count", "zeroed", "large-frame", "most", "count"] {
                assert!(called(inline, CALLEE, body, limits).is_ok(), "{body}");
            }
            assert_eq!(called(inline, CALLEE, "count", limits), fresh());
            Some(told(place))
        };
        let (answer, _) = fixture.runs(3, bytes, &ask);
        assert_eq!((answer.status, answer.body[16]), (Status::Ok, 1), "{bytes} bytes: {answer:?}");
    }
}

#[test]
fn what_does_more_than_answer_is_not_called_within_a_call() {
    let mut fixture = Fixture::of_caller_and(toolchain::tenant()).with_budget_us(2_000_000);
    for (body, why) in [
        ("print", NoAnswer::Apart),
        ("panic", NoAnswer::Declined),
        ("abort", NoAnswer::Declined),
        ("overflow", NoAnswer::Declined),
        ("bomb", NoAnswer::Declined),
        ("no-room", NoAnswer::Declined),
        ("huge", NoAnswer::Declined),
    ] {
        assert_eq!(fixture.calls(&["count", body, "count"]), [fresh(), Err(why), fresh()], "{body}");
    }
    drop(fixture);
    let mut fixture = Fixture::with(&[toolchain::waiter(), toolchain::waiter()]);
    let waits = String::from_utf8([b'w', 1, 0, 0, 0, 0].to_vec()).expect("well-formed");
    assert_eq!(fixture.calls(&[&waits, &waits]), [Err(NoAnswer::Apart), Err(NoAnswer::Apart)]);
}

/// Its lines stay as it wrote them, what it has not ended of the last one included.
#[test]
fn what_a_caller_has_logged_is_not_mixed_with_what_its_callee_does() {
    let mut fixture = Fixture::with(&[toolchain::waiter(), toolchain::tenant()]);
    fixture.slot = CALLEE;
    let by_itself = fixture.call(b"print").logs;
    assert!(!by_itself.is_empty());
    assert_eq!(fixture.calls(&["print"]), [Err(NoAnswer::Apart)]);
    assert_eq!(fixture.call(b"print").logs, by_itself);
}

#[test]
fn who_is_not_there_or_calls_itself_is_not_called() {
    let mut fixture = Fixture::of_caller_and(toolchain::tenant());
    let limits = fixture.limits;
    let ask = |_: &[u8], place: &mut [u8], inline: &mut Inline<'_>| {
        for slot in [0, 2, 63, 64, u32::MAX] {
            assert_eq!(called(inline, slot, "count", limits), Err(NoAnswer::Declined), "{slot}");
        }
        let large = vec![0; BODY_BYTES_MAX + 1];
        let answer = inline.call(CALLEE, &head(), &large, limits);
        assert_eq!(answer.err(), Some(NoAnswer::Declined), "a request without room");
        assert_eq!(called(inline, CALLEE, "count", limits), fresh(), "the twin");
        Some(told(place))
    };
    let (answer, _) = fixture.runs(1, 3_000, &ask);
    assert_eq!((answer.status, answer.body[16]), (Status::Ok, 1));
}

/// A callee has its own budget within its caller's, whose time it takes.
#[test]
fn a_callee_that_does_not_end_is_ended_by_its_own_budget_or_its_callers() {
    let mut fixture = Fixture::of_caller_and(toolchain::tenant());
    let (memory, all) = (fixture.limits.memory, fixture.limits);
    let short = Limits { budget: Budget::from_micros(500).expect("well-formed"), memory };
    let ask = |_: &[u8], place: &mut [u8], inline: &mut Inline<'_>| {
        for body in ["spin", "spin-logging", "spin-stack", "deadlock"] {
            let came = called(inline, CALLEE, body, short);
            assert!(came.is_err(), "{body}: {came:?}");
            assert_eq!(called(inline, CALLEE, "count", all), fresh(), "after {body}");
        }
        Some(told(place))
    };
    let (answer, _) = fixture.runs(1, 3_000, &ask);
    assert_eq!((answer.status, answer.body[16]), (Status::Ok, 1), "{answer:?}");
    assert!(answer.cpu_ns >= 2_000_000, "its time is its caller's: {answer:?}");
    // Whoever has as much as its caller takes all of that.
    let ask = |_: &[u8], place: &mut [u8], inline: &mut Inline<'_>| {
        assert_eq!(called(inline, CALLEE, "spin", all), Err(NoAnswer::Declined));
        Some(told(place))
    };
    let (answer, _) = fixture.runs(1, 3_000, &ask);
    assert_eq!(answer.status, Status::OverBudget, "{answer:?}");
    fixture.slot = CALLEE;
    assert_eq!(fixture.ok("count"), state::FRESH);
}

/// A callee has no more memory than it may.
#[test]
fn a_callee_keeps_its_memory_limit() {
    let mut fixture = Fixture::of_caller_and(toolchain::tenant());
    let (budget, all) = (fixture.limits.budget, fixture.limits);
    let little = Limits { budget, memory: MemoryLimit::from_bytes(128 << 10).expect("well-formed") };
    let ask = |_: &[u8], place: &mut [u8], inline: &mut Inline<'_>| {
        assert!(called(inline, CALLEE, "zeroed", all).is_ok(), "the twin");
        assert_eq!(called(inline, CALLEE, "zeroed", little), Err(NoAnswer::Declined));
        Some(told(place))
    };
    let (answer, _) = fixture.runs(1, 3_000, &ask);
    assert_eq!((answer.status, answer.body[16]), (Status::Ok, 1), "{answer:?}");
}

/// A function that is called could change what lies in the window while the host reads it.
#[test]
fn what_a_caller_asks_for_is_read_where_no_function_reaches() {
    let mut fixture = Fixture::of_caller_and(toolchain::tenant());
    let ask = |asked: &[u8], place: &mut [u8], _: &mut Inline<'_>| {
        assert!(asked.as_ptr().addr() >= 6 << 30 && !asked.is_empty());
        Some(told(place))
    };
    let (answer, _) = fixture.runs(3, 3_000, &ask);
    assert_eq!((answer.status, answer.body[16]), (Status::Ok, 1), "{answer:?}");
}

/// What faults is no safe code: whoever called it ends with it, and nothing stays anywhere.
#[test]
fn a_fault_of_a_callee_ends_its_caller() {
    let mut fixture = Fixture::of_caller_and(toolchain::hostile());
    let limits = fixture.limits;
    let ask = |_: &[u8], place: &mut [u8], inline: &mut Inline<'_>| {
        assert_eq!(called(inline, CALLEE, "i", limits), Err(NoAnswer::Declined));
        assert_eq!(
            called(inline, CALLEE, "r", limits),
            Err(NoAnswer::Declined),
            "and nobody is called any more"
        );
        Some(told(place))
    };
    let (answer, waits) = fixture.runs(1, 3_000, &ask);
    assert_eq!((answer.status, waits), (Status::Fault, false), "{answer:?}");
    fixture.slot = CALLEE;
    assert_eq!(fixture.ok("r"), "0", "nothing of it is left in the window");
    let nothing = Ok((Status::Ok, "0".to_owned()));
    assert_eq!(fixture.calls(&["r", "-", "r"]), [nothing.clone(), Ok((Status::Ok, "!".to_owned())), nothing]);
    for lie in ["a", "b", "c", "d", "e", "F", "f", "g"] {
        assert_eq!(fixture.calls(&[lie]), [Err(NoAnswer::Declined)], "{lie}");
    }
}

/// Bytes that are not zero where images have their data.
fn held_in_data() -> usize {
    let mut bytes = vec![0; 16 << 20];
    let memory = std::fs::File::open("/proc/self/mem").expect("this process");
    memory.read_exact_at(&mut bytes, 1_280 << 20).expect("the data of a slab");
    bytes.iter().filter(|byte| **byte != 0).count()
}

/// Nobody calls it again in this worker, perhaps.
#[test]
fn nothing_of_a_callee_stays_in_its_data() {
    let mut fixture = Fixture::of_caller_and(toolchain::tenant()).with_budget_us(5_000_000);
    let limits = fixture.limits;
    let ask = |_: &[u8], place: &mut [u8], inline: &mut Inline<'_>| {
        let before = held_in_data();
        assert!(before > 0, "the caller has some");
        assert_eq!(called(inline, CALLEE, "count", limits), fresh());
        assert_eq!(held_in_data(), before);
        Some(told(place))
    };
    assert_eq!(fixture.runs(1, 100, &ask).0.status, Status::Ok);
}

/// What is no safe code writes to memory that others are to be called in, before it faults.
#[test]
fn a_fault_leaves_nothing_where_others_are_called() {
    let mut fixture = Fixture::of_caller_and(toolchain::hostile());
    let at = Cell::new(0);
    let ask = |_: &[u8], place: &mut [u8], inline: &mut Inline<'_>| {
        at.set(inline.request().as_ptr().addr());
        assert!(inline.request().iter().all(|byte| *byte == 0));
        Some(told(place))
    };
    assert_eq!(fixture.runs(1, 100, &ask).0.status, Status::Ok);
    fixture.slot = CALLEE;
    let beyond = 4usize << 20;
    let write = [&b"Y"[..], &at.get().to_ne_bytes(), &beyond.to_ne_bytes()].concat();
    assert_eq!(fixture.call(&write).status, Status::Fault, "up to the guard behind it");
    assert_eq!(fixture.runs(1, 100, &ask).0.status, Status::Ok);
}
