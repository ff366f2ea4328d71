//! What a backup sees: the database at one moment, and the blobs that its rows refer to.
//!
//! The sweeper is kept out from before the moment until the blobs are copied, by the lock that all share who store blobs. Must
//! never count a blob as let go that something needs which can still be called or built.

use mfaas_attest::AuditHead;
use mfaas_ident::{Digest, Epoch};
use sqlx::{PgConnection, Row as _};

use crate::CatalogError;
use crate::collecting::BLOBS_LOCK;
use crate::connection::connect_as_owner;
use crate::decode::{parsed, unsigned};

/// Every blob that a row refers to. Sources and artifacts of what has ended may have been forgotten, and archives of the
/// index are fetched again; the others have to be there.
const REFERRED: &str = "
    SELECT digest, bool_or(needed) AS needed FROM (
        SELECT d.source_digest AS digest, d.state IN ('received', 'building', 'built', 'waiting')
               OR EXISTS (SELECT 1 FROM versions v WHERE v.deployment_id = d.id AND v.retired_at IS NULL) AS needed
        FROM deployments d
        UNION ALL SELECT artifact, retired_at IS NULL FROM versions
        UNION ALL SELECT b.claim ->> 'artifact', true FROM deployments d JOIN builds b ON b.deployment_id = d.id
                  WHERE d.state = 'built' AND b.claim ->> 'artifact' IS NOT NULL
        UNION ALL SELECT checksum, true FROM crate_archives
        UNION ALL SELECT blob, true FROM crate_files
        UNION ALL SELECT digest, true FROM resources WHERE digest IS NOT NULL
        UNION ALL SELECT archive, false FROM index_entries
        UNION ALL SELECT c.archive, NOT EXISTS (SELECT 1 FROM dependency_caches n
                      WHERE (n.base, n.toolchain) = (c.base, c.toolchain) AND n.id > c.id)
                  FROM dependency_caches c WHERE c.archive IS NOT NULL
    ) AS referred (digest, needed)
    GROUP BY digest ORDER BY digest";

/// A blob that a row refers to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReferredBlob {
    /// Its name.
    pub digest: Digest,
    /// Whether the registry is damaged without it; others may have been forgotten.
    pub is_needed: bool,
}

/// The database at one moment, while no blob is removed.
#[derive(Debug)]
pub struct Snapshot {
    connection: PgConnection,
    id: String,
    /// The newest migration that was applied.
    pub schema: i64,
    /// Where the audit log ended.
    pub audit_head: AuditHead,
    /// The newest serving set.
    pub epoch: Epoch,
}

impl Snapshot {
    /// Waits for a removal of blobs that is under way, and takes one as the owner.
    pub async fn take(owner_url: &str) -> Result<Self, CatalogError> {
        let mut connection = connect_as_owner(owner_url, "mfaas-backup").await?;
        let hold = sqlx::query("SELECT pg_advisory_lock_shared($1)").bind(BLOBS_LOCK);
        hold.execute(&mut connection).await?;
        sqlx::raw_sql("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY").execute(&mut connection).await?;
        let row = sqlx::query(
            "SELECT pg_export_snapshot() AS id, (SELECT max(version) FROM _sqlx_migrations WHERE success) AS schema,
                    h.seq, h.hash, (SELECT coalesce(max(epoch), 0) FROM serving_sets) AS epoch
             FROM audit_head h",
        )
        .fetch_one(&mut connection)
        .await?;
        Ok(Self {
            id: row.try_get("id")?,
            schema: row.try_get("schema")?,
            audit_head: AuditHead { row: unsigned(&row, "seq")?, hash: parsed(&row, "hash")? },
            epoch: Epoch(unsigned(&row, "epoch")?),
            connection,
        })
    }

    /// Its name for `pg_dump --snapshot`, until [`Self::end`].
    pub fn id(&self) -> &str {
        &self.id
    }

    /// What its rows refer to, by digest.
    pub async fn blobs(&mut self) -> Result<Vec<ReferredBlob>, CatalogError> {
        let rows = sqlx::query(REFERRED).fetch_all(&mut self.connection).await?;
        let blob = |row| {
            Ok::<_, sqlx::Error>(ReferredBlob {
                digest: parsed(row, "digest")?,
                is_needed: row.try_get("needed")?,
            })
        };
        Ok(rows.iter().map(blob).collect::<Result<_, _>>()?)
    }

    /// Lets the moment go, which keeps dead rows of the whole database, and the sweeper still not.
    pub async fn end(&mut self) -> Result<(), CatalogError> {
        sqlx::raw_sql("COMMIT").execute(&mut self.connection).await?;
        Ok(())
    }

    /// Whether no blob was removed until now; asked when the last one is copied. The lock ends with the connection.
    pub async fn confirm(mut self) -> Result<(), CatalogError> {
        let unlocked: bool = sqlx::query_scalar("SELECT pg_advisory_unlock_shared($1)")
            .bind(BLOBS_LOCK)
            .fetch_one(&mut self.connection)
            .await?;
        if unlocked {
            return Ok(());
        }
        Err(CatalogError::Conflict { reason: "the lock of blobs was lost".to_owned() })
    }
}
