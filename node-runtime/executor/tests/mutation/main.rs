//! Mutants of verified code, executed: every one that the verifier accepts runs in a process of its own, and
//! none reads, writes or jumps outside of its window, or cannot be stopped. Some of those that it refuses
//! run in the same way, so that it shows that the processes would see it.
//!
//! ```console
//! $ cargo test -p mfaas-executor --test mutation     # some thousand mutants
//! $ scripts/mutation --offered 10000000              # many, in as many sessions as it takes
//! ```
//! docs/mutation.md says what is observed and how. A program of one thread, since it forks.

#![allow(missing_docs, reason = "a test")]
#![allow(unsafe_code, reason = "it forks, maps memory, and runs what nobody has verified")]
#![allow(clippy::print_stdout, reason = "there is no harness that would say it")]

mod base;
mod block;
mod judge;
mod mutant;
mod random;
mod snippets;
mod start;
mod state;
/// The same functions as in the executor's other tests.
#[path = "../executor/toolchain.rs"]
mod toolchain;
mod trial;
mod window;
mod zygote;

use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use crate::base::Base;
use crate::judge::{Escape, Inside};
use crate::start::Halves;
use crate::state::State;
use crate::trial::{Extent, Trial};

/// Mutants of the short form, and how many of them have to be accepted.
const SHORT: u64 = 60_000;
const SHORT_ACCEPTED: u64 = 10_000;
/// Of the short form and of the long one. Beside other tests a process may wait for a while to run at all.
const SHORT_EXTENT: Extent = Extent { control_share: 4, time_us: 20_000 };
const EXTENT: Extent = Extent { control_share: 32, time_us: 2_000 };
/// Mutants between two writes of the state.
const SAVED_EVERY: u64 = 10_000;
/// A run with so many escapes ends.
const ESCAPES_MAX: usize = 16;

/// What the program was asked for.
struct Options {
    offered: u64,
    seed: u64,
    state: Option<PathBuf>,
    only: Option<u64>,
    is_short: bool,
}

fn main() -> ExitCode {
    without_restartable_sequences();
    let options = options();
    let extent = if options.is_short { SHORT_EXTENT } else { EXTENT };
    let trial = Trial::new(bases(), options.seed, extent);
    print!("{}", trial.describe());
    match options.only {
        Some(index) => show(trial, index),
        None => run(trial, &options),
    }
}

fn options() -> Options {
    let mut options = Options { offered: SHORT, seed: 1, state: None, only: None, is_short: true };
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let mut number = || arguments.next().and_then(|text| text.parse().ok()).expect("a number");
        match argument.as_str() {
            "--offered" => (options.offered, options.is_short) = (number(), false),
            "--seed" => options.seed = number(),
            "--only" => options.only = Some(number()),
            "--state" => options.state = Some(arguments.next().expect("a file").into()),
            // Cargo's own arguments, which are for harnesses.
            _ => {}
        }
    }
    options
}

/// What mutants are made of, and the requests with which they run.
fn bases() -> Vec<Base> {
    let request = |value: u64| [&value.to_le_bytes()[..], &[7; 96]].concat();
    let small: Vec<Vec<u8>> = [3, 7, 0x1234_5678_9abc_def1, 15].map(request).to_vec();
    let small: Vec<&[u8]> = small.iter().map(Vec::as_slice).collect();
    let large: [&[u8]; 3] = [b"hello", b"verify", b"libm"];
    vec![Base::new("sample", toolchain::sample(), &small), Base::new("tenant", toolchain::tenant(), &large)]
}

/// Starts this program again without what the C library has registered with the kernel for a thread: the
/// kernel would look for it in memory that is unmapped.
fn without_restartable_sequences() {
    const TUNABLES: &str = "GLIBC_TUNABLES";
    const NONE: &str = "glibc.pthread.rseq=0";
    if std::env::var(TUNABLES).as_deref() != Ok(NONE) {
        let program = std::env::current_exe().expect("our own program");
        let error =
            std::process::Command::new(program).args(std::env::args_os().skip(1)).env(TUNABLES, NONE).exec();
        panic!("start again: {error}");
    }
}

/// Runs what the options say, from where the state ends.
fn run(mut trial: Trial, options: &Options) -> ExitCode {
    controls(&mut trial);
    let origin = trial.origin();
    let mut state = match &options.state {
        Some(file) => State::load(file, options.seed, &origin),
        None => State::new(options.seed, origin),
    };
    let (begin, first) = (Instant::now(), state.next);
    while state.next < options.offered && state.escapes.len() < ESCAPES_MAX {
        let known = state.escapes.len();
        trial.offer(state.next, &mut state);
        state.next += 1;
        if let Some((index, seen)) = state.escapes.get(known) {
            println!("ESCAPE {index}, seed {}: {seen}", options.seed);
            println!("{}", trial.try_one(*index, true).details);
        }
        if let Some(file) = &options.state
            && (state.next % SAVED_EVERY == 0 || state.next == options.offered || state.escapes.len() > known)
        {
            state.save(file);
        }
    }
    let rate = (state.next - first) as f64 / begin.elapsed().as_secs_f64();
    report(&state);
    println!("{rate:.0} offered a second");
    if options.is_short {
        demand(&state);
    }
    if state.escapes.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// What the state has counted.
fn report(state: &State) {
    println!("seed {}, made of {}", state.seed, &state.origin);
    println!(
        "accepted and executed {}, refused {}, controls executed {}",
        state.sum("accepted"),
        state.sum("refused"),
        state.sum("control")
    );
    for (name, count) in &state.counts {
        println!("    {count:>10} {name}");
    }
    println!("escapes of accepted mutants: {}", state.sum("accepted, escape"));
}

/// The short form has shown something.
fn demand(state: &State) {
    assert!(state.sum("accepted") > SHORT_ACCEPTED, "too few were accepted");
    for end in [Inside::Returned, Inside::Timer] {
        assert!(state.sum(&format!("accepted: {end}")) > 0, "no accepted mutant has {end}");
    }
    assert!(state.sum("accepted: fault inside") > 100, "too few accepted mutants have faulted");
    for escape in [Escape::Read, Escape::Write, Escape::Jump, Escape::SystemCall, Escape::State] {
        assert!(state.sum(&format!("control, escape: {escape}")) > 0, "no control shows: {escape}");
    }
    assert_eq!(state.escapes, [], "accepted mutants got out");
}

/// Code by hand that gets out, in every way that has a name: each is seen as what it is.
fn controls(trial: &mut Trial) {
    let outside = Halves::Outside(0x1234);
    let time_us = 200_000;
    let cases: [(&str, &[u8], Halves, Escape); 15] = [
        ("a load", &[0x48, 0x8b, 0x07], outside, Escape::Read),
        ("a store", &[0x48, 0x89, 0x07], outside, Escape::Write),
        ("a jump", &[0xff, 0xe7], outside, Escape::Jump),
        ("a call", &[0xff, 0xd7], outside, Escape::Jump),
        (
            "a load of an address that is none",
            &[0x48, 0x8b, 0x07],
            Halves::Outside(0x9234_5678),
            Escape::Read,
        ),
        (
            "a store to an address that is none",
            &[0x48, 0x89, 0x07],
            Halves::Outside(0x9234_5678),
            Escape::Write,
        ),
        ("a jump to an address that is none", &[0xff, 0xe7], Halves::Outside(0x9234_5678), Escape::Jump),
        // mov eax, DATA; jmp [rax]
        ("the word of the gates", &[0xb8, 0, 0, 0, 0x50, 0xff, 0x20], outside, Escape::Jump),
        ("a load by GS", &[0x65, 0x67, 0x8b, 0x07], outside, Escape::Read),
        ("a store by FS", &[0x64, 0x67, 0x89, 0x07], outside, Escape::Write),
        ("a system call", &[0xb8, 39, 0, 0, 0, 0x0f, 0x05], outside, Escape::SystemCall),
        ("a halt", &[0xf4], outside, Escape::Privileged),
        ("a stack outside", &[0x48, 0x89, 0xfc, 0x0f, 0x0b], outside, Escape::StackPointer),
        ("the direction flag", &[0xfd, 0x0f, 0x0b], outside, Escape::State),
        ("the control of vectors", &[0x67, 0x0f, 0xae, 0x17, 0x0f, 0x0b], outside, Escape::State),
    ];
    for (name, bytes, halves, escape) in cases {
        assert_eq!(trial.run_by_hand(bytes, halves, time_us, 60_000), Err(escape), "{name}");
    }
    // A loop whose timer never strikes, or strikes.
    let endless = [0xeb, 0xfe];
    assert_eq!(trial.run_by_hand(&endless, outside, 0, 300), Err(Escape::Unstoppable), "no timer");
    assert_eq!(trial.run_by_hand(&endless, outside, time_us, 60_000), Ok(Inside::Timer), "a timer");
}

/// One mutant, with all that is known of it.
fn show(mut trial: Trial, index: u64) -> ExitCode {
    let outcome = trial.try_one(index, true);
    println!("{index}: {}\n{}", outcome.what, outcome.details);
    println!("refused: {:?}; end: {:?}", outcome.refused, outcome.end);
    let escaped = outcome.refused.is_none() && matches!(outcome.end, Some(Err(_)));
    if escaped { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}
