//! What preemption costs the preempted: SHA-512 over 64 B, by CPU time, against the same machine
//! code without any preemption. A periodic signal by its quantum, as in the paper's Figure 4, and
//! the executor, whose deadlines are looked at that often from the other core: a function that keeps to
//! its budget is never interrupted.
//!
//! All sides run the same compiled function, so that nothing but the preemption differs.

use std::cell::RefCell;

use anyhow::Context as _;

use super::{Lane, Plan, alternate};
use crate::function::ANSWER_BYTES;
use crate::functions::{Form, Kind, glanced, request};
use crate::report::{Bound, Row};
use crate::sides::mfaas::{EXECUTOR_PROTECTIONS, InExecutor};
use crate::sides::{Kit, Side as _};
use crate::sys::library::{Library, c_path};
use crate::sys::timer::Ticking;
use crate::sys::{pin, thread_cpu_seconds};

const MFAAS: &str = "mfaas, in the executor";
const NONE: &str = "no preemption";
/// Quanta of the periodic signal, and times between two looks at a deadline, in µs.
const QUANTA_US: [u32; 5] = [5, 10, 20, 50, 100];
/// Digests of one call: some hundred µs, so that entry and reset are no part of the figure.
const DIGESTS: u64 = 500;
/// The resolution that the aim is about, in µs.
const AIMED_US: u32 = 20;
const KEPT_MIN: f64 = 0.99;
/// A quantum that lets nothing run is given up after so many times the CPU time of a round; what
/// ran until then is its figure.
const WALL_PER_CPU_MAX: f64 = 3.0;

/// The row.
pub(super) fn row(kit: &Kit, plan: &Plan) -> anyhow::Result<Row> {
    let mut row = Row::new(
        "quantum",
        "SHA-512 of 64 B by CPU time under preemption, against none, the same machine code",
    );
    let hashing = Kind { rounds: DIGESTS, ..Kind::HASH };
    let files = kit.functions.files(Form::Library, hashing, 1)?;
    let library = Library::open(&c_path(&files.path(0))?)?;
    let seconds = plan.size(0.1, 0.005);
    row.side(NONE, "none: a plain call".to_owned());
    row.side("SIGALRM", "a periodic signal whose handler counts and returns".to_owned());
    let plain = |quantum: Option<u32>| {
        let (library, cores) = (&library, kit.cores);
        let wall_max = kit.tsc.cycles(seconds * 1e6 * WALL_PER_CPU_MAX);
        move || {
            pin(cores.worker)?;
            // Counted from before the first tick: a quantum may let nothing run from then on.
            let begin = thread_cpu_seconds();
            let ticking = quantum.map(|quantum| Ticking::every(quantum, wall_max)).transpose()?;
            let mut number = 0;
            let rate = rate(begin, seconds, || {
                number += 1;
                plain_call(library, hashing, number)
            });
            drop(ticking);
            pin(cores.caller)?;
            rate
        }
    };
    // One executor in a process: all its lanes share it.
    let in_executor = RefCell::new(InExecutor::new(kit, hashing)?);
    let mut lanes = vec![Some(Lane::new(NONE, plain(None)))];
    lanes.extend(QUANTA_US.map(|quantum| Some(Lane::new(signal(quantum), plain(Some(quantum))))));
    for quantum in QUANTA_US {
        let in_executor = &in_executor;
        row.side(&watched(quantum), EXECUTOR_PROTECTIONS.to_owned());
        lanes.push(Some(Lane::new(watched(quantum), move || {
            let mut in_executor = in_executor.borrow_mut();
            in_executor.wake_looking(u64::from(quantum))?;
            let rate = rate(thread_cpu_seconds(), seconds, || in_executor.glance());
            in_executor.rest()?;
            rate
        })));
    }
    let series = alternate(plan, &mut row, lanes);
    let of = |name: &str| series.of(name, |rate| *rate);
    row.measure(NONE, "M/s", of(NONE));
    for quantum in QUANTA_US {
        let kept = row.ratio(format!("{} / {NONE}", watched(quantum)), &of(&watched(quantum)), &of(NONE));
        if quantum == AIMED_US {
            kept.aim(Bound::AtLeast, KEPT_MIN);
        }
    }
    for quantum in QUANTA_US {
        row.ratio(format!("{} / {NONE}", signal(quantum)), &of(&signal(quantum)), &of(NONE));
    }
    Ok(row)
}

fn watched(quantum: u32) -> String {
    format!("{MFAAS}, deadline looked at every {quantum} µs")
}

fn signal(quantum: u32) -> String {
    format!("SIGALRM every {quantum} µs")
}

fn plain_call(library: &Library, kind: Kind, number: u64) -> anyhow::Result<()> {
    let request = request(number);
    let mut answer = [0; ANSWER_BYTES];
    let bytes = library.call(&request, &mut answer);
    let answer = answer.get(..bytes).context("an answer that is too long")?;
    glanced(number, &kind.constants(0), &request, answer).map(drop)
}

/// Digests for each second of CPU time of this thread since `begin`, in millions.
fn rate(begin: f64, seconds: f64, mut call: impl FnMut() -> anyhow::Result<()>) -> anyhow::Result<f64> {
    let mut calls = 0u64;
    loop {
        call()?;
        calls += 1;
        let spent = thread_cpu_seconds() - begin;
        if spent >= seconds {
            return Ok((calls * DIGESTS) as f64 / spent / 1e6);
        }
    }
}
