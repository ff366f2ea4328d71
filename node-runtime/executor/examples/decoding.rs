//! Asks the processor about many instructions whether it decodes them as the verifier does: those of
//! images, changed ones, and every opcode of every map under every ModRM byte.
//!
//! ```console
//! $ scripts/decoding [--bytes NUMBER] [--seed NUMBER] [--accepted-alone] [IMAGE.so …]
//! ```
//! Prints what was counted; fails if the processor disagrees about an instruction that the verifier
//! accepts, or if a wrong length is not noticed.

#![allow(unsafe_code, reason = "it runs single instructions in processes of their own")]

#[path = "../tests/decoding/instructions.rs"]
mod instructions;
#[path = "../tests/decoding/mutants.rs"]
mod mutants;
#[path = "../tests/decoding/processor.rs"]
mod processor;
#[path = "../tests/decoding/survey.rs"]
mod survey;

use std::io::{Write as _, stdout};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use crate::instructions::Bytes;
use crate::mutants::Random;
use crate::processor::Processor;
use crate::survey::{Claim, Survey, Verdict, ask};

/// Bytes that the tables of opcodes hold; of all that is mutated they are a quarter at most.
const TABLE_BYTES: u64 = 23_000_000;
const USAGE: &str = "decoding [--bytes NUMBER] [--seed NUMBER] [--accepted-alone] IMAGE.so …";

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

struct Options {
    mutated_bytes: u64,
    seed: u64,
    with_refused: bool,
    images: Vec<PathBuf>,
}

fn options() -> Result<Options> {
    let mut options = Options { mutated_bytes: 100_000_000, seed: 1, with_refused: true, images: Vec::new() };
    let mut arguments = std::env::args_os().skip(1);
    while let Some(argument) = arguments.next() {
        let mut number = || -> Result<u64> {
            let next = arguments.next().ok_or(USAGE)?;
            Ok(next.into_string().map_err(|_| USAGE)?.parse()?)
        };
        match argument.to_str() {
            Some("--bytes") => options.mutated_bytes = number()?,
            Some("--seed") => options.seed = number()?,
            Some("--accepted-alone") => options.with_refused = false,
            Some(other) if other.starts_with('-') => return Err(USAGE.into()),
            _ => options.images.push(argument.into()),
        }
    }
    if options.images.is_empty() { Err(USAGE.into()) } else { Ok(options) }
}

fn main() -> Result<ExitCode> {
    let options = options()?;
    let begin = Instant::now();
    let (read, distinct) = of_images(&options.images)?;
    let count = distinct.len();
    writeln!(stdout(), "{} images: {read} instructions, {count} distinct", options.images.len())?;
    let missed = missed_controls(&distinct)?;

    let mut survey = Survey::new(options.with_refused);
    survey.accepted(&distinct);
    writeln!(stdout(), "\nimages alone ({} s)\n{survey}", begin.elapsed().as_secs())?;
    let (mut random, mut mutants, mut bytes) = (Random(options.seed), 0u64, 0);
    let stride = (4 * TABLE_BYTES).div_ceil(options.mutated_bytes.max(1)) as usize;
    for mutant in mutants::tables(options.seed, stride) {
        bytes += survey.mutant(&mutant);
        mutants += 1;
    }
    let of_tables = (mutants, bytes);
    while bytes < options.mutated_bytes {
        bytes += survey.mutant(&mutants::mutant(&mut random, &distinct));
        mutants += 1;
    }
    survey.ask();
    let (from_tables, table_bytes) = of_tables;
    writeln!(
        stdout(),
        "images, and {bytes} mutated bytes in {mutants} pieces, seed {}; of these {table_bytes} in {from_tables} by the tables ({} s)\n{survey}",
        options.seed,
        begin.elapsed().as_secs()
    )?;
    let fails = missed + survey.disagreements() > 0;
    Ok(if fails { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// How many instructions the images have, and the distinct ones.
fn of_images(images: &[PathBuf]) -> Result<(usize, Vec<Bytes>)> {
    let (mut read, mut distinct) = (0, Vec::new());
    for image in images {
        let instructions = instructions::of_image(&std::fs::read(image)?)
            .map_err(|why| format!("{}: {why}", image.display()))?;
        read += instructions.len();
        distinct.extend(instructions);
        distinct.sort_unstable();
        distinct.dedup();
    }
    Ok((read, distinct))
}

/// How many claims of a wrong length the processor does not contradict.
fn missed_controls(instructions: &[Bytes]) -> Result<u64> {
    let claims: Vec<Claim> = instructions.iter().flat_map(|bytes| Claim::wrong(*bytes)).collect();
    let verdicts = ask(&mut Processor::new(), &claims);
    let missed = verdicts.iter().filter(|verdict| !matches!(verdict, Verdict::Disagrees(_))).count();
    writeln!(stdout(), "control: {} wrong lengths were claimed, {missed} of them not noticed", claims.len())?;
    Ok(missed as u64)
}
