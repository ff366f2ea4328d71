//! Events of objects: which changes functions are to be called for, and which of these calls are still to be made.
//!
//! Events are written where the objects' entries change, by the schema itself. This is the side of the servers, whose role in the
//! database may read and change triggers and events, and nothing of functions' data. An event is handed out for a while: whoever
//! does not say in time how the call ended has lost it to the next one. Must never read entries.

use std::time::Duration;

use mfaas_ident::{ResourceName, TenantName};
use sqlx::postgres::{PgPoolOptions, PgRow};
use sqlx::{PgPool, Row as _};
use uuid::Uuid;

use crate::connection::only_server;
use crate::decode::Decoded;
use crate::{CatalogError, Trigger};

/// Calls a second of one trigger, and how many seconds of them may be made up for at once.
pub const TRIGGER_CALLS_PER_SECOND: u32 = 50;
const BURST_SECONDS: u32 = 2;

/// Connections, of which few are needed: statements are short.
const CONNECTIONS_MAX: u32 = 4;
const ACQUIRE_MAX: Duration = Duration::from_secs(3);

/// An event that was handed out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WaitingEvent {
    /// Its number; of one object, later ones have larger numbers.
    pub id: i64,
    /// Of which trigger.
    pub trigger: Uuid,
    /// Whose.
    pub tenant: String,
    /// The object's name.
    pub name: Vec<u8>,
    /// `put` or `delete`.
    pub event: String,
    /// How many bytes were put.
    pub bytes: Option<u64>,
    /// When, in milliseconds since 1970.
    pub changed_at_ms: i64,
    /// Which call it is for: the first is 1.
    pub tries: u32,
}

/// How a call for an event ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventEnd {
    /// The function has answered.
    Delivered,
    /// It is called again after this time.
    Again(Duration),
    /// It is not called again.
    Failed,
    /// It was not called, and will not be.
    Dropped,
}

/// What is known of how it ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EndedCall<'a> {
    /// In a word.
    pub outcome: &'a str,
    /// The status of the answer.
    pub status: Option<u16>,
    /// The code of what went wrong.
    pub code: Option<&'a str>,
}

/// What came of a trigger's events.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TriggerState {
    /// That were answered.
    pub delivered: u64,
    /// That the function was called for in vain.
    pub failed: u64,
    /// That were given up without a further call.
    pub dropped: u64,
    /// That wait, or are being called for.
    pub waiting: u64,
    /// When the first of these changes was, in milliseconds since 1970.
    pub oldest_ms: Option<i64>,
    /// When the last call ended, in milliseconds since 1970, and how: a word, a status, a code.
    pub last: Option<(i64, String, Option<u16>, Option<String>)>,
}

/// How many events wait in all, and for how many seconds the first one has.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct EventsInAll {
    /// How many.
    pub events: u64,
    /// Since when, in seconds.
    pub oldest_seconds: f64,
}

/// The triggers and events of a site. Cheap to clone.
#[derive(Debug, Clone)]
pub struct ObjectEvents {
    pool: PgPool,
}

impl ObjectEvents {
    /// Connects when it is asked for something; brokers make the schema.
    pub fn open(url: &str) -> Result<Self, CatalogError> {
        let options = only_server(url, "mfaas-events")?.options([("search_path", "mfaas_data")]);
        let pool = PgPoolOptions::new().max_connections(CONNECTIONS_MAX).acquire_timeout(ACQUIRE_MAX);
        Ok(Self { pool: pool.connect_lazy_with(options) })
    }

    /// Whether the names of a resource's objects would lie here, and not in another store.
    pub async fn lies_here(&self, resource: &ResourceName) -> Result<bool, CatalogError> {
        let ask = sqlx::query_scalar("SELECT NOT EXISTS (SELECT FROM homes WHERE resource = $1)");
        Ok(ask.bind(resource.as_str()).fetch_one(&self.pool).await?)
    }

    /// The numbers of all triggers that are known here, and whether changes are events of them. Who calls [`Self::remove`] with some of them has to know that each was set
    /// before it was told to [`Self::watch`].
    pub async fn known(&self) -> Result<Vec<(Uuid, bool)>, CatalogError> {
        let all = sqlx::query_as("SELECT id, enabled FROM triggers").fetch_all(&self.pool);
        Ok(all.await?)
    }

    /// Changes are events of this trigger from now on, if its tenant may read them; if not, those that wait are dropped. Repeatable.
    pub async fn watch(&self, trigger: &Trigger) -> Result<(), CatalogError> {
        let set = sqlx::query(
            "INSERT INTO triggers (id, tenant, function, resource, prefix, on_put, on_delete, enabled)
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
             ON CONFLICT (id) DO UPDATE SET enabled = $8 WHERE triggers.enabled <> $8",
        )
        .bind(trigger.id)
        .bind(trigger.tenant.as_str())
        .bind(trigger.function.as_str())
        .bind(trigger.changes.resource.as_str())
        .bind(trigger.changes.prefix.as_bytes())
        .bind(trigger.changes.on_put)
        .bind(trigger.changes.on_delete)
        .bind(trigger.is_granted);
        self.change(set).await?;
        if trigger.is_granted {
            return Ok(());
        }
        self.change(
            sqlx::query(
                "WITH gone AS (DELETE FROM events WHERE trigger = $1 RETURNING id)
                 UPDATE triggers SET dropped = dropped + (SELECT count(*) FROM gone)
                 WHERE id = $1 AND EXISTS (SELECT FROM gone)",
            )
            .bind(trigger.id),
        )
        .await
    }

    /// These are no triggers any more, and their events are none.
    pub async fn remove(&self, triggers: &[Uuid]) -> Result<(), CatalogError> {
        self.change(sqlx::query("DELETE FROM triggers WHERE id = ANY ($1)").bind(triggers)).await?;
        self.change(sqlx::query("DELETE FROM events WHERE trigger = ANY ($1)").bind(triggers)).await
    }

    /// Hands out the event that is due longest of the trigger that was called longest ago, for so long, if there is one of a tenant
    /// that is not among the `busy`.
    pub async fn claim(
        &self,
        busy: &[TenantName],
        lease: Duration,
    ) -> Result<Option<WaitingEvent>, CatalogError> {
        let busy: Vec<&str> = busy.iter().map(TenantName::as_str).collect();
        let row = sqlx::query(
            "WITH due AS (
                 SELECT e.id, t.id AS trigger, t.tenant FROM triggers t CROSS JOIN LATERAL (
                     SELECT id FROM events WHERE trigger = t.id AND due_at <= now()
                     ORDER BY due_at LIMIT 1 FOR UPDATE SKIP LOCKED) e
                 WHERE t.enabled AND t.next_call_at <= now() AND t.tenant <> ALL ($1)
                 ORDER BY t.next_call_at LIMIT 1
             ), paced AS (
                 UPDATE triggers SET next_call_at =
                     greatest(next_call_at, now() - $3 * interval '1 second') + interval '1 second' / $4
                 FROM due WHERE triggers.id = due.trigger
             )
             UPDATE events SET tries = tries + 1, due_at = now() + $2 * interval '1 second'
             FROM due WHERE events.id = due.id
             RETURNING events.id, events.trigger, due.tenant, name, event, bytes, tries,
                 (extract(epoch FROM changed_at) * 1000)::bigint AS changed_at_ms",
        )
        .bind(&busy)
        .bind(lease.as_secs_f64())
        .bind(f64::from(BURST_SECONDS))
        .bind(f64::from(TRIGGER_CALLS_PER_SECOND))
        .fetch_optional(&self.pool)
        .await?;
        Ok(row.as_ref().map(event).transpose()?)
    }

    /// Tells how a call for an event ended; nothing, if the event was handed out again meanwhile.
    pub async fn end(
        &self,
        event: &WaitingEvent,
        end: EventEnd,
        call: EndedCall<'_>,
    ) -> Result<(), CatalogError> {
        let (again, [delivered, failed, dropped]) = match end {
            EventEnd::Delivered => (None, [1_i64, 0, 0]),
            EventEnd::Again(after) => (Some(after), [0, 0, 0]),
            EventEnd::Failed => (None, [0, 1, 0]),
            EventEnd::Dropped => (None, [0, 0, 1]),
        };
        let statement = if again.is_some() {
            "WITH ended AS (UPDATE events SET due_at = now() + $3 * interval '1 second' WHERE id = $1 AND tries = $2 RETURNING trigger)"
        } else {
            "WITH ended AS (DELETE FROM events WHERE id = $1 AND tries = $2 AND $3 = 0 RETURNING trigger)"
        };
        let sql = format!(
            "{statement} UPDATE triggers SET delivered = delivered + $4, failed = failed + $5, dropped = dropped + $6,
                 ended_at = now(), outcome = $7, status = $8, code = $9
             FROM ended WHERE triggers.id = ended.trigger"
        );
        self.change(
            sqlx::query(sqlx::AssertSqlSafe(sql))
                .bind(event.id)
                .bind(i32::try_from(event.tries).unwrap_or(i32::MAX))
                .bind(again.unwrap_or_default().as_secs_f64())
                .bind(delivered)
                .bind(failed)
                .bind(dropped)
                .bind(call.outcome)
                .bind(call.status.map(i32::from))
                .bind(call.code),
        )
        .await
    }

    /// What came of these triggers' events, of those that are known here.
    pub async fn states(&self, triggers: &[Uuid]) -> Result<Vec<(Uuid, TriggerState)>, CatalogError> {
        let rows = sqlx::query(
            "SELECT t.id, delivered, failed, dropped, outcome, status, code, waiting, oldest_ms,
                 (extract(epoch FROM ended_at) * 1000)::bigint AS ended_ms
             FROM triggers t CROSS JOIN LATERAL (
                 SELECT count(*) AS waiting, (extract(epoch FROM min(changed_at)) * 1000)::bigint AS oldest_ms
                 FROM events e WHERE e.trigger = t.id) w
             WHERE t.id = ANY ($1)",
        )
        .bind(triggers)
        .fetch_all(&self.pool)
        .await?;
        Ok(rows.iter().map(state).collect::<Result<_, _>>()?)
    }

    /// How many events wait in all.
    pub async fn waiting(&self) -> Result<EventsInAll, CatalogError> {
        let (events, oldest_seconds): (i64, Option<f64>) = sqlx::query_as(
            "SELECT count(*), extract(epoch FROM now() - min(changed_at))::float8 FROM events",
        )
        .fetch_one(&self.pool)
        .await?;
        Ok(EventsInAll {
            events: unsigned(events),
            oldest_seconds: oldest_seconds.unwrap_or_default().max(0.0),
        })
    }

    async fn change(
        &self,
        statement: sqlx::query::Query<'_, sqlx::Postgres, sqlx::postgres::PgArguments>,
    ) -> Result<(), CatalogError> {
        statement.execute(&self.pool).await?;
        Ok(())
    }
}

fn event(row: &PgRow) -> Decoded<WaitingEvent> {
    Ok(WaitingEvent {
        id: row.try_get("id")?,
        trigger: row.try_get("trigger")?,
        tenant: row.try_get("tenant")?,
        name: row.try_get("name")?,
        event: row.try_get("event")?,
        bytes: row.try_get::<Option<i64>, _>("bytes")?.map(unsigned),
        changed_at_ms: row.try_get("changed_at_ms")?,
        tries: u32::try_from(row.try_get::<i32, _>("tries")?).unwrap_or(u32::MAX),
    })
}

fn state(row: &PgRow) -> Decoded<(Uuid, TriggerState)> {
    let count = |column| row.try_get::<i64, _>(column).map(unsigned);
    let ended: Option<i64> = row.try_get("ended_ms")?;
    let outcome: Option<String> = row.try_get("outcome")?;
    let status = row.try_get::<Option<i32>, _>("status")?.and_then(|status| u16::try_from(status).ok());
    let code: Option<String> = row.try_get("code")?;
    let last = ended.zip(outcome).map(|(at, outcome)| (at, outcome, status, code));
    let state = TriggerState {
        delivered: count("delivered")?,
        failed: count("failed")?,
        dropped: count("dropped")?,
        waiting: count("waiting")?,
        oldest_ms: row.try_get("oldest_ms")?,
        last,
    };
    Ok((row.try_get("id")?, state))
}

fn unsigned(number: i64) -> u64 {
    u64::try_from(number).unwrap_or_default()
}
