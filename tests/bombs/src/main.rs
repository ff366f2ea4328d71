//! `mfaas-bombs`: every bomb in the real builder, then honest builds beside some of them.
//!
//! Prints two tables and ends with 1 if a bomb was not ended by a limit that its answer names, if
//! anything was left behind, or if honest builds took more than [`RATIO_MAX`] times as long.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a program that prints a table")]

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use mfaas_bombs::bomb::Bomb;
use mfaas_bombs::honest::{self, Times};
use mfaas_bombs::installed::Installed;
use mfaas_bombs::{run, table};

/// Median beside bombs by median alone.
const RATIO_MAX: f64 = 1.3;
/// Bombs that burn for long, each in another part of the compiler.
const HEAVY: [&str; 6] = [
    "instantiation-wide",
    "macro-tree",
    "const-copies",
    "many-loans",
    "format-doubling",
    "impl-trait-chain",
];

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
    /// Rounds of honest builds, alone and beside a bomb; 0 for none.
    #[arg(long, default_value_t = 6)]
    rounds: usize,
    /// Builds of each example in each half of a round.
    #[arg(long, default_value_t = 5)]
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
    let lowered: Vec<&str> = arguments.limits.iter().map(String::as_str).collect();
    let (mut faults, mut count, mut builder_peak) = (Vec::new(), 0, 0);
    let mut cpu = Duration::ZERO;
    println!("{}", table::HEAD);
    for bomb in Bomb::all()?.iter().filter(|bomb| wanted(bomb)) {
        let ending = run::run(bomb, installed, &lowered)?;
        println!("{}", table::row(bomb, &ending));
        faults.extend(ending.faults(&bomb.expect).into_iter().map(|fault| format!("{}: {fault}", bomb.name)));
        count += 1;
        cpu += ending.seen.cpu();
        builder_peak = builder_peak.max(ending.seen.own_peak_bytes);
    }
    println!(
        "\n{count} bombs, {} faults, 0 builders lost, {:.0} s of CPU; the builder itself needed at most {} MiB.\n",
        faults.len(),
        cpu.as_secs_f64(),
        builder_peak >> 20
    );
    Ok(faults)
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
