//! How much a command has written into its writable mounts.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Files and directories that are counted; a command that makes more has written too much.
const ENTRIES_MAX: usize = 20_000;

/// What lies in a directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Written {
    /// All files together, in bytes on disk.
    pub(crate) total_bytes: u64,
    /// The longest file.
    pub(crate) longest_bytes: u64,
}

/// Counts without following links. Names that vanish or cannot be read meanwhile do not count;
/// too many of them count as everything.
pub(crate) fn written(roots: &[PathBuf]) -> Written {
    let mut sum = Written::default();
    let mut entries = 0;
    let mut open: Vec<PathBuf> = roots.to_vec();
    while let Some(path) = open.pop() {
        entries += 1;
        if entries > ENTRIES_MAX {
            return Written { total_bytes: u64::MAX, longest_bytes: sum.longest_bytes };
        }
        let Ok(metadata) = std::fs::symlink_metadata(&path) else { continue };
        if metadata.is_dir() {
            open.extend(children(&path));
        } else {
            sum.total_bytes = sum.total_bytes.saturating_add(metadata.blocks().saturating_mul(512));
            sum.longest_bytes = sum.longest_bytes.max(metadata.len());
        }
    }
    sum
}

fn children(directory: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(directory) else { return Vec::new() };
    entries.take(ENTRIES_MAX + 1).filter_map(|entry| entry.ok().map(|entry| entry.path())).collect()
}
