//! Calls that wait: what becomes of them between two workers, and what they cost others.

use mfaas_abi::limits::BODY_BYTES_MAX;
use mfaas_abi::{DONE, OperationKind, Record, SuspendedFrame};

use super::*;

/// Puts the call that was taken aside, with so many microseconds of CPU time.
pub(super) fn put_aside(end: &mut WorkerEnd, operations: &[Record<'_>], state: &[u8], cpu_us: u64) {
    let mut records = Vec::new();
    operations.iter().for_each(|operation| operation.append_to(&mut records));
    let response = &*[&SuspendedFrame::head(records.len()), &*records, state].concat();
    let (logs, message, wall_ns, cpu_ns) = (&[][..], &[][..], cpu_us * 1_000, cpu_us * 1_000);
    let (status, cold, waits, memory_bytes) = (Status::Ok, false, true, 9);
    let answer =
        Answer { status, cold, waits, response, logs, message, inline: b"", wall_ns, cpu_ns, memory_bytes };
    end.reply(&answer).unwrap();
}

fn sleep(id: u32, time: Duration) -> (u32, [u8; 8]) {
    (id, u64::try_from(time.as_nanos()).unwrap().to_le_bytes())
}

fn operation((id, bytes): &(u32, [u8; 8])) -> Record<'_> {
    Record { id: *id, code: OperationKind::Sleep as u32, bytes }
}

/// Takes a call that goes on: what it hears, by their identities, and its state.
fn resumed(end: &mut WorkerEnd) -> (Job, Vec<u32>, Vec<u8>) {
    resumed_with(end, |outcome| {
        assert_eq!(outcome.code, DONE);
        outcome.id
    })
}

/// The same, with something else of what it hears.
pub(super) fn resumed_with<T>(
    end: &mut WorkerEnd,
    hears: impl FnMut(Record<'_>) -> T,
) -> (Job, Vec<T>, Vec<u8>) {
    let job = next(end);
    assert!(job.resumes, "{job:?}");
    let mut frame = vec![0; WorkerEnd::BUFFER_BYTES];
    let bytes = end.take_frame(&mut frame).unwrap();
    let SuspendedFrame { records, state } = SuspendedFrame::decode(&frame[..bytes], BODY_BYTES_MAX).unwrap();
    (job, records.map(hears).collect(), state.to_vec())
}

/// Its budget, what it used and what it was are one call's.
#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_sleeps_holds_no_worker_and_goes_on_as_it_was() {
    let stage = Stage::new().await;
    let (mut end, _fd, _child) = stage.worker();
    let begin = std::time::Instant::now();
    let call = stage.call();
    let first = next(&mut end);
    assert!(!first.resumes);
    std::thread::sleep(Duration::from_millis(2));
    let (short, long) = (sleep(5, Duration::from_millis(30)), sleep(6, Duration::from_millis(60)));
    put_aside(&mut end, &[operation(&short), operation(&long)], b"where it was", 300);
    // Another call runs meanwhile.
    let other = stage.call();
    assert!(!next(&mut end).resumes);
    reply(&mut end, b"other");
    assert_eq!(other.await.unwrap().unwrap().completion.unwrap().response, b"other");

    let (job, heard, state) = resumed(&mut end);
    assert!(begin.elapsed() >= Duration::from_millis(30), "{:?}", begin.elapsed());
    assert_eq!(
        (job.call_id, job.function, heard, &*state),
        (first.call_id, 7, vec![5], &b"where it was"[..])
    );
    assert_eq!(job.budget_us, first.budget_us - 302, "and a microsecond for two operations");
    std::thread::sleep(Duration::from_millis(2));
    put_aside(&mut end, &[], b"further", 200);
    let (job, heard, state) = resumed(&mut end);
    assert!(begin.elapsed() >= Duration::from_millis(60), "{:?}", begin.elapsed());
    assert_eq!((job.budget_us, heard, &*state), (first.budget_us - 503, vec![6], &b"further"[..]));
    reply(&mut end, b"done");
    let answered = call.await.unwrap().unwrap();
    let completion = answered.completion.unwrap();
    assert_eq!((answered.outcome, &*completion.response), (Outcome::Finished, &b"done"[..]));
    assert_eq!((completion.cpu_ns, completion.memory_bytes), (500_001, 9), "of all its parts");
}

/// What ends while a call is in a worker waits for it, and what it does not wait for any more is not told.
#[tokio::test(flavor = "multi_thread")]
async fn a_call_hears_what_ended_meanwhile_and_not_what_it_cancelled() {
    let stage = Stage::new().await;
    let (mut end, _fd, _child) = stage.worker();
    let call = stage.call();
    next(&mut end);
    let (at_once, soon) = (sleep(1, Duration::ZERO), sleep(2, Duration::from_millis(1)));
    let (cancelled, late) = (sleep(3, Duration::from_millis(400)), sleep(4, Duration::from_millis(450)));
    put_aside(&mut end, &[&at_once, &soon, &cancelled, &late].map(operation), b"", 10);
    let (_, heard, _) = resumed(&mut end);
    assert_eq!(heard, [1]);
    // The second ends while the call runs.
    std::thread::sleep(Duration::from_millis(5));
    let cancel = Record { id: 3, code: OperationKind::Cancel as u32, bytes: &[] };
    let unknown = Record { id: 99, ..cancel };
    put_aside(&mut end, &[cancel, unknown], b"", 10);
    assert_eq!(resumed(&mut end).1, [2], "at once");
    put_aside(&mut end, &[], b"", 10);
    assert_eq!(resumed(&mut end).1, [4]);
    reply(&mut end, b"done");
    assert_eq!(call.await.unwrap().unwrap().outcome, Outcome::Finished);
}

/// A call that breaks the rules of its operations, or waits for nothing, harms itself alone.
#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_can_never_go_on_is_given_up() {
    let stage = Stage::new().await;
    let (mut end, _fd, _child) = stage.worker();
    let hour = sleep(1, Duration::from_secs(3_600));
    let many: Vec<_> = (0..65).map(|id| (id, hour.1)).collect();
    let many: Vec<_> = many.iter().map(operation).collect();
    let (good, odd) = (operation(&hour), [1, 2, 3]);
    for (operations, why) in [
        (vec![], "nothing"),
        (vec![good, good], "two of one identity"),
        (vec![Record { code: 99, ..good }], "an unknown kind"),
        (vec![Record { bytes: &odd, ..good }], "a time that is none"),
        (many, "too many at a time"),
        (vec![good, Record { code: OperationKind::Cancel as u32, bytes: &[], ..good }], "what it cancelled"),
    ] {
        let call = stage.call();
        next(&mut end);
        put_aside(&mut end, &operations, b"", 10);
        assert_eq!(call.await.unwrap().unwrap().outcome, Outcome::Stuck, "{why}");
    }
    let call = stage.call();
    next(&mut end);
    reply(&mut end, b"done");
    assert_eq!(call.await.unwrap().unwrap().outcome, Outcome::Finished, "the worker is as it was");
}

/// What a call leaves that broke a rule ends nothing of the call that has its place afterwards.
#[tokio::test(flavor = "multi_thread")]
async fn a_sleep_of_one_call_never_ends_anothers() {
    let stage = Stage::new().await;
    let (mut end, _fd, _child) = stage.worker();
    let call = stage.call();
    next(&mut end);
    let (short, other) = (sleep(1, Duration::from_millis(50)), sleep(1, Duration::from_millis(90)));
    put_aside(&mut end, &[operation(&short), operation(&other)], b"", 10);
    assert_eq!(call.await.unwrap().unwrap().outcome, Outcome::Stuck);
    let call = stage.call();
    next(&mut end);
    let begin = std::time::Instant::now();
    put_aside(&mut end, &[operation(&sleep(1, Duration::from_millis(400)))], b"", 10);
    assert_eq!(resumed(&mut end).1, [1]);
    assert!(begin.elapsed() >= Duration::from_millis(400), "{:?}", begin.elapsed());
    reply(&mut end, b"done");
    assert_eq!(call.await.unwrap().unwrap().outcome, Outcome::Finished);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_waits_does_not_die_with_the_worker_that_it_was_in() {
    let stage = Stage::new().await;
    let (mut end, _fd, _child) = stage.worker();
    let call = stage.call();
    next(&mut end);
    put_aside(&mut end, &[operation(&sleep(1, Duration::from_millis(20)))], b"state", 10);
    // The engine has it before it hears of the death.
    stage.intake.send(Event::Died(WORKER));
    let (mut end, _fd, _child, job) = stage.replacement(SHARED);
    assert!(job.resumes);
    reply(&mut end, b"elsewhere");
    assert_eq!(call.await.unwrap().unwrap().completion.unwrap().response, b"elsewhere");
}

/// Its caller pays for it, though it never waited.
#[tokio::test(flavor = "multi_thread")]
async fn a_part_after_which_a_call_may_not_wait_counts_and_leaves_nothing() {
    let stage = Stage::new().await;
    let (mut end, _fd, _child) = stage.worker();
    let call = stage.call();
    let first = next(&mut end);
    std::thread::sleep(Duration::from_millis(2));
    put_aside(&mut end, &[operation(&sleep(1, Duration::ZERO))], &[7; 5_000], first.budget_us.into());
    let answered = call.await.unwrap().unwrap();
    assert_eq!(answered.outcome, Outcome::OverBudget);
    let budget_ns = u64::from(first.budget_us) * 1_000;
    assert_eq!((answered.used.cpu_ns, answered.used.memory_bytes), (budget_ns, 9));
    assert!(answered.ran >= Duration::from_millis(2), "{:?}", answered.ran);
}

/// What it was in a worker is what it ran; a call that is lost while it waits has not run all that time.
#[tokio::test(flavor = "multi_thread")]
async fn waiting_is_no_running() {
    let stage = Stage::new().await;
    let (mut end, _fd, _child) = stage.worker();
    let mut calls = Vec::new();
    for time in [Duration::from_millis(300), Duration::from_secs(50)] {
        calls.push(stage.call());
        next(&mut end);
        std::thread::sleep(Duration::from_millis(5));
        put_aside(&mut end, &[operation(&sleep(1, time))], b"", 10);
    }
    resumed(&mut end);
    std::thread::sleep(Duration::from_millis(5));
    reply(&mut end, b"done");
    // Nobody is to go on with the other one.
    stage.intake.send(Event::KillWorkers);
    let expected = [(Outcome::Finished, 2), (Outcome::Lost, 1)];
    for (call, (outcome, parts)) in calls.into_iter().zip(expected) {
        let answered = tokio::time::timeout(PATIENCE, call).await.expect("no end").unwrap().unwrap();
        assert_eq!(answered.outcome, outcome);
        let least = Duration::from_millis(5) * parts;
        assert!((least..Duration::from_millis(250)).contains(&answered.ran), "{parts}: {:?}", answered.ran);
    }
}

/// Who has hung up is not worked for, and holds nothing.
#[tokio::test(flavor = "multi_thread")]
async fn a_call_whose_caller_is_gone_does_not_go_on() {
    let stage = Stage::new().await;
    let (mut end, _fd, _child) = stage.worker();
    let gone = |call: tokio::task::JoinHandle<_>| async {
        call.abort();
        assert!(call.await.unwrap_err().is_cancelled());
    };
    // While it is in a worker, and while it waits.
    let call = stage.call();
    next(&mut end);
    tokio::time::sleep(Duration::from_millis(20)).await;
    gone(call).await;
    put_aside(&mut end, &[operation(&sleep(1, Duration::from_secs(50)))], b"", 10);
    let call = stage.call();
    next(&mut end);
    put_aside(&mut end, &[operation(&sleep(1, Duration::from_millis(100)))], b"", 10);
    tokio::time::sleep(Duration::from_millis(20)).await;
    gone(call).await;
    let idle = async {
        while !stage.dispatcher.is_idle() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), idle).await.expect("it still waits");
    assert_eq!(end.next(Duration::from_millis(50)).unwrap(), Next::Idle, "nothing goes on");
}

/// So many calls of each of two tenants wait at the same time, each with a state of 4 KiB that is its own, and are answered after so
/// long. Prints what the process grew by for each.
#[expect(clippy::print_stdout, reason = "the figure is what it is run for")]
async fn many_wait(of_each: usize, time: Duration) {
    const STATE_BYTES: usize = 4 << 10;
    let resident = || -> usize {
        let pages = std::fs::read_to_string("/proc/self/statm").unwrap();
        pages.split(' ').nth(1).unwrap().parse::<usize>().unwrap() * rustix::param::page_size()
    };
    let stage = Stage::new().await;
    let other = ImageKey { tenant: TenantName::parse("umbrella").unwrap(), ..key("hello", 1) };
    assert_eq!(stage.define(&other, 9).await, []);
    stage.route(&other);
    let (mut end, _fd, _child) = stage.worker();
    let (before, mut calls) = (resident(), Vec::new());
    for number in 0..of_each {
        for tenant in ["acme", "umbrella"] {
            let dispatcher = Arc::clone(&stage.dispatcher);
            calls.push(tokio::spawn(async move { call_of(dispatcher, tenant).await }));
            next(&mut end);
            let mut state = vec![number as u8; STATE_BYTES];
            state[..8].copy_from_slice(&(calls.len() as u64).to_le_bytes());
            put_aside(&mut end, &[operation(&sleep(1, time))], &state, 1);
        }
    }
    let each = (resident().saturating_sub(before)) / calls.len();
    println!(
        "{} calls wait with {STATE_BYTES} bytes each: the process grew by {each} bytes a call",
        calls.len()
    );
    for _ in 0..calls.len() {
        let (_, heard, state) = resumed(&mut end);
        assert_eq!((heard, state.len()), (vec![1], STATE_BYTES));
        assert!(state[8..].iter().all(|byte| *byte == state[8]), "its state is whole");
        reply(&mut end, &state[..8]);
    }
    for (number, call) in calls.into_iter().enumerate() {
        let answered = call.await.unwrap().unwrap();
        assert_eq!(answered.outcome, Outcome::Finished, "call {number}");
        assert_eq!(answered.completion.unwrap().response, (number as u64 + 1).to_le_bytes());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn thousands_of_calls_wait_at_the_same_time() {
    many_wait(1_000, Duration::from_secs(8)).await;
}

/// `cargo test -p mfaas-node hundred_thousand -- --ignored --nocapture`
#[tokio::test(flavor = "multi_thread")]
#[ignore = "takes half a minute and half a gigabyte"]
async fn a_hundred_thousand_calls_wait_at_the_same_time() {
    many_wait(50_000, Duration::from_secs(30)).await;
}
