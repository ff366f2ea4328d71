//! The seed of a site's next dependency cache: the present one, and what was approved since.
//!
//! Complete in itself, so that `deps::build` compiles it like any other. A crate of another major
//! version stands beside the one that is there under a name of its own in the manifest, which nobody
//! but cargo sees. Every build begins from nothing: a target directory of an earlier one would have been
//! written to by build scripts that ran there, and no digest says what they left.

use std::path::{Path, PathBuf};

use mfaas_ident::CrateName;
use mfaas_rules::profiles::std_items::Capability;
use mfaas_rules::{CrateRequest, exact};

use super::error::AcquireError;
use super::manifest;
use super::resolve::Workspace;
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
    let resolved = Lockfile::parse(lock).map_err(|reason| AcquireError::Other { reason })?;
    for request in approved {
        if !resolved.versions(&request.name).any(|version| exact(version) == request.requirement) {
            let reason = format!("{} {} is not in the resolution", request.name, request.requirement);
            return Err(AcquireError::Other { reason }.into());
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
    let text = with_grants(&text, grants).map_err(|reason| AcquireError::Other { reason })?;
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

#[cfg(test)]
mod tests;
