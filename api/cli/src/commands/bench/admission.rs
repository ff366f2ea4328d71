//! What admission costs, stage by stage, beside the bare compiler in the same run.
//!
//! No server, queue or node: the builder's own stages, by its own meter (this program and every
//! sandboxed command that a stage ran), against the two compiler calls behind the same artifact.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use mfaas_supervisor::{Home, Siblings, current_dependencies, current_toolchain};
use serde::Deserialize;

use super::bare::Bare;
use super::report::{Aim, HELLO_EXTRA_CPU_MS_MAX, REAL_CPU_RATIO_MAX, Row, Sample, Table, ms, ratio, spread};
use super::{measured_bare, package::Package};
use crate::failure::Failure;

/// One round: every stage of one check, and the bare compilation beside it.
#[derive(Debug)]
pub(super) struct Round {
    stages: BTreeMap<usize, Stage>,
    wall: Duration,
    bare: Sample,
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

/// All rounds of all packages; the first package is the small one.
#[derive(Debug, Default)]
pub(super) struct Report {
    packages: Vec<(String, Vec<Round>)>,
}

/// Checks and compiles the package once each; which goes first alternates.
pub(super) fn one_round(home: &Home, package: &mut Package) -> Result<Round, Failure> {
    let round = package.change()?;
    let bare = Bare::of(home, package.path())?;
    if round % 2 == 0 {
        let (stages, wall) = check(home, package.path())?;
        Ok(Round { stages, wall, bare: measured_bare(&bare)? })
    } else {
        let bare = measured_bare(&bare)?;
        let (stages, wall) = check(home, package.path())?;
        Ok(Round { stages, wall, bare })
    }
}

fn check(home: &Home, package: &Path) -> Result<(BTreeMap<usize, Stage>, Duration), Failure> {
    let builder = Siblings::beside_us()?.path("mfaas-builder");
    let begin = Instant::now();
    let output = Command::new(&builder)
        .arg("check")
        .arg(package)
        .arg("--json")
        .env("MFAAS_TOOLCHAIN_DIR", current_toolchain(home)?)
        .env("MFAAS_DEPS_DIR", current_dependencies(home)?)
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .map_err(Failure::io("cannot start", &builder))?;
    let wall = begin.elapsed();
    let printed: Printed = serde_json::from_slice(&output.stdout)
        .map_err(|e| Failure::Protocol { what: "mfaas-builder check".to_owned(), cause: e.to_string() })?;
    if printed.outcome != "passed" || printed.stages.iter().any(|stage| stage.outcome != "passed") {
        return Err(Failure::Usage(format!("{} is not admitted: {}", package.display(), printed.outcome)));
    }
    Ok((printed.stages.into_iter().enumerate().collect(), wall))
}

impl Round {
    fn cpu_ms(&self) -> f64 {
        self.stages.values().map(|stage| stage.cpu_ms as f64).sum()
    }
}

impl Report {
    /// Adds a package's rounds.
    pub(super) fn add(&mut self, name: String, rounds: Vec<Round>) {
        self.packages.push((name, rounds));
    }

    /// What was measured, and the aims that it is held against.
    pub(super) fn table(&self) -> Table {
        let packages =
            self.packages.iter().map(|(name, rounds)| (name.clone(), rounds.len(), rows(rounds))).collect();
        Table { packages, aims: self.aims() }
    }

    fn aims(&self) -> Vec<Aim> {
        self.packages
            .iter()
            .enumerate()
            .map(|(index, (name, rounds))| {
                if index == 0 {
                    let extra = spread(rounds.iter().map(|round| round.cpu_ms() - ms(round.bare.cpu)));
                    Aim {
                        what: format!("{name}: CPU above bare, ms"),
                        value: extra.median,
                        limit: HELLO_EXTRA_CPU_MS_MAX,
                    }
                } else {
                    let multiple = spread(rounds.iter().map(|round| round.cpu_ms() / ms(round.bare.cpu)));
                    let what = format!("{name}: CPU as a multiple of bare");
                    Aim { what, value: multiple.median, limit: REAL_CPU_RATIO_MAX }
                }
            })
            .collect()
    }
}

fn rows(rounds: &[Round]) -> Vec<Row> {
    let mut rows = Vec::new();
    let stages: Vec<(usize, String)> = rounds
        .first()
        .map(|round| round.stages.iter().map(|(at, stage)| (*at, stage.stage.clone())).collect())
        .unwrap_or_default();
    for (at, name) in stages {
        let of = |value: fn(&Stage) -> u64| {
            spread(rounds.iter().filter_map(|round| round.stages.get(&at)).map(|stage| value(stage) as f64))
        };
        rows.push((format!("{name} cpu"), "ms", of(|stage| stage.cpu_ms)));
        rows.push((format!("{name} wall"), "ms", of(|stage| stage.wall_ms)));
    }
    let row = |what: &str, unit, spread| (what.to_owned(), unit, spread);
    rows.extend([
        row("all stages cpu", "ms", spread(rounds.iter().map(Round::cpu_ms))),
        row("bare rustc cpu", "ms", spread(rounds.iter().map(|round| ms(round.bare.cpu)))),
        row("whole check wall", "ms", spread(rounds.iter().map(|round| ms(round.wall)))),
        row("bare rustc wall", "ms", spread(rounds.iter().map(|round| ms(round.bare.wall)))),
        row("wall ratio", "", spread(rounds.iter().map(|round| ratio(round.wall, round.bare.wall)))),
    ]);
    rows
}
