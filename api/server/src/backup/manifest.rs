//! What a backup is: the names of its parts, and what they were taken from.

use chrono::{DateTime, Utc};
use mfaas_attest::AuditHead;
use mfaas_ident::{Digest, Epoch};
use serde::{Deserialize, Serialize};

use crate::backup::error::BackupError;

/// The form that this release writes and reads.
const FORMAT: u32 = 1;

/// Bytes of the directory's store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Part {
    /// Their SHA-256.
    pub digest: Digest,
    /// How many.
    pub bytes: u64,
}

/// The parts of one backup.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    format: u32,
    /// The release that made it.
    pub release: String,
    /// The moment that it shows.
    pub taken_at: DateTime<Utc>,
    /// The newest migration of the database.
    pub schema: i64,
    /// Where the audit log ended.
    pub audit_head: AuditHead,
    /// The newest serving set.
    pub epoch: Epoch,
    /// The database, as `pg_dump --format=custom` wrote it.
    pub database: Part,
    /// The list of blobs: a line for each, digest and bytes.
    pub list: Part,
    /// How many they are.
    pub blobs: u64,
    /// Their bytes together.
    pub blob_bytes: u64,
}

/// What every format says, to tell a newer one from a damaged one.
#[derive(Deserialize)]
struct Head {
    format: u32,
    release: String,
}

impl Manifest {
    /// Of this release.
    pub(crate) fn new(
        taken_at: DateTime<Utc>,
        (schema, audit_head, epoch): (i64, AuditHead, Epoch),
        database: Part,
        list: Part,
        blobs: &[Part],
    ) -> Self {
        Self {
            format: FORMAT,
            release: env!("CARGO_PKG_VERSION").to_owned(),
            taken_at,
            schema,
            audit_head,
            epoch,
            database,
            list,
            blobs: blobs.len() as u64,
            blob_bytes: blobs.iter().map(|blob| blob.bytes).sum(),
        }
    }

    /// Reads one, and refuses what this release cannot restore.
    pub(crate) fn read(backup: &str, bytes: &[u8]) -> Result<Self, BackupError> {
        let damaged = |error: serde_json::Error| BackupError::Damaged {
            backup: backup.to_owned(),
            what: "the manifest",
            cause: error.to_string(),
        };
        let newer = |release: &str, what: String| BackupError::Newer {
            backup: backup.to_owned(),
            release: mfaas_ident::sanitise_line(release, 40),
            what,
        };
        let head: Head = serde_json::from_slice(bytes).map_err(damaged)?;
        if head.format != FORMAT {
            let what = format!("its format is {}, this release knows {FORMAT}", head.format);
            return Err(newer(&head.release, what));
        }
        let manifest: Self = serde_json::from_slice(bytes).map_err(damaged)?;
        let known = mfaas_catalog::schema_version();
        if manifest.schema > known {
            let what = format!("its schema is {}, this release knows {known}", manifest.schema);
            return Err(newer(&manifest.release, what));
        }
        Ok(manifest)
    }
}

/// A line for each blob.
pub(crate) fn list_of(blobs: &[Part]) -> String {
    blobs.iter().map(|blob| format!("{} {}\n", blob.digest, blob.bytes)).collect()
}

/// The blobs of a list; `None` when it is none.
pub(crate) fn parse_list(text: &[u8]) -> Option<Vec<Part>> {
    let line = |line: &str| {
        let (digest, bytes) = line.split_once(' ')?;
        Some(Part { digest: Digest::parse(digest).ok()?, bytes: bytes.parse().ok()? })
    };
    std::str::from_utf8(text).ok()?.lines().map(line).collect()
}

#[cfg(test)]
mod tests;
