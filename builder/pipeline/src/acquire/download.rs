//! The archives of crates, out of cargo's own cache, compared with the lock.
//!
//! cargo compares every checksum as it downloads; the bytes are hashed again here, because they are
//! what is kept and looked at. Nothing is unpacked.

use std::io::Read as _;
use std::path::Path;

use mfaas_ident::{CrateName, Digest};
use mfaas_rules::limits::CRATE_ARCHIVE;
use semver::Version;

use super::cargo::Cargo;
use super::error::AcquireError;
use super::resolve::ResolvedCrate;
use crate::deps::PackageKey;
use crate::error::BuilderError;

/// The bytes of a `.crate` file, and its sha256, which is the lock's.
#[derive(Debug, Clone)]
pub(crate) struct Download {
    pub(crate) name: CrateName,
    pub(crate) version: Version,
    pub(crate) checksum: Digest,
    pub(crate) bytes: Vec<u8>,
}

impl Download {
    /// The one directory that everything in the archive lies in.
    pub(crate) fn top(&self) -> String {
        format!("{}-{}", self.name, self.version)
    }
}

/// The archive of one crate of a resolution that cargo has fetched.
pub(crate) fn download(cargo: &Cargo, member: &ResolvedCrate) -> Result<Download, BuilderError> {
    let checksum = member.checksum.as_deref();
    take(cargo, &member.key(), checksum)
}

/// The same by name, version and the lock's checksum.
pub(crate) fn take(
    cargo: &Cargo,
    (name, version): &PackageKey,
    checksum: Option<&str>,
) -> Result<Download, BuilderError> {
    let problem = |reason: &str| {
        let (name, version) = (name.clone(), version.clone());
        BuilderError::from(AcquireError::Archive { name, version, reason: reason.to_owned() })
    };
    let checksum = checksum.ok_or_else(|| problem("it comes from no registry"))?;
    let checksum = Digest::parse(checksum).map_err(|_| problem("the lock's checksum is no sha256"))?;
    let file = format!("{name}-{version}.crate");
    let root = cargo.archives();
    // A registry's directory is named after its address: there is one for each that was ever used.
    for registry in std::fs::read_dir(&root).map_err(BuilderError::io(&root))? {
        let path = registry.map_err(BuilderError::io(&root))?.path().join(&file);
        let Some(bytes) = read(&path)? else { continue };
        if bytes.len() as u64 > CRATE_ARCHIVE.archive_bytes_max {
            return Err(problem(&format!("it has more than {} bytes", CRATE_ARCHIVE.archive_bytes_max)));
        }
        if Digest::of(&bytes) == checksum {
            return Ok(Download { name: name.clone(), version: version.clone(), checksum, bytes });
        }
    }
    Err(problem("cargo fetched no file with the lock's checksum"))
}

/// The bytes, at most one more than is allowed; `None` if there is no such file.
fn read(path: &Path) -> Result<Option<Vec<u8>>, BuilderError> {
    let file = match std::fs::File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(BuilderError::io(path)(error)),
    };
    let mut bytes = Vec::new();
    let mut limited = file.take(CRATE_ARCHIVE.archive_bytes_max + 1);
    limited.read_to_end(&mut bytes).map_err(BuilderError::io(path))?;
    Ok(Some(bytes))
}
