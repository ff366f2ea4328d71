//! The allowlist: decisions about crates, and what waits for one.

use chrono::{DateTime, Utc};
use mfaas_delivery::{DeploymentState, Event, Stage};
use mfaas_ident::{CrateName, Digest, TenantName, ToolchainId};
use mfaas_rules::{AllowedCrate, AllowlistSnapshot, CrateStatus, LinkedCrate, Precedence, deciding};
use sqlx::postgres::PgRow;
use sqlx::types::Json;
use sqlx::{PgConnection, Row as _};

use crate::audit::{self, Entry};
use crate::decode::{Decoded, bad, parsed, word};
use crate::deployments::append_event;
use crate::requests::version;
use crate::{Actor, Catalog, CatalogError};

/// Crates in one import.
const SEED_CRATES_MAX: usize = 5_000;

/// The file `allowlist.json`: what a dependency build offers, for which toolchain.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AllowlistSeed {
    /// [`AllowlistSeed::FORMAT`].
    pub format: u32,
    /// The toolchain that the crates were built with; becomes an accepted one.
    pub toolchain: ToolchainId,
    /// Every crate version, those that only others need included.
    pub crates: Vec<AllowedCrate>,
    /// The key of the cache that holds them.
    pub cache: Digest,
    /// What each of them needs there.
    pub closures: Vec<CrateClosure>,
}

impl AllowlistSeed {
    /// The format that this build reads.
    pub const FORMAT: u32 = 2;
}

/// A crate of a dependency cache with everything that it needs there.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CrateClosure {
    /// The crate.
    pub of: LinkedCrate,
    /// What it needs, directly or not, itself not included.
    pub needs: Vec<LinkedCrate>,
}

/// A decision with its time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CrateRow {
    /// The decision.
    pub allowed: AllowedCrate,
    /// When it was made.
    pub decided_at: DateTime<Utc>,
    /// The one tenant that it is for; everybody when absent.
    pub tenant: Option<TenantName>,
    /// When it ends by itself.
    pub expires_at: Option<DateTime<Utc>>,
}

impl Catalog {
    /// What is allowed at this moment for one tenant and one compiler, read in one transaction with its
    /// version. A decision that has ended is none.
    pub async fn allowlist_snapshot(
        &self,
        tenant: &TenantName,
        toolchain: &ToolchainId,
    ) -> Result<AllowlistSnapshot, CatalogError> {
        let mut tx = self.begin().await?;
        snapshot(&mut tx, tenant, toolchain).await
    }

    /// The same for a toolchain that is named, or for the one that the site accepted last; `None` before it has
    /// accepted any.
    pub async fn allowlist_of(
        &self,
        tenant: &TenantName,
        toolchain: Option<ToolchainId>,
    ) -> Result<Option<(ToolchainId, AllowlistSnapshot)>, CatalogError> {
        let toolchain = match toolchain {
            Some(named) => named,
            None => {
                let mut connection = self.pool.acquire().await?;
                let Some(newest) = newest_toolchain(&mut connection).await? else { return Ok(None) };
                newest.parse().map_err(|error| bad("id", error))?
            }
        };
        let snapshot = self.allowlist_snapshot(tenant, &toolchain).await?;
        Ok(Some((toolchain, snapshot)))
    }

    /// The decisions with their times, by name: those that hold for tenant `of`, or all.
    pub async fn crates(&self, of: Option<&TenantName>) -> Result<Vec<CrateRow>, CatalogError> {
        let rows = sqlx::query(
            "SELECT name, version, checksum, features, direct, status, decided_by, decided_at, reason, scope,
                    expires_at FROM crates
             WHERE $1::text IS NULL OR scope IN ('', $1) ORDER BY name, version, scope",
        )
        .bind(of.map(TenantName::as_str))
        .fetch_all(&self.pool)
        .await?;
        Ok(rows.iter().map(crate_row).collect::<Result<_, _>>()?)
    }

    /// The decisions about one crate with their times, by version: those that hold for tenant `of`, or all.
    pub async fn crates_of(
        &self,
        name: &CrateName,
        of: Option<&TenantName>,
    ) -> Result<Vec<CrateRow>, CatalogError> {
        let rows = sqlx::query(
            "SELECT name, version, checksum, features, direct, status, decided_by, decided_at, reason, scope,
                    expires_at FROM crates
             WHERE name = $1 AND ($2::text IS NULL OR scope IN ('', $2)) ORDER BY version, scope",
        )
        .bind(name.as_str())
        .bind(of.map(TenantName::as_str))
        .fetch_all(&self.pool)
        .await?;
        Ok(rows.iter().map(crate_row).collect::<Result<_, _>>()?)
    }

    /// Takes over a seed: its toolchain is accepted, its crates are decided as it says.
    ///
    /// A crate version that somebody else than the seed decided about keeps that decision.
    /// Waiting deployments try again. Returns the number of rows that changed.
    pub async fn import_allowlist(&self, actor: &Actor, seed: &AllowlistSeed) -> Result<u64, CatalogError> {
        if seed.format != AllowlistSeed::FORMAT || seed.crates.len() > SEED_CRATES_MAX {
            let reason = format!("allowlist of format {} with {} crates", seed.format, seed.crates.len());
            return Err(CatalogError::Conflict { reason });
        }
        let mut tx = self.begin().await?;
        hold_decisions(&mut tx).await?;
        let mut changed = accept_toolchain(&mut tx, actor, seed.toolchain).await?;
        for allowed in &seed.crates {
            changed += import_crate(&mut tx, allowed).await?;
        }
        // What ships takes the place of nothing but itself.
        let contents = CacheContents { cache: &seed.cache, base: &seed.cache, toolchain: &seed.toolchain };
        contents.record(&mut tx, &seed.closures).await?;
        if changed > 0 {
            let entry = Entry {
                actor,
                action: "allowlist.imported",
                tenant: "",
                subject: &seed.toolchain.to_string(),
                detail: serde_json::json!({"crates": seed.crates.len(), "changed": changed}),
            };
            audit::append(&mut tx, entry).await?;
            resume_waiting(&mut tx, actor).await?;
            // The accepted toolchains are part of the serving set.
            crate::functions::bump(&mut tx).await?;
        }
        tx.commit().await?;
        Ok(changed)
    }
}

/// The lock under which decisions about crates are made; any number that nobody else takes.
const DECISIONS_LOCK: i64 = 0x6D66_6161_735F_6465;

/// Lets whoever decides about crates wait until the others are done: each locks several rows of requests, reviews, crates and the
/// version of the allowlist, in an order of its own. To be taken before the first of these rows.
pub(crate) async fn hold_decisions(connection: &mut PgConnection) -> Result<(), CatalogError> {
    sqlx::query("SELECT pg_advisory_xact_lock($1)").bind(DECISIONS_LOCK).execute(connection).await?;
    Ok(())
}

/// The toolchain that the site accepted last, as a text of the database.
pub(crate) async fn newest_toolchain(connection: &mut PgConnection) -> Result<Option<String>, CatalogError> {
    let found =
        sqlx::query_scalar("SELECT id FROM toolchains WHERE accepted ORDER BY decided_at DESC, id LIMIT 1")
            .fetch_optional(connection)
            .await?;
    Ok(found)
}

/// Which cache something is in.
pub(crate) struct CacheContents<'a> {
    pub(crate) cache: &'a Digest,
    pub(crate) base: &'a Digest,
    pub(crate) toolchain: &'a ToolchainId,
}

impl CacheContents<'_> {
    /// Records what the cache holds. What is recorded stays: the key of a cache is over all that made it.
    pub(crate) async fn record(
        &self,
        connection: &mut PgConnection,
        closures: &[CrateClosure],
    ) -> Result<(), CatalogError> {
        for CrateClosure { of, needs } in closures {
            sqlx::query(
                "INSERT INTO cached_crates (cache, base, toolchain, name, version, checksum, closure)
                 VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT ON CONSTRAINT cached_crates_pkey DO NOTHING",
            )
            .bind(self.cache.to_string())
            .bind(self.base.to_string())
            .bind(self.toolchain.to_string())
            .bind(of.name.as_str())
            .bind(of.version.to_string())
            .bind(&of.checksum)
            .bind(Json(needs))
            .execute(&mut *connection)
            .await?;
        }
        Ok(())
    }
}

async fn accept_toolchain(
    connection: &mut PgConnection,
    actor: &Actor,
    toolchain: ToolchainId,
) -> Result<u64, CatalogError> {
    let made = sqlx::query(
        "INSERT INTO toolchains (id, accepted, decided_by) VALUES ($1, true, $2)
         ON CONFLICT ON CONSTRAINT toolchains_pkey DO NOTHING",
    )
    .bind(toolchain.to_string())
    .bind(actor.as_str())
    .execute(connection)
    .await?;
    Ok(made.rows_affected())
}

async fn import_crate(connection: &mut PgConnection, allowed: &AllowedCrate) -> Result<u64, CatalogError> {
    let changed = sqlx::query(
        "INSERT INTO crates (name, version, checksum, features, direct, status, decided_by, reason)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
         ON CONFLICT ON CONSTRAINT crates_pkey DO UPDATE
         SET checksum = $3, features = $4, direct = $5, status = $6, reason = $8, decided_at = now()
         WHERE crates.decided_by = $7 AND (crates.checksum, crates.features, crates.direct, crates.status,
               crates.reason) IS DISTINCT FROM ($3, $4, $5, $6, $8)",
    )
    .bind(allowed.name.as_str())
    .bind(allowed.version.to_string())
    .bind(&allowed.checksum)
    .bind(&allowed.features)
    .bind(allowed.direct)
    .bind(status_word(allowed.status))
    .bind(&allowed.decided_by)
    .bind(&allowed.reason)
    .execute(connection)
    .await?;
    Ok(changed.rows_affected())
}

/// The decisions that may count for tenant `$1` and toolchain `$2`: at most the tenant's and the site's about each crate
/// version. [`counting`] says which of them does.
macro_rules! decisions {
    () => {
        "SELECT name, version, checksum, features, direct, status, decided_by, decided_at, reason, scope, expires_at
         FROM crates
         WHERE scope IN ('', $1) AND toolchain IN ('', $2) AND (expires_at IS NULL OR expires_at > now())"
    };
}
pub(crate) use decisions;

const DECISIONS: &str = decisions!();

/// Of rows of [`decisions`] those that count.
pub(crate) fn counting(rows: &[PgRow]) -> Decoded<Vec<CrateRow>> {
    let rows = rows.iter().map(crate_row).collect::<Decoded<Vec<CrateRow>>>()?;
    Ok(deciding(rows, |row| {
        let CrateRow { allowed, tenant, .. } = row;
        ((allowed.name.clone(), allowed.version.clone()), Precedence::new(allowed.status, tenant.is_some()))
    }))
}

/// As [`Catalog::allowlist_snapshot`], in the caller's transaction, which it turns into a reading one.
pub(crate) async fn snapshot(
    connection: &mut PgConnection,
    tenant: &TenantName,
    toolchain: &ToolchainId,
) -> Result<AllowlistSnapshot, CatalogError> {
    sqlx::query("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        .execute(&mut *connection)
        .await?;
    let policy_version =
        sqlx::query_scalar("SELECT version FROM policy_state").fetch_one(&mut *connection).await?;
    let rows = sqlx::query(DECISIONS)
        .bind(tenant.as_str())
        .bind(toolchain.to_string())
        .fetch_all(connection)
        .await?;
    let crates = counting(&rows)?.into_iter().map(|row| row.allowed).collect();
    Ok(AllowlistSnapshot { policy_version, crates })
}

/// Puts every waiting deployment back into the queue; those that still need something will wait
/// again. No upload is repeated.
async fn resume_waiting(connection: &mut PgConnection, actor: &Actor) -> Result<(), CatalogError> {
    let waiting: Vec<uuid::Uuid> =
        sqlx::query_scalar("SELECT id FROM deployments WHERE state = 'waiting' ORDER BY id FOR UPDATE")
            .fetch_all(&mut *connection)
            .await?;
    sqlx::query(
        "UPDATE crate_requests SET status = 'retried', decided_at = now()
         WHERE deployment_id = ANY($1) AND status IN ('open', 'reviewing', 'building')",
    )
    .bind(&waiting)
    .execute(&mut *connection)
    .await?;
    resume(connection, actor, &waiting).await
}

/// Puts these deployments back into the queue, those of them that wait.
pub(crate) async fn resume(
    connection: &mut PgConnection,
    actor: &Actor,
    ids: &[uuid::Uuid],
) -> Result<(), CatalogError> {
    let resumed = sqlx::query(
        "UPDATE deployments SET state = 'received', diagnostics = '[]'
         WHERE id = ANY($1) AND state = 'waiting' RETURNING id, tenant",
    )
    .bind(ids)
    .fetch_all(&mut *connection)
    .await?;
    for row in &resumed {
        let (id, tenant): (uuid::Uuid, String) = (row.try_get("id")?, row.try_get("tenant")?);
        sqlx::query(
            "UPDATE builds SET attempt = 0, lease_holder = NULL, lease_expires_at = NULL, committed_token = NULL,
                    finished_at = NULL, queued_at = now() WHERE deployment_id = $1",
        )
        .bind(id)
        .execute(&mut *connection)
        .await?;
        append_event(connection, id, &Event::state(Stage::Dependencies, DeploymentState::Received)).await?;
        let (subject, detail) = (id.to_string(), serde_json::json!({}));
        let entry = Entry { actor, action: "deployment.resumed", tenant: &tenant, subject: &subject, detail };
        audit::append(connection, entry).await?;
        sqlx::query("SELECT pg_notify('mfaas_builds', $1)")
            .bind(subject.as_str())
            .execute(&mut *connection)
            .await?;
    }
    Ok(())
}

fn status_word(status: CrateStatus) -> &'static str {
    match status {
        CrateStatus::Allowed => "allowed",
        CrateStatus::Denied => "denied",
        CrateStatus::Revoked => "revoked",
    }
}

pub(crate) fn status(text: &str) -> Option<CrateStatus> {
    [CrateStatus::Allowed, CrateStatus::Denied, CrateStatus::Revoked]
        .into_iter()
        .find(|s| status_word(*s) == text)
}

pub(crate) fn crate_row(row: &PgRow) -> Decoded<CrateRow> {
    let scope: String = row.try_get("scope")?;
    Ok(CrateRow {
        allowed: AllowedCrate {
            name: parsed(row, "name")?,
            version: version(row, "version")?,
            checksum: row.try_get("checksum")?,
            features: row.try_get("features")?,
            direct: row.try_get("direct")?,
            status: word(row, "status", status)?,
            decided_by: row.try_get("decided_by")?,
            reason: row.try_get("reason")?,
        },
        decided_at: row.try_get("decided_at")?,
        tenant: if scope.is_empty() { None } else { Some(parsed(row, "scope")?) },
        expires_at: row.try_get("expires_at")?,
    })
}
