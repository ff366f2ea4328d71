//! Processes of this machine: whose child one is, what it is called, what hangs below it, and its class.

use std::collections::HashMap;
use std::fs;
use std::io;

use mfaas_confine::SchedulingClass;
use mfaas_isolation::CoreSet;
use mfaas_isolation_client::BACKGROUND_THREADS;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::OwnedFd;
use rustix::param::clock_ticks_per_second;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use rustix::thread::{CpuSet, sched_setaffinity};

/// Generations that are looked through for an ancestor.
const GENERATIONS_MAX: usize = 32;

/// One process and no other, whoever has its id later.
#[derive(Debug)]
pub(crate) struct Process {
    pid: u32,
    fd: OwnedFd,
}

impl Process {
    /// Whoever has this id now.
    pub(crate) fn open(pid: u32) -> io::Result<Self> {
        let id = i32::try_from(pid).ok().and_then(Pid::from_raw).ok_or(io::ErrorKind::InvalidInput)?;
        Ok(Self { pid, fd: pidfd_open(id, PidfdFlags::empty())? })
    }

    /// Its id, which is its own while it lives.
    pub(crate) fn pid(&self) -> u32 {
        self.pid
    }

    /// Whether it has not ended. What was read by its id before was its own then.
    pub(crate) fn lives(&self) -> bool {
        // The descriptor of a process that ended can be read.
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        poll(&mut [PollFd::new(&self.fd, PollFlags::IN)], Some(&now)) == Ok(0)
    }

    /// Ends it. Its parent learns of it as of any death by that signal.
    pub(crate) fn kill(&self) -> io::Result<()> {
        Ok(pidfd_send_signal(&self.fd, Signal::KILL)?)
    }

    /// As if that process had ended and another one had its id.
    #[cfg(test)]
    pub(crate) fn with_id_of(self, another: u32) -> Self {
        Self { pid: another, ..self }
    }
}

/// Of a process, from `/proc/PID/stat`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Stat {
    pub(crate) name: String,
    pub(crate) parent: u32,
    /// CPU time of it and of its children that have ended, in ticks.
    pub(crate) cpu_ticks: u64,
    /// When it started, in ticks since the start of the machine: its id may be used again.
    pub(crate) started: u64,
    /// Memory of its own, in pages.
    pub(crate) pages: u64,
    /// The kernel's number of its class.
    pub(crate) policy: u64,
}

impl Stat {
    /// CPU time, in microseconds.
    pub(crate) fn cpu_us(&self) -> u64 {
        self.cpu_ticks.saturating_mul(1_000_000) / clock_ticks_per_second().max(1)
    }
}

/// What the kernel says of a process that lives.
pub(crate) fn stat(pid: u32) -> Option<Stat> {
    parse(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

/// `PID (NAME) STATE PARENT …`; a name may hold anything.
fn parse(text: &str) -> Option<Stat> {
    let (front, back) = text.rsplit_once(')')?;
    let name = front.split_once('(')?.1;
    let words: Vec<&str> = back.split_ascii_whitespace().collect();
    let number = |at: usize| words.get(at)?.parse::<u64>().ok();
    Some(Stat {
        name: mfaas_ident::sanitise_line(name, 64),
        parent: number(1)?.try_into().ok()?,
        // Its own and its children's, in user mode and in the kernel.
        cpu_ticks: (11..=14).map(number).sum::<Option<u64>>()?,
        started: number(19)?,
        pages: number(21)?,
        policy: number(38)?,
    })
}

/// Whether `pid` is `ancestor`, or was started by it or by what it started. One that loses a parent meanwhile is not.
pub(crate) fn is_or_descends(pid: u32, ancestor: u32) -> bool {
    let parent_of = |pid| stat(pid).map(|stat| stat.parent).filter(|parent| *parent > 0);
    let (mut child, mut parent) = (pid, parent_of(pid));
    for _ in 0..GENERATIONS_MAX {
        if child == ancestor {
            return true;
        }
        let Some(above) = parent else { return false };
        parent = parent_of(above);
        // A parent that ended leaves its child to another one before its own id can be used again.
        if parent_of(child) != Some(above) {
            return false;
        }
        child = above;
    }
    false
}

/// A process and everything that it has started, each with its memory in pages.
pub(crate) fn tree(root: u32) -> Vec<(u32, u64)> {
    let mut children: HashMap<u32, Vec<(u32, u64)>> = HashMap::new();
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    for pid in entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok()) {
        if let Some(stat) = stat(pid) {
            children.entry(stat.parent).or_default().push((pid, stat.pages));
        }
    }
    let mut tree: Vec<_> = stat(root).map(|stat| (root, stat.pages)).into_iter().collect();
    let mut at = 0;
    while let Some((pid, _)) = tree.get(at) {
        tree.extend(children.remove(pid).unwrap_or_default());
        at += 1;
    }
    tree
}

/// Keeps every thread of a process on these cores. One that ended meanwhile is no error.
pub(crate) fn set_cores(pid: u32, cores: &CoreSet) -> io::Result<()> {
    let mut set = CpuSet::new();
    cores.iter().for_each(|core| set.set(core));
    for_each_thread(pid, |thread| Ok(sched_setaffinity(Some(thread), &set)?))
}

/// Puts every thread of a process, and what they start later, into a class, unless its first thread is in it: then its others are
/// wherever it has put them. Threads that work in the background are never in real time.
pub(crate) fn set_class(pid: u32, class: SchedulingClass) -> io::Result<()> {
    if stat(pid).is_none_or(|stat| stat.policy == class.policy()) {
        return Ok(());
    }
    for_each_thread(pid, |thread| match class {
        SchedulingClass::RealTime if is_in_background(pid, thread) => SchedulingClass::Other.set(thread),
        class => class.set(thread),
    })
}

/// Whether a thread has a name that says so. One that ended meanwhile is not.
fn is_in_background(pid: u32, thread: Pid) -> bool {
    let name = fs::read(format!("/proc/{pid}/task/{}/comm", thread.as_raw_nonzero()));
    name.is_ok_and(|name| name.starts_with(BACKGROUND_THREADS.as_bytes()))
}

/// All are tried before an error of one is told. One that ended meanwhile is no error.
fn for_each_thread(pid: u32, set: impl Fn(Pid) -> io::Result<()>) -> io::Result<()> {
    let Ok(threads) = fs::read_dir(format!("/proc/{pid}/task")) else { return Ok(()) };
    let ids = threads.flatten().filter_map(|entry| Pid::from_raw(entry.file_name().to_str()?.parse().ok()?));
    let mut all = Ok(());
    for done in ids.map(set) {
        match done {
            Err(error) if error.raw_os_error() == Some(rustix::io::Errno::SRCH.raw_os_error()) => {}
            done => all = all.and(done),
        }
    }
    all
}

#[cfg(test)]
mod tests;
