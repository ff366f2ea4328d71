//! A control group for each sandbox, where this machine lets us make one: then the kernel counts
//! memory and processes of the whole sandbox itself.
//!
//! Groups are made below the group that this process is in (version 1), or beside or below it where
//! the controllers are handed down (version 2). Nothing here moves a foreign process, changes a
//! foreign group's limits, or fails a build: without groups the sandbox is measured (see `tree`), and
//! the outcome says which it was.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Once, OnceLock};
use std::time::{Duration, Instant};

use mfaas_cgroups::{Hierarchies, Unified, Version};
use mfaas_rules::limits::CompileLimits;

/// How the names of our groups begin: `mfaas-sandbox-PID-START-NUMBER`, where PID and START tell the
/// process that made it.
const PREFIX: &str = "mfaas-sandbox-";
/// How they began in the release before; what one of its builders left is removed too.
const PREFIX_BEFORE: &str = "mfaas-cage-";
/// The helper and the first process of the namespace are in the group too.
const OWN_PROCESSES: u64 = 2;
/// How long the kernel may take to see that the last process of a group has ended.
const EMPTY_WITHIN: Duration = Duration::from_secs(1);

/// Where groups can be made, one directory for each controller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Places {
    version: Version,
    memory: PathBuf,
    pids: PathBuf,
    cpu: PathBuf,
}

/// The groups of one sandbox. Dropped: removed, once they are empty.
#[derive(Debug)]
pub(crate) struct Group {
    version: Version,
    memory: PathBuf,
    pids: PathBuf,
    cpu: PathBuf,
}

/// Where this process may make groups, found out once by making one.
pub(crate) fn places() -> Option<&'static Places> {
    static PLACES: OnceLock<Option<Places>> = OnceLock::new();
    PLACES.get_or_init(|| Places::find().filter(Places::usable)).as_ref()
}

impl Places {
    fn find() -> Option<Self> {
        let hierarchies = Hierarchies::of_this_process().ok()?;
        version_one(&hierarchies).or_else(|| version_two(&hierarchies))
    }

    fn usable(&self) -> bool {
        const SMALL: CompileLimits = mfaas_rules::limits::COMPILE;
        self.make("probe", &SMALL).is_some()
    }

    /// A group with these limits.
    pub(crate) fn group(&self, limits: &CompileLimits) -> Option<Group> {
        static SWEPT: Once = Once::new();
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        SWEPT.call_once(|| self.sweep());
        self.make(&NUMBER.fetch_add(1, Ordering::Relaxed).to_string(), limits)
    }

    fn make(&self, number: &str, limits: &CompileLimits) -> Option<Group> {
        let own = std::process::id();
        let name = format!("{PREFIX}{own}-{}-{number}", started(own)?);
        let group = Group {
            version: self.version,
            memory: self.memory.join(&name),
            pids: self.pids.join(&name),
            cpu: self.cpu.join(&name),
        };
        for directory in group.directories() {
            std::fs::create_dir(directory).ok()?;
        }
        group.limit(limits).ok()?;
        Some(group)
    }

    /// Removes what a process that was killed has left. A group with processes in it stays.
    fn sweep(&self) {
        for place in [&self.memory, &self.pids, &self.cpu] {
            let Ok(entries) = std::fs::read_dir(place) else { continue };
            for entry in entries.flatten() {
                if entry.file_name().to_str().is_some_and(left_behind) {
                    let _ = std::fs::remove_dir(entry.path());
                }
            }
        }
    }
}

impl Group {
    fn directories(&self) -> Vec<&Path> {
        let mut all: Vec<&Path> = vec![&self.memory, &self.pids, &self.cpu];
        all.sort_unstable();
        all.dedup();
        all
    }

    fn limit(&self, limits: &CompileLimits) -> std::io::Result<()> {
        let memory = limits.memory_bytes_max.to_string();
        let processes = (limits.processes_max + OWN_PROCESSES).to_string();
        match self.version {
            Version::One => {
                std::fs::write(self.memory.join("memory.limit_in_bytes"), &memory)?;
                // There only where swap is accounted for.
                let _ = std::fs::write(self.memory.join("memory.memsw.limit_in_bytes"), &memory);
            }
            Version::Two => {
                std::fs::write(self.memory.join("memory.max"), &memory)?;
                let _ = std::fs::write(self.memory.join("memory.swap.max"), "0");
            }
        }
        std::fs::write(self.pids.join("pids.max"), processes)
    }

    /// Moves a process into the group; what it starts later is born there.
    pub(crate) fn take(&self, process: u32) -> std::io::Result<()> {
        let take = |directory: &Path| std::fs::write(directory.join("cgroup.procs"), process.to_string());
        self.directories().into_iter().try_for_each(take)
    }

    /// Whether the kernel has ended a process for want of memory.
    pub(crate) fn out_of_memory(&self) -> bool {
        let file = match self.version {
            Version::One => "memory.oom_control",
            Version::Two => "memory.events",
        };
        counter(&self.memory.join(file), "oom_kill").is_some_and(|kills| kills > 0)
    }

    /// CPU time of all processes that ever were in it.
    pub(crate) fn cpu(&self) -> Option<Duration> {
        match self.version {
            Version::One => {
                let nanos = std::fs::read_to_string(self.cpu.join("cpuacct.usage")).ok()?;
                nanos.trim().parse().ok().map(Duration::from_nanos)
            }
            Version::Two => counter(&self.cpu.join("cpu.stat"), "usage_usec").map(Duration::from_micros),
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let deadline = Instant::now() + EMPTY_WITHIN;
        for directory in self.directories() {
            // EBUSY: the kernel has not yet put the last process away.
            while std::fs::remove_dir(directory).is_err() && directory.exists() && Instant::now() < deadline {
                std::thread::sleep(Duration::from_micros(500));
            }
        }
    }
}

/// `NAME NUMBER` in a file of such lines.
fn counter(file: &Path, name: &str) -> Option<u64> {
    let text = std::fs::read_to_string(file).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line?.trim().parse().ok()
}

/// When a process started, in ticks since the start of the machine: its id may be used again.
fn started(process: u32) -> Option<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    stat.rsplit_once(')')?.1.split_whitespace().nth(19)?.parse().ok()
}

/// The name of a group of ours whose maker is gone.
fn left_behind(name: &str) -> bool {
    let ours = name.strip_prefix(PREFIX).or_else(|| name.strip_prefix(PREFIX_BEFORE));
    let mut parts = ours.unwrap_or_default().split('-');
    match (parts.next().map(str::parse), parts.next().map(str::parse)) {
        (Some(Ok(process)), Some(Ok(start))) => started(process) != Some(start),
        _ => false,
    }
}

/// Each controller has its own hierarchy, or one with others.
pub(crate) fn version_one(hierarchies: &Hierarchies) -> Option<Places> {
    let place = |controller| hierarchies.version_one(controller);
    Some(Places {
        version: Version::One,
        memory: place("memory")?,
        pids: place("pids")?,
        cpu: place("cpuacct")?,
    })
}

/// One hierarchy; a group hands controllers down or holds processes, never both. So: below our
/// own group if it hands them down (the root may), else beside it.
pub(crate) fn version_two(hierarchies: &Hierarchies) -> Option<Places> {
    let Unified { mount, own } = hierarchies.version_two()?;
    let beside = own.parent().filter(|_| own != mount).map(Path::to_owned);
    let place = [Some(own), beside].into_iter().flatten().find(|place| hands_down(place))?;
    Some(Places { version: Version::Two, memory: place.clone(), pids: place.clone(), cpu: place })
}

fn hands_down(place: &Path) -> bool {
    let control = place.join("cgroup.subtree_control");
    let listed = || {
        let text = std::fs::read_to_string(&control).unwrap_or_default();
        ["memory", "pids"].iter().all(|wanted| text.split_whitespace().any(|one| one == *wanted))
    };
    // Refused where the group holds processes or is not ours, and then it does not hand down.
    let write = || std::fs::File::options().write(true).open(&control)?.write_all(b"+memory +pids");
    listed() || (write().is_ok() && listed())
}
