//! `mfaas bench`: what a deploy costs beside the bare compiler, in the same run; and `bench node` with
//! `bench noisy-neighbour`, a program of their own.
//!
//! Rounds alternate, so that a machine that gets slower gets slower for both; every round changes
//! a constant in the source, so that nothing is answered from a store.

mod admission;
mod bare;
mod cpu;
mod node;
mod package;
mod report;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use mfaas_ident::FunctionName;
use mfaas_supervisor::{Home, State};
use mfaas_wire::DeploymentState;

use crate::commands::deploy::{WaitFor, deploy, exit_of, pack, wait_for_node};
use crate::commands::invoke;
use crate::commands::up::home_of;
use crate::failure::{Exit, Failure};
use crate::settings::Context;
use bare::Bare;
use cpu::Clock;
use package::Package;
use report::{Report, Round, Sample, Table};

/// What trails a deploy (drained workers, reports) is counted to it by waiting this long.
const SETTLE: Duration = Duration::from_millis(300);

/// Measurements.
#[derive(Debug, clap::Args)]
pub(crate) struct Bench {
    #[command(subcommand)]
    command: BenchCommand,
}

#[derive(Debug, clap::Subcommand)]
enum BenchCommand {
    /// Warm deploys beside bare rustc with the same flags: wall clock and CPU of all programs.
    ///
    /// For example: `mfaas bench deploy examples/hello --rounds 5`
    Deploy(BenchDeploy),
    /// Admission alone, stage by stage, beside bare rustc with the same flags: no server, no node.
    ///
    /// For example: `mfaas bench admission examples/hello`
    Admission(BenchAdmission),
    /// The node runtime beside what it is compared to: a bare ring, dlopen, processes, wasmtime, hyper.
    ///
    /// For example: `mfaas bench node`
    Node(node::BenchNode),
    /// A tenant at a low load beside one that takes what it can, with a row for each way to do so.
    ///
    /// Calls without a pause, long calls, log lines, large and slow bodies, connections: each through the
    /// ingress, on a node with worker pools per tenant and on one with a shared pool. For example:
    /// `mfaas bench noisy-neighbour --rows calls,long-calls`
    NoisyNeighbour(node::BenchNoisyNeighbour),
}

#[derive(Debug, clap::Args)]
struct BenchDeploy {
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
struct BenchAdmission {
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

impl Bench {
    /// Whether a server is asked, or a package deployed.
    pub(crate) fn needs_profile(&self) -> bool {
        !matches!(self.command, BenchCommand::Node(_) | BenchCommand::NoisyNeighbour(_))
    }

    /// Measures and reports; exit code 1 when an aim is missed.
    pub(crate) async fn run(self, context: &Context) -> Result<Exit, Failure> {
        match self.command {
            BenchCommand::Deploy(bench) => bench.run(context).await,
            BenchCommand::Admission(bench) => bench.run(context),
            BenchCommand::Node(bench) => bench.run(context),
            BenchCommand::NoisyNeighbour(bench) => bench.run(context),
        }
    }
}

impl BenchDeploy {
    async fn run(self, context: &Context) -> Result<Exit, Failure> {
        let home = home_of(self.home.as_deref())?;
        let supervisor = running(&home)?.pid;
        let packages =
            if self.packages.is_empty() { examples(["hello", "markdown"])? } else { self.packages.clone() };
        let mut report = Report::default();
        for path in &packages {
            let mut package = Package::copy_of(path)?;
            let mut rounds = Vec::new();
            for round in 0..=self.rounds {
                context.screen.note(&format!("{}: round {round} of {}", package.name, self.rounds));
                let measured = one_round(context, &home, supervisor, &mut package).await?;
                // Round 0 warms caches and pools.
                if round > 0 {
                    rounds.push(measured);
                }
            }
            report.add(package.name.to_string(), rounds);
            remove(context, &package.name).await?;
        }
        tell(context, &report.table())
    }
}

impl BenchAdmission {
    fn run(self, context: &Context) -> Result<Exit, Failure> {
        let home = home_of(self.home.as_deref())?;
        let packages = if self.packages.is_empty() {
            examples(["hello", "json-summary"])?
        } else {
            self.packages.clone()
        };
        let mut report = admission::Report::default();
        for path in &packages {
            let mut package = Package::copy_of(path)?;
            let mut rounds = Vec::new();
            for round in 0..=self.rounds {
                context.screen.note(&format!("{}: round {round} of {}", package.name, self.rounds));
                let measured = admission::one_round(&home, &mut package)?;
                if round > 0 {
                    rounds.push(measured);
                }
            }
            report.add(package.name.to_string(), rounds);
        }
        tell(context, &report.table())
    }
}

/// Exit code 1 when an aim is missed.
fn tell(context: &Context, table: &Table) -> Result<Exit, Failure> {
    context.screen.result(&table.document(), || table.text())?;
    Ok(if table.all_aims_met() { Exit::Ok } else { Exit::Failed })
}

/// One deploy and one bare compilation of the same changed source; which goes first alternates.
async fn one_round(
    context: &Context,
    home: &Home,
    supervisor: i32,
    package: &mut Package,
) -> Result<Round, Failure> {
    let round = package.change()?;
    let bare = Bare::of(home, package.path())?;
    if round % 2 == 0 {
        let deployed = measured_deploy(context, supervisor, package).await?;
        Ok(Round { deployed, bare: measured_bare(&bare)? })
    } else {
        let bare = measured_bare(&bare)?;
        Ok(Round { deployed: measured_deploy(context, supervisor, package).await?, bare })
    }
}

/// From packing to the answer of the first call, with the CPU of everything below the supervisor
/// and of ourselves.
async fn measured_deploy(context: &Context, supervisor: i32, package: &Package) -> Result<Sample, Failure> {
    let clock = Clock::start(supervisor);
    let begin = Instant::now();
    let archive = pack(package.path())
        .map_err(|_| Failure::Usage(format!("{} cannot be packed", package.path().display())))?;
    let client = context.client()?;
    let mut outcome = deploy(context, &client, &package.name, archive, WaitFor::Served).await?;
    wait_for_node(context, &client, &mut outcome).await?;
    if outcome.deployment.state != DeploymentState::Admitted {
        outcome.report(context, begin.elapsed())?;
        return Err(Failure::Told(exit_of(outcome.deployment.state, &outcome.deployment.diagnostics)));
    }
    let url = outcome.url.ok_or_else(|| Failure::Local("a served version has no address".to_owned()))?;
    let token = invoke::call_token(context, &package.name).await?;
    let headers = token.into_iter().map(|token| (reqwest::header::AUTHORIZATION, token)).collect();
    let answer = invoke::call(&url, headers, package.request.clone()).await?;
    if answer.status >= 500 {
        return Err(Failure::Local(format!("{} answers with status {}", package.name, answer.status)));
    }
    let wall = begin.elapsed();
    tokio::time::sleep(SETTLE).await;
    Ok(Sample { wall, cpu: clock.elapsed() })
}

fn measured_bare(bare: &Bare) -> Result<Sample, Failure> {
    let children = cpu::reaped_children();
    let begin = Instant::now();
    bare.run()?;
    Ok(Sample { wall: begin.elapsed(), cpu: cpu::reaped_children().saturating_sub(children) })
}

async fn remove(context: &Context, name: &FunctionName) -> Result<(), Failure> {
    let _: mfaas_wire::Removed = context.client()?.delete(&format!("/v1/functions/{name}")).await?;
    Ok(())
}

fn running(home: &Home) -> Result<State, Failure> {
    State::load(home)?.filter(|state| state.alive().count() > 0).ok_or_else(|| {
        Failure::Local(format!("nothing runs in {}; `mfaas up --detach` first", home.root().display()))
    })
}

/// Examples of the source tree that we stand in or were built in.
fn examples(names: [&str; 2]) -> Result<Vec<PathBuf>, Failure> {
    let own = std::env::current_exe().unwrap_or_default();
    let here = std::env::current_dir().unwrap_or_default();
    let examples = std::iter::once(here.as_path())
        .chain(own.ancestors())
        .map(|dir| dir.join("examples"))
        .find(|dir| dir.join("hello/Cargo.toml").is_file())
        .ok_or_else(|| Failure::Usage("examples/hello is not here; name the packages".to_owned()))?;
    Ok(names
        .map(|name| examples.join(name))
        .into_iter()
        .filter(|path: &PathBuf| Path::is_dir(path))
        .collect())
}

#[cfg(test)]
mod tests;
