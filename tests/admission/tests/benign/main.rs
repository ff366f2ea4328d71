//! Every folder of `tests/benign`: admitted by the real admission, then called in the real,
//! locked-down worker with each of its cases.
//!
//! Nothing here may look past a wrong answer: one of them fails the run, however many programs
//! were admitted. The lines go to the standard output itself, so that they show without
//! `--nocapture`.
#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod case;
mod pipeline;
mod program;
mod refused;
mod tally;

use std::io::Write as _;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use mfaas_harness::{Installed, checkout};

use program::Program;
use refused::Refused;
use tally::Tally;

/// Programs in the pipeline at the same time: each keeps a compiler busy.
const LANES: usize = 2;
/// Of all programs, the least that must be admitted at the first try, in percent.
const ADMITTED_PERCENT_MIN: f64 = 98.0;
/// Fewer programs than this are not the collection that the share speaks about.
const PROGRAMS_MIN: usize = 85;
/// Of these, programs that stand on a dependency other than the SDK.
const WITH_DEPENDENCIES_MIN: usize = 25;
/// Deliberate refusals with a way out.
const REFUSED_MIN: usize = 6;

#[test]
fn benign_programs_are_admitted_and_answer_right() {
    let _turn = turn();
    let programs: Vec<Program> = folders("tests/benign")
        .into_iter()
        .filter(|path| !path.ends_with("refused"))
        .map(Program::read)
        .collect();
    assert!(programs.len() >= PROGRAMS_MIN, "only {} programs", programs.len());
    let dependent = programs.iter().filter(|program| program.has_dependencies()).count();
    assert!(dependent >= WITH_DEPENDENCIES_MIN, "only {dependent} programs have dependencies");
    let tally = Mutex::new(Tally::default());
    in_lanes(&programs, |program| {
        let ended = pipeline::run(installed(), program);
        print_line(&ended.line(&program.name));
        tally.lock().unwrap().add(&program.name, ended);
    });
    let tally = tally.into_inner().unwrap();
    print_line(&tally.to_string());
    assert!(tally.wrong().is_empty(), "wrong answers:\n{}", tally.wrong().join("\n"));
    assert!(tally.admitted_percent() >= ADMITTED_PERCENT_MIN, "{tally}");
}

#[test]
fn deliberate_refusals_name_their_code_and_the_way_out_is_open() {
    let _turn = turn();
    let refused: Vec<Refused> = folders("tests/benign/refused").into_iter().map(Refused::read).collect();
    assert!(refused.len() >= REFUSED_MIN, "only {} refusals", refused.len());
    let wrong = Mutex::new(Vec::new());
    in_lanes(&refused, |case| match case.try_it(installed()) {
        Ok(line) => print_line(&line),
        Err(reason) => wrong.lock().unwrap().push(format!("{}: {reason}", case.name)),
    });
    let wrong = wrong.into_inner().unwrap();
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

fn installed() -> &'static Installed {
    static INSTALLED: OnceLock<Installed> = OnceLock::new();
    INSTALLED.get_or_init(Installed::make)
}

/// The two tests share the machine's lanes, so one waits for the other.
fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The folders below a directory of the checkout, by name.
fn folders(directory: &str) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = std::fs::read_dir(checkout().join(directory))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.is_dir())
        .collect();
    found.sort();
    found
}

/// Does the work for each item, [`LANES`] at a time. A panic in a lane ends the test.
fn in_lanes<T: Sync>(items: &[T], work: impl Fn(&T) + Sync) {
    let left = Mutex::new(items.iter());
    std::thread::scope(|scope| {
        for _ in 0..LANES {
            scope.spawn(|| {
                loop {
                    let next = left.lock().unwrap().next();
                    match next {
                        Some(item) => work(item),
                        None => break,
                    }
                }
            });
        }
    });
}

fn print_line(line: &str) {
    // The handle itself is not captured by the test harness, unlike the macros. Without a standard
    // output there is nobody to tell.
    let _ = writeln!(std::io::stdout().lock(), "{line}");
}
