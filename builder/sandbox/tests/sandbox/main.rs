//! Real sandboxes. One executable plays three parts: the test runner, the helper that sandboxes are
//! built from, and the program that misbehaves inside (see `probes`).
#![allow(clippy::print_stdout, reason = "a test runner reports on standard output")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod canary;
mod isolation;
mod leftovers;
mod limits;
mod measure;
mod probes;
mod setup;
mod toolchain;
mod tree;
mod trial;

use std::process::ExitCode;

type Test = (&'static str, fn());

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.first().map(String::as_str) {
        Some(mfaas_sandbox::SANDBOX_EXEC) => {
            mfaas_sandbox::sandbox_exec_main_for_tests(&mfaas_confine::AblationToken::for_tests())
        }
        Some(setup::PRODUCTION) => mfaas_sandbox::sandbox_exec_main(),
        Some(probes::PROBE) => probes::run(&arguments[1..]),
        Some(trial::DENIED) => trial::denied(&arguments[1..]),
        Some(limits::HOLD) => {
            limits::hold(&arguments[1..]);
            ExitCode::SUCCESS
        }
        Some(measure::MEASURE) => {
            measure::measure(&arguments[1..]);
            ExitCode::SUCCESS
        }
        _ => run_tests(&arguments),
    }
}

/// Understands a filter as `cargo test -- NAME` gives it; options of the usual runner change nothing.
fn run_tests(arguments: &[String]) -> ExitCode {
    let filters: Vec<&String> = arguments.iter().filter(|argument| !argument.starts_with('-')).collect();
    let tests = [
        isolation::TESTS,
        trial::TESTS,
        canary::TESTS,
        limits::TESTS,
        tree::TESTS,
        leftovers::TESTS,
        toolchain::TESTS,
    ]
    .concat();
    let mut failed = Vec::new();
    let mut passed = 0;
    for (name, test) in &tests {
        if !filters.is_empty() && !filters.iter().any(|filter| name.contains(filter.as_str())) {
            continue;
        }
        if std::panic::catch_unwind(test).is_ok() {
            println!("test {name} ... ok");
            passed += 1;
        } else {
            println!("test {name} ... FAILED");
            failed.push(*name);
        }
    }
    println!("\n{passed} passed; {} failed: {}", failed.len(), failed.join(", "));
    if failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
