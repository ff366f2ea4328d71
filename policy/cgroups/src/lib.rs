//! Where the control groups of this process are: one hierarchy for each controller or a few (version 1), one for all
//! (version 2), or both at a time.
//!
//! It only reads: what makes groups, and what may be made where, is the caller's.

use std::io;
use std::path::{Path, PathBuf};

/// Which of the kernel's two interfaces a group has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Version {
    /// Each controller has its own hierarchy, or one with others.
    One,
    /// One hierarchy; a group hands controllers down or holds processes, never both.
    Two,
}

/// The groups of one process, and where they are mounted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hierarchies {
    own: String,
    mountinfo: String,
}

/// The group of a process in the one hierarchy of version 2.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unified {
    /// Where the hierarchy is mounted.
    pub mount: PathBuf,
    /// The group.
    pub own: PathBuf,
}

impl Hierarchies {
    /// Of this process, as the kernel says it now.
    pub fn of_this_process() -> io::Result<Self> {
        let own = std::fs::read_to_string("/proc/self/cgroup")?;
        Ok(Self::new(own, std::fs::read_to_string("/proc/self/mountinfo")?))
    }

    /// Of another process, where this one sees the hierarchies.
    pub fn of_process(pid: u32) -> io::Result<Self> {
        let own = std::fs::read_to_string(format!("/proc/{pid}/cgroup"))?;
        Ok(Self::new(own, std::fs::read_to_string("/proc/self/mountinfo")?))
    }

    /// As the files `cgroup` and `mountinfo` of a process say.
    pub fn new(own: String, mountinfo: String) -> Self {
        Self { own, mountinfo }
    }

    /// The group of the process in the hierarchy of version 1 that has this controller.
    pub fn version_one(&self, controller: &str) -> Option<PathBuf> {
        let has = |list: &str| list.split(',').any(|one| one == controller);
        let group = self.own.lines().find_map(|line| {
            let (controllers, group) = line.split_once(':')?.1.split_once(':')?;
            has(controllers).then_some(group)
        })?;
        mounts(&self.mountinfo).find_map(|mount| {
            (mount.kind == "cgroup" && has(mount.options)).then(|| mount.directory(group))?
        })
    }

    /// The group of the process in the hierarchy of version 2.
    pub fn version_two(&self) -> Option<Unified> {
        let group = self.own.lines().find_map(|line| line.strip_prefix("0::"))?;
        let mount = mounts(&self.mountinfo).find(|mount| mount.kind == "cgroup2")?;
        Some(Unified { mount: PathBuf::from(mount.point), own: mount.directory(group)? })
    }
}

/// A line of `mountinfo`.
struct Mount<'a> {
    /// Which directory of the file system is mounted.
    root: &'a str,
    point: &'a str,
    kind: &'a str,
    /// Of the file system.
    options: &'a str,
}

impl Mount<'_> {
    /// The directory of a group, if it lies below what is mounted.
    fn directory(&self, group: &str) -> Option<PathBuf> {
        let below = Path::new(group).strip_prefix(self.root).ok()?;
        let point = Path::new(self.point);
        // To join with nothing would append a slash.
        Some(if below == Path::new("") { point.to_owned() } else { point.join(below) })
    }
}

fn mounts(mountinfo: &str) -> impl Iterator<Item = Mount<'_>> {
    mountinfo.lines().filter_map(|line| {
        let (front, back) = line.split_once(" - ")?;
        let mut front = front.split(' ').skip(3);
        let mut back = back.split(' ');
        let (kind, options) = (back.next()?, back.nth(1)?);
        Some(Mount { root: front.next()?, point: front.next()?, kind, options })
    })
}

#[cfg(test)]
mod tests;
