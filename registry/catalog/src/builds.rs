//! Leased builds. Whoever commits must hold the highest token that was ever granted for the build.
//!
//! The lease runs by the database's clock. A builder that slept past it finds, in the very
//! transaction that would commit its work, that a newer token exists, and commits nothing.

use std::collections::BTreeMap;
use std::time::Duration;

use mfaas_attest::BuildClaim;
use mfaas_delivery::{DeploymentState, Diagnostic, Event, Level, Stage};
use mfaas_ident::{DeploymentId, Digest, FencingToken, FunctionName, TenantName, TraceParent};
use mfaas_rules::limits::{POSTPONED_SECONDS_MAX, POSTPONED_SECONDS_MIN, REBUILD_PREFERRED_SECONDS};
use mfaas_rules::{Finding, Layer, POLICY_REVISION, UndecidedCrate, codes};
use sqlx::postgres::PgRow;
use sqlx::types::Json;
use sqlx::{PgConnection, Row as _};

use crate::audit::{self, Entry};
use crate::decode::{Decoded, parsed, small, trace_parent, unsigned};
use crate::deployments::append_event;
use crate::{Actor, Catalog, CatalogError};

/// Attempts before a build is given up with MF0410.
pub const BUILD_ATTEMPTS_MAX: i32 = 3;
/// A builder that was not seen for this long does not count as alive.
pub(crate) const BUILDER_ALIVE_SECONDS: i32 = 30;
/// How long a lost build is kept for another instance while one is alive.
const PREFER_OTHER_SECONDS: i32 = 30;

/// The longest cause of a fault that is kept for operators.
const CAUSE_BYTES_MAX: usize = 480;

/// The lock of the database that a claim holds; any number that nobody else takes.
const CLAIMS_LOCK: i64 = 0x6D66_6161_735F_636C;

/// `waiting` steps from tenant to tenant through an index, so a claim looks at a few rows for each tenant with open
/// builds, and not at each open build. A lost build keeps nobody from their turn: only leases that run count. What the
/// signer wants built under its own rules is kept for a builder that has them, for a while, and what it wants built once
/// more for one that has given no claim about it.
const CLAIM: &str = "
    WITH RECURSIVE waiting AS (
        (SELECT tenant FROM builds WHERE finished_at IS NULL ORDER BY tenant LIMIT 1)
        UNION ALL
        SELECT (SELECT b.tenant FROM builds b WHERE b.finished_at IS NULL AND b.tenant > w.tenant
                ORDER BY b.tenant LIMIT 1)
        FROM waiting w WHERE w.tenant IS NOT NULL),
    turns AS (
        SELECT w.tenant,
               (SELECT count(*) FROM builds r WHERE r.tenant = w.tenant AND r.finished_at IS NULL
                AND r.lease_expires_at IS NOT NULL AND r.lease_expires_at >= now()) AS running,
               (SELECT max(r.started_at) FROM builds r WHERE r.tenant = w.tenant) AS last_turn
        FROM waiting w WHERE w.tenant IS NOT NULL),
    next AS (
        SELECT b.deployment_id FROM turns t CROSS JOIN LATERAL (
            SELECT c.deployment_id FROM builds c
            WHERE c.tenant = t.tenant AND c.finished_at IS NULL AND c.attempt < $3
              AND (c.lease_expires_at IS NULL OR c.lease_expires_at < now())
              AND (c.not_before IS NULL OR c.not_before <= now())
              AND (c.rounds = 0 OR NOT EXISTS (SELECT 1 FROM build_claims k
                                               WHERE k.deployment_id = c.deployment_id AND k.role = session_user))
              AND (c.rebuild_for IS NULL OR c.rebuild_for = $6
                   OR coalesce(c.not_before, c.queued_at) <= now() - make_interval(secs => $7))
              AND (c.lease_holder IS DISTINCT FROM $1
                   OR c.lease_expires_at < now() - make_interval(secs => $4)
                   OR NOT EXISTS (SELECT 1 FROM builders o WHERE o.instance <> $1
                                  AND o.unwell IS NULL AND o.seen_at > now() - make_interval(secs => $5)))
            ORDER BY c.queued_at, c.deployment_id LIMIT 1) oldest
        JOIN builds b ON b.deployment_id = oldest.deployment_id
        ORDER BY t.running, t.last_turn NULLS FIRST, b.queued_at, b.deployment_id
        LIMIT 1 FOR UPDATE OF b SKIP LOCKED)
    UPDATE builds b SET attempt = b.attempt + 1, lease_holder = $1,
           lease_expires_at = now() + make_interval(secs => $2), postponed_because = NULL,
           fencing_token = nextval('fencing_token'), started_at = coalesce(b.started_at, now())
    FROM next, deployments d
    WHERE b.deployment_id = next.deployment_id AND d.id = next.deployment_id
    RETURNING d.id, d.tenant, d.function, d.source_digest, d.source_bytes, b.attempt, b.fencing_token, d.trace_parent";

/// Builds of one tenant that are counted for a place in the queue.
const PLACES_COUNTED_MAX: i64 = 200;

/// Where builds would stand if tenants took turns as [`CLAIM`] lets them and no running one ended: a tenant's build comes
/// at the level of those that the tenant has running and of its own before it. At one level those who have just come to
/// it go first, then by their last turn, as a claim would find them. What one builder leaves to another is not looked at.
const PLACES: &str = "
    WITH RECURSIVE waiting AS (
        (SELECT tenant FROM builds WHERE finished_at IS NULL ORDER BY tenant LIMIT 1)
        UNION ALL
        SELECT (SELECT b.tenant FROM builds b WHERE b.finished_at IS NULL AND b.tenant > w.tenant
                ORDER BY b.tenant LIMIT 1)
        FROM waiting w WHERE w.tenant IS NOT NULL),
    turns AS (
        SELECT w.tenant,
               (SELECT count(*) FROM builds r WHERE r.tenant = w.tenant AND r.finished_at IS NULL
                AND r.lease_expires_at IS NOT NULL AND r.lease_expires_at >= now()) AS running,
               coalesce((SELECT max(r.started_at) FROM builds r WHERE r.tenant = w.tenant), '-infinity') AS last_turn,
               q.ids, q.since
        FROM waiting w CROSS JOIN LATERAL (
            SELECT array_agg(c.deployment_id ORDER BY c.queued_at, c.deployment_id) AS ids,
                   min(c.queued_at) AS since FROM (
                SELECT deployment_id, queued_at FROM builds
                WHERE tenant = w.tenant AND finished_at IS NULL AND attempt < $2
                  AND (lease_expires_at IS NULL OR lease_expires_at < now())
                  AND (not_before IS NULL OR not_before <= now())
                ORDER BY queued_at, deployment_id LIMIT $3) c) q
        WHERE w.tenant IS NOT NULL AND q.ids IS NOT NULL),
    placed AS (
        SELECT u.id, count(*) OVER () AS all_of_them, bool_or(cardinality(t.ids) >= $3) OVER () AS is_cut,
               row_number() OVER (ORDER BY t.running + u.nth, t.running DESC, t.last_turn, t.since, t.ids[1]) AS place
        FROM turns t CROSS JOIN LATERAL unnest(t.ids) WITH ORDINALITY AS u (id, nth))
    SELECT id, place, all_of_them, is_cut FROM placed WHERE id = ANY($1)";

/// Where a build stands among those that nobody works on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueuePlace {
    /// 1 for the one that the next claim takes.
    pub place: u64,
    /// How many there are.
    pub of: u64,
    /// Both are at least this: a tenant has more than are counted.
    pub is_cut: bool,
}

/// The right to commit one build, as long as no newer one was granted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lease {
    deployment: DeploymentId,
    token: FencingToken,
    instance: String,
}

impl Lease {
    /// Which deployment.
    pub fn deployment(&self) -> DeploymentId {
        self.deployment
    }

    /// The fencing token.
    pub fn token(&self) -> FencingToken {
        self.token
    }

    fn actor(&self) -> Actor {
        Actor::program(&format!("mfaas-builder:{}", self.instance))
    }
}

/// A build that this instance has to do now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClaimedBuild {
    /// The right to commit it.
    pub lease: Lease,
    /// Owner.
    pub tenant: TenantName,
    /// The function it is for.
    pub function: FunctionName,
    /// Where the upload is in the blob store.
    pub source_digest: Digest,
    /// Its size.
    pub source_bytes: u64,
    /// 1 for the first attempt.
    pub attempt: u32,
    /// Where the deployment stands in a trace.
    pub trace_parent: Option<TraceParent>,
}

/// How a build ends.
enum Ending<'a> {
    Built(&'a BuildClaim),
    Refused(&'a [Diagnostic]),
    Waiting(&'a [Diagnostic], &'a [UndecidedCrate]),
    Failed(&'a [Diagnostic]),
}

impl Ending<'_> {
    fn state(&self) -> DeploymentState {
        match self {
            Self::Built(_) => DeploymentState::Built,
            Self::Refused(_) => DeploymentState::Refused,
            Self::Waiting(..) => DeploymentState::Waiting,
            Self::Failed(_) => DeploymentState::Failed,
        }
    }

    fn diagnostics(&self) -> &[Diagnostic] {
        match self {
            Self::Built(_) => &[],
            Self::Refused(d) | Self::Waiting(d, _) | Self::Failed(d) => d,
        }
    }

    fn action(&self) -> &'static str {
        match self {
            Self::Built(_) => "build.built",
            Self::Refused(_) => "build.refused",
            Self::Waiting(..) => "build.waiting",
            Self::Failed(_) => "build.failed",
        }
    }
}

impl Catalog {
    /// Takes a build that nobody holds, if there is one, for `ttl`: of the tenant with the fewest running, then of the
    /// one whose last turn was longest ago, the oldest.
    ///
    /// Builds whose last attempt was lost are failed with MF0410 on the way. A lost build goes
    /// to another instance while one is alive, for half a minute at most.
    pub async fn claim(&self, instance: &str, ttl: Duration) -> Result<Option<ClaimedBuild>, CatalogError> {
        self.builder_alive(instance).await?;
        self.bury_lost_builds().await?;
        let mut tx = self.begin().await?;
        // One claim after another: a turn counts those before it.
        sqlx::query("SELECT pg_advisory_xact_lock($1)").bind(CLAIMS_LOCK).execute(&mut *tx).await?;
        let row = sqlx::query(CLAIM)
            .bind(instance)
            .bind(ttl.as_secs_f64())
            .bind(BUILD_ATTEMPTS_MAX)
            .bind(f64::from(PREFER_OTHER_SECONDS))
            .bind(f64::from(BUILDER_ALIVE_SECONDS))
            .bind(POLICY_REVISION)
            .bind(f64::from(REBUILD_PREFERRED_SECONDS))
            .fetch_optional(&mut *tx)
            .await?;
        let Some(claimed) = row.as_ref().map(|row| claimed(row, instance)).transpose()? else {
            return Ok(None);
        };
        let id = claimed.lease.deployment.0;
        sqlx::query("UPDATE deployments SET state = 'building', diagnostics = '[]' WHERE id = $1")
            .bind(id)
            .execute(&mut *tx)
            .await?;
        append_event(&mut tx, id, &Event::state(Stage::Claim, DeploymentState::Building)).await?;
        tx.commit().await?;
        Ok(Some(claimed))
    }

    /// The places of those of the deployments that wait for a builder and were counted, as tenants take turns now. Builds that
    /// end, and that come, change them.
    pub async fn queue_places(
        &self,
        deployments: &[DeploymentId],
    ) -> Result<BTreeMap<DeploymentId, QueuePlace>, CatalogError> {
        let ids: Vec<_> = deployments.iter().map(|id| id.0).collect();
        let rows = sqlx::query(PLACES)
            .bind(ids)
            .bind(BUILD_ATTEMPTS_MAX)
            .bind(PLACES_COUNTED_MAX)
            .fetch_all(&self.pool)
            .await?;
        let place = |row: &PgRow| -> Decoded<_> {
            let (place, of) = (unsigned(row, "place")?, unsigned(row, "all_of_them")?);
            Ok((DeploymentId(row.try_get("id")?), QueuePlace { place, of, is_cut: row.try_get("is_cut")? }))
        };
        Ok(rows.iter().map(place).collect::<Decoded<_>>()?)
    }

    /// Extends the lease by `ttl` from now. [`CatalogError::Fenced`] means: stop, the work is void.
    pub async fn heartbeat(&self, lease: &Lease, ttl: Duration) -> Result<(), CatalogError> {
        self.builder_alive(&lease.instance).await?;
        let held = sqlx::query(
            "UPDATE builds SET lease_expires_at = now() + make_interval(secs => $3)
             WHERE deployment_id = $1 AND fencing_token = $2 AND finished_at IS NULL AND lease_holder = $4",
        )
        .bind(lease.deployment.0)
        .bind(lease.token.0)
        .bind(ttl.as_secs_f64())
        .bind(&lease.instance)
        .execute(&self.pool)
        .await?
        .rows_affected();
        if held == 1 { Ok(()) } else { Err(CatalogError::Fenced) }
    }

    /// Appends events to the deployment's stream, in order, in one statement.
    pub async fn append_events(&self, lease: &Lease, events: &[Event]) -> Result<(), CatalogError> {
        let events: Vec<Json<&Event>> = events.iter().map(Json).collect();
        let appended = sqlx::query(
            "WITH held AS (SELECT deployment_id FROM builds
                           WHERE deployment_id = $1 AND fencing_token = $2 AND finished_at IS NULL FOR UPDATE)
             SELECT append_event(held.deployment_id, news.body)
             FROM held, unnest($3::jsonb[]) WITH ORDINALITY AS news (body, place) ORDER BY news.place",
        )
        .bind(lease.deployment.0)
        .bind(lease.token.0)
        .bind(&events)
        .fetch_all(&self.pool)
        .await?;
        if appended.len() == events.len() { Ok(()) } else { Err(CatalogError::Fenced) }
    }

    /// The artifact is in the blob store and waits for the signer.
    pub async fn finish_built(&self, lease: &Lease, claim: &BuildClaim) -> Result<(), CatalogError> {
        self.finish(lease, Stage::Inspect, Ending::Built(claim)).await
    }

    /// Policy or the compiler said no; `stage` is where.
    pub async fn finish_refused(
        &self,
        lease: &Lease,
        stage: Stage,
        diagnostics: &[Diagnostic],
    ) -> Result<(), CatalogError> {
        self.finish(lease, stage, Ending::Refused(diagnostics)).await
    }

    /// Reviewers have to decide about `requests`; the deployment goes on when they have.
    pub async fn finish_waiting(
        &self,
        lease: &Lease,
        diagnostics: &[Diagnostic],
        requests: &[UndecidedCrate],
    ) -> Result<(), CatalogError> {
        self.finish(lease, Stage::Dependencies, Ending::Waiting(diagnostics, requests)).await
    }

    /// It cannot be built here, and trying again would not help.
    pub async fn finish_failed(
        &self,
        lease: &Lease,
        stage: Stage,
        diagnostics: &[Diagnostic],
    ) -> Result<(), CatalogError> {
        self.finish(lease, stage, Ending::Failed(diagnostics)).await
    }

    /// Gives an unfinished build back, for example on SIGTERM; the attempt does not count.
    pub async fn release(&self, lease: &Lease) -> Result<(), CatalogError> {
        let mut tx = self.begin().await?;
        fence(&mut tx, lease).await?;
        sqlx::query(
            "UPDATE builds SET attempt = attempt - 1, lease_holder = NULL, lease_expires_at = NULL
             WHERE deployment_id = $1",
        )
        .bind(lease.deployment.0)
        .execute(&mut *tx)
        .await?;
        sqlx::query("UPDATE deployments SET state = 'received' WHERE id = $1")
            .bind(lease.deployment.0)
            .execute(&mut *tx)
            .await?;
        append_event(&mut tx, lease.deployment.0, &Event::state(Stage::Claim, DeploymentState::Received))
            .await?;
        notify(&mut tx, "mfaas_builds", lease.deployment).await?;
        Ok(tx.commit().await?)
    }

    /// Puts a build back that a fault of the machine ended (a full disk, a store that does not answer): the attempt does
    /// not count, and the build waits for a pause that doubles each time, with jitter so that a queue does not come back
    /// at once. `cause` is for operators; the tenant is told MF0413. Returns the pause.
    pub async fn postpone(&self, lease: &Lease, cause: &str) -> Result<Duration, CatalogError> {
        let mut tx = self.begin().await?;
        fence(&mut tx, lease).await?;
        let row = sqlx::query(
            "UPDATE builds SET attempt = attempt - 1, lease_holder = NULL, lease_expires_at = NULL,
                    postponed = postponed + 1, postponed_because = $2,
                    not_before = now() + make_interval(secs =>
                        least($4, $3 * power(2, least(postponed, 30))) * (0.5 + random() / 2))
             WHERE deployment_id = $1
             RETURNING postponed, extract(epoch FROM not_before - now())::float8 AS pause",
        )
        .bind(lease.deployment.0)
        .bind(mfaas_ident::sanitise_line(cause, CAUSE_BYTES_MAX))
        .bind(f64::from(POSTPONED_SECONDS_MIN))
        .bind(f64::from(POSTPONED_SECONDS_MAX))
        .fetch_one(&mut *tx)
        .await?;
        let waits = vec![waits_for_the_service()];
        sqlx::query("UPDATE deployments SET state = 'received', diagnostics = $2 WHERE id = $1")
            .bind(lease.deployment.0)
            .bind(Json(&waits))
            .execute(&mut *tx)
            .await?;
        append_event(&mut tx, lease.deployment.0, &Event::state(Stage::Claim, DeploymentState::Received))
            .await?;
        // Once: a fault that lasts for a day is no news every minute.
        if row.try_get::<i32, _>("postponed")? == 1 {
            append_event(&mut tx, lease.deployment.0, &Event::diagnostics(Stage::Claim, waits)).await?;
        }
        tx.commit().await?;
        Ok(Duration::from_secs_f64(row.try_get::<f64, _>("pause")?.max(0.0)))
    }

    /// Ends an attempt that went wrong on our side and may be the source's doing: the attempt counts and another may
    /// start at once, or, when it was the last, the next claim fails the build with MF0410.
    pub async fn give_up_attempt(&self, lease: &Lease) -> Result<(), CatalogError> {
        let mut tx = self.begin().await?;
        fence(&mut tx, lease).await?;
        sqlx::query(
            "UPDATE builds SET lease_expires_at = now() - interval '1 second' WHERE deployment_id = $1",
        )
        .bind(lease.deployment.0)
        .execute(&mut *tx)
        .await?;
        notify(&mut tx, "mfaas_builds", lease.deployment).await?;
        Ok(tx.commit().await?)
    }

    /// Says why this instance takes no builds at the moment; `None` when it does again.
    pub async fn builder_is(&self, instance: &str, unwell: Option<&str>) -> Result<(), CatalogError> {
        self.builder_alive(instance).await?;
        sqlx::query("UPDATE builders SET unwell = $2 WHERE instance = $1")
            .bind(instance)
            .bind(unwell.map(|cause| mfaas_ident::sanitise_line(cause, CAUSE_BYTES_MAX)))
            .execute(&self.pool)
            .await?;
        Ok(())
    }

    /// How many builds wait because a fault of ours has put them back.
    pub async fn count_postponed_builds(&self) -> Result<u64, CatalogError> {
        let row = sqlx::query(
            "SELECT count(*) AS count FROM builds WHERE finished_at IS NULL AND postponed_because IS NOT NULL",
        )
        .fetch_one(&self.pool)
        .await?;
        Ok(unsigned(&row, "count")?)
    }

    /// This instance is leaving; it must not keep lost builds waiting for it.
    pub async fn builder_gone(&self, instance: &str) -> Result<(), CatalogError> {
        sqlx::query("DELETE FROM builders WHERE instance = $1").bind(instance).execute(&self.pool).await?;
        Ok(())
    }

    async fn finish(&self, lease: &Lease, stage: Stage, ending: Ending<'_>) -> Result<(), CatalogError> {
        let mut tx = self.begin().await?;
        fence(&mut tx, lease).await?;
        let id = lease.deployment.0;
        let claim = match &ending {
            Ending::Built(claim) => Some(Json(*claim)),
            Ending::Refused(_) | Ending::Waiting(..) | Ending::Failed(_) => None,
        };
        sqlx::query(
            "UPDATE builds SET finished_at = now(), claim = $2, committed_token = $3, lease_expires_at = NULL
             WHERE deployment_id = $1",
        )
        .bind(id)
        .bind(claim)
        .bind(lease.token.0)
        .execute(&mut *tx)
        .await?;
        let tenant: String = sqlx::query_scalar(
            "UPDATE deployments SET state = $2, diagnostics = $3 WHERE id = $1 RETURNING tenant",
        )
        .bind(id)
        .bind(ending.state().as_str())
        .bind(Json(ending.diagnostics()))
        .fetch_one(&mut *tx)
        .await?;
        if let Ending::Waiting(_, requests) = &ending {
            ask_reviewers(&mut tx, id, &tenant, requests).await?;
        }
        if !ending.diagnostics().is_empty() {
            append_event(&mut tx, id, &Event::diagnostics(stage, ending.diagnostics().to_vec())).await?;
        }
        append_event(&mut tx, id, &Event::state(stage, ending.state())).await?;
        audit::append(
            &mut tx,
            Entry {
                actor: &lease.actor(),
                action: ending.action(),
                tenant: &tenant,
                subject: &id.to_string(),
                detail: serde_json::json!({
                    "token": lease.token, "artifact": claim.map(|c| c.0.artifact),
                    "codes": ending.diagnostics().iter().map(|d| d.code.id()).collect::<Vec<_>>(),
                }),
            },
        )
        .await?;
        if matches!(ending, Ending::Built(_)) {
            notify(&mut tx, "mfaas_signer", lease.deployment).await?;
        }
        Ok(tx.commit().await?)
    }

    async fn builder_alive(&self, instance: &str) -> Result<(), CatalogError> {
        sqlx::query(
            "INSERT INTO builders (instance) VALUES ($1)
             ON CONFLICT ON CONSTRAINT builders_pkey DO UPDATE SET seen_at = now()",
        )
        .bind(instance)
        .execute(&self.pool)
        .await?;
        Ok(())
    }

    /// Fails every build whose last attempt was lost.
    async fn bury_lost_builds(&self) -> Result<(), CatalogError> {
        let mut tx = self.begin().await?;
        let lost = sqlx::query(
            "SELECT b.deployment_id, d.tenant, b.attempt FROM builds b JOIN deployments d ON d.id = b.deployment_id
             WHERE b.finished_at IS NULL AND b.attempt >= $1 AND b.lease_expires_at < now()
               AND (b.rounds = 0 OR NOT EXISTS (SELECT 1 FROM build_claims k
                                                WHERE k.deployment_id = b.deployment_id AND k.role = session_user))
             FOR UPDATE OF b SKIP LOCKED",
        )
        .bind(BUILD_ATTEMPTS_MAX)
        .fetch_all(&mut *tx)
        .await?;
        for row in &lost {
            bury(&mut tx, row.try_get("deployment_id")?, row.try_get("tenant")?, row.try_get("attempt")?)
                .await?;
        }
        Ok(tx.commit().await?)
    }
}

/// What a tenant is told while a fault of ours lasts: neither the fault nor the machine.
fn waits_for_the_service() -> Diagnostic {
    let message = "The deployment waits for the build service, which cannot work at the moment.";
    let finding = Finding::new(codes::MF0413, Layer::Sandbox, message);
    Diagnostic { level: Level::Warning, ..Diagnostic::from(&finding) }
}

/// Locks the build and checks that `lease` is the newest one and still open. What was given back is not held any more:
/// whoever asks twice, because no answer came, gives back once.
async fn fence(connection: &mut PgConnection, lease: &Lease) -> Result<(), CatalogError> {
    let held: Option<i64> = sqlx::query_scalar(
        "SELECT fencing_token FROM builds
         WHERE deployment_id = $1 AND finished_at IS NULL AND lease_holder = $2 FOR UPDATE",
    )
    .bind(lease.deployment.0)
    .bind(&lease.instance)
    .fetch_optional(connection)
    .await?
    .flatten();
    if held == Some(lease.token.0) { Ok(()) } else { Err(CatalogError::Fenced) }
}

async fn bury(
    connection: &mut PgConnection,
    id: uuid::Uuid,
    tenant: String,
    attempts: i32,
) -> Result<(), CatalogError> {
    let message = format!("The build was lost {attempts} times: its builder stopped or hung each time.");
    let finding = Finding::new(codes::MF0410, Layer::Sandbox, message);
    let diagnostics = vec![Diagnostic::from(&finding)];
    sqlx::query("UPDATE builds SET finished_at = now(), lease_expires_at = NULL WHERE deployment_id = $1")
        .bind(id)
        .execute(&mut *connection)
        .await?;
    sqlx::query("UPDATE deployments SET state = 'failed', diagnostics = $2 WHERE id = $1")
        .bind(id)
        .bind(Json(&diagnostics))
        .execute(&mut *connection)
        .await?;
    append_event(connection, id, &Event::diagnostics(Stage::Claim, diagnostics)).await?;
    append_event(connection, id, &Event::state(Stage::Claim, DeploymentState::Failed)).await?;
    let entry = Entry {
        actor: &Actor::program("mfaas-builder"),
        action: "build.failed",
        tenant: &tenant,
        subject: &id.to_string(),
        detail: serde_json::json!({"codes": [codes::MF0410.id()], "attempts": attempts}),
    };
    audit::append(connection, entry).await
}

async fn ask_reviewers(
    connection: &mut PgConnection,
    id: uuid::Uuid,
    tenant: &str,
    requests: &[UndecidedCrate],
) -> Result<(), CatalogError> {
    for UndecidedCrate { request, code } in requests {
        sqlx::query(
            "INSERT INTO crate_requests (deployment_id, tenant, name, requirement, features, code, default_features)
             VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT ON CONSTRAINT crate_requests_once DO UPDATE
             SET requirement = $4, features = $5, code = $6, default_features = $7, status = 'open', chosen = NULL,
                 detail = '', decided_at = NULL",
        )
        .bind(id)
        .bind(tenant)
        .bind(request.name.as_str())
        .bind(request.requirement.to_string())
        .bind(&request.features)
        .bind(code.id())
        .bind(request.default_features)
        .execute(&mut *connection)
        .await?;
    }
    crate::requests::wake_acquirer(connection).await
}

async fn notify(
    connection: &mut PgConnection,
    channel: &'static str,
    deployment: DeploymentId,
) -> Result<(), CatalogError> {
    sqlx::query("SELECT pg_notify($1, $2)")
        .bind(channel)
        .bind(deployment.to_string())
        .execute(connection)
        .await?;
    Ok(())
}

fn claimed(row: &PgRow, instance: &str) -> Decoded<ClaimedBuild> {
    Ok(ClaimedBuild {
        lease: Lease {
            deployment: DeploymentId(row.try_get("id")?),
            token: FencingToken(row.try_get("fencing_token")?),
            instance: instance.to_owned(),
        },
        tenant: parsed(row, "tenant")?,
        function: parsed(row, "function")?,
        source_digest: parsed(row, "source_digest")?,
        source_bytes: unsigned(row, "source_bytes")?,
        attempt: small(row, "attempt")?,
        trace_parent: trace_parent(row)?,
    })
}
