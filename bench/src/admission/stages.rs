//! What admission costs, stage by stage, beside the bare compiler in the same run.
//!
//! No server, queue or node: the builder's own stages, by its own meter (this program and every
//! sandboxed command that a stage ran), against the two compiler calls behind the same artifact.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use serde::Deserialize;

use super::bare::Builder;
use super::package::Package;
use super::table::{Aim, REAL_CPU_RATIO_MAX, Row, SMALL_EXTRA_CPU_MS_MAX, Table, ms, ratio};
use super::{Ended, Plan, Round};

/// One check of a package, stage by stage.
#[derive(Debug, Clone)]
struct Checked {
    stages: Vec<Stage>,
    wall: Duration,
}

/// What one stage took.
#[derive(Debug, Clone, Deserialize)]
struct Stage {
    stage: String,
    outcome: String,
    #[serde(default)]
    wall_ms: u64,
    #[serde(default)]
    cpu_ms: u64,
}

#[derive(Deserialize)]
struct Printed {
    outcome: String,
    stages: Vec<Stage>,
}

/// Measures the packages; the first one is the small one.
pub fn measure(plan: &Plan, packages: &[PathBuf]) -> anyhow::Result<Table> {
    let mut table = Table::default();
    for path in packages {
        let mut package = Package::copy_of(path)?;
        let rounds = plan.rounds(&mut package, |package| check(&plan.builder, package.path()))?;
        let aim = aim(package.name.as_str(), table.is_empty(), &rounds);
        table.add(package.name.to_string(), rounds.len(), rows(&rounds), vec![aim]);
    }
    Ok(table)
}

fn check(builder: &Builder, package: &Path) -> anyhow::Result<Checked> {
    let begin = Instant::now();
    let output = builder.command("check", package).stderr(Stdio::inherit()).output();
    let output = output.with_context(|| format!("cannot start {}", builder.program.display()))?;
    let wall = begin.elapsed();
    let printed: Printed = serde_json::from_slice(&output.stdout)
        .context("mfaas-builder check answered with something unexpected")?;
    if printed.outcome != "passed" || printed.stages.iter().any(|stage| stage.outcome != "passed") {
        return Err(Ended::usage(format!("{} is not admitted: {}", package.display(), printed.outcome)));
    }
    Ok(Checked { stages: printed.stages, wall })
}

impl Checked {
    fn cpu_ms(&self) -> f64 {
        self.stages.iter().map(|stage| stage.cpu_ms as f64).sum()
    }
}

fn aim(name: &str, is_small: bool, rounds: &[Round<Checked>]) -> Aim {
    if is_small {
        let extra = rounds.iter().map(|round| round.ours.cpu_ms() - ms(round.bare.cpu));
        Aim::new(name, "CPU above bare, ms", SMALL_EXTRA_CPU_MS_MAX, extra)
    } else {
        let multiple = rounds.iter().map(|round| round.ours.cpu_ms() / ms(round.bare.cpu));
        Aim::new(name, "CPU as a multiple of bare", REAL_CPU_RATIO_MAX, multiple)
    }
}

fn rows(rounds: &[Round<Checked>]) -> Vec<Row> {
    let mut rows = Vec::new();
    let stages = rounds.first().map(|round| round.ours.stages.as_slice()).unwrap_or_default();
    for (at, Stage { stage: name, .. }) in stages.iter().enumerate() {
        let of = |value: fn(&Stage) -> u64| {
            rounds.iter().filter_map(move |round| Some(value(round.ours.stages.get(at)?) as f64))
        };
        rows.push(Row::new(format!("{name} cpu"), "ms", of(|stage| stage.cpu_ms)));
        rows.push(Row::new(format!("{name} wall"), "ms", of(|stage| stage.wall_ms)));
    }
    rows.extend([
        Row::new("all stages cpu", "ms", rounds.iter().map(|round| round.ours.cpu_ms())),
        Row::new("bare rustc cpu", "ms", rounds.iter().map(|round| ms(round.bare.cpu))),
        Row::new("whole check wall", "ms", rounds.iter().map(|round| ms(round.ours.wall))),
        Row::new("bare rustc wall", "ms", rounds.iter().map(|round| ms(round.bare.wall))),
        Row::new("wall ratio", "", rounds.iter().map(|round| ratio(round.ours.wall, round.bare.wall))),
    ]);
    rows
}
