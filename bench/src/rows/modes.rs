//! Latency by mode, warm and cold: the paper's Figure 2, with mfaas and wasmtime beside its modes.
//! Sent until answered; for wasmtime without any queue.

use std::time::Duration;

use super::{Lane, Measured, Plan, Series, alternate, cold, single_calls};
use crate::functions::{Form, Kind};
use crate::report::{Figures, ModeFigure, Row};
use crate::sides::bare::{Bare, Mode};
use crate::sides::mfaas::{Worker, equal};
use crate::sides::process::{PerRequest, Woken};
use crate::sides::{Kit, Latency, Side as _, Timing, latency, wasm};
use crate::stats::{Quantiles, Spread};

/// The modes in the order of the figure: name, and whether its code is ready before the call.
const MODES: [(&str, bool); 10] = [
    ("bare ring, no function", true),
    ("mfaas", true),
    ("mfaas, worker asleep", true),
    ("mfaas, first call, resident", false),
    ("mfaas, first call, page cache", false),
    ("dlopen kept", true),
    ("dlopen per request", false),
    ("process woken by UDP", true),
    ("fork and exec per request", false),
    ("wasmtime, fresh instance", true),
];

/// Functions of each mode that has more than one.
const FUNCTIONS: usize = 50;
/// Long enough for a worker to go to sleep.
const PAUSE: Duration = Duration::from_millis(1);

/// The row, and the figure's bars.
pub(super) fn row(kit: &Kit, plan: &Plan) -> anyhow::Result<Measured> {
    let mut row = Row::new("modes", "latency of one call by mode");
    let functions = plan.size(FUNCTIONS, 5);
    let (many, few) = (plan.size(5_000, 100), plan.size(100, 5));
    let images = kit.functions.files(Form::Hosted, Kind::EMPTY, functions)?;
    let count = functions as u64;
    let name = |index: usize| MODES[index].0;
    let bare = |mode| Bare::start(kit, mode, Kind::EMPTY, functions);
    let worker = || Worker::start(kit, Form::Hosted, equal(Kind::EMPTY, functions));
    let lanes = vec![
        single_calls(kit, &mut row, name(0), bare(Mode::Plain), (many, count)),
        single_calls(kit, &mut row, name(1), worker(), (many, count)),
        Lane::of(&mut row, name(2), worker(), move |side| asleep(kit, side, few)),
        Some(Lane::new(name(3), || cold::resident(kit, functions))),
        Some(Lane::new(name(4), || cold::from_files(kit, &images))),
        single_calls(kit, &mut row, name(5), bare(Mode::Kept), (many, count)),
        single_calls(kit, &mut row, name(6), bare(Mode::PerRequest), (few * 5, count)),
        single_calls(kit, &mut row, name(7), Woken::start(kit, Kind::EMPTY), (many, 1)),
        single_calls(kit, &mut row, name(8), PerRequest::new(kit, Kind::EMPTY), (few, 1)),
        fresh(kit, &mut row, name(9), many),
    ];
    let series = alternate(plan, &mut row, lanes);
    let figures = figures(&series);
    for figure in &figures {
        let of = |pick: fn(Quantiles) -> f64| series.of(&figure.mode, |latency| pick(latency.whole));
        row.measure(format!("{} p50", figure.mode), "µs", of(|quantiles| quantiles.p50));
        row.measure(format!("{} p99", figure.mode), "µs", of(|quantiles| quantiles.p99));
    }
    Ok((row, Figures { modes: figures, ..Figures::default() }))
}

fn fresh<'a>(kit: &'a Kit, row: &mut Row, name: &str, calls: u64) -> Option<Lane<'a, Latency>> {
    match wasm::side(Kind::EMPTY) {
        Ok(mut side) => {
            row.side(name, side.protections());
            Some(Lane::new(name, move || latency(side.as_mut(), kit.tsc, calls, 1)))
        }
        Err(error) => {
            row.missing(name, &error);
            None
        }
    }
}

/// Calls with pauses in between: what it costs that an idle worker leaves its core to others.
fn asleep(kit: &Kit, side: &mut Worker, calls: u64) -> anyhow::Result<Latency> {
    let taken: anyhow::Result<Vec<Timing>> = (0..calls)
        .map(|_| {
            std::thread::sleep(PAUSE);
            side.call(0)
        })
        .collect();
    Ok(Latency::of(&taken?, kit.tsc))
}

fn figures(series: &Series<Latency>) -> Vec<ModeFigure> {
    let median = |name: &str, pick: fn(Quantiles) -> f64| {
        Spread::of(series.of(name, |latency| pick(latency.whole))).median
    };
    MODES
        .iter()
        .map(|(name, warm)| ModeFigure {
            mode: (*name).to_owned(),
            warm: *warm,
            quantiles: Quantiles {
                p50: median(name, |quantiles| quantiles.p50),
                p99: median(name, |quantiles| quantiles.p99),
                p999: median(name, |quantiles| quantiles.p999),
            },
        })
        .collect()
}
