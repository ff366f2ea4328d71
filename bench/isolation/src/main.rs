//! mfaas-bench-isolation: a simulated machine and cluster over the control code of performance isolation, see
//! docs/performance-isolation.md.
//!
//! The clock is virtual: how fast this machine is, and what else runs on it, changes nothing, and the same seed gives
//! the same figures. Exit codes: 0 every aim is met · 1 an aim is missed, or the run failed · 2 usage.

mod agenda;
mod figure;
mod machine;
mod policy;
mod report;
mod scenario;
mod workload;
mod world;

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context as _;
use clap::Parser as _;

use report::Report;
use scenario::Length;

/// A simulated machine of 48 cores, and a cluster of 44 of them, over the control code of performance isolation.
#[derive(Debug, clap::Parser)]
#[command(name = "mfaas-bench-isolation")]
struct Arguments {
    /// Simulated seconds of one machine under each policy.
    #[arg(long, value_name = "N", default_value_t = 30, value_parser = clap::value_parser!(u32).range(1..=3600))]
    seconds: u32,
    /// Simulated seconds of the cluster.
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=600))]
    cluster_seconds: u32,
    /// Where the random numbers begin.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Write every figure here; `-` prints them in the place of the text.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Draw latency and use of the CPU by policy here.
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// A second of the machine and a fifth of a second of the cluster: shows that everything works, and no
    /// more.
    #[arg(long)]
    quick: bool,
}

fn main() -> ExitCode {
    match Arguments::parse().run() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            // Without a standard error there is nobody to tell.
            let _ = writeln!(std::io::stderr(), "mfaas-bench-isolation: {error:#}");
            ExitCode::FAILURE
        }
    }
}

impl Arguments {
    fn run(&self) -> anyhow::Result<bool> {
        let report = self.simulate()?;
        let json = serde_json::to_string_pretty(&report).context("write the figures as JSON")? + "\n";
        let printed = match self.json.as_deref() {
            Some(file) if file == Path::new("-") => json,
            Some(file) => {
                std::fs::write(file, json).with_context(|| format!("write {}", file.display()))?;
                report.text()
            }
            None => report.text(),
        };
        std::io::stdout().write_all(printed.as_bytes()).context("write the report")?;
        if let Some(file) = &self.svg {
            std::fs::write(file, figure::svg(&report.machine))
                .with_context(|| format!("write {}", file.display()))?;
        }
        Ok(report.all_aims_met())
    }

    fn simulate(&self) -> anyhow::Result<Report> {
        let length = if self.quick {
            Length { machine_ns: 1_000_000_000, cluster_ns: 200_000_000, seed: self.seed }
        } else {
            Length {
                machine_ns: u64::from(self.seconds) * 1_000_000_000,
                cluster_ns: u64::from(self.cluster_seconds) * 1_000_000_000,
                seed: self.seed,
            }
        };
        let machine = scenario::comparison(length)?;
        let variants = scenario::variants(length)?;
        let cluster = scenario::cluster(length)?;
        let aims = report::aims(&machine, &cluster);
        Ok(Report {
            machine_s: length.machine_ns as f64 / 1e9,
            cluster_s: length.cluster_ns as f64 / 1e9,
            seed: self.seed,
            quick: self.quick,
            machine,
            variants,
            cluster,
            aims,
        })
    }
}
