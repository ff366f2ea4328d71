//! Small packages written for one test.

use std::{fs, path::Path};

use tempfile::TempDir;

/// A package on disk; gone with the value.
#[derive(Debug)]
pub struct Package(TempDir);

impl Package {
    /// Its directory.
    pub fn path(&self) -> &Path {
        self.0.path()
    }

    /// Replaces `src/lib.rs`.
    ///
    /// # Panics
    /// When the disk refuses.
    pub fn set_source(&self, source: &str) {
        fs::write(self.path().join("src/lib.rs"), source)
            .unwrap_or_else(|error| panic!("src/lib.rs: {error}"));
    }
}

/// A package of that name with this `src/lib.rs`; `more` is appended to its Cargo.toml.
///
/// # Panics
/// When the disk refuses.
pub fn package(name: &str, source: &str, more: &str) -> Package {
    let directory =
        TempDir::with_prefix("mfaas-package-").unwrap_or_else(|error| panic!("temp dir: {error}"));
    let manifest = format!("[package]\nname = \"{name}\"\nversion = \"0.1.0\"\nedition = \"2024\"\n\n{more}");
    fs::create_dir(directory.path().join("src")).unwrap_or_else(|error| panic!("src: {error}"));
    fs::write(directory.path().join("Cargo.toml"), manifest)
        .unwrap_or_else(|error| panic!("Cargo.toml: {error}"));
    let package = Package(directory);
    package.set_source(source);
    package
}
