//! Reading wait statuses, counting what was written, placing paths. Sandboxes are in `tests/sandbox`.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::Path;
use std::time::Duration;

use mfaas_cgroups::Hierarchies;
use mfaas_rules::limits::COMPILE;

use crate::exit::{Used, classify};
use crate::written::{Written, written};
use crate::{Exit, Level, Placement};

const LITTLE: Used = Used { cpu: Duration::from_millis(10), max_rss_bytes: 1 << 20, file_full: false };

const SIGABRT: i32 = 6;
const SIGSEGV: i32 = 11;
const SIGXCPU: i32 = 24;
const SIGXFSZ: i32 = 25;
const SIGSYS: i32 = 31;

fn code(code: i32) -> i32 {
    code << 8
}

fn exit(status: i32, used: Used, stderr: &str) -> Exit {
    classify(status, used, stderr.as_bytes(), &COMPILE)
}

#[test]
fn plain_ends_stay_plain() {
    assert_eq!(exit(code(0), LITTLE, ""), Exit::Code(0));
    assert_eq!(exit(code(1), LITTLE, "error[E0308]: mismatched types"), Exit::Code(1));
    assert_eq!(exit(SIGSEGV, LITTLE, ""), Exit::Signal(SIGSEGV));
    assert_eq!(exit(SIGABRT, LITTLE, "thread 'rustc' panicked"), Exit::Signal(SIGABRT));
    assert!(Exit::Code(0).success() && !Exit::Code(1).success() && !Exit::WallLimit.success());
}

#[test]
fn signals_of_limits_are_limits() {
    assert_eq!(exit(SIGXCPU, LITTLE, ""), Exit::CpuLimit);
    assert_eq!(exit(SIGXFSZ, LITTLE, ""), Exit::FileLimit);
    assert_eq!(exit(SIGSYS, LITTLE, ""), Exit::Denied);
}

#[test]
fn a_failure_at_a_limit_is_that_limit() {
    let hot = Used { cpu: Duration::from_secs(COMPILE.cpu_seconds_max), ..LITTLE };
    let large = Used { max_rss_bytes: COMPILE.memory_bytes_max / 100 * 95, ..LITTLE };
    let full = Used { file_full: true, ..LITTLE };
    assert_eq!(exit(code(1), hot, ""), Exit::CpuLimit, "the linker was killed, rustc says so");
    assert_eq!(exit(code(1), large, ""), Exit::MemoryLimit);
    assert_eq!(exit(code(1), full, ""), Exit::FileLimit);
    for used in [hot, large, full] {
        assert_eq!(exit(code(0), used, ""), Exit::Code(0), "all is well that ends well");
    }
}

#[test]
fn memory_is_believed_at_the_start_of_a_line_alone() {
    let own_notes = "note: checking\nmemory allocation of 4096 bytes failed\n";
    assert_eq!(exit(SIGABRT, LITTLE, own_notes), Exit::MemoryLimit);
    assert_eq!(exit(code(1), LITTLE, "LLVM ERROR: out of memory"), Exit::MemoryLimit);
    let quoted = "3 | const X: &str = \"memory allocation of 4096 bytes failed\";";
    assert_eq!(exit(code(1), LITTLE, quoted), Exit::Code(1));
}

#[test]
fn what_was_written_is_counted_without_following_links() {
    let place = tempfile::tempdir().unwrap();
    let directory = place.path().join("a/b");
    std::fs::create_dir_all(&directory).unwrap();
    std::fs::write(directory.join("long"), vec![1; 3 << 20]).unwrap();
    std::fs::write(place.path().join("short"), vec![1; 1 << 20]).unwrap();
    std::os::unix::fs::symlink("/usr", place.path().join("link")).unwrap();
    std::os::unix::fs::symlink(place.path(), directory.join("loop")).unwrap();
    let Written { total_bytes, longest_bytes } = written(&[place.path().to_owned()]);
    assert_eq!(longest_bytes, 3 << 20);
    assert!((4 << 20..5 << 20).contains(&total_bytes), "{total_bytes}");
    assert_eq!(written(&[place.path().join("absent")]), Written::default());
}

#[test]
fn more_files_than_are_counted_are_too_much() {
    let place = tempfile::tempdir().unwrap();
    for number in 0..20_100 {
        std::fs::File::create(place.path().join(number.to_string())).unwrap();
    }
    assert_eq!(written(&[place.path().to_owned()]).total_bytes, u64::MAX);
}

#[test]
fn a_landlock_sandbox_has_the_paths_of_the_host() {
    let (host, fixed) = (Path::new("/srv/toolchain"), Path::new("/toolchain"));
    assert_eq!(Placement::at(Level::Full).inside(host, fixed), fixed);
    assert_eq!(Placement::at(Level::Landlock).inside(host, fixed), host);
}

#[test]
fn processes_are_read_as_the_kernel_writes_them() {
    let stat = "7 (a (b) c) S 1 7 7 0 -1 4194560 100 0 0 0 150 50 20 30 20 0 5 0 12345 1000 10";
    assert_eq!(crate::tree::tasks_and_cpu(stat), (5, Duration::from_millis(2_500)));
    assert_eq!(crate::tree::tasks_and_cpu(""), (0, Duration::ZERO));
    let status = "Name:\tx\nRssAnon:\t  100 kB\nRssFile:\t 9000 kB\nRssShmem:\t 20 kB\nVmPTE:\t 3 kB\nVmSwap:\t 1 kB\n";
    assert_eq!(crate::tree::memory_bytes(status), 124 << 10);
    let own = crate::tree::tree_use(std::process::id());
    assert!(own.tasks >= 1 && own.memory_bytes > 1 << 16, "{own:?}");
    assert_eq!(crate::tree::tree_use(u32::MAX).tasks, 0);
}

#[test]
fn what_is_beyond_a_limit_is_that_limit() {
    use crate::tree::TreeUse;
    let judge = |used| crate::monitor::judge(used, &COMPILE);
    let fine = TreeUse {
        tasks: COMPILE.processes_max,
        memory_bytes: COMPILE.memory_bytes_max,
        cpu: Duration::from_secs(1),
    };
    assert_eq!(judge(fine), None);
    assert_eq!(judge(TreeUse { tasks: COMPILE.processes_max + 3, ..fine }), Some(Exit::ProcessLimit));
    assert_eq!(
        judge(TreeUse { memory_bytes: COMPILE.memory_bytes_max + 1, ..fine }),
        Some(Exit::MemoryLimit)
    );
    let long = Duration::from_secs(COMPILE.cpu_seconds_max + 1);
    assert_eq!(judge(TreeUse { cpu: long, ..fine }), Some(Exit::CpuLimit));
}

/// Version 2: a group that holds processes hands nothing down, its parent may.
#[test]
fn a_group_of_version_two_lies_where_controllers_are_handed_down() {
    let place = tempfile::tempdir().unwrap();
    let root = place.path().to_str().unwrap();
    std::fs::create_dir_all(place.path().join("delegated/builder")).unwrap();
    let mounts = format!("41 31 0:38 / {root} rw - cgroup2 cgroup2 rw\n");
    let find = || {
        crate::cgroup::version_two(&Hierarchies::new("0::/delegated/builder\n".to_owned(), mounts.clone()))
    };
    assert_eq!(find(), None, "nobody hands anything down");
    std::fs::write(place.path().join("delegated/cgroup.subtree_control"), "cpu io memory pids\n").unwrap();
    let places = format!("{:?}", find().unwrap());
    assert!(places.contains(&format!("\"{root}/delegated\"")), "{places}");
}
