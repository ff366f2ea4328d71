//! `mfaas bench node`, `mfaas bench noisy-neighbour` and `mfaas bench data`: the node runtime beside the sides that it is
//! compared to, a tenant beside one that takes what it can, and functions with data.
//!
//! The work is a program of its own (`bench/`).

use std::ffi::OsString;
use std::path::PathBuf;

use super::program::{add, run};
use crate::failure::{Exit, Failure};
use crate::settings::Context;

/// The program, beside our own.
const PROGRAM: &str = "mfaas-bench-node";
/// What the program calls its other commands.
const NOISY_NEIGHBOUR: &str = "noisy-neighbour";
const DATA: &str = "data";

/// What all commands have.
#[derive(Debug, Default, clap::Args)]
struct Measuring {
    /// Measured rounds of every row, at least 15; one more warms up.
    #[arg(long, value_name = "N")]
    rounds: Option<u32>,
    /// Rows to measure, separated by commas; all when absent (docs/bench-node.md, docs/noisy-neighbour.md
    /// and docs/bench-data.md list them).
    #[arg(long, value_name = "ROWS")]
    rows: Option<String>,
    /// Write every figure of every round here.
    #[arg(long, value_name = "FILE")]
    json_file: Option<PathBuf>,
    /// Two short rounds with few functions: shows that everything works, and no more.
    #[arg(long)]
    quick: bool,
}

#[derive(Debug, Default, clap::Args)]
pub(super) struct BenchNode {
    #[command(flatten)]
    measuring: Measuring,
    /// Draw latency by mode here.
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// Numbers of tenants for the row `tenants`, separated by commas; 1, 100 and 1000 when absent.
    #[arg(long, value_name = "NUMBERS")]
    tenants: Option<String>,
    /// A function of a running node, for the row `http`.
    #[arg(long, value_name = "URL", requires = "node_pid")]
    node_url: Option<String>,
    /// The process of that node.
    #[arg(long, value_name = "PID", requires = "node_url")]
    node_pid: Option<u32>,
}

#[derive(Debug, Default, clap::Args)]
pub(super) struct BenchNoisyNeighbour {
    #[command(flatten)]
    measuring: Measuring,
}

#[derive(Debug, Default, clap::Args)]
pub(super) struct BenchData {
    #[command(flatten)]
    measuring: Measuring,
    /// What the node's workers do when nobody calls: parked (they sleep) or polling (one worker, on a core of its own); parked when
    /// absent.
    #[arg(long, value_name = "WORKERS")]
    workers: Option<String>,
}

impl BenchNode {
    /// Runs the program; exit code 1 when an aim is missed or something was not measured.
    pub(super) fn run(&self, context: &Context) -> Result<Exit, Failure> {
        run(PROGRAM, &self.arguments(context.screen.is_json()), &context.global)
    }

    fn arguments(&self, json: bool) -> Vec<OsString> {
        let mut arguments = self.measuring.arguments(json);
        add(&mut arguments, "--svg", self.svg.as_ref());
        add(&mut arguments, "--tenants", self.tenants.as_ref());
        add(&mut arguments, "--node-url", self.node_url.as_ref());
        add(&mut arguments, "--node-pid", self.node_pid.map(|process| process.to_string()));
        arguments
    }
}

impl BenchNoisyNeighbour {
    /// As [`BenchNode::run`].
    pub(super) fn run(&self, context: &Context) -> Result<Exit, Failure> {
        run(PROGRAM, &self.arguments(context.screen.is_json()), &context.global)
    }

    fn arguments(&self, json: bool) -> Vec<OsString> {
        self.measuring.arguments_of(NOISY_NEIGHBOUR, json)
    }
}

impl BenchData {
    /// As [`BenchNode::run`].
    pub(super) fn run(&self, context: &Context) -> Result<Exit, Failure> {
        run(PROGRAM, &self.arguments(context.screen.is_json()), &context.global)
    }

    fn arguments(&self, json: bool) -> Vec<OsString> {
        let mut arguments = self.measuring.arguments_of(DATA, json);
        add(&mut arguments, "--workers", self.workers.as_ref());
        arguments
    }
}

impl Measuring {
    fn arguments_of(&self, command: &str, json: bool) -> Vec<OsString> {
        let mut arguments = vec![command.into()];
        arguments.extend(self.arguments(json));
        arguments
    }

    fn arguments(&self, json: bool) -> Vec<OsString> {
        let mut arguments = Vec::new();
        add(&mut arguments, "--rounds", self.rounds.map(|rounds| rounds.to_string()));
        add(&mut arguments, "--rows", self.rows.as_ref());
        // `-` is standard output, in the place of the text.
        let file = self.json_file.clone().or_else(|| json.then(|| PathBuf::from("-")));
        add(&mut arguments, "--json", file);
        if self.quick {
            arguments.push("--quick".into());
        }
        arguments
    }
}

#[cfg(test)]
mod tests;
