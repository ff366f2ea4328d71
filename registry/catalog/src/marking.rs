//! Which blob store is this registry's: the one that holds what rows refer to.
//!
//! A directory that nothing is mounted over answers like a store that has lost everything, and would end every deployment
//! that waits. So programs demand a marker, and it is put here, where the rows are: must never mark a store that has nothing
//! of what there should be.

use mfaas_blobs::{BlobError, Blobs};
use mfaas_ident::Digest;

use crate::Catalog;
use crate::collecting::CollectError;
use crate::decode::bad;

/// Blobs of each kind that are looked for. One that is there is enough: single ones may be damaged.
const SAMPLE_MAX: i64 = 16;

/// Blobs that nobody collects: of versions that can be called, of open deployments, of crates, of assets.
const NEEDED: &str = "
    (SELECT artifact AS digest FROM versions WHERE retired_at IS NULL LIMIT $1)
    UNION ALL (SELECT source_digest FROM deployments
               WHERE state IN ('received', 'building', 'built', 'waiting') LIMIT $1)
    UNION ALL (SELECT checksum FROM crate_archives LIMIT $1)
    UNION ALL (SELECT digest FROM resources WHERE digest IS NOT NULL LIMIT $1)";

impl Catalog {
    /// Marks a blob store that is not marked, if this registry needs no blob yet or the store has one that it needs.
    ///
    /// # Errors
    /// [`BlobError::Unmarked`] when it has none of them: then it is another store, or none.
    pub async fn mark_blob_store(&self, blobs: &Blobs) -> Result<(), CollectError> {
        let unmarked = match blobs.ready().await {
            Err(error @ BlobError::Unmarked { .. }) => error,
            answer => return Ok(answer?),
        };
        let needed: Vec<String> = sqlx::query_scalar(NEEDED).bind(SAMPLE_MAX).fetch_all(&self.pool).await?;
        let mut is_ours = needed.is_empty();
        for digest in needed {
            let digest = Digest::parse(&digest).map_err(|error| bad("digest", error))?;
            is_ours = is_ours || blobs.exists(&digest).await?;
        }
        match is_ours {
            true => Ok(blobs.mark().await?),
            false => Err(unmarked.into()),
        }
    }
}
