//! A function that does not end: how long after its deadline its code is left, and how long until
//! the next call is answered. Beside it a bare signal from another core, which no
//! preemption by signal can be faster than.

use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};

use super::{Lane, Plan, alternate};
use crate::functions::{Form, Kind};
use crate::report::{Bound, Row};
use crate::sides::Kit;
use crate::sides::mfaas::{BUDGET_US, EXECUTOR_PROTECTIONS, InProcess, Kill, LOOK_US, Served};
use crate::stats::Quantiles;
use crate::sys::{pin, stamp, timer};

const MFAAS: &str = "mfaas, in the executor";
const SIGNAL: &str = "bare signal from another core";
/// The paper's budget, in µs.
const ENDLESS_BUDGET_US: u64 = 93;
const HANDLER_US_MAX: f64 = 4.0;
const NEXT_US_MAX: f64 = 1.5;

/// One round: deadline until left, and left until the next call runs.
struct Round {
    overshoot: Quantiles,
    next: Quantiles,
}

/// The row.
pub(super) fn row(kit: &Kit, plan: &Plan) -> anyhow::Result<Row> {
    let mut row = Row::new(
        "kill",
        "an endless function: deadline until its code is left, and left until the next runs",
    );
    let calls = plan.size(2_000, 20);
    row.side(MFAAS, EXECUTOR_PROTECTIONS.to_owned());
    row.side(SIGNAL, "none: a handler that stamps and returns".to_owned());
    let lanes =
        vec![Some(Lane::new(MFAAS, || kills(kit, calls))), Some(Lane::new(SIGNAL, || signals(kit, calls)))];
    let series = alternate(plan, &mut row, lanes);
    let overshoot = series.of(MFAAS, |round| round.overshoot.p50);
    row.measure("deadline until left p50", "µs", overshoot.clone()).aim(Bound::AtMost, HANDLER_US_MAX);
    row.measure("deadline until left p99", "µs", series.of(MFAAS, |round| round.overshoot.p99));
    let next = series.of(MFAAS, |round| round.next.p50);
    row.measure("left until the next runs p50", "µs", next).aim(Bound::AtMost, NEXT_US_MAX);
    row.measure("left until the next runs p99", "µs", series.of(MFAAS, |round| round.next.p99));
    let signal = series.of(SIGNAL, |round| round.overshoot.p50);
    row.measure(format!("{SIGNAL} p50"), "µs", signal.clone());
    row.ratio(format!("deadline until left / {SIGNAL} p50"), &overshoot, &signal);
    Ok(row)
}

fn kills(kit: &Kit, calls: usize) -> anyhow::Result<Round> {
    let mut executor = InProcess::new()?;
    executor.wake(kit.cores, LOOK_US)?;
    let taken = kill_each(kit, &mut executor, calls);
    executor.rest(kit.cores)?;
    let taken = taken?;
    Ok(Round {
        overshoot: Quantiles::of(taken.iter().map(|kill| kill.overshoot_us)),
        next: Quantiles::of(taken.iter().map(|kill| kill.next_us)),
    })
}

fn kill_each(kit: &Kit, executor: &mut InProcess, calls: usize) -> anyhow::Result<Vec<Kill>> {
    let mut load = |kind: Kind, budget_us| {
        let served = Served { constants: kind.constants(0), budget_us };
        executor.load(&kit.functions.file(Form::Hosted, &served.constants), served)
    };
    let (endless, next) = (load(Kind::SPIN, ENDLESS_BUDGET_US)?, load(Kind::EMPTY, BUDGET_US)?);
    (0..calls).map(|_| executor.kill(&endless, &next, kit.tsc)).collect()
}

fn signals(kit: &Kit, calls: usize) -> anyhow::Result<Round> {
    let (stop, thread) = (AtomicBool::new(false), AtomicI32::new(0));
    let core = kit.cores.worker;
    timer::watch()?;
    let taken = std::thread::scope(|scope| {
        let victim = scope.spawn(|| spin(core, &thread, &stop));
        while thread.load(Ordering::Acquire) == 0 && !victim.is_finished() {
            std::hint::spin_loop();
        }
        let taken: anyhow::Result<Vec<u64>> =
            (0..calls).map(|_| signal(thread.load(Ordering::Acquire))).collect();
        stop.store(true, Ordering::Release);
        victim.join().map_err(|_| anyhow::anyhow!("the interrupted thread panicked"))??;
        taken
    })?;
    let overshoot = Quantiles::of(taken.iter().map(|cycles| kit.tsc.micros(*cycles)));
    Ok(Round { overshoot, next: Quantiles::of([]) })
}

fn spin(core: usize, thread: &AtomicI32, stop: &AtomicBool) -> anyhow::Result<()> {
    // Said even if the core cannot be had, so that nobody waits for it.
    let pinned = pin(core);
    thread.store(timer::this_thread(), Ordering::Release);
    pinned?;
    while !stop.load(Ordering::Acquire) {
        std::hint::spin_loop();
    }
    Ok(())
}

/// Cycles from before the system call until the first instruction of the handler.
fn signal(thread: i32) -> anyhow::Result<u64> {
    timer::noticed_at();
    let sent = stamp();
    timer::poke(thread, timer::NOTICED)?;
    loop {
        match timer::noticed_at() {
            0 => std::hint::spin_loop(),
            entered => return Ok(entered.saturating_sub(sent)),
        }
    }
}
