//! Says which version answers.
use std::fmt::Write;

fn banner() -> &'static str {
    concat!("greeter ", env!("CARGO_PKG_VERSION"))
}

pub fn handle(request: &[u8]) -> Vec<u8> {
    let mut out = String::new();
    let _ = write!(out, "{}: hello {}", banner(), String::from_utf8_lossy(request));
    out.into_bytes()
}
