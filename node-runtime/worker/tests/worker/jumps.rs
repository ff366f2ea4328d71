//! Verified code that jumps wherever it can while images come and go beside it.

use std::collections::BTreeMap;

use mfaas_abi::Status;
use mfaas_executor::sealed_copy;

use crate::{Node, toolchain};

/// How often an image comes and goes; `MFAAS_TEST_JUMPS` says another number.
const TURNS: usize = 800;
/// CPU time of a call that may have ended up in a loop, in microseconds.
const BUDGET_US: u32 = 200;
const BUNDLE_BYTES: usize = 32;
/// Where the window's code begins, with gates and library in its first pages.
const CODE: usize = 256 << 20;
const GATES_BYTES: usize = 8 << 10;
/// All that can be code, most of which nobody has written.
const BANK_BYTES: usize = 768 << 20;

/// Each call jumps to the start of some bundle, of a gate, of the library, of an image that leaves meanwhile or
/// anywhere else in the code, with registers that its callers never have. Each ends its own call at worst, and none the worker.
#[test]
#[expect(clippy::print_stdout, reason = "how the jumps of a run ended")]
fn jumps_to_all_bundles_end_their_own_call_while_images_come_and_go() {
    let mut node = Node::start_verified(&[toolchain::jumper()]);
    let image = sealed_copy(toolchain::tenant()).expect("a memfd");
    let turns = std::env::var("MFAAS_TEST_JUMPS").map_or(TURNS, |text| text.parse().expect("a number"));
    let mut ends: BTreeMap<String, usize> = BTreeMap::new();
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut random = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize
    };
    for turn in 0..turns {
        let loaded = node.writer.load(&image).expect("it loads");
        let target = match random() % 8 {
            0 | 1 => CODE + random() % GATES_BYTES,
            2 => CODE + random() % BANK_BYTES,
            _ => loaded.address + random() % loaded.bytes,
        };
        let target = target / BUNDLE_BYTES * BUNDLE_BYTES;
        node.submit_within(0, &target.to_le_bytes(), BUDGET_US);
        (0..random() % 4_000).for_each(|_| std::hint::spin_loop());
        node.writer.unload(loaded.slot).expect("resident");
        let ended = node.answer(&format!("turn {turn}, a jump to {target:#x}"));
        node.writer.reclaim(loaded.slot).expect("it left");
        *ends.entry(format!("{:?}", ended.status)).or_default() += 1;
    }
    println!("{turns} jumps: {ends:?}");
    assert!(ends.get("Fault").is_some_and(|faults| *faults > turns / 10), "{ends:?}");
    assert!(ends.len() > 2, "{ends:?}");
    let loaded = node.writer.load(&image).expect("it loads");
    assert_eq!(node.ok(loaded.slot, "hello"), "HELLO");
    assert_eq!(node.status(0, "not an address"), Status::Fault);
    assert!(node.stop().success());
}
