//! What a whole deploy costs, from the start of `mfaas deploy` to the answer of the first call, beside the bare compiler in
//! the same run: wall clock, and CPU of all programs.

use std::ffi::OsStr;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use anyhow::Context as _;

use super::cpu::Clock;
use super::package::Package;
use super::table::{Aim, REAL_CPU_RATIO_MAX, Row, SMALL_EXTRA_CPU_MS_MAX, Sample, Table, ms, ratio};
use super::{Ended, Plan, Round};

/// Aim for a small package: from the command's start to the first answer, in milliseconds.
const SMALL_ANSWER_MS_MAX: f64 = 1500.0;

/// What trails a deploy (drained workers, reports) is counted to it by waiting this long.
const SETTLE: Duration = Duration::from_millis(300);

/// An installation that runs, and the program that people use with it.
#[derive(Debug)]
pub struct Installation {
    /// `mfaas`.
    pub mfaas: PathBuf,
    /// The process of its supervisor.
    pub supervisor: u32,
    /// Whether `mfaas` tells failures as JSON.
    pub json: bool,
}

/// Measures the packages; the first one is the small one.
pub fn measure(plan: &Plan, installation: &Installation, packages: &[PathBuf]) -> anyhow::Result<Table> {
    let mut table = Table::default();
    for path in packages {
        let mut package = Package::copy_of(path)?;
        let rounds = plan.rounds(&mut package, |package| installation.deploy(package))?;
        let name = package.name.as_str();
        table.add(name.to_owned(), rounds.len(), rows(&rounds), aims(name, table.is_empty(), &rounds));
        installation.ask(["delete", "--yes", name])?;
    }
    Ok(table)
}

impl Installation {
    fn deploy(&self, package: &Package) -> anyhow::Result<Sample> {
        let clock = Clock::start(self.supervisor)?;
        let begin = Instant::now();
        let name = package.name.as_str();
        self.ask(["deploy".as_ref(), package.path().as_os_str(), "--name".as_ref(), name.as_ref()])?;
        self.call(package)?;
        let wall = begin.elapsed();
        std::thread::sleep(SETTLE);
        Ok(Sample { wall, cpu: clock.elapsed()? })
    }

    /// Any answer of the function will do, but not that it could not answer.
    fn call(&self, package: &Package) -> anyhow::Result<()> {
        let name = package.name.as_str();
        let mut command = self.command();
        command.args(["--json", "invoke", name]);
        match package.request() {
            Some(request) => command.arg("--file").arg(request),
            None => command.args(["--data", ""]),
        };
        let answer = self.output(&mut command)?;
        let document: serde_json::Value = serde_json::from_slice(&answer.stdout).unwrap_or_default();
        match document["status"].as_u64() {
            Some(..500) => Ok(()),
            Some(status) => anyhow::bail!("{name} answers with status {status}"),
            None => Err(told(&answer)),
        }
    }

    /// Runs a command that has to succeed; what it says otherwise is said here.
    fn ask<T: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = T>) -> anyhow::Result<()> {
        let mut command = self.command();
        if self.json {
            command.arg("--json");
        }
        let output = self.output(command.args(arguments))?;
        if output.status.success() {
            return Ok(());
        }
        std::io::stdout().write_all(&output.stdout).context("write what mfaas said")?;
        Err(told(&output))
    }

    fn command(&self) -> Command {
        let mut command = Command::new(&self.mfaas);
        command.arg("--quiet").stdin(Stdio::null()).stderr(Stdio::inherit());
        command
    }

    fn output(&self, command: &mut Command) -> anyhow::Result<Output> {
        command.output().with_context(|| format!("cannot start {}", self.mfaas.display()))
    }
}

/// It has said itself what went wrong; its exit code is ours.
fn told(output: &Output) -> anyhow::Error {
    let code = output.status.code().and_then(|code| u8::try_from(code).ok());
    Ended { code: code.filter(|code| *code != 0).unwrap_or(1), text: None }.into()
}

pub(super) fn aims(name: &str, is_small: bool, rounds: &[Round<Sample>]) -> Vec<Aim> {
    if is_small {
        let extra = rounds.iter().map(|round| ms(round.ours.cpu) - ms(round.bare.cpu));
        let answered = rounds.iter().map(|round| ms(round.ours.wall));
        return vec![
            Aim::new(name, "CPU above bare, ms", SMALL_EXTRA_CPU_MS_MAX, extra),
            Aim::new(name, "answered, ms", SMALL_ANSWER_MS_MAX, answered),
        ];
    }
    let multiple = rounds.iter().map(|round| ratio(round.ours.cpu, round.bare.cpu));
    vec![Aim::new(name, "CPU as a multiple of bare", REAL_CPU_RATIO_MAX, multiple)]
}

pub(super) fn rows(rounds: &[Round<Sample>]) -> Vec<Row> {
    vec![
        Row::new("deploy wall", "ms", rounds.iter().map(|r| ms(r.ours.wall))),
        Row::new("bare rustc wall", "ms", rounds.iter().map(|r| ms(r.bare.wall))),
        Row::new("wall ratio", "", rounds.iter().map(|r| ratio(r.ours.wall, r.bare.wall))),
        Row::new("deploy cpu", "ms", rounds.iter().map(|r| ms(r.ours.cpu))),
        Row::new("bare rustc cpu", "ms", rounds.iter().map(|r| ms(r.bare.cpu))),
        Row::new("cpu ratio", "", rounds.iter().map(|r| ratio(r.ours.cpu, r.bare.cpu))),
    ]
}
