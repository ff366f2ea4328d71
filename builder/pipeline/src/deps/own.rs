//! Our own crates as a registry has them, so that a developer's cargo compiles against the very text that
//! the builder compiles.
//!
//! The archives are made from the bundle alone and are the same in every run. They are for machines of
//! developers: no build of a tenant's code ever reads one, because the builder compiles the bundle itself and
//! offers ABI and shim under no name. What makes the shim an inhabitant of a node (the feature `hosted`, and
//! the files behind it) is not in them, so nothing that they hold can be an artifact's entry or its allocator.

use std::path::{Path, PathBuf};

use flate2::{Compression, GzBuilder};
use mfaas_ident::{CrateName, Digest};

use super::bundle;
use super::cache::SDK_CRATE;
use crate::error::BuilderError;

/// The version of the three crates, which the allowlist has of the SDK.
pub(super) const VERSION: semver::Version = semver::Version::new(0, 1, 0);
/// Files of the shim that only the feature `hosted` compiles.
const HOSTED: &[&str] = &["src/bounded.rs", "src/entry.rs"];
/// The time of every file in an archive, in seconds since 1970: any, but always the same.
const TIME: u64 = 1_000_000_000;

/// A crate of ours, packed.
#[derive(Debug, Clone)]
pub(crate) struct OwnCrate {
    /// Its name.
    pub(crate) name: CrateName,
    /// Its version.
    pub(crate) version: semver::Version,
    /// Its Cargo.toml.
    pub(crate) manifest: String,
    /// The `.crate` file.
    pub(crate) archive: Vec<u8>,
    /// What the allowlist names as the SDK's checksum: the digest of the sources of all three.
    pub(crate) decided: Digest,
}

/// Part of the bundle, package, what it says about itself, dependencies.
type Part = (&'static str, &'static str, &'static str, &'static str);

const PARTS: &[Part] = &[
    ("abi", "mfaas-abi", "What a function and its node agree on; a part of the crate `mfaas`", ""),
    (
        "shim",
        "mfaas-shim",
        "Stand-ins for a node on a developer's machine; a part of the crate `mfaas`",
        "mfaas-abi = \"=VERSION\"\n",
    ),
    (
        "sdk",
        SDK_CRATE,
        "What functions are written against",
        "mfaas-abi = \"=VERSION\"\nmfaas-shim = \"=VERSION\"\nserde = \"1\"\nserde_json = \"1\"\n",
    ),
];

/// The three crates.
pub(crate) fn own_crates() -> Result<Vec<OwnCrate>, BuilderError> {
    PARTS.iter().map(pack).collect()
}

/// The sources of all three, written down.
#[derive(Debug)]
pub(crate) struct OwnSources {
    /// The crate that stands for them on the allowlist, with its version.
    pub(crate) name: CrateName,
    pub(crate) version: semver::Version,
    /// Its checksum there.
    pub(crate) digest: Digest,
    /// Where each of them lies.
    pub(crate) directories: Vec<PathBuf>,
}

/// Writes the sources below `root`, each with its Cargo.toml.
pub(crate) fn write_own(root: &Path) -> Result<OwnSources, BuilderError> {
    bundle::write(root)?;
    let mut directories = Vec::new();
    for (part, package, description, dependencies) in PARTS {
        let directory = root.join(part);
        let path = directory.join("Cargo.toml");
        let text = manifest(package, description, dependencies);
        std::fs::write(&path, text).map_err(BuilderError::io(&path))?;
        directories.push(directory);
    }
    Ok(OwnSources { name: crate_name(SDK_CRATE)?, version: VERSION, digest: bundle::digest(), directories })
}

fn crate_name(package: &str) -> Result<CrateName, BuilderError> {
    let problem = |problem: String| BuilderError::Command { command: "packing our own crates", problem };
    CrateName::parse(package).map_err(|error| problem(error.to_string()))
}

fn pack((part, package, description, dependencies): &Part) -> Result<OwnCrate, BuilderError> {
    let problem = |problem: String| BuilderError::Command { command: "packing our own crates", problem };
    let name = crate_name(package)?;
    let manifest = manifest(package, description, dependencies);
    let top = format!("{package}-{VERSION}");
    let sources = bundle::of_part(part).filter(|(path, _)| *part != "shim" || !HOSTED.contains(path));
    let files = std::iter::once(("Cargo.toml", manifest.as_str())).chain(sources);
    let archive = archive(&top, files).map_err(|error| problem(error.to_string()))?;
    Ok(OwnCrate { name, version: VERSION, manifest, archive, decided: bundle::digest() })
}

fn manifest(package: &str, description: &str, dependencies: &str) -> String {
    let dependencies = dependencies.replace("VERSION", &VERSION.to_string());
    format!(
        "[package]\nname = \"{package}\"\nversion = \"{VERSION}\"\nedition = \"2024\"\n\
         rust-version = \"{}\"\nlicense = \"{}\"\ndescription = \"{description}\"\n\n\
         [dependencies]\n{dependencies}",
        env!("CARGO_PKG_RUST_VERSION"),
        env!("CARGO_PKG_LICENSE"),
    )
}

/// A `.crate` file: one gzip member of tar, everything below `top`.
fn archive<'a>(top: &str, files: impl Iterator<Item = (&'a str, &'a str)>) -> std::io::Result<Vec<u8>> {
    let gzip = GzBuilder::new().mtime(0).write(Vec::new(), Compression::best());
    let mut tar = tar::Builder::new(gzip);
    for (path, text) in files {
        let mut header = tar::Header::new_ustar();
        header.set_mode(0o644);
        header.set_mtime(TIME);
        header.set_size(text.len() as u64);
        tar.append_data(&mut header, format!("{top}/{path}"), text.as_bytes())?;
    }
    tar.into_inner()?.finish()
}

#[cfg(test)]
mod tests;
