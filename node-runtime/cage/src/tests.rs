//! The bind table against the profile, and the log buffer. What needs an image is in `tests/`.

use mfaas_abi::limits::LOG_BYTES_MAX;
use mfaas_abi::{Level, LogReader, symbols};
use mfaas_rules::profiles::imports::ROWS;

use crate::bind;
use crate::logs::LogBuffer;

#[test]
fn every_row_of_the_profile_is_bound() {
    let unbound: Vec<_> =
        ROWS.iter().filter(|row| bind::address_of(row.symbol).is_none()).map(|row| row.symbol).collect();
    assert_eq!(unbound, [""; 0]);
    for symbol in symbols::HOST {
        assert!(ROWS.iter().any(|row| row.symbol == symbol), "{symbol} has no row");
    }
}

#[test]
fn every_bound_symbol_has_a_row() {
    let names = include_str!("bind.rs");
    let quoted = names.split('"').skip(1).step_by(2).filter(|name| !name.contains(' '));
    let block = names.rsplit_once("mathematics! {").expect("the list of libm").1;
    let listed = block.trim_end_matches(['}', '\n', ' ']).split_whitespace();
    let strangers: Vec<_> = quoted
        .chain(listed)
        .filter(|name| bind::address_of(name).is_some())
        .filter(|name| !ROWS.iter().any(|row| row.symbol == *name))
        .collect();
    assert_eq!(strangers, [""; 0]);
}

#[test]
fn what_is_not_offered_is_not_bound() {
    for symbol in ["execve", "open", "socket", "dlsym", "exit", "pthread_create", ""] {
        assert_eq!(bind::address_of(symbol), None, "{symbol}");
    }
}

fn lines(buffer: &mut LogBuffer) -> Vec<(Level, String)> {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).expect("text");
    LogReader::new(buffer.finish()).map(|entry| (entry.level, text(entry.text))).collect()
}

#[test]
fn streams_become_lines() {
    let mut buffer = LogBuffer::new();
    for piece in ["a", "b\nc", "\n", "d"] {
        buffer.stream(Level::Info, piece.as_bytes());
    }
    buffer.stream(Level::Error, b"e");
    buffer.line(Level::Warn, b"f");
    let expected = [
        (Level::Info, "ab".to_owned()),
        (Level::Info, "c".to_owned()),
        (Level::Info, "d".to_owned()),
        (Level::Error, "e".to_owned()),
        (Level::Warn, "f".to_owned()),
    ];
    assert_eq!(lines(&mut buffer), expected);
    buffer.wipe();
    assert_eq!(lines(&mut buffer), []);
}

#[test]
fn a_flood_is_cut_and_says_so() {
    let mut buffer = LogBuffer::new();
    for _ in 0..10_000 {
        buffer.stream(Level::Info, b"a line of some length\n");
    }
    assert!(buffer.finish().len() <= LOG_BYTES_MAX);
    let all = lines(&mut buffer);
    assert_eq!(all.last(), Some(&(Level::Warn, "further log lines were dropped".to_owned())));
    assert!(all[..all.len() - 1].iter().all(|(_, text)| "a line of some length".starts_with(text)));
    buffer.wipe();
    buffer.line(Level::Info, &[b'x'; LOG_BYTES_MAX * 2]);
    assert_eq!(lines(&mut buffer).len(), 2);
}
