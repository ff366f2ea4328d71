//! Bringing in what others know: advisories, audits, and the decisions of another site.
//!
//! Files are read here, on the machine of the person who imports, by the same readers as everywhere; the server gets
//! what was read, and what could not be.

use std::path::{Path, PathBuf};

use mfaas_audit::{advisory, vet};
use mfaas_ident::CrateName;
use mfaas_rules::crate_facts::AuditSet;
use mfaas_wire::{
    AuditsImported, CrateStatus, CrateView, ImportAdvisories, ImportView, Page, RequestCrate, RequestView,
    RevocationSeverity,
};
use serde::{Deserialize, Serialize};

use crate::failure::{Exit, Failure};
use crate::screen::table;
use crate::settings::Context;

/// Files in a directory of advisories.
const FILES_MAX: usize = 50_000;
/// Directories inside each other.
const DEPTH_MAX: usize = 6;
/// One file, in bytes; the readers have their own, lower limits.
const FILE_BYTES_MAX: u64 = 16 << 20;

/// Where advisories come from.
#[derive(Debug, clap::Args)]
pub(crate) struct Advisories {
    /// A directory of RustSec advisories, for example a checkout of the repository rustsec/advisory-db.
    #[arg(value_name = "DIR")]
    directory: PathBuf,
    /// Take functions that were built with a matched version off the nodes, too.
    #[arg(long)]
    unload: bool,
    /// Only show the advisory matches; change nothing.
    #[arg(long)]
    dry_run: bool,
}

/// Where audits come from.
#[derive(Debug, clap::Args)]
pub(crate) struct Audits {
    /// `audits.toml` files as cargo-vet writes them, each with who they are from: `mozilla=audits.toml`.
    #[arg(value_name = "SOURCE=FILE", required = true)]
    files: Vec<String>,
}

/// Decisions of another site.
#[derive(Debug, clap::Args)]
pub(crate) struct Import {
    /// The file that `mfaas crate export` has printed at that site.
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

/// What is exported: decisions that people or rules of this site have made.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Decisions {
    /// [`FORMAT`].
    format: u32,
    decisions: Vec<Decision>,
}

/// One allowed version.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Decision {
    name: CrateName,
    version: semver::Version,
    checksum: String,
    features: Vec<String>,
    decided_by: String,
    reason: String,
}

/// The only format that is read.
const FORMAT: u32 = 1;

impl Advisories {
    /// Reads, sends, shows the matches.
    pub(crate) async fn run(self, context: &Context) -> Result<Exit, Failure> {
        let mut files = Vec::new();
        gather(&self.directory, 0, &mut files)?;
        let files: Vec<(String, Vec<u8>)> = files
            .into_iter()
            .map(|path| Ok((path.display().to_string(), read(&path)?)))
            .collect::<Result<_, Failure>>()?;
        let set = advisory::read_all(files.iter().map(|(path, bytes)| (path.as_str(), bytes.as_slice())));
        if set.advisories.is_empty() {
            let why = set.unread.first().map_or_else(String::new, |unread| format!(": {}", unread.reason));
            return Err(Failure::Usage(format!(
                "{} holds no readable advisory{why}",
                self.directory.display()
            )));
        }
        let severity = if self.unload { RevocationSeverity::Unload } else { RevocationSeverity::Block };
        let body = ImportAdvisories { set, severity, dry_run: self.dry_run };
        let view: ImportView = context.client()?.put("/v1/imports/advisories", &body).await?;
        context.screen.result(&view, || match_table(&view))?;
        Ok(Exit::Ok)
    }
}

fn match_table(view: &ImportView) -> String {
    let verb = if view.done { "imported" } else { "looked at, not imported" };
    let head = format!("{} advisories {verb}, {} files not readable", view.advisories, view.unread);
    if view.matches.is_empty() {
        return format!("{head}\nno allowed crate is affected");
    }
    let row = |found: &mfaas_wire::AdvisoryMatchView| {
        let functions: Vec<String> = found
            .affected
            .iter()
            .map(|one| format!("{}/{}@{}", one.tenant, one.function, one.version))
            .collect();
        vec![
            found.advisory.clone(),
            format!("{} {}", found.name, found.version),
            found.title.clone(),
            if functions.is_empty() { "-".to_owned() } else { functions.join(" ") },
        ]
    };
    let rows: Vec<_> = view.matches.iter().map(row).collect();
    format!("{head}\n{}", table(&["advisory", "crate", "says", "built with it"], &rows))
}

/// Every Markdown file below, in the order of names. No link is followed.
fn gather(directory: &Path, depth: usize, files: &mut Vec<PathBuf>) -> Result<(), Failure> {
    let mut entries: Vec<_> = std::fs::read_dir(directory)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(Failure::io("cannot read", directory))?;
    entries.sort_by_key(std::fs::DirEntry::file_name);
    for entry in entries {
        let (path, kind) = (entry.path(), entry.file_type().map_err(Failure::io("cannot read", directory))?);
        let hidden = entry.file_name().as_encoded_bytes().starts_with(b".");
        if kind.is_dir() && depth < DEPTH_MAX && !hidden {
            gather(&path, depth + 1, files)?;
        } else if kind.is_file() && is_advisory(&path) {
            files.push(path);
        }
        if files.len() > FILES_MAX {
            return Err(Failure::Usage(format!(
                "{} holds more than {FILES_MAX} advisories",
                directory.display()
            )));
        }
    }
    Ok(())
}

/// `RUSTSEC-2025-0001.md`; the database has other Markdown files as well.
fn is_advisory(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    name.starts_with("RUSTSEC-") && name.ends_with(".md")
}

fn read(path: &Path) -> Result<Vec<u8>, Failure> {
    let size = std::fs::metadata(path).map_err(Failure::io("cannot read", path))?.len();
    if size > FILE_BYTES_MAX {
        return Err(Failure::Usage(format!("{} has more than {FILE_BYTES_MAX} bytes", path.display())));
    }
    std::fs::read(path).map_err(Failure::io("cannot read", path))
}

impl Audits {
    /// Reads and sends.
    pub(crate) async fn run(self, context: &Context) -> Result<Exit, Failure> {
        let mut set = AuditSet::default();
        for named in &self.files {
            let (source, file) = named
                .split_once('=')
                .ok_or_else(|| Failure::Usage(format!("{named:?} is not SOURCE=FILE")))?;
            set.extend(vet::read_audits(source, &read(Path::new(file))?));
        }
        let done: AuditsImported = context.client()?.put("/v1/imports/audits", &set).await?;
        context.screen.result(&done, || {
            format!("{} audits imported as hints, {} places not readable", done.audits, done.unread)
        })?;
        Ok(Exit::Ok)
    }
}

/// Prints what this site has decided.
pub(crate) async fn export(context: &Context) -> Result<Exit, Failure> {
    let page: Page<CrateView> = context.client()?.get("/v1/crates").await?;
    let decisions =
        Decisions { format: FORMAT, decisions: page.items.into_iter().filter_map(decision).collect() };
    let text = serde_json::to_string_pretty(&decisions).map_err(|error| Failure::Local(error.to_string()))?;
    context.screen.bytes(format!("{text}\n").as_bytes())?;
    Ok(Exit::Ok)
}

fn decision(view: CrateView) -> Option<Decision> {
    let ours = view.status == CrateStatus::Allowed && view.reviewed;
    let version = semver::Version::parse(&view.version).ok()?;
    let (checksum, decided_by) = (view.checksum?, view.decided_by?);
    ours.then_some(Decision {
        name: view.name,
        version,
        checksum,
        features: view.features,
        decided_by,
        reason: view.reason,
    })
}

impl Import {
    /// Asks for every crate that another site has allowed: that is a reason to look, not a decision.
    pub(crate) async fn run(self, context: &Context) -> Result<Exit, Failure> {
        let decisions: Decisions = serde_json::from_slice(&read(&self.file)?)
            .map_err(|error| Failure::Usage(format!("{}: {error}", self.file.display())))?;
        if decisions.format != FORMAT {
            return Err(Failure::Usage(format!("{} has format {}", self.file.display(), decisions.format)));
        }
        let client = context.client()?;
        let mut requests: Vec<RequestView> = Vec::new();
        for decision in decisions.decisions {
            let default_features = decision.features.iter().any(|feature| feature == "default");
            let features = decision.features.into_iter().filter(|feature| feature != "default").collect();
            let requirement = format!("={}", decision.version);
            let name = decision.name;
            let body = RequestCrate { name, requirement, features, default_features, overrides: false };
            requests.push(client.post("/v1/requests", &body).await?);
        }
        context.screen.result(&requests, || format!("{} crates are asked for", requests.len()))?;
        Ok(Exit::Ok)
    }
}

#[cfg(test)]
mod tests;
