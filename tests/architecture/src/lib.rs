//! The house rules that a compiler does not check: which crate may know which, who owns a heavy
//! dependency, where `unsafe` may stand, and what the documents promise.
//!
//! The library only gathers facts about the checkout; the rules are in `tests/`.

pub mod modules;

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use serde_json::Value;

/// A crate of the workspace with what it depends on.
#[derive(Debug)]
pub struct Crate {
    /// Package name.
    pub name: String,
    /// Directory relative to the checkout, with `/`.
    pub directory: String,
    /// Names of workspace crates that it needs to build, development dependencies left out.
    pub internal: BTreeSet<String>,
    /// Names of other crates that it needs to build, development dependencies left out.
    pub external: BTreeSet<String>,
}

/// The root of the checkout.
pub fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().nth(2).unwrap_or(here).to_path_buf()
}

/// Every crate of the workspace, by name.
///
/// # Panics
/// When cargo cannot be run or prints something else than its metadata.
pub fn crates() -> BTreeMap<String, Crate> {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--no-deps", "--offline", "--format-version", "1"])
        .current_dir(root())
        .output()
        .unwrap_or_else(|error| panic!("cargo metadata: {error}"));
    assert!(output.status.success(), "cargo metadata: {}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("cargo metadata: {error}"));
    let packages = metadata["packages"].as_array().map(Vec::as_slice).unwrap_or_default();
    let names: BTreeSet<String> = packages.iter().map(|package| text(&package["name"])).collect();
    packages.iter().map(|package| read_crate(package, &names)).map(|read| (read.name.clone(), read)).collect()
}

fn read_crate(package: &Value, names: &BTreeSet<String>) -> Crate {
    let manifest = PathBuf::from(text(&package["manifest_path"]));
    let directory =
        manifest.parent().and_then(|parent| parent.strip_prefix(root()).ok()).unwrap_or(Path::new(""));
    let (internal, external) = package["dependencies"]
        .as_array()
        .map(Vec::as_slice)
        .unwrap_or_default()
        .iter()
        .filter(|dependency| dependency["kind"].as_str() != Some("dev"))
        .map(|dependency| text(&dependency["name"]))
        .partition(|name| names.contains(name));
    Crate { name: text(&package["name"]), directory: directory.display().to_string(), internal, external }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// Every file that git tracks or would track, relative to the checkout.
///
/// # Panics
/// When git cannot be run.
pub fn tracked_files() -> Vec<String> {
    let output = Command::new("git")
        .args(["-c", "safe.directory=*", "ls-files", "--cached", "--others", "--exclude-standard"])
        .current_dir(root())
        .output()
        .unwrap_or_else(|error| panic!("git ls-files: {error}"));
    assert!(output.status.success(), "git ls-files: {}", String::from_utf8_lossy(&output.stderr));
    let listing = String::from_utf8_lossy(&output.stdout).into_owned();
    listing.lines().filter(|line| root().join(line).is_file()).map(str::to_owned).collect()
}

/// The text of a tracked file; empty for one that is not UTF-8.
pub fn read(file: &str) -> String {
    fs::read(root().join(file)).ok().and_then(|bytes| String::from_utf8(bytes).ok()).unwrap_or_default()
}
