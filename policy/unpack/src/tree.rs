//! The source tree and its identity.

use std::io::Write as _;
use std::path::Path;

use flate2::{Compression, GzBuilder};
use mfaas_ident::Digest;
use mfaas_rules::limits::ARCHIVE;
use sha2::{Digest as _, Sha256};

use crate::path::Files;
use crate::{UnpackError, archive, directory};

/// The bytes that a tenant sent: at most 10 MiB, otherwise unchecked.
#[derive(Debug, Clone)]
pub struct Upload(Vec<u8>);

impl Upload {
    /// Takes the bytes if they are within the limit.
    pub fn new(bytes: Vec<u8>) -> Result<Self, UnpackError> {
        if bytes.len() as u64 > ARCHIVE.upload_bytes_max {
            return Err(UnpackError::UploadTooLarge {
                bytes: bytes.len() as u64,
                limit: ARCHIVE.upload_bytes_max,
            });
        }
        Ok(Self(bytes))
    }

    /// The digest of the bytes as sent: the name of the upload's blob.
    pub fn digest(&self) -> Digest {
        Digest::of(&self.0)
    }

    /// Reads the archive under every limit of [`mfaas_rules::limits::ARCHIVE`].
    pub fn unpack(&self) -> Result<SourceTree, UnpackError> {
        SourceTree::checked(archive::read(&self.0)?)
    }
}

/// Where a package keeps the crate itself; a manifest cannot name another place.
const CRATE_DIRECTORY: &str = "src/";

/// Files that passed the archive's limits, by path. Empty directories, times, owners and
/// permissions are not part of it, so two archives of one tree are one source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceTree {
    files: Files,
}

impl SourceTree {
    /// Reads a project directory, for `check` and `deploy`, under the same rules as an archive.
    ///
    /// `target` and `.git` at the root are left out; a symbolic link or a special file anywhere
    /// is a refusal.
    pub fn from_dir(root: &Path) -> Result<Self, UnpackError> {
        Self::checked(directory::read(root)?)
    }

    /// A tree that was not checked, for tests that show what comes after this crate.
    #[cfg(feature = "testing")]
    #[must_use]
    pub fn unchecked(files: std::collections::BTreeMap<String, Vec<u8>>) -> Self {
        Self { files }
    }

    fn checked(files: Files) -> Result<Self, UnpackError> {
        if files.contains_key("Cargo.toml") { Ok(Self { files }) } else { Err(UnpackError::ManifestMissing) }
    }

    /// Every file as (path, content), in the byte order of the paths.
    pub fn files(&self) -> impl ExactSizeIterator<Item = (&str, &[u8])> {
        self.files.iter().map(|(path, content)| (path.as_str(), content.as_slice()))
    }

    /// The content of one file.
    pub fn get(&self, path: &str) -> Option<&[u8]> {
        self.files.get(path).map(Vec::as_slice)
    }

    /// Cargo.toml at the root.
    #[expect(clippy::missing_panics_doc, reason = "no tree without Cargo.toml can be made")]
    pub fn manifest(&self) -> &[u8] {
        self.get("Cargo.toml").expect("`checked` refuses a tree without Cargo.toml")
    }

    /// The identity of the source: SHA-256 over a version line and, for each file in path order,
    /// the path's length (u32, little endian), the path, the content's length (u64, little
    /// endian) and the content.
    pub fn tree_digest(&self) -> Digest {
        let mut hasher = Sha256::new();
        hasher.update(b"mfaas source tree v1\n");
        for (path, content) in self.files() {
            // A path has at most 200 bytes.
            hasher.update((path.len() as u32).to_le_bytes());
            hasher.update(path);
            hasher.update((content.len() as u64).to_le_bytes());
            hasher.update(content);
        }
        Digest::from_bytes(hasher.finalize().into())
    }

    /// The tree as tar.gz (ustar, no times, no owners): the same tree gives the same bytes, and
    /// [`Upload::unpack`] gives the tree back.
    pub fn pack(&self) -> Result<Upload, UnpackError> {
        let lost = |source| UnpackError::disk(Path::new("(archive in memory)"), source);
        let gzip = GzBuilder::new().mtime(0).write(Vec::new(), Compression::default());
        let mut tar = tar::Builder::new(gzip);
        for (path, content) in self.files() {
            let mut header = tar::Header::new_ustar();
            header.set_entry_type(tar::EntryType::Regular);
            header.set_mode(0o644);
            header.set_size(content.len() as u64);
            header.set_mtime(0);
            header.set_path(path).map_err(|_| UnpackError::Path {
                path: path.to_owned(),
                rule: "a name of at most 100 bytes below a directory path of at most 155",
            })?;
            header.set_cksum();
            tar.append(&header, content).map_err(lost)?;
        }
        let mut gzip = tar.into_inner().map_err(lost)?;
        gzip.flush().map_err(lost)?;
        Upload::new(gzip.finish().map_err(lost)?)
    }

    /// The files that can become part of the crate, everything under `src/`, in the byte order of
    /// the paths. Tests, examples and benches lie outside: nobody reads them here, and no compiler
    /// is shown them.
    pub fn crate_files(&self) -> impl Iterator<Item = (&str, &[u8])> {
        self.files().filter(|(path, _)| path.starts_with(CRATE_DIRECTORY))
    }

    /// Writes every file below `root`, an existing empty directory that only the caller can
    /// write to: directories 0755, files 0644. Nothing is overwritten and no link is followed.
    pub fn write_into(&self, root: &Path) -> Result<(), UnpackError> {
        directory::write(root, self.files())
    }

    /// The same for [`Self::crate_files`] alone.
    pub fn write_crate_into(&self, root: &Path) -> Result<(), UnpackError> {
        directory::write(root, self.crate_files())
    }
}

impl Upload {
    /// The bytes as sent.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Gives the bytes away, to be sent.
    pub fn into_bytes(self) -> Vec<u8> {
        self.0
    }
}
