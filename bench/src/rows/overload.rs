//! Benign functions beside endless ones: arrivals at their own pace at 70 % load, once with every
//! hundredth call in an endless loop and once without, on the same arrivals.
//!
//! Latency counts from the planned arrival, so that nothing hides in a caller that waited.

use super::{Lane, Plan, alternate};
use crate::functions::{Form, Kind};
use crate::load::uniform;
use crate::report::{Bound, Row};
use crate::sides::mfaas::{BUDGET_US, OpenLoop, Planned, Served, Worker};
use crate::sides::{Kit, Side};
use crate::stats::{Quantiles, Spread};
use crate::sys::pin;

const ATTACKED: &str = "1 % endless";
const CLEAN: &str = "clean";
/// The paper's budget, in µs.
const ENDLESS_BUDGET_US: u64 = 93;
const ENDLESS_EVERY: u64 = 100;
/// Share of the worker's time that all calls of the attacked run take together.
const LOAD: f64 = 0.7;
/// Run time of a benign function. Well below the budget, well above the cost of a call.
const BENIGN_US: f64 = 10.0;
/// A quantile is taken of so many benign calls in a row, some 30 ms of them, and a round's figure is the
/// median of its windows: a machine that stands still for a moment spoils the window that it does so in.
const WINDOW_CALLS: usize = 2_000;
const EXTRA: &str = "benign p99.9 of a window above the clean run's";
const EXTRA_US_MAX: f64 = 2.0 * ENDLESS_BUDGET_US as f64 + 10.0;

/// Places of the two functions in the worker.
const BENIGN: u64 = 0;
const ENDLESS: u64 = 1;

/// The row.
pub(super) fn row(kit: &Kit, plan: &Plan) -> anyhow::Result<Row> {
    let mut row =
        Row::new("overload", "benign calls of 10 µs at 70 % load, with and without endless ones beside them");
    pin(kit.cores.worker)?;
    let benign = Kind::busy_micros(BENIGN_US, kit.tsc);
    pin(kit.cores.caller)?;
    let served = || {
        vec![
            Served { constants: benign.constants(BENIGN), budget_us: BUDGET_US },
            Served { constants: Kind::SPIN.constants(ENDLESS), budget_us: ENDLESS_BUDGET_US },
        ]
    };
    let mut calibrating = Worker::start(kit, Form::Hosted, served())?;
    let trial = plan.size(20_000, 200);
    let benign_us = calibrating.pipelined(trial, 1)?.as_secs_f64() * 1e6 / trial as f64;
    drop(calibrating);
    row.measure("worker's time for a benign call", "µs", vec![benign_us]);
    let calls = plan.size(20_000, 400);
    let lane = |row: &mut Row, name: &str, attacked: bool| {
        let mut number = 0;
        Lane::of(row, name, Worker::start(kit, Form::Hosted, served()), move |side| {
            number += 1;
            side.open_loop(&arrivals(kit, benign_us, calls, attacked, number), kit.tsc)
        })
    };
    let lanes = vec![lane(&mut row, ATTACKED, true), lane(&mut row, CLEAN, false)];
    let series = alternate(plan, &mut row, lanes);
    measures(&mut row, &series);
    Ok(row)
}

fn measures(row: &mut Row, series: &super::Series<OpenLoop>) {
    let quantiles = |name: &str, pick: fn(Quantiles) -> f64| {
        series.of(name, |round| pick(Quantiles::of(round.benign_us.iter().copied())))
    };
    let windows = |name: &str| series.of(name, |round| window_p999(&round.benign_us));
    for name in [ATTACKED, CLEAN] {
        row.measure(format!("{name}: benign p50"), "µs", quantiles(name, |quantiles| quantiles.p50));
        row.measure(format!("{name}: benign p99.9"), "µs", quantiles(name, |quantiles| quantiles.p999));
        row.measure(format!("{name}: benign p99.9 of a window"), "µs", windows(name));
    }
    let (attacked, clean) = (windows(ATTACKED), windows(CLEAN));
    let own = Spread::of(clean.iter().copied());
    let extra = attacked.iter().zip(clean).map(|(attacked, clean)| attacked - clean).collect();
    let extra = row.measure(EXTRA, "µs", extra);
    // Where the clean run alone varies by more than what is looked for, the difference is noise.
    let varies = own.p80 - own.p20;
    if varies > EXTRA_US_MAX {
        let why =
            anyhow::anyhow!("the clean run's own figure varies by {varies:.0} µs: the machine is too busy");
        row.missing(EXTRA, &why);
    } else {
        extra.aim(Bound::AtMost, EXTRA_US_MAX);
    }
    row.measure("endless calls ended in a round", "calls", series.of(ATTACKED, |round| round.ended as f64));
    let lost = series.of(ATTACKED, |round| round.lost as f64);
    let lost =
        lost.iter().chain(&series.of(CLEAN, |round| round.lost as f64)).fold(0.0, |sum, lost| sum + lost);
    row.measure("calls lost in all rounds", "calls", vec![lost]).aim(Bound::AtMost, 0.0);
}

/// The median of the p99.9 of each full window; of all calls where they fill none.
fn window_p999(benign_us: &[f64]) -> f64 {
    let window = WINDOW_CALLS.min(benign_us.len()).max(1);
    let windows = benign_us.chunks_exact(window);
    Spread::of(windows.map(|window| Quantiles::of(window.iter().copied()).p999)).median
}

/// Poisson arrivals, the same for both sides of a round.
fn arrivals(kit: &Kit, benign_us: f64, calls: u64, attacked: bool, round: u64) -> Vec<Planned> {
    let share = 1.0 / ENDLESS_EVERY as f64;
    let mean_us = benign_us * (1.0 - share) + ENDLESS_BUDGET_US as f64 * share;
    let apart_us = mean_us / LOAD;
    let (mut at_us, mut random) = (0.0, round);
    (0..calls)
        .map(|number| {
            at_us += -apart_us * (1.0 - uniform(&mut random)).ln();
            let endless = attacked && number % ENDLESS_EVERY == ENDLESS_EVERY / 2;
            let function = if endless { ENDLESS } else { BENIGN };
            Planned { at: kit.tsc.cycles(at_us), function, number, endless }
        })
        .collect()
}

#[cfg(test)]
mod tests;
