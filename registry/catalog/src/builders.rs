//! The builders: who is there, who says that it cannot build, and how many have to agree.

use chrono::{DateTime, Utc};
use sqlx::Row as _;
use sqlx::postgres::PgRow;

use crate::builds::BUILDER_ALIVE_SECONDS;
use crate::decode::{Decoded, small, unsigned};
use crate::{Catalog, CatalogError};

/// Builders that are listed; a site has a few.
const BUILDERS_SHOWN_MAX: i64 = 1_000;

/// An instance of the builder that was seen lately.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Builder {
    /// One start of the program.
    pub instance: String,
    /// The database role that it connects with: builders with one role count as one where several have to agree.
    pub role: String,
    /// When it last spoke to the database.
    pub seen_at: DateTime<Utc>,
    /// Why it takes no builds, in its own words; absent when it takes some.
    pub unwell: Option<String>,
}

/// Builds that are not done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BuildQueue {
    /// Nobody works on them.
    pub queued: u64,
    /// A builder holds them.
    pub running: u64,
    /// Of the queued ones, those that another builder has to make as well.
    pub awaiting_agreement: u64,
    /// Since when the oldest of the queued ones is in the queue, in seconds.
    pub oldest_queued_seconds: u64,
}

impl Catalog {
    /// The builders that were seen within half a minute.
    pub async fn builders(&self) -> Result<Vec<Builder>, CatalogError> {
        let rows = sqlx::query(
            "SELECT instance, coalesce(role, 'mfaas_builder')::text AS role, seen_at, unwell FROM builders
             WHERE seen_at > now() - make_interval(secs => $1) ORDER BY role, instance LIMIT $2",
        )
        .bind(f64::from(BUILDER_ALIVE_SECONDS))
        .bind(BUILDERS_SHOWN_MAX)
        .fetch_all(&self.pool)
        .await?;
        Ok(rows.iter().map(builder).collect::<Decoded<_>>()?)
    }

    /// How many builders have to make the same before it is signed, as the signer that started last has said; `None`
    /// before one of this release has.
    pub async fn builds_agreement(&self) -> Result<Option<u32>, CatalogError> {
        let row = sqlx::query("SELECT builders FROM agreement").fetch_one(&self.pool).await?;
        match row.try_get::<Option<i32>, _>("builders")? {
            None => Ok(None),
            Some(_) => Ok(Some(small(&row, "builders")?)),
        }
    }

    /// What builders have before them.
    pub async fn build_queue(&self) -> Result<BuildQueue, CatalogError> {
        let row = sqlx::query(
            "SELECT count(*) FILTER (WHERE NOT is_held) AS queued, count(*) FILTER (WHERE is_held) AS running,
                    count(*) FILTER (WHERE NOT is_held AND rounds > 0) AS awaiting_agreement,
                    greatest(0, extract(epoch FROM now() - min(queued_at) FILTER (WHERE NOT is_held)))::bigint AS oldest
             FROM (SELECT queued_at, rounds, coalesce(lease_expires_at >= now(), false) AS is_held FROM builds
                   WHERE finished_at IS NULL) open",
        )
        .fetch_one(&self.pool)
        .await?;
        Ok(BuildQueue {
            queued: unsigned(&row, "queued")?,
            running: unsigned(&row, "running")?,
            awaiting_agreement: unsigned(&row, "awaiting_agreement")?,
            oldest_queued_seconds: unsigned(&row, "oldest")?,
        })
    }
}

fn builder(row: &PgRow) -> Decoded<Builder> {
    Ok(Builder {
        instance: row.try_get("instance")?,
        role: row.try_get("role")?,
        seen_at: row.try_get("seen_at")?,
        unwell: row.try_get("unwell")?,
    })
}
