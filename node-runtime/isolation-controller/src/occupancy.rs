//! Which cores run nothing: from the kernel's scheduler, by a program of BPF, where that is permitted, else from `/proc/stat`, which
//! is a hundred times coarser.

mod bpf;
mod statistics;

use std::io;

use mfaas_isolation::CoreSet;

use crate::bpf::BpfError;
pub(crate) use bpf::Running;
use statistics::Statistics;

/// A way to look at the cores.
#[derive(Debug)]
pub(crate) enum Probe {
    /// What runs on each core at this moment.
    Running(Running),
    /// What each core did since the look before.
    Statistics(Statistics),
}

impl Probe {
    /// The best that this process may have, and why it is not a better one.
    pub(crate) fn open(cores: &CoreSet) -> (Self, Option<BpfError>) {
        match Running::watch(cores) {
            Ok(running) => (Self::Running(running), None),
            Err(error) => (Self::Statistics(Statistics::default()), Some(error)),
        }
    }

    /// What it is called.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Running(_) => "BPF at sched_switch",
            Self::Statistics(_) => "/proc/stat",
        }
    }

    /// How often to look makes sense, in microseconds.
    pub(crate) fn interval_us(&self) -> u64 {
        match self {
            Self::Running(_) => 100,
            // Its clock has ticks of ten milliseconds.
            Self::Statistics(_) => 40_000,
        }
    }

    /// Those of `cores` that run nothing but the caller.
    pub(crate) fn idle(&mut self, cores: &CoreSet) -> io::Result<CoreSet> {
        match self {
            Self::Running(running) => running.idle(cores),
            Self::Statistics(statistics) => statistics.idle(cores),
        }
    }
}
