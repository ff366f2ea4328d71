//! What a warm call costs in an executor, without rings: the median of many, in ns, once a round.
//!
//! ```console
//! $ cargo bench -p mfaas-executor --bench warm
//! ```
//! To compare two states of the executor, build both and run the two programs in turn.

#![allow(missing_docs, reason = "a benchmark")]

#[path = "../tests/executor/toolchain.rs"]
#[allow(dead_code, reason = "shared with the tests, of which this needs one function")]
mod toolchain;

use std::io::Write as _;
use std::sync::atomic::AtomicU64;
use std::time::Instant;

use mfaas_abi::Status;
use mfaas_abi::frame::encode_request;
use mfaas_executor::{Clock, Executor, Limits, Slab, SlabGeometry, SlabWriter, Verification, sealed_copy};
use mfaas_ident::{Budget, MemoryLimit};

const CALLS: usize = 200_000;

fn main() {
    let mut writer = SlabWriter::new(SlabGeometry::ONE, Verification::Waived).expect("a slab");
    let loaded = writer.load(sealed_copy(toolchain::hostile()).expect("a memfd")).expect("it loads");
    let slab = Slab::map(writer.finish()).expect("the window is free");
    let memory = MemoryLimit::from_bytes(4 << 20).expect("a multiple of a page");
    let mut executor = Executor::new(slab, memory, Clock::MONOTONIC).expect("an executor");
    let limits = Limits { budget: Budget::DEFAULT, memory };
    let mut frame = Vec::new();
    encode_request(&mut frame, "POST", "/", [], b"-").expect("a plain request");
    let watch = AtomicU64::new(0);
    let mut times: Vec<u128> = (0..CALLS)
        .map(|_| {
            let begin = Instant::now();
            executor.request()[..frame.len()].copy_from_slice(&frame);
            let status =
                executor.call(loaded.slot, frame.len(), limits, &watch).expect("resident").outcome().status;
            executor.settle();
            let spent = begin.elapsed().as_nanos();
            assert_eq!(status, Status::Ok);
            spent
        })
        .collect();
    times.sort_unstable();
    writeln!(std::io::stdout(), "{}", times[CALLS / 2]).expect("somebody listens");
}
