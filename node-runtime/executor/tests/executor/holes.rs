//! Room for code that holds none: jumped to, it is no instruction.

use std::sync::atomic::{AtomicU64, Ordering};

use mfaas_abi::Status;
use mfaas_abi::frame::encode_request;
use mfaas_executor::{Executor, Limits, Slab, SlabGeometry, SlabWriter, Verification};
use mfaas_ident::{Budget, MemoryLimit};

use crate::watcher::{self, Watcher};
use crate::{Fixture, sealed, toolchain};

/// Where the window's code begins.
const CODE: usize = 256 << 20;
/// Two MiB of a bank are readied at a time.
const PIECE: usize = 2 << 20;
const PIECES: usize = 8;

/// What a function that jumps there must not write.
static HOSTS: AtomicU64 = AtomicU64::new(0);

/// Memory that was never written reads as zeros, and `00 00` is an instruction that adds to the byte at `rax`:
/// not of 32 bits. Near the end of each piece, so that the zeros would be few.
#[test]
fn room_that_was_never_readied_holds_no_instructions() {
    let _alone = Fixture::alone();
    let geometry = SlabGeometry { bank_bytes: PIECES * PIECE, asset_bytes: 0, slots: 64 };
    let mut writer = SlabWriter::new(geometry, Verification::Required).expect("a slab");
    let slot = writer.load(sealed(toolchain::prober())).expect("it loads").slot;
    let slab = Slab::map(writer.finish()).expect("the window is free");
    let memory = MemoryLimit::from_bytes(4 << 20).expect("a multiple of a page");
    let mut executor = Executor::new(slab, memory, watcher::CLOCK).expect("an executor");
    let limits = Limits { budget: Budget::from_micros(50_000).expect("within bounds"), memory };
    let watcher = Watcher::start();
    // An odd number, so that no power of two of additions leaves the byte as it was.
    let word = (&raw const HOSTS).expose_provenance() + 1;
    for piece in 0..PIECES {
        let target = CODE + (piece + 1) * PIECE - 96;
        let body: Vec<u8> = [target, word].iter().flat_map(|word| word.to_le_bytes()).collect();
        let mut frame = Vec::new();
        encode_request(&mut frame, "POST", "/", [], &body).expect("a plain request");
        executor.request()[..frame.len()].copy_from_slice(&frame);
        let mut ended = executor.call(slot, frame.len(), limits, watcher.word()).expect("resident");
        let status = ended.outcome().status;
        assert_eq!((status, HOSTS.load(Ordering::Relaxed)), (Status::Fault, 0), "piece {piece}");
    }
}

/// What is loaded into another piece while a worker is there is executable in its next call.
#[test]
fn a_worker_executes_what_was_readied_after_it_began() {
    let _alone = Fixture::alone();
    let geometry = SlabGeometry { bank_bytes: PIECES * PIECE, asset_bytes: 0, slots: 64 };
    let mut writer = SlabWriter::new(geometry, Verification::Required).expect("a slab");
    let slab = Slab::map(writer.fd()).expect("the window is free");
    let memory = MemoryLimit::from_bytes(4 << 20).expect("a multiple of a page");
    let mut executor = Executor::new(slab, memory, watcher::CLOCK).expect("an executor");
    let limits = Limits { budget: Budget::from_micros(50_000).expect("within bounds"), memory };
    let watcher = Watcher::start();
    let mut frame = Vec::new();
    encode_request(&mut frame, "POST", "/", [], b"hello").expect("a plain request");
    let mut furthest = 0;
    while let Ok(loaded) = writer.load(sealed(toolchain::tenant())) {
        executor.request()[..frame.len()].copy_from_slice(&frame);
        let mut ended = executor.call(loaded.slot, frame.len(), limits, watcher.word()).expect("resident");
        assert_eq!(ended.outcome().status, Status::Ok, "{loaded:?}");
        furthest = loaded.address + loaded.bytes - CODE;
    }
    assert!(furthest > 2 * PIECE, "all of it lies in the first pieces: {furthest}");
}
