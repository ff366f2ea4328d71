//! `mfaas bench isolation`: performance isolation of builds and calls, on this machine or on one that is simulated; and
//! `mfaas bench buffer-cores`: how many cores one of its modes has to keep idle here.
//!
//! The work is done by two programs of `bench/`: the node's benchmark measures, and a simulation stands for machines that nobody
//! has at hand.

use std::ffi::OsString;
use std::path::PathBuf;

use super::program::{add, run};
use crate::failure::{Exit, Failure};
use crate::settings::Context;

/// The programs, beside our own.
const MEASURES: &str = "mfaas-bench-node";
const SIMULATES: &str = "mfaas-bench-isolation";
/// What the first one calls this.
const ISOLATION: &str = "isolation";

/// What the second one is called.
const BUFFER_CORES: &str = "buffer-cores";

#[derive(Debug, Default, clap::Args)]
pub(super) struct BenchIsolation {
    /// Simulate a machine of 48 cores and a cluster of 44, with a virtual clock over the control code that runs on nodes.
    #[arg(long, conflicts_with_all = ["rounds", "workers", "rows", "buffer_cores", "policies"])]
    simulation: bool,
    #[command(flatten)]
    measuring: Measuring,
    /// Rows to measure, separated by commas: cpu-bully, disk-bully, builds, bulk-gzip, bulk-images; all when absent.
    #[arg(long, value_name = "ROWS")]
    rows: Option<String>,
    /// Buffer cores of the mode blind; as many as the controller has by itself when absent.
    #[arg(long, value_name = "N")]
    buffer_cores: Option<u32>,
    /// Policies to compare with standalone, separated by commas, as the report names them; all when absent.
    #[arg(long, value_name = "POLICIES")]
    policies: Option<String>,
    /// Simulated seconds of one machine under each policy; 30 when absent.
    #[arg(long, value_name = "N", requires = "simulation")]
    seconds: Option<u32>,
    /// Simulated seconds of the cluster; 3 when absent.
    #[arg(long, value_name = "N", requires = "simulation")]
    cluster_seconds: Option<u32>,
    /// Where the random numbers of the simulation begin; the same number gives the same figures.
    #[arg(long, value_name = "N", requires = "simulation")]
    seed: Option<u64>,
}

#[derive(Debug, Default, clap::Args)]
pub(super) struct BenchBufferCores {
    #[command(flatten)]
    measuring: Measuring,
}

/// What both commands have.
#[derive(Debug, Default, clap::Args)]
struct Measuring {
    /// Measured rounds of every row, at least 15; one more warms up.
    #[arg(long, value_name = "N")]
    rounds: Option<u32>,
    /// What the node's workers do when nobody calls: parked (they sleep) or polling (one worker, on a core of its own); parked when
    /// absent.
    #[arg(long, value_name = "KIND")]
    workers: Option<String>,
    /// Write every figure here.
    #[arg(long, value_name = "FILE")]
    json_file: Option<PathBuf>,
    /// Draw what calls feel and what the secondary gets by policy here.
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// A short run: shows that everything works, and no more.
    #[arg(long)]
    quick: bool,
}

impl BenchIsolation {
    /// Runs the program; exit code 1 when an aim is missed.
    pub(super) fn run(&self, context: &Context) -> Result<Exit, Failure> {
        run(self.program(), &self.arguments(context.screen.is_json()), &context.global)
    }

    fn program(&self) -> &'static str {
        if self.simulation { SIMULATES } else { MEASURES }
    }

    fn arguments(&self, json: bool) -> Vec<OsString> {
        let mut arguments = Vec::new();
        if !self.simulation {
            arguments.push(ISOLATION.into());
        }
        add(&mut arguments, "--rows", self.rows.as_ref());
        add(&mut arguments, "--buffer-cores", self.buffer_cores.map(|cores| cores.to_string()));
        add(&mut arguments, "--policies", self.policies.as_ref());
        add(&mut arguments, "--seconds", self.seconds.map(|seconds| seconds.to_string()));
        add(&mut arguments, "--cluster-seconds", self.cluster_seconds.map(|seconds| seconds.to_string()));
        add(&mut arguments, "--seed", self.seed.map(|seed| seed.to_string()));
        self.measuring.add_to(&mut arguments, json);
        arguments
    }
}

impl BenchBufferCores {
    /// As [`BenchIsolation::run`].
    pub(super) fn run(&self, context: &Context) -> Result<Exit, Failure> {
        run(MEASURES, &self.arguments(context.screen.is_json()), &context.global)
    }

    fn arguments(&self, json: bool) -> Vec<OsString> {
        let mut arguments = vec![BUFFER_CORES.into()];
        self.measuring.add_to(&mut arguments, json);
        arguments
    }
}

impl Measuring {
    fn add_to(&self, arguments: &mut Vec<OsString>, json: bool) {
        add(arguments, "--rounds", self.rounds.map(|rounds| rounds.to_string()));
        add(arguments, "--workers", self.workers.as_ref());
        // `-` is standard output, in the place of the text.
        let file = self.json_file.clone().or_else(|| json.then(|| PathBuf::from("-")));
        add(arguments, "--json", file);
        add(arguments, "--svg", self.svg.as_ref());
        if self.quick {
            arguments.push("--quick".into());
        }
    }
}

#[cfg(test)]
mod tests;
