//! Who is primary and secondary on this machine, by the processes that asked for it. What they start is what they are.

use std::collections::{BTreeSet, HashSet};
use std::io;

use mfaas_confine::SchedulingClass;
use mfaas_isolation::CoreSet;
use mfaas_isolation_client::{Member, Role};
use rustix::process::{Pid, Signal};
use serde::{Deserialize, Serialize};

use crate::processes::{self, Process};

/// Processes that may be placed at a time; those that ended do not count.
pub(crate) const MEMBERS_MAX: usize = 4_096;

/// How often the processes of the machine are looked through for what has started meanwhile.
const PASSES_MAX: usize = 8;

/// A process that was placed.
#[derive(Debug)]
pub(crate) struct Placed {
    pub(crate) record: Record,
    process: Process,
    /// When it was placed, in microseconds of the controller's clock.
    pub(crate) at_us: u64,
}

/// What is kept of it on the disk.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Record {
    pub(crate) pid: u32,
    pub(crate) started: u64,
    pub(crate) name: String,
    /// Which process asked for it.
    pub(crate) placed_by: u32,
    #[serde(flatten)]
    pub(crate) terms: Terms,
}

/// What it is, and how it is treated.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Terms {
    pub(crate) role: Role,
    /// Nothing is lost if it stands still for a while: no lease of it runs out.
    pub(crate) may_stop: bool,
    /// Cores that its workers have for themselves.
    #[serde(default)]
    pub(crate) own_cores: Vec<usize>,
}

impl Record {
    /// Of a process that lives.
    pub(crate) fn of(process: &Process, placed_by: u32, terms: Terms) -> Option<Self> {
        let pid = process.pid();
        let stat = processes::stat(pid).filter(|_| process.lives())?;
        Some(Self { pid, started: stat.started, name: stat.name, placed_by, terms })
    }
}

/// All of them.
#[derive(Debug, Default)]
pub(crate) struct Members(Vec<Placed>);

impl Members {
    /// Adds a process; a second time it only changes its role.
    pub(crate) fn add(&mut self, process: Process, record: Record, at_us: u64) {
        self.0.retain(|placed| placed.record.pid != record.pid);
        self.0.push(Placed { record, process, at_us });
    }

    /// Adds one of a life before, unless it is gone.
    pub(crate) fn recall(&mut self, record: Record) {
        let Ok(process) = Process::open(record.pid) else { return };
        let known = processes::stat(record.pid).is_some_and(|stat| stat.started == record.started);
        if known && process.lives() {
            self.add(process, record, 0);
        }
    }

    /// Whether there is room for another one, after the dead were forgotten.
    pub(crate) fn has_room(&mut self) -> bool {
        self.forget_dead();
        self.0.len() < MEMBERS_MAX
    }

    /// Whether some had ended, which are no members any more.
    pub(crate) fn forget_dead(&mut self) -> bool {
        let before = self.0.len();
        self.0.retain(Placed::lives);
        self.0.len() < before
    }

    /// Those of a role.
    pub(crate) fn of(&self, role: Role) -> impl Iterator<Item = &Placed> {
        self.0.iter().filter(move |placed| placed.record.terms.role == role)
    }

    /// Cores that are lent to nobody.
    pub(crate) fn own_cores(&self) -> impl Iterator<Item = usize> {
        self.of(Role::Primary).flat_map(|placed| placed.record.terms.own_cores.iter().copied())
    }

    /// For the disk.
    pub(crate) fn records(&self) -> Vec<Record> {
        self.0.iter().map(|placed| placed.record.clone()).collect()
    }

    /// For people.
    pub(crate) fn shown(&self) -> Vec<Member> {
        let shown = |Record { pid, name, terms, .. }: &Record| Member {
            pid: *pid,
            name: name.clone(),
            role: terms.role,
        };
        self.0.iter().map(|placed| shown(&placed.record)).collect()
    }

    /// Puts all of a role, and what they have started, into a class; all are tried.
    pub(crate) fn set_class(&self, role: Role, class: SchedulingClass) -> io::Result<()> {
        let mut all = Ok(());
        for pid in self.processes(role) {
            all = all.and(processes::set_class(pid, class));
        }
        all
    }

    /// All processes of a role. A worker that a primary process has placed with the secondary is not the primary's, nor is this program,
    /// whoever has started it.
    pub(crate) fn processes(&self, role: Role) -> Vec<u32> {
        let below = |role| {
            let roots = self.of(role).map(|placed| placed.record.pid);
            roots.flat_map(processes::tree).map(|(pid, _)| pid).collect::<Vec<_>>()
        };
        let mut all = below(role);
        if role == Role::Primary {
            let own = processes::tree(std::process::id()).into_iter().map(|(pid, _)| pid);
            let others: Vec<u32> = below(Role::Secondary).into_iter().chain(own).collect();
            all.retain(|pid| !others.contains(pid));
        }
        all
    }

    /// CPU time of all processes of a role, and of those that they started and that have ended, in microseconds.
    pub(crate) fn cpu_us(&self, role: Role) -> u64 {
        // A sandbox is a member by itself, and below a builder that is one.
        let processes: BTreeSet<u32> = self.processes(role).into_iter().collect();
        processes.into_iter().filter_map(processes::stat).map(|stat| stat.cpu_us()).sum()
    }

    /// Keeps the secondary, and all that it started, on these cores, process by process: where there are no groups for it.
    pub(crate) fn set_cores(&self, cores: &CoreSet) -> io::Result<()> {
        self.each_of_secondary(|_, pid| processes::set_cores(pid, cores))
    }

    /// Stops what may be stopped, process by process, or lets it go on.
    pub(crate) fn set_stopped(&self, is_stopped: bool) -> io::Result<()> {
        let signal = if is_stopped { Signal::STOP } else { Signal::CONT };
        self.each_of_secondary(|placed, pid| match Pid::from_raw(pid as i32) {
            Some(pid) if placed.record.terms.may_stop => match rustix::process::kill_process(pid, signal) {
                Err(rustix::io::Errno::SRCH) | Ok(()) => Ok(()),
                Err(error) => Err(error.into()),
            },
            _ => Ok(()),
        })
    }

    /// All that there is, and what started while they were looked through, if it stays.
    fn each_of_secondary(&self, mut act: impl FnMut(&Placed, u32) -> io::Result<()>) -> io::Result<()> {
        let (mut all, mut seen) = (Ok(()), HashSet::new());
        for _ in 0..PASSES_MAX {
            let before = seen.len();
            for placed in self.of(Role::Secondary) {
                for (pid, _) in processes::tree(placed.record.pid) {
                    if seen.insert(pid) {
                        all = all.and(act(placed, pid));
                    }
                }
            }
            if seen.len() == before {
                break;
            }
        }
        all
    }
}

impl Placed {
    fn lives(&self) -> bool {
        self.process.lives()
    }

    /// Ends it.
    pub(crate) fn kill(&self) -> io::Result<()> {
        self.process.kill()
    }
}
