//! Says which version answers.
use std::fmt::Write;

/// As in Cargo.toml.
const VERSION: &str = "0.1.0";

pub fn handle(request: &[u8]) -> Vec<u8> {
    let mut out = String::new();
    let _ = write!(out, "greeter {VERSION}: hello {}", String::from_utf8_lossy(request));
    out.into_bytes()
}
