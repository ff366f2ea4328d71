//! Deployments: recorded once per idempotency key, followed by their events.

use chrono::{DateTime, Utc};
use mfaas_delivery::{DeploymentState, Diagnostic, Event, Stage};
use mfaas_ident::{DeploymentId, Digest, FunctionName, PersonName, TenantName, TraceParent, VersionNumber};
use sqlx::postgres::PgRow;
use sqlx::{PgConnection, Row as _};

use crate::audit::{self, Entry};
use crate::decode::{Decoded, int8, json, parsed, small_opt, trace_parent, unsigned, word};
use crate::{Actor, Catalog, CatalogError, collecting};

/// One upload and what came of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Deployment {
    /// Its id.
    pub id: DeploymentId,
    /// Owner.
    pub tenant: TenantName,
    /// The function it is for; there may be none of that name yet.
    pub function: FunctionName,
    /// SHA-256 of the upload.
    pub source_digest: Digest,
    /// Size of the upload.
    pub source_bytes: u64,
    /// Who uploaded it.
    pub submitted_by: String,
    /// Where it stands.
    pub state: DeploymentState,
    /// What stopped it, or warnings.
    pub diagnostics: Vec<Diagnostic>,
    /// What it became; only when admitted.
    pub version: Option<VersionNumber>,
    /// How often a builder took it.
    pub attempt: u32,
    /// When it was received.
    pub created_at: DateTime<Utc>,
    /// When its state or events changed last.
    pub updated_at: DateTime<Utc>,
}

/// An upload that is in the blob store already.
#[derive(Debug, Clone)]
pub struct NewDeployment<'a> {
    /// Owner.
    pub tenant: &'a TenantName,
    /// The function it is for.
    pub function: &'a FunctionName,
    /// On whose behalf.
    pub person: &'a PersonName,
    /// The client's key, 1 to 200 characters; unique within the tenant.
    pub idempotency_key: &'a str,
    /// SHA-256, computed by the server while it stored the bytes.
    pub source_digest: Digest,
    /// Size of the upload.
    pub source_bytes: u64,
    /// Where it stands in a trace.
    pub trace_parent: Option<TraceParent>,
}

/// What became of a new deployment.
#[derive(Debug, Clone, PartialEq)]
pub enum Recorded {
    /// It is new and queued.
    Created(Deployment),
    /// The same upload with the same key was here before; this is it, as it stands now.
    Repeated(Deployment),
}

/// What one tenant may have, in the queue (that which is being built included) and in all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueueLimits {
    /// Deployments.
    pub deployments_max: u64,
    /// Bytes of their sources together.
    pub source_bytes_max: u64,
    /// Functions that are not deleted, those in the queue included.
    pub functions_max: u64,
}

/// How many deployments are in a state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StateCount {
    /// The state.
    pub state: DeploymentState,
    /// How many.
    pub count: u64,
}

impl Catalog {
    /// Records an upload and queues it, once per idempotency key. `store` is what makes the bytes last: it is awaited
    /// when the deployment is new and there is room for it, and what is recorded stands when it has succeeded.
    ///
    /// # Errors
    /// [`CatalogError::IdempotencyKeyReused`] when the key was used for other bytes or another function;
    /// [`CatalogError::QueueFull`] when the tenant has no room in the queue, [`CatalogError::TooManyFunctions`]
    /// when this would be a function more than it may have. In any case nothing was stored.
    pub async fn record_deployment<E: From<CatalogError>>(
        &self,
        actor: &Actor,
        new: &NewDeployment<'_>,
        limits: &QueueLimits,
        store: impl Future<Output = Result<(), E>>,
    ) -> Result<Recorded, E> {
        let mut tx = self.begin().await?;
        let Some(id) = insert(&mut tx, actor, new).await? else {
            tx.rollback().await.map_err(CatalogError::from)?;
            return Ok(self.repeated(new).await?);
        };
        demand_room(&mut tx, new, limits).await?;
        queue(&mut tx, actor, new, id).await?;
        // Whoever removes blobs must not come between the look at these and their row.
        collecting::hold(&mut tx).await?;
        store.await?;
        tx.commit().await.map_err(CatalogError::from)?;
        Ok(Recorded::Created(self.deployment(new.tenant, DeploymentId(id)).await?))
    }

    /// Where the deployment of a version stands in a trace.
    pub async fn trace_of_version(
        &self,
        tenant: &TenantName,
        function: &FunctionName,
        version: VersionNumber,
    ) -> Result<Option<TraceParent>, CatalogError> {
        let row = sqlx::query(
            "SELECT d.trace_parent FROM versions v JOIN deployments d ON d.id = v.deployment_id
             WHERE v.tenant = $1 AND v.function = $2 AND v.version = $3",
        )
        .bind(tenant.as_str())
        .bind(function.as_str())
        .bind(i64::from(version.get()))
        .fetch_optional(&self.pool)
        .await?;
        Ok(row.as_ref().map(trace_parent).transpose()?.flatten())
    }

    async fn repeated(&self, new: &NewDeployment<'_>) -> Result<Recorded, CatalogError> {
        let row = sqlx::query(
            "SELECT d.id, d.tenant, d.function, d.source_digest, d.source_bytes, d.submitted_by, d.state,
                    d.diagnostics, d.version, d.created_at, d.updated_at, b.attempt
             FROM deployments d JOIN builds b ON b.deployment_id = d.id
             WHERE d.tenant = $1 AND d.idempotency_key = $2",
        )
        .bind(new.tenant.as_str())
        .bind(new.idempotency_key)
        .fetch_optional(&self.pool)
        .await?;
        let row = row.ok_or(CatalogError::NotFound { what: "deployment" })?;
        let earlier = deployment(&row)?;
        if earlier.function == *new.function && earlier.source_digest == new.source_digest {
            Ok(Recorded::Repeated(earlier))
        } else {
            Err(CatalogError::IdempotencyKeyReused)
        }
    }

    /// The deployment of that id, if it is the tenant's.
    pub async fn deployment(
        &self,
        tenant: &TenantName,
        id: DeploymentId,
    ) -> Result<Deployment, CatalogError> {
        let row = sqlx::query(
            "SELECT d.id, d.tenant, d.function, d.source_digest, d.source_bytes, d.submitted_by, d.state,
                    d.diagnostics, d.version, d.created_at, d.updated_at, b.attempt
             FROM deployments d JOIN builds b ON b.deployment_id = d.id
             WHERE d.tenant = $1 AND d.id = $2",
        )
        .bind(tenant.as_str())
        .bind(id.0)
        .fetch_optional(&self.pool)
        .await?;
        let row = row.ok_or(CatalogError::NotFound { what: "deployment" })?;
        Ok(deployment(&row)?)
    }

    /// The tenant's deployments, newest first; of one function if given; made before `before`
    /// if given.
    pub async fn deployments(
        &self,
        tenant: &TenantName,
        function: Option<&FunctionName>,
        before: Option<DateTime<Utc>>,
        limit: u32,
    ) -> Result<Vec<Deployment>, CatalogError> {
        // Two statements, each with its index: one for both would read all of a tenant's for a function that has few.
        let rows = sqlx::query(match function {
            Some(_) => {
                "SELECT d.id, d.tenant, d.function, d.source_digest, d.source_bytes, d.submitted_by, d.state,
                        d.diagnostics, d.version, d.created_at, d.updated_at, b.attempt
                 FROM deployments d JOIN builds b ON b.deployment_id = d.id
                 WHERE d.tenant = $1 AND d.function = $2 AND d.created_at < coalesce($3, 'infinity'::timestamptz)
                 ORDER BY d.created_at DESC, d.id LIMIT $4"
            }
            None => {
                "SELECT d.id, d.tenant, d.function, d.source_digest, d.source_bytes, d.submitted_by, d.state,
                        d.diagnostics, d.version, d.created_at, d.updated_at, b.attempt
                 FROM deployments d JOIN builds b ON b.deployment_id = d.id
                 WHERE d.tenant = $1 AND $2::text IS NULL AND d.created_at < coalesce($3, 'infinity'::timestamptz)
                 ORDER BY d.created_at DESC, d.id LIMIT $4"
            }
        })
        .bind(tenant.as_str())
        .bind(function.map(FunctionName::as_str))
        .bind(before)
        .bind(i64::from(limit))
        .fetch_all(&self.pool)
        .await?;
        Ok(rows.iter().map(deployment).collect::<Result<_, _>>()?)
    }

    /// Events behind `after`, oldest first, of a deployment of the tenant.
    pub async fn events_after(
        &self,
        tenant: &TenantName,
        id: DeploymentId,
        after: u64,
        limit: u32,
    ) -> Result<Vec<Event>, CatalogError> {
        let rows = sqlx::query(
            "SELECT e.seq, e.at, e.body FROM deployment_events e JOIN deployments d ON d.id = e.deployment_id
             WHERE d.tenant = $1 AND e.deployment_id = $2 AND e.seq > $3 ORDER BY e.seq LIMIT $4",
        )
        .bind(tenant.as_str())
        .bind(id.0)
        .bind(int8(after))
        .bind(i64::from(limit))
        .fetch_all(&self.pool)
        .await?;
        Ok(rows.iter().map(event).collect::<Result<_, _>>()?)
    }

    /// How many deployments of all tenants are in each state: of those that have ended, the ones of the last day.
    pub async fn deployment_counts(&self) -> Result<Vec<StateCount>, CatalogError> {
        let rows = sqlx::query(
            "SELECT state, count(*) AS count FROM deployments
             WHERE state IN ('received', 'building', 'built', 'waiting') GROUP BY state
             UNION ALL
             SELECT state, count(*) AS count FROM deployments
             WHERE state IN ('admitted', 'refused', 'failed') AND forgotten_at IS NULL
               AND updated_at > now() - interval '1 day' GROUP BY state
             ORDER BY state",
        )
        .fetch_all(&self.pool)
        .await?;
        let count = |row: &PgRow| -> Decoded<StateCount> {
            Ok(StateCount {
                state: word(row, "state", DeploymentState::parse)?,
                count: unsigned(row, "count")?,
            })
        };
        Ok(rows.iter().map(count).collect::<Result<_, _>>()?)
    }
}

/// The row of a new deployment; `None` if the tenant's key was used before.
async fn insert(
    connection: &mut PgConnection,
    actor: &Actor,
    new: &NewDeployment<'_>,
) -> Result<Option<uuid::Uuid>, CatalogError> {
    let id = sqlx::query_scalar(
        "INSERT INTO deployments (tenant, function, idempotency_key, source_digest, source_bytes, submitted_by, person,
                                  trace_parent)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
         ON CONFLICT ON CONSTRAINT deployments_idempotency_key_unique DO NOTHING RETURNING id",
    )
    .bind(new.tenant.as_str())
    .bind(new.function.as_str())
    .bind(new.idempotency_key)
    .bind(new.source_digest.to_string())
    .bind(int8(new.source_bytes))
    .bind(actor.as_str())
    .bind(new.person.as_str())
    .bind(new.trace_parent.map(|place| place.to_string()))
    .fetch_optional(connection)
    .await?;
    Ok(id)
}

/// The locks under which deployments of one tenant are counted; any number that nobody else takes.
const QUEUE_LOCKS: i32 = 0x6D66_7175;

/// Refuses what the tenant has no room for. One after another, or two would take the same last place.
async fn demand_room(
    connection: &mut PgConnection,
    new: &NewDeployment<'_>,
    limits: &QueueLimits,
) -> Result<(), CatalogError> {
    sqlx::query("SELECT pg_advisory_xact_lock($1, hashtext($2))")
        .bind(QUEUE_LOCKS)
        .bind(new.tenant.as_str())
        .execute(&mut *connection)
        .await?;
    let row = sqlx::query(
        "SELECT count(*) AS deployments, coalesce(sum(d.source_bytes), 0)::bigint AS bytes
         FROM builds b JOIN deployments d ON d.id = b.deployment_id
         WHERE b.tenant = $1 AND b.finished_at IS NULL",
    )
    .bind(new.tenant.as_str())
    .fetch_one(&mut *connection)
    .await?;
    let (deployments, bytes): (u64, u64) = (unsigned(&row, "deployments")?, unsigned(&row, "bytes")?);
    let fits = deployments < limits.deployments_max
        && bytes.saturating_add(new.source_bytes) <= limits.source_bytes_max;
    if !fits {
        return Err(CatalogError::QueueFull { deployments, bytes });
    }
    // The function itself is none more: neither as it is, nor as an earlier deployment of it will make it.
    let others: i64 = sqlx::query_scalar(
        "SELECT count(*) FROM (
             (SELECT name FROM functions WHERE tenant = $1 AND deleted_at IS NULL LIMIT $3)
             UNION
             SELECT d.function FROM builds b JOIN deployments d ON d.id = b.deployment_id
             WHERE b.tenant = $1 AND b.finished_at IS NULL) names
         WHERE name <> $2 AND NOT EXISTS (
             SELECT 1 FROM functions f WHERE f.tenant = $1 AND f.name = $2 AND f.deleted_at IS NULL)",
    )
    .bind(new.tenant.as_str())
    .bind(new.function.as_str())
    .bind(int8(limits.functions_max))
    .fetch_one(connection)
    .await?;
    let functions = u64::try_from(others).unwrap_or(u64::MAX);
    if functions < limits.functions_max { Ok(()) } else { Err(CatalogError::TooManyFunctions { functions }) }
}

/// Everything that belongs to a new deployment row.
async fn queue(
    connection: &mut PgConnection,
    actor: &Actor,
    new: &NewDeployment<'_>,
    id: uuid::Uuid,
) -> Result<(), CatalogError> {
    sqlx::query("INSERT INTO builds (deployment_id) VALUES ($1)").bind(id).execute(&mut *connection).await?;
    append_event(connection, id, &Event::state(Stage::Receive, DeploymentState::Received)).await?;
    let entry = Entry {
        actor,
        action: "deployment.received",
        tenant: new.tenant.as_str(),
        subject: &id.to_string(),
        detail: serde_json::json!({
            "function": new.function, "source": new.source_digest, "bytes": new.source_bytes,
        }),
    };
    audit::append(connection, entry).await?;
    sqlx::query("SELECT pg_notify('mfaas_builds', $1)").bind(id.to_string()).execute(connection).await?;
    Ok(())
}

/// Appends an event in the caller's transaction.
pub(crate) async fn append_event(
    connection: &mut PgConnection,
    id: uuid::Uuid,
    event: &Event,
) -> Result<(), CatalogError> {
    sqlx::query("SELECT append_event($1, $2)")
        .bind(id)
        .bind(sqlx::types::Json(event))
        .execute(connection)
        .await?;
    Ok(())
}

fn event(row: &PgRow) -> Decoded<Event> {
    let mut event: Event = json(row, "body")?;
    event.seq = unsigned(row, "seq")?;
    event.at = Some(row.try_get("at")?);
    Ok(event)
}

fn deployment(row: &PgRow) -> Decoded<Deployment> {
    Ok(Deployment {
        id: DeploymentId(row.try_get("id")?),
        tenant: parsed(row, "tenant")?,
        function: parsed(row, "function")?,
        source_digest: parsed(row, "source_digest")?,
        source_bytes: unsigned(row, "source_bytes")?,
        submitted_by: row.try_get("submitted_by")?,
        state: word(row, "state", DeploymentState::parse)?,
        diagnostics: json(row, "diagnostics")?,
        version: small_opt(row, "version")?,
        attempt: crate::decode::small(row, "attempt")?,
        created_at: row.try_get("created_at")?,
        updated_at: row.try_get("updated_at")?,
    })
}
