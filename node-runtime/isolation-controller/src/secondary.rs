//! The secondary as one thing: by its control groups where there are some, process by process where there are none.

use std::io;

use mfaas_cgroups::Hierarchies;
use mfaas_confine::SchedulingClass;
use mfaas_isolation::CoreSet;
use mfaas_isolation_client::{CpuTime, Role};

use crate::groups::{Groups, MemoryLimit, Naming};
use crate::members::{Members, Record};
use crate::processes::{self, Process, Stat};

/// Groups, and who is placed.
#[derive(Debug)]
pub(crate) struct Secondary {
    pub(crate) groups: Groups,
    pub(crate) members: Members,
}

/// Where a process is: its groups and its class.
#[derive(Debug)]
struct Origin {
    stat: Stat,
    groups: Hierarchies,
}

impl Origin {
    fn of(pid: u32) -> Option<Self> {
        Some(Self { groups: Hierarchies::of_process(pid).ok()?, stat: processes::stat(pid)? })
    }
}

impl Secondary {
    /// The groups of that name, and members of a life before that still live.
    pub(crate) fn recall(naming: Naming<'_>, records: Vec<Record>) -> Self {
        let mut members = Members::default();
        records.into_iter().for_each(|record| members.recall(record));
        Self { groups: Groups::open(naming), members }
    }

    /// Moves a process in, or leaves it where it is. Its id may be another's meanwhile, which is not left there then.
    pub(crate) fn place(&self, process: &Process, may_stop: bool, is_idle: bool) -> io::Result<()> {
        let before = Origin::of(process.pid());
        let moved = self.take_in(process.pid(), may_stop, is_idle);
        if moved.is_ok() && process.lives() {
            return Ok(());
        }
        let back = before.map_or(Ok(()), |before| self.put_back(process.pid(), before));
        moved.and(back).and(Err(io::Error::new(io::ErrorKind::NotFound, "it has ended")))
    }

    fn take_in(&self, pid: u32, may_stop: bool, is_idle: bool) -> io::Result<()> {
        // One that a primary process started may be in the real-time class, which the group does not take in.
        let idle = is_idle && !self.groups.has_idle_class();
        processes::set_class(pid, if idle { SchedulingClass::Idle } else { SchedulingClass::Other })?;
        self.groups.add(pid, may_stop)
    }

    /// Puts whoever has this id now where it was. One that began after we looked was born where its parent is.
    fn put_back(&self, pid: u32, before: Origin) -> io::Result<()> {
        let Some(now) = processes::stat(pid) else { return Ok(()) };
        let is_known = now.started == before.stat.started;
        let Some(origin) = (if is_known { Some(before) } else { Origin::of(now.parent) }) else {
            return Err(io::Error::other(format!("nobody knows where process {pid} was")));
        };
        let back = self.groups.put_back(pid, &origin.groups);
        let class = SchedulingClass::of(origin.stat.policy);
        // A group without real time takes none of that class in, so the class comes last.
        back.and(class.map_or(Ok(()), |class| processes::set_class(pid, class)))
    }

    /// Keeps it on these cores, of which there is one at least.
    pub(crate) fn set_cores(&self, cores: &CoreSet) -> io::Result<()> {
        if self.groups.has_cores() { self.groups.set_cores(cores) } else { self.members.set_cores(cores) }
    }

    /// Whether members start on other cores than these, since nobody tells us what they start.
    pub(crate) fn has_to_be_kept(&self) -> bool {
        !self.groups.has_cores()
    }

    /// Stops what may be stopped, or lets it go on.
    pub(crate) fn set_stopped(&self, is_stopped: bool) -> io::Result<()> {
        if self.groups.has_freezer() {
            self.groups.set_stopped(is_stopped)
        } else {
            self.members.set_stopped(is_stopped)
        }
    }

    /// Gives all cores back, and lets everything go on.
    pub(crate) fn let_go_on(&self, all: &CoreSet) -> io::Result<()> {
        let standing = self.set_stopped(false);
        standing.and(self.set_cores(all))
    }

    /// Whether it runs only where nothing else wants to.
    pub(crate) fn set_idle_class(&self, is_idle: bool) -> io::Result<()> {
        if self.groups.has_idle_class() {
            return self.groups.set_idle_class(is_idle);
        }
        self.members
            .set_class(Role::Secondary, if is_idle { SchedulingClass::Idle } else { SchedulingClass::Other })
    }

    /// Lifts everything: first what stands still, then what is slow.
    pub(crate) fn lift(&self, all: &CoreSet) -> io::Result<()> {
        let lifted = [self.let_go_on(all), self.groups.set_memory(None), self.set_idle_class(false)];
        lifted.into_iter().collect()
    }

    /// CPU time of either role: what its group has used, or what its processes have.
    pub(crate) fn cpu_time(&self) -> CpuTime {
        let of = |role| self.groups.cpu_us(role).unwrap_or_else(|| self.members.cpu_us(role));
        CpuTime { primary_us: of(Role::Primary), secondary_us: of(Role::Secondary) }
    }

    /// Bounds the memory of all of it.
    pub(crate) fn set_memory(&self, limit: MemoryLimit) -> io::Result<()> {
        self.groups.set_memory(Some(limit))
    }
}

#[cfg(test)]
mod tests;
