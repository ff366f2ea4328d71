//! Small packages written to a temporary directory, and the reports of `check` about them.

use std::path::Path;

use serde_json::Value;

use crate::installed::installed;

/// A package on disk; gone when dropped.
pub struct Package {
    directory: tempfile::TempDir,
    manifest_tail: String,
}

/// What `check --json` said.
pub struct Checked {
    pub exit: i32,
    pub report: Value,
}

impl Package {
    /// A package named `sample` with this `src/lib.rs`.
    pub fn new(source: &str) -> Self {
        let package = Self { directory: tempfile::tempdir().unwrap(), manifest_tail: String::new() };
        std::fs::create_dir(package.path().join("src")).unwrap();
        std::fs::write(package.path().join("src/lib.rs"), source).unwrap();
        package.write_manifest();
        package
    }

    /// The same with more lines in its manifest.
    pub fn manifest(mut self, tail: &str) -> Self {
        self.manifest_tail = tail.to_owned();
        self.write_manifest();
        self
    }

    pub fn path(&self) -> &Path {
        self.directory.path()
    }

    /// The source as a tar.gz, as a tenant sends it.
    pub fn pack(&self) -> Vec<u8> {
        mfaas_unpack::SourceTree::from_dir(self.path()).unwrap().pack().unwrap().into_bytes()
    }

    /// Checks it with the installed toolchain.
    pub fn check(&self) -> Checked {
        check(self.path())
    }

    fn write_manifest(&self) {
        let head = "[package]\nname = \"sample\"\nversion = \"0.1.0\"\nedition = \"2024\"\n";
        std::fs::write(self.path().join("Cargo.toml"), format!("{head}{}", self.manifest_tail)).unwrap();
    }
}

/// Checks a directory with the installed toolchain.
pub fn check(path: &Path) -> Checked {
    let output = installed().builder().args(["check", "--json"]).arg(path).output().unwrap();
    let report = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|_| panic!("no report: {}", String::from_utf8_lossy(&output.stderr)));
    Checked { exit: output.status.code().unwrap(), report }
}

impl Checked {
    /// Exit code, the stage that was reached, and the codes of all errors.
    pub fn verdict(&self) -> (i32, String, Vec<String>) {
        let stage = self.report["stages"].as_array().unwrap().last().unwrap()["stage"].as_str().unwrap();
        let codes =
            self.errors().iter().map(|diagnostic| diagnostic["code"].as_str().unwrap().to_owned()).collect();
        (self.exit, stage.to_owned(), codes)
    }

    /// The diagnostics of level error.
    pub fn errors(&self) -> Vec<&Value> {
        self.report["diagnostics"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|item| item["level"] == "error")
            .collect()
    }

    /// The digest of the artifact.
    pub fn digest(&self) -> &str {
        self.report["artifact"]["digest"].as_str().unwrap_or_else(|| panic!("no artifact: {}", self.report))
    }
}
