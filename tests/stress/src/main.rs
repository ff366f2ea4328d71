//! `mfaas-stress`: every stress input in the real builder, then benign builds beside some of them.
//!
//! Prints two tables and ends with 1 if a stress input was not ended by a limit that its answer names, if
//! anything was left behind, or if benign builds took more than [`RATIO_MAX`] times as long.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a program that prints a table")]

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::bail;
use clap::Parser;
use mfaas_stress::benign::{self, Times};
use mfaas_stress::input::StressInput;
use mfaas_stress::installed::Installed;
use mfaas_stress::{run, table};

/// Median beside stress inputs by median alone.
const RATIO_MAX: f64 = 1.3;
/// Stress inputs that burn for long, each in another part of the compiler.
const HEAVY: [&str; 6] =
    ["instantiation-wide", "macro-tree", "const-copies", "many-loans", "format-doubling", "impl-trait-chain"];

#[derive(Debug, Parser)]
struct Arguments {
    /// Run only the stress inputs of these names.
    #[arg(long, value_name = "NAME")]
    only: Vec<String>,
    /// Lower a limit, as `cpu_seconds_max=5`.
    #[arg(long = "limit", value_name = "NAME=VALUE")]
    limits: Vec<String>,
    /// Do not run each stress input by itself.
    #[arg(long, alias = "skip-bombs")]
    skip_inputs: bool,
    /// Stress inputs at a time.
    #[arg(long, default_value_t = 1)]
    jobs: usize,
    /// Rounds of benign builds, alone and beside a stress input; 0 for none.
    #[arg(long, default_value_t = 12)]
    rounds: usize,
    /// Builds of each example in each half of a round.
    #[arg(long, default_value_t = 2)]
    builds: usize,
    /// Lanes with stress inputs beside the benign lane; one a core is left for that by default.
    #[arg(long)]
    lanes: Option<usize>,
    /// Another `mfaas-builder`; its `mfaas-worker` lies beside it.
    #[arg(long, value_name = "FILE")]
    builder: Option<PathBuf>,
}

fn main() -> anyhow::Result<ExitCode> {
    let arguments = Arguments::parse();
    let installed = Installed::get(arguments.builder.clone())?;
    let mut faults = Vec::new();
    if !arguments.skip_inputs {
        faults.extend(all_inputs(&arguments, &installed)?);
    }
    if arguments.rounds > 0 {
        faults.extend(benign_builds(&arguments, &installed)?);
    }
    for fault in &faults {
        eprintln!("FAULT: {fault}");
    }
    Ok(if faults.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn all_inputs(arguments: &Arguments, installed: &Installed) -> anyhow::Result<Vec<String>> {
    let wanted = |input: &StressInput| arguments.only.is_empty() || arguments.only.contains(&input.name);
    let mut inputs: Vec<StressInput> = StressInput::all()?.into_iter().filter(wanted).collect();
    for limit in arguments.limits.iter().filter_map(|limit| limit.split_once('=')) {
        inputs.iter_mut().for_each(|input| input.allow(limit.0, code_of(limit.0)));
    }
    println!("{}", table::HEAD);
    let next = AtomicUsize::new(0);
    let lanes: Vec<anyhow::Result<Sum>> = std::thread::scope(|scope| {
        let lane = || lane(arguments, installed, &inputs, &next);
        let running: Vec<_> = (0..arguments.jobs.max(1)).map(|_| scope.spawn(lane)).collect();
        running.into_iter().map(|lane| lane.join().unwrap_or_else(|_| bail!("a lane panicked"))).collect()
    });
    let mut sum = Sum::default();
    for lane in lanes {
        sum.add(lane?);
    }
    println!(
        "\n{} stress inputs, {} faults, 0 builders lost, {:.0} s of CPU; the builder itself needed at most {} MiB.\n",
        sum.inputs,
        sum.faults.len(),
        sum.cpu.as_secs_f64(),
        sum.builder_peak_bytes >> 20
    );
    Ok(sum.faults)
}

/// The code of a limit that may be lowered: it comes before those that are expected.
fn code_of(limit: &str) -> &'static str {
    match limit {
        "cpu_seconds_max" => "MF0402",
        "wall_seconds_max" => "MF0403",
        "file_bytes_max" | "output_bytes_max" => "MF0405",
        _ => "MF0404",
    }
}

/// What several stress inputs came to.
#[derive(Debug, Default)]
struct Sum {
    inputs: usize,
    faults: Vec<String>,
    cpu: Duration,
    builder_peak_bytes: u64,
}

impl Sum {
    fn add(&mut self, other: Self) {
        self.inputs += other.inputs;
        self.faults.extend(other.faults);
        self.cpu += other.cpu;
        self.builder_peak_bytes = self.builder_peak_bytes.max(other.builder_peak_bytes);
    }
}

/// Runs stress inputs until none is left. A builder that gives no report ends all of it.
fn lane(
    arguments: &Arguments,
    installed: &Installed,
    inputs: &[StressInput],
    next: &AtomicUsize,
) -> anyhow::Result<Sum> {
    let lowered: Vec<&str> = arguments.limits.iter().map(String::as_str).collect();
    let mut sum = Sum::default();
    while let Some(input) = inputs.get(next.fetch_add(1, Ordering::Relaxed)) {
        let ending = run::run(input, installed, &lowered)?;
        println!("{}", table::row(input, &ending));
        let faults = ending.faults(&input.expect);
        sum.add(Sum {
            inputs: 1,
            faults: faults.into_iter().map(|fault| format!("{}: {fault}", input.name)).collect(),
            cpu: ending.seen.cpu(),
            builder_peak_bytes: ending.seen.own_peak_bytes,
        });
    }
    Ok(sum)
}

fn benign_builds(arguments: &Arguments, installed: &Installed) -> anyhow::Result<Vec<String>> {
    let cores = std::thread::available_parallelism()?.get();
    let lanes = arguments.lanes.unwrap_or(cores.saturating_sub(1).max(1));
    let inputs = HEAVY.iter().map(|name| StressInput::named(name)).collect::<anyhow::Result<Vec<_>>>()?;
    let times = benign::measure(installed, &inputs, arguments.rounds, arguments.builds, lanes)?;
    println!("{}\n\n{lanes} lanes of stress inputs on {cores} cores.", table::benign(&times));
    let slow = |(example, times): (&&str, &Times)| {
        let ratio = times.ratio();
        (ratio > RATIO_MAX).then(|| format!("{example} takes {ratio:.2} times as long beside stress inputs"))
    };
    Ok(benign::EXAMPLES.iter().zip(&times).filter_map(slow).collect())
}
