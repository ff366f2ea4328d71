//! The seed of a site's next dependency cache: the present one, and what was approved since.
//!
//! Complete in itself, so that `deps::build` compiles it like any other. A crate of another major
//! version stands beside the one that is there under a name of its own in the manifest, which nobody
//! but cargo sees. Every build begins from nothing: a target directory of an earlier one would have been
//! written to by build scripts that ran there, and no digest says what they left.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use mfaas_ident::CrateName;
use mfaas_rules::profiles::std_items::Capability;

use super::error::AcquireError;
use super::manifest::{self, CrateRequest};
use super::report::in_work;
use super::resolve::{Resolution, Workspace, resolve};
use crate::deps::{GRANTS_FILE, Lockfile, Seed};
use crate::error::BuilderError;

/// What a crate is granted of std beyond what a function has.
#[derive(Debug, Clone)]
pub(crate) struct Grant {
    /// The crate.
    pub(crate) name: CrateName,
    /// What.
    pub(crate) capabilities: Vec<Capability>,
    /// Why, in the words of whoever granted it.
    pub(crate) reason: String,
}

/// Writes the seed at `seed`, with `approved` beside what it offers, to `into`, which must not exist.
/// `approved` names exact versions; `lock` is the resolution of both.
pub(crate) fn extend_seed(
    seed: &Path,
    approved: &[CrateRequest],
    lock: &str,
    grants: &[Grant],
    into: &Path,
) -> Result<PathBuf, BuilderError> {
    let base = Workspace::of_seed(seed)?;
    let resolved = Lockfile::parse(lock).map_err(|said| AcquireError::Other { said })?;
    for request in approved {
        if !resolved.versions(&request.name).any(|version| manifest::exact(version) == request.requirement) {
            let said = format!("{} {} is not in the resolution", request.name, request.requirement);
            return Err(AcquireError::Other { said }.into());
        }
    }
    let manifest = manifest::with(base.manifest(), base.lock(), approved)?;
    write_seed(&base, &manifest, lock, into)?;
    grant(into, grants)?;
    // Read as the build reads it: a seed that cannot be built is not handed over.
    Seed::read(into)?;
    Ok(into.to_path_buf())
}

/// Writes a workspace with this manifest and this lock.
pub(super) fn write_seed(
    base: &Workspace,
    manifest: &str,
    lock: &str,
    into: &Path,
) -> Result<(), BuilderError> {
    std::fs::create_dir_all(into).map_err(BuilderError::io(into))?;
    base.write(into, manifest)?;
    let path = into.join("Cargo.lock");
    std::fs::write(&path, lock).map_err(BuilderError::io(&path))
}

/// Adds rows to what is granted. What is granted now takes the place of what the seed grants the same crate.
pub(super) fn grant(seed: &Path, grants: &[Grant]) -> Result<(), BuilderError> {
    if grants.is_empty() {
        return Ok(());
    }
    let path = seed.join(GRANTS_FILE);
    let text = match std::fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
        Err(error) => return Err(BuilderError::io(&path)(error)),
    };
    let text = with_grants(&text, grants).map_err(|said| AcquireError::Other { said })?;
    std::fs::write(&path, text).map_err(BuilderError::io(&path))
}

/// The file with these rows in it.
fn with_grants(text: &str, grants: &[Grant]) -> Result<String, String> {
    let mut table: toml::Table = text.parse().map_err(|error: toml::de::Error| error.message().to_owned())?;
    let rows = table.entry("grant").or_insert_with(|| toml::Value::Array(Vec::new()));
    let rows = rows.as_array_mut().ok_or("`grant` is no list of tables")?;
    let is_granted_anew = |row: &toml::Value| {
        let name = row.get("crate").and_then(toml::Value::as_str);
        grants.iter().any(|grant| Some(grant.name.as_str()) == name)
    };
    rows.retain(|row| !is_granted_anew(row));
    for grant in grants {
        let names = toml::Value::try_from(&grant.capabilities).map_err(|error| error.to_string())?;
        rows.push(toml::Value::Table(toml::Table::from_iter([
            ("crate".to_owned(), toml::Value::from(grant.name.as_str())),
            ("capabilities".to_owned(), names),
            ("reason".to_owned(), grant.reason.as_str().into()),
        ])));
    }
    toml::to_string(&table).map_err(|error| error.to_string())
}

/// What `deps extend` is given.
#[derive(Debug, clap::Args)]
pub(crate) struct ExtendArguments {
    /// The seed workspace.
    #[arg(long, value_name = "DIR")]
    seed: PathBuf,
    /// A crate, as NAME@VERSION or NAME@REQUIREMENT; repeatable. Each is resolved beside those before.
    #[arg(long = "add", value_name = "NAME@VERSION", required = true)]
    add: Vec<String>,
    /// Features of all of them, separated by commas.
    #[arg(long, value_delimiter = ',', value_name = "NAMES")]
    features: Vec<String>,
    /// Without their default features.
    #[arg(long)]
    no_default_features: bool,
    /// Where the new seed goes, which must not exist.
    #[arg(long, value_name = "DIR")]
    into: PathBuf,
    /// Where downloads and the sources for `deps build` are kept; these lie in `sources` below it.
    #[arg(long, value_name = "DIR")]
    work: PathBuf,
}

/// Prints the way to each crate that the site did not have, and writes seed and sources.
#[allow(clippy::print_stdout, reason = "the answer of a command")]
pub(crate) fn extend(arguments: &ExtendArguments) -> Result<ExitCode, BuilderError> {
    let base = Workspace::of_seed(&arguments.seed)?;
    in_work(Some(&arguments.work), |acquirer| {
        let mut approved: Vec<CrateRequest> = Vec::new();
        let mut lock = None;
        for text in &arguments.add {
            let request =
                CrateRequest::parse(text, arguments.features.clone(), !arguments.no_default_features)?;
            let found = resolve(&acquirer.cargo, &base, &approved, &request)?;
            print!("{}", draw(&found));
            approved.push(request.exactly(&found.chosen.1));
            lock = Some(found.lock);
        }
        let lock = lock.unwrap_or_default();
        let seed = extend_seed(&arguments.seed, &approved, &lock, &[], &arguments.into)?;
        let next = Workspace::of_seed(&seed)?;
        acquirer.fetch(&next, next.manifest(), &lock)
    })?;
    Ok(ExitCode::SUCCESS)
}

/// A line for each crate that somebody has to decide about.
fn draw(found: &Resolution) -> String {
    let mut out = String::new();
    for member in found.members.iter().filter(|member| member.is_undecided()) {
        let path = found.paths.get(&member.key()).into_iter().flatten();
        let path: Vec<String> = path.map(|(name, version)| format!("{name} {version}")).collect();
        let features = match member.more_features.is_empty() {
            true => String::new(),
            false => format!(" (with {})", member.more_features.join(", ")),
        };
        out.push_str(&format!("{}{features}\n", path.join(" -> ")));
    }
    out
}

#[cfg(test)]
#[path = "extend_tests.rs"]
mod tests;
