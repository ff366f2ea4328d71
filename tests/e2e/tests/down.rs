//! After `mfaas down` nothing of ours is left: no process, mount, socket or temporary file.
#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::{collections::BTreeSet, fs};

use mfaas_harness::{Program, Stack, package};
use rustix::process::Signal;

#[test]
fn down_leaves_nothing() {
    let temporary = temporary_files();
    let stack = Stack::start();
    let home = stack.home().to_owned();
    let source = "pub fn handle(r: &[u8]) -> Vec<u8> {\n    r.to_vec()\n}\n";
    let _ = stack.deploy(package("last", source, "").path()).ok();
    assert!(
        !processes_naming(home.to_str().unwrap()).is_empty(),
        "the scan sees nothing while everything runs"
    );
    // A build under way and a program that does not answer make it no easier.
    let _ = stack.upload("busy", mfaas_harness::pack_directory(package("busy", source, "").path()));
    let _ = stack.signal(Program::Node, Signal::STOP);
    let _ = stack.down().ok();

    let left = processes_naming(home.to_str().unwrap());
    assert!(left.is_empty(), "processes: {left:?}");
    let mounts = fs::read_to_string("/proc/mounts").unwrap();
    assert!(!mounts.contains(home.to_str().unwrap()), "{mounts}");
    let sockets = fs::read_to_string("/proc/net/unix").unwrap();
    assert!(!sockets.contains(home.to_str().unwrap()), "{sockets}");
    let work: Vec<_> = fs::read_dir(home.join("builder/work")).unwrap().flatten().map(|e| e.path()).collect();
    assert!(work.is_empty(), "{work:?}");
    drop(stack);
    let new: Vec<String> =
        temporary_files().difference(&temporary).filter(|file| !is_used(file)).cloned().collect();
    assert!(new.is_empty(), "temporary files: {new:?}");
}

/// Processes whose command line, environment, directory or open files name the home.
fn processes_naming(home: &str) -> Vec<String> {
    let own = std::process::id().to_string();
    fs::read_dir("/proc")
        .unwrap()
        .flatten()
        .filter(|entry| entry.file_name().to_string_lossy().bytes().all(|byte| byte.is_ascii_digit()))
        .filter(|entry| entry.file_name().to_string_lossy() != own.as_str())
        .filter_map(|entry| {
            let read = |name: &str| {
                String::from_utf8_lossy(&fs::read(entry.path().join(name)).unwrap_or_default()).into_owned()
            };
            let directory = fs::read_link(entry.path().join("cwd")).unwrap_or_default().display().to_string();
            let named = [read("cmdline"), read("environ"), directory].iter().any(|text| text.contains(home));
            named.then(|| format!("{} {}", entry.file_name().display(), read("cmdline").replace('\0', " ")))
        })
        .collect()
}

/// Whether a process lives that names this file or has it mapped. After `down` none of ours does, so it is somebody else's: other
/// tests may run on the machine.
fn is_used(file: &str) -> bool {
    let processes = fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.path());
    processes
        .flat_map(|process| ["cmdline", "environ", "maps"].map(|name| process.join(name)))
        .any(|place| String::from_utf8_lossy(&fs::read(place).unwrap_or_default()).contains(file))
}

/// Names in /tmp and /dev/shm that programs of ours could have made.
fn temporary_files() -> BTreeSet<String> {
    ["/tmp", "/dev/shm"]
        .iter()
        .flat_map(|directory| fs::read_dir(directory).into_iter().flatten().flatten())
        .map(|entry| entry.path().display().to_string())
        .filter(|path| path.contains("mfaas") || path.contains("PostgreSQL") || path.contains("rustc"))
        .collect()
}
