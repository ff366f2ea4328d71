//! `mfaas bench deploy` and `mfaas bench admission`: what a deploy costs beside the bare compiler, whole and stage by stage.
//!
//! The work is a program of its own (`bench/`), which is told what compiles and which supervisor runs.

use std::ffi::OsString;
use std::path::PathBuf;

use mfaas_supervisor::{Home, State, current_dependencies, current_toolchain};

use super::program::{add, run};
use crate::commands::up::home_of;
use crate::failure::{Exit, Failure};
use crate::settings::{Context, Global};

/// The program, beside our own.
const PROGRAM: &str = "mfaas-bench-admission";

#[derive(Debug, clap::Args)]
pub(super) struct BenchDeploy {
    /// The packages to deploy; examples/hello and examples/markdown when absent.
    #[arg(value_name = "PATH")]
    packages: Vec<PathBuf>,
    /// Measured rounds for each package; one more warms up.
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,
    /// The home that was given to `mfaas up`; its programs are measured.
    #[arg(long, value_name = "DIR", env = "MFAAS_HOME")]
    home: Option<PathBuf>,
}

#[derive(Debug, clap::Args)]
pub(super) struct BenchAdmission {
    /// The packages to check; examples/hello and examples/json-summary when absent.
    #[arg(value_name = "PATH")]
    packages: Vec<PathBuf>,
    /// Measured rounds for each package; one more warms up.
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,
    /// The home whose toolchain and dependencies are used.
    #[arg(long, value_name = "DIR", env = "MFAAS_HOME")]
    home: Option<PathBuf>,
}

impl BenchDeploy {
    /// Runs the program; exit code 1 when an aim is missed.
    pub(super) fn run(&self, context: &Context) -> Result<Exit, Failure> {
        let home = home_of(self.home.as_deref())?;
        let supervisor = Some(running(&home)?.pid.to_string());
        let materials = materials(&home)?;
        run(PROGRAM, &self.arguments(materials, supervisor, &context.global), &context.global)
    }

    fn arguments(
        &self,
        materials: [PathBuf; 2],
        supervisor: Option<String>,
        global: &Global,
    ) -> Vec<OsString> {
        let mut arguments = vec!["deploy".into()];
        add(&mut arguments, "--supervisor", supervisor);
        arguments.extend(measuring(materials, self.rounds, &self.packages, global));
        arguments
    }
}

impl BenchAdmission {
    /// As [`BenchDeploy::run`].
    pub(super) fn run(&self, context: &Context) -> Result<Exit, Failure> {
        let materials = materials(&home_of(self.home.as_deref())?)?;
        run(PROGRAM, &self.arguments(materials, &context.global), &context.global)
    }

    fn arguments(&self, materials: [PathBuf; 2], global: &Global) -> Vec<OsString> {
        let mut arguments = vec!["stages".into()];
        arguments.extend(measuring(materials, self.rounds, &self.packages, global));
        arguments
    }
}

/// What both commands of the program have.
fn measuring(
    [toolchain, dependencies]: [PathBuf; 2],
    rounds: u32,
    packages: &[PathBuf],
    global: &Global,
) -> Vec<OsString> {
    let mut arguments = Vec::new();
    add(&mut arguments, "--toolchain", Some(toolchain));
    add(&mut arguments, "--deps", Some(dependencies));
    add(&mut arguments, "--rounds", Some(rounds.to_string()));
    let flags = [("--json", global.json), ("--quiet", global.quiet)];
    arguments.extend(flags.into_iter().filter(|(_, given)| *given).map(|(flag, _)| flag.into()));
    if !packages.is_empty() {
        arguments.push("--".into());
        arguments.extend(packages.iter().map(Into::into));
    }
    arguments
}

/// Toolchain and dependencies that builds of the home use.
fn materials(home: &Home) -> Result<[PathBuf; 2], Failure> {
    Ok([current_toolchain(home)?, current_dependencies(home)?])
}

fn running(home: &Home) -> Result<State, Failure> {
    State::load(home)?.filter(|state| state.alive().count() > 0).ok_or_else(|| {
        Failure::Local(format!("nothing runs in {}; `mfaas up --detach` first", home.root().display()))
    })
}

#[cfg(test)]
mod tests;
