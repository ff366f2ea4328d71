//! Reads lines from memory.
use std::io::*;

pub fn handle(request: &[u8]) -> Vec<u8> {
    let lines = Cursor::new(request).lines().map_while(Result::ok);
    lines.map(|line| line.len().to_string()).collect::<Vec<_>>().join(" ").into_bytes()
}
