//! Hostile archives, each with the code that it must end with: files in `tests/archives`, families
//! written block by block, and those too large to keep.
#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod families;
mod large;

use std::collections::BTreeMap;
use std::path::PathBuf;

use mfaas_unpack::Upload;

/// The code of the refusal, or `accepted`.
fn outcome(bytes: Vec<u8>) -> &'static str {
    match Upload::new(bytes).and_then(|upload| upload.unpack()) {
        Ok(_) => "accepted",
        Err(error) => error.code().unwrap_or_else(|| panic!("our own fault: {error}")).id(),
    }
}

/// A row of `expect.tsv` is: file, code, what is wrong with it.
#[test]
fn every_kept_archive_ends_as_its_row_says() {
    let directory = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../archives"));
    let table = std::fs::read_to_string(directory.join("expect.tsv")).unwrap();
    let mut rows = BTreeMap::new();
    for line in table.lines() {
        let (file, rest) = line.split_once('\t').unwrap();
        let (code, why) = rest.split_once('\t').unwrap();
        assert!(!why.is_empty() && rows.insert(file.to_owned(), code.to_owned()).is_none(), "{file}");
    }
    let mut found = BTreeMap::new();
    for entry in std::fs::read_dir(&directory).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name().into_string().unwrap();
        if name != "expect.tsv" {
            found.insert(name, outcome(std::fs::read(entry.path()).unwrap()).to_owned());
        }
    }
    assert!(rows.len() >= 28, "rows are missing");
    assert_eq!(found, rows);
}
