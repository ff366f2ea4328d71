//! The readers of a tenant's text: Cargo.toml, the lexer, the expanded source.

use std::sync::OnceLock;

use mfaas_audit::classes::classes;
use mfaas_audit::{expansion as expanded, lexer as tokens, manifest as cargo_toml};
use mfaas_rules::limits::MANIFEST;
use mfaas_rules::{Finding, judge_expansion, judge_manifest, judge_source};
use mfaas_unpack::{SourceTree, Upload};

use crate::tar;

/// Any bytes as Cargo.toml.
///
/// # Panics
/// When a manifest that nobody objects to lacks what the next stages take from it.
pub fn manifest(input: &[u8]) {
    let facts = cargo_toml::read(input);
    let findings = judge_manifest(&facts);
    if findings.is_empty() {
        assert!(facts.name.is_some(), "admitted without a name");
        assert!(input.len() <= MANIFEST.bytes_max && facts.dependencies.len() <= MANIFEST.dependencies_max);
    }
    check_places(&findings, input);
}

/// Any bytes as `src/lib.rs`.
///
/// # Panics
/// When a finding points outside of the text, or when the pieces of the text are not the text.
pub fn lexer(input: &[u8]) {
    let tree = library(input);
    let facts = tokens::scan(&tree);
    assert_eq!(facts.bytes, input.len());
    check_pieces(input);
    // The judgement takes longer than the reading and is not what is asked here: one in eight.
    if input.iter().fold(0_u8, |sum, byte| sum.wrapping_add(*byte)) % 8 == 0 {
        check_places(&judge_source(&facts), input);
    }
}

/// What a page shows of a text in classes is the text, from its first byte to its last.
fn check_pieces(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    let mut at = 0;
    for piece in classes(text) {
        assert_eq!(piece.range.start, at, "a gap between two pieces");
        at = piece.range.end;
    }
    assert_eq!(at, text.len(), "the pieces end before the text does");
}

/// Any bytes as what the compiler printed for a fixed library.
///
/// # Panics
/// When a finding points outside of the library.
pub fn expansion(input: &[u8]) {
    static TREE: OnceLock<SourceTree> = OnceLock::new();
    let tree = TREE.get_or_init(|| library(LIBRARY.as_bytes()));
    let findings = judge_expansion(&expanded::read(input, tree));
    check_places(&findings, LIBRARY.as_bytes());
}

/// What the kept expansions are expansions of, or could be.
const LIBRARY: &str = "macro_rules! own { ($e:expr) => { $e } }\n\
    pub fn handle(r: &[u8]) -> Vec<u8> { own!(vec![dep::contained!(r), dep::Name]) }\n";

fn library(text: &[u8]) -> SourceTree {
    let mut bytes = tar::file("Cargo.toml", b"");
    bytes.extend(tar::file("src/lib.rs", text));
    tar::end(&mut bytes);
    let tree = Upload::new(bytes).and_then(|upload| upload.unpack());
    tree.unwrap_or_else(|error| panic!("a file of {} bytes is not taken: {error}", text.len()))
}

/// A place is a line of the text, and columns begin at 1.
fn check_places(findings: &[Finding], text: &[u8]) {
    let lines = text.iter().filter(|byte| **byte == b'\n').count() + 1;
    for finding in findings {
        assert!(finding.message.bytes().all(|byte| byte != 0x1b), "{}", finding.message);
        let Some(span) = &finding.span else { continue };
        assert!(span.line >= 1 && span.line as usize <= lines, "{finding:?}");
        assert!(span.column >= 1 && span.end_column > span.column, "{finding:?}");
    }
}
