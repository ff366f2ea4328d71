//! The seed workspace: what the site offers, read once, so that what is hashed is what is built.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use mfaas_ident::{CrateName, Digest};

use super::grants::{GRANTS_FILE, Grants};
use super::lockfile::{Lockfile, PackageKey};
use crate::error::BuilderError;

/// Where a seed keeps crates of its own; each in a directory of the package's name.
const LOCAL_PART: &str = "local";

/// Every file of the seed, and what its two TOML files say.
pub(crate) struct Seed {
    pub(crate) files: BTreeMap<String, Vec<u8>>,
    pub(crate) lock: Lockfile,
    /// What the seed's own package names, in the versions of the lock.
    pub(crate) direct: BTreeSet<PackageKey>,
    pub(crate) grants: Grants,
}

impl Seed {
    pub(crate) fn read(root: &Path) -> Result<Self, BuilderError> {
        let problem = |problem: String| BuilderError::Deps { path: root.to_path_buf(), problem };
        let mut files = BTreeMap::new();
        read_tree(root, "", &mut files)?;
        let text = |name: &str| {
            let bytes = files.get(name).ok_or_else(|| problem(format!("the seed has no {name}")))?;
            String::from_utf8(bytes.clone()).map_err(|error| problem(format!("{name}: {error}")))
        };
        let lock =
            Lockfile::parse(&text("Cargo.lock")?).map_err(|error| problem(format!("Cargo.lock: {error}")))?;
        let direct =
            offered(&text("Cargo.toml")?, &lock).map_err(|error| problem(format!("Cargo.toml: {error}")))?;
        let grants = match files.contains_key(GRANTS_FILE) {
            true => Grants::parse(&text(GRANTS_FILE)?, |name| lock.names().any(|known| known == name))
                .map_err(|error| problem(format!("{GRANTS_FILE}: {error}")))?,
            false => Grants::default(),
        };
        Ok(Self { files, lock, direct, grants })
    }

    /// The registry's checksum; for a crate in the seed's own tree, the digest of its files.
    pub(crate) fn checksum(&self, key: &PackageKey) -> String {
        if let Some(checksum) = self.lock.checksum(key) {
            return checksum.to_owned();
        }
        let prefix = format!("{LOCAL_PART}/{}/", key.0);
        let list: String = self
            .files
            .range(prefix.clone()..)
            .take_while(|(path, _)| path.starts_with(&prefix))
            .map(|(path, bytes)| format!("{}  {path}\n", Digest::of(bytes)))
            .collect();
        Digest::of(list.as_bytes()).to_string()
    }
}

/// Every file below `root` by its relative path; build output left out.
fn read_tree(root: &Path, relative: &str, files: &mut BTreeMap<String, Vec<u8>>) -> Result<(), BuilderError> {
    let directory = root.join(relative);
    for entry in std::fs::read_dir(&directory).map_err(BuilderError::io(&directory))? {
        let entry = entry.map_err(BuilderError::io(&directory))?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = if relative.is_empty() { name } else { format!("{relative}/{name}") };
        let kind = entry.file_type().map_err(BuilderError::io(entry.path()))?;
        if kind.is_dir() && path != "target" {
            read_tree(root, &path, files)?;
        } else if kind.is_file() {
            files.insert(path, std::fs::read(entry.path()).map_err(BuilderError::io(entry.path()))?);
        }
    }
    Ok(())
}

/// What stands under `[dependencies]`, in the versions that the lock gives the seed's own package:
/// these may be named by tenants. A version that only comes along with another crate is not among them.
fn offered(manifest: &str, lock: &Lockfile) -> Result<BTreeSet<PackageKey>, String> {
    #[derive(serde::Deserialize)]
    struct Manifest {
        package: Package,
        #[serde(default)]
        dependencies: BTreeMap<String, toml::Value>,
    }
    #[derive(serde::Deserialize)]
    struct Package {
        name: CrateName,
        version: semver::Version,
    }
    let manifest: Manifest = toml::from_str(manifest).map_err(|error| error.to_string())?;
    let named: BTreeSet<&str> = manifest
        .dependencies
        .iter()
        .map(|(name, value)| value.get("package").and_then(toml::Value::as_str).unwrap_or(name))
        .collect();
    let own = (manifest.package.name, manifest.package.version);
    if !lock.contains(&own) {
        return Err(format!("its package {} is not in Cargo.lock", own.0));
    }
    let found: BTreeSet<PackageKey> =
        lock.needs(&own).into_iter().filter(|(name, _)| named.contains(name.as_str())).collect();
    match named.iter().find(|name| !found.iter().any(|(found, _)| found.as_str() == **name)) {
        None => Ok(found),
        Some(name) => Err(format!("{name} is not in Cargo.lock")),
    }
}
