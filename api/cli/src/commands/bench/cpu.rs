//! CPU time of process trees, from /proc (proc(5), `stat` fields 14 to 17).
//!
//! A tree's sum of own and reaped children's time only grows by work: a process that ends hands
//! its time to the parent that reaps it, which is in the tree, too. Resolution is a clock tick
//! (10 ms), so single rounds are rough and the median counts.

use std::time::Duration;

use mfaas_supervisor::{cpu_ticks, descendants, stat, ticks_per_second};

/// A measurement of everything below one process, and of ourselves.
#[derive(Debug)]
pub(super) struct Clock {
    root: i32,
    tree: u64,
    own: Duration,
}

impl Clock {
    /// Starts measuring.
    pub(super) fn start(root: i32) -> Self {
        Self { root, tree: tree(root), own: own() }
    }

    /// CPU time since the start.
    pub(super) fn elapsed(&self) -> Duration {
        duration(tree(self.root).saturating_sub(self.tree)) + own().saturating_sub(self.own)
    }
}

fn tree(root: i32) -> u64 {
    cpu_ticks(descendants(root).into_iter().chain([root]))
}

/// Our own time, without that of children.
fn own() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(u64::try_from(time.tv_sec).unwrap_or(0), u32::try_from(time.tv_nsec).unwrap_or(0))
}

/// Time of all children that we have reaped so far.
pub(super) fn reaped_children() -> Duration {
    let pid = rustix::process::getpid().as_raw_nonzero().get();
    let all = duration(stat(pid).map_or(0, |stat| stat.cpu_ticks));
    all.saturating_sub(own())
}

fn duration(ticks: u64) -> Duration {
    Duration::from_secs_f64(ticks as f64 / ticks_per_second() as f64)
}
