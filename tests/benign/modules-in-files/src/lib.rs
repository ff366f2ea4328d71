//! A converter of units, one file to a subject.
mod parse;
mod units;

use parse::{Question, question as ask};
use units::convert;

pub fn handle(request: &[u8]) -> Vec<u8> {
    let text = String::from_utf8_lossy(request);
    let done = ask(&text).and_then(|Question { value, from, to }| {
        convert(value, from, to).map(|value| format!("{} {}", (value * 1e9).round() / 1e9, to.name()))
    });
    done.unwrap_or_else(|error| error.to_string()).into_bytes()
}
