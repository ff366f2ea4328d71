//! Blobs that no row refers to, marked and swept.
//!
//! A blob goes when no row refers to it, and nobody has stored it for the grace time. Whoever stores a blob for a row to
//! come holds a lock that any number may share; whoever removes holds it alone, and looks at the rows and at the blob's
//! age again while it does. So nobody stores a blob between the last look at it and its removal, and from then on its
//! age keeps it until the row is there. Only rows are read; must never remove a blob because a row is missing that it
//! could not read.

use std::time::{Duration, Instant, SystemTime};

use mfaas_blobs::{BlobError, Blobs};
use mfaas_ident::Digest;
use sqlx::pool::PoolConnection;
use sqlx::{PgConnection, Postgres};

use crate::audit::{self, Entry};
use crate::retention::in_days;
use crate::{Actor, Catalog, CatalogError, Retention};

/// The lock of the database between those who store blobs and those who remove them; any number that nobody else takes.
pub(crate) const BLOBS_LOCK: i64 = 0x6D66_6161_735F_626C;
/// Blobs that are looked up in one statement.
const LOOK_MAX: usize = 500;
/// Blobs that are removed while nobody can store any.
const REMOVE_MAX: usize = 32;
/// After that time no further removal begins; what is left goes another time.
const REMOVE_TIME_MAX: Duration = Duration::from_secs(5);

/// Rows refer to a blob as source, artifact, claim, archive, text, asset or dependency cache. Of caches, the newest in the place
/// of each that ships is needed. Of what has ended, `$2` and `$3` days are left.
const UNREFERRED: &str = "
    SELECT w.digest FROM unnest($1::text[]) AS w (digest)
    WHERE NOT EXISTS (SELECT 1 FROM deployments d WHERE d.source_digest = w.digest
              AND (d.state IN ('received', 'building', 'built', 'waiting')
                   OR $2 = 0 OR d.updated_at >= now() - make_interval(days => $2)
                   OR EXISTS (SELECT 1 FROM versions v WHERE v.deployment_id = d.id
                              AND (v.retired_at IS NULL OR v.retired_at >= now() - make_interval(days => $2)))))
      AND NOT EXISTS (SELECT 1 FROM versions v WHERE v.artifact = w.digest
              AND (v.retired_at IS NULL OR $3 = 0 OR v.retired_at >= now() - make_interval(days => $3)))
      AND NOT EXISTS (SELECT 1 FROM deployments d JOIN builds b ON b.deployment_id = d.id
              WHERE d.state = 'built' AND b.claim ->> 'artifact' = w.digest)
      AND NOT EXISTS (SELECT 1 FROM crate_archives a WHERE a.checksum = w.digest)
      AND NOT EXISTS (SELECT 1 FROM crate_files f WHERE f.blob = w.digest)
      AND NOT EXISTS (SELECT 1 FROM resources r WHERE r.digest = w.digest)
      AND NOT EXISTS (SELECT 1 FROM index_entries i WHERE i.archive = w.digest)
      AND NOT EXISTS (SELECT 1 FROM dependency_caches c WHERE c.archive = w.digest
              AND NOT EXISTS (SELECT 1 FROM dependency_caches n
                              WHERE (n.base, n.toolchain) = (c.base, c.toolchain) AND n.id > c.id))";

/// Why rows and blobs could not be looked at together.
#[derive(Debug, thiserror::Error)]
pub enum CollectError {
    /// The registry.
    #[error(transparent)]
    Catalog(#[from] CatalogError),
    /// The store.
    #[error(transparent)]
    Blobs(#[from] BlobError),
}

impl From<sqlx::Error> for CollectError {
    fn from(error: sqlx::Error) -> Self {
        Self::Catalog(error.into())
    }
}

/// No blob is removed while this lives, unless the database loses the connection.
#[derive(Debug)]
pub struct BlobHold(PoolConnection<Postgres>);

impl BlobHold {
    /// Whether it has held until now; asked between the last blob and the row that refers to it.
    pub async fn confirm(&mut self) -> Result<(), CatalogError> {
        sqlx::query("SELECT 1").execute(&mut *self.0).await?;
        Ok(())
    }
}

impl Catalog {
    /// Keeps blobs from being removed, for whoever stores some before there is a row that refers to them.
    pub async fn hold_blobs(&self) -> Result<BlobHold, CatalogError> {
        let mut connection = self.pool.acquire().await?;
        // The lock ends with the connection, which must not go back to others.
        connection.close_on_drop();
        let shared = sqlx::query("SELECT pg_advisory_lock_shared($1)").bind(BLOBS_LOCK);
        shared.execute(&mut *connection).await?;
        Ok(BlobHold(connection))
    }

    /// Removes the blobs whose digest begins with this byte, to which no row refers, and which nobody has stored for
    /// `grace`; answers how many. Uploads and artifacts of what has ended count as long as `kept` says.
    ///
    /// Each batch is in the audit log before the first of it goes. Where those who store blobs leave no gap, or the
    /// store is slow, some are left for another time.
    pub async fn collect_blobs(
        &self,
        blobs: &Blobs,
        kept: &Retention,
        grace: Duration,
        first_byte: u8,
    ) -> Result<u64, CollectError> {
        let Some(before) = SystemTime::now().checked_sub(grace) else { return Ok(0) };
        let listed = blobs.list(first_byte).await?;
        let old: Vec<Digest> =
            listed.iter().filter(|blob| blob.stored_at < before).map(|blob| blob.digest).collect();
        let mut removed = 0;
        for some in old.chunks(LOOK_MAX) {
            let mut connection = self.pool.acquire().await?;
            let candidates = unreferred(&mut connection, kept, some).await?;
            drop(connection);
            for batch in candidates.chunks(REMOVE_MAX) {
                removed += self.remove(blobs, kept, before, batch).await?;
            }
        }
        Ok(removed)
    }

    /// The second look, and the removal, while nobody can store a blob: until the store has answered, however long that
    /// takes.
    async fn remove(
        &self,
        blobs: &Blobs,
        kept: &Retention,
        before: SystemTime,
        batch: &[Digest],
    ) -> Result<u64, CollectError> {
        let mut alone = self.pool.acquire().await?;
        alone.close_on_drop();
        if !keep_others_out(&mut alone).await? {
            return Ok(0);
        }
        let batch = unreferred(&mut alone, kept, batch).await?;
        if batch.is_empty() {
            return Ok(0);
        }
        self.record_removal(&batch).await?;
        let (began, mut removed) = (Instant::now(), 0);
        for digest in batch.iter().take_while(|_| began.elapsed() < REMOVE_TIME_MAX) {
            removed += u64::from(blobs.remove_older(digest, before).await?);
        }
        Ok(removed)
    }

    /// In a transaction of its own: what is about to go is on record even if this program does not live to see it gone.
    async fn record_removal(&self, batch: &[Digest]) -> Result<(), CatalogError> {
        let mut tx = self.begin().await?;
        let actor = &Actor::program("mfaas-server");
        let detail = serde_json::json!({ "blobs": batch });
        audit::append(&mut tx, Entry { actor, action: "blobs.collected", tenant: "", subject: "", detail })
            .await?;
        Ok(tx.commit().await?)
    }
}

/// Shares the lock until the caller's transaction ends: its row and its blob come together.
pub(crate) async fn hold(connection: &mut PgConnection) -> Result<(), CatalogError> {
    sqlx::query("SELECT pg_advisory_xact_lock_shared($1)").bind(BLOBS_LOCK).execute(connection).await?;
    Ok(())
}

/// Takes the lock alone, until the connection ends; `false` when it is not to be had within two seconds, during which
/// those who store blobs wait behind us.
async fn keep_others_out(connection: &mut PgConnection) -> Result<bool, CatalogError> {
    sqlx::query("SET lock_timeout = '2s'").execute(&mut *connection).await?;
    match sqlx::query("SELECT pg_advisory_lock($1)").bind(BLOBS_LOCK).execute(connection).await {
        Err(sqlx::Error::Database(error)) if error.code().as_deref() == Some("55P03") => Ok(false),
        locked => Ok(locked.map(|_| true)?),
    }
}

/// Those to which no row refers.
async fn unreferred(
    connection: &mut PgConnection,
    kept: &Retention,
    digests: &[Digest],
) -> Result<Vec<Digest>, CatalogError> {
    let names: Vec<String> = digests.iter().map(Digest::to_string).collect();
    let found: Vec<String> = sqlx::query_scalar(UNREFERRED)
        .bind(names)
        .bind(in_days(kept.uploads_days))
        .bind(in_days(kept.artifacts_days))
        .fetch_all(connection)
        .await?;
    Ok(digests.iter().filter(|digest| found.contains(&digest.to_string())).copied().collect())
}
