//! What HTTP costs in front of a function: CPU time of the threads that speak it, and the time of a
//! request on one connection, against a plain hyper server with the function inside.

use super::{Lane, Plan, alternate};
use crate::report::{Bound, Row};
use crate::sides::http::{Hyper, cpu_micros};
use crate::sides::mfaas::{NODE_WORKER_THREADS, Node};
use crate::sides::{Kit, Latency, Side, latency};

const NODE: &str = "node";
const HYPER: &str = "plain hyper";
const CPU_RATIO_MAX: f64 = 1.15;
const EXTRA_US_MAX: f64 = 5.0;

/// One round.
struct Round {
    latency: Latency,
    cpu_us: f64,
}

/// The row. The node is one that runs already; without one the row says how to name it.
pub(super) fn row(kit: &Kit, plan: &Plan) -> anyhow::Result<Row> {
    let mut row = Row::new("http", "one request over HTTP/1.1 on one connection, 64 B");
    let calls = plan.size(5_000, 50);
    let node = match &plan.node {
        Some((url, process)) => Node::connect(url, *process),
        None => Err(anyhow::anyhow!(
            "no node was named: `mfaas up`, deploy a function, then --node-url http://127.0.0.1:7800/f/TENANT/NAME \
             --node-pid with the id of mfaas-node"
        )),
    };
    let lanes = vec![
        Lane::of(&mut row, HYPER, Hyper::start(kit), |side| round(kit, side, calls, &[])),
        Lane::of(&mut row, NODE, node, |side| round(kit, side, calls, NODE_WORKER_THREADS)),
    ];
    let series = alternate(plan, &mut row, lanes);
    let p50 = |name: &str| series.of(name, |round| round.latency.whole.p50);
    let cpu = |name: &str| series.of(name, |round| round.cpu_us);
    for name in [NODE, HYPER] {
        row.measure(format!("{name} p50"), "µs", p50(name));
        row.measure(format!("{name} p99"), "µs", series.of(name, |round| round.latency.whole.p99));
        row.measure(format!("{name} CPU of a request"), "µs", cpu(name));
    }
    row.ratio(format!("{NODE} / {HYPER} CPU of a request"), &cpu(NODE), &cpu(HYPER))
        .aim(Bound::AtMost, CPU_RATIO_MAX);
    let extra = p50(NODE).iter().zip(p50(HYPER)).map(|(node, hyper)| node - hyper).collect();
    row.measure(format!("{NODE} p50 above {HYPER}"), "µs", extra).aim(Bound::AtMost, EXTRA_US_MAX);
    Ok(row)
}

fn round(kit: &Kit, side: &mut dyn Side, calls: u64, besides: &[&str]) -> anyhow::Result<Round> {
    let process = side.process().ok_or_else(|| anyhow::anyhow!("a side without a process"))?;
    let before = cpu_micros(process, besides)?;
    let latency = latency(side, kit.tsc, calls, 1)?;
    // The calls that warm are calls, too.
    let made = (calls + calls / 10) as f64;
    Ok(Round { latency, cpu_us: (cpu_micros(process, besides)? - before) / made })
}
