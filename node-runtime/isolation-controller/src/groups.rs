//! The secondary's control groups: made, filled, limited, and lifted again.
//!
//! In version 1 each controller has a group of its own, below the one that this program is in. In version 2 there is one group,
//! beside the program's own or below the root, which hands its controllers down; processes lie in groups below it. What is not
//! there is left out and said ([`Groups::mechanisms`]).
//!
//! Must never limit a group that this program did not make, and never stop a process that did not agree to it.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use mfaas_cgroups::{Hierarchies, Version};
use mfaas_isolation::{CoreSet, DiskLimit};
use mfaas_isolation_client::{Mechanism, Role};

/// Below a group of both, so that the secondary gives way to the primary alone and both together get what other programs of the machine
/// get.
const PRIMARY: &str = "primary";
const SECONDARY: &str = "secondary";
/// Below the group, in version 2: processes that must go on, and those that may be stopped for a while.
const GOING_ON: &str = "members";
const STOPPABLE: &str = "stoppable";
/// What version 2 hands down, for us and for the groups that a sandbox makes below.
const HANDED_DOWN: [&str; 5] = ["+cpu", "+cpuset", "+memory", "+io", "+pids"];
/// What the real-time class may have in version 1, which lets nobody of a group into it without: all that the kernel gives it by
/// default. Of so short a period that a primary which wants more waits for half a millisecond, and not for a twentieth of a second.
const RT_RUNTIME: &str = "cpu.rt_runtime_us";
const RT_PERIOD: &str = "cpu.rt_period_us";
const RT_RUNTIME_US: &str = "9500";
const RT_PERIOD_US: &str = "10000";
/// Version 1 says that there is no limit by a number larger than any.
const NO_LIMIT_V1: &str = "-1";

/// What the secondary may have of the machine's memory, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct MemoryLimit {
    /// Beyond it the kernel reclaims and slows down.
    pub(crate) high_bytes: u64,
    /// Beyond it the kernel ends.
    pub(crate) max_bytes: u64,
}

/// What was done on a disk since something began to count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct DiskCounts {
    pub(crate) reads: u64,
    pub(crate) writes: u64,
    pub(crate) read_bytes: u64,
    pub(crate) written_bytes: u64,
}

impl DiskCounts {
    /// What came since then; a count that has begun again counts for nothing.
    pub(crate) fn since(self, before: Self) -> Self {
        Self {
            reads: self.reads.saturating_sub(before.reads),
            writes: self.writes.saturating_sub(before.writes),
            read_bytes: self.read_bytes.saturating_sub(before.read_bytes),
            written_bytes: self.written_bytes.saturating_sub(before.written_bytes),
        }
    }
}

/// A kind of control.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Kind {
    /// CPU time against others.
    Cpu,
    /// Which cores.
    Cores,
    /// Stopped or not.
    Freezer,
    /// Memory.
    Memory,
    /// Disks.
    Io,
    /// What is sent: no controller, a group of version 2 at which a program can be attached.
    Network,
}

impl Kind {
    const ALL: [Self; 6] = [Self::Cpu, Self::Cores, Self::Freezer, Self::Memory, Self::Io, Self::Network];

    /// The controller of version 1, and of version 2.
    fn controllers(self) -> (&'static str, &'static str) {
        match self {
            Self::Cpu => ("cpu", "cpu"),
            Self::Cores => ("cpuset", "cpuset"),
            Self::Freezer => ("freezer", ""),
            Self::Memory => ("memory", "memory"),
            Self::Io => ("blkio", "io"),
            Self::Network => ("", ""),
        }
    }
}

/// A group for one kind of control.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Group {
    kind: Kind,
    version: Version,
    directory: PathBuf,
}

/// Where groups are made.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Naming<'a> {
    /// What the group is called.
    pub(crate) name: &'a str,
    /// Whether the primary is moved too, into a group beside the secondary's and below one of this name. Otherwise it stays where
    /// whoever started it has put it.
    pub(crate) moves_primary: bool,
    /// Whether there is a group of version 2 in any case, for what is sent. Where version 1 has everything else, members stay where
    /// they are in it otherwise.
    pub(crate) marks_egress: bool,
}

impl Group {
    fn beside(&self, name: &str) -> PathBuf {
        self.directory.with_file_name(name)
    }
}

/// The secondary's groups.
#[derive(Debug, Default)]
pub(crate) struct Groups {
    groups: Vec<Group>,
    /// The primary's, if it is moved.
    primary: Option<PathBuf>,
    /// Why a kind is not there.
    missing: Vec<(Kind, String)>,
}

impl Groups {
    /// Makes those that the machine allows, or takes up what a life before has left.
    pub(crate) fn open(naming: Naming<'_>) -> Self {
        match Hierarchies::of_this_process() {
            Ok(hierarchies) => Self::below(&hierarchies, naming),
            Err(error) => {
                let why = format!("/proc cannot be read: {error}");
                Self {
                    groups: Vec::new(),
                    primary: None,
                    missing: Kind::ALL.map(|kind| (kind, why.clone())).to_vec(),
                }
            }
        }
    }

    fn below(hierarchies: &Hierarchies, naming: Naming<'_>) -> Self {
        let mut found = Self::default();
        // Only for what no hierarchy of version 1 has; the primary's group is for CPU time alone.
        let has_cpu = hierarchies.version_one(Kind::Cpu.controllers().0).is_none();
        let below = Naming { moves_primary: naming.moves_primary && has_cpu, ..naming };
        let unified = || unified(hierarchies, below);
        for kind in Kind::ALL.into_iter().filter(|kind| *kind != Kind::Network || naming.marks_egress) {
            match find(kind, hierarchies, naming, unified) {
                Ok(group) => found.groups.push(group),
                Err(why) => found.missing.push((kind, why)),
            }
        }
        found.primary =
            found.of(Kind::Cpu).filter(|_| naming.moves_primary).map(|group| group.beside(PRIMARY));
        found
    }

    /// Moves processes of the primary, if there is a group for it; what they start later is born there. One that ended meanwhile
    /// is no error.
    pub(crate) fn add_primary(&self, processes: &[u32]) -> io::Result<()> {
        let Some(directory) = &self.primary else { return Ok(()) };
        let is_gone = |pid: u32| !Path::new("/proc").join(pid.to_string()).exists();
        processes.iter().try_for_each(|pid| match write(directory, "cgroup.procs", &pid.to_string()) {
            Err(_) if is_gone(*pid) => Ok(()),
            done => done,
        })
    }

    /// Whether the primary's group has any of the machine's real time, which version 1 gives out once: another installation on it
    /// may want some.
    pub(crate) fn set_real_time(&self, has_some: bool) -> io::Result<()> {
        let Some(primary) = self.primary.as_deref().filter(|group| group.join(RT_RUNTIME).exists()) else {
            return Ok(());
        };
        let both = [primary.parent().unwrap_or(primary), primary];
        if !has_some {
            return both.iter().rev().try_for_each(|directory| write(directory, RT_RUNTIME, "0"));
        }
        // A group has no more than the one above.
        both.iter().try_for_each(|directory| {
            write(directory, RT_PERIOD, RT_PERIOD_US)?;
            write(directory, RT_RUNTIME, RT_RUNTIME_US)
        })
    }

    fn of(&self, kind: Kind) -> Option<&Group> {
        self.groups.iter().find(|group| group.kind == kind)
    }

    /// Whether it can keep the secondary on some cores.
    pub(crate) fn has_cores(&self) -> bool {
        self.of(Kind::Cores).is_some()
    }

    /// Whether the whole group can run where nothing else wants to.
    pub(crate) fn has_idle_class(&self) -> bool {
        self.of(Kind::Cpu).is_some()
    }

    /// Whether members can be stopped together.
    pub(crate) fn has_freezer(&self) -> bool {
        self.of(Kind::Freezer).is_some()
    }

    /// Moves a process in; what it starts later is born there. Only one that may be stopped ever is.
    pub(crate) fn add(&self, pid: u32, may_stop: bool) -> io::Result<()> {
        let leaf = if may_stop { STOPPABLE } else { GOING_ON };
        let mut joined = Vec::new();
        for group in &self.groups {
            let directory = match group.version {
                Version::One if group.kind == Kind::Freezer && !may_stop => continue,
                Version::One => group.directory.clone(),
                Version::Two => group.directory.join(leaf),
            };
            if !joined.contains(&directory) {
                write(&directory, "cgroup.procs", &pid.to_string())?;
                joined.push(directory);
            }
        }
        Ok(())
    }

    /// Moves a process that was moved in back to where it was.
    pub(crate) fn put_back(&self, pid: u32, before: &Hierarchies) -> io::Result<()> {
        let place = |group: &Group| match group.version {
            Version::One => before.version_one(group.kind.controllers().0),
            Version::Two => before.version_two().map(|unified| unified.own),
        };
        let mut places: Vec<PathBuf> = self.groups.iter().filter_map(place).collect();
        places.dedup();
        let mut all = Ok(());
        for place in &places {
            all = all.and(write(place, "cgroup.procs", &pid.to_string()));
        }
        all
    }

    /// Whether the secondary runs only where nothing else wants to.
    pub(crate) fn set_idle_class(&self, is_idle: bool) -> io::Result<()> {
        let Some(group) = self.of(Kind::Cpu) else { return Ok(()) };
        write(&group.directory, "cpu.idle", if is_idle { "1" } else { "0" })
    }

    /// Keeps the secondary on these cores, of which there is one at least.
    pub(crate) fn set_cores(&self, cores: &CoreSet) -> io::Result<()> {
        let Some(group) = self.of(Kind::Cores) else { return Ok(()) };
        write(&group.directory, "cpuset.cpus", &cores.to_string())
    }

    /// Stops what may be stopped, or lets it go on.
    pub(crate) fn set_stopped(&self, is_stopped: bool) -> io::Result<()> {
        let Some(group) = self.of(Kind::Freezer) else { return Ok(()) };
        match group.version {
            Version::One => {
                write(&group.directory, "freezer.state", if is_stopped { "FROZEN" } else { "THAWED" })
            }
            // A sandbox makes groups of its own here, for one build each.
            Version::Two => children(&group.directory)?
                .into_iter()
                .filter(|child| !is_stopped || !child.ends_with(GOING_ON))
                .try_for_each(|child| write(&child, "cgroup.freeze", if is_stopped { "1" } else { "0" })),
        }
    }

    /// Bounds the memory of the whole secondary: where the kernel slows it down, which version 1 cannot, and where it ends it.
    pub(crate) fn set_memory(&self, limit: Option<MemoryLimit>) -> io::Result<()> {
        let Some(group) = self.of(Kind::Memory) else { return Ok(()) };
        let text = |of: fn(&MemoryLimit) -> u64, none: &str| {
            limit.as_ref().map_or(none.to_owned(), |l| of(l).to_string())
        };
        match group.version {
            Version::One => {
                write(&group.directory, "memory.limit_in_bytes", &text(|limit| limit.max_bytes, NO_LIMIT_V1))
            }
            Version::Two => {
                write(&group.directory, "memory.high", &text(|limit| limit.high_bytes, "max"))?;
                write(&group.directory, "memory.max", &text(|limit| limit.max_bytes, "max"))
            }
        }
    }

    /// Bytes of memory of the secondary that the kernel cannot reclaim; nothing where no group counts them.
    pub(crate) fn memory_bytes(&self) -> io::Result<Option<u64>> {
        let Some(group) = self.of(Kind::Memory) else { return Ok(None) };
        let counted: &[&str] = match group.version {
            Version::One => &["total_rss", "total_shmem"],
            Version::Two => &["anon", "shmem", "kernel"],
        };
        let text = fs::read_to_string(group.directory.join("memory.stat"))?;
        let rows = text.lines().filter_map(|line| line.split_once(' '));
        let values = rows.filter(|(name, _)| counted.contains(name)).map(|(_, value)| value.parse::<u64>());
        Ok(Some(values.sum::<Result<u64, _>>().map_err(io::Error::other)?))
    }

    /// CPU time that a role's group has used, in microseconds; nothing where it has none, or where the group does not count it.
    pub(crate) fn cpu_us(&self, role: Role) -> Option<u64> {
        let group = self.of(Kind::Cpu)?;
        let directory = match role {
            Role::Primary => self.primary.as_deref()?,
            Role::Secondary => &group.directory,
        };
        let read = |file: &str| fs::read_to_string(directory.join(file)).ok();
        match group.version {
            // Nanoseconds, if the controller that counts is mounted with the one that divides, as it usually is.
            Version::One => Some(read("cpuacct.usage")?.trim().parse::<u64>().ok()? / 1_000),
            Version::Two => {
                let text = read("cpu.stat")?;
                text.lines().find_map(|line| line.strip_prefix("usage_usec "))?.parse().ok()
            }
        }
    }

    /// What the secondary has done on a disk; in version 1, what did not go through the page cache.
    pub(crate) fn disk(&self, device: &str) -> Option<DiskCounts> {
        let group = self.of(Kind::Io)?;
        let read = |file: &str| fs::read_to_string(group.directory.join(file)).ok();
        Some(match group.version {
            Version::One => counts_v1(
                device,
                &read("blkio.throttle.io_serviced_recursive")?,
                &read("blkio.throttle.io_service_bytes_recursive")?,
            ),
            Version::Two => counts_v2(device, &read("io.stat")?),
        })
    }

    /// Bounds what the secondary does on a disk.
    pub(crate) fn set_disk(&self, device: &str, limit: Option<&DiskLimit>) -> io::Result<()> {
        let Some(group) = self.of(Kind::Io) else { return Ok(()) };
        match group.version {
            // 0 is no limit.
            Version::One => [
                ("blkio.throttle.read_iops_device", limit.map_or(0, |limit| limit.read_iops)),
                ("blkio.throttle.write_iops_device", limit.map_or(0, |limit| limit.write_iops)),
                ("blkio.throttle.read_bps_device", limit.map_or(0, |limit| limit.read_bytes_per_s)),
                ("blkio.throttle.write_bps_device", limit.map_or(0, |limit| limit.write_bytes_per_s)),
            ]
            .into_iter()
            .try_for_each(|(file, most)| write(&group.directory, file, &format!("{device} {most}"))),
            Version::Two => {
                let text = |most: Option<u64>| most.map_or("max".to_owned(), |most| most.to_string());
                let line = format!(
                    "{device} rbps={} wbps={} riops={} wiops={}",
                    text(limit.map(|limit| limit.read_bytes_per_s)),
                    text(limit.map(|limit| limit.write_bytes_per_s)),
                    text(limit.map(|limit| limit.read_iops)),
                    text(limit.map(|limit| limit.write_iops)),
                );
                write(&group.directory, "io.max", &line)
            }
        }
    }

    /// The group at which what the secondary sends can be marked, or why there is none.
    pub(crate) fn network(&self) -> Result<&Path, &str> {
        let why =
            || self.missing.iter().find(|(kind, _)| *kind == Kind::Network).map(|(_, why)| why.as_str());
        let group = self.of(Kind::Network).map(|group| group.directory.as_path());
        group.ok_or_else(|| why().unwrap_or("there is no group of version 2"))
    }

    /// Removes what is empty.
    pub(crate) fn remove(&self) {
        for group in &self.groups {
            for leaf in [GOING_ON, STOPPABLE] {
                // It is not there, or somebody is in it.
                let _ = fs::remove_dir(group.directory.join(leaf));
            }
            let _ = fs::remove_dir(&group.directory);
        }
        if let Some(primary) = &self.primary {
            let _ = fs::remove_dir(primary);
            let _ = primary.parent().map(fs::remove_dir);
        }
    }

    /// Every kind of control, and how it is had here.
    pub(crate) fn mechanisms(&self) -> Vec<Mechanism> {
        let names = [
            (Kind::Cpu, "idle class of a group"),
            (Kind::Cores, "cores of a group"),
            (Kind::Freezer, "stopping a group"),
            (Kind::Memory, "memory of a group"),
            (Kind::Io, "disks of a group"),
        ];
        let mechanism = |(kind, name): (Kind, &str)| {
            let by = self.of(kind).map(|group| group.directory.display().to_string());
            let missing =
                self.missing.iter().find(|(missing, _)| *missing == kind).map(|(_, why)| why.clone());
            Mechanism { name: name.to_owned(), by, missing }
        };
        names.into_iter().map(mechanism).collect()
    }
}

/// From `254:0 Read 7` and the like.
fn counts_v1(device: &str, ios: &str, bytes: &str) -> DiskCounts {
    let count = |text: &str, what: &str| {
        let line =
            text.lines().find_map(|line| line.strip_prefix(device)?.strip_prefix(' ')?.strip_prefix(what));
        line.and_then(|count| count.trim().parse().ok()).unwrap_or(0)
    };
    DiskCounts {
        reads: count(ios, "Read "),
        writes: count(ios, "Write "),
        read_bytes: count(bytes, "Read "),
        written_bytes: count(bytes, "Write "),
    }
}

/// From `254:0 rbytes=1 wbytes=2 rios=3 wios=4 dbytes=5 dios=6`.
fn counts_v2(device: &str, text: &str) -> DiskCounts {
    let line = text.lines().find_map(|line| line.strip_prefix(device)?.strip_prefix(' ')).unwrap_or_default();
    let count = |name: &str| {
        let word = line.split(' ').find_map(|word| word.strip_prefix(name)?.strip_prefix('='));
        word.and_then(|count| count.parse().ok()).unwrap_or(0)
    };
    DiskCounts {
        reads: count("rios"),
        writes: count("wios"),
        read_bytes: count("rbytes"),
        written_bytes: count("wbytes"),
    }
}

/// Where the kind is controlled, if it is.
fn find(
    kind: Kind,
    hierarchies: &Hierarchies,
    naming: Naming<'_>,
    unified: impl Fn() -> Result<PathBuf, String>,
) -> Result<Group, String> {
    let (one, two) = kind.controllers();
    let own = Some(one).filter(|one| !one.is_empty()).and_then(|one| hierarchies.version_one(one));
    if let Some(own) = own {
        let directory = if kind == Kind::Cpu { of_both(&own, naming)? } else { own.join(naming.name) };
        make(&directory)?;
        if kind == Kind::Cores {
            inherit_cpuset(&own, &directory).map_err(|error| format!("{}: {error}", directory.display()))?;
        }
        return usable(Group { kind, version: Version::One, directory });
    }
    let directory = unified()?;
    let controllers = fs::read_to_string(directory.join("cgroup.controllers")).unwrap_or_default();
    if !two.is_empty() && !controllers.split_whitespace().any(|one| one == two) {
        return Err(format!("no hierarchy hands the controller {two} down to {}", directory.display()));
    }
    usable(Group { kind, version: Version::Two, directory })
}

/// The kernel may lack a file though it has the controller.
fn usable(group: Group) -> Result<Group, String> {
    let file = match (group.kind, group.version) {
        (Kind::Cpu, _) => "cpu.idle",
        (Kind::Cores, _) => "cpuset.cpus",
        (Kind::Freezer, Version::One) => "freezer.state",
        (Kind::Freezer, Version::Two) | (Kind::Network, _) => return Ok(group),
        (Kind::Memory, Version::One) => "memory.limit_in_bytes",
        (Kind::Memory, Version::Two) => "memory.max",
        (Kind::Io, Version::One) => "blkio.throttle.read_bps_device",
        (Kind::Io, Version::Two) => "io.max",
    };
    let path = group.directory.join(file);
    match fs::File::options().write(true).open(&path) {
        Ok(_) => Ok(group),
        Err(error) => Err(format!("{}: {error}", path.display())),
    }
}

/// The secondary's group of version 2, with groups for processes below it.
fn unified(hierarchies: &Hierarchies, naming: Naming<'_>) -> Result<PathBuf, String> {
    let found = hierarchies.version_two().ok_or("no hierarchy of version 2 is mounted")?;
    // A group that holds processes hands nothing down, but for the root.
    let place = match found.own.parent() {
        Some(parent) if found.own != found.mount => parent.to_owned(),
        _ => found.own,
    };
    let directory = of_both(&place, naming)?;
    make(&directory)?;
    let above = directory.parent().unwrap_or(&place);
    for controller in HANDED_DOWN {
        for place in [&place, above, &directory] {
            // What the place has not or may not hand down is missing, and said by kind.
            let _ = write(place, "cgroup.subtree_control", controller);
        }
    }
    for leaf in [GOING_ON, STOPPABLE] {
        make(&directory.join(leaf))?;
    }
    Ok(directory)
}

/// The secondary's group for CPU time, below `place`, and with it the primary's where that is moved.
fn of_both(place: &Path, naming: Naming<'_>) -> Result<PathBuf, String> {
    let group = place.join(naming.name);
    if !naming.moves_primary {
        return Ok(group);
    }
    make(&group)?;
    make(&group.join(PRIMARY))?;
    Ok(group.join(SECONDARY))
}

/// A new group of version 1 has no cores and no memory nodes, and takes no process without them.
fn inherit_cpuset(own: &Path, directory: &Path) -> io::Result<()> {
    for file in ["cpuset.mems", "cpuset.cpus"] {
        if fs::read_to_string(directory.join(file))?.trim().is_empty() {
            write(directory, file, fs::read_to_string(own.join(file))?.trim())?;
        }
    }
    Ok(())
}

fn make(directory: &Path) -> Result<(), String> {
    match fs::create_dir(directory) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
            Err(format!("{}: {error}", directory.display()))
        }
        _ => Ok(()),
    }
}

fn children(directory: &Path) -> io::Result<Vec<PathBuf>> {
    let mut children = Vec::new();
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            children.push(entry.path());
        }
    }
    Ok(children)
}

/// One write, which the kernel takes or refuses whole.
fn write(directory: &Path, file: &str, text: &str) -> io::Result<()> {
    let path = directory.join(file);
    let named = |error: io::Error| {
        io::Error::new(error.kind(), format!("writing '{text}' to {}: {error}", path.display()))
    };
    let mut open = fs::File::options().write(true).open(&path).map_err(named)?;
    io::Write::write_all(&mut open, text.as_bytes()).map_err(named)
}

#[cfg(test)]
mod tests;
