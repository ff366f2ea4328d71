//! From a request to the reports about each crate of it: the steps of this module in their order.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use mfaas_ident::Digest;
use mfaas_rules::crate_facts::{
    CompilerVerdict, CrateFacts, CrateReport, FACTS_REVISION, KindFacts, Need, summarise,
};
use mfaas_unpack::CrateArchive;
use serde::Serialize;

use super::cargo::Cargo;
use super::download::{Download, download};
use super::error::AcquireError;
use super::extend::write_seed;
use super::manifest::CrateRequest;
use super::published::published;
use super::resolve::{Resolution, ResolvedCrate, Workspace, resolve};
use super::vendor::vendor;
use super::verdict::verdicts;
use crate::cage::{Cage, CageMinimum};
use crate::check::materials;
use crate::config::{self, CheckConfig};
use crate::deps::PackageKey;
use crate::error::BuilderError;
use crate::facts::{self, More, archive_facts, unread_archive};
use crate::toolchain::{TARGET, Toolchain};
use crate::workspace::InstanceDirectory;

/// What every crate's answer is where the compiler was not asked about it.
pub(super) const NOT_COMPILED: &str =
    "nothing of this target compiles it, or something that it needs did not compile";

/// Where crates are acquired: a toolchain, a directory to work in, and how strong the cage has to be.
#[derive(Debug)]
pub(crate) struct Acquirer {
    pub(crate) toolchain: Toolchain,
    pub(crate) cargo: Cargo,
    work: PathBuf,
    /// What is being worked at; a later instance removes it when this one dies.
    instance: InstanceDirectory,
    cage: Cage,
    minimum: CageMinimum,
}

impl Acquirer {
    /// `work` keeps what was downloaded; the same directory serves the next request.
    pub(crate) fn new(toolchain: Toolchain, work: &Path, minimum: CageMinimum) -> Result<Self, BuilderError> {
        std::fs::create_dir_all(work).map_err(BuilderError::io(work))?;
        let work = work.canonicalize().map_err(BuilderError::io(work))?;
        let instance = InstanceDirectory::make(&work, &uuid::Uuid::new_v4().to_string())?;
        let cargo = Cargo::new(&toolchain, &work.join("cargo"), instance.path())?;
        Ok(Self { toolchain, cargo, work, instance, cage: Cage::new(minimum)?, minimum })
    }

    /// The weakest cage that is accepted.
    pub(super) fn minimum(&self) -> CageMinimum {
        self.minimum
    }

    /// What the cage is made of.
    pub(super) fn cage_level(&self) -> mfaas_attest::CageLevel {
        self.cage.level()
    }

    /// A directory that is gone afterwards.
    pub(super) fn scratch(&self) -> Result<tempfile::TempDir, BuilderError> {
        let within = self.instance.path();
        tempfile::tempdir_in(within).map_err(BuilderError::io(within))
    }

    /// Where sources lie for the cage: each version in a directory of its own.
    pub(crate) fn sources(&self) -> PathBuf {
        self.work.join("sources")
    }

    /// Downloads and unpacks everything that a resolution names.
    pub(crate) fn fetch(&self, base: &Workspace, manifest: &str, lock: &str) -> Result<(), BuilderError> {
        vendor(&self.cargo, base, manifest, lock, &self.sources())
    }

    /// What the compiler says about every crate of a resolution that was fetched.
    pub(crate) fn verdicts(
        &self,
        base: &Workspace,
        manifest: &str,
        lock: &str,
    ) -> Result<BTreeMap<PackageKey, CompilerVerdict>, BuilderError> {
        let seed = self.scratch()?;
        write_seed(base, manifest, lock, seed.path())?;
        verdicts(seed.path(), &self.sources(), &self.toolchain, self.instance.path(), self.minimum)
    }

    /// Everything about one of the `members` of a resolution that was fetched, and its archive.
    pub(crate) fn report(
        &self,
        member: &ResolvedCrate,
        members: &[ResolvedCrate],
        verdict: Option<CompilerVerdict>,
    ) -> Result<(CrateReport, Download), BuilderError> {
        let download = download(&self.cargo, member)?;
        let not_run = || CompilerVerdict::NotRun { reason: NOT_COMPILED.to_owned() };
        let mut report = report(&download, &self.cage, verdict.unwrap_or_else(not_run))?;
        report.features = member.features.clone();
        report.needs = needs(member, members);
        report.published = published(&self.cargo.indexes(), &download);
        Ok((report, download))
    }
}

/// The direct dependencies with their checksums. One of the site's own tree has none and is left out:
/// it is no crate of a registry.
fn needs(member: &ResolvedCrate, members: &[ResolvedCrate]) -> Vec<Need> {
    let checksum = |key: &PackageKey| {
        let found = members.iter().find(|member| member.key() == *key)?;
        Digest::parse(found.checksum.as_deref()?).ok()
    };
    let found = member.needs.iter().filter_map(|key| {
        let (name, version) = key.clone();
        Some(Need { name, version, checksum: checksum(key)? })
    });
    found.collect()
}

/// Everything that follows from the bytes of one archive, and what the compiler said.
fn report(download: &Download, cage: &Cage, compiler: CompilerVerdict) -> Result<CrateReport, BuilderError> {
    let bytes = download.bytes.len() as u64;
    let (archive, source, more) = match CrateArchive::read(&download.bytes, &download.top()) {
        Ok(archive) => {
            let (source, more) = facts::gather_archive(&archive, cage)?;
            (archive_facts(&archive, bytes), source, more)
        }
        // An archive that cannot be read is a fact about the crate.
        Err(error) => {
            let reason = error.to_string();
            let more = More::missing(&reason);
            (unread_archive(bytes, reason.clone()), nothing_read(reason), more)
        }
    };
    Ok(CrateReport {
        revision: FACTS_REVISION,
        name: download.name.clone(),
        version: download.version.clone(),
        checksum: download.checksum,
        features: Vec::new(),
        target: TARGET.to_owned(),
        archive,
        compiler,
        touches: more.touches,
        shapes: more.shapes,
        licence: more.manifest.licence,
        kind: KindFacts {
            proc_macro: source.proc_macro,
            build_script: source.build_script,
            links: more.manifest.links,
            edition: more.manifest.edition,
        },
        source,
        published: None,
        yanked: None,
        needs: Vec::new(),
    })
}

fn nothing_read(reason: String) -> CrateFacts {
    let unread = vec![reason];
    CrateFacts {
        package: None,
        files: Vec::new(),
        exported_macros: Vec::new(),
        proc_macro: false,
        build_script: false,
        summary: summarise(&[], &unread, false, false),
        unread,
    }
}

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
            let asked = CrateRequest::parse(name, subject.features.clone(), !subject.no_default_features)?;
            let reports = in_work(subject.work.as_deref(), |acquirer| of_registry(acquirer, &asked))?;
            facts::print_text(&reports, json, || draw_all(&reports))?;
        }
        (None, None) => return Ok(ExitCode::FAILURE),
    }
    Ok(ExitCode::SUCCESS)
}

/// With the toolchain that this machine has, in `work` or in a directory that is gone afterwards.
pub(super) fn in_work<T>(
    work: Option<&Path>,
    run: impl FnOnce(&Acquirer) -> Result<T, BuilderError>,
) -> Result<T, BuilderError> {
    let scratch = tempfile::tempdir().map_err(BuilderError::io("the directory for temporary files"))?;
    let toolchain = materials::toolchain(&CheckConfig::from_environment()?)
        .map_err(|problem| BuilderError::Config { name: "MFAAS_TOOLCHAIN_DIR", problem })?;
    let work = work.unwrap_or(scratch.path());
    run(&Acquirer::new(toolchain, work, config::cage_minimum()?)?)
}

/// The report about a file whose name is `name-version.crate`.
fn of_file(path: &Path) -> Result<CrateReport, BuilderError> {
    let bytes = std::fs::read(path).map_err(BuilderError::io(path))?;
    let stem = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
    let (name, version) = split(stem).ok_or_else(|| AcquireError::Other {
        said: "a crate's archive is called `name-version.crate`".to_owned(),
    })?;
    let download = Download { checksum: Digest::of(&bytes), name, version, bytes };
    let reason = "the archive alone was given".to_owned();
    report(&download, &Cage::new(config::cage_minimum()?)?, CompilerVerdict::NotRun { reason })
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

fn of_registry(acquirer: &Acquirer, request: &CrateRequest) -> Result<Reports, BuilderError> {
    let base = Workspace::empty();
    let Resolution { lock, manifest, chosen, members, .. } = resolve(&acquirer.cargo, &base, &[], request)?;
    acquirer.fetch(&base, &manifest, &lock)?;
    let mut verdicts = acquirer.verdicts(&base, &manifest, &lock)?;
    let mut own = None;
    let mut closure = Vec::new();
    for member in &members {
        let (report, _) = acquirer.report(member, &members, verdicts.remove(&member.key()))?;
        match member.key() == chosen {
            true => own = Some(report),
            false => closure.push(report),
        }
    }
    let chosen = own.ok_or_else(|| AcquireError::Other { said: "cargo does not compile it".to_owned() })?;
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
    if let CompilerVerdict::Unsafe { spots, .. } = &report.compiler {
        for spot in spots.iter().take(20) {
            let _ = writeln!(out, "  {}:{}: {}", spot.span.file, spot.span.line, spot.message);
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
