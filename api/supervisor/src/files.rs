//! Files that are replaced in one step, and files in directories that a program of ours can write, handled by root.
//!
//! A program that was taken over can put a symbolic link, a FIFO or a device where root expects
//! its file, and change it between two calls. So what reads, gives and publishes opens once without
//! following links and works on the descriptor.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;

use rustix::fs::{Gid, Mode, OFlags, Uid};

use crate::error::SupervisorError;

/// Replaces `path` in one step, so that a reader sees the old or the new text and nothing else.
pub fn write_atomically(path: &Path, bytes: &[u8], mode: u32) -> Result<(), SupervisorError> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".new-{}", std::process::id()));
    let temporary = path.with_file_name(name);
    // Left over from a crash of a process with our pid; create_new would refuse it.
    let _ = std::fs::remove_file(&temporary);
    std::fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(mode)
        .open(&temporary)
        .and_then(|mut file| {
            rustix::fs::fchmod(&file, rustix::fs::Mode::from_raw_mode(mode))?;
            file.write_all(bytes)
        })
        .map_err(SupervisorError::io("cannot write", &temporary))
        .and_then(|()| std::fs::rename(&temporary, path).map_err(SupervisorError::io("cannot replace", path)))
        // A half of it would keep the room on a full disk.
        .inspect_err(|_| drop(std::fs::remove_file(&temporary)))
}

/// Opens a file or directory that is really there; a link is an error, a FIFO does not block.
fn open(path: &Path) -> Result<File, SupervisorError> {
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    File::options()
        .read(true)
        .custom_flags(flags.bits().cast_signed())
        .open(path)
        .map_err(SupervisorError::io("cannot open", path))
}

/// Reads a plain file of at most `bytes_max` bytes.
pub(crate) fn read(path: &Path, bytes_max: u64) -> Result<Vec<u8>, SupervisorError> {
    let file = open(path)?;
    let meta = file.metadata().map_err(SupervisorError::io("cannot read", path))?;
    if !meta.is_file() || meta.len() > bytes_max {
        return Err(SupervisorError::Local(format!(
            "{} is not a plain file of at most {bytes_max} bytes",
            path.display()
        )));
    }
    let mut bytes = Vec::new();
    file.take(bytes_max).read_to_end(&mut bytes).map_err(SupervisorError::io("cannot read", path))?;
    Ok(bytes)
}

/// Gives a plain file to `owner` (where there is one to give it to) with exactly this mode.
pub(crate) fn give(path: &Path, owner: Option<(Uid, Gid)>, mode: u32) -> Result<(), SupervisorError> {
    let file = open(path)?;
    let meta = file.metadata().map_err(SupervisorError::io("cannot read", path))?;
    if !meta.is_file() {
        return Err(SupervisorError::Local(format!("{} is not a plain file", path.display())));
    }
    own(&file, path, owner, mode)
}

/// Gives `path` and everything below it to `owner` with modes that others may read but not
/// write: how toolchains, vendored sources and dependencies are published. Links stay as they
/// are; anything else than files and directories is refused.
pub(crate) fn publish_tree(path: &Path, owner: Option<(Uid, Gid)>) -> Result<(), SupervisorError> {
    if std::fs::symlink_metadata(path).map_err(SupervisorError::io("cannot read", path))?.is_symlink() {
        return Ok(());
    }
    let file = open(path)?;
    let meta = file.metadata().map_err(SupervisorError::io("cannot read", path))?;
    if !meta.is_file() && !meta.is_dir() {
        return Err(SupervisorError::Local(format!("{} is neither a file nor a directory", path.display())));
    }
    let mode = if meta.is_dir() || meta.mode() & 0o111 != 0 { 0o755 } else { 0o644 };
    own(&file, path, owner, mode)?;
    if meta.is_dir() {
        // From here on nobody but the owner can change what lies in it, so the names stay true.
        for entry in std::fs::read_dir(path).map_err(SupervisorError::io("cannot read", path))? {
            publish_tree(&entry.map_err(SupervisorError::io("cannot read", path))?.path(), owner)?;
        }
    }
    Ok(())
}

fn own(file: &File, path: &Path, owner: Option<(Uid, Gid)>, mode: u32) -> Result<(), SupervisorError> {
    if let Some((uid, gid)) = owner {
        rustix::fs::fchown(file, Some(uid), Some(gid))
            .map_err(|e| SupervisorError::io("cannot chown", path)(e.into()))?;
    }
    rustix::fs::fchmod(file, Mode::from_raw_mode(mode))
        .map_err(|e| SupervisorError::io("cannot chmod", path)(e.into()))
}

#[cfg(test)]
mod tests;
