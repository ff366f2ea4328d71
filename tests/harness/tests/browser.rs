//! A browser that does not end by itself is ended, with everything that it started.
#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::fs;
use std::panic::catch_unwind;
use std::path::PathBuf;
use std::time::Duration;

use mfaas_harness::browse;
use serde_json::json;

/// Enough for a browser to start on a busy machine.
const LIMIT: Duration = Duration::from_secs(15);

/// What `browse` says about a script that hangs, and the name of the run.
fn hung(leaves: bool) -> (String, String) {
    let config = json!({ "leaves": leaves });
    let panic = catch_unwind(|| browse("hang.mjs", &config, LIMIT, |_| ())).unwrap_err();
    let message = panic.downcast_ref::<String>().unwrap().clone();
    let run = message.split("hangs in ").nth(1).unwrap_or_else(|| panic!("it did not hang: {message}"));
    let run = run.split_whitespace().next().unwrap().to_owned();
    (message, run)
}

fn processes_of(run: &str) -> usize {
    let environments = fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.path().join("environ"));
    let is_of_it =
        |path: &PathBuf| fs::read(path).is_ok_and(|bytes| String::from_utf8_lossy(&bytes).contains(run));
    environments.filter(is_of_it).count()
}

#[test]
fn a_script_that_hangs_is_told_to_end_and_takes_its_browser_with_it() {
    let (message, run) = hung(false);
    assert!(message.contains("took longer than 15s"), "{message}");
    assert_eq!(processes_of(&run), 0);
}

#[test]
fn what_is_left_behind_is_ended_and_told() {
    let (message, run) = hung(true);
    assert!(message.contains("left processes behind"), "{message}");
    assert_eq!(processes_of(&run), 0);
}
