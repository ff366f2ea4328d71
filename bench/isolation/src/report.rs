//! What comes out, for people and as JSON.
//!
//! It must never call an aim met that was not simulated.

use std::fmt::Write as _;

use serde::Serialize;

use crate::scenario::{BUFFER, LOADS};

/// How much a 99th percentile may be above the one of the machine alone, in milliseconds.
const ADDED_P99_MS_MAX: f64 = 1.0;
/// Part of the CPU that has to be used at the lower load.
const UTILISATION_MIN: f64 = 0.60;

/// A whole simulation.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    /// Seconds of a machine that were measured.
    pub(crate) machine_s: f64,
    /// Seconds of the cluster that were measured.
    pub(crate) cluster_s: f64,
    /// Where the random numbers began.
    pub(crate) seed: u64,
    /// A short run, whose figures are no evidence.
    pub(crate) quick: bool,
    /// Each way to share a machine.
    pub(crate) machine: Vec<MachineRun>,
    /// What we chose, chosen otherwise: alone, and with the secondary.
    pub(crate) variants: Vec<(MachineRun, MachineRun)>,
    /// The cluster.
    pub(crate) cluster: Vec<ClusterRun>,
    /// What should come out.
    pub(crate) aims: Vec<Aim>,
}

/// One machine under one policy.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct MachineRun {
    /// How it was shared.
    pub(crate) name: String,
    /// The load.
    pub(crate) queries_per_s: u32,
    /// Queries that were answered.
    pub(crate) queries: usize,
    /// How long they took.
    pub(crate) latency_ms: Quantiles,
    /// Part of all CPU time that the primary used.
    pub(crate) primary: f64,
    /// Part of all CPU time that the secondary used, which is what it did of what it does alone.
    pub(crate) secondary: f64,
    /// Part of the primary's wake-ups that found no idle core.
    pub(crate) queued: f64,
    /// Changes of the secondary's limits.
    pub(crate) changes_per_s: f64,
}

/// The cluster under one policy.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct ClusterRun {
    /// How machines were shared.
    pub(crate) name: String,
    /// Queries that were answered.
    pub(crate) queries: usize,
    /// How long the machines took.
    pub(crate) machine_ms: Quantiles,
    /// How long until the mid-level aggregator had answered.
    pub(crate) mid_ms: Quantiles,
    /// How long until the top-level aggregator had answered.
    pub(crate) top_ms: Quantiles,
    /// Part of all CPU time that the primary used.
    pub(crate) primary: f64,
    /// Part of all CPU time that the secondary used.
    pub(crate) secondary: f64,
}

/// Quantiles by nearest rank, not numbers where there are no values.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(crate) struct Quantiles {
    pub(crate) p50: f64,
    pub(crate) p95: f64,
    pub(crate) p99: f64,
}

/// A bound and what came out.
#[derive(Debug, Serialize)]
pub(crate) struct Aim {
    what: String,
    value: f64,
    bound: f64,
    met: bool,
}

impl Quantiles {
    /// Of values in any order.
    pub(crate) fn of(mut values: Vec<f64>) -> Self {
        values.sort_by(f64::total_cmp);
        let rank = |per_cent: usize| {
            let index = (values.len() * per_cent).div_ceil(100).saturating_sub(1);
            values.get(index).copied().unwrap_or(f64::NAN)
        };
        Self { p50: rank(50), p95: rank(95), p99: rank(99) }
    }
}

impl Aim {
    fn at_most(what: String, value: f64, bound: f64) -> Self {
        Self { met: value <= bound, what, value, bound }
    }

    fn at_least(what: String, value: f64, bound: f64) -> Self {
        Self { met: value >= bound, what, value, bound }
    }
}

/// The aims of what was simulated.
pub(crate) fn aims(machine: &[MachineRun], cluster: &[ClusterRun]) -> Vec<Aim> {
    let mut aims = Vec::new();
    let find = |name: &str, load| machine.iter().find(|run| run.name == name && run.queries_per_s == load);
    let blind = format!("blind, {BUFFER} buffer cores");
    for load in LOADS {
        let (Some(alone), Some(shared)) = (find("standalone", load), find(&blind, load)) else { continue };
        let added = shared.latency_ms.p99 - alone.latency_ms.p99;
        aims.push(Aim::at_most(format!("p99 at {load}/s above standalone, ms"), added, ADDED_P99_MS_MAX));
        if load == LOADS[0] {
            let used = shared.primary + shared.secondary;
            aims.push(Aim::at_least(format!("CPU used at {load}/s"), used, UTILISATION_MIN));
        }
    }
    if let [alone, shared] = cluster {
        let added = shared.top_ms.p99 - alone.top_ms.p99;
        aims.push(Aim::at_most(
            "p99 of the cluster above standalone, ms".to_owned(),
            added,
            ADDED_P99_MS_MAX,
        ));
    }
    aims
}

impl Report {
    /// Whether there are aims and all are met.
    pub(crate) fn all_aims_met(&self) -> bool {
        !self.aims.is_empty() && self.aims.iter().all(|aim| aim.met)
    }

    /// For people.
    pub(crate) fn text(&self) -> String {
        let mut text = format!(
            "simulation  {} s of one machine of 48 cores, {} s of the cluster, seed {}\n",
            self.machine_s, self.cluster_s, self.seed
        );
        if self.quick {
            text.push_str("            a quick run: its figures are no evidence\n");
        }
        for load in LOADS {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "\n{load} queries a second\n{}", head("shared by"));
            let runs = || self.machine.iter().filter(|run| run.queries_per_s == load);
            let alone = runs().find(|run| run.name == "standalone");
            runs().for_each(|run| text.push_str(&line(run, alone)));
        }
        let _ = writeln!(text, "\nblind isolation at {} queries a second\n{}", LOADS[0], head("variant"));
        for (alone, run) in &self.variants {
            text.push_str(&line(run, Some(alone)));
        }
        text.push_str("\ncluster: 22 columns, 2 rows, 8,000 queries a second\n");
        for run in &self.cluster {
            let _ = writeln!(
                text,
                "  {}: primary {:.1} %, secondary {:.1} %, {} queries",
                run.name,
                run.primary * 100.0,
                run.secondary * 100.0,
                run.queries
            );
            for (level, ms) in
                [("machine", run.machine_ms), ("mid level", run.mid_ms), ("top level", run.top_ms)]
            {
                let _ = writeln!(
                    text,
                    "    {level:<10} p50 {:>6.2}  p95 {:>6.2}  p99 {:>6.2} ms",
                    ms.p50, ms.p95, ms.p99
                );
            }
        }
        text.push('\n');
        for aim in &self.aims {
            let _ = writeln!(
                text,
                "{} {}: {:.2}, aim {:.2}",
                if aim.met { "met   " } else { "MISSED" },
                aim.what,
                aim.value,
                aim.bound
            );
        }
        text
    }
}

fn head(first: &str) -> String {
    format!(
        "  {first:<28} {:>7} {:>7} {:>8} {:>9} {:>8} {:>9} {:>6} {:>8} {:>9}",
        "p50 ms", "p95 ms", "p99 ms", "p99 added", "primary", "secondary", "all", "queued", "changes/s"
    )
}

fn line(run: &MachineRun, alone: Option<&MachineRun>) -> String {
    let ms = run.latency_ms;
    let added = alone.map_or(f64::NAN, |alone| ms.p99 - alone.latency_ms.p99);
    format!(
        "  {:<28} {:>7.2} {:>7.2} {:>8.2} {:>9.2} {:>6.1} % {:>7.1} % {:>4.0} % {:>6.2} % {:>9.0}\n",
        run.name,
        ms.p50,
        ms.p95,
        ms.p99,
        added,
        run.primary * 100.0,
        run.secondary * 100.0,
        (run.primary + run.secondary) * 100.0,
        run.queued * 100.0,
        run.changes_per_s
    )
}

#[cfg(test)]
mod tests;
