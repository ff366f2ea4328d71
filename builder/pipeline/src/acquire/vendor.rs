//! Sources for the sandbox: each archive unpacked by our own reader into a directory of its own, as a
//! directory source of cargo.
//!
//! Every package of the lock is there, because cargo wants to know all of them, those of other
//! platforms included, which it does not compile. No cargo unpacks anything here.

use std::path::Path;

use mfaas_ident::Digest;
use mfaas_unpack::CrateArchive;

use super::cargo::Cargo;
use super::download::{self, Download};
use super::error::AcquireError;
use super::resolve::Workspace;
use crate::deps::Lockfile;
use crate::error::BuilderError;

/// Names the checksum of the archive; cargo compares it with the lock.
const CHECKSUM_FILE: &str = ".cargo-checksum.json";

/// Downloads what the lock names, and writes it below `into`.
pub(crate) fn vendor(
    cargo: &Cargo,
    base: &Workspace,
    manifest: &str,
    lock: &str,
    into: &Path,
) -> Result<(), BuilderError> {
    base.fetch(cargo, manifest, lock)?;
    std::fs::create_dir_all(into).map_err(BuilderError::io(into))?;
    let lock = Lockfile::parse(lock).map_err(|reason| AcquireError::Other { reason })?;
    for key in lock.keys() {
        if let Some(checksum) = lock.checksum(key) {
            write(&download::take(cargo, key, Some(checksum))?, into)?;
        }
    }
    Ok(())
}

/// Unpacks one archive to `into/name-version`, unless it is there. What is there was unpacked here, and
/// has the checksum that it was unpacked with beside it.
fn write(download: &Download, into: &Path) -> Result<(), BuilderError> {
    let root = into.join(download.top());
    let expected = checksum_file(&download.checksum);
    let is_there = || std::fs::read_to_string(root.join(CHECKSUM_FILE)).is_ok_and(|found| found == expected);
    if is_there() {
        return Ok(());
    }
    let archive = CrateArchive::read(&download.bytes, &download.top()).map_err(|error| {
        let (name, version) = (download.name.clone(), download.version.clone());
        AcquireError::Archive { name, version, reason: error.to_string() }
    })?;
    let staging =
        tempfile::Builder::new().prefix(".unpack-").tempdir_in(into).map_err(BuilderError::io(into))?;
    archive.write_into(staging.path()).map_err(BuilderError::Unpack)?;
    let path = staging.path().join(CHECKSUM_FILE);
    std::fs::write(&path, &expected).map_err(BuilderError::io(&path))?;
    let staging = staging.keep();
    readable(&staging)?;
    match std::fs::rename(&staging, &root) {
        // Somebody else was faster with the same archive.
        Err(_) if is_there() => std::fs::remove_dir_all(&staging).map_err(BuilderError::io(&staging)),
        renamed => renamed.map_err(BuilderError::io(&root)),
    }
}

/// No digests of single files: the archive's own was compared a moment ago, and nobody else writes
/// here.
fn checksum_file(checksum: &Digest) -> String {
    format!("{{\"files\":{{}},\"package\":\"{checksum}\"}}\n")
}

fn readable(directory: &Path) -> Result<(), BuilderError> {
    use std::os::unix::fs::PermissionsExt as _;
    let mode = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(directory, mode).map_err(BuilderError::io(directory))
}
