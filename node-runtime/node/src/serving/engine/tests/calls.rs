//! Calls that make others: who hears of what, who pays, and when what they did is the one's that made them.

use mfaas_abi::frame::{RequestFrame, encode_request, encode_response};
use mfaas_abi::{CalleeReply, DONE, OperationKind, Record, with_binding};
use mfaas_broker_protocol::{CommitResult, ToBroker};
use mfaas_ident::{Binding, FunctionBinding, ResourceBinding, ResourceKind};

use super::data::{Side, TestBroker, ask, ended, granted, heard, orders};
use super::waits::put_aside;
use super::*;
use crate::limiter::Share;
use crate::serving::Callees;
use crate::serving::call::CALLER;

/// The places of what `acme/hello` binds.
const DATA: u32 = 0;
const RANK: u32 = 1;
const NOBODY: u32 = 2;
const ITSELF: u32 = 3;

pub(super) fn public(name: &str, version: u32, bindings: &[Binding]) -> VerifiedImage {
    let public = Declared { access: Some(Access::Public), ..Declared::default() };
    VerifiedImage::declaring_for_test(key(name, version), public).binding_for_test(bindings)
}

pub(super) fn data() -> Binding {
    Binding::Resource(ResourceBinding {
        kind: ResourceKind::Kv,
        resource: orders(),
        access: DataAccess::Write,
    })
}

/// `acme/hello@2`, which calls `rank`, a function that is not there, and itself.
fn hello() -> VerifiedImage {
    let function = |name: &str| Binding::Function(FunctionBinding::new(name.parse().unwrap()));
    public("hello", 2, &[data(), function("rank"), function("nobody"), function("hello")])
}

fn rank() -> VerifiedImage {
    public("rank", 1, &[data()])
}

/// A node that serves both, and its connection to the broker.
async fn stage(broker: &TestBroker) -> (Stage, Side) {
    stage_with(broker, broker.services()).await
}

async fn stage_with(broker: &TestBroker, services: NodeServices) -> (Stage, Side) {
    let stage = Stage::with(services).await;
    let side = broker.accept();
    assert_eq!(stage.define_image(hello(), 7).await, []);
    assert_eq!(stage.define_image(rank(), 8).await, []);
    stage.route_image(hello(), granted(DataAccess::Write).as_ref());
    stage.route_image(rank(), granted(DataAccess::Write).as_ref());
    (stage, side)
}

/// Calls the function behind a binding, after so much CPU time.
pub(super) fn make(end: &mut WorkerEnd, place: u32, id: u32, body: &[u8], cpu_us: u64) {
    let bytes = &*with_binding(place, body);
    put_aside(end, &[Record { id, code: OperationKind::Call as u32, bytes }], b"state", cpu_us);
}

/// Calls it twice at the same time, where one call may be open: the second is refused at once, while the first waits.
pub(super) fn make_one_too_many(end: &mut WorkerEnd, place: u32) {
    let bytes = &*with_binding(place, b"");
    let made = Record { id: 1, code: OperationKind::Call as u32, bytes };
    put_aside(end, &[made, Record { id: 2, ..made }], b"", 10);
    assert_eq!(heard(end)[0].1, codes::MF0818.number());
    put_aside(end, &[], b"", 10);
}

pub(super) fn response(status: u16, body: &[u8]) -> Vec<u8> {
    let mut frame = Vec::new();
    encode_response(&mut frame, status, [], body).unwrap();
    frame
}

pub(super) fn replied(http_status: u16, body: &[u8]) -> Vec<u8> {
    CalleeReply { http_status, body }.encode()
}

/// The call of `rank` that comes next.
pub(super) fn next_of_rank(end: &mut WorkerEnd) -> Job {
    let job = next(end);
    assert_eq!((job.function, job.resumes), (8, false));
    job
}

/// The call of `rank` that comes next changes something, and has not answered; the broker's number of it.
fn rank_changes(end: &mut WorkerEnd, side: &mut Side) -> u64 {
    next_of_rank(end);
    ask(end, DATA, 5);
    let ToBroker::Begin { call, .. } = side.next() else { panic!("no callee") };
    assert!(matches!(side.next(), ToBroker::Operate { call: of, .. } if of == call));
    side.outcome(call, 5, b"", true);
    assert_eq!(heard(end), [(5, DONE, vec![])]);
    call
}

#[tokio::test(flavor = "multi_thread")]
async fn a_function_hears_what_the_one_answers_that_it_calls() {
    let broker = TestBroker::new();
    let (stage, _side) = stage(&broker).await;
    let (mut end, _fd, _child) = stage.worker();
    let call = stage.call();
    next(&mut end);
    make(&mut end, RANK, 4, b"{\"n\":1}", 10);
    next_of_rank(&mut end);
    let mut frame = vec![0; WorkerEnd::BUFFER_BYTES];
    let bytes = end.take_frame(&mut frame).unwrap();
    let request = RequestFrame::decode(&frame[..bytes]).unwrap();
    assert_eq!((request.method, request.path, request.body), ("POST", "/", &b"{\"n\":1}"[..]));
    assert_eq!(request.headers.get("content-type"), Some("application/json"));
    reply(&mut end, &response(201, b"[3]"));
    assert_eq!(heard(&mut end), [(4, DONE, replied(201, b"[3]"))]);
    // One that fails has a status as well.
    make(&mut end, RANK, 5, b"", 10);
    next_of_rank(&mut end);
    reply_with(&mut end, Status::HandlerError, &response(500, b"no"));
    assert_eq!(heard(&mut end), [(5, DONE, replied(500, b"no"))]);
    reply(&mut end, b"done");
    assert_eq!(ended(call).await.unwrap().completion.unwrap().response, b"done");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_function_calls_is_told_of_its_caller_and_its_trace() {
    const TRACE: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let broker = TestBroker::new();
    let (stage, _side) = stage(&broker).await;
    let (mut end, _fd, _child) = stage.worker();
    for headers in [&[("traceparent", TRACE)][..], &[]] {
        let mut frame = Vec::new();
        encode_request(&mut frame, "GET", "/", headers.iter().copied(), b"").unwrap();
        let call = tokio::spawn(call_with(Arc::clone(&stage.dispatcher), "acme", frame));
        next(&mut end);
        // The first one and another.
        for id in [4, 5] {
            make(&mut end, RANK, id, b"{}", 10);
            next_of_rank(&mut end);
            let mut frame = vec![0; WorkerEnd::BUFFER_BYTES];
            let bytes = end.take_frame(&mut frame).unwrap();
            let request = RequestFrame::decode(&frame[..bytes]).unwrap();
            assert_eq!(request.headers.get(CALLER), Some("acme/function/hello"));
            let trace = request.headers.get("traceparent");
            assert_eq!(trace, headers.first().map(|(_, trace)| *trace), "{id}");
            reply(&mut end, &response(200, b""));
            heard(&mut end);
        }
        reply(&mut end, b"done");
        ended(call).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_function_hears_why_there_is_no_answer_and_goes_on() {
    let broker = TestBroker::new();
    let (stage, _side) = stage(&broker).await;
    let (mut end, _fd, _child) = stage.worker();
    let call = stage.call();
    next(&mut end);
    for (place, code) in [(DATA, codes::MF1207), (9, codes::MF1207), (NOBODY, codes::MF1210)] {
        make(&mut end, place, 1, b"", 10);
        assert_eq!(heard(&mut end)[0].1, code.number(), "{place}");
    }
    // A function is no data.
    ask(&mut end, RANK, 2);
    assert_eq!(heard(&mut end)[0].1, codes::MF1207.number());
    for (status, answer) in [
        (Status::Panicked, vec![]),
        (Status::OverBudget, vec![]),
        (Status::Ok, b"no response".to_vec()),
        (Status::Ok, response(200, &vec![0; 140 << 10])),
    ] {
        make(&mut end, RANK, 3, b"", 10);
        next_of_rank(&mut end);
        reply_with(&mut end, status, &answer);
        let heard = heard(&mut end);
        assert_eq!((heard[0].0, heard[0].1), (3, codes::MF1210.number()), "{status}");
    }
    reply(&mut end, b"done");
    ended(call).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn functions_wait_for_each_other_so_deep_and_no_deeper() {
    let broker = TestBroker::new();
    let (stage, _side) = stage(&broker).await;
    let (mut end, _fd, _child) = stage.worker();
    let call = stage.call();
    for _ in 0..17 {
        let job = next(&mut end);
        assert!(!job.resumes && job.function == 7, "{job:?}");
        make(&mut end, ITSELF, 1, b"", 10);
    }
    assert_eq!(heard(&mut end)[0].1, codes::MF1211.number());
    for _ in 0..16 {
        reply(&mut end, &response(200, b""));
        assert_eq!(heard(&mut end), [(1, DONE, replied(200, b""))]);
    }
    reply(&mut end, b"done");
    ended(call).await.unwrap();
}

/// However many calls it has itself: others of its tenant find room.
#[tokio::test(flavor = "multi_thread")]
async fn a_function_has_no_more_calls_of_another_one_open_than_its_share() {
    let broker = TestBroker::new();
    let share = Share { rate: 1, concurrency: 1 };
    let services = NodeServices { callees: Arc::new(Callees::new(share)), ..broker.services() };
    let (stage, _side) = stage_with(&broker, services).await;
    let (mut end, _fd, _child) = stage.worker();
    let call = stage.call();
    next(&mut end);
    make_one_too_many(&mut end, RANK);
    for id in 3..6 {
        next_of_rank(&mut end);
        reply(&mut end, &response(200, b""));
        assert_eq!(heard(&mut end)[0].1, DONE, "what has ended counts no more, and none counts for a second");
        make(&mut end, RANK, id, b"", 10);
    }
    next_of_rank(&mut end);
    reply(&mut end, &response(200, b""));
    heard(&mut end);
    reply(&mut end, b"done");
    ended(call).await.unwrap();
}

/// Its own budget, what is left of its callers', and what it takes is theirs.
#[tokio::test(flavor = "multi_thread")]
async fn a_call_runs_on_the_budget_of_those_that_made_it() {
    let broker = TestBroker::new();
    let (stage, _side) = stage(&broker).await;
    let (mut end, _fd, _child) = stage.worker();
    let call = stage.call();
    let first = next(&mut end);
    std::thread::sleep(Duration::from_millis(3));
    make(&mut end, RANK, 1, b"", 300);
    let job = next_of_rank(&mut end);
    let left = first.budget_us - 300;
    assert!((left - 50..left).contains(&job.budget_us), "{} of {left}", job.budget_us);
    std::thread::sleep(Duration::from_millis(3));
    let answer = response(200, b"");
    let (logs, message, memory_bytes) = (&[][..], &[][..], 1);
    let (cpu_ns, wall_ns) = (250_000, 250_000);
    let answer = Answer {
        status: Status::Ok,
        cold: false,
        waits: false,
        response: &answer,
        logs,
        message,
        inline: b"",
        wall_ns,
        cpu_ns,
        memory_bytes,
    };
    end.reply(&answer).unwrap();
    let resumed = next(&mut end);
    assert_eq!((resumed.resumes, resumed.budget_us), (true, job.budget_us - 250));
    reply(&mut end, b"done");
    ended(call).await.unwrap();
}

/// What a function that was called did is part of the call that made it, and takes effect with that.
#[tokio::test(flavor = "multi_thread")]
async fn what_a_function_changed_is_part_of_the_call_that_made_it() {
    let broker = TestBroker::new();
    let (stage, mut side) = stage(&broker).await;
    let (mut end, _fd, _child) = stage.worker();
    let call = stage.call();
    next(&mut end);
    make(&mut end, RANK, 1, b"", 10);
    let ToBroker::Begin { call: root, caller, parent: None } = side.next() else { panic!("no root") };
    assert_eq!(caller.function.as_str(), "hello");
    for result in [CommitResult::Conflict, CommitResult::Done] {
        next_of_rank(&mut end);
        ask(&mut end, DATA, 5);
        let ToBroker::Begin { call: callee, caller, parent } = side.next() else { panic!("no callee") };
        assert_eq!((caller.function.as_str(), parent), ("rank", Some(root)));
        assert!(matches!(side.next(), ToBroker::Operate { call, .. } if call == callee));
        // A read alone is part of the other call as well.
        side.outcome(callee, 5, b"read", false);
        heard(&mut end);
        reply(&mut end, &response(200, b"1"));
        assert_eq!(side.next(), ToBroker::Commit { call: callee });
        side.committed(callee, result);
    }
    assert_eq!(heard(&mut end), [(1, DONE, replied(200, b"1"))], "it ran twice, and was heard of once");
    // What fails does nothing, and neither does what gives an answer that is none for a function.
    for (status, answer) in
        [(Status::HandlerError, response(500, b"")), (Status::Ok, response(200, &vec![0; 140 << 10]))]
    {
        make(&mut end, RANK, 2, b"", 10);
        let failed = rank_changes(&mut end, &mut side);
        reply_with(&mut end, status, &answer);
        assert_eq!(side.next(), ToBroker::Forget { call: failed });
        heard(&mut end);
    }
    reply(&mut end, b"done");
    assert_eq!(side.next(), ToBroker::Commit { call: root });
    assert!(!call.is_finished());
    side.committed(root, CommitResult::Done);
    assert_eq!(ended(call).await.unwrap().completion.unwrap().response, b"done");
}

/// All that a call did is looked at when it ends, also by others.
#[tokio::test(flavor = "multi_thread")]
async fn what_a_called_function_may_no_longer_do_takes_no_effect() {
    let broker = TestBroker::new();
    let (stage, mut side) = stage(&broker).await;
    let (mut end, _fd, _child) = stage.worker();
    let call = stage.call();
    next(&mut end);
    make(&mut end, RANK, 1, b"", 10);
    let ToBroker::Begin { call: root, .. } = side.next() else { panic!("no root") };
    let callee = rank_changes(&mut end, &mut side);
    reply(&mut end, &response(200, b""));
    assert_eq!(side.next(), ToBroker::Commit { call: callee });
    side.committed(callee, CommitResult::Done);
    heard(&mut end);
    stage.route_image(rank(), granted(DataAccess::Read).as_ref());
    reply(&mut end, b"done");
    assert_eq!(side.next(), ToBroker::Forget { call: root });
    assert_eq!(ended(call).await.unwrap_err(), CallError::NotCommitted(codes::MF1201));
}

/// A call that is not waited for any more does nothing, and one that meets a lost broker says so.
#[tokio::test(flavor = "multi_thread")]
async fn what_nobody_waits_for_does_nothing() {
    let broker = TestBroker::new();
    let (stage, mut side) = stage(&broker).await;
    let (mut end, _fd, _child) = stage.worker();
    let call = stage.call();
    next(&mut end);
    let (rank, soon) = (with_binding(RANK, b""), 20_000_000_u64.to_le_bytes());
    let made = Record { id: 1, code: OperationKind::Call as u32, bytes: &rank };
    let sleep = Record { id: 2, code: OperationKind::Sleep as u32, bytes: &soon };
    put_aside(&mut end, &[made, sleep], b"", 10);
    side.next();
    next_of_rank(&mut end);
    ask(&mut end, DATA, 5);
    let ToBroker::Begin { call: callee, .. } = side.next() else { panic!("no callee") };
    side.next();
    assert_eq!(heard(&mut end), [(2, DONE, vec![])]);
    let (cancel, sleep) =
        (Record { code: OperationKind::Cancel as u32, bytes: &[], ..made }, Record { id: 3, ..sleep });
    put_aside(&mut end, &[cancel, sleep], b"", 10);
    assert_eq!(heard(&mut end), [(3, DONE, vec![])]);
    side.outcome(callee, 5, b"", true);
    assert_eq!(side.next(), ToBroker::Forget { call: callee }, "it does not go on");
    // The broker goes while another one is to be committed.
    make(&mut end, RANK, 4, b"", 10);
    let callee = rank_changes(&mut end, &mut side);
    reply(&mut end, &response(200, b""));
    assert_eq!(side.next(), ToBroker::Commit { call: callee });
    drop(side);
    assert_eq!(heard(&mut end)[0].1, codes::MF1205.number());
    reply(&mut end, b"done");
    ended(call).await.unwrap();
}

/// Whoever waits for it has none left: it ends when it waits, and so do they.
#[tokio::test(flavor = "multi_thread")]
async fn a_call_goes_no_further_than_those_that_made_it_may() {
    let broker = TestBroker::new();
    let (stage, _side) = stage(&broker).await;
    let (mut end, _fd, _child) = stage.worker();
    let call = stage.call();
    let budget_us = next(&mut end).budget_us;
    std::thread::sleep(Duration::from_millis(2));
    make(&mut end, ITSELF, 1, b"", u64::from(budget_us) / 2);
    let job = next(&mut end);
    assert!(!job.resumes && job.budget_us < budget_us / 2);
    std::thread::sleep(Duration::from_millis(2));
    // Of its own it has half left.
    make(&mut end, RANK, 1, b"", u64::from(budget_us) / 2 - 10);
    assert_eq!(ended(call).await.unwrap().outcome, Outcome::OverBudget);
}

/// What may be part of it or not, since it has not waited for it, takes no effect with it.
#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_ends_while_another_one_becomes_part_of_it_does_nothing() {
    let broker = TestBroker::new();
    let (stage, mut side) = stage(&broker).await;
    let (mut end, _fd, _child) = stage.worker();
    let call = stage.call();
    next(&mut end);
    ask(&mut end, DATA, 9);
    let ToBroker::Begin { call: root, .. } = side.next() else { panic!("no root") };
    side.next();
    side.outcome(root, 9, b"", true);
    heard(&mut end);
    let (rank, soon) = (with_binding(RANK, b""), 20_000_000_u64.to_le_bytes());
    let made = Record { id: 1, code: OperationKind::Call as u32, bytes: &rank };
    let sleep = Record { id: 2, code: OperationKind::Sleep as u32, bytes: &soon };
    put_aside(&mut end, &[made, sleep], b"", 10);
    let callee = rank_changes(&mut end, &mut side);
    reply(&mut end, &response(200, b""));
    assert_eq!(side.next(), ToBroker::Commit { call: callee });
    assert_eq!(heard(&mut end), [(2, DONE, vec![])]);
    reply(&mut end, b"done");
    assert_eq!(side.next(), ToBroker::Forget { call: root });
    assert_eq!(ended(call).await.unwrap_err(), CallError::NotCommitted(codes::MF1205));
    // The next one has nothing to do with it.
    side.committed(callee, CommitResult::Done);
    let call = stage.call();
    next(&mut end);
    reply(&mut end, b"next");
    assert_eq!(ended(call).await.unwrap().completion.unwrap().response, b"next");
}
