//! CPU time of other processes, by thread, as the kernel's scheduler counts it.

use std::path::Path;

use anyhow::Context as _;

use super::memory::descendants;

/// One thread of a process.
#[derive(Debug, Clone, PartialEq)]
pub struct Thread {
    /// Its name, of which the kernel keeps 15 bytes.
    pub name: String,
    /// CPU time since it began, in microseconds.
    pub micros: f64,
}

/// The threads of a process (`/proc/PID/task/TID/schedstat`, the first number, in nanoseconds;
/// Documentation/scheduler/sched-stats.rst). A thread that ends meanwhile is left out.
pub fn threads(process: u32) -> anyhow::Result<Vec<Thread>> {
    let tasks = std::fs::read_dir(format!("/proc/{process}/task")).context("list the threads")?;
    Ok(tasks.filter_map(|task| thread(&task.ok()?.path())).collect())
}

fn thread(task: &Path) -> Option<Thread> {
    let name = std::fs::read_to_string(task.join("comm")).ok()?.trim_end().to_owned();
    let spent = std::fs::read_to_string(task.join("schedstat")).ok()?;
    let ns: f64 = spent.split_whitespace().next()?.parse().ok()?;
    Some(Thread { name, micros: ns / 1e3 })
}

/// CPU time of all threads of the descendants of a process, in microseconds.
pub fn descendants_micros(process: u32) -> anyhow::Result<f64> {
    let mut micros = 0.0;
    for child in descendants(process)? {
        // One that ends meanwhile is left out.
        let threads = threads(child.process).unwrap_or_default();
        micros += threads.iter().map(|thread| thread.micros).sum::<f64>();
    }
    Ok(micros)
}

/// CPU time of a process, of its descendants, and of those that have ended and were waited for, in seconds, in ticks of the
/// kernel (proc_pid_stat(5), utime, stime, cutime and cstime).
pub fn tree_seconds(process: u32) -> anyhow::Result<f64> {
    let ticks = |process, fields: std::ops::Range<usize>| -> Option<u64> {
        let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
        let fields = stat.rsplit_once(')')?.1.split_whitespace().skip(fields.start).take(fields.len());
        fields.map(|field| field.parse::<u64>().ok()).sum()
    };
    let ended = || ticks(process, 13..15).context("read the CPU time of a process");
    // One that ends meanwhile would count twice, or not at all.
    let (mut before, mut below);
    loop {
        before = ended()?;
        below = descendants(process)?.iter().filter_map(|one| ticks(one.process, 11..15)).sum::<u64>();
        if before == ended()? {
            break;
        }
    }
    let own = ticks(process, 11..13).context("read the CPU time of a process")?;
    Ok((own + before + below) as f64 / rustix::param::clock_ticks_per_second() as f64)
}

/// Part of the CPU time of all cores that was not idle between two looks at `/proc/stat` (proc_stat(5)).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cpu {
    idle: u64,
    all: u64,
}

impl Cpu {
    /// As it is now.
    pub fn read() -> anyhow::Result<Self> {
        let text = std::fs::read_to_string("/proc/stat").context("read /proc/stat")?;
        Self::parse(&text).context("/proc/stat has no line `cpu`")
    }

    fn parse(text: &str) -> Option<Self> {
        let line = text.lines().find_map(|line| line.strip_prefix("cpu "))?;
        // Guests count as user already.
        let ticks: Vec<u64> =
            line.split_whitespace().take(8).map(|word| word.parse().ok()).collect::<Option<_>>()?;
        Some(Self { idle: ticks.get(3)? + ticks.get(4)?, all: ticks.iter().sum() })
    }

    /// Since an earlier look; not a number without time in between.
    pub fn busy_since(self, earlier: Self) -> f64 {
        let all = self.all.saturating_sub(earlier.all) as f64;
        1.0 - self.idle.saturating_sub(earlier.idle) as f64 / all
    }
}

/// The scheduler's class of a process, as the kernel numbers it (sched(7)).
pub fn class(process: u32) -> Option<u32> {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    stat.rsplit_once(')')?.1.split_whitespace().nth(38)?.parse().ok()
}

/// The priority of a process among those of its class, as nice(2) has it; -20 is the highest.
pub fn niceness(process: u32) -> Option<i32> {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    stat.rsplit_once(')')?.1.split_whitespace().nth(16)?.parse().ok()
}

/// The process that started it: the second field after the program's name, which may hold anything (proc_pid_stat(5)).
pub(super) fn parent(process: u32) -> Option<u32> {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests;
