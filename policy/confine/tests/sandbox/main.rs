//! Attacks on a real sandbox. One executable is the runner, the process that becomes the sandbox, and
//! the attacker (see `attacks`).
#![allow(unsafe_code, reason = "attacks are system calls by number")]
#![allow(clippy::print_stdout, reason = "a test runner reports on standard output")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod attacks;
mod runs;

use std::process::ExitCode;

use attacks::ATTACKS;
use runs::{Layer, Level, Run};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.first().map(String::as_str) {
        Some(runs::SANDBOX) => runs::enter_sandbox(&arguments[1..]),
        Some(runs::ATTACK) => attacks::attack(&arguments[1]),
        Some(runs::LOCKED) => runs::be_locked(&arguments[1]),
        _ => run_tests(&arguments),
    }
}

type Test = (&'static str, fn());

const TESTS: &[Test] = &[
    ("attacks_by_system_call_are_killed", attacks_by_system_call_are_killed),
    ("seccomp_is_what_stops_them", seccomp_is_what_stops_them),
    ("foreign_system_calls_are_killed", foreign_system_calls_are_killed),
    ("other_system_calls_do_not_exist", other_system_calls_do_not_exist),
    ("nothing_is_inherited", nothing_is_inherited),
    ("no_power_is_left_behind_seccomp", no_power_is_left_behind_seccomp),
    ("a_second_thread_is_refused", a_second_thread_is_refused),
    ("a_locked_worker_gets_a_signal", a_locked_worker_gets_a_signal),
];

/// Understands a filter as `cargo test -- NAME` gives it; options of the usual runner change nothing.
fn run_tests(arguments: &[String]) -> ExitCode {
    let filters: Vec<&String> = arguments.iter().filter(|argument| !argument.starts_with('-')).collect();
    let wanted =
        |name: &str| filters.is_empty() || filters.iter().any(|filter| name.contains(filter.as_str()));
    let mut failed = Vec::new();
    for (name, test) in TESTS.iter().filter(|(name, _)| wanted(name)) {
        let passed = std::panic::catch_unwind(test).is_ok();
        println!("test {name} ... {}", if passed { "ok" } else { "FAILED" });
        if !passed {
            failed.push(*name);
        }
    }
    println!("\n{} failed: {}", failed.len(), failed.join(", "));
    if failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// At every level, and the same call from outside reaches the kernel.
fn attacks_by_system_call_are_killed() {
    for attack in ATTACKS {
        for level in [Level::Full, Level::Landlock] {
            assert_eq!(runs::inside(attack.name, level, None), Run::Killed, "{} at {level}", attack.name);
        }
        match runs::outside(attack.name) {
            Run::Killed => panic!("{} is killed outside too", attack.name),
            Run::Absent => println!("  this kernel does not have {}", attack.name),
            Run::Could | Run::Refused | Run::Crashed => {}
        }
    }
}

fn seccomp_is_what_stops_them() {
    for attack in ATTACKS {
        let run = runs::inside(attack.name, Level::Full, Some(Layer::Seccomp));
        assert_ne!(run, Run::Killed, "{}", attack.name);
    }
    assert_eq!(runs::inside("ptrace", Level::Full, Some(Layer::Seccomp)), Run::Could);
}

fn foreign_system_calls_are_killed() {
    for name in ["i386", "x32"] {
        for level in [Level::Full, Level::Landlock] {
            assert_eq!(runs::inside(name, level, None), Run::Killed, "{name} at {level}");
        }
        assert_ne!(runs::outside(name), Run::Killed, "{name}");
        assert_ne!(runs::inside(name, Level::Full, Some(Layer::Seccomp)), Run::Killed, "{name}");
    }
}

fn other_system_calls_do_not_exist() {
    for name in ["fork", "clone3", "kill", "setsid", "setuid", "symlink", "memfd_create", "capget"] {
        assert_eq!(runs::inside(name, Level::Full, None), Run::Absent, "{name}");
        assert!(matches!(runs::outside(name), Run::Could | Run::Refused), "{name}");
    }
}

fn nothing_is_inherited() {
    assert_eq!(runs::outside("descriptors"), Run::Could, "the attacker finds a descriptor that is open");
    for level in [Level::Full, Level::Landlock] {
        assert_eq!(runs::inside("descriptors", level, None), Run::Refused, "{level}");
    }
}

/// Without seccomp a sandboxed process can ask for what it has, which is nothing.
fn no_power_is_left_behind_seccomp() {
    let bare = |name| runs::inside(name, Level::Full, Some(Layer::Seccomp));
    assert_eq!(bare("capabilities"), Run::Refused);
    assert_eq!(bare("mount"), Run::Refused);
    assert_eq!(bare("become_root"), Run::Refused);
    assert_eq!(bare("first_process_memory"), Run::Refused);
    assert_eq!(bare("privileges_by_execution"), Run::Refused);
    assert_eq!(runs::outside("privileges_by_execution"), Run::Could);
}

fn a_second_thread_is_refused() {
    for level in [Level::Full, Level::Landlock] {
        let text = runs::sandbox_with_two_threads(level);
        assert!(text.contains("namespaces") || text.contains("threads"), "{text}");
    }
}

fn a_locked_worker_gets_a_signal() {
    assert_eq!(runs::locked("clock"), runs::LOCKED_DONE);
    assert_eq!(runs::locked("open"), runs::LOCKED_SIGNAL);
    assert_eq!(runs::locked("getpid"), runs::LOCKED_SIGNAL);
    assert_eq!(runs::locked("x32"), 128 + libc::SIGSYS);
    assert_eq!(runs::locked("i386"), 128 + libc::SIGSYS);
}
