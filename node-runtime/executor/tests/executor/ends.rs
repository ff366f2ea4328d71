//! Each end of a call has its own status, and the next call is right.

use std::sync::atomic::AtomicU64;

use mfaas_abi::frame::FrameError;
use mfaas_abi::{Level, Status};
use mfaas_executor::{CallError, ExecutorError, Slab, SlabGeometry, SlabWriter, Verification};

use crate::{Fixture, toolchain};

fn fixture() -> Fixture {
    Fixture::new(toolchain::tenant())
}

/// The status of one call, after which the function answers as always.
fn ends(fixture: &mut Fixture, body: &str) -> (Status, String) {
    let answer = fixture.call(body.as_bytes());
    assert_eq!(fixture.ok("after"), "AFTER", "after {body}");
    assert_eq!(answer.body, b"", "{body}");
    (answer.status, answer.message)
}

#[test]
fn a_plain_call_answers() {
    let mut fixture = fixture();
    let answer = fixture.call(b"hello");
    assert_eq!((answer.status, &*answer.body), (Status::Ok, &b"HELLO"[..]));
    assert_eq!((&*answer.message, answer.logs.len()), ("", 0));
    assert!(answer.cpu_ns > 0 && answer.memory_bytes > 0 && answer.memory_bytes < 64 << 10, "{answer:?}");
}

#[test]
fn what_std_offers_works() {
    let mut fixture = fixture();
    assert_eq!(fixture.ok("map"), "328350");
    assert_eq!(fixture.ok("libm"), "0.479426 0.353553 -0.693147 0.462117");
    assert_eq!(fixture.ok("clocks"), "true true");
    assert_eq!(fixture.ok("deep"), "80200");
    assert_eq!(fixture.ok("large-frame"), "409600");
    assert_eq!(fixture.call(b"zeroed").body, [0]);
    assert_eq!(fixture.call(b"most").body, vec![b'm'; 1 << 20]);
}

#[test]
fn panics_end_with_text_and_place() {
    let mut fixture = fixture();
    let (status, message) = ends(&mut fixture, "panic");
    assert_eq!(status, Status::Panicked);
    assert!(message.starts_with("no panic (") && message.contains("tenant.rs:"), "{message}");
    let (status, message) = ends(&mut fixture, "panic-index");
    assert_eq!(status, Status::Panicked);
    assert!(message.starts_with("index out of bounds: the len is 11"), "{message}");
    let (status, message) = ends(&mut fixture, "panic-long");
    assert_eq!(status, Status::Panicked);
    assert!(
        message.starts_with("xxx") && message.contains("tenant.rs:") && message.len() <= 1_024,
        "{message}"
    );
}

/// `panic_any`, and `panic!` of older editions with it, take another way through std.
#[test]
fn panics_of_every_kind_end_with_their_place() {
    let mut fixture = fixture();
    for (body, text) in [("panic-old", "by the old way ("), ("panic-number", "a panic without text (")] {
        let (status, message) = ends(&mut fixture, body);
        assert_eq!(status, Status::Panicked, "{body}");
        assert!(message.starts_with(text) && message.contains("tenant.rs:"), "{body}: {message}");
    }
}

#[test]
fn a_want_of_room_that_is_said_aloud_ends_the_call() {
    let (status, message) = ends(&mut fixture(), "no-room");
    assert_eq!(status, Status::OutOfMemory);
    assert!(message.starts_with("no room for 123 more bytes"), "{message}");
}

/// Printing a backtrace reads files, and asks where those of the program are mapped.
#[test]
fn an_image_carries_no_backtraces() {
    let asks = |symbol: &[u8]| toolchain::tenant().windows(symbol.len()).any(|bytes| bytes == symbol);
    assert!(asks(b"mfaas_host_panic"), "imports can be found so");
    assert!(!asks(b"dl_iterate_phdr") && !asks(b"_Unwind_Backtrace") && !asks(b"getenv"));
}

/// Whoever defines one of the two names by which functions end has no image.
#[test]
fn the_ways_out_are_the_shims_alone() {
    for symbol in ["mfaas_panicked", "mfaas_no_room"] {
        let said = toolchain::twin(symbol);
        assert!(said.contains(&format!("duplicate symbol: {symbol}")), "{said}");
    }
}

#[test]
fn a_panic_cannot_be_caught_or_bent_into_an_answer() {
    let mut fixture = fixture();
    assert_eq!(ends(&mut fixture, "panic-caught").0, Status::Panicked);
    assert_eq!(ends(&mut fixture, "panic-hook").0, Status::Aborted);
    assert_eq!(ends(&mut fixture, "panic-display").0, Status::Aborted);
    let (status, _) = ends(&mut fixture, "panic-endless");
    assert!(matches!(status, Status::OutOfMemory | Status::OverBudget), "whichever comes first: {status}");
}

#[test]
fn whatever_runs_on_is_over_budget() {
    let mut fixture = fixture().with_budget_us(2_000);
    let endless =
        ["spin", "spin-allocating", "spin-working", "spin-locked", "spin-logging", "deadlock", "drop-loop"];
    for body in endless {
        let (status, message) = ends(&mut fixture, body);
        assert_eq!(
            (status, &*message),
            (Status::OverBudget, "the budget of 2ms of CPU time is used up"),
            "{body}"
        );
    }
}

#[test]
fn the_budget_is_kept_within_a_tick() {
    let mut fixture = fixture().with_budget_us(3_000);
    for _ in 0..20 {
        let answer = fixture.call(b"spin");
        assert_eq!(answer.status, Status::OverBudget);
        assert!((3_000_000..25_000_000).contains(&answer.cpu_ns), "{} ns", answer.cpu_ns);
    }
}

/// CPU time of this thread, in nanoseconds.
fn cpu_ns() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: a live local.
    assert_eq!(unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) }, 0);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// A function that works before it outgrows its memory works once in each size that it is given.
const OUTGROWING: [&str; 2] = ["outgrow-arena", "outgrow-stack"];

#[test]
fn every_run_of_a_call_is_billed() {
    for word in OUTGROWING {
        let mut fixture = fixture().with_budget_us(1_000_000);
        let before = cpu_ns();
        let answer = fixture.call(format!("{word} 10000000").as_bytes());
        let spent = cpu_ns() - before;
        assert_eq!(answer.status, Status::Ok, "{word}: {answer:?}");
        assert!(answer.cpu_ns > spent / 10 * 8, "{word}: {} ns of {spent} are billed", answer.cpu_ns);
        assert!(answer.cpu_ns <= spent, "{word}: {} ns of {spent} are billed", answer.cpu_ns);
    }
}

/// Whose runs together take too long has all the room next time that it had not enough of, so no work is done again.
#[test]
fn all_runs_of_a_call_share_one_budget() {
    const BUDGET_US: u64 = 50_000;
    for (endless, outgrowing) in ["spin-arena", "spin-stack"].into_iter().zip(OUTGROWING) {
        let worked = |fixture: &mut Fixture| {
            let answer = fixture.call(format!("{outgrowing} 10000000").as_bytes());
            assert_eq!(answer.status, Status::Ok, "{outgrowing}: {answer:?}");
            answer.cpu_ns
        };
        let in_all_sizes = worked(&mut fixture().with_budget_us(1_000_000));
        let mut fixture = fixture().with_budget_us(BUDGET_US);
        let before = cpu_ns();
        let answer = fixture.call(endless.as_bytes());
        let spent = cpu_ns() - before;
        assert_eq!(answer.status, Status::OverBudget, "{endless}: {answer:?}");
        assert!(spent < BUDGET_US * 1_700, "{endless}: {spent} ns within a budget of {BUDGET_US} us");
        let once = worked(&mut fixture.with_budget_us(1_000_000));
        assert!(once * 3 < in_all_sizes * 2, "{endless}: {once} ns after it, {in_all_sizes} ns without");
    }
}

#[test]
fn stack_and_arena_have_their_own_ends() {
    let mut fixture = fixture();
    assert_eq!(ends(&mut fixture, "overflow").0, Status::StackOverflow);
    for body in ["bomb", "bomb-small", "bomb-one"] {
        let (status, message) = ends(&mut fixture, body);
        assert_eq!(status, Status::OutOfMemory, "{body}");
        assert!(message.starts_with("no room for ") && message.ends_with(" in 4MiB of memory"), "{message}");
    }
}

#[test]
fn abort_and_huge_output_have_their_own_ends() {
    let mut fixture = fixture();
    assert_eq!(ends(&mut fixture, "abort").0, Status::Aborted);
    assert_eq!(ends(&mut fixture, "huge").0, Status::BadOutput);
}

#[test]
fn printing_becomes_log_lines() {
    let mut fixture = fixture();
    let expected = [
        (Level::Info, "one line".to_owned()),
        (Level::Error, "1 and 2".to_owned()),
        (Level::Info, "no end".to_owned()),
    ];
    assert_eq!(fixture.call(b"print").logs, expected);
    assert_eq!(fixture.call(b"quiet").logs, []);
}

#[test]
fn a_process_has_one_executor_and_one_slab() {
    let fixture = fixture();
    let writer = SlabWriter::new(SlabGeometry::ONE, Verification::Waived).expect("a slab");
    let second = Slab::map(writer.finish());
    assert!(matches!(second, Err(ExecutorError::System { .. } | ExecutorError::Unmappable(_))), "{second:?}");
    drop(fixture);
    drop(self::fixture());
}

/// A node that works sends none. Nothing runs, and nothing of it is left for the next call.
#[test]
fn what_is_no_request_is_not_run() {
    let mut fixture = Fixture::new(toolchain::tenant());
    let nonsense = b"\x07nonsense";
    fixture.executor.request()[..nonsense.len()].copy_from_slice(nonsense);
    let word = AtomicU64::new(0);
    let refused = fixture.executor.call(fixture.slot, nonsense.len(), fixture.limits, &word).map(drop);
    assert_eq!(refused, Err(CallError::NotARequest(FrameError::WrongTag)));
    assert!(fixture.executor.request().iter().all(|byte| *byte == 0), "the request is wiped");
    let nowhere = fixture.executor.call(u32::MAX, 0, fixture.limits, &word).map(drop);
    assert_eq!(nowhere, Err(CallError::NotResident));
    assert!(fixture.ok("verify").starts_with(crate::state::FRESH), "the next call is a first one");
}
