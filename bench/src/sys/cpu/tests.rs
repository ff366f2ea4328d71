#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use super::*;

#[test]
fn what_is_idle_is_the_fourth_and_the_fifth_number() {
    let at = |text| Cpu::parse(text).unwrap();
    let before = at("cpu  100 0 0 200 50 0 0 0 0 0\ncpu0 1 1 1 1 1 1 1 1 1 1\n");
    let after = at("cpu  130 10 20 230 60 0 0 0 999 999\n");
    // Of a hundred ticks thirty and ten were idle.
    assert!((after.busy_since(before) - 0.6).abs() < 1e-9);
    assert!(after.busy_since(after).is_nan());
    assert_eq!(Cpu::parse("intr 1 2 3\n"), None);
}

#[test]
fn cpu_time_of_children_counts_while_they_live_and_after() {
    // A shell whose child computes until it is killed, and which waits for it and then for us.
    let script = "sh -c 'while :; do :; done' & echo $!; wait; echo gone; read end";
    let mut shell =
        Command::new("sh").args(["-c", script]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut said = BufReader::new(shell.stdout.take().unwrap()).lines();
    let child = said.next().unwrap().unwrap().parse().unwrap();
    let begin = Instant::now();
    let mut alive = 0.0;
    while alive < 0.1 {
        assert!(begin.elapsed() < Duration::from_secs(60), "the time of a child that lives is not seen");
        std::thread::sleep(Duration::from_millis(10));
        alive = tree_seconds(shell.id()).unwrap();
    }
    kill_process(Pid::from_raw(child).unwrap(), Signal::KILL).unwrap();
    assert_eq!(said.next().unwrap().unwrap(), "gone");
    let after = tree_seconds(shell.id()).unwrap();
    drop(shell.stdin.take());
    shell.wait().unwrap();
    assert!(after >= alive, "{after} s once it is gone, {alive} s before");
}

#[test]
fn a_process_is_in_the_class_that_it_was_put_into() {
    assert_eq!(class(std::process::id()), Some(0), "everybody begins as everybody");
    assert_eq!(class(0), None, "there is no such process");
}
