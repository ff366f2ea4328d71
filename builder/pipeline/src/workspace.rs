//! This instance's directory for scratch files, and the removal of what dead instances left.
//!
//! A directory belongs to a live instance as long as its lock is held; the kernel lets go of the
//! lock when the process ends, however it ends.

use std::fs::File;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use crate::error::BuilderError;

const INSTANCE_PREFIX: &str = "instance-";
const LOCK_FILE: &str = ".lock";

/// A directory of this process; removed when dropped.
#[derive(Debug)]
pub(crate) struct InstanceDirectory {
    path: PathBuf,
    /// Held until the end.
    _lock: File,
}

impl InstanceDirectory {
    /// Makes `work/instance-<name>` after removing those of dead instances.
    pub(crate) fn make(work: &Path, name: &str) -> Result<Self, BuilderError> {
        std::fs::create_dir_all(work).map_err(BuilderError::io(work))?;
        // Between a lock file's making and its locking another instance would take us for dead.
        let making = File::open(work)
            .and_then(|directory| directory.lock().map(|()| directory))
            .map_err(BuilderError::io(work))?;
        sweep(work)?;
        let path = work.join(format!("{INSTANCE_PREFIX}{name}"));
        std::fs::create_dir(&path).map_err(BuilderError::io(&path))?;
        let lock_path = path.join(LOCK_FILE);
        let lock = File::create_new(&lock_path).map_err(BuilderError::io(&lock_path))?;
        lock.lock().map_err(BuilderError::io(&lock_path))?;
        drop(making);
        Ok(Self { path, _lock: lock })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for InstanceDirectory {
    fn drop(&mut self) {
        // What cannot be removed now is removed by the next instance.
        let _ = std::fs::remove_dir_all(&self.path);
    }
}

/// Removes directories whose lock nobody holds. One that a release before is just making has no lock file yet and is
/// left alone.
fn sweep(work: &Path) -> Result<(), BuilderError> {
    for entry in std::fs::read_dir(work).map_err(BuilderError::io(work))? {
        let path = entry.map_err(BuilderError::io(work))?.path();
        let is_instance = path
            .file_name()
            .and_then(|name| name.to_str())
            .is_some_and(|name| name.starts_with(INSTANCE_PREFIX));
        if !is_instance {
            continue;
        }
        let Ok(lock) = File::open(path.join(LOCK_FILE)) else { continue };
        if lock.try_lock().is_err() {
            continue;
        }
        match std::fs::remove_dir_all(&path) {
            // Its instance removed it and ended after we opened the lock.
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            removed => removed.map_err(BuilderError::io(&path))?,
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
