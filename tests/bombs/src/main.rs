//! `mfaas-bombs`: every bomb in the real builder, then honest builds beside some of them.
//!
//! Prints two tables and ends with 1 if a bomb was not ended by a limit that its answer names, if
//! anything was left behind, or if honest builds took more than [`RATIO_MAX`] times as long.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a program that prints a table")]

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::bail;
use clap::Parser;
use mfaas_bombs::bomb::Bomb;
use mfaas_bombs::honest::{self, Times};
use mfaas_bombs::installed::Installed;
use mfaas_bombs::{run, table};

/// Median beside bombs by median alone.
const RATIO_MAX: f64 = 1.3;
/// Bombs that burn for long, each in another part of the compiler.
const HEAVY: [&str; 6] =
    ["instantiation-wide", "macro-tree", "const-copies", "many-loans", "format-doubling", "impl-trait-chain"];

#[derive(Debug, Parser)]
struct Arguments {
    /// Run only the bombs of these names.
    #[arg(long, value_name = "NAME")]
    only: Vec<String>,
    /// Lower a limit, as `cpu_seconds_max=5`.
    #[arg(long = "limit", value_name = "NAME=VALUE")]
    limits: Vec<String>,
    /// Do not run each bomb by itself.
    #[arg(long)]
    skip_bombs: bool,
    /// Bombs at a time.
    #[arg(long, default_value_t = 1)]
    jobs: usize,
    /// Rounds of honest builds, alone and beside a bomb; 0 for none.
    #[arg(long, default_value_t = 12)]
    rounds: usize,
    /// Builds of each example in each half of a round.
    #[arg(long, default_value_t = 2)]
    builds: usize,
    /// Lanes with bombs beside the honest lane; one a core is left for that by default.
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
    if !arguments.skip_bombs {
        faults.extend(all_bombs(&arguments, &installed)?);
    }
    if arguments.rounds > 0 {
        faults.extend(honest_builds(&arguments, &installed)?);
    }
    for fault in &faults {
        eprintln!("FAULT: {fault}");
    }
    Ok(if faults.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn all_bombs(arguments: &Arguments, installed: &Installed) -> anyhow::Result<Vec<String>> {
    let wanted = |bomb: &Bomb| arguments.only.is_empty() || arguments.only.contains(&bomb.name);
    let mut bombs: Vec<Bomb> = Bomb::all()?.into_iter().filter(wanted).collect();
    for limit in arguments.limits.iter().filter_map(|limit| limit.split_once('=')) {
        bombs.iter_mut().for_each(|bomb| bomb.allow(limit.0, code_of(limit.0)));
    }
    println!("{}", table::HEAD);
    let next = AtomicUsize::new(0);
    let lanes: Vec<anyhow::Result<Sum>> = std::thread::scope(|scope| {
        let lane = || lane(arguments, installed, &bombs, &next);
        let running: Vec<_> = (0..arguments.jobs.max(1)).map(|_| scope.spawn(lane)).collect();
        running.into_iter().map(|lane| lane.join().unwrap_or_else(|_| bail!("a lane panicked"))).collect()
    });
    let mut sum = Sum::default();
    for lane in lanes {
        sum.add(lane?);
    }
    println!(
        "\n{} bombs, {} faults, 0 builders lost, {:.0} s of CPU; the builder itself needed at most {} MiB.\n",
        sum.bombs,
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

/// What several bombs came to.
#[derive(Debug, Default)]
struct Sum {
    bombs: usize,
    faults: Vec<String>,
    cpu: Duration,
    builder_peak_bytes: u64,
}

impl Sum {
    fn add(&mut self, other: Self) {
        self.bombs += other.bombs;
        self.faults.extend(other.faults);
        self.cpu += other.cpu;
        self.builder_peak_bytes = self.builder_peak_bytes.max(other.builder_peak_bytes);
    }
}

/// Runs bombs until none is left. A builder that gives no report ends all of it.
fn lane(
    arguments: &Arguments,
    installed: &Installed,
    bombs: &[Bomb],
    next: &AtomicUsize,
) -> anyhow::Result<Sum> {
    let lowered: Vec<&str> = arguments.limits.iter().map(String::as_str).collect();
    let mut sum = Sum::default();
    while let Some(bomb) = bombs.get(next.fetch_add(1, Ordering::Relaxed)) {
        let ending = run::run(bomb, installed, &lowered)?;
        println!("{}", table::row(bomb, &ending));
        let faults = ending.faults(&bomb.expect);
        sum.add(Sum {
            bombs: 1,
            faults: faults.into_iter().map(|fault| format!("{}: {fault}", bomb.name)).collect(),
            cpu: ending.seen.cpu(),
            builder_peak_bytes: ending.seen.own_peak_bytes,
        });
    }
    Ok(sum)
}

fn honest_builds(arguments: &Arguments, installed: &Installed) -> anyhow::Result<Vec<String>> {
    let cores = std::thread::available_parallelism()?.get();
    let lanes = arguments.lanes.unwrap_or(cores.saturating_sub(1).max(1));
    let bombs = HEAVY.iter().map(|name| Bomb::named(name)).collect::<anyhow::Result<Vec<_>>>()?;
    let times = honest::measure(installed, &bombs, arguments.rounds, arguments.builds, lanes)?;
    println!("{}\n\n{lanes} lanes of bombs on {cores} cores.", table::honest(&times));
    let slow = |(example, times): (&&str, &Times)| {
        let ratio = times.ratio();
        (ratio > RATIO_MAX).then(|| format!("{example} takes {ratio:.2} times as long beside bombs"))
    };
    Ok(honest::EXAMPLES.iter().zip(&times).filter_map(slow).collect())
}
