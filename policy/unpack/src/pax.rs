//! pax extended headers, of which only those without an effect on the tree pass.
//!
//! A record is `length key=value\n`, the length counting itself. Readers differ in how they find
//! the end of a record and in what they do with a value that they cannot read, so both have one form
//! here. Must never let a record through that names, sizes or links anything.

use crate::UnpackError;
use crate::error::shown;

/// A header with nothing but times and a comment fits many times over.
pub(crate) const BYTES_MAX: u64 = 4 << 10;
/// Digits of a record's length: as many as [`BYTES_MAX`] has.
const LENGTH_DIGITS_MAX: usize = 4;
/// Digits of a time before and behind the point: some readers compute with 64 bits, and
/// nanoseconds are the finest that anything writes.
const SECONDS_DIGITS_MAX: usize = 11;
const FRACTION_DIGITS_MAX: usize = 9;

/// Checks every record.
pub(crate) fn check(mut records: &[u8]) -> Result<(), UnpackError> {
    if records.is_empty() {
        return Err(malformed());
    }
    while !records.is_empty() {
        let (pair, rest) = record(records).ok_or_else(malformed)?;
        let equals = pair.iter().position(|byte| *byte == b'=').ok_or_else(malformed)?;
        check_pair(&pair[..equals], &pair[equals + 1..])?;
        records = rest;
    }
    Ok(())
}

/// The first record without its length and newline, and what follows it. It holds no other
/// newline, so that nobody can see another boundary.
fn record(records: &[u8]) -> Option<(&[u8], &[u8])> {
    let space = records.iter().position(|byte| *byte == b' ')?;
    let digits = &records[..space];
    let plain = digits.iter().all(u8::is_ascii_digit) && digits.first() != Some(&b'0');
    if !plain || digits.len() > LENGTH_DIGITS_MAX {
        return None;
    }
    let length = digits.iter().fold(0, |sum, digit| sum * 10 + usize::from(digit - b'0'));
    let (record, rest) = records.split_at_checked(length)?;
    let pair = record.get(space + 1..)?.strip_suffix(b"\n")?;
    (!pair.contains(&b'\n')).then_some((pair, rest))
}

fn check_pair(key: &[u8], value: &[u8]) -> Result<(), UnpackError> {
    match key {
        b"atime" | b"ctime" | b"mtime" if is_time(value) => Ok(()),
        b"comment" if value.iter().all(|byte| matches!(byte, b' '..=b'~')) => Ok(()),
        b"atime" | b"ctime" | b"mtime" | b"comment" => Err(malformed()),
        _ => Err(UnpackError::malformed(format!(
            "the pax extension {:?} is not allowed; use short ASCII paths and `tar --format=ustar`",
            shown(key)
        ))),
    }
}

/// Seconds since 1970, with a fraction or without.
fn is_time(value: &[u8]) -> bool {
    let point = value.iter().position(|byte| *byte == b'.');
    let (seconds, fraction) = value.split_at(point.unwrap_or(value.len()));
    let digits = |text: &[u8], max| (1..=max).contains(&text.len()) && text.iter().all(u8::is_ascii_digit);
    let has_fraction = fraction.is_empty() || digits(&fraction[1..], FRACTION_DIGITS_MAX);
    digits(seconds, SECONDS_DIGITS_MAX) && has_fraction
}

fn malformed() -> UnpackError {
    UnpackError::malformed("a pax header is malformed")
}
