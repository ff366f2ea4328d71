//! Files with keys: read only if nobody else can, written whole, with a passphrase where they have one.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use mfaas_attest::{PrivateKey, PublicKey};
use zeroize::Zeroizing;

use crate::passphrase::{Passphrase, Source};

/// A key file is a few hundred bytes.
const KEY_FILE_BYTES_MAX: u64 = 4096;

/// A private key as its file holds it. Not printable: it may hold the passphrase.
pub(crate) struct KeyFile {
    pub(crate) key: PrivateKey,
    /// What opens the file; `None` if whoever reads it has the key.
    pub(crate) passphrase: Option<Passphrase>,
}

impl KeyFile {
    /// Reads a file that nobody else can read, and asks for its passphrase if it takes one.
    pub(crate) fn read(path: &Path, source: &Source) -> anyhow::Result<Self> {
        let about = || path.display().to_string();
        let metadata = fs::metadata(path).with_context(about)?;
        if metadata.permissions().mode() & 0o077 != 0 {
            bail!("{} can be read by others (mode {:o})", about(), metadata.permissions().mode() & 0o777);
        }
        if metadata.len() > KEY_FILE_BYTES_MAX {
            bail!("{} is too large to be a key", about());
        }
        let pem = Zeroizing::new(fs::read_to_string(path).with_context(about)?);
        if !PrivateKey::is_encrypted(&pem) {
            return Ok(Self { key: PrivateKey::from_pem(&pem).with_context(about)?, passphrase: None });
        }
        let passphrase = source.read(path)?;
        let key = PrivateKey::from_encrypted_pem(&pem, &passphrase).with_context(about)?;
        Ok(Self { key, passphrase: Some(passphrase) })
    }

    /// The text of the file.
    pub(crate) fn to_text(&self) -> anyhow::Result<Zeroizing<String>> {
        Ok(match &self.passphrase {
            Some(passphrase) => self.key.to_encrypted_pem(passphrase)?,
            None => self.key.to_pem()?,
        })
    }

    /// Another key, in a file that takes the same passphrase.
    pub(crate) fn successor(&self) -> anyhow::Result<Self> {
        Ok(Self { key: PrivateKey::generate()?, passphrase: self.passphrase.clone() })
    }
}

/// The public key in a PEM file.
pub(crate) fn read_public(path: &Path) -> anyhow::Result<PublicKey> {
    let text = fs::read_to_string(path).with_context(|| path.display().to_string())?;
    PublicKey::from_pem(&text).with_context(|| path.display().to_string())
}

/// Makes the directory, for its owner alone.
pub(crate) fn make_dir(dir: &Path) -> anyhow::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true).mode(0o700).create(dir).with_context(|| dir.display().to_string())
}

/// Writes a file that must not be there.
pub(crate) fn write_new(path: &Path, bytes: &[u8], mode: u32) -> anyhow::Result<()> {
    let mut file = fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(mode)
        .open(path)
        .with_context(|| path.display().to_string())?;
    file.write_all(bytes)?;
    Ok(file.sync_all()?)
}

/// Writes a file next to its place, for the owner of `like`, and returns where: it takes its place when it is renamed.
pub(crate) fn write_beside(path: &Path, like: &Path, bytes: &[u8], mode: u32) -> anyhow::Result<PathBuf> {
    let half = path.with_extension("half");
    remove_if_there(&half)?;
    write_new(&half, bytes, mode)?;
    let owner = fs::metadata(like).with_context(|| like.display().to_string())?;
    std::os::unix::fs::chown(&half, Some(owner.uid()), Some(owner.gid()))?;
    Ok(half)
}

/// Replaces a file, or makes it for the owner of `like`: the old content or the new is there at any moment.
pub(crate) fn replace(path: &Path, like: &Path, bytes: &[u8], mode: u32) -> anyhow::Result<()> {
    fs::rename(write_beside(path, like, bytes, mode)?, path).with_context(|| path.display().to_string())?;
    sync_dir(path.parent().unwrap_or(Path::new(".")))
}

/// Removes a file; that it is not there is as well.
pub(crate) fn remove_if_there(path: &Path) -> anyhow::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(error).with_context(|| path.display().to_string())
        }
        _ => Ok(()),
    }
}

/// Makes renames in the directory durable.
pub(crate) fn sync_dir(dir: &Path) -> anyhow::Result<()> {
    let dir = if dir.as_os_str().is_empty() { Path::new(".") } else { dir };
    fs::File::open(dir).and_then(|dir| dir.sync_all()).with_context(|| dir.display().to_string())
}
