//! A dependency cache as one blob: what the acquirer stores, and builders on other hosts fetch.
//!
//! The archive of a cache is the same whenever it is packed. It is read by `unpack`'s rules, and a cache gets its name when
//! it is whole and every digest of it was compared: whoever is killed in the middle leaves a directory that nobody opens.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use flate2::{Compression, GzBuilder};
use mfaas_ident::{Digest, ToolchainId};
use mfaas_rules::limits::CACHE_ARCHIVE;
use mfaas_unpack::CrateArchive;

use super::cache::{ALLOWLIST_FILE, Deps, INDEX_FILE, LIBRARY_PART, RECIPE_FILE};
use crate::error::BuilderError;

/// How the directory of something that is being unpacked or removed begins.
const STAGING_PREFIX: &str = ".unpack-";
/// Whoever unpacks or removes a cache of a directory holds this.
const LOCK_FILE: &str = ".lock";

/// The cache at `root` as an archive.
pub(crate) fn pack(root: &Path, key: &Digest) -> Result<Vec<u8>, BuilderError> {
    let gzip = GzBuilder::new().mtime(0).write(Vec::new(), Compression::default());
    let mut tar = tar::Builder::new(gzip);
    for (path, file) in files(root)? {
        let content = fs::read(&file).map_err(BuilderError::io(&file))?;
        let mut header = tar::Header::new_ustar();
        header.set_entry_type(tar::EntryType::Regular);
        header.set_mode(0o644);
        header.set_size(content.len() as u64);
        header.set_mtime(0);
        header.set_path(format!("{key}/{path}")).map_err(BuilderError::io(&file))?;
        header.set_cksum();
        tar.append(&header, content.as_slice()).map_err(BuilderError::io(&file))?;
    }
    let bytes =
        tar.into_inner().and_then(flate2::write::GzEncoder::finish).map_err(BuilderError::io(root))?;
    if bytes.len() as u64 > CACHE_ARCHIVE.archive_bytes_max {
        let (size, max) = (bytes.len(), CACHE_ARCHIVE.archive_bytes_max);
        let problem = format!("its archive has {size} bytes, {max} are stored");
        return Err(BuilderError::Deps { path: root.to_path_buf(), problem });
    }
    Ok(bytes)
}

/// What a cache is made of, by path below it, in the order of the paths.
fn files(root: &Path) -> Result<BTreeMap<String, PathBuf>, BuilderError> {
    let mut files: BTreeMap<String, PathBuf> = [ALLOWLIST_FILE, INDEX_FILE, RECIPE_FILE]
        .into_iter()
        .map(|name| (name.to_owned(), root.join(name)))
        .collect();
    let library = root.join(LIBRARY_PART);
    for entry in fs::read_dir(&library).map_err(BuilderError::io(&library))? {
        let path = entry.map_err(BuilderError::io(&library))?.path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        files.insert(format!("{LIBRARY_PART}/{name}"), path);
    }
    Ok(files)
}

/// Unpacks an archive to `into/<key>`, and opens it. One that is there already and can be opened is left alone, one that
/// cannot is replaced.
pub(crate) fn unpack(
    bytes: &[u8],
    key: &Digest,
    toolchain: ToolchainId,
    into: &Path,
) -> Result<Deps, BuilderError> {
    let _lock = lock(into)?;
    let target = into.join(key.to_string());
    if let Ok(deps) = Deps::open_held(&target, toolchain) {
        return Ok(deps);
    }
    let problem = |problem: String| BuilderError::Deps { path: target.clone(), problem };
    let archive = CrateArchive::read_within(bytes, &key.to_string(), &CACHE_ARCHIVE)
        .map_err(|error| problem(format!("its archive: {error}")))?;
    if let Some(left_out) = archive.left_out().first() {
        return Err(problem(format!("its archive holds what no cache does: {left_out}")));
    }
    let staging = staging(into)?;
    let whole = staging.path().join(key.to_string());
    fs::create_dir(&whole).map_err(BuilderError::io(&whole))?;
    archive.write_into(&whole).map_err(BuilderError::Unpack)?;
    Deps::open(&whole, toolchain)?;
    match fs::rename(&target, staging.path().join("replaced")) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(BuilderError::io(&target)(error)),
        _ => {}
    }
    fs::rename(&whole, &target).map_err(BuilderError::io(&target))?;
    Deps::open_held(&target, toolchain)
}

/// The caches that lie in a directory.
pub(crate) fn lying_in(directory: &Path) -> Result<Vec<Digest>, BuilderError> {
    let entries = fs::read_dir(directory).map_err(BuilderError::io(directory))?;
    let names = entries.map(|entry| Ok(entry.map_err(BuilderError::io(directory))?.file_name()));
    let names = names.collect::<Result<Vec<_>, BuilderError>>()?;
    Ok(names.iter().filter_map(|name| Digest::parse(name.to_str()?).ok()).collect())
}

/// Removes those of these caches that lie in `from` and that nobody has open.
pub(crate) fn remove_unused(from: &Path, keys: &[Digest]) -> Result<(), BuilderError> {
    let _lock = lock(from)?;
    for key in keys {
        let path = from.join(key.to_string());
        let Ok(index) = File::open(path.join(INDEX_FILE)) else { continue };
        if index.try_lock().is_err() {
            continue;
        }
        let staging = staging(from)?;
        fs::rename(&path, staging.path().join("removed")).map_err(BuilderError::io(&path))?;
        staging.close().map_err(BuilderError::io(&path))?;
        tracing::info!(%key, "removed a dependency cache that a newer one has taken the place of");
    }
    Ok(())
}

/// Keeps others from unpacking and removing here, and removes what was left by one that was killed.
fn lock(directory: &Path) -> Result<File, BuilderError> {
    fs::create_dir_all(directory).map_err(BuilderError::io(directory))?;
    let path = directory.join(LOCK_FILE);
    let lock = File::create(&path).map_err(BuilderError::io(&path))?;
    lock.lock().map_err(BuilderError::io(&path))?;
    for entry in fs::read_dir(directory).map_err(BuilderError::io(directory))? {
        let path = entry.map_err(BuilderError::io(directory))?.path();
        let name = path.file_name().and_then(|name| name.to_str());
        if name.is_some_and(|name| name.starts_with(STAGING_PREFIX)) {
            fs::remove_dir_all(&path).map_err(BuilderError::io(&path))?;
        }
    }
    Ok(lock)
}

fn staging(directory: &Path) -> Result<tempfile::TempDir, BuilderError> {
    let made = tempfile::Builder::new().prefix(STAGING_PREFIX).tempdir_in(directory);
    made.map_err(BuilderError::io(directory))
}

#[cfg(test)]
mod tests;
