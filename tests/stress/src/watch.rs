//! What a program and everything below it use, watched through `/proc` from outside.
//!
//! The kernel tells nobody the CPU time of processes that were killed together with whoever would
//! have waited for them, as a sandbox's are; so it is read while they live. What is used between the
//! last look and the end is missed.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How often is looked.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// How long the kernel may take to clear a killed process away.
const CLEAR_WITHIN: Duration = Duration::from_secs(10);
/// The kernel's unit of CPU time in `/proc` (proc(5), USER_HZ).
const TICK: Duration = Duration::from_millis(10);

/// A process: its id, and when it was started, since ids are used again.
type Process = (u32, u64);

/// What was seen.
#[derive(Debug, Default)]
pub struct Seen {
    ticks: BTreeMap<Process, u64>,
    /// The largest resident set of one process below the watched one, in bytes.
    pub peak_bytes: u64,
    /// The largest resident set of the watched process itself, in bytes.
    pub own_peak_bytes: u64,
}

impl Seen {
    /// CPU time of all processes.
    pub fn cpu(&self) -> Duration {
        TICK * u32::try_from(self.ticks.values().sum::<u64>()).unwrap_or(u32::MAX)
    }

    /// Those that are still there, after a while for the kernel to clear up.
    pub fn left(&self) -> Vec<u32> {
        let deadline = Instant::now() + CLEAR_WITHIN;
        loop {
            let now = processes();
            let alive = |(pid, start): &&Process| now.get(pid).is_some_and(|stat| stat.start == *start);
            let left: Vec<u32> = self.ticks.keys().filter(alive).map(|(pid, _)| *pid).collect();
            if left.is_empty() || Instant::now() > deadline {
                return left;
            }
            std::thread::sleep(LOOK_EVERY);
        }
    }

    fn look(&mut self, root: u32) {
        let all = processes();
        for (pid, stat) in &all {
            if !descends(&all, *pid, root) {
                continue;
            }
            let ticks = self.ticks.entry((*pid, stat.start)).or_default();
            *ticks = (*ticks).max(stat.ticks);
            let peak = high_water(*pid);
            let kept = if *pid == root { &mut self.own_peak_bytes } else { &mut self.peak_bytes };
            *kept = (*kept).max(peak);
        }
    }
}

/// Looks until `ended`.
pub fn watch(root: u32, ended: &AtomicBool) -> Seen {
    let mut seen = Seen::default();
    while !ended.load(Ordering::Acquire) {
        seen.look(root);
        std::thread::sleep(LOOK_EVERY);
    }
    seen
}

struct Stat {
    parent: u32,
    ticks: u64,
    start: u64,
}

fn processes() -> BTreeMap<u32, Stat> {
    let Ok(entries) = std::fs::read_dir("/proc") else { return BTreeMap::new() };
    let pids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok());
    pids.filter_map(|pid| Some((pid, stat(pid)?))).collect()
}

/// `/proc/PID/stat` (proc(5)): state, parent, … user and system time (12, 13), … start (20) behind
/// the name in brackets. A process that nobody has waited for yet is gone.
fn stat(pid: u32) -> Option<Stat> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let fields: Vec<&str> = text.rsplit_once(')')?.1.split_whitespace().collect();
    let number = |index: usize| fields.get(index)?.parse::<u64>().ok();
    if fields.first() == Some(&"Z") {
        return None;
    }
    Some(Stat {
        parent: u32::try_from(number(1)?).ok()?,
        ticks: number(11)? + number(12)?,
        start: number(19)?,
    })
}

fn descends(all: &BTreeMap<u32, Stat>, pid: u32, root: u32) -> bool {
    let parents = std::iter::successors(Some(pid), |pid| all.get(pid).map(|stat| stat.parent));
    parents.take(64).any(|ancestor| ancestor == root)
}

/// `VmHWM` of `/proc/PID/status`, in bytes.
fn high_water(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|rest| rest.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok()).unwrap_or(0) << 10
}
