//! What HTTP costs in front of a function, against a plain hyper server with the function inside: CPU time of the threads that
//! speak it and the time of a request on one connection, and requests a second with many on their way.

use anyhow::Context as _;

use super::{Lane, Plan, Series, alternate, node};
use crate::report::{Bound, Row};
use crate::sides::http::Hyper;
use crate::sides::load::{self, STREAMS};
use crate::sides::mfaas::{DISPATCHER_THREAD, INGRESS_THREADS};
use crate::sides::{Kit, Latency, Side, latency};
use crate::sys::cpu::{descendants_micros, threads};

const NODE: &str = "node";
const HYPER: &str = "plain hyper";
const CPU_RATIO_MAX: f64 = 1.15;
const EXTRA_US_MAX: f64 = 3.0;
const RATE_RATIO_MIN: f64 = 0.8;
/// Connections of HTTP/1.1, each with one request on its way.
const CONNECTIONS: [usize; 2] = [16, 128];

/// What is asked at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Load {
    Http1(usize),
    Http2,
}

const LOADS: [Load; 3] = [Load::Http1(CONNECTIONS[0]), Load::Http1(CONNECTIONS[1]), Load::Http2];

/// One round.
struct Round {
    latency: Latency,
    spent: Spent,
    loaded: [Loaded; LOADS.len()],
}

/// One round of one load.
#[derive(Debug, Clone, Copy)]
struct Loaded {
    /// Requests a second.
    rate: f64,
    spent: Spent,
}

/// CPU time of the parts of a side, in microseconds.
#[derive(Debug, Clone, Copy, Default)]
struct Spent {
    /// Of the threads that speak HTTP.
    http: f64,
    /// Of the thread between those and the workers.
    dispatcher: f64,
    /// Of the workers, and of the loader, which has nothing to do.
    workers: f64,
}

/// The row. The node is one that was named, or one that is started for it.
pub(super) fn row(kit: &Kit, plan: &Plan) -> anyhow::Result<Row> {
    let mut row = Row::new("http", "requests of 64 B: one at a time, 16 and 128 connections, HTTP/2");
    let calls = plan.size((5_000, 20_000), (50, 400));
    let lanes = vec![
        Lane::of(&mut row, HYPER, Hyper::start(kit), |side| round(kit, side, calls, of_hyper)),
        Lane::of(&mut row, NODE, node(kit, plan), |side| round(kit, side, calls, of_node)),
    ];
    let series = alternate(plan, &mut row, lanes);
    let p50 = |name: &str| series.of(name, |round: &Round| round.latency.whole.p50);
    let http = |name: &str| series.of(name, |round: &Round| round.spent.http);
    for name in [NODE, HYPER] {
        row.measure(format!("{name} p50"), "µs", p50(name));
        row.measure(format!("{name} p99"), "µs", series.of(name, |round| round.latency.whole.p99));
        row.measure(format!("{name} CPU of a request, threads that speak HTTP"), "µs", http(name));
    }
    row.measure(
        format!("{NODE} CPU of a request, dispatcher"),
        "µs",
        series.of(NODE, |round| round.spent.dispatcher),
    );
    row.measure(
        format!("{NODE} CPU of a request, worker"),
        "µs",
        series.of(NODE, |round| round.spent.workers),
    );
    row.ratio(format!("{NODE} / {HYPER} CPU of a request"), &http(NODE), &http(HYPER))
        .aim(Bound::AtMost, CPU_RATIO_MAX);
    let extra = p50(NODE).iter().zip(p50(HYPER)).map(|(node, hyper)| node - hyper).collect();
    row.measure(format!("{NODE} p50 above {HYPER}"), "µs", extra).aim(Bound::AtMost, EXTRA_US_MAX);
    for (place, load) in LOADS.iter().enumerate() {
        under(&mut row, &series, (place, *load));
    }
    Ok(row)
}

/// The measures of one load.
fn under(row: &mut Row, series: &Series<Round>, (place, load): (usize, Load)) {
    let rate = |name: &str| series.of(name, |round| round.loaded[place].rate);
    let http = |name: &str| series.of(name, |round| round.loaded[place].spent.http);
    for name in [NODE, HYPER] {
        row.measure(format!("{name}, {load}"), "requests/s", rate(name));
        row.measure(format!("{name}, {load}: CPU of a request, threads that speak HTTP"), "µs", http(name));
    }
    let behind = |round: &Round| round.loaded[place].spent.dispatcher;
    row.measure(format!("{NODE}, {load}: CPU of a request, dispatcher"), "µs", series.of(NODE, behind));
    row.ratio(format!("{NODE} / {HYPER} CPU of a request, {load}"), &http(NODE), &http(HYPER));
    row.ratio(format!("{NODE} / {HYPER} requests a second, {load}"), &rate(NODE), &rate(HYPER))
        .aim(Bound::AtLeast, RATE_RATIO_MIN);
}

impl std::fmt::Display for Load {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Http1(connections) => write!(f, "{connections} connections"),
            Self::Http2 => write!(f, "HTTP/2, {STREAMS} streams"),
        }
    }
}

/// Calls of a round: one at a time, and of each load.
type Calls = (u64, u64);

fn round(
    kit: &Kit,
    side: &mut dyn Side,
    (calls, loaded_calls): Calls,
    spent: fn(u32) -> anyhow::Result<Spent>,
) -> anyhow::Result<Round> {
    let process = side.process().context("a side without a process")?;
    let before = spent(process)?;
    let latency = latency(side, kit.tsc, calls, 1)?;
    // The calls that warm are calls, too.
    let made = (calls + calls / 10) as f64;
    let alone = spent(process)?.since(before).by(made);
    let target = side.target().context("a side that does not speak HTTP")?;
    let nothing = Loaded { rate: f64::NAN, spent: Spent::default() };
    let mut loaded = [nothing; LOADS.len()];
    for (load, into) in LOADS.iter().zip(&mut loaded) {
        let before = spent(process)?;
        let (rate, warming) = match load {
            Load::Http1(connections) => {
                (load::http1(target, *connections, loaded_calls)?, *connections as u64)
            }
            Load::Http2 => (load::http2(target, loaded_calls)?, STREAMS as u64),
        };
        let spent = spent(process)?.since(before).by((loaded_calls + warming) as f64);
        *into = Loaded { rate, spent };
    }
    Ok(Round { latency, spent: alone, loaded })
}

/// All of it speaks HTTP.
fn of_hyper(process: u32) -> anyhow::Result<Spent> {
    Ok(Spent { http: threads(process)?.iter().map(|thread| thread.micros).sum(), ..Spent::default() })
}

fn of_node(process: u32) -> anyhow::Result<Spent> {
    let threads = threads(process)?;
    let named = |prefix: &str| {
        threads.iter().filter(|thread| thread.name.starts_with(prefix)).map(|thread| thread.micros).sum()
    };
    anyhow::ensure!(
        threads.iter().any(|thread| thread.name.starts_with(INGRESS_THREADS)),
        "process {process} has no thread named {INGRESS_THREADS}: it is no node of this release"
    );
    Ok(Spent {
        http: named(INGRESS_THREADS),
        dispatcher: named(DISPATCHER_THREAD),
        workers: descendants_micros(process)?,
    })
}

impl Spent {
    fn since(self, before: Self) -> Self {
        Self {
            http: self.http - before.http,
            dispatcher: self.dispatcher - before.dispatcher,
            workers: self.workers - before.workers,
        }
    }

    fn by(self, calls: f64) -> Self {
        Self { http: self.http / calls, dispatcher: self.dispatcher / calls, workers: self.workers / calls }
    }
}
