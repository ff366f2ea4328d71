//! Archives that are too large to keep: each must end with its limit's code, soon, and without
//! memory for what it claims to hold.

use std::io::Write as _;
use std::time::{Duration, Instant};

use flate2::{Compression, write::GzEncoder};
use mfaas_readers::tar;

use crate::outcome;

/// Compressed archive of the given entries and then `zeros` bytes of nothing.
fn compressed(entries: &[u8], zeros: usize) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(entries).unwrap();
    let chunk = vec![0; 1 << 20];
    for _ in 0..zeros / chunk.len() {
        encoder.write_all(&chunk).unwrap();
    }
    encoder.write_all(&[0; 2 * tar::BLOCK]).unwrap();
    encoder.finish().unwrap()
}

fn ends_soon(bytes: Vec<u8>, code: &str) {
    let started = Instant::now();
    assert_eq!(outcome(bytes), code);
    let limit = Duration::from_secs(20);
    assert!(started.elapsed() < limit, "{code} took {:?}", started.elapsed());
}

#[test]
fn a_gibibyte_of_zeros_in_one_file() {
    let header = tar::header(b"src/zero.bin", b'0', 1 << 30);
    ends_soon(compressed(&header, 1 << 30), "MF0103");
}

#[test]
fn many_files_that_are_too_much_together() {
    let mut entries = tar::file("Cargo.toml", b"");
    for number in 0..70 {
        entries.extend(tar::file(&format!("src/m{number}"), &vec![0; 1 << 20]));
    }
    ends_soon(compressed(&entries, 0), "MF0103");
}

#[test]
fn a_hundred_thousand_empty_files() {
    let mut entries = tar::file("Cargo.toml", b"");
    for number in 0..100_000 {
        entries.extend(tar::header(format!("src/m{number}.rs").as_bytes(), b'0', 0));
    }
    ends_soon(compressed(&entries, 0), "MF0104");
}

/// Two thousand files may imply thirty thousand directories, which count as well.
#[test]
fn more_directories_than_files() {
    let mut entries = tar::file("Cargo.toml", b"");
    for number in 0..300 {
        let path = format!("{number}/b/c/d/e/f/g/h/f.rs");
        entries.extend(tar::header(path.as_bytes(), b'0', 0));
    }
    ends_soon(compressed(&entries, 0), "MF0104");
}

#[test]
fn endless_pax_headers() {
    let comment = tar::entry(b"g", b'g', b"12 comment=\n", |_| {});
    let mut entries = tar::file("Cargo.toml", b"");
    for _ in 0..10_000 {
        entries.extend_from_slice(&comment);
    }
    ends_soon(compressed(&entries, 0), "MF0104");
}

#[test]
fn endless_zero_blocks_behind_the_end() {
    ends_soon(compressed(&tar::file("Cargo.toml", b""), 256 << 20), "MF0103");
}
