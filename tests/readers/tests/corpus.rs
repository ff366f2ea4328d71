//! Every kept input of every fuzz target goes through the same function as in the fuzzer.
#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::collections::BTreeSet;
use std::path::PathBuf;

use mfaas_readers::READERS;

/// The corpus is source, not a store.
const FILES_MAX: usize = 300;
const BYTES_MAX: usize = 500_000;

fn fuzz() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz"))
}

/// The kept inputs of one target, by name.
fn kept(target: &str) -> Vec<(String, Vec<u8>)> {
    let directory = fuzz().join("corpus").join(target);
    let entries = std::fs::read_dir(&directory).unwrap_or_else(|error| panic!("{target}: {error}"));
    let mut inputs: Vec<(String, Vec<u8>)> = entries
        .map(|entry| entry.unwrap())
        .map(|entry| (entry.file_name().into_string().unwrap(), std::fs::read(entry.path()).unwrap()))
        .collect();
    inputs.sort();
    inputs
}

#[test]
fn every_reader_keeps_its_promises_for_every_kept_input() {
    for (target, reader) in READERS {
        let inputs = kept(target);
        assert!(inputs.len() >= 10, "{target} has only {} kept inputs", inputs.len());
        for (name, bytes) in inputs {
            if std::panic::catch_unwind(|| reader(&bytes)).is_err() {
                panic!("{target}: the kept input {name} breaks a promise");
            }
        }
    }
}

/// Inputs shorter than anything that was kept, and the kept ones cut short.
#[test]
fn every_reader_takes_every_beginning() {
    for (target, reader) in READERS {
        reader(b"");
        for (_, bytes) in kept(target).iter().filter(|(_, bytes)| bytes.len() <= 2_048).take(8) {
            (0..bytes.len()).step_by(7).for_each(|length| reader(&bytes[..length]));
        }
    }
}

#[test]
fn the_corpus_is_small() {
    let inputs: Vec<_> = READERS.iter().flat_map(|(target, _)| kept(target)).collect();
    let bytes: usize = inputs.iter().map(|(_, bytes)| bytes.len()).sum();
    assert!(inputs.len() <= FILES_MAX && bytes <= BYTES_MAX, "{} files, {bytes} bytes", inputs.len());
}

#[test]
fn targets_and_readers_are_the_same() {
    let readers: BTreeSet<String> = READERS.iter().map(|(name, _)| (*name).to_owned()).collect();
    let names = |directory: &str, ending: &str| -> BTreeSet<String> {
        let entries = std::fs::read_dir(fuzz().join(directory)).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        names.map(|name| name.strip_suffix(ending).unwrap().to_owned()).collect()
    };
    assert_eq!(names("fuzz_targets", ".rs"), readers);
    assert_eq!(names("corpus", ""), readers);
    assert!(names("dictionaries", ".txt").is_subset(&readers));
}

/// Each piece of code that the verifier lets pass, with each of its bytes made each other byte.
#[test]
fn every_mutant_of_accepted_code_is_refused_or_holds_in_the_second_reading() {
    let accepted = kept("machine_code").into_iter().find(|(name, _)| name == "accepted").unwrap().1;
    let mut mutants = 0;
    for bundle in accepted.chunks(32) {
        let length = 32 - bundle.iter().rev().take_while(|byte| **byte == 0xcc).count();
        for at in 0..length {
            for byte in 0..=u8::MAX {
                let mut mutant = bundle.to_vec();
                mutant[at] = byte;
                mfaas_readers::machine_code(&mutant);
                mutants += 1;
            }
        }
    }
    assert!(mutants > 100_000, "only {mutants}");
}
