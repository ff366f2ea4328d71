//! Events of objects: the schema writes them where the objects' entries change, and servers hand them out, which have rights to triggers
//! and events alone. Here is what bounds them, also where no server runs.

use crate::KvError;
use crate::store::Store;

/// Events of one trigger that wait; what comes beyond is dropped, the latest first.
pub const WAITING_EVENTS_MAX: i64 = 10_000;

impl Store {
    /// Drops events that are more than may wait, the latest first, and those of triggers that are off or none any more: so many of each at most.
    pub(crate) async fn drop_events(&self, dropped_max: i64) -> Result<u64, KvError> {
        let drop = sqlx::query_as(
            "WITH gone AS (
                 DELETE FROM events WHERE id IN (
                     SELECT e.id FROM triggers t CROSS JOIN LATERAL (
                         SELECT id FROM events WHERE trigger = t.id ORDER BY id OFFSET $2 LIMIT $1) e
                     UNION ALL
                     (SELECT id FROM events
                      WHERE NOT EXISTS (SELECT FROM triggers t WHERE t.id = events.trigger AND t.enabled) LIMIT $1))
                 RETURNING trigger
             ), counted AS (
                 UPDATE triggers SET dropped = dropped + lost.events
                 FROM (SELECT trigger, count(*) AS events FROM gone GROUP BY trigger) lost
                 WHERE triggers.id = lost.trigger
             )
             SELECT count(*) FROM gone",
        )
        .bind(dropped_max)
        .bind(WAITING_EVENTS_MAX);
        let (dropped,): (i64,) = self.other.fetch_one(drop).await.map_err(KvError::unavailable)?;
        Ok(u64::try_from(dropped).unwrap_or_default())
    }
}
