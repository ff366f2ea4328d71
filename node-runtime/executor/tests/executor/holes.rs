//! Room for code that holds none.

use std::sync::atomic::{AtomicU64, Ordering};

use mfaas_abi::Status;
use mfaas_abi::frame::encode_request;
use mfaas_executor::{Executor, Limits, Slab, SlabGeometry, SlabWriter, Verification};
use mfaas_ident::{Budget, MemoryLimit};

use crate::{sealed, toolchain, watcher};

#[test]
fn room_that_was_never_readied_holds_no_instructions() {
    let mut writer =
        SlabWriter::new(SlabGeometry { bank_bytes: 16 << 20, slots: 64 }, Verification::Required)
            .expect("a slab");
    let loaded = writer.load(sealed(toolchain::prober())).expect("it loads");
    let memory = MemoryLimit::from_bytes(4 << 20).expect("a multiple of a page");
    let budget = Budget::from_micros(50_000).expect("within bounds");
    let slab = Slab::map(writer.finish()).expect("window");
    let mut executor = Executor::new(slab, memory, watcher::CLOCK).expect("an executor");
    static WORD: [AtomicU64; 64] = [const { AtomicU64::new(0) }; 64];
    let word = (&raw const WORD).addr() | 1;
    let target = (256usize << 20) + (8 << 20) + 32;
    let mut frame = Vec::new();
    let body: Vec<u8> = [target, word].iter().flat_map(|w| w.to_le_bytes()).collect();
    encode_request(&mut frame, "POST", "/", [], &body).expect("a plain request");
    executor.request()[..frame.len()].copy_from_slice(&frame);
    let watcher = watcher::Watcher::start();
    let limits = Limits { budget, memory };
    let status =
        executor.call(loaded.slot, frame.len(), limits, watcher.word()).expect("resident").outcome().status;
    let words: Vec<u64> = WORD.iter().map(|w| w.load(Ordering::Relaxed)).collect();
    assert_eq!(words, [0; 64], "the function wrote to the host: {status:?}");
    assert_eq!(status, Status::Fault);
}
