//! What it costs to verify code: `cargo bench -p mfaas-inspect --bench verify`.
//!
//! The code is that of two functions, as the rewriter makes it (`fuzz/corpus/machine_code`). Printed are the first time in this
//! process, which builds the disassembler's tables, and the median and the 20th to 80th percentile of the others, in µs per KiB.

#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a benchmark prints, and ends when it cannot go on"
)]

use std::path::Path;
use std::time::Instant;

use mfaas_inspect::verify::{CodeSegment, verify};

/// How often each is verified, in turns.
const ROUNDS: usize = 500;

fn main() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/machine_code");
    let codes = ["code-of-hello", "code-of-crc-tables"]
        .map(|name| (name, std::fs::read(directory.join(name)).unwrap()));
    let mut times = [(); 2].map(|()| Vec::with_capacity(ROUNDS));
    for _ in 0..ROUNDS {
        for ((_, bytes), times) in codes.iter().zip(&mut times) {
            let begin = Instant::now();
            // The data of both lies within a megabyte behind the code, and one of the writable bank.
            let image = [0x1000..0x10_1000, 0x4000_0000..0x4010_0000];
            verify(CodeSegment { bytes, address: 0x1000, image: &image }).unwrap();
            times.push(begin.elapsed().as_secs_f64() * 1e6 / (bytes.len() as f64 / 1024.0));
        }
    }
    for ((name, bytes), times) in codes.iter().zip(&mut times) {
        let first = times[0];
        times.sort_by(f64::total_cmp);
        let at = |part: f64| times[(part * (times.len() - 1) as f64) as usize];
        let (median, low, high) = (at(0.5), at(0.2), at(0.8));
        println!(
            "{name}, {} bytes: {median:.2} µs/KiB ({low:.2} to {high:.2}), the first {first:.1}",
            bytes.len()
        );
    }
}
