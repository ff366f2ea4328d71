//! What all processes of one sandbox use together, read from `/proc` from outside.
//!
//! The kernel's own limits hold for each process. This holds for their sum where no control group
//! does (see `cgroup`): it is read every [`crate::sandbox`] round, so a sandbox can be above a limit
//! for as long as one round takes, never for longer. It only reads; ending a sandbox is the caller's.

use std::time::Duration;

/// Processes that are looked at; a sandbox with more of them has too many whatever its limit is.
const PROCESSES_MAX: usize = 4_096;
/// What `/proc` counts CPU time in: USER_HZ, the same on every x86-64 kernel.
const TICK: Duration = Duration::from_millis(10);

/// The use of a process and everything below it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct TreeUse {
    /// Processes and threads.
    pub(crate) tasks: u64,
    /// Memory that belongs to them alone, page tables included; what several share counts for each.
    pub(crate) memory_bytes: u64,
    /// CPU time of those that live and of those that their parents have waited for.
    pub(crate) cpu: Duration,
}

/// Whether this kernel tells the children of a process.
pub(crate) fn can_be_read() -> bool {
    let own = std::process::id();
    std::fs::read(format!("/proc/{own}/task/{own}/children")).is_ok()
        && std::fs::read_to_string("/proc/self/status").is_ok_and(|status| memory_bytes(&status) > 0)
}

/// Sums over `root` and all its descendants. Those that end meanwhile do not count.
pub(crate) fn tree_use(root: u32) -> TreeUse {
    let mut sum = TreeUse::default();
    let mut open = vec![root];
    let mut seen = 0;
    while let Some(process) = open.pop() {
        seen += 1;
        if seen > PROCESSES_MAX {
            return TreeUse { tasks: u64::MAX, ..sum };
        }
        let directory = format!("/proc/{process}");
        let Ok(stat) = std::fs::read_to_string(format!("{directory}/stat")) else { continue };
        let (tasks, cpu) = tasks_and_cpu(&stat);
        sum.tasks = sum.tasks.saturating_add(tasks);
        sum.cpu = sum.cpu.saturating_add(cpu);
        if let Ok(status) = std::fs::read_to_string(format!("{directory}/status")) {
            sum.memory_bytes = sum.memory_bytes.saturating_add(memory_bytes(&status));
        }
        open.extend(children(&directory));
    }
    sum
}

/// Each thread has its own list.
fn children(directory: &str) -> Vec<u32> {
    let Ok(threads) = std::fs::read_dir(format!("{directory}/task")) else { return Vec::new() };
    let lists = threads
        .take(PROCESSES_MAX)
        .filter_map(|thread| std::fs::read_to_string(thread.ok()?.path().join("children")).ok());
    lists
        .flat_map(|list| list.split_whitespace().filter_map(|id| id.parse().ok()).collect::<Vec<u32>>())
        .collect()
}

/// From `/proc/PID/stat`: fields 14 to 17 are user and system time, own and of children that were
/// waited for, field 20 counts threads. The name in field 2 may contain anything but ends with the
/// last bracket.
pub(crate) fn tasks_and_cpu(stat: &str) -> (u64, Duration) {
    let fields = stat.rsplit_once(')').map_or("", |(_, fields)| fields);
    let fields: Vec<u64> = fields.split_whitespace().map(|field| field.parse().unwrap_or(0)).collect();
    let ticks: u64 = fields.iter().skip(11).take(4).sum();
    let cpu = TICK.saturating_mul(u32::try_from(ticks).unwrap_or(u32::MAX));
    (fields.get(17).copied().unwrap_or(0), cpu)
}

/// From `/proc/PID/status`, in which all sizes are in KiB: private and shared anonymous memory,
/// what of it is swapped out, and page tables. Cached files are not memory of the process.
pub(crate) fn memory_bytes(status: &str) -> u64 {
    const COUNTED: [&str; 4] = ["RssAnon:", "RssShmem:", "VmSwap:", "VmPTE:"];
    let kib = status.lines().filter_map(|line| {
        let mut fields = line.split_whitespace();
        COUNTED.contains(&fields.next()?).then_some(fields.next()?.parse::<u64>().ok()?)
    });
    kib.sum::<u64>().saturating_mul(1024)
}
