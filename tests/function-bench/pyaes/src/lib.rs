//! AES with a key of 128 bits in counter mode, by tables: a message is encrypted again and again, and decrypted as often.

mod aes;

use std::fmt::Write as _;

use mfaas::{Error, Json};
use serde::{Deserialize, Serialize};

const BYTES_MAX: usize = 256 << 10;
/// The key of the benchmark.
const KEY: [u8; 16] =
    [0xa1, 0xf6, 0x25, 0x8c, 0x87, 0x7d, 0x5f, 0xcd, 0x89, 0x64, 0x48, 0x45, 0x38, 0xbf, 0xc9, 0x2c];

/// How long the message is, and how often it is encrypted.
#[derive(Debug, Deserialize)]
pub struct Query {
    bytes: usize,
    rounds: u32,
}

/// What it was encrypted to.
#[derive(Debug, Serialize)]
pub struct Encrypted {
    hex: String,
    /// Whether the message came back.
    is_same: bool,
}

/// Takes `{"bytes": 100, "rounds": 2}`.
pub fn handle(Json(query): Json<Query>) -> Result<Json<Encrypted>, Error> {
    if query.bytes > BYTES_MAX {
        return Err(Error::new(format!("a message has at most {BYTES_MAX} bytes")));
    }
    let key = aes::Key::new(&KEY);
    let message: Vec<u8> = (0..query.bytes).map(|at| b'a' + (at % 26) as u8).collect();
    let mut text = message.clone();
    // Each time another part of the key stream.
    let blocks = query.bytes.div_ceil(16) as u128;
    let begins = |round: u32| 1 + blocks * u128::from(round);
    (0..query.rounds).for_each(|round| key.apply(begins(round), &mut text));
    let hex = text.iter().fold(String::new(), |mut hex, byte| {
        // Writing to a string cannot fail.
        let _ = write!(hex, "{byte:02x}");
        hex
    });
    (0..query.rounds).for_each(|round| key.apply(begins(round), &mut text));
    Ok(Json(Encrypted { hex, is_same: text == message }))
}
