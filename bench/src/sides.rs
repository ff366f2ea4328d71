//! What is compared: one small trait, and a module for each way to run a function.
//!
//! A side that cannot be made on this machine says why, and its row says so; it must never stand in
//! with a figure of another.

pub mod bare;
pub mod http;
pub mod line;
pub mod load;
pub mod mfaas;
pub mod process;
pub mod wasm;

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context as _;

use crate::functions::Functions;
use crate::stats::Quantiles;
use crate::sys::{Cores, Tsc};

/// One way to run functions that are called by number.
pub trait Side {
    /// Which protections are on while a function runs, for the row.
    fn protections(&self) -> String;

    /// Gets ready to be measured: from here on it may keep the worker's core busy.
    fn wake(&mut self) -> anyhow::Result<()> {
        Ok(())
    }

    /// Leaves both cores to the next side.
    fn rest(&mut self) -> anyhow::Result<()> {
        Ok(())
    }

    /// One call of function `function`, alone in flight, its answer verified.
    fn call(&mut self, function: u64) -> anyhow::Result<Timing>;

    /// `calls` calls spread over the first `functions` functions, as many in flight as the side
    /// likes; how long all of them took.
    fn pipelined(&mut self, calls: u64, functions: u64) -> anyhow::Result<Duration> {
        let _ = (calls, functions);
        anyhow::bail!("this side answers one call at a time")
    }

    /// The process whose memory holds the functions.
    fn process(&self) -> Option<u32> {
        None
    }

    /// Where it answers over HTTP, if it does.
    fn target(&self) -> Option<&load::Target> {
        None
    }

    /// Memory that holds the functions for that process and for this one, once, in KiB.
    fn common_kib(&self) -> Option<f64> {
        None
    }
}

/// Stamps of one call, in cycles of the time stamp counter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timing {
    /// Before the first step of the call.
    pub sent: u64,
    /// After the last byte of the answer was there.
    pub answered: u64,
}

/// Everything that sides are made from.
#[derive(Debug)]
pub struct Kit {
    /// Where calls are made and answered.
    pub cores: Cores,
    /// All cores of this machine that may be used.
    pub all_cores: Vec<usize>,
    /// The time stamp counter as time.
    pub tsc: Tsc,
    /// The functions in every form.
    pub functions: Functions,
    /// The programs that sides start.
    pub programs: Programs,
}

/// Programs that sides start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Programs {
    directory: PathBuf,
}

impl Programs {
    /// Those in the directory of `program`, which is one of them.
    pub fn beside(program: &Path) -> anyhow::Result<Self> {
        let directory = program.parent().context("a program without a directory")?;
        Ok(Self { directory: directory.to_owned() })
    }

    /// This benchmark, as a side's other process.
    pub fn bench(&self) -> anyhow::Result<PathBuf> {
        self.find("mfaas-bench-node", "cd bench && cargo build --release")
    }

    /// One function as a program.
    pub fn function(&self) -> anyhow::Result<PathBuf> {
        self.find("mfaas-bench-function", "cd bench && cargo build --release")
    }

    /// The node's worker.
    pub fn worker(&self) -> anyhow::Result<PathBuf> {
        self.find("mfaas-worker", "cargo build --release -p mfaas-worker")
    }

    /// The node, with worker and loader beside it, which it starts itself.
    pub fn node(&self) -> anyhow::Result<PathBuf> {
        self.worker()?;
        self.find("mfaas-loader", "cargo build --release -p mfaas-loader")?;
        self.find("mfaas-node", "cargo build --release -p mfaas-node")
    }

    /// The isolation controller.
    pub fn isolation(&self) -> anyhow::Result<PathBuf> {
        self.find("mfaas-isolation", "cargo build --release -p mfaas-isolation-controller")
    }

    /// The data broker.
    pub fn broker(&self) -> anyhow::Result<PathBuf> {
        self.find("mfaas-broker", "cargo build --release -p mfaas-broker")
    }

    fn find(&self, name: &str, how: &str) -> anyhow::Result<PathBuf> {
        let program = self.directory.join(name);
        anyhow::ensure!(program.is_file(), "{name} is not in {}: `{how}`", self.directory.display());
        Ok(program)
    }
}

/// One round of single calls.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Latency {
    /// Sent until answered, in µs.
    pub whole: Quantiles,
}

/// The order in which a round calls `functions` functions: scattered, so that no prefetcher learns
/// it, and the same for every side.
pub fn scattered(number: u64, functions: u64) -> u64 {
    number.wrapping_mul(2_654_435_761) % functions.max(1)
}

/// One round of `calls` calls, one at a time, over the first `functions` functions. What was idle is
/// warmed first by a tenth as many.
pub fn latency(side: &mut dyn Side, tsc: Tsc, calls: u64, functions: u64) -> anyhow::Result<Latency> {
    side.wake()?;
    let taken = (0..calls / 10)
        .chain(0..calls)
        .map(|number| side.call(scattered(number, functions)))
        .collect::<anyhow::Result<Vec<Timing>>>();
    side.rest()?;
    let taken = taken?.split_off((calls / 10) as usize);
    Ok(Latency::of(&taken, tsc))
}

impl Latency {
    /// Of the calls of one round.
    pub fn of(calls: &[Timing], tsc: Tsc) -> Self {
        let micros = |until: u64, since: u64| tsc.micros(until.saturating_sub(since));
        Self { whole: Quantiles::of(calls.iter().map(|call| micros(call.answered, call.sent))) }
    }
}
