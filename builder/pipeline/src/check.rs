//! `check`: the stages of a deploy on a developer's machine, without a registry.
//!
//! A stage that cannot run here is reported as not run, with the reason, and the check does not
//! pass: it never says "fine" about what it did not look at.

pub(crate) mod materials;
mod report;

use mfaas_startup::{VariableError, Variables};
use std::cell::Cell;
use std::io::Read as _;
use std::path::Path;
use std::process::ExitCode;

use mfaas_delivery::{Diagnostic, Level, Stage};
use mfaas_ident::{Digest, ToolchainId};
use mfaas_rules::limits::{ARCHIVE, COMPILE, CompileLimits};
use mfaas_rules::{AllowlistSnapshot, Code, codes};
use mfaas_unpack::SourceTree;

use crate::config::CheckConfig;
use crate::error::BuilderError;
use crate::journal::{Journal, Stop};
use crate::layers::Layers;
use crate::sandbox::Sandbox;
use crate::stages::{self, BuildContext, ProvenArtifact};
use report::{ArtifactReport, Outcome, Record, print_json};

/// Exit codes of the command line, as the documentation has them.
const EXIT_INCOMPLETE: u8 = 1;
const EXIT_REFUSED: u8 = 3;
const EXIT_COMPILE_ERROR: u8 = 5;
const EXIT_WAITING: u8 = 6;

/// Checks a project directory or an archive. With `json`, stdout carries the report as JSON;
/// `keep` is where the artifact is written if one comes of it; `lowered` are limits as
/// `name=value`; `decisions` is a file with a site's, in place of those that ship.
pub(crate) fn check(
    path: &Path,
    json: bool,
    keep: Option<&Path>,
    lowered: &[String],
    decisions: Option<&Path>,
) -> Result<ExitCode, BuilderError> {
    let ceiling = ceiling(lowered)?;
    let decisions = decisions.map(of_site).transpose()?;
    let record = Record::default();
    let journal = Journal::new(&record);
    let compiled_with = Cell::new(None);
    let result = run(path, ceiling, decisions, &journal, &compiled_with);
    let mut report = record.into_report();
    (report.toolchain, report.dependencies) = compiled_with.get().unzip();
    report.outcome = match result {
        Ok(Passed::Everything(artifact)) => {
            report.artifact = Some(describe(&artifact, keep)?);
            Outcome::Passed
        }
        Ok(Passed::Partly(reason)) => {
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
    report.print(json)?;
    Ok(report.outcome.exit_code())
}

enum Passed {
    Everything(Box<ProvenArtifact>),
    /// The stages that are left could not run: why.
    Partly(String),
}

/// Which toolchain and which dependency cache the compiler's stages used.
type CompiledWith = Cell<Option<(ToolchainId, Digest)>>;

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

fn run(
    path: &Path,
    ceiling: CompileLimits,
    decisions: Option<AllowlistSnapshot>,
    journal: &Journal<'_>,
    compiled_with: &CompiledWith,
) -> Result<Passed, Stop> {
    let tree = journal.stage(Stage::Unpack, |_| read(path))?;
    let audited = journal.stage(Stage::Audit, |_| stages::audit(tree, &Layers::all()))?;
    let config = CheckConfig::read(&Variables::of_process()).map_err(BuilderError::from)?;
    let materials = match materials::find(&config) {
        Ok(materials) => materials,
        Err(reason) => return Ok(Passed::Partly(reason)),
    };
    let allowlist = decisions.map_or_else(|| materials.allowlist(), Ok)?;
    let unbuilt = stages::unbuilt(&audited, &allowlist, &materials.deps);
    if !unbuilt.is_empty() {
        let names = unbuilt.join(", ");
        return Ok(Passed::Partly(format!(
            "the site allows {names}, and this machine has not compiled it: a deploy goes on from here"
        )));
    }
    let resolved =
        journal.stage(Stage::Dependencies, |_| stages::resolve(audited, &allowlist, &materials.deps))?;
    let scratch = tempfile::tempdir().map_err(BuilderError::io("the directory for temporary files"))?;
    let (mut context, _instance) = match materials.build_context(scratch.path())? {
        Ok(context) => context,
        Err(reason) => return Ok(Passed::Partly(reason)),
    };
    context.sandbox = context.sandbox.with_at_most(ceiling);
    compiled_with.set(Some((context.toolchain.id(), context.deps.key())));
    stages::make(resolved, &context, journal).map(|made| Passed::Everything(Box::new(made)))
}

/// Bytes of a file of decisions: some hundred for each of the versions that a site can have decided about.
const DECISIONS_BYTES_MAX: u64 = 16 << 20;

/// The decisions of a site in place of what ships, as its server tells them.
fn of_site(path: &Path) -> Result<AllowlistSnapshot, BuilderError> {
    let mut bytes = Vec::new();
    let file = std::fs::File::open(path).map_err(BuilderError::io(path))?;
    file.take(DECISIONS_BYTES_MAX).read_to_end(&mut bytes).map_err(BuilderError::io(path))?;
    serde_json::from_slice(&bytes)
        .map_err(|error| BuilderError::Deps { path: path.to_path_buf(), problem: error.to_string() })
}

fn read(path: &Path) -> Result<SourceTree, Stop> {
    if path.is_dir() {
        return SourceTree::from_dir(path).map_err(stages::archive_refusal);
    }
    // One byte more than an upload may have: enough for the refusal, whatever lies there.
    let mut bytes = Vec::new();
    let file = std::fs::File::open(path).map_err(BuilderError::io(path))?;
    file.take(ARCHIVE.upload_bytes_max + 1).read_to_end(&mut bytes).map_err(BuilderError::io(path))?;
    stages::unpack(bytes)
}

/// Prints the bare compiler calls behind the artifact of a package that is trusted.
pub(crate) fn commands(path: &Path, out: &Path) -> Result<ExitCode, BuilderError> {
    let config = CheckConfig::read(&Variables::of_process())?;
    let materials =
        materials::find(&config).map_err(|reason| VariableError::invalid("MFAAS_TOOLCHAIN_DIR", reason))?;
    let allowlist = materials.allowlist()?;
    std::fs::create_dir_all(out).map_err(BuilderError::io(out))?;
    let work = out.canonicalize().map_err(BuilderError::io(out))?;
    let (sandbox, programs) = (Sandbox::in_place(), stages::Programs::find()?);
    let materials::Materials { toolchain, deps } = materials;
    let context = BuildContext::new(sandbox, toolchain, deps, work, programs);
    let resolved = read(path)
        .and_then(|tree| stages::audit(tree, &Layers::all()))
        .and_then(|audited| stages::resolve(audited, &allowlist, &context.deps))
        .map_err(|stop| match stop {
            Stop::Failed(error) => error,
            Stop::Refused(_) | Stop::Waiting(_) => {
                let problem = "the package does not pass `check`".to_owned();
                BuilderError::Command { command: "commands", problem }
            }
        })?;
    print_json(&stages::commands(&resolved, &context)?)?;
    Ok(ExitCode::SUCCESS)
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

/// The first error decides which kind of refusal it is, as it does for `mfaas deploy`.
fn refused(diagnostics: &[Diagnostic]) -> Outcome {
    let first = diagnostics.iter().find(|diagnostic| diagnostic.level == Level::Error);
    match first.map(|diagnostic| diagnostic.code) {
        Some(code) if is_the_compilers(code) => Outcome::CompileError,
        Some(_) | None => Outcome::Refused,
    }
}

/// The linker speaks for policy; the others of the family are about compiling.
fn is_the_compilers(code: Code) -> bool {
    code.family() == codes::MF0401.family() && ![codes::MF0407, codes::MF0411, codes::MF0412].contains(&code)
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
