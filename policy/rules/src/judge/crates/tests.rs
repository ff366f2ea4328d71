#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use mfaas_ident::{CrateName, Digest};
use semver::Version;

use super::*;
use crate::Span;
use crate::crate_facts::*;
use crate::profiles::crate_rules::Trust;

mod closure;
mod monotonic;
mod outside;
mod risks;
mod rows;
mod versions;

fn name(text: &str) -> CrateName {
    CrateName::parse(text).unwrap()
}

fn version(text: &str) -> Version {
    Version::parse(text).unwrap()
}

fn span() -> Span {
    Span { file: "src/lib.rs".to_owned(), line: 1, column: 1, end_column: 2, text: "x".to_owned() }
}

fn file(role: Role) -> FileFacts {
    let geiger = GeigerReport::Counted { counts: GeigerCounts::default(), forbids_unsafe: true };
    let tokens = TokenReport { tokens: 10, ..TokenReport::default() };
    FileFacts { path: "src/lib.rs".to_owned(), role, bytes: 100, geiger, tokens }
}

/// A crate about which there is nothing to say.
fn clean(package: &str, number: &str) -> CrateReport {
    let files = vec![file(Role::Library)];
    let summary = summarise(&files, &[], false, false);
    let source = CrateFacts {
        package: Some(format!("{package} {number}")),
        files,
        exported_macros: Vec::new(),
        proc_macro: false,
        build_script: false,
        unread: Vec::new(),
        summary,
    };
    CrateReport {
        revision: FACTS_REVISION,
        name: name(package),
        version: version(number),
        checksum: Digest::of(format!("{package} {number}").as_bytes()),
        features: vec!["default".to_owned()],
        target: "x86_64-unknown-linux-gnu".to_owned(),
        archive: ArchiveFacts {
            bytes: 500,
            unpacked_bytes: 1_000,
            files: 2,
            binaries: Vec::new(),
            native_sources: Vec::new(),
            unread: Vec::new(),
        },
        source,
        compiler: CompilerVerdict::Clean,
        touches: TouchReport { classes: Vec::new(), unread: Vec::new() },
        shapes: ShapeReport { shapes: Vec::new(), unread: Vec::new() },
        licence: LicenceFacts { expression: Some("MIT OR Apache-2.0".to_owned()), file: None },
        kind: KindFacts {
            proc_macro: false,
            build_script: false,
            links: None,
            edition: Some("2021".to_owned()),
        },
        published: None,
        yanked: Some(false),
        needs: Vec::new(),
    }
}

fn advisory(package: &str, kind: AdvisoryKind) -> Advisory {
    Advisory {
        id: "RUSTSEC-2000-0001".to_owned(),
        package: name(package),
        kind,
        title: "what it is about".to_owned(),
        patched: Vec::new(),
        unaffected: Vec::new(),
        withdrawn: false,
        url: None,
    }
}

/// One advisory about another crate: a database that was read and says nothing here.
fn advisories() -> AdvisorySet {
    AdvisorySet { advisories: vec![advisory("elsewhere", AdvisoryKind::Malicious)], unread: Vec::new() }
}

fn judge_with(report: &CrateReport, closure: &[&CrateReport], known: &AdvisorySet) -> CrateJudgement {
    judge_crate(report, closure, Outside { advisories: known, audits: &AuditSet::default() })
}

fn judge_alone(report: &CrateReport) -> CrateJudgement {
    judge_with(report, &[], &advisories())
}

fn risks_of(judgement: &CrateJudgement) -> Vec<RiskClass> {
    judgement.reasons.iter().map(|reason| reason.risk).collect()
}

fn summarised(mut report: CrateReport) -> CrateReport {
    let source = &report.source;
    report.source.summary = summarise(&source.files, &source.unread, source.proc_macro, source.build_script);
    report
}

const ONE: Suggestion = Suggestion::Review { people: People::One };
const TWO: Suggestion = Suggestion::Review { people: People::Two };
