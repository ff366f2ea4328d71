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

/// The process that started it: the second field after the program's name, which may hold anything (proc_pid_stat(5)).
pub(super) fn parent(process: u32) -> Option<u32> {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()
}
