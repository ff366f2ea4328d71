#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

//! Groups from the texts of the kernel.

use std::path::{Path, PathBuf};

use crate::{Hierarchies, Unified};

const MOUNTS: &str = "34 31 0:32 / /sys/fs/cgroup/memory rw,relatime shared:1 - cgroup cgroup rw,memory\n\
    39 31 0:36 /outer /sys/fs/cgroup/pids rw - cgroup cgroup rw,pids\n\
    32 31 0:29 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct\n\
    41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n";

fn hierarchies(own: &str) -> Hierarchies {
    Hierarchies::new(own.to_owned(), MOUNTS.to_owned())
}

#[test]
fn groups_are_found_where_they_are_mounted() {
    let found = hierarchies("8:pids:/outer/ours\n4:memory:/a/b\n2:cpu,cpuacct:/\n0::/x\n");
    let group = |controller| found.version_one(controller);
    assert_eq!(group("memory").as_deref(), Some(Path::new("/sys/fs/cgroup/memory/a/b")));
    assert_eq!(group("pids").as_deref(), Some(Path::new("/sys/fs/cgroup/pids/ours")));
    assert_eq!(
        group("cpuacct").as_deref(),
        Some(Path::new("/sys/fs/cgroup/cpu")),
        "without a slash at its end"
    );
    assert_eq!(group("cpuset"), None, "not in the file");
    let mount = PathBuf::from("/sys/fs/cgroup/unified");
    assert_eq!(found.version_two(), Some(Unified { own: mount.join("x"), mount }));
}

#[test]
fn a_group_above_what_is_mounted_is_none() {
    assert_eq!(hierarchies("8:pids:/elsewhere\n").version_one("pids"), None);
    assert_eq!(hierarchies("8:pids:/outer\n").version_two(), None);
}
