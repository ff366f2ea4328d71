//! What it costs that code is verified: calls beside the same function as the compiler links it, its size,
//! the verification itself, and how many functions a window holds.

use std::time::Instant;

use anyhow::Context as _;
use mfaas_executor::{ExecutorError, SlabGeometry, SlabWriter, Verification, sealed_copy};
use mfaas_inspect::verify::verify_image;

use super::{Plan, Series, alternate, single_calls};
use crate::functions::{Form, Kind};
use crate::report::{Bound, Row};
use crate::sides::mfaas::{Worker, equal};
use crate::sides::{Kit, Latency};

const VERIFIED: &str = "mfaas";
const AS_LINKED: &str = "mfaas, code as the compiler links it";

/// Numbers of functions, and how much longer a call may take with verified code.
const SIZES: [(usize, f64); 2] = [(50, 1.05), (5_000, 1.10)];
const SIZES_QUICK: [(usize, f64); 2] = [(5, 1.05), (20, 1.10)];
/// Code of an image, against what it was rewritten from.
const CODE_MAX: f64 = 1.4;
/// Time of a verification, in µs per KiB of code.
const VERIFICATION_MAX: f64 = 10.0;
/// Verifications in a round.
const VERIFICATIONS: u32 = 100;

/// The row.
pub(super) fn row(kit: &Kit, plan: &Plan) -> anyhow::Result<Row> {
    let mut row = Row::new("verified", "verified code beside the same function as the compiler links it");
    for (size, limit) in plan.size(SIZES, SIZES_QUICK) {
        let calls = (plan.size(20_000, 200), size as u64);
        let start = |form| Worker::start(kit, form, equal(Kind::EMPTY, size));
        let lanes = vec![
            single_calls(kit, &mut row, VERIFIED, start(Form::Hosted), calls),
            single_calls(kit, &mut row, AS_LINKED, start(Form::AsLinked), calls),
        ];
        let series = alternate(plan, &mut row, lanes);
        calls_of(&mut row, &series, size, limit);
    }
    code(kit, plan, &mut row)?;
    capacity(kit, plan, &mut row)?;
    Ok(row)
}

fn calls_of(row: &mut Row, series: &Series<Latency>, size: usize, limit: f64) {
    let p50 = |name: &str| series.of(name, |latency| latency.whole.p50);
    let p99 = |name: &str| series.of(name, |latency| latency.whole.p99);
    for name in [VERIFIED, AS_LINKED] {
        row.measure(format!("{name} p50, {size} functions"), "µs", p50(name));
    }
    let what = format!("{VERIFIED} / as linked p50, {size} functions");
    row.ratio(what, &p50(VERIFIED), &p50(AS_LINKED)).aim(Bound::AtMost, limit);
    row.ratio(format!("{VERIFIED} / as linked p99, {size} functions"), &p99(VERIFIED), &p99(AS_LINKED));
}

/// Size of the code, and time of its verification.
fn code(kit: &Kit, plan: &Plan, row: &mut Row) -> anyhow::Result<()> {
    let of = |form| kit.functions.file(form, &Kind::EMPTY.constants(0));
    let (verified, linked) = (of(Form::Hosted), of(Form::AsLinked));
    let bytes = verify_image(&verified).context("verify the function")?;
    let layout = mfaas_inspect::layout(&linked).context("read the function as it was linked")?;
    let executable = layout.segments.iter().filter(|segment| segment.access.execute);
    let linked_bytes: u64 = executable.map(|segment| segment.file_size).sum();
    let ratio = bytes as f64 / linked_bytes as f64;
    row.measure("bytes of code / as linked", "", vec![ratio]).aim(Bound::AtMost, CODE_MAX);
    let mut times = Vec::new();
    for _ in 0..plan.rounds {
        let begin = Instant::now();
        for _ in 0..VERIFICATIONS {
            verify_image(&verified).context("verify the function")?;
        }
        let us = begin.elapsed().as_secs_f64() * 1e6 / f64::from(VERIFICATIONS);
        times.push(us / (bytes as f64 / 1024.0));
    }
    row.measure("verification of a KiB of code", "µs", times).aim(Bound::AtMost, VERIFICATION_MAX);
    Ok(())
}

/// Loads one function after the other until its window is full.
fn capacity(kit: &Kit, plan: &Plan, row: &mut Row) -> anyhow::Result<()> {
    let geometry = plan.size(SlabGeometry::NODE, SlabGeometry { bank_bytes: 16 << 20, ..SlabGeometry::NODE });
    let mut slab = SlabWriter::new(geometry, Verification::Required)?;
    let begin = Instant::now();
    let mut count = 0_u64;
    let bytes = loop {
        let image = sealed_copy(&kit.functions.file(Form::Hosted, &Kind::EMPTY.constants(count)))?;
        match slab.load(image) {
            Ok(_) => count += 1,
            Err(ExecutorError::Full) => break slab.resident_bytes(),
            Err(error) => return Err(error).context("fill a window"),
        }
    };
    let each = count.max(1) as f64;
    let mib = geometry.bank_bytes >> 20;
    row.measure(format!("a window of {mib} MiB"), "functions", vec![count as f64]);
    row.measure("KiB of each bank by function", "KiB", vec![bytes as f64 / 1024.0 / each]);
    let us = begin.elapsed().as_secs_f64() * 1e6 / each;
    row.measure("loading one, verification and all", "µs", vec![us]);
    Ok(())
}
