//! What cargo says while it builds (`--message-format=json`): which file became of which crate.

use std::path::PathBuf;

use mfaas_ident::CrateName;
use serde::Deserialize;

use super::index::CrateKind;
use super::lockfile::PackageKey;

/// A crate that cargo compiled.
#[derive(Debug)]
pub(super) struct Compiled {
    pub(super) package: PackageKey,
    pub(super) extern_name: String,
    pub(super) features: Vec<String>,
    /// `None` for build scripts, and for libraries compiled for build scripts and macros: they
    /// count as used, but have no place in the cache.
    pub(super) product: Option<(CrateKind, PathBuf)>,
}

#[derive(Deserialize)]
struct Message {
    reason: String,
    package_id: Option<String>,
    target: Option<Target>,
    #[serde(default)]
    features: Vec<String>,
    #[serde(default)]
    filenames: Vec<PathBuf>,
}

#[derive(Deserialize)]
struct Target {
    name: String,
    kind: Vec<String>,
}

/// Reads cargo's standard output. `target_directory` is the part of a path that tells a library
/// for functions from one for build scripts.
pub(super) fn parse(stdout: &[u8], target_directory: &str) -> Result<Vec<Compiled>, String> {
    let text = std::str::from_utf8(stdout).map_err(|error| error.to_string())?;
    let mut all = Vec::new();
    for line in text.lines().filter(|line| line.starts_with('{')) {
        let message: Message = serde_json::from_str(line).map_err(|error| error.to_string())?;
        if message.reason == "compiler-artifact" {
            all.push(compiled(message, target_directory)?);
        }
    }
    Ok(all)
}

fn compiled(message: Message, target_directory: &str) -> Result<Compiled, String> {
    let (Some(id), Some(target)) = (message.package_id, message.target) else {
        return Err("an artifact without package or target".to_owned());
    };
    let package = package_key(&id).ok_or_else(|| format!("package id {id} is not understood"))?;
    let is = |kind: &str| target.kind.iter().any(|found| found == kind);
    let product = if is("proc-macro") {
        file(&message.filenames, "so").map(|path| (CrateKind::ProcMacro, path))
    } else if is("lib") || is("rlib") {
        file(&message.filenames, "rlib")
            .filter(|path| path.components().any(|part| part.as_os_str() == target_directory))
            .map(|path| (CrateKind::Library, path))
    } else {
        None
    };
    Ok(Compiled { package, extern_name: target.name.replace('-', "_"), features: message.features, product })
}

fn file(filenames: &[PathBuf], extension: &str) -> Option<PathBuf> {
    filenames.iter().find(|path| path.extension().is_some_and(|found| found == extension)).cloned()
}

/// `…#name@version`, or `…/name#version` where the directory has the package's name.
fn package_key(id: &str) -> Option<PackageKey> {
    let (source, fragment) = id.rsplit_once('#')?;
    let (name, version) = match fragment.split_once('@') {
        Some(pair) => pair,
        None => (source.rsplit('/').next()?, fragment),
    };
    Some((CrateName::parse(name).ok()?, semver::Version::parse(version).ok()?))
}
