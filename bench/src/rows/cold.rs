//! The first call of a function: of an image that is resident but was never run, of one that is only a
//! file in the page cache, and of one that is only in the sealed memory in which a node keeps it;
//! loading included.

use super::{Lane, Plan, alternate};
use crate::functions::{Files, Form, Kind};
use crate::report::{Bound, Row};
use crate::sides::bare::{Bare, Mode};
use crate::sides::mfaas::{BUDGET_US, EXECUTOR_PROTECTIONS, InProcess, LOOK_US, Served, Worker, equal};
use crate::sides::{Kit, Latency, Side, Timing};

const RESIDENT: &str = "mfaas, resident image";
const FILE: &str = "mfaas, image in the page cache";
const KEPT: &str = "mfaas, image in a node's sealed memory";
const KEPT_NEW: &str = "mfaas, the same when the loader sees it first and hashes it";
const DLOPEN: &str = "dlopen per request";

/// First calls of a resident image, in µs.
const RESIDENT_P50_MAX: f64 = 4.0;
const RESIDENT_P99_MAX: f64 = 10.0;
/// An image in the page cache against dlopen per request.
const FILE_RATIO_MAX: f64 = 2.0;

/// The row.
pub(super) fn row(kit: &Kit, plan: &Plan) -> anyhow::Result<Row> {
    let mut row = Row::new("cold", "first call of a function, sent until answered, loading included");
    let count = plan.size(1_000, 20);
    let images = kit.functions.files(Form::Hosted, Kind::EMPTY, count)?;
    // What the lanes below are made of anew in every round.
    row.side(RESIDENT, Worker::start(kit, Form::Hosted, equal(Kind::EMPTY, 1))?.protections());
    row.side(FILE, EXECUTOR_PROTECTIONS.to_owned());
    row.side(KEPT, EXECUTOR_PROTECTIONS.to_owned());
    row.side(KEPT_NEW, EXECUTOR_PROTECTIONS.to_owned());
    let lanes = vec![
        Some(Lane::new(RESIDENT, || resident(kit, count))),
        Some(Lane::new(FILE, || from_files(kit, &images))),
        Some(Lane::new(KEPT, || from_memory(kit, &images, true))),
        Some(Lane::new(KEPT_NEW, || from_memory(kit, &images, false))),
        Lane::of(&mut row, DLOPEN, Bare::start(kit, Mode::PerRequest, Kind::EMPTY, count), |side| {
            each_once(kit, side, count)
        }),
    ];
    let series = alternate(plan, &mut row, lanes);
    let p50 = |name: &str| series.of(name, |latency| latency.whole.p50);
    let p99 = |name: &str| series.of(name, |latency| latency.whole.p99);
    row.measure(format!("{RESIDENT} p50"), "µs", p50(RESIDENT)).aim(Bound::AtMost, RESIDENT_P50_MAX);
    row.measure(format!("{RESIDENT} p99"), "µs", p99(RESIDENT)).aim(Bound::AtMost, RESIDENT_P99_MAX);
    for name in [FILE, KEPT, KEPT_NEW, DLOPEN] {
        row.measure(format!("{name} p50"), "µs", p50(name));
        row.measure(format!("{name} p99"), "µs", p99(name));
    }
    row.ratio(format!("{FILE} / {DLOPEN} p50"), &p50(FILE), &p50(DLOPEN)).aim(Bound::AtMost, FILE_RATIO_MAX);
    for name in [KEPT, KEPT_NEW] {
        row.ratio(format!("{name} / {DLOPEN} p50"), &p50(name), &p50(DLOPEN));
    }
    row.ratio(format!("{RESIDENT} / {DLOPEN} p50"), &p50(RESIDENT), &p50(DLOPEN));
    Ok(row)
}

/// First calls of every function of a worker that was just started.
pub(super) fn resident(kit: &Kit, count: usize) -> anyhow::Result<Latency> {
    let mut worker = Worker::start(kit, Form::Hosted, equal(Kind::EMPTY, count))?;
    each_once(kit, &mut worker, count)
}

/// Calls function 0 until the path to it is warm, then every other function once.
pub(super) fn each_once(kit: &Kit, side: &mut dyn Side, count: usize) -> anyhow::Result<Latency> {
    side.wake()?;
    let warmed = (0..10).try_for_each(|_| side.call(0).map(drop));
    let taken: anyhow::Result<Vec<Timing>> =
        warmed.and_then(|()| (1..count as u64).map(|function| side.call(function)).collect());
    side.rest()?;
    Ok(Latency::of(&taken?, kit.tsc))
}

/// Loads and calls every file once, in an executor of this thread on the worker's core.
pub(super) fn from_files(kit: &Kit, images: &Files) -> anyhow::Result<Latency> {
    in_an_executor(kit, |executor| {
        let mut call = |id: usize| executor.first_call(&images.path(id), served(id));
        call(0)?;
        (1..images.count()).map(call).collect()
    })
}

/// Images that are kept at once: more than caches hold, fewer than a process may have descriptors.
const KEPT_MAX: usize = 256;

/// Loads and calls every image once out of sealed memory that a node keeps, which the loader has
/// hashed before if it is `known`.
fn from_memory(kit: &Kit, images: &Files, known: bool) -> anyhow::Result<Latency> {
    in_an_executor(kit, |executor| {
        let mut taken = Vec::with_capacity(images.count());
        let ids: Vec<_> = (0..images.count()).collect();
        for ids in ids.chunks(KEPT_MAX) {
            let kept: anyhow::Result<Vec<_>> =
                ids.iter().map(|id| executor.keep(&images.path(*id), known, served(*id))).collect();
            for kept in kept? {
                taken.push(executor.first_call_of_kept(kept)?);
            }
        }
        taken.remove(0);
        Ok(taken)
    })
}

fn served(id: usize) -> Served {
    Served { constants: Kind::EMPTY.constants(id as u64), budget_us: BUDGET_US }
}

/// First calls in an executor of this thread on the worker's core.
fn in_an_executor(
    kit: &Kit,
    take: impl FnOnce(&mut InProcess) -> anyhow::Result<Vec<Timing>>,
) -> anyhow::Result<Latency> {
    let mut executor = InProcess::new()?;
    executor.wake(kit.cores, LOOK_US)?;
    let taken = take(&mut executor);
    executor.rest(kit.cores)?;
    Ok(Latency::of(&taken?, kit.tsc))
}
