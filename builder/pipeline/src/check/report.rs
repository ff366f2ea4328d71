//! What a check found, as JSON and as text. Every text in it was sanitised where it was made; the
//! drawing passes the sanitiser once more.

use std::cell::RefCell;
use std::path::PathBuf;

use mfaas_delivery::{Diagnostic, Event, EventKind, Stage, render};
use mfaas_ident::{Digest, ToolchainId};

use crate::error::BuilderError;
use crate::journal::Progress;

/// How a check ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Outcome {
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

/// The stages of a check, in their order.
const STAGES: [Stage; 8] = [
    Stage::Unpack,
    Stage::Audit,
    Stage::Dependencies,
    Stage::Expand,
    Stage::Compile,
    Stage::Link,
    Stage::Inspect,
    Stage::Load,
];

/// What a check found, as it is printed.
#[derive(Debug, serde::Serialize)]
pub(super) struct Report {
    pub(super) outcome: Outcome,
    pub(super) stages: Vec<StageReport>,
    /// The stages that did not run, as sentences.
    pub(super) skipped: Vec<String>,
    pub(super) diagnostics: Vec<Diagnostic>,
    /// What it was compiled with, if the compiler's stages could run: to be compared with the
    /// server's.
    pub(super) toolchain: Option<ToolchainId>,
    /// The key of the dependency cache, likewise.
    pub(super) dependencies: Option<Digest>,
    pub(super) artifact: Option<ArtifactReport>,
}

#[derive(Debug, serde::Serialize)]
pub(super) struct StageReport {
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

/// The image that came of it.
#[derive(Debug, serde::Serialize)]
pub(super) struct ArtifactReport {
    pub(super) digest: Digest,
    pub(super) bytes: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) file: Option<PathBuf>,
}

impl Report {
    /// Notes that the stages which have not begun will not run.
    pub(super) fn skip(&mut self, reason: &str) {
        for stage in STAGES {
            if self.stages.iter().all(|known| known.stage != stage) {
                self.skipped.push(format!("{}: {reason}", word(stage)));
                self.stages.push(StageReport::new(stage, StageOutcome::NotRun, Some(reason.to_owned())));
            }
        }
    }

    /// Prints to standard output, each diagnostic with its drawing.
    pub(super) fn print(&mut self, json: bool) -> Result<(), BuilderError> {
        for diagnostic in &mut self.diagnostics {
            diagnostic.rendered = render::drawn(diagnostic);
        }
        if json { print_json(self) } else { self.print_text() }
    }

    #[allow(clippy::print_stdout, reason = "the answer of the command")]
    fn print_text(&self) -> Result<(), BuilderError> {
        self.diagnostics.iter().for_each(|diagnostic| println!("{}\n", diagnostic.rendered.trim_end()));
        for stage in &self.stages {
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
}

/// The stage's word on the wire.
fn word(stage: Stage) -> String {
    serde_json::to_value(stage).ok().and_then(|value| value.as_str().map(str::to_owned)).unwrap_or_default()
}

impl StageReport {
    fn new(stage: Stage, outcome: StageOutcome, reason: Option<String>) -> Self {
        Self { stage, outcome, reason, wall_ms: None, cpu_ms: None }
    }
}

/// The events of a check, kept until it is over.
#[derive(Debug, Default)]
pub(super) struct Record(RefCell<Vec<Event>>);

impl Progress for Record {
    fn report(&self, event: Event) {
        self.0.borrow_mut().push(event);
    }
}

impl Record {
    pub(super) fn into_report(self) -> Report {
        let mut report = Report {
            outcome: Outcome::Incomplete,
            stages: Vec::new(),
            skipped: Vec::new(),
            diagnostics: Vec::new(),
            toolchain: None,
            dependencies: None,
            artifact: None,
        };
        for event in self.0.into_inner() {
            match event.kind {
                EventKind::Started => {
                    report.stages.push(StageReport::new(event.stage, StageOutcome::Stopped, None));
                }
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

#[allow(clippy::print_stdout, reason = "the answer of the command")]
pub(super) fn print_json(value: &impl serde::Serialize) -> Result<(), BuilderError> {
    let text = serde_json::to_string_pretty(value).map_err(|error| BuilderError::Command {
        command: "printing the answer",
        problem: error.to_string(),
    })?;
    println!("{}", mfaas_ident::escape_json(&text));
    Ok(())
}
