//! `facts`: the reports about a directory, an archive, or a crate of the registry.

use mfaas_startup::Variables;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use mfaas_ident::Digest;
use mfaas_rules::CrateRequest;
use mfaas_rules::crate_facts::{CompilerVerdict, CrateReport};
use serde::Serialize;

use super::context::{AcquireContext, in_work, report};
use super::download::Download;
use super::error::AcquireError;
use super::manifest::parse_request;
use super::resolve::{Resolution, Workspace, resolve};
use crate::config;
use crate::deps::PackageKey;
use crate::error::BuilderError;
use crate::facts;
use crate::sandbox::Sandbox;

/// What `facts` is about.
#[derive(Debug, clap::Args)]
pub(crate) struct Subject {
    /// The crate's directory, or a `.crate` file.
    #[arg(required_unless_present = "name", conflicts_with = "name")]
    path: Option<PathBuf>,
    /// A crate of the registry instead: NAME or NAME@VERSION. It is resolved, downloaded and compiled.
    #[arg(long = "crate", value_name = "NAME@VERSION")]
    name: Option<String>,
    /// Its features, separated by commas.
    #[arg(long, value_delimiter = ',', value_name = "NAMES", requires = "name")]
    features: Vec<String>,
    /// Without its default features.
    #[arg(long, requires = "name")]
    no_default_features: bool,
    /// Where to keep what is downloaded, for the next time.
    #[arg(long, value_name = "DIR")]
    work: Option<PathBuf>,
}

/// Prints the facts about a directory, an archive, or a crate of the registry.
pub(crate) fn facts(subject: &Subject, json: bool) -> Result<ExitCode, BuilderError> {
    match (&subject.path, &subject.name) {
        (Some(path), _) if path.is_dir() => return facts::facts(path, json),
        (Some(path), _) => {
            let report = of_file(path)?;
            facts::print_text(&report, json, || draw(&report))?;
        }
        (None, Some(name)) => {
            let asked = parse_request(name, subject.features.clone(), !subject.no_default_features)?;
            let reports = in_work(subject.work.as_deref(), |context| of_registry(context, &asked))?;
            facts::print_text(&reports, json, || draw_all(&reports))?;
        }
        (None, None) => return Ok(ExitCode::FAILURE),
    }
    Ok(ExitCode::SUCCESS)
}

/// The report about a file whose name is `name-version.crate`.
fn of_file(path: &Path) -> Result<CrateReport, BuilderError> {
    let bytes = std::fs::read(path).map_err(BuilderError::io(path))?;
    let stem = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
    let (name, version) = split(stem).ok_or_else(|| AcquireError::Other {
        reason: "a crate's archive is called `name-version.crate`".to_owned(),
    })?;
    let download = Download { checksum: Digest::of(&bytes), name, version, bytes };
    let reason = "the archive alone was given".to_owned();
    report(
        &download,
        &Sandbox::new(config::sandbox_minimum(&Variables::of_process())?)?,
        CompilerVerdict::NotRun { reason },
    )
}

/// `name-1.2.3` at the first place where a version begins.
fn split(stem: &str) -> Option<PackageKey> {
    stem.match_indices('-')
        .find_map(|(at, _)| Some((stem[..at].parse().ok()?, semver::Version::parse(&stem[at + 1..]).ok()?)))
}

/// A crate and everything that it needs.
#[derive(Debug, Serialize)]
struct Reports {
    /// The crate.
    #[serde(rename = "crate")]
    chosen: CrateReport,
    /// The others, sorted.
    closure: Vec<CrateReport>,
}

fn of_registry(context: &AcquireContext, request: &CrateRequest) -> Result<Reports, BuilderError> {
    let base = Workspace::empty();
    let Resolution { lock, manifest, chosen, members, .. } = resolve(&context.cargo, &base, &[], request)?;
    context.fetch(&base, &manifest, &lock)?;
    let mut verdicts = context.verdicts(&base, &manifest, &lock)?;
    let mut own = None;
    let mut closure = Vec::new();
    for member in &members {
        let (report, _) = context.report(member, &members, verdicts.remove(&member.key()))?;
        match member.key() == chosen {
            true => own = Some(report),
            false => closure.push(report),
        }
    }
    let chosen = own.ok_or_else(|| AcquireError::Other { reason: "cargo does not compile it".to_owned() })?;
    Ok(Reports { chosen, closure })
}

fn draw_all(reports: &Reports) -> String {
    let mut out = draw(&reports.chosen);
    for report in &reports.closure {
        let _ = write!(out, "\n──\n{}", draw(report));
    }
    out
}

/// One report as a person reads it.
fn draw(report: &CrateReport) -> String {
    let mut out = String::new();
    // Writing to a String cannot fail, here and below.
    let _ = writeln!(out, "{} {}  {}", report.name, report.version, report.checksum);
    let _ = writeln!(out, "features: {}", report.features.join(", "));
    let _ = writeln!(out, "compiler: {}", verdict(&report.compiler));
    if let CompilerVerdict::Unsafe { hotspots, .. } = &report.compiler {
        for hotspot in hotspots.iter().take(20) {
            let _ = writeln!(out, "  {}:{}: {}", hotspot.span.file, hotspot.span.line, hotspot.message);
        }
    }
    let archive = &report.archive;
    let _ = writeln!(
        out,
        "archive:  {} bytes, {} files, {} bytes unpacked",
        archive.bytes, archive.files, archive.unpacked_bytes
    );
    for file in &archive.binaries {
        let _ = writeln!(out, "binary:   {} ({:?})", file.path, file.kind);
    }
    for path in &archive.native_sources {
        let _ = writeln!(out, "native:   {path}");
    }
    let licence = &report.licence;
    let _ = writeln!(
        out,
        "licence:  {}",
        licence.expression.as_deref().or(licence.file.as_deref()).unwrap_or("(none)")
    );
    if let Some(links) = &report.kind.links {
        let _ = writeln!(out, "links:    {links}");
    }
    for touch in &report.touches.classes {
        let _ = writeln!(out, "touches:  {:?} in {} places", touch.class, touch.count);
    }
    for shape in &report.shapes.shapes {
        let _ = writeln!(out, "shape:    {}: {}", shape.lint, shape.text);
    }
    for need in &report.needs {
        let _ = writeln!(out, "needs:    {} {}", need.name, need.version);
    }
    out.push_str(&facts::draw(&report.source));
    out
}

/// The compiler's answer in a few words.
pub(super) fn verdict(verdict: &CompilerVerdict) -> String {
    match verdict {
        CompilerVerdict::Clean => "clean".to_owned(),
        CompilerVerdict::Unsafe { errors, .. } => format!("unsafe ({errors} errors)"),
        CompilerVerdict::Failed { reason } => format!("failed: {reason}"),
        CompilerVerdict::NotRun { reason } => format!("not run: {reason}"),
    }
}
