//! Functions that a call calls where it is: who is told to its worker, and what the worker says of them.

use mfaas_abi::frame::{RequestFrame, encode_request};
use mfaas_abi::{OperationKind, Record, Records, with_binding};
use mfaas_ident::{Binding, FunctionBinding, ResourceBinding, ResourceKind};
use mfaas_ring::{INLINE_CODE, InlineCallee, InlineUse};

use super::calls::{data, next_of_rank, public, replied, response};
use super::data::{TestBroker, ended, heard, orders};
use super::in_place::{IN_VAIN, ask};
use super::waits::{put_aside, resumed_with};
use super::*;

/// The places of what `acme/hello` binds.
const RANK: u32 = 0;
const MERGE: u32 = 1;
const ELSEWHERE: u32 = 2;

fn function(name: &str) -> Binding {
    Binding::Function(FunctionBinding::new(name.parse().unwrap()))
}

fn hello() -> VerifiedImage {
    public("hello", 2, &[function("rank"), function("merge"), function("umbrella/rank")])
}

/// A node that serves `hello`, which calls `rank` as it is given and `merge`, which binds an asset and nothing else.
async fn stage_of(broker: &TestBroker, rank: impl Fn() -> VerifiedImage) -> Stage {
    let asset = ResourceBinding { kind: ResourceKind::Asset, resource: orders(), access: DataAccess::Read };
    let merge = || public("merge", 1, &[Binding::Resource(asset.clone())]);
    let stage = Stage::with(broker.services()).await;
    for (slot, image) in [(7, hello()), (8, rank()), (9, merge())] {
        assert_eq!(stage.define_image(image, slot).await, []);
    }
    for image in [hello(), rank(), merge()] {
        stage.route_image(image, None);
    }
    stage
}

fn rank() -> VerifiedImage {
    public("rank", 1, &[])
}

/// A call of the function at that place, as a record.
fn record(id: u32, place: u32) -> Vec<u8> {
    let mut records = Vec::new();
    let bytes = &*with_binding(place, b"{}");
    Record { id, code: OperationKind::Call as u32, bytes }.append_to(&mut records);
    records
}

/// Who is told to the worker, by identity of the operation.
fn told(end: &mut WorkerEnd, question: &[u8]) -> Option<Vec<(u32, u32)>> {
    let told = ask(end, question, PATIENCE)?;
    let callee = |record: Record<'_>| {
        assert_eq!(record.code, INLINE_CODE);
        (record.id, InlineCallee::decode(record.bytes).unwrap().slot)
    };
    Some(Records::decode(&told).unwrap().map(callee).collect())
}

fn used(binding: u32, calls: u32, wall_ns: u64) -> InlineUse {
    InlineUse { binding, calls, wall_ns, memory_bytes: 77, is_apart: false }
}

/// Answers, after so much CPU time, and says what was called meanwhile.
fn reply_using(end: &mut WorkerEnd, cpu_us: u64, uses: &[InlineUse]) {
    let (ns, inline) = (cpu_us * 1_000, uses.iter().flat_map(InlineUse::encode).collect::<Vec<_>>());
    let answer = Answer {
        status: Status::Ok,
        cold: false,
        waits: false,
        response: b"done",
        logs: b"",
        message: b"",
        inline: &inline,
        wall_ns: ns,
        cpu_ns: ns,
        memory_bytes: 1,
    };
    end.reply(&answer).unwrap();
}

/// Calls of a function of `acme` that are counted, and their time in seconds.
fn counted(broker: &TestBroker, function: &str) -> (u64, f64) {
    let text = broker.services().usage.render();
    let value = |series: &str| {
        let labels = format!("{series}{{tenant=\"acme\",function=\"{function}\"}} ");
        text.lines().find_map(|line| line.strip_prefix(&labels)).map_or(0.0, |value| value.parse().unwrap())
    };
    (value("mfaas_function_run_seconds_count") as u64, value("mfaas_function_run_seconds_sum"))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_is_told_once_who_answers_what_its_call_calls() {
    let broker = TestBroker::new();
    let stage = stage_of(&broker, rank).await;
    let (mut end, _fd, _child) = stage.worker();
    for _ in 0..2 {
        let call = stage.call();
        assert!(next(&mut end).may_ask);
        let question = [record(3, RANK), record(4, MERGE), record(5, RANK)].concat();
        assert_eq!(told(&mut end, &question).unwrap(), [(3, 8), (4, 9)], "each once");
        assert_eq!(told(&mut end, &record(6, RANK)).unwrap(), [], "it knows");
        reply(&mut end, b"done");
        ended(call).await.unwrap();
    }
    let call = stage.call();
    next(&mut end);
    let told = ask(&mut end, &record(1, RANK), PATIENCE).unwrap();
    let record = Records::decode(&told).unwrap().next().unwrap();
    let InlineCallee { budget_us, memory_bytes, head, .. } = InlineCallee::decode(record.bytes).unwrap();
    let key = key("rank", 1);
    assert_eq!((u64::from(budget_us), memory_bytes), (key.budget.as_micros(), key.memory.as_bytes()));
    // With a body it is the request that the function gets if it is called by itself.
    let frame = [head, &2u32.to_le_bytes(), b"{}"].concat();
    let request = RequestFrame::decode(&frame).unwrap();
    assert_eq!((request.method, request.path, request.body), ("POST", "/", &b"{}"[..]));
    let caller = request.headers.get("mfaas-caller").unwrap();
    let mut by_itself = Vec::new();
    let headers = [("content-type", "application/json"), ("mfaas-caller", caller)];
    encode_request(&mut by_itself, "POST", "/", headers, b"{}").unwrap();
    assert_eq!((caller, &frame), ("acme/function/hello", &by_itself));
    reply(&mut end, b"done");
    ended(call).await.unwrap();
}

/// What does more than answer is called by itself.
#[tokio::test(flavor = "multi_thread")]
async fn who_does_more_than_answer_is_not_told() {
    let broker = TestBroker::new();
    for binding in [data(), function("merge")] {
        let stage = stage_of(&broker, || public("rank", 1, std::slice::from_ref(&binding))).await;
        let (mut end, _fd, _child) = stage.worker();
        let call = stage.call();
        next(&mut end);
        assert_eq!(ask(&mut end, &record(1, RANK), IN_VAIN), None);
        assert_eq!(ask(&mut end, &[record(1, MERGE), record(2, RANK)].concat(), IN_VAIN), None);
        assert_eq!(told(&mut end, &record(1, MERGE)).unwrap(), [(1, 9)], "as if it had not been asked for");
        reply(&mut end, b"done");
        ended(call).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_is_told_nobody_else() {
    let broker = TestBroker::new();
    let stage = stage_of(&broker, rank).await;
    let (mut end, _fd, _child) = stage.worker();
    let call = stage.call();
    next(&mut end);
    let mut sleep = Vec::new();
    Record { id: 9, code: OperationKind::Sleep as u32, bytes: &[0; 8] }.append_to(&mut sleep);
    for (what, question) in [
        ("another tenant's", record(1, ELSEWHERE)),
        ("no binding", record(1, 3)),
        ("something else besides", [record(1, RANK), sleep].concat()),
        ("no record", record(1, RANK)[..13].to_vec()),
    ] {
        assert_eq!(ask(&mut end, &question, IN_VAIN), None, "{what}");
    }
    // The third that was defined, after both versions of `hello`.
    stage.intake.send(Event::Withdraw(mfaas_dispatch::FunctionId(2)));
    assert_eq!(ask(&mut end, &record(1, RANK), IN_VAIN), None, "what is revoked");
    reply(&mut end, b"done");
    ended(call).await.unwrap();
}

/// Its calls count as its own, its time is not its caller's as well, and nobody is believed more than there was time for.
#[tokio::test(flavor = "multi_thread")]
async fn what_was_called_within_a_call_is_counted() {
    let broker = TestBroker::new();
    let stage = stage_of(&broker, rank).await;
    let (mut end, _fd, _child) = stage.worker();
    let call = stage.call();
    next(&mut end);
    told(&mut end, &record(1, RANK)).unwrap();
    std::thread::sleep(Duration::from_millis(5));
    // MERGE was not told, and so was not called.
    reply_using(&mut end, 2_000, &[used(RANK, 64, 500_000), used(MERGE, 9, 100_000), used(77, 1, 1)]);
    let answered = ended(call).await.unwrap();
    assert_eq!(answered.completion.unwrap().cpu_ns, 1_500_000);
    assert_eq!((counted(&broker, "rank"), counted(&broker, "merge")), ((64, 0.000_499_968), (0, 0.0)));
    let call = stage.call();
    next(&mut end);
    told(&mut end, &record(1, RANK)).unwrap();
    std::thread::sleep(Duration::from_millis(5));
    reply_using(&mut end, 1_000, &[used(RANK, u32::MAX, u64::MAX)]);
    assert_eq!(ended(call).await.unwrap().completion.unwrap().cpu_ns, 0);
    let (calls, seconds) = counted(&broker, "rank");
    assert!(calls - 64 <= 1_001_000 / 50, "{calls}");
    assert!(seconds <= 0.000_5 + 0.001_001, "{seconds}");
}

/// Whoever waits or logs is called by itself from then on: another version is not concerned.
#[tokio::test(flavor = "multi_thread")]
async fn who_is_said_to_do_more_is_called_by_itself_from_then_on() {
    let broker = TestBroker::new();
    let stage = stage_of(&broker, rank).await;
    let (mut end, _fd, _child) = stage.worker();
    let call = stage.call();
    next(&mut end);
    told(&mut end, &record(1, RANK)).unwrap();
    reply_using(&mut end, 10, &[InlineUse { is_apart: true, ..used(RANK, 0, 0) }]);
    ended(call).await.unwrap();
    let call = stage.call();
    next(&mut end);
    assert_eq!(ask(&mut end, &record(1, RANK), IN_VAIN), None);
    // It is put aside for that, and hears of it as ever.
    let bytes = &*with_binding(RANK, b"{}");
    put_aside(&mut end, &[Record { id: 1, code: OperationKind::Call as u32, bytes }], b"state", 10);
    next_of_rank(&mut end);
    reply(&mut end, &response(200, b"[3]"));
    assert_eq!(heard(&mut end), [(1, mfaas_abi::DONE, replied(200, b"[3]"))]);
    reply(&mut end, b"done");
    ended(call).await.unwrap();
    stage.tasks_now();
    assert_eq!(stage.define_image(public("rank", 2, &[]), 5).await, []);
    stage.route_image(public("rank", 2, &[]), None);
    let call = stage.call();
    next(&mut end);
    assert_eq!(told(&mut end, &record(1, RANK)).unwrap(), [(1, 5)]);
    reply(&mut end, b"done");
    ended(call).await.unwrap();
}

/// A call that comes to a worker again knows nobody there, and what it is to hear of comes first.
#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_goes_on_is_told_anew() {
    let broker = TestBroker::new();
    let stage = stage_of(&broker, rank).await;
    let (mut end, _fd, _child) = stage.worker();
    let call = stage.call();
    next(&mut end);
    assert_eq!(told(&mut end, &record(1, RANK)).unwrap(), [(1, 8)]);
    let (short, long) = (1_000_000u64.to_le_bytes(), 30_000_000u64.to_le_bytes());
    let sleep = |id, bytes| Record { id, code: OperationKind::Sleep as u32, bytes };
    put_aside(&mut end, &[sleep(2, &short), sleep(3, &long)], b"state", 10);
    let (_, heard, _) = resumed_with(&mut end, |outcome| outcome.id);
    assert_eq!(heard, [2]);
    assert_eq!(told(&mut end, &record(4, RANK)).unwrap(), [(4, 8)]);
    std::thread::sleep(Duration::from_millis(60));
    assert_eq!(ask(&mut end, &record(5, MERGE), IN_VAIN), None, "it has to hear of its sleep");
    reply(&mut end, b"done");
    ended(call).await.unwrap();
}
