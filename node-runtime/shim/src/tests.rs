//! The arena over ordinary memory: disjoint, aligned, zeroed where promised, never beyond its end.

use std::alloc::{GlobalAlloc as _, Layout};
use std::future::Future as _;
use std::task::{Context, Waker};

use mfaas_abi::limits::{BODY_BYTES_MAX, OPERATIONS_MAX, PANIC_BYTES_MAX, records_bytes_max};
use mfaas_abi::{OperationKind, Records};
use proptest::prelude::*;

use crate::arena::Arena;
use crate::bounded::BoundedText;
use crate::call::bytes;
use crate::waiting::{Operation, ask_together, with};

const ARENA_BYTES: usize = 1 << 20;
/// More than any single step below needs, so that a full arena is the test's choice.
const LIVE_BYTES_MAX: usize = 400 << 10;

/// An arena and the memory under it.
struct Fixture {
    arena: Arena,
    base: *mut u8,
}

const MEMORY: Layout = match Layout::from_size_align(ARENA_BYTES, 4096) {
    Ok(layout) => layout,
    Err(_) => panic!("a constant"),
};

impl Fixture {
    fn new() -> Self {
        Self::holding(0)
    }

    /// Over memory all of whose bytes are this one.
    fn holding(byte: u8) -> Self {
        // SAFETY: INV-SHIM-1. Of non-zero size.
        let base = unsafe { std::alloc::alloc(MEMORY) };
        // SAFETY: INV-SHIM-1. So large it is.
        unsafe { base.write_bytes(byte, ARENA_BYTES) };
        let arena = Arena::empty();
        // SAFETY: INV-SHIM-1. Fresh, written and ours until the fixture goes.
        unsafe { arena.adopt(base, ARENA_BYTES) };
        Self { arena, base }
    }
}

impl Drop for Fixture {
    fn drop(&mut self) {
        // SAFETY: INV-SHIM-1. Allocated with the same layout.
        unsafe { std::alloc::dealloc(self.base, MEMORY) };
    }
}

struct Block {
    start: *mut u8,
    layout: Layout,
    tag: u8,
}

impl Block {
    fn bytes(&self) -> &[u8] {
        // SAFETY: INV-SHIM-3. A live block of this size.
        unsafe { std::slice::from_raw_parts(self.start, self.layout.size()) }
    }

    fn fill(&mut self) {
        // SAFETY: INV-SHIM-3. A live block of this size.
        unsafe { self.start.write_bytes(self.tag, self.layout.size()) }
    }

    fn check(&self, fixture: &Fixture) {
        let offset = self.start.addr() - fixture.base.addr();
        assert!(offset + self.layout.size() <= ARENA_BYTES, "beyond the arena");
        assert_eq!(self.start.addr() % self.layout.align(), 0, "misaligned");
        assert!(self.bytes().iter().all(|byte| *byte == self.tag), "overwritten by another block");
    }
}

#[derive(Debug, Clone)]
enum Step {
    Alloc { size: usize, align_power: u32, zeroed: bool },
    Free { which: usize },
    Resize { which: usize, size: usize },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let size = prop_oneof![1usize..200, 200usize..5_000, 5_000usize..60_000];
    let step = prop_oneof![
        (size.clone(), 0u32..8, any::<bool>()).prop_map(|(size, align_power, zeroed)| Step::Alloc {
            size,
            align_power,
            zeroed
        }),
        any::<usize>().prop_map(|which| Step::Free { which }),
        (any::<usize>(), size).prop_map(|(which, size)| Step::Resize { which, size }),
    ];
    proptest::collection::vec(step, 1..120)
}

fn run(steps: Vec<Step>) {
    let fixture = Fixture::new();
    let mut live: Vec<Block> = Vec::new();
    for (number, step) in steps.into_iter().enumerate() {
        let tag = number as u8 | 1;
        let in_use: usize = live.iter().map(|block| block.layout.size()).sum();
        match step {
            Step::Alloc { size, align_power, zeroed } if in_use + size < LIVE_BYTES_MAX / 4 => {
                live.push(allocate(&fixture, size, 1 << align_power, zeroed, tag));
            }
            Step::Alloc { .. } => live.clear(),
            Step::Free { which } if !live.is_empty() => {
                let block = live.swap_remove(which % live.len());
                // SAFETY: INV-SHIM-3. A live block with its own layout.
                unsafe { fixture.arena.dealloc(block.start, block.layout) };
            }
            Step::Resize { which, size } if !live.is_empty() && in_use + size < LIVE_BYTES_MAX / 4 => {
                let index = which % live.len();
                resize(&fixture, &mut live[index], size);
            }
            Step::Free { .. } | Step::Resize { .. } => {}
        }
        live.iter().for_each(|block| block.check(&fixture));
        if live.is_empty() {
            // Blocks that were dropped above without being freed must not fill the arena.
            // SAFETY: INV-SHIM-1. Nothing refers to the memory now.
            unsafe { fixture.base.write_bytes(0, ARENA_BYTES) };
            // SAFETY: INV-SHIM-1. As in the fixture.
            unsafe { fixture.arena.adopt(fixture.base, ARENA_BYTES) };
        }
    }
}

fn allocate(fixture: &Fixture, size: usize, align: usize, zeroed: bool, tag: u8) -> Block {
    let layout = Layout::from_size_align(size, align).expect("a small power of two");
    let start = if zeroed {
        // SAFETY: INV-SHIM-3. Of non-zero size.
        unsafe { fixture.arena.alloc_zeroed(layout) }
    } else {
        // SAFETY: INV-SHIM-3. Of non-zero size.
        unsafe { fixture.arena.alloc(layout) }
    };
    let mut block = Block { start, layout, tag };
    assert!(!zeroed || block.bytes().iter().all(|byte| *byte == 0), "not zeroed");
    block.fill();
    block
}

fn resize(fixture: &Fixture, block: &mut Block, size: usize) {
    let kept = block.layout.size().min(size);
    // SAFETY: INV-SHIM-3. A live block with its own layout, and a new size that is not zero.
    block.start = unsafe { fixture.arena.realloc(block.start, block.layout, size) };
    block.layout = Layout::from_size_align(size, block.layout.align()).expect("as before");
    assert!(block.bytes()[..kept].iter().all(|byte| *byte == block.tag), "lost by a resize");
    block.fill();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]
    #[test]
    fn blocks_never_overlap(steps in steps()) {
        run(steps);
    }
}

#[test]
fn zeroed_blocks_are_zero() {
    let fixture = Fixture::new();
    let first = allocate(&fixture, 5_000, 8, true, 0xff);
    // SAFETY: INV-SHIM-3. A live block with its own layout.
    unsafe { fixture.arena.dealloc(first.start, first.layout) };
    allocate(&fixture, 4_999, 8, true, 0xff);
    allocate(&fixture, 20_000, 8, true, 0xff);
}

/// What another call may have left there is no free list and no zero.
#[test]
fn an_arena_may_hold_any_bytes() {
    for byte in [1, 0x41, 0xff] {
        let fixture = Fixture::holding(byte);
        let blocks = [16, 48, 700, 40_000].map(|size| allocate(&fixture, size, 8, true, 7));
        blocks.iter().for_each(|block| block.check(&fixture));
        for block in blocks {
            // SAFETY: INV-SHIM-3. A live block with its own layout.
            unsafe { fixture.arena.dealloc(block.start, block.layout) };
        }
        // The list of 48 bytes was begun with one block and has no second.
        let blocks = [48, 48, 48].map(|size| allocate(&fixture, size, 8, false, 9));
        blocks.iter().for_each(|block| block.check(&fixture));
    }
}

#[test]
fn a_growing_vector_at_the_top_stays_where_it_is() {
    let fixture = Fixture::new();
    let mut block = allocate(&fixture, 16, 1, false, 7);
    let (mut start, mut moves) = (block.start, 0);
    while block.layout.size() < ARENA_BYTES / 2 {
        let size = block.layout.size() * 2;
        resize(&fixture, &mut block, size);
        moves += usize::from(std::mem::replace(&mut start, block.start) != block.start);
    }
    assert_eq!(moves, 1, "when it became a large one");
    // Nearly the whole arena is usable as one buffer, whether it is made so or becomes so.
    resize(&fixture, &mut block, ARENA_BYTES - (34 << 10));
    let fixture = Fixture::new();
    resize(&fixture, &mut allocate(&fixture, 33 << 10, 1, false, 7), ARENA_BYTES - 2_048);
}

#[test]
fn freed_memory_is_used_again() {
    let fixture = Fixture::new();
    let mut highest = 0;
    for _ in 0..2_000 {
        let blocks: Vec<_> = (1..8).map(|n| allocate(&fixture, n * 700, 8, false, 3)).collect();
        for block in blocks {
            highest = highest.max(block.start.addr() - fixture.base.addr());
            // SAFETY: INV-SHIM-3. A live block with its own layout.
            unsafe { fixture.arena.dealloc(block.start, block.layout) };
        }
    }
    assert!(highest < 64 << 10, "{highest} bytes for 20 KiB at a time");
}

/// Whether their sizes are those of classes or not, and also by blocks of other sizes.
#[test]
fn large_blocks_are_used_again() {
    let fixture = Fixture::new();
    let sizes = [40_000, 120 << 10, 128 << 10, 33_000, 100_001];
    let mut highest = 0;
    for round in 0..1_000 {
        let blocks = sizes.map(|size| allocate(&fixture, size + round * 37 % 1_000, 8, false, 3));
        let last = allocate(&fixture, 64, 8, false, 4);
        for block in blocks.into_iter().chain([last]) {
            block.check(&fixture);
            highest = highest.max(block.start.addr() - fixture.base.addr());
            // SAFETY: INV-SHIM-3. A live block with its own layout.
            unsafe { fixture.arena.dealloc(block.start, block.layout) };
        }
    }
    assert!(highest < 700 << 10, "{highest} bytes for 430 KiB at a time");
}

#[test]
#[should_panic(expected = "no room for")]
fn a_full_arena_ends_the_call() {
    let fixture = Fixture::new();
    allocate(&fixture, ARENA_BYTES, 8, false, 1);
}

#[test]
#[should_panic(expected = "no room for")]
fn a_size_beyond_every_class_ends_the_call() {
    allocate(&Fixture::new(), isize::MAX as usize - 64, 8, false, 1);
}

#[test]
fn long_texts_are_cut_and_keep_room_for_the_place() {
    let mut text = BoundedText::new();
    text.push(&"ü".repeat(PANIC_BYTES_MAX));
    text.push_fmt(format_args!(" at {}", "src/lib.rs:1:2"));
    let shown = std::str::from_utf8(text.as_bytes()).expect("cut between characters");
    assert!(shown.ends_with("ü at src/lib.rs:1:2"));
    text.push_fmt(format_args!("{}", "x".repeat(2 * PANIC_BYTES_MAX)));
    assert_eq!(text.as_bytes().len(), PANIC_BYTES_MAX);
}

/// What the host would be told if a call waited now.
fn begun() -> Vec<(Option<OperationKind>, usize)> {
    with(|operations| {
        let began = bytes(&operations.began()).to_vec();
        operations.hear(Records::default());
        let records = Records::decode(&began).expect("records");
        records.map(|record| (OperationKind::from_u32(record.code), record.bytes.len())).collect()
    })
}

/// All but the last of those that begin together are parts, and no more begin than a wait has room for.
#[test]
fn operations_begin_together_as_far_as_there_is_room() {
    let of = |count: usize, bytes: usize| vec![vec![7; bytes]; count];
    let poll = |operations: Vec<Vec<u8>>, most| {
        let mut all = Box::pin(ask_together(operations, most, |_| Ok::<_, ()>(())));
        assert!(all.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        (begun(), all)
    };
    let (part, last) = (Some(OperationKind::Part), Some(OperationKind::Data));
    assert_eq!(poll(of(9, 5), 3).0, [(part, 5), (part, 5), (last, 5)]);
    assert_eq!(begun(), [(Some(OperationKind::Cancel), 0); 3], "nobody waits any more");
    let large = 5 << 20;
    assert_eq!(poll(of(9, large), 4).0, [(part, large), (part, large), (last, large)]);
    begun();
    with(|operations| operations.is_bulk.set(false));
    assert_eq!(poll(of(9, 5), 3).0, [(last, 5)], "a micro function has no memory for more");
    begun();
    // Beside one that is as large as all may be, none.
    let most = records_bytes_max(BODY_BYTES_MAX);
    let large = Operation::new(OperationKind::Data, vec![7; most]);
    let mut large = Box::pin(large);
    assert!(large.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    let mut beside = Box::pin(ask_together(of(1, 1), 4, |_| Ok::<_, ()>(())));
    assert!(beside.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    assert_eq!(begun(), [(last, most)], "the host refuses it");
    assert!(beside.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    assert_eq!(begun(), [(last, 1)]);
    drop((large, beside));
    begun();
    with(|operations| operations.is_bulk.set(true));
    let (all, waiting) = poll(of(100, 1), 100);
    assert_eq!(all.len(), OPERATIONS_MAX);
    assert!(poll(of(1, 1), 1).0.is_empty());
    drop(waiting);
    begun();
}

/// What blocks of 60 live at once need when each is resized once, over many rounds.
fn highest_after_resizing(from: usize, to: usize) -> usize {
    let fixture = Fixture::holding(0x41);
    let (mut live, mut highest) = (std::collections::VecDeque::new(), 0);
    for _ in 0..20_000 {
        let mut block = allocate(&fixture, from, 8, false, 5);
        resize(&fixture, &mut block, to);
        highest = highest.max(block.start.addr() - fixture.base.addr());
        live.push_back(block);
        if live.len() > 60
            && let Some(first) = live.pop_front()
        {
            // SAFETY: INV-SHIM-3. A live block with its own layout.
            unsafe { fixture.arena.dealloc(first.start, first.layout) };
        }
    }
    highest
}

/// Neither a block that grows at the top nor one that shrinks where it is leaves freed ones unused for ever.
#[test]
fn a_long_call_does_not_outgrow_what_it_uses_at_once() {
    for (from, to) in [(8, 22), (22, 8), (100, 1_000), (1_000, 100), (300, 301)] {
        let highest = highest_after_resizing(from, to);
        assert!(highest < 3 * 64 * from.max(to) + 4_096, "{highest} bytes for {from} to {to}");
    }
}
