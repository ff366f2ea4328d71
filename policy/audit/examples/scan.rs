//! Shows what the static stages say about project directories: `scan DIR…`, or about an archive on
//! stdin: `scan -`. With the variable
//! `MFAAS_EXPANDED` naming a file, that file is read as the expansion of the (single) directory.
#![allow(clippy::print_stdout, reason = "a tool for people")]

use std::io::Read as _;
use std::path::Path;

use mfaas_audit::{expansion, lexer, manifest, soundness};
use mfaas_rules::Finding;
use mfaas_unpack::{SourceTree, UnpackError, Upload};

fn main() {
    for directory in std::env::args().skip(1) {
        println!("== {directory}");
        match tree(&directory) {
            Err(error) => println!("   {error}"),
            Ok(tree) => audit(&tree).iter().for_each(show),
        }
    }
}

fn tree(argument: &str) -> Result<SourceTree, UnpackError> {
    if argument != "-" {
        return SourceTree::from_dir(Path::new(argument));
    }
    let mut bytes = Vec::new();
    std::io::stdin()
        .read_to_end(&mut bytes)
        .map_err(|source| UnpackError::Disk { path: "stdin".to_owned(), source })?;
    Upload::new(bytes)?.unpack()
}

fn audit(tree: &SourceTree) -> Vec<Finding> {
    let mut findings = mfaas_rules::judge_manifest(&manifest::read(tree.manifest()));
    findings.extend(mfaas_rules::judge_source(&lexer::scan(tree)));
    if let Some(text) = std::env::var_os("MFAAS_EXPANDED").and_then(|path| std::fs::read(path).ok()) {
        let facts = expansion::read(&text, tree);
        println!("   {facts:#?}");
        findings.extend(mfaas_rules::judge_expansion(&facts));
        findings.extend(mfaas_rules::judge_soundness(&soundness::read(&text, tree)));
    }
    findings
}

fn show(finding: &Finding) {
    let place = finding
        .span
        .as_ref()
        .map_or_else(String::new, |span| format!("{}:{}:{}", span.file, span.line, span.column));
    println!("   {} {} {place}", finding.code.id(), finding.message);
}
