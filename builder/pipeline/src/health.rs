//! Whether this machine can build: room for scratch files, a blob store that takes bytes, and what every build runs.
//!
//! It looks and tells. Whether a build is started, and what a failed one means, others decide.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use mfaas_blobs::Blobs;
use mfaas_rules::limits::{COMPILE, SCRATCH_FREE_BYTES_MIN, SCRATCH_FREE_FILES_MIN};

use crate::error::BuilderError;
use crate::stages::Workshop;

/// What is written to find out whether a directory takes bytes: free space tells nothing of quotas, nor of a disk that
/// fails.
const PROBE_BYTES: usize = 64 << 10;
/// How long the blob store may take to say that it takes bytes.
const STORE_ANSWER_MAX: Duration = Duration::from_secs(10);

/// Looks for a reason why no build can succeed here.
pub(crate) async fn check(workshop: &Workshop, blobs: &Blobs) -> Result<(), BuilderError> {
    let local = workshop.clone();
    // A disk that does not answer must not hold up the renewal of leases.
    let looked = tokio::task::spawn_blocking(move || {
        has_room_for_builds(&local, 1)?;
        takes_bytes(&local.work)?;
        is_there(&local)
    });
    looked.await.map_err(|_| BuilderError::Panicked)??;
    match tokio::time::timeout(STORE_ANSWER_MAX, blobs.writable()).await {
        Ok(answer) => Ok(answer?),
        Err(_) => Err(blobs.silent(STORE_ANSWER_MAX).into()),
    }
}

/// Whether so many builds find the room that they may use.
pub(crate) fn has_room_for_builds(workshop: &Workshop, builds: usize) -> Result<(), BuilderError> {
    let builds = builds as u64;
    has_room(&workshop.work, SCRATCH_FREE_BYTES_MIN * builds, SCRATCH_FREE_FILES_MIN * builds)
}

/// Whether compiler, libraries and worker are where they were at the start.
fn is_there(workshop: &Workshop) -> Result<(), BuilderError> {
    let gone = |path: PathBuf| (!path.exists()).then_some((path, "it is gone".to_owned()));
    if let Some((path, problem)) = gone(workshop.toolchain.compiler_file()) {
        return Err(BuilderError::Toolchain { path, problem });
    }
    if let Some((path, problem)) = gone(workshop.deps.library_root()) {
        return Err(BuilderError::Deps { path, problem });
    }
    gone(workshop.worker.clone()).map_or(Ok(()), |(worker, _)| Err(BuilderError::WorkerMissing(worker)))
}

/// Whether a command that writes to `directory` meets its own limit before the disk's.
pub(crate) fn has_quota(directory: &Path) -> Result<(), BuilderError> {
    has_room(directory, COMPILE.file_bytes_max, 1)?;
    takes_bytes(directory)
}

/// Whether the file system below `directory` has so much room.
fn has_room(directory: &Path, bytes_min: u64, files_min: u64) -> Result<(), BuilderError> {
    let failed = |errno: rustix::io::Errno| BuilderError::io(directory)(errno.into());
    let disk = rustix::fs::statvfs(directory).map_err(failed)?;
    let free = disk.f_bavail.saturating_mul(disk.f_frsize);
    let short = |what: &str, free: u64, min: u64| {
        let problem = format!("{free} {what} are free, {min} are needed");
        Err(BuilderError::Scratch { path: directory.to_path_buf(), problem })
    };
    if free < bytes_min {
        return short("bytes", free, bytes_min);
    }
    // Some file systems have no number of files, and say 0 of 0.
    if disk.f_files > 0 && disk.f_favail < files_min {
        return short("files", disk.f_favail, files_min);
    }
    Ok(())
}

/// Whether bytes that are written there arrive.
fn takes_bytes(directory: &Path) -> Result<(), BuilderError> {
    let written = tempfile::tempfile_in(directory).and_then(|mut probe| {
        probe.write_all(&[0; PROBE_BYTES])?;
        probe.sync_data()
    });
    written.map_err(BuilderError::io(directory))
}

#[cfg(test)]
mod tests;
