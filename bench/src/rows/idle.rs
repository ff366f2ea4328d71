//! What a node takes that has nothing to do, and what it costs to wake it.

use std::time::{Duration, Instant};

use super::{Lane, Plan, alternate, node};
use crate::report::{Bound, Row};
use crate::sides::{Kit, Latency, Side, latency};
use crate::sys::cpu::{descendants_micros, threads};

const NODE: &str = "node";
const CORE_PERCENT_MAX: f64 = 2.0;
/// Before a call that has to wake everybody: no thread of a node looks for its next call so long.
const REST: Duration = Duration::from_millis(20);

/// One round.
struct Round {
    /// Of one core, over all processes of the node.
    percent: f64,
    /// Calls after a rest, and calls one right behind the other.
    woken: Latency,
    awake: Latency,
}

/// The row. The node is one that was named, or one that is started for it.
pub(super) fn row(kit: &Kit, plan: &Plan) -> anyhow::Result<Row> {
    let mut row = Row::new("idle", "a node with nothing to do, and a call over HTTP that wakes it");
    let lane = Lane::of(&mut row, NODE, node(kit, plan), |side| round(kit, plan, side));
    let series = alternate(plan, &mut row, vec![lane]);
    row.measure(
        "CPU time of all its processes, of one core",
        "%",
        series.of(NODE, |round: &Round| round.percent),
    )
    .aim(Bound::AtMost, CORE_PERCENT_MAX);
    let woken = series.of(NODE, |round| round.woken.whole.p50);
    let awake = series.of(NODE, |round| round.awake.whole.p50);
    let wake_up = woken.iter().zip(&awake).map(|(woken, awake)| woken - awake).collect();
    row.measure(format!("p50 after {} ms of rest", REST.as_millis()), "µs", woken);
    row.measure("p50 right behind another", "µs", awake);
    row.measure("waking it", "µs", wake_up);
    Ok(row)
}

fn round(kit: &Kit, plan: &Plan, side: &mut dyn Side) -> anyhow::Result<Round> {
    let process = side.process().ok_or_else(|| anyhow::anyhow!("a node without a process"))?;
    // Whoever still looks for a call stops to.
    std::thread::sleep(REST);
    let (begin, before) = (Instant::now(), spent(process)?);
    std::thread::sleep(Duration::from_millis(plan.size(2_000, 100)));
    let percent = (spent(process)? - before) / begin.elapsed().as_secs_f64() / 1e4;
    let woken = (0..plan.size(50, 3))
        .map(|number| {
            std::thread::sleep(REST);
            side.call(number)
        })
        .collect::<anyhow::Result<Vec<_>>>()?;
    let awake = latency(side, kit.tsc, plan.size(2_000, 20), 1)?;
    Ok(Round { percent, woken: Latency::of(&woken, kit.tsc), awake })
}

/// CPU time of the node, its loader and its workers, in microseconds.
fn spent(process: u32) -> anyhow::Result<f64> {
    let own: f64 = threads(process)?.iter().map(|thread| thread.micros).sum();
    Ok(own + descendants_micros(process)?)
}
