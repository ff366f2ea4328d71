//! Calls that wait: what they were comes back whole, to nobody else, and nothing of it stays meanwhile. And calls that need not leave for
//! that, since somebody knows at once what they wait for.

use std::cell::Cell;
use std::time::{Duration, Instant};

use mfaas_abi::limits::{BODY_BYTES_MAX, state_bytes_max};
use mfaas_abi::{DONE, OperationKind, Record, Status, SuspendedFrame};
use mfaas_executor::{AskHost, CallError, Inline, Start};

use crate::{Answer, Fixture, answer, state, toolchain};

/// How a run of a call ended.
enum Ran {
    /// It waits, with what was put aside of it.
    Waits(Vec<u8>),
    Ended(Answer),
}

impl Ran {
    fn waits(self) -> Vec<u8> {
        match self {
            Self::Waits(state) => state,
            Self::Ended(answer) => panic!("it does not wait: {answer:?}"),
        }
    }

    fn ended(self) -> Answer {
        match self {
            Self::Waits(_) => panic!("it waits"),
            Self::Ended(answer) => answer,
        }
    }
}

impl Fixture {
    /// The function of `tests/functions/waiter.rs` twice, and one that knows what a fresh start looks like.
    fn of_waiters() -> Self {
        Self::with(&[toolchain::waiter(), toolchain::waiter(), toolchain::tenant()])
    }

    /// Begins a call that waits for so many rounds with so many bytes in its arena.
    fn begin(&mut self, kind: u8, rounds: u8, bytes: u32) -> Ran {
        self.begin_asking(kind, rounds, bytes, mfaas_executor::ASK_NOBODY)
    }

    /// The same, with somebody who may know what it waits for.
    fn begin_asking(&mut self, kind: u8, rounds: u8, bytes: u32, ask: AskHost<'_>) -> Ran {
        let mut frame = Vec::new();
        let body = [&[kind, rounds][..], &bytes.to_le_bytes()].concat();
        mfaas_abi::frame::encode_request(&mut frame, "POST", "/", [], &body).expect("a plain request");
        self.executor.request()[..frame.len()].copy_from_slice(&frame);
        let word = self.watcher.word();
        let (slot, frame_bytes, limits) = (self.slot, frame.len(), self.limits);
        let start = Start { slot, frame_bytes, resumes: false, limits };
        ran(self.executor.enter(start, word, ask).expect("resident").outcome())
    }

    fn try_resume(&mut self, frame: &[u8]) -> Result<Ran, CallError> {
        self.executor.request()[..frame.len()].copy_from_slice(frame);
        let word = self.watcher.word();
        let mut ended = self.executor.resume(self.slot, frame.len(), self.limits, word)?;
        Ok(ran(ended.outcome()))
    }

    /// Goes on with a call that hears that its sleep is over.
    fn resume(&mut self, state: &[u8]) -> Ran {
        self.try_resume(&heard(state, b"")).expect("its own state")
    }

    /// Calls another function, which finds everything as at the start.
    fn between(&mut self) {
        let slot = std::mem::replace(&mut self.slot, 2);
        assert_eq!(self.ok("count"), state::FRESH);
        self.slot = slot;
    }
}

fn ran(outcome: mfaas_executor::Outcome<'_>) -> Ran {
    if !outcome.waits {
        return Ran::Ended(answer(outcome));
    }
    assert_eq!((outcome.status, outcome.message), (Status::Ok, &b""[..]));
    let frame = SuspendedFrame::decode(outcome.response, BODY_BYTES_MAX).expect("made by the executor");
    for record in frame.records {
        assert_eq!(record.code, OperationKind::Sleep as u32);
        assert_eq!(record.bytes, 5u64.to_le_bytes());
    }
    Ran::Waits(frame.state.to_vec())
}

/// A state with one outcome in front.
fn heard(state: &[u8], bytes: &[u8]) -> Vec<u8> {
    let mut records = Vec::new();
    Record { id: 1, code: DONE, bytes }.append_to(&mut records);
    [&SuspendedFrame::head(records.len()), &*records, state].concat()
}

/// How often it went on (7 at the start), what it heard, and whether its memory is whole.
fn report(answer: &Answer) -> (u64, u64, bool) {
    assert_eq!(answer.status, Status::Ok, "{answer:?}");
    let word = |at: usize| u64::from_le_bytes(answer.body[at..at + 8].try_into().expect("8 bytes"));
    (word(0), word(8), answer.body[16] == 1)
}

/// Of a record without bytes: its identity.
const HEARD: u64 = 1;

#[test]
fn a_call_that_waits_goes_on_where_it_was() {
    let mut fixture = Fixture::of_waiters();
    for bytes in [0, 100, 3_000, 15_000, 60_000, 300_000] {
        let mut state = fixture.begin(b'w', 3, bytes).waits();
        for _ in 0..2 {
            fixture.between();
            // Another call of the same function, which waits too.
            fixture.begin(b'w', 1, bytes / 2).waits();
            state = fixture.resume(&state).waits();
        }
        fixture.between();
        let ended = fixture.resume(&state).ended();
        assert_eq!(report(&ended), (10, 3 * HEARD, true), "{bytes} bytes");
    }
}

#[test]
fn calls_that_wait_at_the_same_time_do_not_meet() {
    let mut fixture = Fixture::of_waiters();
    let sizes = [10, 5_000, 700, 40_000];
    let mut waiting: Vec<_> = sizes.iter().map(|bytes| fixture.begin(b'w', 2, *bytes).waits()).collect();
    for (number, state) in waiting.iter_mut().enumerate().rev() {
        *state = fixture.try_resume(&heard(state, &[number as u8])).expect("its own").waits();
    }
    for (number, state) in waiting.iter().enumerate() {
        let ended = fixture.resume(state).ended();
        // Of a record of one byte: identity, length, and the byte.
        assert_eq!(report(&ended), (9, HEARD + HEARD + 1 + number as u64, true));
    }
}

/// What a neighbour could find of a call that waits: its memory is wiped as any other's.
#[test]
fn nothing_of_a_call_that_waits_stays_in_the_worker() {
    let mut fixture = Fixture::with(&[toolchain::hostile(), toolchain::waiter()]);
    for bytes in [100, 15_000, 300_000] {
        fixture.slot = 1;
        let state = fixture.begin(b'w', 2, bytes).waits();
        fixture.slot = 0;
        assert_eq!(fixture.ok("r"), "0", "after it began to wait");
        fixture.slot = 1;
        fixture.resume(&state).waits();
        fixture.slot = 0;
        assert_eq!(fixture.ok("r"), "0", "after it went on");
    }
}

#[test]
fn what_was_put_aside_comes_back_to_its_own_image_alone() {
    let mut fixture = Fixture::of_waiters();
    let state = fixture.begin(b'w', 1, 2_000).waits();
    let refused = |fixture: &mut Fixture, state: &[u8], why: &str| {
        let refused = fixture.try_resume(&heard(state, b"")).err();
        assert_eq!(refused, Some(CallError::NotItsState), "{why}");
        assert!(fixture.executor.request().iter().all(|byte| *byte == 0), "{why}: the frame is wiped");
        fixture.between();
    };
    fixture.slot = 1;
    refused(&mut fixture, &state, "the same code in another slot");
    fixture.slot = 2;
    refused(&mut fixture, &state, "another function");
    fixture.slot = 0;
    let changed = |at: usize, to: u8| {
        let mut changed = state.clone();
        changed[at] ^= to;
        changed
    };
    for (at, what) in [
        (0, "another entry"),
        (8, "another generation"),
        (16, "another length of the arena"),
        (20, "another length of the data"),
        (24, "thread-locals that it has not"),
        (28, "a size for which the arena is too long"),
        (29, "a size that is none"),
    ] {
        refused(&mut fixture, &changed(at, 2), what);
    }
    refused(&mut fixture, &state[..state.len() - 1], "a byte too few");
    refused(&mut fixture, &[&*state, &[0]].concat(), "a byte too many");
    refused(&mut fixture, &state[..31], "no head");
    let no_frame = fixture.try_resume(&[255; 64]).err();
    assert_eq!(no_frame, Some(CallError::NotItsState));
    assert_eq!(report(&fixture.resume(&state).ended()), (8, HEARD, true), "as it is, it goes on");
}

/// An image that was loaded again is another one: addresses of the former mean nothing there.
#[test]
fn a_call_does_not_outlive_its_image() {
    let alone = Fixture::alone();
    let geometry = mfaas_executor::SlabGeometry { bank_bytes: 16 << 20, asset_bytes: 0, slots: 4 };
    let verification = mfaas_executor::Verification::Required;
    let mut writer = mfaas_executor::SlabWriter::new(geometry, verification).expect("a slab");
    let waiter = crate::sealed(toolchain::waiter());
    let first = writer.load(&waiter).expect("it loads");
    let slab = mfaas_executor::Slab::map(writer.fd()).expect("the window is free");
    let mut fixture = Fixture::made(slab, alone);
    let state = fixture.begin(b'w', 1, 10).waits();
    writer.unload(first.slot).expect("resident");
    writer.reclaim(first.slot).expect("it left");
    let second = writer.load(&waiter).expect("it loads");
    assert_eq!((second.slot, second.address), (first.slot, first.address), "at the same place");
    assert_eq!(fixture.try_resume(&heard(&state, b"")).err(), Some(CallError::NotItsState));
}

/// Each wait copies what is put aside.
#[test]
fn what_a_call_has_given_back_is_not_put_aside() {
    let mut fixture = Fixture::of_waiters();
    let all = fixture.begin(b'w', 1, 300_000).waits();
    let state = fixture.begin(b'f', 1, 300_000).waits();
    assert_eq!(all.len() - state.len(), 270_000);
    fixture.between();
    let ended = fixture.resume(&state).ended();
    assert_eq!(report(&ended), (8, HEARD, true));
    assert!(ended.memory_bytes >= 300_000, "what it used at most: {ended:?}");
}

#[test]
fn a_call_may_outgrow_its_arena_after_it_waited() {
    let mut fixture = Fixture::of_waiters();
    let state = fixture.begin(b'g', 1, 500).waits();
    let ended = fixture.resume(&state).ended();
    assert_eq!(report(&ended), (8, HEARD, true), "what it did before it was run again counts once");
    assert!(ended.memory_bytes >= 1 << 20, "{ended:?}");
}

#[test]
fn a_call_that_waited_has_every_end_that_others_have() {
    let mut fixture = Fixture::of_waiters().with_budget_us(2_000);
    let state = fixture.begin(b's', 1, 10).waits();
    assert_eq!(fixture.resume(&state).ended().status, Status::OverBudget);
    fixture.between();
    let state = fixture.begin(b'p', 1, 10).waits();
    let ended = fixture.resume(&state).ended();
    assert_eq!((ended.status, &*ended.message), (Status::Panicked, "resumed"));
    fixture.between();
}

#[test]
fn what_a_call_says_when_it_waits_is_believed_as_far_as_it_can_be_checked() {
    let mut fixture = Fixture::of_waiters();
    for (kind, lie) in [(b'o', "operations outside of the arena"), (b'r', "an operation that is cut off")] {
        let ended = fixture.begin(kind, 1, 10).ended();
        assert_eq!((ended.status, &*ended.body), (Status::BadOutput, &b""[..]), "{lie}");
        fixture.between();
    }
    let state = fixture.begin(b'l', 1, 10).waits();
    assert!(state.len() <= 64 << 10, "no more than its arena: {} bytes", state.len());
    assert_eq!(report(&fixture.resume(&state).ended()), (8, HEARD, true));
    let nothing = fixture.begin(b'n', 1, 10).waits();
    assert_eq!(report(&fixture.resume(&nothing).ended()), (8, HEARD, true));
}

#[test]
fn a_call_may_wait_with_so_much_memory_in_use_and_no_more() {
    let mut fixture = Fixture::of_waiters();
    let most = state_bytes_max(BODY_BYTES_MAX);
    let state = fixture.begin(b'w', 1, most as u32 - 2_048).waits();
    assert_eq!(report(&fixture.resume(&state).ended()), (8, HEARD, true));
    let ended = fixture.begin(b'w', 1, most as u32).ended();
    assert_eq!(ended.status, Status::OutOfMemory);
    assert!(ended.message.starts_with("the call waits with "), "{}", ended.message);
    assert!(ended.message.ends_with(&format!(" and may with {most}")), "{}", ended.message);
    fixture.between();
}

/// What a call hears that waited for a sleep, written where it hears of it.
fn told(asked: &[u8], place: &mut [u8]) -> usize {
    let operations = mfaas_abi::Records::decode(asked).expect("the function's records");
    assert!(operations.clone().all(|operation| operation.code == OperationKind::Sleep as u32));
    let mut records = Vec::new();
    Record { id: 1, code: DONE, bytes: b"" }.append_to(&mut records);
    place[..records.len()].copy_from_slice(&records);
    records.len()
}

#[test]
fn a_call_goes_on_where_it_is_as_long_as_it_is_told_what_it_waits_for() {
    let mut fixture = Fixture::of_waiters();
    let asked = Cell::new(0);
    let ask = |question: &[u8], place: &mut [u8], _: &mut Inline<'_>| {
        asked.set(asked.get() + 1);
        Some(told(question, place))
    };
    for bytes in [0, 3_000, 300_000] {
        asked.set(0);
        let ended = fixture.begin_asking(b'w', 3, bytes, &ask).ended();
        assert_eq!((report(&ended), asked.get()), ((10, 3 * HEARD, true), 3), "{bytes} bytes");
        assert!(fixture.executor.request().iter().all(|byte| *byte == 0), "what it heard is wiped");
        fixture.between();
    }
    // After two rounds nobody knows: it is put aside, and goes on as any other.
    asked.set(0);
    let some = |question: &[u8], place: &mut [u8], inline: &mut Inline<'_>| {
        ask(question, place, inline).filter(|_| asked.get() < 3)
    };
    let state = fixture.begin_asking(b'w', 3, 3_000, &some).waits();
    fixture.between();
    assert_eq!(report(&fixture.resume(&state).ended()), (10, 3 * HEARD, true));
}

/// Its request is there still, so it begins anew, and asks anew.
#[test]
fn a_call_that_outgrows_its_arena_after_it_was_told_something_is_told_it_again() {
    let mut fixture = Fixture::of_waiters();
    let asked = Cell::new(0);
    let ask = |question: &[u8], place: &mut [u8], _: &mut Inline<'_>| {
        asked.set(asked.get() + 1);
        Some(told(question, place))
    };
    let ended = fixture.begin_asking(b'g', 1, 500, &ask).ended();
    assert_eq!((report(&ended), asked.get()), ((8, HEARD, true), 2));
    assert!(ended.memory_bytes >= 1 << 20, "{ended:?}");
    fixture.between();
}

/// The time that it takes to be told something is the call's, and the budget ends it as ever.
#[test]
fn a_call_that_is_told_what_it_waits_for_keeps_its_budget() {
    let mut fixture = Fixture::of_waiters().with_budget_us(2_000);
    let ask = |question: &[u8], place: &mut [u8], _: &mut Inline<'_>| Some(told(question, place));
    assert_eq!(fixture.begin_asking(b's', 1, 10, &ask).ended().status, Status::OverBudget);
    fixture.between();
    let slowly = |question: &[u8], place: &mut [u8], inline: &mut Inline<'_>| {
        let since = Instant::now();
        while since.elapsed() < Duration::from_millis(30) {
            std::hint::spin_loop();
        }
        ask(question, place, inline)
    };
    assert_eq!(fixture.begin_asking(b'w', 1, 10, &slowly).ended().status, Status::OverBudget);
    fixture.between();
}

/// A call that began nothing new waits for what it began before, and asks nobody: it would be told nothing, again and again.
#[test]
fn a_call_that_began_nothing_is_put_aside() {
    let mut fixture = Fixture::of_waiters();
    let asked = Cell::new(0);
    let ask = |_: &[u8], _: &mut [u8], _: &mut Inline<'_>| {
        asked.set(asked.get() + 1);
        Some(0)
    };
    let state = fixture.begin_asking(b'n', 1, 10, &ask).waits();
    assert_eq!(asked.get(), 0);
    assert_eq!(report(&fixture.resume(&state).ended()), (8, HEARD, true));
}

/// Operations that lie outside of its arena are shown to nobody, and who says that more was told than there is room for told nothing.
#[test]
fn what_a_call_asks_and_is_told_lies_where_it_may() {
    let mut fixture = Fixture::of_waiters();
    let asked = Cell::new(0);
    let ask = |_: &[u8], place: &mut [u8], _: &mut Inline<'_>| {
        asked.set(asked.get() + 1);
        Some(place.len() + 1)
    };
    assert_eq!(fixture.begin_asking(b'o', 1, 10, &ask).ended().status, Status::BadOutput);
    assert_eq!(asked.get(), 0);
    let state = fixture.begin_asking(b'w', 1, 10, &ask).waits();
    assert_eq!(asked.get(), 1, "the twin");
    assert_eq!(report(&fixture.resume(&state).ended()), (8, HEARD, true));
}
