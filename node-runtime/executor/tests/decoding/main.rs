//! The processor itself as judge of decoding: of every instruction that the verifier accepts it says the
//! same as the disassembler about where the next one begins. `scripts/decoding` does the same with many
//! more bytes.

#![allow(missing_docs, reason = "a test")]
#![allow(unsafe_code, reason = "it runs single instructions in processes of their own")]

mod instructions;
mod mutants;
mod processor;
mod survey;

/// The same functions as in the executor's other tests.
#[path = "../executor/toolchain.rs"]
#[allow(dead_code, reason = "shared with other tests, of which this needs some functions")]
mod toolchain;

use crate::instructions::Bytes;
use crate::mutants::Random;
use crate::processor::Processor;
use crate::survey::{Claim, Survey, Verdict, ask};

const SEED: u64 = 1;
/// Bytes of changed instructions, in the short form.
const MUTATED_BYTES: u64 = 1_000_000;
/// One in so many of the tables, in the short form.
const STRIDE: usize = 61;

/// The distinct instructions of the images of the tests.
fn of_images() -> Vec<Bytes> {
    let images = [toolchain::tenant(), toolchain::jumper(), toolchain::services()];
    let mut all: Vec<Bytes> =
        images.iter().flat_map(|image| instructions::of_image(image).expect("it verifies")).collect();
    all.sort_unstable();
    all.dedup();
    all
}

#[test]
fn the_processor_agrees_about_every_instruction_of_images() {
    let instructions = of_images();
    let mut survey = Survey::new(false);
    survey.accepted(&instructions);
    assert!(survey.agreements() > 5_000 && survey.disagreements() + survey.lacking() == 0, "{survey}");
}

#[test]
fn the_processor_agrees_about_changed_instructions() {
    let (instructions, mut random) = (of_images(), Random(SEED));
    let (mut survey, mut bytes) = (Survey::new(false), 0);
    while bytes < MUTATED_BYTES {
        bytes += survey.mutant(&mutants::mutant(&mut random, &instructions));
    }
    survey.ask();
    assert!(survey.agreements() > 20_000 && survey.disagreements() == 0, "{survey}");
}

#[test]
fn the_processor_agrees_about_the_maps_of_opcodes() {
    let mut survey = Survey::new(false);
    for mutant in mutants::tables(SEED, STRIDE) {
        survey.mutant(&mutant);
    }
    survey.ask();
    assert!(survey.agreements() > 4_000 && survey.disagreements() == 0, "{survey}");
}

/// Of each instruction a length that is wrong by one is claimed, and noticed.
#[test]
fn a_wrong_length_is_noticed_each_time() {
    let claims: Vec<Claim> = of_images().into_iter().flat_map(Claim::wrong).collect();
    let verdicts = ask(&mut Processor::new(), &claims);
    let missed: Vec<_> = claims
        .iter()
        .zip(&verdicts)
        .filter(|(_, verdict)| !matches!(verdict, Verdict::Disagrees(_)))
        .map(|(claim, verdict)| format!("{}: {verdict:?}", claim.bytes.text()))
        .collect();
    assert!(claims.len() > 10_000 && missed.is_empty(), "of {}: {missed:#?}", claims.len());
}
