//! What is accepted reads the same elsewhere: every archive that we take is listed by GNU tar,
//! Python's tarfile, Go's archive/tar and the `tar` crate, and each must see the same files with the
//! same content. Nothing is ever extracted.
//!
//! Archives come from a fixed seed. `MFAAS_DIFFERENTIAL_CASES` asks for another number of them, and
//! `MFAAS_DIFFERENTIAL_SEED` for others.
#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]
#![allow(clippy::print_stdout, reason = "the test says what it compared with")]

mod generate;
mod others;

use std::collections::BTreeMap;

use mfaas_unpack::Upload;
use sha2::{Digest as _, Sha256};

use generate::Generator;
use others::{Kind, Listed, Reader, readers};

/// Archives made at random, besides those with one byte changed.
const CASES: u64 = 2_000;
/// Archives listed by one process.
const BATCH: usize = 500;

/// Path → size and SHA-256 of each regular file.
type Files = BTreeMap<String, (u64, [u8; 32])>;

struct Accepted {
    bytes: Vec<u8>,
    files: Files,
}

#[test]
fn what_is_accepted_reads_the_same_elsewhere() {
    let readers = readers();
    let names: Vec<&str> = readers.iter().map(|reader| reader.name()).collect();
    println!("compared with: {}", names.join(", "));
    let is_foreign = |name: &&str| *name != others::TAR_CRATE;
    assert!(
        names.iter().any(is_foreign) || std::env::var_os("CI").is_none(),
        "no foreign reader is installed: GNU tar, python3 or go"
    );
    let number = |name: &str| std::env::var(name).ok().map(|text| text.parse().unwrap());
    let cases = number("MFAAS_DIFFERENTIAL_CASES").unwrap_or(CASES);
    let generator = Generator::new(number("MFAAS_DIFFERENTIAL_SEED").unwrap_or(1));
    let mut seen = 0_u64;
    let (mut waiting, mut accepted) = (Vec::new(), 0);
    for bytes in generate::single_bytes().chain(generator.take(cases as usize)) {
        seen += 1;
        waiting.extend(accept(bytes));
        if waiting.len() == BATCH {
            accepted += compare(&readers, &mut waiting);
        }
    }
    accepted += compare(&readers, &mut waiting);
    println!("{accepted} of {seen} archives were accepted and compared");
    assert!(accepted * 8 > seen && accepted * 8 < seen * 7, "one-sided: {accepted} of {seen} accepted");
}

fn accept(bytes: Vec<u8>) -> Option<Accepted> {
    let tree = Upload::new(bytes.clone()).ok()?.unpack().ok()?;
    let file = |(path, content): (&str, &[u8])| {
        (path.to_owned(), (content.len() as u64, Sha256::digest(content).into()))
    };
    let files = tree.files().map(file).collect();
    Some(Accepted { bytes, files })
}

/// Empties `batch`; answers how many there were.
fn compare(readers: &[Box<dyn Reader>], batch: &mut Vec<Accepted>) -> u64 {
    let archives: Vec<&[u8]> = batch.iter().map(|one| one.bytes.as_slice()).collect();
    for reader in readers {
        let listings = reader.list(&archives);
        assert_eq!(listings.len(), batch.len(), "{} lost archives", reader.name());
        for (one, listing) in batch.iter().zip(listings) {
            if let Err(difference) = same(&one.files, &listing) {
                let kept = std::env::temp_dir().join("mfaas-difference.tar");
                std::fs::write(&kept, &one.bytes).unwrap();
                panic!(
                    "{} reads {} differently: {difference}\nours: {:?}\ntheirs: {listing:?}",
                    reader.name(),
                    kept.display(),
                    one.files.keys()
                );
            }
        }
    }
    batch.drain(..).count() as u64
}

/// Whether another reader saw exactly these files, and nothing else but directories.
fn same(ours: &Files, listing: &Result<Vec<Listed>, String>) -> Result<(), String> {
    let listing = listing.as_ref().map_err(|error| format!("it fails: {error}"))?;
    let mut theirs = Files::new();
    for entry in listing {
        let path = entry.path.strip_prefix("./").unwrap_or(&entry.path);
        match entry.kind {
            Kind::File => {
                if theirs.insert(path.to_owned(), (entry.size, entry.sha256)).is_some() {
                    return Err(format!("{path:?} twice"));
                }
            }
            Kind::Directory if ours.contains_key(path.trim_end_matches('/')) => {
                return Err(format!("{path:?} is a directory"));
            }
            Kind::Directory if path.split('/').any(|part| part == "..") || path.starts_with('/') => {
                return Err(format!("the directory {path:?}"));
            }
            Kind::Directory => {}
            Kind::Other => return Err(format!("{path:?} is neither file nor directory")),
        }
    }
    if theirs == *ours { Ok(()) } else { Err("other files, sizes or contents".to_owned()) }
}
