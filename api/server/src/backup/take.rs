//! Taking a backup, while the site runs.

use std::process::Stdio;

use futures::{StreamExt as _, TryStreamExt as _, stream};
use mfaas_blobs::{BlobError, Blobs};
use mfaas_catalog::{ReferredBlob, Snapshot};
use mfaas_startup::DatabaseAddress;
use serde::Serialize;
use tokio_util::io::ReaderStream;

use crate::backup::error::BackupError;
use crate::backup::manifest::{Manifest, Part, list_of};
use crate::backup::programs::{PostgresPrograms, absent, failed};
use crate::backup::repository::Repository;

/// The largest dump.
pub(crate) const DUMP_BYTES_MAX: u64 = 1 << 40;
/// The largest blob: a dependency cache has some gigabytes.
pub(crate) const BLOB_BYTES_MAX: u64 = 1 << 36;
/// Blobs on their way at a time.
pub(crate) const BLOBS_AT_ONCE: usize = 8;

/// What is backed up, or restored into.
#[derive(Debug)]
pub struct Site {
    /// The owner's address of the database, as text for programs of ours.
    pub database_url: String,
    /// The same for PostgreSQL's programs.
    pub database: DatabaseAddress,
    /// The site's blobs.
    pub blobs: Blobs,
    /// What reads and writes dumps.
    pub programs: PostgresPrograms,
}

/// What was taken.
#[derive(Debug, Serialize)]
pub struct Taken {
    /// The name of the backup.
    pub backup: String,
    /// What it is.
    #[serde(flatten)]
    pub manifest: Manifest,
    /// Blobs that no backup before had.
    pub copied: u64,
    /// Backups that were removed.
    pub pruned: usize,
}

/// Takes one into `repository`.
pub async fn take(site: &Site, repository: &Repository) -> Result<Taken, BackupError> {
    // First of all: from now on no blob goes.
    let mut snapshot = Snapshot::take(&site.database_url).await?;
    let taken_at = chrono::Utc::now();
    let database = dump(site, repository, snapshot.id()).await?;
    let referred = snapshot.blobs().await?;
    let seen = (snapshot.schema, snapshot.audit_head, snapshot.epoch);
    snapshot.end().await?;
    let (blobs, copied) = copy(site, repository, referred).await?;
    snapshot.confirm().await?;
    let text = list_of(&blobs);
    let list = Part { bytes: text.len() as u64, digest: repository.blobs.put(text.into()).await? };
    let manifest = Manifest::new(taken_at, seen, database, list, &blobs);
    let backup = repository.finish(&manifest)?;
    Ok(Taken { backup, manifest, copied, pruned: 0 })
}

/// The database, as of the snapshot. It flows through us, so that a dump whose taker was killed ends too.
async fn dump(site: &Site, repository: &Repository, snapshot: &str) -> Result<Part, BackupError> {
    const PROGRAM: &str = "pg_dump";
    let mut child = site
        .programs
        .command(PROGRAM, Some(&site.database))
        .args(["--format=custom", "--no-password", "--lock-wait-timeout=60s"])
        .arg(format!("--snapshot={snapshot}"))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(absent(PROGRAM))?;
    let output = child.stdout.take().ok_or_else(|| failed(PROGRAM, b"it has no output"))?;
    let received = repository.blobs.receive(ReaderStream::new(output), DUMP_BYTES_MAX);
    let (received, ended) = tokio::join!(received, child.wait_with_output());
    let (received, ended) = (received?, ended.map_err(absent(PROGRAM))?);
    if !ended.status.success() {
        repository.blobs.discard(&received).await?;
        return Err(failed(PROGRAM, &ended.stderr));
    }
    repository.blobs.publish(&received).await?;
    Ok(Part { digest: received.digest(), bytes: received.bytes() })
}

/// What the directory does not have yet; with all that the backup needs, and how many were copied.
async fn copy(
    site: &Site,
    repository: &Repository,
    referred: Vec<ReferredBlob>,
) -> Result<(Vec<Part>, u64), BackupError> {
    let stored = repository.stored().await?;
    let one = |blob: ReferredBlob| {
        let known = stored.get(&blob.digest).copied();
        async move {
            let bytes = match known {
                Some(bytes) => Ok(bytes),
                None => site.blobs.copy_to(&blob.digest, &repository.blobs, BLOB_BYTES_MAX).await,
            };
            match bytes {
                Ok(bytes) => Ok(Some((Part { digest: blob.digest, bytes }, known.is_none()))),
                Err(BlobError::Missing { .. }) if !blob.is_needed => Ok(None),
                Err(error) => Err(BackupError::from(error)),
            }
        }
    };
    let copied: Vec<Option<(Part, bool)>> =
        stream::iter(referred).map(one).buffered(BLOBS_AT_ONCE).try_collect().await?;
    let there: Vec<(Part, bool)> = copied.into_iter().flatten().collect();
    let new = there.iter().filter(|(_, is_new)| *is_new).count() as u64;
    Ok((there.into_iter().map(|(part, _)| part).collect(), new))
}
