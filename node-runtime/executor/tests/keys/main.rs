//! Calls under protection keys, by a program of one thread: each test in turn, in one process. On a
//! machine without keys it says so and has nothing to show, unless `MFAAS_TEST_KEYS=required`.
//! `scripts/test-keys` runs it in a virtual machine that has them.

#![allow(missing_docs, reason = "a test")]
#![allow(unsafe_code, reason = "it signals its own thread, forks, and looks at its own code")]
#![allow(clippy::print_stdout, reason = "there is no harness that would say it")]

mod attacks;
mod ends;
mod fixture;
mod inline;
mod registers;

#[path = "../executor/hosts.rs"]
mod hosts;
/// The same functions as in the executor's other tests.
#[path = "../executor/toolchain.rs"]
mod toolchain;
#[path = "../executor/watcher.rs"]
mod watcher;

use mfaas_executor::Keys;

use crate::fixture::Fixture;

fn main() {
    bind_everything_now();
    let mut fixture = Fixture::new();
    run("without keys nothing stops a function", &mut fixture, attacks::without_keys);
    match fixture.executor.protect().expect("all of it, or nothing") {
        Keys::On => {}
        Keys::Off(reason) => {
            assert_ne!(std::env::var("MFAAS_TEST_KEYS").as_deref(), Ok("required"), "no keys: {reason}");
            println!("skipped: {reason}");
            return;
        }
    }
    // Threads have the rights of whoever starts them, so this one comes after.
    fixture.watch();
    for (name, test) in TESTS {
        run(name, &mut fixture, *test);
    }
}

type Test = fn(&mut Fixture);

const TESTS: &[(&str, Test)] = &[
    ("a plain call answers", ends::a_plain_call_answers),
    ("what std offers works", ends::what_std_offers_works),
    ("every end is what it is without keys", ends::every_end),
    ("printing becomes log lines", ends::printing),
    ("the worker's memory is neither read nor written", attacks::memory_of_the_worker),
    ("directory and constants stay readable", attacks::constants),
    ("services take no pointers of the worker's", attacks::services),
    ("other values at a gate are a fault", attacks::other_values),
    ("a gate's own value opens nothing", attacks::own_values),
    ("a gate does not use a stack of the worker's", attacks::other_stacks),
    ("calls within calls answer", inline::others_are_called),
    ("nor does a call within a call reach the worker's memory", inline::memory_of_the_worker),
    ("registers are the host's again", registers::are_the_hosts_again),
    ("a gate does not use a thread's data of the function's choice", registers::a_gate_wants_the_hosts_base),
    ("kills leave no trace", ends::kills),
    ("signals interrupt calls and lose nothing", ends::signals),
    ("a call is preempted and goes on", ends::preemptions),
];

fn run(name: &str, fixture: &mut Fixture, test: Test) {
    println!("test {name} ...");
    test(fixture);
    println!("test {name} ... ok");
}

/// Starts this program again with every symbol bound: ld.so's way of binding later is closed under keys,
/// which a worker does not need and a test that starts threads does.
fn bind_everything_now() {
    use std::os::unix::process::CommandExt as _;
    const NOW: &str = "LD_BIND_NOW";
    if std::env::var_os(NOW).is_none() {
        let program = std::env::current_exe().expect("our own program");
        let error = std::process::Command::new(program).env(NOW, "1").exec();
        panic!("start again: {error}");
    }
}
