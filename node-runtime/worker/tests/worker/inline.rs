//! Calls within calls: asked for once, made in the worker, and told with the answer of the one that made them.

use std::time::Instant;

use mfaas_abi::frame::encode_request;
use mfaas_abi::{CalleeReply, DONE, OperationKind, Record, Records, Status};
use mfaas_ring::{Completion, INLINE_CODE, InlineCallee, InlineUse, Submission};

use crate::{Node, PATIENCE, budget_us, toolchain};

/// What a call of `count` answers in fresh memory.
const FRESH: &str = "7 0 true 1 3 1 0";
const WAITER: u32 = 0;
const TENANT: u32 = 1;

/// The request to `count` by its parts, as the node tells its head.
fn head() -> Vec<u8> {
    let mut frame = Vec::new();
    encode_request(&mut frame, "POST", "/", [("mfaas-caller", "acme/function/waiter")], b"")
        .expect("well-formed");
    frame.truncate(frame.len() - 4);
    frame
}

/// A call of the waiter that calls so often with a text, and its answer. `tell` says what is told for a question.
fn calls(
    node: &mut Node,
    (rounds, text): (u8, &[u8]),
    mut tell: impl FnMut(&[u8]) -> Option<Vec<u8>>,
) -> Completion {
    let mut frame = Vec::new();
    encode_request(&mut frame, "POST", "/", [], &[&[b'c', rounds, 100, 0, 0, 0], text].concat())
        .expect("well-formed");
    let submission = Submission {
        call_id: 1,
        function: WAITER,
        // What a call waits for a busy host is its own time.
        budget_us: PATIENCE.as_micros() as u32,
        memory_bytes: 4 << 20,
        frame: &frame,
        resumes: false,
        may_ask: true,
        yields: false,
    };
    node.host.submit(submission).expect("room");
    let (begun, mut completion, mut question) = (Instant::now(), Completion::new(), Vec::new());
    loop {
        assert!(begun.elapsed() < PATIENCE, "no answer");
        if node.host.question(&mut question).expect("a benign worker").is_some() {
            let told = tell(&question);
            node.host.tell(told.as_deref());
        }
        if node.host.collect(&mut completion).expect("a benign worker") {
            return completion;
        }
        node.watch();
    }
}

/// Tells that the image in a slot answers what is asked.
fn answered_by(slot: u32, question: &[u8]) -> Vec<u8> {
    let operation = Records::decode(question).expect("well-formed").next().expect("one is asked for");
    assert_eq!(operation.code, OperationKind::Call as u32);
    let callee = InlineCallee { slot, budget_us: budget_us(), memory_bytes: 4 << 20, head: &head() };
    let mut told = Vec::new();
    Record { id: operation.id, code: INLINE_CODE, bytes: &callee.encode() }.append_to(&mut told);
    told
}

/// The sum of all bytes that the waiter hears of so many calls, the first of which has the identity `rounds`.
fn heard(rounds: u8) -> u64 {
    let reply = CalleeReply { http_status: 200, body: FRESH.as_bytes() }.encode();
    (1..=rounds)
        .map(|id| {
            let mut record = Vec::new();
            Record { id: u32::from(id), code: DONE, bytes: &reply }.append_to(&mut record);
            record.iter().map(|byte| u64::from(*byte)).sum::<u64>()
        })
        .sum()
}

fn word(completion: &Completion, at: usize) -> u64 {
    let body = mfaas_abi::frame::ResponseFrame::decode(&completion.response).expect("well-formed").body;
    u64::from_le_bytes(body[at..at + 8].try_into().expect("well-formed"))
}

/// The same, told that the image in a slot answers; and how often that was asked.
fn calls_of(node: &mut Node, call: (u8, &[u8]), slot: u32) -> (Completion, usize) {
    let mut asked = 0;
    let completion = calls(node, call, |question| {
        asked += 1;
        Some(answered_by(slot, question))
    });
    (completion, asked)
}

#[test]
fn a_worker_asks_once_and_calls_as_often_as_its_call_does() {
    let mut node = Node::start_verified(&[toolchain::waiter(), toolchain::tenant()]);
    for rounds in [1, 9, 9] {
        let (completion, asked) = calls_of(&mut node, (rounds, b"count"), TENANT);
        assert_eq!((completion.status, completion.waits, asked), (Status::Ok, false, 1), "{completion:?}");
        assert_eq!((word(&completion, 8), word(&completion, 0)), (heard(rounds), 7 + u64::from(rounds)));
        let used: Vec<_> = InlineUse::decode_all(&completion.inline).collect();
        let [InlineUse { binding: 1, calls, wall_ns, memory_bytes, is_apart: false }] = used[..] else {
            panic!("{used:?}")
        };
        assert_eq!(calls, u32::from(rounds));
        assert!(wall_ns > 0 && wall_ns <= completion.wall_ns && memory_bytes > 0, "{used:?}");
        // The next call knows nothing of it.
        let completion = node.call(TENANT, "count");
        assert!(completion.inline.is_empty());
    }
}

#[test]
fn what_cannot_be_called_so_is_put_aside_with_all_that_it_asked_for() {
    let mut node = Node::start_verified(&[toolchain::waiter(), toolchain::tenant()]);
    for (slot, what) in [(9, "nothing is there"), (WAITER, "it calls itself")] {
        let (completion, asked) = calls_of(&mut node, (2, b"count"), slot);
        assert_eq!((completion.waits, asked), (true, 1), "{what}: {completion:?}");
        assert!(completion.inline.is_empty(), "{what}");
        let frame = mfaas_abi::SuspendedFrame::decode(&completion.response, 1 << 20).expect("well-formed");
        let asked: Vec<_> = frame.records.map(|record| (record.id, record.code)).collect();
        assert_eq!(asked, [(2, OperationKind::Call as u32)], "{what}");
        assert_eq!(node.ok(TENANT, "count"), FRESH);
    }
    for told in [None, Some(vec![]), Some(vec![1; 11])] {
        let completion = calls(&mut node, (2, b"count"), |_| told.clone());
        assert!(completion.waits && completion.inline.is_empty(), "{completion:?}");
        assert_eq!(node.ok(TENANT, "count"), FRESH);
    }
}

/// Calls are put aside without a question then; once there is an answer again they stay.
#[test]
fn what_its_node_declines_a_worker_asks_more_rarely() {
    let mut node = Node::start_verified(&[toolchain::waiter(), toolchain::tenant()]);
    let mut asked = Vec::new();
    for number in 1..=48 {
        let completion = calls(&mut node, (1, b"count"), |_| {
            asked.push(number);
            None
        });
        assert!(completion.waits, "{completion:?}");
    }
    assert_eq!(asked, [1, 2, 4, 8, 16, 32, 48]);
    let calls: Vec<_> = (0..32).map(|_| calls_of(&mut node, (1, b"count"), TENANT)).collect();
    let stayed: Vec<_> = calls.iter().map(|(completion, asked)| (!completion.waits, *asked)).collect();
    assert_eq!(stayed[..15], [(false, 0); 15]);
    assert_eq!(stayed[15..], [(true, 1); 17]);
}

/// Twice the waiter, in two slots: what is called waits.
#[test]
fn what_waits_is_told_from_what_fails() {
    let mut node = Node::start_verified(&[toolchain::waiter(), toolchain::waiter()]);
    let (completion, _) = calls_of(&mut node, (1, &[b'w', 1, 0, 0, 0, 0]), TENANT);
    assert!(completion.waits, "{completion:?}");
    let used: Vec<_> = InlineUse::decode_all(&completion.inline).collect();
    assert!(matches!(used[..], [InlineUse { binding: 1, calls: 0, is_apart: true, .. }]), "{used:?}");
}

/// What the node tells a worker stands for a moment where requests do: no function finds it there.
#[test]
fn nothing_of_what_the_node_tells_stays_in_the_window() {
    /// Where requests stand: call memory, a guard, and the page of the call's record.
    const REQUEST: usize = (2_816 << 20) + (64 << 10) + 4_096;
    let hostile = 2;
    let mut node = Node::start(&[toolchain::waiter(), toolchain::tenant(), toolchain::hostile()]);
    let (completion, _) = calls_of(&mut node, (1, b"count"), TENANT);
    assert!(!completion.waits, "{completion:?}");
    for at in 60..120 {
        let read = [&b"w"[..], &(REQUEST + at).to_ne_bytes()].concat();
        let completion = node.call_with(hostile, &read);
        let body = mfaas_abi::frame::ResponseFrame::decode(&completion.response).expect("well-formed").body;
        assert_eq!(body, [0], "{at} bytes behind the start of a request");
    }
}
