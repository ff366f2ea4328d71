use std::cell::Cell;

use super::{KEEP_US, LOOK_US, LOOKS, look_keenly};
use crate::tests::{CALL, answer, ring, take};
use crate::{Answer, Submission};

/// Looks, each of which takes a tenth of a microsecond: how many there were, and before which others ran.
fn looked(until: Option<u32>, lets_others: bool) -> (u32, Vec<u32>) {
    let (looks, yields) = (Cell::new(0), Cell::new(Vec::new()));
    let ready = || {
        looks.set(looks.get() + 1);
        until == Some(looks.get())
    };
    let is_within = |us: u64| u64::from(looks.get()) < us * 10;
    let let_others = || {
        let mut at = yields.take();
        at.push(looks.get());
        yields.set(at);
    };
    assert_eq!(look_keenly(ready, is_within, lets_others.then_some(let_others)), until.is_some());
    (looks.get(), yields.take())
}

#[test]
fn a_worker_keeps_its_core_for_a_moment_and_then_lets_others_run_between_looks() {
    let all = u32::try_from(LOOK_US * 10).expect("some hundred").next_multiple_of(LOOKS);
    assert_eq!(looked(None, false), (all, vec![]), "nobody else is let run");
    let (looks, yields) = looked(None, true);
    assert_eq!((looks, yields.len()), (all, (all / LOOKS) as usize));
    assert!(yields.iter().all(|at| u64::from(*at) >= KEEP_US * 10), "{yields:?}");
    assert_eq!(looked(Some(5), true), (5, vec![]), "what comes at once is found at once");
}

/// Those that a call waits for, or that wait for it, may want the core; nobody does after another call.
#[test]
fn a_worker_lets_others_run_after_a_call_that_waits_or_is_waited_for() {
    let (_fd, mut host, mut worker) = ring(2);
    for (yields, waits) in [(false, false), (true, false), (false, true), (false, false)] {
        host.submit(Submission { yields, ..CALL }).expect("room");
        assert_eq!(take(&mut worker).0.yields, yields);
        worker.reply(&Answer { waits, ..answer(b"", b"", b"") }).expect("within limits");
        assert_eq!(worker.yields, yields || waits);
        assert!(host.collect(&mut crate::Completion::new()).expect("a benign worker"));
    }
}
