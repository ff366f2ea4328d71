//! The allowlist: decisions about crates, and what waits for one.

use chrono::{DateTime, Utc};
use mfaas_delivery::{DeploymentState, Event, Stage};
use mfaas_ident::{CrateName, DeploymentId, TenantName, ToolchainId};
use mfaas_rules::{AllowedCrate, AllowlistSnapshot, Code, CrateStatus};
use sqlx::postgres::PgRow;
use sqlx::{PgConnection, Row as _};

use crate::audit::{self, Entry};
use crate::decode::{Decoded, bad, parsed, word};
use crate::deployments::append_event;
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
}

impl AllowlistSeed {
    /// The format that this build reads.
    pub const FORMAT: u32 = 1;
}

/// A decision with its time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CrateRow {
    /// The decision.
    pub allowed: AllowedCrate,
    /// When it was made.
    pub decided_at: DateTime<Utc>,
}

/// A dependency that a deployment waits for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WaitingRequest {
    /// Its number.
    pub id: i64,
    /// Who waits.
    pub tenant: TenantName,
    /// Which deployment waits.
    pub deployment: DeploymentId,
    /// The crate.
    pub name: CrateName,
    /// The requirement as written.
    pub requirement: String,
    /// Features asked for.
    pub features: Vec<String>,
    /// Why it is not allowed today.
    pub code: Code,
    /// Since when.
    pub created_at: DateTime<Utc>,
}

impl Catalog {
    /// The decisions of this moment, read in one transaction with their version.
    pub async fn allowlist_snapshot(&self) -> Result<AllowlistSnapshot, CatalogError> {
        let mut tx = self.begin().await?;
        sqlx::query("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY").execute(&mut *tx).await?;
        let policy_version =
            sqlx::query_scalar("SELECT version FROM policy_state").fetch_one(&mut *tx).await?;
        let rows = sqlx::query(
            "SELECT name, version, checksum, features, direct, status, decided_by, decided_at, reason
             FROM crates ORDER BY name, version",
        )
        .fetch_all(&mut *tx)
        .await?;
        tx.commit().await?;
        let crates = rows.iter().map(|row| Ok(crate_row(row)?.allowed)).collect::<Decoded<_>>()?;
        Ok(AllowlistSnapshot { policy_version, crates })
    }

    /// Every decision with its time, by name.
    pub async fn crates(&self) -> Result<Vec<CrateRow>, CatalogError> {
        let rows = sqlx::query(
            "SELECT name, version, checksum, features, direct, status, decided_by, decided_at, reason
             FROM crates ORDER BY name, version",
        )
        .fetch_all(&self.pool)
        .await?;
        Ok(rows.iter().map(crate_row).collect::<Result<_, _>>()?)
    }

    /// Open requests, oldest first; of one tenant or of all.
    pub async fn waiting_requests(
        &self,
        tenant: Option<&TenantName>,
        limit: u32,
    ) -> Result<Vec<WaitingRequest>, CatalogError> {
        let rows = sqlx::query(
            "SELECT id, tenant, deployment_id, name, requirement, features, code, created_at FROM crate_requests
             WHERE status = 'open' AND ($1::text IS NULL OR tenant = $1) ORDER BY id LIMIT $2",
        )
        .bind(tenant.map(TenantName::as_str))
        .bind(i64::from(limit))
        .fetch_all(&self.pool)
        .await?;
        Ok(rows.iter().map(waiting_request).collect::<Result<_, _>>()?)
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
        let mut changed = accept_toolchain(&mut tx, actor, seed.toolchain).await?;
        for allowed in &seed.crates {
            changed += import_crate(&mut tx, allowed).await?;
        }
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

/// Puts every waiting deployment back into the queue; those that still need something will wait
/// again. No upload is repeated.
pub(crate) async fn resume_waiting(connection: &mut PgConnection, actor: &Actor) -> Result<(), CatalogError> {
    let resumed = sqlx::query("UPDATE deployments SET state = 'received', diagnostics = '[]' WHERE state = 'waiting' RETURNING id, tenant")
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
        sqlx::query("UPDATE crate_requests SET status = 'retried', decided_at = now() WHERE deployment_id = $1 AND status = 'open'")
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

fn status(text: &str) -> Option<CrateStatus> {
    [CrateStatus::Allowed, CrateStatus::Denied, CrateStatus::Revoked]
        .into_iter()
        .find(|s| status_word(*s) == text)
}

fn crate_row(row: &PgRow) -> Decoded<CrateRow> {
    let version: String = row.try_get("version")?;
    Ok(CrateRow {
        allowed: AllowedCrate {
            name: parsed(row, "name")?,
            version: semver::Version::parse(&version).map_err(|e| bad("version", e))?,
            checksum: row.try_get("checksum")?,
            features: row.try_get("features")?,
            direct: row.try_get("direct")?,
            status: word(row, "status", status)?,
            decided_by: row.try_get("decided_by")?,
            reason: row.try_get("reason")?,
        },
        decided_at: row.try_get("decided_at")?,
    })
}

fn waiting_request(row: &PgRow) -> Decoded<WaitingRequest> {
    Ok(WaitingRequest {
        id: row.try_get("id")?,
        tenant: parsed(row, "tenant")?,
        deployment: DeploymentId(row.try_get("deployment_id")?),
        name: parsed(row, "name")?,
        requirement: row.try_get("requirement")?,
        features: row.try_get("features")?,
        code: word(row, "code", Code::parse)?,
        created_at: row.try_get("created_at")?,
    })
}
