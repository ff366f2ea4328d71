//! Every SQL statement of the signer.
//!
//! The synchronous `postgres` crate, not the catalog: the process that holds the key links as
//! little as it can. The role `mfaas_signer` may do what stands here and nothing else.

pub(crate) mod calls;
pub(crate) mod certificates;
pub(crate) mod claims;
pub(crate) mod resources;
pub(crate) mod sets;

use anyhow::Context as _;
use chrono::{DateTime, Utc};
use mfaas_attest::{Admission, KeyId};
use mfaas_delivery::{DeploymentState, Diagnostic, Event};
use mfaas_ident::{DeploymentId, Digest, FunctionName, TenantName, ToolchainId, TraceParent, VersionNumber};
use mfaas_rules::{AllowedCrate, AllowlistSnapshot, CrateStatus, Precedence, deciding};
use postgres::{Client, Row, Transaction};
use serde_json::{Value, json};
use uuid::Uuid;

const ACTOR: &str = "mfaas-signer";

/// A build that waits for its signature; its rows stay locked until the transaction ends.
pub(crate) struct BuiltRow {
    pub(crate) deployment: DeploymentId,
    pub(crate) tenant: TenantName,
    pub(crate) function: FunctionName,
    /// As the server recorded it.
    pub(crate) source_digest: Digest,
    /// The builder's claim, not yet parsed.
    pub(crate) claim: Value,
    /// The database role of the builder whose claim it is.
    pub(crate) lease_role: Option<String>,
    /// The highest token granted.
    pub(crate) fencing_token: Option<i64>,
    /// The token that ended the build.
    pub(crate) committed_token: Option<i64>,
    /// How often another builder was asked for a claim.
    pub(crate) rounds: i16,
    /// The revision of the rules for which it was built again, if it was.
    pub(crate) rebuild_for: Option<String>,
    pub(crate) received_at: DateTime<Utc>,
    /// When it came into the queue last.
    pub(crate) queued_at: DateTime<Utc>,
    pub(crate) built_at: DateTime<Utc>,
    /// Where the deployment stands in a trace.
    pub(crate) trace_parent: Option<TraceParent>,
}

impl BuiltRow {
    /// The builder whose claim it is, as the database names it. Rows from before roles were noted are of the first one.
    pub(crate) fn builder(&self) -> &str {
        self.lease_role.as_deref().unwrap_or("mfaas_builder")
    }
}

/// A statement with the bytes that were signed.
pub(crate) struct SignedStatement<'a> {
    pub(crate) admission: &'a Admission,
    pub(crate) digest: Digest,
    pub(crate) envelope: &'a str,
}

/// The last migration that this build needs.
const SCHEMA_VERSION: i64 = 40;

/// A database that is not migrated far enough.
#[derive(Debug, thiserror::Error)]
#[error("migration {applied} is applied, {SCHEMA_VERSION} is needed")]
pub(crate) struct SchemaTooOld {
    applied: i64,
}

/// Refuses a database whose schema is older than this build.
pub(crate) fn check_schema(client: &mut Client) -> anyhow::Result<()> {
    let sql = "SELECT coalesce(max(version), 0) FROM _sqlx_migrations WHERE success";
    let applied: i64 = client.query_one(sql, &[]).context("the database was never migrated")?.try_get(0)?;
    anyhow::ensure!(applied >= SCHEMA_VERSION, SchemaTooOld { applied });
    Ok(())
}

/// A row that is to be signed, or what is wrong with it.
pub(crate) type Read = (DeploymentId, anyhow::Result<BuiltRow>);

/// The oldest built row that no other signer holds and that is not in `deferred`.
pub(crate) fn next_built(tx: &mut Transaction<'_>, deferred: &[Uuid]) -> anyhow::Result<Option<Read>> {
    let row = tx.query_opt(
        "SELECT d.id, d.tenant, d.function, d.source_digest, d.created_at, b.claim, b.fencing_token,
                b.committed_token, b.lease_role::text, b.rounds, b.rebuild_for, b.queued_at, b.finished_at, d.trace_parent
         FROM deployments d JOIN builds b ON b.deployment_id = d.id
         WHERE d.state = 'built' AND b.finished_at IS NOT NULL AND NOT d.id = ANY($1)
         ORDER BY b.finished_at, d.id LIMIT 1 FOR UPDATE OF d, b SKIP LOCKED",
        &[&deferred],
    )?;
    let read = |row: &Row| Ok((DeploymentId(row.try_get("id")?), built_row(row)));
    row.as_ref().map(read).transpose()
}

/// The tenant of this built row, if it is still one and nobody else holds it.
pub(crate) fn tenant_of_built(tx: &mut Transaction<'_>, id: DeploymentId) -> anyhow::Result<Option<String>> {
    let row = tx.query_opt(
        "SELECT d.tenant FROM deployments d JOIN builds b ON b.deployment_id = d.id
         WHERE d.state = 'built' AND d.id = $1 FOR UPDATE OF d, b SKIP LOCKED",
        &[&id.0],
    )?;
    Ok(row.map(|row| row.try_get(0)).transpose()?)
}

fn built_row(row: &Row) -> anyhow::Result<BuiltRow> {
    Ok(BuiltRow {
        deployment: DeploymentId(row.try_get("id")?),
        tenant: text(row, "tenant")?,
        function: text(row, "function")?,
        source_digest: text(row, "source_digest")?,
        claim: row.try_get::<_, Option<Value>>("claim")?.unwrap_or(Value::Null),
        lease_role: row.try_get("lease_role")?,
        fencing_token: row.try_get("fencing_token")?,
        committed_token: row.try_get("committed_token")?,
        rounds: row.try_get("rounds")?,
        rebuild_for: row.try_get("rebuild_for")?,
        received_at: row.try_get("created_at")?,
        queued_at: row.try_get("queued_at")?,
        built_at: row.try_get("finished_at")?,
        // Nothing hangs on it.
        trace_parent: row.try_get::<_, Option<String>>("trace_parent")?.and_then(|text| text.parse().ok()),
    })
}

/// The allowlist of this moment for one tenant and one compiler; no decision can change until the transaction
/// ends.
pub(crate) fn hold_allowlist(
    tx: &mut Transaction<'_>,
    tenant: &TenantName,
    toolchain: &ToolchainId,
) -> anyhow::Result<AllowlistSnapshot> {
    let policy_version = tx.query_one("SELECT hold_policy_version()", &[])?.try_get(0)?;
    let rows = tx.query(
        "SELECT name, version, checksum, features, direct, status, decided_by, reason, scope <> '' AS for_tenant
         FROM crates
         WHERE scope IN ('', $1) AND toolchain IN ('', $2) AND (expires_at IS NULL OR expires_at > now())",
        &[&tenant.as_str(), &toolchain.to_string()],
    )?;
    // Only a name or a version can be what cannot be read: then the decision is about no crate that anybody can name.
    let decisions = rows.iter().filter_map(|row| {
        let decision =
            allowed_crate(row).and_then(|allowed| Ok((allowed, row.try_get::<_, bool>("for_tenant")?)));
        readable("a decision about a crate", decision)
    });
    let counting = deciding(decisions, |(allowed, is_for_tenant)| {
        ((allowed.name.clone(), allowed.version.clone()), Precedence::new(allowed.status, *is_for_tenant))
    });
    let crates = counting.into_iter().map(|(allowed, _)| allowed).collect();
    Ok(AllowlistSnapshot { policy_version, crates })
}

/// Whether artifacts of this toolchain may be signed.
pub(crate) fn is_accepted(tx: &mut Transaction<'_>, toolchain: &ToolchainId) -> anyhow::Result<bool> {
    let sql = "SELECT EXISTS (SELECT 1 FROM toolchains WHERE id = $1 AND accepted)";
    Ok(tx.query_one(sql, &[&toolchain.to_string()])?.try_get(0)?)
}

/// Whether the artifact was revoked.
pub(crate) fn is_revoked(tx: &mut Transaction<'_>, artifact: &Digest) -> anyhow::Result<bool> {
    let sql = "SELECT EXISTS (SELECT 1 FROM revocations WHERE artifact = $1)";
    Ok(tx.query_one(sql, &[&artifact.to_string()])?.try_get(0)?)
}

/// Takes the function's next version number; makes the function, or brings a deleted one back.
pub(crate) fn next_version(
    tx: &mut Transaction<'_>,
    tenant: &TenantName,
    function: &FunctionName,
) -> anyhow::Result<VersionNumber> {
    let row = tx.query_one(
        "INSERT INTO functions (tenant, name, last_version) VALUES ($1, $2, 1)
         ON CONFLICT ON CONSTRAINT functions_pkey DO UPDATE
         SET last_version = functions.last_version + 1, deleted_at = NULL RETURNING last_version",
        &[&tenant.as_str(), &function.as_str()],
    )?;
    Ok(VersionNumber::new(u32::try_from(row.try_get::<_, i32>(0)?)?)?)
}

/// Everything that admits a version, except its events.
pub(crate) fn admit(tx: &mut Transaction<'_>, signed: &SignedStatement<'_>) -> anyhow::Result<()> {
    let a = signed.admission;
    let (tenant, function) = (a.tenant.as_str(), a.function.as_str());
    let (artifact, statement) = (a.artifact.to_string(), signed.digest.to_string());
    let version = i32::try_from(a.version.get())?;
    let (declared, callers) = (a.declares(), a.callers());
    let callers: Vec<&str> = callers.iter().map(TenantName::as_str).collect();
    tx.execute(
        "INSERT INTO artifacts (digest, bytes, toolchain) VALUES ($1, $2, $3)
         ON CONFLICT ON CONSTRAINT artifacts_pkey DO NOTHING",
        &[&artifact, &i64::try_from(a.artifact_bytes)?, &a.toolchain.to_string()],
    )?;
    tx.execute(
        "INSERT INTO statements (digest, artifact, envelope) VALUES ($1, $2, $3)",
        &[&statement, &artifact, &signed.envelope],
    )?;
    tx.execute(
        "INSERT INTO versions (tenant, function, version, deployment_id, artifact, statement, source_digest, handler,
                               budget_us, memory_bytes, toolchain, abi_version, policy_version, idempotent, isolation, access,
                               class, callers)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18)",
        &[
            &tenant,
            &function,
            &version,
            &a.deployment.0,
            &artifact,
            &statement,
            &a.source_upload.to_string(),
            &a.handler.as_str(),
            &i64::try_from(a.budget_us.as_micros())?,
            &i64::try_from(a.memory_bytes.as_bytes())?,
            &a.toolchain.to_string(),
            &i32::try_from(a.abi_version)?,
            &a.policy_version,
            &declared.idempotent,
            &declared.isolation.as_str(),
            &declared.access().as_str(),
            &declared.class.as_str(),
            &callers,
        ],
    )?;
    record_crates(tx, a, version)?;
    tx.execute(
        "INSERT INTO aliases (tenant, function, alias, version) VALUES ($1, $2, 'live', $3)
         ON CONFLICT ON CONSTRAINT aliases_pkey DO UPDATE SET version = $3, updated_at = now()",
        &[&tenant, &function, &version],
    )?;
    tx.execute(
        "UPDATE deployments SET state = 'admitted', version = $2 WHERE id = $1",
        &[&a.deployment.0, &version],
    )?;
    let detail = json!({
        "function": a.function, "version": a.version, "artifact": a.artifact, "statement": signed.digest,
        "policy_version": a.policy_version,
    });
    audit(tx, "version.admitted", tenant, &a.deployment.to_string(), &detail)?;
    tx.query_one("SELECT bump_desired_generation()", &[])?;
    Ok(())
}

/// Which crates the version was built with: how a revocation finds it.
fn record_crates(tx: &mut Transaction<'_>, admission: &Admission, version: i32) -> anyhow::Result<()> {
    for used in &admission.decisions {
        tx.execute(
            "INSERT INTO version_crates (tenant, function, version, name, crate_version, checksum)
             VALUES ($1, $2, $3, $4, $5, $6)",
            &[
                &admission.tenant.as_str(),
                &admission.function.as_str(),
                &version,
                &used.name.as_str(),
                &used.version,
                &used.checksum,
            ],
        )?;
    }
    Ok(())
}

/// Ends a deployment that is not admitted.
pub(crate) fn refuse(
    tx: &mut Transaction<'_>,
    id: DeploymentId,
    tenant: &str,
    state: DeploymentState,
    diagnostics: &[Diagnostic],
) -> anyhow::Result<()> {
    tx.execute(
        "UPDATE deployments SET state = $2, diagnostics = $3 WHERE id = $1",
        &[&id.0, &state.as_str(), &serde_json::to_value(diagnostics)?],
    )?;
    let codes: Vec<_> = diagnostics.iter().map(|d| d.code.id()).collect();
    let action = if state == DeploymentState::Refused { "signing.refused" } else { "signing.failed" };
    audit(tx, action, tenant, &id.to_string(), &json!({"codes": codes}))
}

/// Appends an event to a deployment's stream.
pub(crate) fn append_event(tx: &mut Transaction<'_>, id: DeploymentId, event: &Event) -> anyhow::Result<()> {
    tx.query_one("SELECT append_event($1, $2)", &[&id.0, &serde_json::to_value(event)?])?;
    Ok(())
}

/// Whether the database ended a transaction because another one stood in its way: the same again may succeed at once.
pub(crate) fn is_contention(error: &anyhow::Error) -> bool {
    use postgres::error::SqlState;
    let database = error.chain().find_map(|cause| cause.downcast_ref::<postgres::Error>());
    database.and_then(postgres::Error::code).is_some_and(|code| {
        *code == SqlState::T_R_SERIALIZATION_FAILURE || *code == SqlState::T_R_DEADLOCK_DETECTED
    })
}

/// Whether the database failed, and not on what a deployment says: it has run out of something or lost its disk, or a right,
/// a table or a column is missing. The deployment is signed when the database works again.
pub(crate) fn is_of_the_database(error: &anyhow::Error) -> bool {
    // Classes of SQLSTATE that values can bring about: data, constraints, limits of one row, and what triggers raise.
    const OF_VALUES: [&str; 4] = ["22", "23", "54", "P0"];
    let database = error.chain().find_map(|cause| cause.downcast_ref::<postgres::Error>());
    database.is_some_and(|error| {
        error.code().is_none_or(|code| !OF_VALUES.iter().any(|class| code.code().starts_with(class)))
    })
}

/// Publishes key lists, all of them or none: each with its version, higher than those before it.
pub(crate) fn publish_key_lists(client: &mut Client, lists: &[(u32, String)]) -> anyhow::Result<()> {
    if lists.is_empty() {
        return Ok(());
    }
    let mut tx = client.transaction()?;
    for (version, envelope) in lists {
        let version = i32::try_from(*version)?;
        let newest =
            tx.query_one("SELECT coalesce(max(version), 0) FROM key_lists", &[])?.try_get::<_, i32>(0)?;
        anyhow::ensure!(
            newest < version,
            "key list {newest} is published already; a new one needs a higher version"
        );
        tx.execute("INSERT INTO key_lists (version, envelope) VALUES ($1, $2)", &[&version, envelope])?;
        audit(&mut tx, "key_list.published", "", &version.to_string(), &json!({}))?;
    }
    // The last set may be by a key that counts no more.
    tx.batch_execute("SELECT bump_desired_generation()")?;
    Ok(tx.commit()?)
}

/// A version that can be called, as its row says, and its statement.
pub(crate) struct AdmittedVersion {
    pub(crate) tenant: TenantName,
    pub(crate) function: FunctionName,
    pub(crate) version: VersionNumber,
    pub(crate) deployment: DeploymentId,
    pub(crate) artifact: Digest,
    pub(crate) source: Digest,
    pub(crate) envelope: String,
}

impl AdmittedVersion {
    /// For people.
    pub(crate) fn name(&self) -> String {
        format!("{}/{}@{}", self.tenant, self.function, self.version)
    }
}

/// Every key list that was published, with its version.
pub(crate) fn key_lists(client: &mut Client) -> anyhow::Result<Vec<(u32, String)>> {
    let rows = client.query("SELECT version, envelope FROM key_lists ORDER BY version", &[])?;
    let list = |row: &Row| Ok((u32::try_from(row.try_get::<_, i32>(0)?)?, row.try_get(1)?));
    rows.iter().map(list).collect()
}

/// Versions that are not retired behind that one, at most `limit`; nobody else changes them until the transaction ends.
pub(crate) fn admitted_after(
    tx: &mut Transaction<'_>,
    after: Option<&AdmittedVersion>,
    limit: i64,
) -> anyhow::Result<Vec<AdmittedVersion>> {
    let (tenant, function, version) = match after {
        Some(last) => (last.tenant.as_str(), last.function.as_str(), i32::try_from(last.version.get())?),
        None => ("", "", 0),
    };
    let rows = tx.query(
        "SELECT v.tenant, v.function, v.version, v.deployment_id, v.artifact, v.source_digest, s.envelope
         FROM versions v JOIN statements s ON s.digest = v.statement
         WHERE (v.tenant, v.function, v.version) > ($1, $2, $3) AND v.retired_at IS NULL
         ORDER BY v.tenant, v.function, v.version LIMIT $4 FOR UPDATE OF v",
        &[&tenant, &function, &version, &limit],
    )?;
    let admitted = |row: &Row| {
        Ok(AdmittedVersion {
            tenant: text(row, "tenant")?,
            function: text(row, "function")?,
            version: VersionNumber::new(u32::try_from(row.try_get::<_, i32>("version")?)?)?,
            deployment: DeploymentId(row.try_get("deployment_id")?),
            artifact: text(row, "artifact")?,
            source: text(row, "source_digest")?,
            envelope: row.try_get("envelope")?,
        })
    };
    rows.iter().map(admitted).collect()
}

/// Gives a version another statement about the same.
pub(crate) fn replace_statement(
    tx: &mut Transaction<'_>,
    version: &AdmittedVersion,
    digest: &Digest,
    envelope: &str,
) -> anyhow::Result<()> {
    let digest = digest.to_string();
    tx.execute(
        "INSERT INTO statements (digest, artifact, envelope) VALUES ($1, $2, $3)",
        &[&digest, &version.artifact.to_string(), &envelope],
    )?;
    tx.execute(
        "UPDATE versions SET statement = $4 WHERE tenant = $1 AND function = $2 AND version = $3",
        &[
            &version.tenant.as_str(),
            &version.function.as_str(),
            &i32::try_from(version.version.get())?,
            &digest,
        ],
    )?;
    Ok(())
}

/// Notes that so many statements were signed again, and makes a serving set due that names them.
pub(crate) fn record_resigned(tx: &mut Transaction<'_>, statements: u64, key: KeyId) -> anyhow::Result<()> {
    audit(tx, "statements.resigned", "", &key.to_string(), &json!({"statements": statements}))?;
    tx.query_one("SELECT bump_desired_generation()", &[])?;
    Ok(())
}

fn audit(
    tx: &mut Transaction<'_>,
    action: &str,
    tenant: &str,
    subject: &str,
    detail: &Value,
) -> anyhow::Result<()> {
    tx.query_one("SELECT append_audit($1, $2, $3, $4, $5)", &[&ACTOR, &action, &tenant, &subject, detail])?;
    Ok(())
}

fn allowed_crate(row: &Row) -> anyhow::Result<AllowedCrate> {
    let status = match row.try_get::<_, String>("status")?.as_str() {
        "allowed" => CrateStatus::Allowed,
        "denied" => CrateStatus::Denied,
        "revoked" => CrateStatus::Revoked,
        other => anyhow::bail!("unknown crate status {other:?}"),
    };
    Ok(AllowedCrate {
        name: text(row, "name")?,
        version: semver::Version::parse(&row.try_get::<_, String>("version")?)?,
        checksum: row.try_get("checksum")?,
        features: row.try_get("features")?,
        direct: row.try_get("direct")?,
        status,
        decided_by: row.try_get("decided_by")?,
        reason: row.try_get("reason")?,
    })
}

/// What a row says, or nothing and a line in the log: a row that cannot be read must not keep back all others.
fn readable<T>(what: &str, read: anyhow::Result<T>) -> Option<T> {
    read.inspect_err(|error| {
        tracing::error!(error = format!("{error:#}"), "{what} cannot be read and is left out")
    })
    .ok()
}

fn text<T>(row: &Row, column: &str) -> anyhow::Result<T>
where
    T: std::str::FromStr,
    T::Err: std::error::Error + Send + Sync + 'static,
{
    row.try_get::<_, String>(column)?.parse().with_context(|| format!("column {column}"))
}
