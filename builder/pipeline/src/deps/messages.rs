//! What cargo says while it builds (`--message-format=json`): which file became of which crate.

use std::path::PathBuf;

use mfaas_audit::rustc_json::{self, Diagnostic, Level};
use mfaas_ident::CrateName;
use serde::Deserialize;

use super::index::CrateKind;
use super::lockfile::PackageKey;

/// Everything that cargo said.
#[derive(Debug, Default)]
pub(crate) struct CargoOutput {
    pub(crate) compiled: Vec<Compiled>,
    pub(crate) scripts: Vec<Script>,
    /// Errors of the compiler, where cargo was asked for messages as objects.
    pub(crate) errors: Vec<(PackageKey, Diagnostic)>,
}

/// A build script that ran, and what it asked the compiler for.
#[derive(Debug)]
pub(crate) struct Script {
    pub(crate) package: PackageKey,
    /// `--cfg`s.
    pub(crate) cfgs: Vec<String>,
    /// Names of variables.
    pub(crate) variables: Vec<String>,
}

/// A crate that cargo compiled.
#[derive(Debug)]
pub(crate) struct Compiled {
    pub(crate) package: PackageKey,
    /// Its root file.
    pub(crate) source: PathBuf,
    /// It is for functions, and not for the build machine alone.
    pub(crate) for_target: bool,
    /// It is a build script, which becomes part of nothing.
    pub(crate) is_build_script: bool,
    pub(super) extern_name: String,
    pub(crate) features: Vec<String>,
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
    #[serde(default)]
    cfgs: Vec<String>,
    #[serde(default)]
    env: Vec<(String, String)>,
    /// Of the compiler.
    #[serde(default)]
    message: serde_json::Value,
}

#[derive(Deserialize)]
struct Target {
    name: String,
    kind: Vec<String>,
    #[serde(default)]
    src_path: PathBuf,
}

/// Reads cargo's standard output. `target_directory` is the part of a path that tells a library
/// for functions from one for build scripts.
pub(crate) fn parse(stdout: &[u8], target_directory: &str) -> Result<CargoOutput, String> {
    let text = std::str::from_utf8(stdout).map_err(|error| error.to_string())?;
    let mut all = CargoOutput::default();
    for line in text.lines().filter(|line| line.starts_with('{')) {
        let message: Message = serde_json::from_str(line).map_err(|error| error.to_string())?;
        match message.reason.as_str() {
            "compiler-artifact" => all.compiled.push(compiled(message, target_directory)?),
            "build-script-executed" => all.scripts.push(script(message)?),
            "compiler-message" => all.errors.extend(error(&message)),
            _ => {}
        }
    }
    Ok(all)
}

fn error(message: &Message) -> Option<(PackageKey, Diagnostic)> {
    let found = rustc_json::read(&message.message.to_string())?;
    let is_error = matches!(found.level, Level::Error | Level::InternalError);
    let package = package_key(message.package_id.as_deref()?)?;
    (is_error && !found.message.starts_with("aborting due to")).then_some((package, found))
}

fn script(message: Message) -> Result<Script, String> {
    let id = message.package_id.ok_or("a build script without package")?;
    let package = package_key(&id).ok_or_else(|| format!("package id {id} is not understood"))?;
    let variables = message.env.into_iter().map(|(name, _)| name).collect();
    Ok(Script { package, cfgs: message.cfgs, variables })
}

fn compiled(message: Message, target_directory: &str) -> Result<Compiled, String> {
    let (Some(id), Some(target)) = (message.package_id, message.target) else {
        return Err("an artifact without package or target".to_owned());
    };
    let package = package_key(&id).ok_or_else(|| format!("package id {id} is not understood"))?;
    let is = |kind: &str| target.kind.iter().any(|found| found == kind);
    let is_of_target = |path: &PathBuf| path.components().any(|part| part.as_os_str() == target_directory);
    let for_target = is("proc-macro") || message.filenames.iter().any(is_of_target);
    let product = if is("proc-macro") {
        file(&message.filenames, "so").map(|path| (CrateKind::ProcMacro, path))
    } else if is("lib") || is("rlib") {
        file(&message.filenames, "rlib").filter(is_of_target).map(|path| (CrateKind::Library, path))
    } else {
        None
    };
    Ok(Compiled {
        package,
        for_target,
        is_build_script: is("custom-build"),
        source: target.src_path,
        extern_name: target.name.replace('-', "_"),
        features: message.features,
        product,
    })
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
