//! What a resident function costs in memory, each having been called once: what the machine gives
//! for it, in the loader and the worker together and every page once; and of that what is resident
//! in the process that runs it, and the part that this process shares with nobody.
//!
//! The private part is what a second worker would cost again; the rest is the image, once for the
//! machine. It is measured once: the kernel's counters do not jitter as clocks do.

use std::time::Duration;

use anyhow::Context as _;

use super::Plan;
use crate::functions::{Form, Kind};
use crate::machine::field;
use crate::report::{Bound, Row};
use crate::sides::bare::{Bare, Mode};
use crate::sides::mfaas::{Worker, equal};
use crate::sides::{Kit, Side};

/// Distinct functions with std, and without.
const HOSTED: usize = 5_000;
const SMALLEST: usize = 100_000;
/// What dlopen of one process survives: each library takes four or five of its 65,530 mappings.
const KEPT: usize = 5_000;
/// How long functions are loaded; what is loaded by then has to do.
const LOAD_MAX: Duration = Duration::from_secs(180);
/// Above the file, in KiB.
const HOSTED_EXTRA_KIB_MAX: f64 = 16.0;
const SMALLEST_EXTRA_KIB_MAX: f64 = 4.0;

/// Resident memory of a process or, of one function, a share of it, in KiB.
struct Cost {
    machine_kib: f64,
    process_kib: f64,
    private_kib: f64,
}

/// What was found for one form of function.
struct Taken {
    /// Of one function.
    cost: Cost,
    /// Functions it was taken with.
    count: usize,
    protections: String,
}

/// The row.
pub(super) fn row(kit: &Kit, plan: &Plan) -> anyhow::Result<Row> {
    let mut row = Row::new("memory", "memory of one resident function, every one called once");
    let images = [
        ("mfaas, std", Form::Hosted, plan.size(HOSTED, 40), HOSTED_EXTRA_KIB_MAX),
        ("mfaas, no std", Form::Smallest, plan.size(SMALLEST, 40), SMALLEST_EXTRA_KIB_MAX),
    ];
    for (name, form, wanted, extra_kib) in images {
        let file_kib = kit.functions.file_bytes(form) as f64 / 1024.0;
        let start = |count| {
            let wanted = equal(Kind::EMPTY, count);
            let worker = Worker::start_with_most(kit, form, wanted, LOAD_MAX)?;
            let count = worker.functions();
            Ok((worker, count))
        };
        let cost = cost(start, wanted);
        if let Some(count) = cost.as_ref().ok().map(|cost| cost.count).filter(|count| *count < wanted) {
            let why = anyhow::anyhow!(
                "{wanted} functions; {count} were loaded in {} s, and it was taken with them",
                LOAD_MAX.as_secs()
            );
            row.missing(name, &why);
        }
        report(&mut row, name, cost, file_kib, Some(extra_kib));
    }
    let file_kib = kit.functions.file_bytes(Form::Library) as f64 / 1024.0;
    let start = |count| Ok((Bare::start(kit, Mode::Kept, Kind::EMPTY, count)?, count));
    report(&mut row, "dlopen kept, std", cost(start, plan.size(KEPT, 40)), file_kib, None);
    Ok(row)
}

fn report(row: &mut Row, name: &str, cost: anyhow::Result<Taken>, file_kib: f64, extra_kib: Option<f64>) {
    match cost {
        Ok(Taken { cost, count, protections }) => {
            row.side(name, protections);
            row.measure(format!("{name}: file"), "KiB", vec![file_kib]);
            let resident = row.measure(
                format!("{name}: loader and worker together, {count} functions"),
                "KiB",
                vec![cost.machine_kib],
            );
            if let Some(extra_kib) = extra_kib {
                resident.aim(Bound::AtMost, file_kib + extra_kib);
            }
            row.measure(
                format!("{name}: resident in the process, {count} functions"),
                "KiB",
                vec![cost.process_kib],
            );
            row.measure(format!("{name}: private, {count} functions"), "KiB", vec![cost.private_kib]);
        }
        Err(error) => row.missing(name, &error),
    }
}

/// The difference between a process with many functions and one with a single one. `start` starts a
/// side with as many functions as it is told, or as many as it can, and says how many.
fn cost<S: Side>(
    start: impl Fn(usize) -> anyhow::Result<(S, usize)>,
    wanted: usize,
) -> anyhow::Result<Taken> {
    let one = called(&mut start(1)?.0, 1)?;
    let (mut side, count) = start(wanted)?;
    let many = called(&mut side, count)?;
    let more = count.saturating_sub(1).max(1) as f64;
    let cost = Cost {
        machine_kib: (many.machine_kib - one.machine_kib) / more,
        process_kib: (many.process_kib - one.process_kib) / more,
        private_kib: (many.private_kib - one.private_kib) / more,
    };
    Ok(Taken { cost, count, protections: side.protections() })
}

/// Resident memory of the side's process after each function was called.
fn called(side: &mut dyn Side, count: usize) -> anyhow::Result<Cost> {
    side.wake()?;
    let done = (0..count as u64).try_for_each(|function| side.call(function).map(drop));
    side.rest()?;
    done?;
    let process = side.process().context("a side without a process")?;
    let (process_kib, private_kib) = (resident(process, "VmRSS")?, resident(process, "RssAnon")?);
    let machine_kib = match side.common_kib() {
        Some(common_kib) => common_kib + private_kib + resident(std::process::id(), "RssAnon")?,
        None => process_kib,
    };
    Ok(Cost { machine_kib, process_kib, private_kib })
}

/// One of the kernel's counters about a process, in KiB.
fn resident(process: u32, name: &str) -> anyhow::Result<f64> {
    // Readable for everybody, unlike the mappings of a process that lets nobody look into it.
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).context("read its memory")?;
    let value = field(&status, name).and_then(|value| value.split_whitespace().next());
    let kib = value.and_then(|number| number.parse().ok());
    kib.with_context(|| format!("the kernel does not say {name}"))
}
