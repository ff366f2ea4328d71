//! Downloads the seed's crates, once, with cargo's own verification of every checksum.
//!
//! This is the only step of the builder that uses a network, and it runs nothing of what it
//! downloads.

use std::path::Path;
use std::process::{Command, Stdio};

use mfaas_ident::Digest;

use crate::error::BuilderError;

/// Holds the digest of the lock file whose crates are all there.
const COMPLETE_FILE: &str = ".complete";

/// Vendors what `seed/Cargo.lock` names into `into`. Does nothing if the same lock file was
/// vendored there before.
pub(crate) fn vendor(seed: &Path, into: &Path) -> Result<(), BuilderError> {
    let lock = seed.join("Cargo.lock");
    let digest = Digest::of(&std::fs::read(&lock).map_err(BuilderError::io(&lock))?).to_string();
    let complete = into.join(COMPLETE_FILE);
    if std::fs::read_to_string(&complete).is_ok_and(|found| found == digest) {
        return Ok(());
    }
    std::fs::create_dir_all(into).map_err(BuilderError::io(into))?;
    // stdout carries a configuration snippet that the build writes for itself.
    let status = Command::new("cargo")
        .args(["vendor", "--locked", "--versioned-dirs", "--quiet", "--manifest-path"])
        .arg(seed.join("Cargo.toml"))
        .arg(into)
        .stdout(Stdio::null())
        .status()
        .map_err(BuilderError::io("cargo"))?;
    if !status.success() {
        return Err(BuilderError::Command { command: "cargo vendor", problem: status.to_string() });
    }
    std::fs::write(&complete, digest).map_err(BuilderError::io(&complete))
}
