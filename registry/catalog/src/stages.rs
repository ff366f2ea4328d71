//! How long the stages of deployments took that have ended, in the order in which they ended.

use std::time::Duration;

use chrono::{DateTime, Utc};
use mfaas_delivery::Stage;
use sqlx::Row as _;
use sqlx::postgres::PgRow;
use uuid::Uuid;

use crate::decode::Decoded;
use crate::{Catalog, CatalogError};

/// Deployments that are looked at in one go. Each has some dozens of events.
const ENDED_MAX: i64 = 100;

/// The longest time that counts, in milliseconds: no stage takes a day, and what a builder tells is its own word.
const STAGE_MS_MAX: u64 = 24 * 3_600 * 1_000;

/// Up to which deployment somebody has looked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EndedUntil {
    at: DateTime<Utc>,
    id: Uuid,
}

/// What a further look has found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StageTimes {
    /// From here the next look goes on.
    pub until: EndedUntil,
    /// There may be more at once.
    pub is_cut: bool,
    /// From the upload to the first claim, for each deployment that was claimed.
    pub queued: Vec<Duration>,
    /// What builders tell of the stages that they have finished.
    pub finished: Vec<(Stage, Duration)>,
}

impl Catalog {
    /// Where somebody begins who wants to know of deployments that end from now on.
    pub async fn ended_until_now(&self) -> Result<EndedUntil, CatalogError> {
        let at = sqlx::query_scalar("SELECT now()").fetch_one(&self.pool).await?;
        Ok(EndedUntil { at, id: Uuid::nil() })
    }

    /// Of the next deployments that have ended, how long their stages took. Those that ended less than `settle` ago wait
    /// for the next look, since an earlier one may not be committed yet.
    pub async fn stage_times(&self, from: EndedUntil, settle: Duration) -> Result<StageTimes, CatalogError> {
        let ended = sqlx::query(
            "SELECT d.id, d.updated_at,
                    extract(epoch FROM b.started_at - d.created_at)::float8 AS queued
             FROM deployments d LEFT JOIN builds b ON b.deployment_id = d.id
             WHERE d.state IN ('admitted', 'refused', 'failed') AND d.forgotten_at IS NULL
               AND d.updated_at >= $1 AND (d.updated_at, d.id) > ($1, $2)
               AND d.updated_at <= now() - make_interval(secs => $3)
             ORDER BY d.updated_at, d.id LIMIT $4",
        )
        .bind(from.at)
        .bind(from.id)
        .bind(settle.as_secs_f64())
        .bind(ENDED_MAX)
        .fetch_all(&self.pool)
        .await?;
        let ids: Vec<Uuid> = ended.iter().map(|row| row.try_get("id")).collect::<Decoded<_>>()?;
        let until = match ended.last() {
            Some(row) => EndedUntil { at: row.try_get("updated_at")?, id: row.try_get("id")? },
            None => from,
        };
        let queued: Vec<Option<f64>> =
            ended.iter().map(|row| row.try_get("queued")).collect::<Decoded<_>>()?;
        let queued = queued.into_iter().flatten().filter_map(|s| Duration::try_from_secs_f64(s).ok());
        let rows = sqlx::query(
            "SELECT body ->> 'stage' AS stage, body ->> 'wall_ms' AS wall_ms FROM deployment_events
             WHERE deployment_id = ANY($1) AND body ->> 'kind' = 'finished'",
        )
        .bind(&ids)
        .fetch_all(&self.pool)
        .await?;
        let told: Vec<Option<(Stage, Duration)>> = rows.iter().map(finished).collect::<Decoded<_>>()?;
        Ok(StageTimes {
            until,
            is_cut: ids.len() as i64 == ENDED_MAX,
            queued: queued.collect(),
            finished: told.into_iter().flatten().collect(),
        })
    }
}

/// A builder that was taken over may tell anything; what is no time of a stage is passed over.
fn finished(row: &PgRow) -> Decoded<Option<(Stage, Duration)>> {
    let stage: Option<String> = row.try_get("stage")?;
    let wall_ms: Option<String> = row.try_get("wall_ms")?;
    let stage = stage.and_then(|word| Stage::parse(&word));
    let wall_ms = wall_ms.and_then(|digits| digits.parse().ok()).filter(|ms| *ms <= STAGE_MS_MAX);
    Ok(stage.zip(wall_ms.map(Duration::from_millis)))
}
