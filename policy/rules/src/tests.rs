#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod dependencies;
mod expansion;
mod manifest;
mod rows;
mod source;

use crate::{Finding, Span};

/// The codes of findings, in order.
fn codes(findings: &[Finding]) -> Vec<&'static str> {
    findings.iter().map(|finding| finding.code.id()).collect()
}

fn span() -> Span {
    Span { file: "src/lib.rs".into(), line: 3, column: 5, end_column: 11, text: "    here".into() }
}
