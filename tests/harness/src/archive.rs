//! Uploads as bytes: those of a directory, and those that no directory can hold.

use std::{io::Write as _, path::Path};

use flate2::{Compression, write::GzEncoder};
use tar::{Builder, EntryType, Header};

/// An archive under construction.
pub struct Archive(Builder<Vec<u8>>);

impl Default for Archive {
    fn default() -> Self {
        Self(Builder::new(Vec::new()))
    }
}

impl std::fmt::Debug for Archive {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Archive")
    }
}

impl Archive {
    /// An archive with an ordinary function in it.
    pub fn with_function() -> Self {
        let mut archive = Self::default();
        archive
            .file("Cargo.toml", b"[package]\nname = \"archived\"\nversion = \"0.1.0\"\nedition = \"2024\"\n");
        archive.file("src/lib.rs", b"pub fn handle(request: &[u8]) -> Vec<u8> {\n    request.to_vec()\n}\n");
        archive
    }

    /// Adds a file whose path is written as it is, traversal included.
    pub fn file(&mut self, path: &str, bytes: &[u8]) -> &mut Self {
        self.entry(EntryType::Regular, path, None, bytes)
    }

    /// Adds an entry of any type; `target` is where a link leads.
    ///
    /// # Panics
    /// When the path is longer than a ustar name.
    pub fn entry(&mut self, kind: EntryType, path: &str, target: Option<&str>, bytes: &[u8]) -> &mut Self {
        let mut header = Header::new_ustar();
        header.set_entry_type(kind);
        header.set_mode(0o644);
        header.set_size(bytes.len() as u64);
        // `set_path` would refuse what these archives are for.
        let name = &mut header.as_old_mut().name;
        name[..path.len()].copy_from_slice(path.as_bytes());
        if let Some(target) = target {
            header.as_old_mut().linkname[..target.len()].copy_from_slice(target.as_bytes());
        }
        header.set_cksum();
        self.0.append(&header, bytes).unwrap_or_else(|error| panic!("in memory: {error}"));
        self
    }

    /// The compressed archive.
    ///
    /// # Panics
    /// Never: the writer is memory.
    pub fn finish(self) -> Vec<u8> {
        gzip(&self.0.into_inner().unwrap_or_else(|error| panic!("in memory: {error}")))
    }
}

/// The upload of a directory, made by this crate alone so that it does not share faults with the
/// program under test.
///
/// # Panics
/// When the directory cannot be read.
pub fn pack_directory(directory: &Path) -> Vec<u8> {
    let mut archive = Archive::default();
    let mut pending = vec![directory.to_path_buf()];
    while let Some(next) = pending.pop() {
        let entries = std::fs::read_dir(&next).unwrap_or_else(|error| panic!("{}: {error}", next.display()));
        let mut paths: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
        paths.sort();
        for path in paths {
            if path.is_dir() {
                pending.push(path);
            } else {
                let name = path.strip_prefix(directory).unwrap_or(&path).display().to_string();
                let bytes =
                    std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
                archive.file(&name, &bytes);
            }
        }
    }
    archive.finish()
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder
        .write_all(bytes)
        .and_then(|()| encoder.finish())
        .unwrap_or_else(|error| panic!("in memory: {error}"))
}
