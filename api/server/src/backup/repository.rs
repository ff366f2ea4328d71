//! A directory of backups.

use std::collections::HashSet;
use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use chrono::NaiveDateTime;
use mfaas_blobs::Blobs;
use mfaas_ident::Digest;
use rustix::fs::FlockOperation;

use crate::backup::error::BackupError;
use crate::backup::manifest::{Manifest, Part, parse_list};

/// A manifest has some hundred bytes.
const MANIFEST_BYTES_MAX: u64 = 64 << 10;
/// Some seven million blobs.
pub(crate) const LIST_BYTES_MAX: u64 = 512 << 20;
/// A backup is named by its moment; other files of the directory are none, and are left alone.
const NAME: &str = "%Y%m%dT%H%M%S%.3fZ";
/// What stands behind the moment in a manifest's name.
const EXTENSION: &str = "json";

/// A directory of backups, which nobody else works on meanwhile.
#[derive(Debug)]
pub struct Repository {
    directory: PathBuf,
    /// What all backups in it share.
    pub(crate) blobs: Blobs,
    _lock: File,
}

impl Repository {
    /// Makes the directory for its owner alone, where it is missing.
    pub fn make(directory: &Path) -> Result<(), BackupError> {
        for path in [directory, &directory.join("blobs")] {
            match std::fs::DirBuilder::new().mode(0o700).create(path) {
                Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => {
                    return Err(BackupError::io("make", path)(error));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Opens it, or makes it.
    pub async fn create(directory: &Path) -> Result<Self, BackupError> {
        Self::make(directory)?;
        let repository = Self::open(directory)?;
        if repository.blobs.ready().await.is_err() {
            repository.blobs.mark().await?;
        }
        repository.blobs.sweep().await?;
        Ok(repository)
    }

    /// Opens one that is there.
    pub fn open(directory: &Path) -> Result<Self, BackupError> {
        let directory = std::path::absolute(directory).map_err(BackupError::io("find", directory))?;
        let blobs = directory.join("blobs");
        if !blobs.is_dir() {
            return Err(BackupError::None { directory, what: "backups".to_owned() });
        }
        let blobs = Blobs::open(&format!("file://{}", blobs.display()))?;
        // The directory itself: a backup can be read where nothing can be written.
        let lock = File::open(&directory).map_err(BackupError::io("open", &directory))?;
        match rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Self { directory, blobs, _lock: lock }),
            Err(rustix::io::Errno::WOULDBLOCK) => Err(BackupError::Busy(directory)),
            Err(error) => Err(BackupError::io("lock", directory)(error.into())),
        }
    }

    /// Names of its backups, oldest first.
    pub fn names(&self) -> Result<Vec<String>, BackupError> {
        let read = || BackupError::io("read", &self.directory);
        let mut names = Vec::new();
        for entry in std::fs::read_dir(&self.directory).map_err(read())? {
            let path = entry.map_err(read())?.path();
            if path.extension().is_some_and(|extension| extension == EXTENSION) {
                let name = path.file_stem().and_then(|name| name.to_str());
                names.extend(name.filter(|name| is_name(name)).map(str::to_owned));
            }
        }
        names.sort();
        Ok(names)
    }

    /// The manifest of that name, or of the newest.
    pub fn manifest(&self, name: Option<&str>) -> Result<(String, Manifest), BackupError> {
        let names = self.names()?;
        let none = |what: String| BackupError::None { directory: self.directory.clone(), what };
        let name = match name {
            Some(name) if !names.iter().any(|known| known == name) => {
                return Err(none(format!("backup {name}; it has: {}", names.join(", "))));
            }
            Some(name) => name.to_owned(),
            None => names.last().cloned().ok_or_else(|| none("backup that was finished".to_owned()))?,
        };
        let path = self.path(&name);
        let mut bytes = Vec::new();
        File::open(&path)
            .and_then(|file| file.take(MANIFEST_BYTES_MAX).read_to_end(&mut bytes))
            .map_err(BackupError::io("read", &path))?;
        let manifest = Manifest::read(&name, &bytes)?;
        Ok((name, manifest))
    }

    /// Writes it durably, and then under its name: from that moment on there is a backup.
    pub(crate) fn finish(&self, manifest: &Manifest) -> Result<String, BackupError> {
        let name = manifest.taken_at.format(NAME).to_string();
        let (path, draft) = (self.path(&name), self.directory.join("unfinished"));
        let text = serde_json::to_vec_pretty(manifest).unwrap_or_default();
        let written = || {
            let mut file = create_anew(&draft)?;
            file.write_all(&text)?;
            file.sync_all()?;
            std::fs::rename(&draft, &path)?;
            File::open(&self.directory)?.sync_all()
        };
        written().map_err(BackupError::io("write", &path))?;
        Ok(name)
    }

    /// The blobs of a backup, from its list.
    pub(crate) async fn list(&self, name: &str, manifest: &Manifest) -> Result<Vec<Part>, BackupError> {
        let damaged = |cause: String| BackupError::Damaged {
            backup: name.to_owned(),
            what: "the list of blobs",
            cause,
        };
        let text = self.blobs.get(&manifest.list.digest, LIST_BYTES_MAX).await;
        let text = text.map_err(|error| damaged(error.to_string()))?;
        parse_list(&text).ok_or_else(|| damaged("a line is no digest and a number".to_owned()))
    }

    /// Removes all backups but the newest `keep`, and blobs that none of those has; answers how many backups went.
    pub async fn prune(&self, keep: usize) -> Result<usize, BackupError> {
        let mut names = self.names()?;
        let kept = names.split_off(names.len().saturating_sub(keep));
        let mut needed = HashSet::new();
        // Everything that is kept is read before anything goes.
        for name in &kept {
            let (_, manifest) = self.manifest(Some(name))?;
            needed.extend([manifest.database.digest, manifest.list.digest]);
            needed.extend(self.list(name, &manifest).await?.iter().map(|blob| blob.digest));
        }
        for name in &names {
            let path = self.path(name);
            std::fs::remove_file(&path).map_err(BackupError::io("remove", &path))?;
        }
        let now = SystemTime::now();
        for first_byte in 0..=u8::MAX {
            for blob in self.blobs.list(first_byte).await? {
                if !needed.contains(&blob.digest) {
                    self.blobs.remove_older(&blob.digest, now).await?;
                }
            }
        }
        Ok(names.len())
    }

    /// What it has already, and how large that is.
    pub(crate) async fn stored(&self) -> Result<std::collections::HashMap<Digest, u64>, BackupError> {
        let mut stored = std::collections::HashMap::new();
        for first_byte in 0..=u8::MAX {
            let some = self.blobs.list(first_byte).await?;
            stored.extend(some.iter().map(|blob| (blob.digest, blob.bytes)));
        }
        Ok(stored)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.join(format!("{name}.{EXTENSION}"))
    }
}

fn is_name(name: &str) -> bool {
    NaiveDateTime::parse_from_str(name, NAME).is_ok_and(|moment| moment.format(NAME).to_string() == name)
}

/// A new file for its owner alone, in the place of what a try before has left: a link that somebody put there is not followed.
pub(crate) fn create_anew(path: &Path) -> std::io::Result<File> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    File::options().write(true).create_new(true).mode(0o600).open(path)
}
