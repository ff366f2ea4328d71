#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

//! Groups in a tree that looks like the kernel's.

use std::fs;
use std::path::Path;

use mfaas_cgroups::Hierarchies;
use mfaas_isolation::{CoreSet, DiskLimit};
use mfaas_isolation_client::Role;

use super::{DiskCounts, Groups, MemoryLimit, Naming};

const NAME: &str = "mfaas";
const NAMING: Naming<'_> = Naming { name: NAME, moves_primary: false, marks_egress: false };

/// A file that the kernel would make with the group.
fn file(directory: &Path, name: &str, text: &str) {
    fs::create_dir_all(directory).unwrap();
    fs::write(directory.join(name), text).unwrap();
}

fn read(directory: &Path, name: &str) -> String {
    fs::read_to_string(directory.join(name)).unwrap()
}

/// One hierarchy of version 2, with these controllers, where the program's group is `/site/isolation`.
fn version_two(root: &Path, controllers: &str) -> Groups {
    let group = root.join("site").join(NAME);
    for name in ["cpu.idle", "cpuset.cpus", "memory.max", "memory.high", "io.max", "cgroup.subtree_control"] {
        file(&group, name, "");
    }
    file(&group, "cgroup.controllers", controllers);
    file(&root.join("site"), "cgroup.subtree_control", "");
    fs::create_dir_all(root.join("site/isolation")).unwrap();
    for leaf in ["members", "stoppable", "mfaas-sandbox-1-2-3"] {
        file(&group.join(leaf), "cgroup.procs", "");
        file(&group.join(leaf), "cgroup.freeze", "0");
    }
    let mounts = format!("41 31 0:38 / {} rw - cgroup2 cgroup2 rw\n", root.display());
    Groups::below(&Hierarchies::new("0::/site/isolation\n".to_owned(), mounts), NAMING)
}

#[test]
fn a_group_of_version_two_lies_beside_the_programs_own() {
    let place = tempfile::tempdir().unwrap();
    let groups = version_two(place.path(), "cpu cpuset memory io pids\n");
    let group = place.path().join("site").join(NAME);
    assert!(groups.has_cores() && groups.has_idle_class() && groups.has_freezer());

    groups.add(7, false).unwrap();
    groups.add(8, true).unwrap();
    assert_eq!(read(&group.join("members"), "cgroup.procs"), "7");
    assert_eq!(read(&group.join("stoppable"), "cgroup.procs"), "8");

    groups.set_idle_class(true).unwrap();
    groups.set_cores(&CoreSet::parse("1-3").unwrap()).unwrap();
    groups.set_memory(Some(MemoryLimit { high_bytes: 5, max_bytes: 6 })).unwrap();
    let limits = ["cpu.idle", "cpuset.cpus", "memory.high", "memory.max"].map(|name| read(&group, name));
    assert_eq!(limits, ["1", "1-3", "5", "6"]);
    assert!(groups.memory_bytes().is_err(), "what cannot be read is not nothing");
    file(&group, "memory.stat", "anon 5\nfile 900\nshmem 7\nkernel 1\n");
    assert_eq!(groups.memory_bytes().unwrap(), Some(13), "the page cache is not counted");
    file(&group, "cpu.stat", "user_usec 5\nusage_usec 4321\nsystem_usec 7\n");
    assert_eq!(groups.cpu_us(Role::Secondary), Some(4_321));
    assert_eq!(groups.cpu_us(Role::Primary), None, "it has no group here");
    groups.set_memory(None).unwrap();
    assert_eq!(["memory.high", "memory.max"].map(|name| read(&group, name)), ["max", "max"]);
}

/// A builder that stands still loses the lease of its build: only what agreed to it is stopped, and builds have groups of their own.
#[test]
fn what_must_go_on_is_never_stopped() {
    let place = tempfile::tempdir().unwrap();
    let groups = version_two(place.path(), "cpu cpuset memory\n");
    let group = place.path().join("site").join(NAME);
    let frozen = || {
        ["members", "stoppable", "mfaas-sandbox-1-2-3"].map(|leaf| read(&group.join(leaf), "cgroup.freeze"))
    };
    groups.set_stopped(true).unwrap();
    assert_eq!(frozen(), ["0", "1", "1"]);
    groups.set_stopped(false).unwrap();
    assert_eq!(frozen(), ["0", "0", "0"]);
}

#[test]
fn what_is_not_handed_down_is_missing_and_said() {
    let place = tempfile::tempdir().unwrap();
    let groups = version_two(place.path(), "memory pids\n");
    assert!(!groups.has_cores() && !groups.has_idle_class() && groups.has_freezer());
    let cores =
        groups.mechanisms().into_iter().find(|mechanism| mechanism.name == "cores of a group").unwrap();
    assert_eq!(cores.by, None);
    assert!(cores.missing.unwrap().contains("cpuset"), "it names the controller");
    groups.set_cores(&CoreSet::parse("1").unwrap()).unwrap();
    assert_eq!(read(&place.path().join("site").join(NAME), "cpuset.cpus"), "", "nothing is written there");
}

/// In version 1 a process is in one group for each controller; only what may be stopped is in that of the freezer.
#[test]
fn groups_of_version_one_lie_below_the_programs_own() {
    let place = tempfile::tempdir().unwrap();
    let mut mounts = String::new();
    let mut own = String::new();
    for (controller, files) in [
        ("cpu", ["cpu.idle", "cgroup.procs"]),
        ("cpuset", ["cpuset.cpus", "cgroup.procs"]),
        ("freezer", ["freezer.state", "cgroup.procs"]),
    ] {
        let mount = place.path().join(controller);
        files.iter().for_each(|name| file(&mount.join("a").join(NAME), name, ""));
        mounts += &format!("1 1 0:1 / {} rw - cgroup cgroup rw,{controller}\n", mount.display());
        own += &format!("3:{controller}:/a\n");
    }
    let cpuset = place.path().join("cpuset/a");
    file(&cpuset, "cpuset.cpus", "0-7\n");
    file(&cpuset, "cpuset.mems", "0\n");
    file(&cpuset.join(NAME), "cpuset.mems", "");
    let groups = Groups::below(&Hierarchies::new(own, mounts), NAMING);
    assert_eq!(read(&cpuset.join(NAME), "cpuset.cpus"), "0-7", "a new group has the cores of the one above");

    groups.add(7, false).unwrap();
    let procs = |controller: &str| read(&place.path().join(controller).join("a").join(NAME), "cgroup.procs");
    assert_eq!((procs("cpu").as_str(), procs("cpuset").as_str(), procs("freezer").as_str()), ("7", "7", ""));
    groups.set_stopped(true).unwrap();
    assert_eq!(read(&place.path().join("freezer/a").join(NAME), "freezer.state"), "FROZEN");
    assert_eq!(groups.memory_bytes().unwrap(), None, "nobody counts it");
}

/// Where the primary is moved, the secondary gives way to it alone: the group of both has what any other group has.
#[test]
fn the_primarys_group_lies_beside_the_secondarys() {
    let place = tempfile::tempdir().unwrap();
    let group = place.path().join("cpu/a").join(NAME);
    for (directory, name) in [("primary", "cgroup.procs"), ("secondary", "cpu.idle")] {
        file(&group.join(directory), name, "");
    }
    for directory in ["", "primary"] {
        file(&group.join(directory), "cpu.rt_period_us", "");
        file(&group.join(directory), "cpu.rt_runtime_us", "");
    }
    file(&group.join("secondary"), "cgroup.procs", "");
    let mounts = format!("1 1 0:1 / {} rw - cgroup cgroup rw,cpu\n", place.path().join("cpu").display());
    let hierarchies = Hierarchies::new("3:cpu:/a\n".to_owned(), mounts);
    let groups = Groups::below(&hierarchies, Naming { name: NAME, moves_primary: true, marks_egress: false });
    groups.add(7, false).unwrap();
    groups.add_primary(&[std::process::id()]).unwrap();
    groups.set_real_time(true).unwrap();
    groups.set_idle_class(true).unwrap();
    let found = [("primary", "cgroup.procs"), ("secondary", "cgroup.procs"), ("secondary", "cpu.idle")];
    let own = std::process::id().to_string();
    assert_eq!(found.map(|(directory, name)| read(&group.join(directory), name)), [own.as_str(), "7", "1"]);
    let real_time = |name| ["", "primary"].map(|directory| read(&group.join(directory), name));
    assert_eq!(real_time("cpu.rt_period_us"), ["10000"; 2]);
    assert_eq!(real_time("cpu.rt_runtime_us"), ["9500"; 2]);
    groups.set_real_time(false).unwrap();
    // A plain file keeps what is behind.
    assert_eq!(real_time("cpu.rt_runtime_us"), ["0500"; 2]);
    assert_eq!(groups.cpu_us(Role::Primary), None, "nobody counts it");
    file(&group.join("primary"), "cpuacct.usage", "5000999\n");
    file(&group.join("secondary"), "cpuacct.usage", "7000\n");
    assert_eq!([Role::Primary, Role::Secondary].map(|role| groups.cpu_us(role)), [Some(5_000), Some(7)]);
    Groups::below(&hierarchies, NAMING).add_primary(&[1]).unwrap();
    assert_eq!(read(&group.join("primary"), "cgroup.procs"), own, "nothing was moved");
}

const LIMIT: DiskLimit = DiskLimit { read_iops: 1, write_iops: 2, read_bytes_per_s: 3, write_bytes_per_s: 4 };
const COUNTS: DiskCounts = DiskCounts { reads: 3, writes: 4, read_bytes: 1, written_bytes: 2 };

#[test]
fn a_disk_is_counted_and_bounded_in_version_two() {
    let place = tempfile::tempdir().unwrap();
    let groups = version_two(place.path(), "io\n");
    let group = place.path().join("site").join(NAME);
    file(
        &group,
        "io.stat",
        "8:0 rbytes=9 wbytes=9 rios=9 wios=9\n254:0 rbytes=1 wbytes=2 rios=3 wios=4 dbytes=0\n",
    );
    assert_eq!(groups.disk("254:0"), Some(COUNTS));
    assert_eq!(groups.disk("254:1"), Some(DiskCounts::default()), "it has done nothing there");
    groups.set_disk("254:0", Some(&LIMIT)).unwrap();
    assert_eq!(read(&group, "io.max"), "254:0 rbps=3 wbps=4 riops=1 wiops=2");
    groups.set_disk("254:0", None).unwrap();
    assert!(read(&group, "io.max").starts_with("254:0 rbps=max wbps=max riops=max wiops=max"));
}

#[test]
fn a_disk_is_counted_and_bounded_in_version_one() {
    let place = tempfile::tempdir().unwrap();
    let group = place.path().join("blkio").join(NAME);
    let throttle = ["read_iops_device", "write_iops_device", "read_bps_device", "write_bps_device"];
    let throttle = throttle.map(|name| format!("blkio.throttle.{name}"));
    throttle.iter().for_each(|name| file(&group, name, ""));
    file(
        &group,
        "blkio.throttle.io_serviced_recursive",
        "254:0 Read 3\n254:0 Write 4\n254:0 Total 7\nTotal 7\n",
    );
    file(&group, "blkio.throttle.io_service_bytes_recursive", "254:0 Read 1\n254:0 Write 2\nTotal 3\n");
    let mounts = format!("1 1 0:1 / {} rw - cgroup cgroup rw,blkio\n", place.path().join("blkio").display());
    let groups = Groups::below(&Hierarchies::new("3:blkio:/\n".to_owned(), mounts), NAMING);
    assert_eq!(groups.disk("254:0"), Some(COUNTS));
    groups.set_disk("254:0", Some(&LIMIT)).unwrap();
    assert_eq!(
        throttle.each_ref().map(|name| read(&group, name)),
        ["254:0 1", "254:0 2", "254:0 3", "254:0 4"]
    );
    groups.set_disk("254:0", None).unwrap();
    assert_eq!(throttle.map(|name| read(&group, &name)), ["254:0 0"; 4]);
}
