//! Whatever is killed, nothing is left behind.

use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::limits::{HOLD, marker, processes_with, wait_until};
use crate::setup::{text, this_executable};

pub(crate) const TESTS: &[crate::Test] = &[
    ("nothing_survives_the_death_of_the_helper", nothing_survives_the_death_of_the_helper),
    ("nothing_survives_the_death_of_the_first_process", nothing_survives_the_death_of_the_first_process),
    ("nothing_survives_the_death_of_the_program", nothing_survives_the_death_of_the_program),
    ("nothing_survives_the_death_of_the_builder", nothing_survives_the_death_of_the_builder),
];

/// A builder whose sandboxed program has eight children.
fn busy_builder(work: &Path, marker: &str) -> Child {
    let builder = Command::new(this_executable())
        .args([HOLD, work.to_str().unwrap(), "each", "8", marker, "sleep", "600"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    // The builder, its program, and the children.
    wait_until("all children run", || processes_with(marker) >= 10);
    builder
}

fn children(process: u32) -> Vec<u32> {
    let threads = std::fs::read_dir(format!("/proc/{process}/task")).unwrap();
    let lists =
        threads.filter_map(|thread| std::fs::read_to_string(thread.ok()?.path().join("children")).ok());
    let lists: Vec<String> = lists.collect();
    lists.iter().flat_map(|list| list.split_whitespace()).map(|id| id.parse().unwrap()).collect()
}

fn only_child(process: u32) -> u32 {
    let all = children(process);
    assert_eq!(all.len(), 1, "{all:?}");
    all[0]
}

fn kill(process: u32) {
    let process = rustix::process::Pid::from_raw(i32::try_from(process).unwrap()).unwrap();
    rustix::process::kill_process(process, rustix::process::Signal::KILL).unwrap();
}

fn mounts() -> String {
    text(&std::fs::read("/proc/self/mountinfo").unwrap())
}

/// Groups that a builder has made.
fn groups(builder: u32) -> Vec<std::path::PathBuf> {
    let mut found = Vec::new();
    let mut open = vec![std::path::PathBuf::from("/sys/fs/cgroup")];
    while let Some(path) = open.pop() {
        let entries = std::fs::read_dir(&path).into_iter().flatten().flatten();
        open.extend(
            entries
                .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
                .map(|entry| entry.path()),
        );
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if name.starts_with(&format!("mfaas-sandbox-{builder}-")) {
            found.push(path);
        }
    }
    found
}

/// What is killed is found from the builder's id; the builder itself lives on and says what happened.
fn after_killing(victim: impl Fn(u32) -> u32, expected: &str) {
    let place = tempfile::tempdir().unwrap();
    let (marker, before) = (marker("left-over"), mounts());
    let builder = busy_builder(place.path(), &marker);
    let id = builder.id();
    kill(victim(id));
    let output = builder.wait_with_output().unwrap();
    assert!(text(&output.stdout).contains(expected), "{output:?}");
    wait_until("all processes are gone", || processes_with(&marker) == 0);
    assert_eq!(mounts(), before);
    assert_eq!(groups(id), Vec::<std::path::PathBuf>::new());
    assert_eq!(std::fs::read_dir(place.path()).unwrap().count(), 0, "the program has written nothing");
}

fn nothing_survives_the_death_of_the_helper() {
    after_killing(only_child, "the sandbox was lost");
}

fn nothing_survives_the_death_of_the_first_process() {
    after_killing(|builder| only_child(only_child(builder)), "the sandbox was lost");
}

fn nothing_survives_the_death_of_the_program() {
    after_killing(|builder| only_child(only_child(only_child(builder))), "killed from outside");
}

/// The builder cannot clean up; the kernel ends the processes, and the next builder takes the
/// empty groups away.
fn nothing_survives_the_death_of_the_builder() {
    let place = tempfile::tempdir().unwrap();
    let (marker, before) = (marker("orphaned"), mounts());
    let mut builder = busy_builder(place.path(), &marker);
    let id = builder.id();
    builder.kill().unwrap();
    builder.wait().unwrap();
    wait_until("all processes are gone", || processes_with(&marker) == 0);
    assert_eq!(mounts(), before);
    let next =
        || Command::new(this_executable()).args([HOLD, place.path().to_str().unwrap(), "nothing"]).output();
    wait_until("the groups are gone", || next().unwrap().status.success() && groups(id).is_empty());
}
