//! The rows of the table: which sides each compares, over what, and what the aim is.
//!
//! Within a round every side of a row is measured once; every second round goes through them the
//! other way round, so that a machine that drifts drifts for all. One round before the first is
//! thrown away. A side that fails takes itself out of its row and leaves its reason there.

mod cold;
mod data;
mod fresh;
mod http;
mod idle;
mod isolation;
mod kill;
mod memory;
mod modes;
mod noisy;
mod overload;
mod quantum;
mod resident;
mod suspend;
mod tax;
mod tenants;
mod tokens;
mod verified;

pub use tenants::TENANTS_MAX;

use crate::report::{Figures, Row};
use crate::secondary::Work;
use crate::sides::mfaas::Node;
use crate::sides::{Kit, Latency, Side, latency};

/// How long a run is, and over what.
#[derive(Debug, Clone, Default)]
pub struct Plan {
    /// Rounds that count.
    pub rounds: u32,
    /// Few calls and few functions: shows that everything works, and nothing else.
    pub quick: bool,
    /// A function of a running node, and the node's process.
    pub node: Option<(String, u32)>,
    /// Numbers of tenants; those of the row when empty.
    pub tenants: Vec<usize>,
    /// Of the node, in the rows of [`ISOLATION`] and [`DATA`].
    pub workers: Workers,
    /// There, of the mode `blind`; the controller's own number when absent.
    pub buffer_cores: Option<u32>,
    /// There, by name, beside standalone; all when empty.
    pub policies: Vec<String>,
}

/// What the workers of a node do when nobody calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub enum Workers {
    /// As a node has them by default: they sleep.
    #[default]
    Parked,
    /// One worker, which has a core for itself and looks for the next call there.
    Polling,
}

impl Plan {
    /// `full`, or `few` in a quick run.
    fn size<T>(&self, full: T, few: T) -> T {
        if self.quick { few } else { full }
    }
}

/// One row of the table, before it is measured.
#[derive(Debug, Clone, Copy)]
pub struct Planned {
    /// What `--rows` calls it.
    pub name: &'static str,
    measure: fn(&Kit, &Plan) -> anyhow::Result<Measured>,
}

/// A measured row, and the bars of a figure if they come from it.
pub type Measured = (Row, Figures);

/// Every row, in the order of the table.
pub const ALL: [Planned; 15] = [
    Planned { name: "warm", measure: |kit, plan| alone(resident::warm(kit, plan)) },
    Planned { name: "throughput", measure: |kit, plan| alone(resident::throughput(kit, plan)) },
    Planned { name: "verified", measure: |kit, plan| alone(verified::row(kit, plan)) },
    Planned { name: "cold", measure: |kit, plan| alone(cold::row(kit, plan)) },
    Planned { name: "fresh", measure: |kit, plan| alone(fresh::row(kit, plan)) },
    Planned { name: "memory", measure: |kit, plan| alone(memory::row(kit, plan)) },
    Planned { name: "quantum", measure: |kit, plan| alone(quantum::row(kit, plan)) },
    Planned { name: "kill", measure: |kit, plan| alone(kill::row(kit, plan)) },
    Planned { name: "tax", measure: |kit, plan| alone(tax::row(kit, plan)) },
    Planned { name: "http", measure: |kit, plan| alone(http::row(kit, plan)) },
    Planned { name: "tokens", measure: |kit, plan| alone(tokens::row(kit, plan)) },
    Planned { name: "idle", measure: |kit, plan| alone(idle::row(kit, plan)) },
    Planned { name: "tenants", measure: |kit, plan| alone(tenants::row(kit, plan)) },
    Planned { name: "overload", measure: |kit, plan| alone(overload::row(kit, plan)) },
    Planned { name: "modes", measure: modes::row },
];

/// Every row about a tenant beside one that takes what it can.
pub const NOISY: [Planned; 7] = [
    Planned { name: "calls", measure: |kit, plan| alone(noisy::row(kit, plan, &noisy::CALLS)) },
    Planned { name: "long-calls", measure: |kit, plan| alone(noisy::row(kit, plan, &noisy::LONG_CALLS)) },
    Planned {
        name: "longest-calls",
        measure: |kit, plan| alone(noisy::row(kit, plan, &noisy::LONGEST_CALLS)),
    },
    Planned { name: "log-lines", measure: |kit, plan| alone(noisy::row(kit, plan, &noisy::LOG_LINES)) },
    Planned { name: "large-bodies", measure: |kit, plan| alone(noisy::row(kit, plan, &noisy::LARGE_BODIES)) },
    Planned { name: "slow-bodies", measure: |kit, plan| alone(noisy::row(kit, plan, &noisy::SLOW_BODIES)) },
    Planned { name: "connections", measure: |kit, plan| alone(noisy::row(kit, plan, &noisy::CONNECTIONS)) },
];

/// Every row about calls beside a secondary.
pub const ISOLATION: [Planned; 5] = [
    Planned {
        name: "cpu-bully",
        measure: |kit, plan| {
            let title = "calls of 100 µs beside threads that compute without end, one for each core";
            isolation::row(kit, plan, ("cpu-bully", title, Work::Cpu))
        },
    },
    Planned {
        name: "disk-bully",
        measure: |kit, plan| {
            let title =
                "calls of 100 µs beside two threads that write to a disk and read from it without end";
            isolation::row(kit, plan, ("disk-bully", title, Work::Disk))
        },
    },
    Planned {
        name: "builds",
        measure: |kit, plan| {
            isolation::row(kit, plan, ("builds", "calls of 100 µs beside two compilations", Work::Builds))
        },
    },
    Planned {
        name: "bulk-gzip",
        measure: |kit, plan| {
            let title =
                "calls of 100 µs beside bulk calls of the same node that compress 16 MiB, one for each core";
            isolation::row(kit, plan, ("bulk-gzip", title, Work::BulkGzip))
        },
    },
    Planned {
        name: "bulk-images",
        measure: |kit, plan| {
            let title =
                "calls of 100 µs beside bulk calls of the same node that augment photos, one for each core";
            isolation::row(kit, plan, ("bulk-images", title, Work::BulkImages))
        },
    },
];

/// Every row about functions with data.
pub const DATA: [Planned; 10] = [
    Planned { name: "suspend", measure: |kit, plan| alone(suspend::row(kit, plan)) },
    Planned { name: "call-inline", measure: |kit, plan| alone(data::call_inline(kit, plan)) },
    Planned { name: "call", measure: |kit, plan| alone(data::call(kit, plan)) },
    Planned { name: "call-other-tenant", measure: |kit, plan| alone(data::call_other_tenant(kit, plan)) },
    Planned { name: "cache", measure: |kit, plan| alone(data::cache(kit, plan)) },
    Planned { name: "broker", measure: |kit, plan| alone(data::broker(kit, plan)) },
    Planned { name: "kv", measure: |kit, plan| alone(data::kv(kit, plan)) },
    Planned { name: "redis", measure: |kit, plan| alone(data::redis(kit, plan)) },
    Planned { name: "object", measure: |kit, plan| alone(data::object(kit, plan)) },
    Planned { name: "volume", measure: |kit, plan| alone(data::volume(kit, plan)) },
];

/// A policy of those rows, by its name.
pub fn policy_named(name: &str) -> Result<String, String> {
    let known = isolation::is_policy(name);
    known.then(|| name.to_owned()).ok_or_else(|| "no such policy; the report names them".to_owned())
}

/// The row about buffer cores.
pub const BUFFER_CORES: Planned = Planned { name: "buffer-cores", measure: isolation::buffer_cores };

impl Planned {
    /// Measures the row; the figure's bars come from one of them.
    pub fn measure(&self, kit: &Kit, plan: &Plan) -> anyhow::Result<Measured> {
        (self.measure)(kit, plan)
    }
}

fn alone(row: anyhow::Result<Row>) -> anyhow::Result<Measured> {
    Ok((row?, Figures::default()))
}

/// The node that the plan names, or one that is started for the row.
fn node(kit: &Kit, plan: &Plan) -> anyhow::Result<Node> {
    match &plan.node {
        Some((url, process)) => Node::connect(url, *process),
        None => Node::start(kit),
    }
}

/// One side of a row: a name, and what is done with it in a round.
struct Lane<'a, T> {
    name: String,
    round: Box<dyn FnMut() -> anyhow::Result<T> + 'a>,
}

impl<'a, T> Lane<'a, T> {
    fn new(name: impl Into<String>, round: impl FnMut() -> anyhow::Result<T> + 'a) -> Self {
        Self { name: name.into(), round: Box::new(round) }
    }

    /// A side and what is measured of it. One that could not be made leaves its reason in the row.
    fn of<S: Side + 'a>(
        row: &mut Row,
        name: &str,
        side: anyhow::Result<S>,
        mut round: impl FnMut(&mut S) -> anyhow::Result<T> + 'a,
    ) -> Option<Self> {
        match side {
            Ok(mut side) => {
                row.side(name, side.protections());
                Some(Self::new(name, move || round(&mut side)))
            }
            Err(error) => {
                row.missing(name, &error);
                None
            }
        }
    }
}

/// What every side gave in every round.
struct Series<T>(Vec<(String, Vec<T>)>);

impl<T> Series<T> {
    /// One figure of each round of a side; empty for a side that is missing.
    fn of(&self, name: &str, figure: impl Fn(&T) -> f64) -> Vec<f64> {
        let rounds = self.0.iter().find(|(found, _)| found == name).map(|(_, rounds)| rounds);
        rounds.map(|rounds| rounds.iter().map(figure).collect()).unwrap_or_default()
    }
}

/// Alternates the sides of a row.
fn alternate<T>(plan: &Plan, row: &mut Row, lanes: Vec<Option<Lane<'_, T>>>) -> Series<T> {
    let mut running: Vec<(Lane<'_, T>, Vec<T>)> =
        lanes.into_iter().flatten().map(|lane| (lane, vec![])).collect();
    for round in 0..=plan.rounds {
        let mut order: Vec<usize> = (0..running.len()).collect();
        if round % 2 == 1 {
            order.reverse();
        }
        let mut failed = Vec::new();
        for index in order {
            let (lane, taken) = &mut running[index];
            match (lane.round)() {
                // Round 0 warms caches, pools and clocks.
                Ok(_) if round == 0 => {}
                Ok(figure) => taken.push(figure),
                Err(error) => {
                    row.missing(&lane.name, &error);
                    failed.push(index);
                }
            }
        }
        failed.sort_unstable();
        for index in failed.into_iter().rev() {
            running.remove(index);
        }
    }
    Series(running.into_iter().map(|(lane, taken)| (lane.name, taken)).collect())
}

/// A lane whose rounds are single calls over `functions` functions.
fn single_calls<'a, S: Side + 'a>(
    kit: &'a Kit,
    row: &mut Row,
    name: &str,
    side: anyhow::Result<S>,
    (calls, functions): (u64, u64),
) -> Option<Lane<'a, Latency>> {
    Lane::of(row, name, side, move |side| latency(side, kit.tsc, calls, functions))
}

#[cfg(test)]
mod tests;
