//! Room on a disk, and whether it takes bytes.
//!
//! It looks; what a disk without room means, others decide.

use std::io::Write as _;
use std::path::Path;

use crate::error::BuilderError;

/// What is written to find out whether a directory takes bytes: free space tells nothing of quotas, nor of a disk that
/// fails.
const PROBE_BYTES: usize = 64 << 10;

/// Whether a command that may write so many bytes to a file in `directory` meets its own limit before the disk's.
pub(crate) fn has_quota(directory: &Path, file_bytes_max: u64) -> Result<(), BuilderError> {
    has_room(directory, file_bytes_max, 1)?;
    takes_bytes(directory)
}

/// Whether the file system below `directory` has so much room.
pub(crate) fn has_room(directory: &Path, bytes_min: u64, files_min: u64) -> Result<(), BuilderError> {
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
pub(crate) fn takes_bytes(directory: &Path) -> Result<(), BuilderError> {
    let written = tempfile::tempfile_in(directory).and_then(|mut probe| {
        probe.write_all(&[0; PROBE_BYTES])?;
        probe.sync_data()
    });
    written.map_err(BuilderError::io(directory))
}

#[cfg(test)]
mod tests;
