//! Calls of functions that were called before, at growing numbers of functions: how long one takes,
//! and how many a second one caller and one worker get through.

use super::{Lane, Plan, Series, alternate, single_calls};
use crate::functions::{Form, Kind};
use crate::report::{Bound, Row};
use crate::sides::bare::{Bare, Mode};
use crate::sides::mfaas::{Worker, equal};
use crate::sides::{Kit, Latency, Side};

const MFAAS: &str = "mfaas";
const BARE: &str = "bare ring";
const KEPT: &str = "dlopen kept";

/// Numbers of functions, and the aimed calls a second at each, in millions.
const SIZES: [(usize, f64); 3] = [(50, 4.0), (1_000, 2.0), (5_000, 1.0)];
const SIZES_QUICK: [(usize, f64); 2] = [(5, 4.0), (20, 2.0)];
/// At the first size, against the bare ring.
const BARE_P50_MAX: f64 = 2.0;
const BARE_P99_MAX: f64 = 3.0;

fn sizes(plan: &Plan) -> &'static [(usize, f64)] {
    if plan.quick { &SIZES_QUICK } else { &SIZES }
}

/// A warm call.
pub(super) fn warm(kit: &Kit, plan: &Plan) -> anyhow::Result<Row> {
    let mut row = Row::new("warm", "a warm call, sent until answered, 64 B");
    for (index, (size, _)) in sizes(plan).iter().enumerate() {
        let calls = (plan.size(20_000, 200), *size as u64);
        let bare = Bare::start(kit, Mode::Plain, Kind::EMPTY, *size);
        let kept = Bare::start(kit, Mode::Kept, Kind::EMPTY, *size);
        let mfaas = Worker::start(kit, Form::Hosted, equal(Kind::EMPTY, *size));
        let lanes = vec![
            single_calls(kit, &mut row, BARE, bare, calls),
            single_calls(kit, &mut row, KEPT, kept, calls),
            single_calls(kit, &mut row, MFAAS, mfaas, calls),
        ];
        let series = alternate(plan, &mut row, lanes);
        warm_measures(&mut row, &series, *size, index == 0);
    }
    Ok(row)
}

fn warm_measures(row: &mut Row, series: &Series<Latency>, size: usize, first: bool) {
    let p50 = |name: &str| series.of(name, |latency| latency.whole.p50);
    let p99 = |name: &str| series.of(name, |latency| latency.whole.p99);
    for name in [MFAAS, BARE, KEPT] {
        row.measure(format!("{name} p50, {size} functions"), "µs", p50(name));
        row.measure(format!("{name} p99, {size} functions"), "µs", p99(name));
    }
    row.measure(
        format!("{MFAAS} p99.9, {size} functions"),
        "µs",
        series.of(MFAAS, |latency| latency.whole.p999),
    );
    let to_bare = row.ratio(format!("{MFAAS} / {BARE} p50, {size} functions"), &p50(MFAAS), &p50(BARE));
    if first {
        to_bare.aim(Bound::AtMost, BARE_P50_MAX);
    }
    let to_bare = row.ratio(format!("{MFAAS} / {BARE} p99, {size} functions"), &p99(MFAAS), &p99(BARE));
    if first {
        to_bare.aim(Bound::AtMost, BARE_P99_MAX);
    }
    let to_kept = row.ratio(format!("{MFAAS} / {KEPT} p50, {size} functions"), &p50(MFAAS), &p50(KEPT));
    to_kept.aim(Bound::Below, 1.0);
    let to_kept = row.ratio(format!("{MFAAS} / {KEPT} p99, {size} functions"), &p99(MFAAS), &p99(KEPT));
    to_kept.aim(Bound::Below, 1.0);
}

/// Warm calls a second.
pub(super) fn throughput(kit: &Kit, plan: &Plan) -> anyhow::Result<Row> {
    let mut row = Row::new("throughput", "warm calls a second, one caller and one worker, pipelined, 64 B");
    for (size, aimed) in sizes(plan) {
        let calls = plan.size(200_000, 500);
        let bare = Bare::start(kit, Mode::Plain, Kind::EMPTY, *size);
        let kept = Bare::start(kit, Mode::Kept, Kind::EMPTY, *size);
        let mfaas = Worker::start(kit, Form::Hosted, equal(Kind::EMPTY, *size));
        let lanes = vec![
            Lane::of(&mut row, BARE, bare, move |side| rate(side, calls, *size)),
            Lane::of(&mut row, KEPT, kept, move |side| rate(side, calls, *size)),
            Lane::of(&mut row, MFAAS, mfaas, move |side| rate(side, calls, *size)),
        ];
        let series = alternate(plan, &mut row, lanes);
        let of = |name: &str| series.of(name, |rate| *rate);
        row.measure(format!("{MFAAS}, {size} functions"), "M/s", of(MFAAS)).aim(Bound::AtLeast, *aimed);
        row.measure(format!("{BARE}, {size} functions"), "M/s", of(BARE));
        row.measure(format!("{KEPT}, {size} functions"), "M/s", of(KEPT));
        row.ratio(format!("{MFAAS} / {BARE}, {size} functions"), &of(MFAAS), &of(BARE));
        row.ratio(format!("{MFAAS} / {KEPT}, {size} functions"), &of(MFAAS), &of(KEPT));
    }
    Ok(row)
}

/// Calls a second of one round, in millions.
pub(super) fn rate(side: &mut dyn Side, calls: u64, functions: usize) -> anyhow::Result<f64> {
    side.wake()?;
    let took = side.pipelined(calls, functions as u64);
    side.rest()?;
    Ok(calls as f64 / took?.as_secs_f64() / 1e6)
}
