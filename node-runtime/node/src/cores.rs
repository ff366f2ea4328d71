//! Which cores run what: workers have theirs for themselves where the configuration says so.
//!
//! A worker looks for its next call for a while before it sleeps. On a core of its own it is in nobody's way, and
//! nothing of the node stands between it and its call. Threads inherit the cores of whoever starts
//! them, so the node's are set before its first thread is started.

use std::collections::BTreeSet;

use rustix::io::Errno;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// The cores of a node.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Cores {
    /// All that the node may use; empty when nothing is set apart.
    all: BTreeSet<usize>,
    /// One for each worker, in the order of their places.
    workers: Vec<usize>,
}

/// Cores that cannot be set apart; the text is one sentence.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CoresError {
    #[error("core {0} is not one that this process may use")]
    NotAllowed(usize),
    #[error("no core would be left for the node itself")]
    NoneLeft,
    #[error("asking for or setting the cores of a thread")]
    System(#[from] Errno),
}

impl Cores {
    /// Sets `workers` apart, and keeps this thread and all that it starts on the others. Without any
    /// of them nothing changes.
    pub(crate) fn set_apart(workers: &BTreeSet<usize>) -> Result<Self, CoresError> {
        if workers.is_empty() {
            return Ok(Self::default());
        }
        let allowed = sched_getaffinity(None)?;
        let all = (0..CpuSet::MAX_CPU).filter(|core| allowed.is_set(*core)).collect();
        let own = rest(&all, workers)?;
        stay_on(&own)?;
        Ok(Self { all, workers: workers.iter().copied().collect() })
    }

    /// Keeps this thread, and the process that it starts, where the worker at `place` belongs. One that all
    /// tenants share has a core of its own, or any if there are not enough; workers of tenants, of which
    /// few run at a time, have those cores together.
    pub(crate) fn take_place(&self, place: usize, is_shared: bool) -> Result<(), CoresError> {
        match self.workers.get(place) {
            _ if self.all.is_empty() => Ok(()),
            Some(core) if is_shared => stay_on(&BTreeSet::from([*core])),
            None if is_shared => stay_on(&self.all),
            Some(_) | None => stay_on(&self.workers.iter().copied().collect()),
        }
    }
}

/// What is left of `all` without `workers`.
fn rest(all: &BTreeSet<usize>, workers: &BTreeSet<usize>) -> Result<BTreeSet<usize>, CoresError> {
    if let Some(core) = workers.difference(all).next() {
        return Err(CoresError::NotAllowed(*core));
    }
    let own: BTreeSet<usize> = all.difference(workers).copied().collect();
    if own.is_empty() { Err(CoresError::NoneLeft) } else { Ok(own) }
}

fn stay_on(cores: &BTreeSet<usize>) -> Result<(), CoresError> {
    let mut set = CpuSet::new();
    cores.iter().for_each(|core| set.set(*core));
    Ok(sched_setaffinity(None, &set)?)
}

#[cfg(test)]
mod tests;
