//! What a node sees of a worker.

use std::io::Write as _;

use mfaas_abi::Status;
use mfaas_executor::sealed_copy;
use mfaas_ring::preload::StartLine;

use crate::{Node, SLAB, leave, preload, toolchain};

const TENANT: u32 = 0;
const HOSTILE: u32 = 1;

fn node() -> Node {
    Node::start(&[toolchain::tenant(), toolchain::hostile()])
}

#[test]
fn every_end_is_reported_and_the_next_call_is_served() {
    let mut node = node();
    let fresh = "7 0 true 1 3 1 0";
    assert_eq!(node.ok(TENANT, "count"), fresh);
    for (body, status) in [
        ("panic", Status::Panicked),
        ("spin", Status::OverBudget),
        ("drop-loop", Status::OverBudget),
        ("overflow", Status::StackOverflow),
        ("bomb", Status::OutOfMemory),
        ("abort", Status::Aborted),
        ("panic-display", Status::Aborted),
        ("huge", Status::BadOutput),
    ] {
        assert_eq!(node.status(TENANT, body), status, "{body}");
        assert_eq!(node.ok(TENANT, "count"), fresh, "after {body}");
    }
    assert!(node.stop().success());
}

#[test]
fn what_std_offers_works_under_lock_down() {
    let mut node = node();
    assert_eq!(node.ok(TENANT, "map"), "328350");
    assert_eq!(node.ok(TENANT, "libm"), "0.479426 0.353553 -0.693147 0.462117");
    assert_eq!(node.ok(TENANT, "clocks"), "true true");
    assert_eq!(node.ok(TENANT, "most").len(), 1 << 20);
    let printed = node.call(TENANT, "print");
    assert_eq!(mfaas_abi::LogReader::new(&printed.logs).count(), 3);
    assert!(node.stop().success());
}

/// The executor's `a_system_call_passes_without_lock_down` is the other half.
#[test]
fn a_system_call_is_denied_under_lock_down() {
    let mut node = node();
    let completion = node.call(HOSTILE, "s");
    assert_eq!(completion.status, Status::Denied);
    assert_eq!(completion.message, b"system call 39 is denied");
    assert_eq!(node.ok(HOSTILE, "-"), "!");
    assert_eq!(node.ok(TENANT, "next"), "NEXT");
    assert!(node.stop().success());
}

/// The end that only lock-down makes. What the worker needs of its registers it has: it answers the next
/// call, which finds its x87 unit and masks as the first did.
#[test]
fn registers_are_the_workers_again_after_a_denied_call() {
    let mut node = node();
    let masks = std::arch::is_x86_feature_detected!("avx512f");
    let x87 = |node: &mut Node| {
        let completion = node.call(HOSTILE, "Qf");
        let frame = mfaas_abi::frame::ResponseFrame::decode(&completion.response).expect("a frame");
        // Without where the unit was last: the kernel forgets that now and then.
        [&frame.body[..12], &frame.body[24..]].concat()
    };
    let before = x87(&mut node);
    for kind in "fecuwmxdnsF0G".chars() {
        let status = node.status(HOSTILE, &format!("R{kind}s"));
        assert!(matches!(status, Status::Denied | Status::Fault), "{kind}: {status}");
        assert_eq!(node.ok(TENANT, "count"), "7 0 true 1 3 1 0", "after {kind}");
        assert_eq!(x87(&mut node), before, "after {kind}");
    }
    if masks {
        assert_eq!(node.status(HOSTILE, "Rks"), Status::Denied);
        assert_eq!(node.ok(HOSTILE, "Qk"), "\0".repeat(32));
    }
    assert!(node.stop().success());
}

#[test]
fn faults_end_the_call_and_not_the_worker() {
    let mut node = node();
    for what in ["h", "i", "j", "n", "o", "v", "q"] {
        assert_eq!(node.status(HOSTILE, what), Status::Fault, "{what}");
        assert_eq!(node.ok(TENANT, "next"), "NEXT");
    }
    assert!(node.stop().success());
}

#[test]
fn a_worker_that_lost_its_stack_ends() {
    let mut node = node();
    let mut frame = Vec::new();
    mfaas_abi::frame::encode_request(&mut frame, "POST", "/", [], b"L").expect("a plain request");
    let submission = mfaas_ring::Submission {
        call_id: 9,
        function: HOSTILE,
        budget_us: crate::budget_us(),
        memory_bytes: 4 << 20,
        frame: &frame,
        resumes: false,
        may_ask: false,
        yields: false,
    };
    node.host.submit(submission).expect("room");
    let ended = node.ended();
    assert!(!ended.success(), "{ended}");
    assert_eq!(node.host.oldest_in_flight(), Some(9), "the node knows what was lost");
}

#[test]
fn the_first_call_of_each_function_is_cold() {
    let mut node = node();
    let seen: Vec<_> = [TENANT, TENANT, HOSTILE, HOSTILE, TENANT]
        .into_iter()
        .map(|function| node.call(function, "-").cold)
        .collect();
    assert_eq!(seen, [true, false, true, false, false]);
}

#[test]
fn a_slot_without_an_image_is_denied() {
    let mut node = Node::start(&[]);
    let slots = node.report.iter().map(|line| match line {
        StartLine::Mapped { slots, .. } => *slots,
        StartLine::Failed { error } => panic!("{error}"),
    });
    assert_eq!(slots.collect::<Vec<_>>(), [SLAB.slots as u32]);
    assert_eq!(node.status(0, "hello"), Status::Denied, "empty");
    assert_eq!(node.status(SLAB.slots as u32, "hello"), Status::Denied, "no such slot");
    assert!(node.stop().success());
}

#[test]
fn an_image_that_comes_after_lock_down_is_served() {
    let mut node = Node::start(&[]);
    let loaded = node.writer.load(sealed_copy(toolchain::tenant()).expect("a memfd")).expect("it loads");
    assert_eq!(node.ok(loaded.slot, "count"), "7 0 true 1 3 1 0");
    leave(&mut node.writer, loaded.slot);
    assert_eq!(node.status(loaded.slot, "count"), Status::Denied);
    assert!(node.stop().success());
}

/// Two images take turns in one slot, on the core of a worker that may have fetched the other's
/// code ahead. Without the serialising instruction that INV-EXECUTOR-8 asks for, nothing promises this.
#[test]
fn a_slot_that_changes_hands_runs_what_is_in_it() {
    let mut node = Node::start(&[]);
    let images =
        [toolchain::tenant(), toolchain::hostile()].map(|image| sealed_copy(image).expect("a memfd"));
    for turn in 0..2_000 {
        let (image, body, answer) =
            if turn % 2 == 0 { (&images[0], "hello", "HELLO") } else { (&images[1], "-", "!") };
        let loaded = node.writer.load(image).expect("it loads");
        assert_eq!(loaded.slot, 0, "the same slot every time");
        assert_eq!(node.ok(0, body), answer, "turn {turn}");
        assert_eq!(node.ok(0, body), answer, "turn {turn}, warm");
        leave(&mut node.writer, 0);
    }
    assert!(node.stop().success());
}

/// Images in one page, one of which leaves and comes back while the others are called.
#[test]
fn neighbours_in_a_page_do_not_notice() {
    let mut node = Node::start(&[]);
    let image = sealed_copy(toolchain::hostile()).expect("a memfd");
    let loaded = [(); 3].map(|()| node.writer.load(&image).expect("it loads"));
    assert!(loaded[0].bytes < 4096 && loaded[1].address % 4096 != 0, "{loaded:?}");
    for turn in 0..200 {
        leave(&mut node.writer, loaded[1].slot);
        assert_eq!(node.ok(loaded[0].slot, "-"), "!", "turn {turn}");
        assert_eq!(node.ok(loaded[2].slot, "-"), "!", "turn {turn}");
        assert_eq!(node.status(loaded[1].slot, "-"), Status::Denied, "turn {turn}");
        assert_eq!(node.writer.load(&image).expect("it loads"), loaded[1], "turn {turn}");
        assert_eq!(node.ok(loaded[1].slot, "-"), "!", "turn {turn}");
    }
    assert!(node.stop().success());
}

#[test]
fn a_worker_refuses_a_stranger_and_another_version() {
    let mut stranger = preload();
    stranger.node_pid = 1;
    let mut version = preload();
    version.abi_version += 1;
    for list in [stranger, version] {
        let mut node = Node::spawn(&[], &list);
        assert!(matches!(&node.report[..], [StartLine::Failed { .. }]), "{:?}", node.report);
        assert_eq!(node.child.wait().expect("our child").code(), Some(1));
    }
}

/// What the executor's tests show under keys is so in the worker as a node starts it; elsewhere the worker
/// says why not.
#[test]
fn a_worker_says_whether_its_memory_is_out_of_reach() {
    let mut node = node();
    let [StartLine::Mapped { keys, .. }] = &node.report[..] else { panic!("{:?}", node.report) };
    let (on, reason) = (keys.on, keys.reason.clone());
    assert_eq!(on, reason.is_empty(), "{reason}");
    assert!(on || std::env::var("MFAAS_TEST_KEYS").as_deref() != Ok("required"), "no keys: {reason}");
    let places = memory_of(node.child.id());
    assert!(places.iter().any(|(name, _)| name.contains("memfd")), "the ring: {places:?}");
    for (name, address) in places {
        let completion = node.call_with(HOSTILE, &look_at(address));
        let expected = if on { Status::Fault } else { Status::Ok };
        assert_eq!(completion.status, expected, "{name}");
        assert_eq!(node.ok(TENANT, "next"), "NEXT");
    }
    if !on {
        writeln!(std::io::stderr(), "skipped: {reason}").expect("somebody listens");
    }
    assert!(node.stop().success());
}

/// A request that the hostile function reads the byte at an address.
fn look_at(address: usize) -> Vec<u8> {
    [&b"w"[..], &address.to_le_bytes()].concat()
}

/// The ring, the heap, the stack and the writable data of a process.
fn memory_of(process: u32) -> Vec<(String, usize)> {
    let maps = std::fs::read_to_string(format!("/proc/{process}/maps")).expect("our own child");
    let place = |line: &str| {
        let mut words = line.split_ascii_whitespace();
        let start = usize::from_str_radix(words.next()?.split_once('-')?.0, 16).ok()?;
        let access = words.next()?;
        let name = words.nth(3).unwrap_or_default();
        let ours = ["/", "[heap]", "[stack]"].iter().any(|kind| name.starts_with(kind));
        (access.starts_with("rw") && ours).then(|| (name.to_owned(), start))
    };
    // The last page of a stack is in use, its first need not be.
    maps.lines().filter_map(place).collect()
}

/// Limits that no function has, and a slot that holds none.
#[test]
fn a_call_that_does_not_run_leaves_nothing_of_its_request() {
    let mut node = node();
    let secret = vec![b's'; 2_000];
    for (function, budget_us) in [(HOSTILE, 0), (7, 5_000)] {
        node.submit_within(function, &secret, budget_us);
        assert_eq!(node.answer("a call that cannot run").status, Status::Denied);
        assert_eq!(node.ok(HOSTILE, "Z"), "0", "slot {function}, {budget_us} us");
    }
    assert!(node.stop().success());
}
