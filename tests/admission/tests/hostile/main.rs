//! Every folder of `tests/hostile` against the real admission, and what stands behind each layer.
//!
//! A case goes down the whole pipeline as a deploy does. Then the layer that stopped it is taken off,
//! and the next, until something ends it that cannot be taken off, or an image is made; that image
//! is called in a locked-down worker. `expect.toml` holds what has to come of it; with
//! `MFAAS_BLESS=1` it is rewritten. Nothing of a case runs outside of a sandbox or a disposable namespace.
//!
//! `cargo test -p mfaas-admission --test hostile [-- NAME]` prints one line for each case and the
//! threat table of docs/threat-model.md.
#![allow(clippy::print_stdout, reason = "a test runner reports on standard output")]

mod archives;
mod case;
mod expectation;
mod ladder;
mod samples;
mod table;
mod units;
mod worker;

use std::path::Path;
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::Context as _;
use mfaas_builder::ablation::Site;
use mfaas_harness::{Installed, checkout, programs};
use mfaas_rules::limits::{COMPILE, CompileLimits};

use case::Case;
use ladder::Climb;
use worker::Jail;

/// Where hostile samples try to leave a mark.
const MARK: &str = "/opt/mfaas-probe";
/// Cases at a time: a builder has one for each core.
const AT_ONCE: usize = 2;
/// As in a deploy, with less patience for what never ends by itself.
const LIMITS: CompileLimits = CompileLimits { cpu_seconds_max: 8, wall_seconds_max: 60, ..COMPILE };

fn main() -> ExitCode {
    if std::env::args_os().nth(1).is_some_and(|first| first == mfaas_sandbox::SANDBOX_EXEC) {
        return mfaas_sandbox::sandbox_exec_main();
    }
    // cargo starts it in place of rustc, in the sandbox of a dependency build.
    if std::env::var_os("MFAAS_RUSTC_PLAN").is_some() {
        return mfaas_builder::main();
    }
    let filters: Vec<String> =
        std::env::args().skip(1).filter(|argument| !argument.starts_with('-')).collect();
    match run(&filters) {
        Ok(0) => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(error) => {
            println!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Tries the cases whose names contain one of `filters` (all if there are none); answers how many
/// did not end as they have to.
fn run(filters: &[String]) -> anyhow::Result<usize> {
    anyhow::ensure!(!Path::new(MARK).exists(), "{MARK} is there before any case was tried");
    let installed = Installed::make();
    if filters.is_empty() || filters.iter().any(|filter| filter == units::NAME) {
        units::try_both(&installed.toolchain)?;
        if filters.iter().all(|filter| filter == units::NAME) && !filters.is_empty() {
            return Ok(0);
        }
    }
    let worker = programs().join("mfaas-worker");
    let scratch = tempfile::tempdir()?;
    let site = Site::open(&installed.toolchain, &installed.deps, &worker, scratch.path(), LIMITS)?;
    let jail = Jail::new(&worker)?;
    let cases = Case::all(&checkout().join("tests/hostile"), filters)?;
    anyhow::ensure!(!cases.is_empty(), "no case is named so");
    let climbs = climb_all(&site, &jail, &cases)?;
    let left: Vec<_> = std::fs::read_dir(scratch.path())?.flatten().map(|entry| entry.path()).collect();
    anyhow::ensure!(left.is_empty(), "scratch directories are left behind: {left:?}");
    anyhow::ensure!(!Path::new(MARK).exists(), "a case has left its mark in {MARK}");
    let mut wrong = report(&cases, &climbs)?;
    let mut tried = cases.len();
    if filters.is_empty() {
        println!("samples held: {}", samples::keep()?);
        let (archives, wrong_archives) = archives::try_all(&site)?;
        tried += archives;
        wrong += wrong_archives;
        table::keep(&cases, &climbs)?;
    }
    // Every case ran in this one process, as they do in a builder.
    println!("marks left: 0; builders lost: 0; {} of {tried} end as they have to", tried - wrong);
    println!("\n{} passed; {wrong} failed", tried - wrong);
    Ok(wrong)
}

fn climb_all(site: &Site, jail: &Jail, cases: &[Case]) -> anyhow::Result<Vec<Climb>> {
    let next = AtomicUsize::new(0);
    let climbs: Vec<Mutex<Option<anyhow::Result<Climb>>>> = cases.iter().map(|_| Mutex::default()).collect();
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                while let Some((case, slot)) = {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    cases.get(at).zip(climbs.get(at))
                } {
                    let climb = ladder::climb(site, jail, case);
                    *slot.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = Some(climb);
                }
            });
        }
    });
    cases
        .iter()
        .zip(climbs)
        .map(|(case, slot)| {
            let climb = slot.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
            climb.context("it was not tried")?.with_context(|| case.name.clone())
        })
        .collect()
}

fn report(cases: &[Case], climbs: &[Climb]) -> anyhow::Result<usize> {
    let mut wrong = 0;
    for (case, climb) in cases.iter().zip(climbs) {
        if cases.len() == 1 {
            climb.rungs.iter().for_each(|rung| println!("       {}", rung.message));
        }
        match expectation::compare(case, climb)? {
            None => println!("ok     {:32} {climb}", case.name),
            Some(reason) => {
                wrong += 1;
                println!("WRONG  {:32} {climb}\n       {reason}", case.name);
            }
        }
    }
    Ok(wrong)
}
