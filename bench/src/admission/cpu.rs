//! CPU time of process trees, from /proc (proc_pid_stat(5), fields 14 to 17).
//!
//! A tree's sum of own and reaped children's time only grows by work: a process that ends hands
//! its time to the parent that reaps it, which is in the tree, too. Resolution is a clock tick
//! (10 ms), so single rounds are rough and the median counts.

use std::time::Duration;

use anyhow::Context as _;

use crate::sys::memory::descendants;

/// A measurement of everything below one process, and of our children that have ended.
#[derive(Debug)]
pub struct Clock {
    root: u32,
    begin: Duration,
}

impl Clock {
    /// Starts measuring.
    pub fn start(root: u32) -> anyhow::Result<Self> {
        Ok(Self { root, begin: spent(root)? })
    }

    /// CPU time since the start.
    pub fn elapsed(&self) -> anyhow::Result<Duration> {
        Ok(spent(self.root)?.saturating_sub(self.begin))
    }
}

fn spent(root: u32) -> anyhow::Result<Duration> {
    let below = descendants(root)?.into_iter().map(|child| child.process);
    // One that ends meanwhile is left out: its time is its parent's then.
    let ticks = below.chain([root]).filter_map(times).map(|times| times.iter().sum::<u64>());
    Ok(duration(ticks.sum()) + reaped_children()?)
}

/// Time of all children that we have reaped so far.
pub fn reaped_children() -> anyhow::Result<Duration> {
    let [_, _, user, system] = times(std::process::id()).context("read our own times")?;
    Ok(duration(user + system))
}

/// User and system time of a process, and of its children that it has reaped, in ticks.
fn times(process: u32) -> Option<[u64; 4]> {
    parse_times(&std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?)
}

/// The command name may hold anything, so fields count from its last `)`, behind which field 3 stands.
pub(super) fn parse_times(line: &str) -> Option<[u64; 4]> {
    let mut fields = line.rsplit_once(')')?.1.split_ascii_whitespace().skip(11);
    let mut next = || fields.next()?.parse().ok();
    Some([next()?, next()?, next()?, next()?])
}

fn duration(ticks: u64) -> Duration {
    Duration::from_secs_f64(ticks as f64 / rustix::param::clock_ticks_per_second() as f64)
}
