//! `mfaas bench isolation`: performance isolation of builds and calls on a machine that is simulated.
//!
//! The work is a program of its own (`bench/isolation`).

use std::ffi::OsString;
use std::path::PathBuf;

use super::program::{add, run};
use crate::failure::{Exit, Failure};
use crate::settings::Context;

/// The program, beside our own.
const PROGRAM: &str = "mfaas-bench-isolation";

#[derive(Debug, Default, clap::Args)]
pub(super) struct BenchIsolation {
    /// Simulate a machine of 48 cores and a cluster of 44, with a virtual clock over the control code that runs on nodes.
    #[arg(long, required = true)]
    simulation: bool,
    /// Simulated seconds of one machine under each policy; 30 when absent.
    #[arg(long, value_name = "N")]
    seconds: Option<u32>,
    /// Simulated seconds of the cluster; 3 when absent.
    #[arg(long, value_name = "N")]
    cluster_seconds: Option<u32>,
    /// Where the random numbers begin; the same number gives the same figures.
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Write every figure here.
    #[arg(long, value_name = "FILE")]
    json_file: Option<PathBuf>,
    /// Draw latency and use of the CPU by policy here.
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// A short run: shows that everything works, and no more.
    #[arg(long)]
    quick: bool,
}

impl BenchIsolation {
    /// Runs the program; exit code 1 when an aim is missed.
    pub(super) fn run(&self, context: &Context) -> Result<Exit, Failure> {
        run(PROGRAM, &self.arguments(context.screen.is_json()), &context.global)
    }

    fn arguments(&self, json: bool) -> Vec<OsString> {
        let mut arguments = Vec::new();
        add(&mut arguments, "--seconds", self.seconds.map(|seconds| seconds.to_string()));
        add(&mut arguments, "--cluster-seconds", self.cluster_seconds.map(|seconds| seconds.to_string()));
        add(&mut arguments, "--seed", self.seed.map(|seed| seed.to_string()));
        // `-` is standard output, in the place of the text.
        let file = self.json_file.clone().or_else(|| json.then(|| PathBuf::from("-")));
        add(&mut arguments, "--json", file);
        add(&mut arguments, "--svg", self.svg.as_ref());
        if self.quick {
            arguments.push("--quick".into());
        }
        arguments
    }
}

#[cfg(test)]
mod tests;
