//! `check`: the stages of a deploy on a developer's machine, without a registry.
//!
//! A stage that cannot run here is reported as not run, with the reason, and the check does not
//! pass: it never says "fine" about what it did not look at.

use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use mfaas_delivery::{Diagnostic, Event, EventKind, Level, Stage};
use mfaas_ident::Digest;
use mfaas_rules::codes;
use mfaas_rules::limits::{COMPILE, CompileLimits};
use mfaas_unpack::SourceTree;

use crate::cage::Cage;
use crate::config::{self, CheckConfig};
use crate::deps::Deps;
use crate::error::BuilderError;
use crate::journal::{Journal, Progress, Stop};
use crate::stages::{self, AuditedSource, ProvenArtifact, Workshop};
use crate::toolchain::Toolchain;
use crate::workspace::InstanceDirectory;

/// The stages that need the toolchain, in their order.
const COMPILER_STAGES: [Stage; 6] =
    [Stage::Dependencies, Stage::Expand, Stage::Compile, Stage::Link, Stage::Inspect, Stage::Load];
/// Said when no compiler is found.
const NOTHING_FOUND: &str = "no toolchain with its dependency cache was found: set MFAAS_TOOLCHAIN_DIR and \
                             MFAAS_DEPS_DIR, or run `mfaas up` once";
/// Exit codes of the command line, as the documentation has them.
const EXIT_INCOMPLETE: u8 = 1;
const EXIT_REFUSED: u8 = 3;
const EXIT_COMPILE_ERROR: u8 = 5;
const EXIT_WAITING: u8 = 6;

/// What a check found, as it is printed.
#[derive(Debug, serde::Serialize)]
struct Report {
    outcome: Outcome,
    stages: Vec<StageReport>,
    /// The stages that did not run, as sentences.
    skipped: Vec<String>,
    diagnostics: Vec<Diagnostic>,
    artifact: Option<ArtifactReport>,
}

/// How a check ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
enum Outcome {
    /// Every stage passed.
    Passed,
    /// Policy says no.
    Refused,
    /// The compiler says no.
    CompileError,
    /// A dependency would wait for a reviewer.
    Waiting,
    /// Nothing bad was found, and some stages could not run.
    Incomplete,
}

#[derive(Debug, serde::Serialize)]
struct StageReport {
    stage: Stage,
    outcome: StageOutcome,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    wall_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cpu_ms: Option<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
enum StageOutcome {
    Passed,
    Stopped,
    NotRun,
}

#[derive(Debug, serde::Serialize)]
struct ArtifactReport {
    digest: Digest,
    bytes: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<PathBuf>,
}

/// Checks a project directory or an archive. With `json`, stdout carries the report as JSON;
/// `keep` is where the artifact is written if one comes of it; `lowered` are limits as
/// `name=value`.
pub(crate) fn check(
    path: &Path,
    json: bool,
    keep: Option<&Path>,
    lowered: &[String],
) -> Result<ExitCode, BuilderError> {
    let ceiling = ceiling(lowered)?;
    let record = Record::default();
    let journal = Journal::new(&record);
    let result = run(path, ceiling, &journal);
    let mut report = record.into_report();
    let outcome = match result {
        Ok(Passed::Everything(artifact)) => {
            report.artifact = Some(describe(&artifact, keep)?);
            Outcome::Passed
        }
        Ok(Passed::StaticOnly(reason)) => {
            report.skip(&reason);
            Outcome::Incomplete
        }
        Err(Stop::Refused(diagnostics)) => {
            let outcome = refused(&diagnostics);
            report.diagnostics.extend(diagnostics);
            outcome
        }
        Err(Stop::Waiting(review)) => {
            report.diagnostics.extend(review.findings.iter().map(Diagnostic::from));
            Outcome::Waiting
        }
        Err(Stop::Failed(error)) => return Err(error),
    };
    report.outcome = outcome;
    print(&report, json)?;
    Ok(outcome.exit_code())
}

enum Passed {
    Everything(Box<ProvenArtifact>),
    /// The compiler's stages could not run: why.
    StaticOnly(String),
}

/// The compiler's limits with those lowered that were asked for.
fn ceiling(lowered: &[String]) -> Result<CompileLimits, BuilderError> {
    lowered.iter().try_fold(COMPILE, |limits, text| {
        let pair = text.split_once('=').and_then(|(name, value)| Some((name, value.parse().ok()?)));
        pair.and_then(|(name, value)| limits.lowered(name, value)).ok_or_else(|| BuilderError::Command {
            command: "check",
            problem: format!("`--limit {text}` names no limit, or a value that does not lower it"),
        })
    })
}

fn run(path: &Path, ceiling: CompileLimits, journal: &Journal<'_>) -> Result<Passed, Stop> {
    let tree = journal.stage(Stage::Unpack, |_| read(path))?;
    let audited = journal.stage(Stage::Audit, |_| stages::audit(tree))?;
    let scratch = tempfile::tempdir().map_err(BuilderError::io("the directory for temporary files"))?;
    match prepare(scratch.path())? {
        Ok((mut workshop, _instance)) => {
            workshop.cage = workshop.cage.with_at_most(ceiling);
            compile(audited, &workshop, journal).map(|made| Passed::Everything(Box::new(made)))
        }
        Err(reason) => Ok(Passed::StaticOnly(reason)),
    }
}

fn read(path: &Path) -> Result<SourceTree, Stop> {
    if path.is_dir() {
        return SourceTree::from_dir(path).map_err(stages::archive_refusal);
    }
    stages::unpack(std::fs::read(path).map_err(BuilderError::io(path))?)
}

fn compile(
    audited: AuditedSource,
    workshop: &Workshop,
    journal: &Journal<'_>,
) -> Result<ProvenArtifact, Stop> {
    let allowlist = workshop.deps.seed_allowlist()?;
    let resolved =
        journal.stage(Stage::Dependencies, |_| stages::resolve(audited, &allowlist, &workshop.deps))?;
    stages::make(resolved, workshop, journal)
}

/// Prints the bare compiler calls behind the artifact of a package that is trusted.
pub(crate) fn commands(path: &Path, out: &Path) -> Result<ExitCode, BuilderError> {
    let config = CheckConfig::from_environment()?;
    let Some((toolchain, deps)) = find(&config)? else {
        return Err(BuilderError::Config { name: "MFAAS_TOOLCHAIN_DIR", problem: NOTHING_FOUND.to_owned() });
    };
    std::fs::create_dir_all(out).map_err(BuilderError::io(out))?;
    let work = out.canonicalize().map_err(BuilderError::io(out))?;
    let (cage, worker) = (Cage::in_place(), PathBuf::new());
    let workshop = Workshop { cage, toolchain, deps: Arc::new(deps), work, worker };
    let allowlist = workshop.deps.seed_allowlist()?;
    let resolved = read(path)
        .and_then(stages::audit)
        .and_then(|audited| stages::resolve(audited, &allowlist, &workshop.deps))
        .map_err(|stop| match stop {
            Stop::Failed(error) => error,
            Stop::Refused(_) | Stop::Waiting(_) => {
                let problem = "the package does not pass `check`".to_owned();
                BuilderError::Command { command: "commands", problem }
            }
        })?;
    print_json(&stages::commands(&resolved, &workshop)?)?;
    Ok(ExitCode::SUCCESS)
}

/// Finds toolchain, dependency cache, worker and cage. `Ok(Err(reason))` says which is missing;
/// a configured one that is broken is an error.
fn prepare(scratch: &Path) -> Result<Result<(Workshop, InstanceDirectory), String>, BuilderError> {
    let config = CheckConfig::from_environment()?;
    let Some((toolchain, deps)) = find(&config)? else {
        return Ok(Err(NOTHING_FOUND.to_owned()));
    };
    let worker = match stages::find_worker() {
        Ok(worker) => worker,
        Err(error) => return Ok(Err(error.to_string())),
    };
    let cage = match Cage::new(config.cage_minimum) {
        Ok(cage) => cage,
        Err(error) => return Ok(Err(error.to_string())),
    };
    let instance = InstanceDirectory::make(scratch, "check")?;
    let work = instance.path().to_path_buf();
    Ok(Ok((Workshop { cage, toolchain, deps: Arc::new(deps), work, worker }, instance)))
}

/// The configured pair, or the newest pair in a home of `mfaas up`.
fn find(config: &CheckConfig) -> Result<Option<(Toolchain, Deps)>, BuilderError> {
    if let (Some(toolchain), Some(deps)) = (&config.toolchain, &config.deps) {
        let toolchain = Toolchain::open(toolchain)?;
        let deps = Deps::open(deps, toolchain.id())?;
        return Ok(Some((toolchain, deps)));
    }
    for home in config::homes() {
        let toolchains: Vec<Toolchain> =
            entries(&home.join("toolchains")).iter().filter_map(|path| Toolchain::open(path).ok()).collect();
        for path in entries(&home.join("deps")) {
            for toolchain in &toolchains {
                if let Ok(deps) = Deps::open(&path, toolchain.id()) {
                    return Ok(Some((toolchain.clone(), deps)));
                }
            }
        }
    }
    Ok(None)
}

/// The entries of a directory, newest first; none if it cannot be read.
fn entries(directory: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(directory) else { return Vec::new() };
    let mut found: Vec<_> = entries
        .flatten()
        .map(|entry| (entry.metadata().and_then(|meta| meta.modified()).ok(), entry.path()))
        .collect();
    found.sort();
    found.into_iter().rev().map(|(_, path)| path).collect()
}

fn describe(artifact: &ProvenArtifact, keep: Option<&Path>) -> Result<ArtifactReport, BuilderError> {
    if let Some(file) = keep {
        std::fs::write(file, artifact.bytes()).map_err(BuilderError::io(file))?;
    }
    Ok(ArtifactReport {
        digest: artifact.digest(),
        bytes: artifact.claim().artifact_bytes,
        file: keep.map(Path::to_path_buf),
    })
}

/// A refusal is a compile error if the compiler itself said it about ordinary source.
fn refused(diagnostics: &[Diagnostic]) -> Outcome {
    let compiler = [codes::MF0401, codes::MF0408];
    if !diagnostics.is_empty() && diagnostics.iter().all(|diagnostic| compiler.contains(&diagnostic.code)) {
        Outcome::CompileError
    } else {
        Outcome::Refused
    }
}

impl Outcome {
    fn exit_code(self) -> ExitCode {
        match self {
            Self::Passed => ExitCode::SUCCESS,
            Self::Incomplete => ExitCode::from(EXIT_INCOMPLETE),
            Self::Refused => ExitCode::from(EXIT_REFUSED),
            Self::CompileError => ExitCode::from(EXIT_COMPILE_ERROR),
            Self::Waiting => ExitCode::from(EXIT_WAITING),
        }
    }
}

impl Report {
    /// Notes that the compiler's stages did not run.
    fn skip(&mut self, reason: &str) {
        for stage in COMPILER_STAGES {
            self.skipped.push(format!("{}: {reason}", word(stage)));
            self.stages.push(StageReport::not_run(stage, reason));
        }
    }
}

/// The stage's word on the wire.
fn word(stage: Stage) -> String {
    serde_json::to_value(stage).ok().and_then(|value| value.as_str().map(str::to_owned)).unwrap_or_default()
}

impl StageReport {
    fn not_run(stage: Stage, reason: &str) -> Self {
        Self {
            stage,
            outcome: StageOutcome::NotRun,
            reason: Some(reason.to_owned()),
            wall_ms: None,
            cpu_ms: None,
        }
    }
}

/// The events of a check, kept until it is over.
#[derive(Debug, Default)]
struct Record(RefCell<Vec<Event>>);

impl Progress for Record {
    fn tell(&self, event: Event) {
        self.0.borrow_mut().push(event);
    }
}

impl Record {
    fn into_report(self) -> Report {
        let mut report = Report {
            outcome: Outcome::Incomplete,
            stages: Vec::new(),
            skipped: Vec::new(),
            diagnostics: Vec::new(),
            artifact: None,
        };
        for event in self.0.into_inner() {
            match event.kind {
                EventKind::Started => report.stages.push(StageReport {
                    stage: event.stage,
                    outcome: StageOutcome::Stopped,
                    reason: None,
                    wall_ms: None,
                    cpu_ms: None,
                }),
                EventKind::Finished => {
                    if let Some(stage) = report.stages.last_mut() {
                        stage.outcome = StageOutcome::Passed;
                        stage.wall_ms = event.wall_ms;
                        stage.cpu_ms = event.cpu_ms;
                    }
                }
                EventKind::Diagnostic => report.diagnostics.extend(event.diagnostics),
                EventKind::State => {}
            }
        }
        report
    }
}

fn print(report: &Report, json: bool) -> Result<(), BuilderError> {
    if json { print_json(report) } else { print_text(report) }
}

#[allow(clippy::print_stdout, reason = "the answer of the command")]
fn print_json(value: &impl serde::Serialize) -> Result<(), BuilderError> {
    let text = serde_json::to_string_pretty(value).map_err(|error| BuilderError::Command {
        command: "printing the answer",
        problem: error.to_string(),
    })?;
    println!("{text}");
    Ok(())
}

#[allow(clippy::print_stdout, reason = "the answer of the command")]
fn print_text(report: &Report) -> Result<(), BuilderError> {
    for diagnostic in &report.diagnostics {
        if diagnostic.rendered.is_empty() {
            let word = if diagnostic.level == Level::Error { "error" } else { "warning" };
            println!("{word}[{}]: {}\n  help: {}", diagnostic.code, diagnostic.message, diagnostic.hint);
        } else {
            println!("{}", diagnostic.rendered);
        }
    }
    for stage in &report.stages {
        let name = word(stage.stage);
        match (stage.outcome, &stage.reason) {
            (StageOutcome::Passed, _) => {
                println!("{name}: passed ({} ms)", stage.wall_ms.unwrap_or_default())
            }
            (StageOutcome::Stopped, _) => println!("{name}: stopped"),
            (StageOutcome::NotRun, reason) => {
                println!("{name}: not run ({})", reason.as_deref().unwrap_or_default());
            }
        }
    }
    Ok(())
}
