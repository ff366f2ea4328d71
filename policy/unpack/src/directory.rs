//! A source tree from and to a directory.
//!
//! Reading never follows a symbolic link and never opens a special file; writing never
//! overwrites.

use std::fs::{self, DirBuilder, OpenOptions, Permissions};
use std::io::{ErrorKind, Read as _, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use mfaas_rules::limits::ARCHIVE;
use rustix::fs::OFlags;

use crate::UnpackError;
use crate::error::shown;
use crate::path::{self, Files, Kind, Register};

/// A header, and what contents are rounded up to, in bytes.
const BLOCK: u64 = 512;

/// What lies in every project directory and is no source.
const LEFT_OUT_AT_ROOT: &[&str] = &["target", ".git"];

/// Reads every regular file below `root`.
pub(crate) fn read(root: &Path) -> Result<Files, UnpackError> {
    let mut walk = Walk { register: Register::default(), files: Files::new(), bytes: 2 * BLOCK };
    // Directories still to be read; bounded by the number of entries.
    let mut pending: Vec<(PathBuf, String)> = vec![(root.to_owned(), String::new())];
    while let Some((directory, prefix)) = pending.pop() {
        for entry in fs::read_dir(&directory).map_err(|e| UnpackError::disk(&directory, e))? {
            let entry = entry.map_err(|e| UnpackError::disk(&directory, e))?;
            let name = entry.file_name();
            if prefix.is_empty() && LEFT_OUT_AT_ROOT.iter().any(|skip| name == *skip) {
                continue;
            }
            let path = [prefix.as_bytes(), name.as_bytes()].concat();
            let kind = entry.file_type().map_err(|e| UnpackError::disk(&entry.path(), e))?;
            if let Some(directory) = walk.entry(&entry.path(), &path, kind)? {
                pending.push((entry.path(), format!("{directory}/")));
            }
        }
    }
    Ok(walk.files)
}

struct Walk {
    register: Register,
    files: Files,
    /// What the tree will have as tar, so that a directory and its archive meet the same limit.
    bytes: u64,
}

impl Walk {
    /// Takes one entry; answers the path of a directory that is to be read next.
    fn entry(&mut self, disk: &Path, raw: &[u8], kind: fs::FileType) -> Result<Option<String>, UnpackError> {
        let kind = match () {
            () if kind.is_dir() => Kind::Directory,
            () if kind.is_file() => Kind::File,
            () if kind.is_symlink() => {
                return Err(UnpackError::EntryType { path: shown(raw), what: "a symbolic link" });
            }
            () => return Err(UnpackError::EntryType { path: shown(raw), what: "a special file" }),
        };
        let Some(path) = path::parse(raw, kind)? else { return Ok(None) };
        self.register.enter(&path, kind)?;
        if kind == Kind::Directory {
            return Ok(Some(path));
        }
        let content = self.content(disk, &path)?;
        self.files.insert(path, content);
        Ok(None)
    }

    fn content(&mut self, disk: &Path, path: &str) -> Result<Vec<u8>, UnpackError> {
        let left = ARCHIVE.unpacked_bytes_max.saturating_sub(self.bytes + BLOCK);
        let mut content = Vec::new();
        // Between the listing and this moment someone may have put a link or a pipe here.
        let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
        let file = OpenOptions::new()
            .read(true)
            .custom_flags(flags.bits().cast_signed())
            .open(disk)
            .map_err(|e| UnpackError::disk(disk, e))?;
        file.take(left + 1).read_to_end(&mut content).map_err(|e| UnpackError::disk(disk, e))?;
        let blocks = (content.len() as u64).next_multiple_of(BLOCK);
        if blocks > left {
            return Err(UnpackError::UnpackedTooLarge {
                limit: ARCHIVE.unpacked_bytes_max,
                path: path.to_owned(),
            });
        }
        self.bytes += BLOCK + blocks;
        Ok(content)
    }
}

/// Writes `files` below `root`, which must exist and be empty.
pub(crate) fn write<'a>(
    root: &Path,
    files: impl Iterator<Item = (&'a str, &'a [u8])>,
) -> Result<(), UnpackError> {
    let mut present = fs::read_dir(root).map_err(|e| UnpackError::disk(root, e))?;
    if present.next().is_some() {
        return Err(UnpackError::disk(root, ErrorKind::DirectoryNotEmpty.into()));
    }
    let mut made = std::collections::HashSet::new();
    for (path, content) in files {
        for (slash, _) in path.match_indices('/') {
            let parent = &path[..slash];
            if made.insert(parent) {
                make_directory(&root.join(parent))?;
            }
        }
        let target = root.join(path);
        write_file(&target, content).map_err(|e| UnpackError::disk(&target, e))?;
    }
    Ok(())
}

fn make_directory(path: &Path) -> Result<(), UnpackError> {
    let made = DirBuilder::new().mode(0o755).create(path);
    // The mode again, since the umask took from it.
    made.and_then(|()| fs::set_permissions(path, Permissions::from_mode(0o755)))
        .map_err(|e| UnpackError::disk(path, e))
}

fn write_file(path: &Path, content: &[u8]) -> std::io::Result<()> {
    // O_EXCL: fails on anything that is there, a dangling link included.
    let mut file = OpenOptions::new().write(true).create_new(true).open(path)?;
    file.write_all(content)?;
    file.set_permissions(Permissions::from_mode(0o644))
}
