//! Claims that wait for another builder's, builds that begin again, and what claims are compared with that no builder can write.

use anyhow::Context as _;
use chrono::{DateTime, Utc};
use mfaas_delivery::Diagnostic;
use mfaas_ident::{CrateName, DeploymentId, ToolchainId};
use mfaas_rules::LinkedCrate;
use postgres::{Client, Row, Transaction};
use serde_json::{Value, json};
use uuid::Uuid;

use super::{BuiltRow, audit, text};
use crate::agreement::GivenClaim;
use crate::closure::CachedCrate;

/// A builder that was not seen for this long is not there.
const BUILDER_ALIVE_SECONDS: f64 = 30.0;

/// How long a build may still begin with a cache after the next one was recorded: the record is a transaction, whose
/// time is that of its beginning.
const HANDOVER_SECONDS: f64 = 60.0;

/// These crates as the caches hold them that a builder may have used for a build that was queued at that time: those of
/// its toolchain that another one had not taken the place of by then. First those of the site, then those that ship.
///
/// `OFFSET 0` makes the database look each cache up by its key, and not read what all of them hold.
pub(crate) fn cached_crates(
    tx: &mut Transaction<'_>,
    toolchain: &ToolchainId,
    queued_at: DateTime<Utc>,
    names: &[&CrateName],
) -> anyhow::Result<Vec<CachedCrate>> {
    let names: Vec<&str> = names.iter().map(|name| name.as_str()).collect();
    let rows = tx.query(
        "WITH replaced AS (
             SELECT base, max(id) AS by FROM dependency_caches
             WHERE toolchain = $1 AND built_at < $3::timestamptz - make_interval(secs => $4) GROUP BY base)
         SELECT c.* FROM dependency_caches d LEFT JOIN replaced r ON r.base = d.base
         CROSS JOIN LATERAL (
             SELECT c.cache, c.name, c.version, c.checksum, c.closure FROM cached_crates c
             WHERE c.cache = d.key AND c.name = ANY($2) OFFSET 0) c
         WHERE d.toolchain = $1 AND d.id >= coalesce(r.by, 0)
         UNION ALL
         SELECT c.cache, c.name, c.version, c.checksum, c.closure FROM cached_crates c
         WHERE c.toolchain = $1 AND c.name = ANY($2) AND c.cache = c.base
         AND NOT EXISTS (SELECT 1 FROM replaced r WHERE r.base = c.base)
         ORDER BY 1, 2, 3",
        &[&toolchain.to_string(), &names, &queued_at, &HANDOVER_SECONDS],
    )?;
    rows.iter().map(cached_crate).collect()
}

fn cached_crate(row: &Row) -> anyhow::Result<CachedCrate> {
    let of = LinkedCrate {
        name: text(row, "name")?,
        version: text(row, "version")?,
        checksum: row.try_get("checksum")?,
    };
    let needs = serde_json::from_value(row.try_get("closure")?)?;
    Ok(CachedCrate { cache: row.try_get("cache")?, of, needs })
}

/// The claims about a deployment that were kept.
pub(crate) fn kept(tx: &mut Transaction<'_>, row: &BuiltRow) -> anyhow::Result<Vec<GivenClaim>> {
    let sql = "SELECT role::text, claim FROM build_claims WHERE deployment_id = $1 ORDER BY role";
    let rows = tx.query(sql, &[&row.deployment.0])?;
    let given = |row: &Row| {
        let role: String = row.try_get("role")?;
        let claim = serde_json::from_value(row.try_get("claim")?)
            .with_context(|| format!("the claim of {role} that was kept cannot be read"))?;
        Ok(GivenClaim { role, claim })
    };
    rows.iter().map(given).collect()
}

/// Forgets the claims about a deployment that were kept.
pub(crate) fn forget(tx: &mut Transaction<'_>, row: &BuiltRow) -> anyhow::Result<()> {
    tx.execute("DELETE FROM build_claims WHERE deployment_id = $1", &[&row.deployment.0])?;
    Ok(())
}

/// Keeps the claim of a deployment and puts it into the queue for another builder.
pub(crate) fn ask_another(
    tx: &mut Transaction<'_>,
    row: &BuiltRow,
    diagnostic: &Diagnostic,
) -> anyhow::Result<()> {
    tx.execute(
        "INSERT INTO build_claims (deployment_id, role, committed_token, claim, finished_at)
         VALUES ($1, $2::text::name, $3, $4, $5)",
        &[&row.deployment.0, &row.builder(), &row.committed_token, &row.claim, &row.built_at],
    )?;
    // The database opens the build again.
    tx.execute("UPDATE builds SET rounds = rounds + 1 WHERE deployment_id = $1", &[&row.deployment.0])?;
    requeue(tx, row, std::slice::from_ref(diagnostic))?;
    let detail = json!({"builder": row.builder(), "round": row.rounds + 1});
    audit(tx, "signing.another_builder", row.tenant.as_str(), &row.deployment.to_string(), &detail)
}

/// Puts a deployment back into the queue, to be built under this revision of the rules.
pub(crate) fn rebuild(tx: &mut Transaction<'_>, row: &BuiltRow, revision: &str) -> anyhow::Result<()> {
    let id = row.deployment.to_string();
    forget(tx, row)?;
    // The database opens the build again; all that is the signer's to say is what for.
    tx.execute(
        "UPDATE builds SET rebuild_for = $2, rounds = 0 WHERE deployment_id = $1",
        &[&row.deployment.0, &revision],
    )?;
    requeue(tx, row, &[])?;
    audit(tx, "signing.rebuild", row.tenant.as_str(), &id, &json!({"policy_revision": revision}))
}

/// Puts a deployment whose build is open again into the queue, with what its owner is told.
fn requeue(tx: &mut Transaction<'_>, row: &BuiltRow, diagnostics: &[Diagnostic]) -> anyhow::Result<()> {
    let diagnostics = serde_json::to_value(diagnostics)?;
    tx.execute(
        "UPDATE deployments SET state = 'received', diagnostics = $2 WHERE id = $1",
        &[&row.deployment.0, &diagnostics],
    )?;
    tx.execute("SELECT pg_notify('mfaas_builds', $1)", &[&row.deployment.to_string()])?;
    Ok(())
}

/// Ends the build of one deployment that waits for another builder with the newest claim that was kept about it, if at least
/// `wanted` builders have given one; the claims of the others stay kept. Whoever builds it at the moment goes on.
pub(crate) fn take_up(tx: &mut Transaction<'_>, wanted: i64) -> anyhow::Result<Option<DeploymentId>> {
    let row = tx.query_opt(
        "SELECT d.id, d.tenant FROM builds b JOIN deployments d ON d.id = b.deployment_id
         WHERE b.finished_at IS NULL AND b.rounds > 0 AND d.state = 'received'
           AND (SELECT count(*) FROM build_claims c WHERE c.deployment_id = b.deployment_id) >= $1
         ORDER BY b.queued_at, b.deployment_id LIMIT 1 FOR UPDATE OF d, b SKIP LOCKED",
        &[&wanted],
    )?;
    let Some(row) = row else { return Ok(None) };
    let (id, tenant): (Uuid, String) = (row.try_get("id")?, row.try_get("tenant")?);
    // The database takes the claim from those that were kept.
    tx.execute("UPDATE builds SET finished_at = now() WHERE deployment_id = $1", &[&id])?;
    let taken = tx.query_one(
        "DELETE FROM build_claims c USING builds b
         WHERE b.deployment_id = $1 AND c.deployment_id = b.deployment_id AND c.role = b.lease_role
         RETURNING c.role::text",
        &[&id],
    )?;
    tx.execute("UPDATE deployments SET state = 'built', diagnostics = '[]' WHERE id = $1", &[&id])?;
    let detail = json!({"builder": taken.try_get::<_, String>(0)?, "builders_wanted": wanted});
    audit(tx, "signing.taken_up", &tenant, &id.to_string(), &detail)?;
    Ok(Some(DeploymentId(id)))
}

/// Records who made what, for people to look at.
pub(crate) fn record_disagreement(
    tx: &mut Transaction<'_>,
    row: &BuiltRow,
    claims: &[GivenClaim],
) -> anyhow::Result<()> {
    let said = |given: &GivenClaim| {
        json!({
            "builder": given.role, "artifact": given.claim.artifact, "toolchain": given.claim.toolchain,
            "crates": given.claim.decisions.len(),
        })
    };
    let said: Vec<Value> = claims.iter().map(said).collect();
    let detail = json!({"claims": said});
    audit(tx, "signing.disagreement", row.tenant.as_str(), &row.deployment.to_string(), &detail)
}

/// Says how many builders have to agree, for whoever tells people why builds wait.
pub(crate) fn tell_agreement(client: &mut Client, builders: usize) -> anyhow::Result<()> {
    let sql = "UPDATE agreement SET builders = $1 WHERE builders IS DISTINCT FROM $1";
    client.execute(sql, &[&i32::try_from(builders)?])?;
    Ok(())
}

/// Whether a builder takes builds at the moment that has given no claim about this deployment.
pub(crate) fn is_another_builder_there(tx: &mut Transaction<'_>, row: &BuiltRow) -> anyhow::Result<bool> {
    let sql = "SELECT EXISTS (
                   SELECT 1 FROM builders b WHERE b.unwell IS NULL AND b.seen_at > now() - make_interval(secs => $3)
                   AND b.role IS DISTINCT FROM $2::text::name AND b.role NOT IN (
                       SELECT c.role FROM build_claims c WHERE c.deployment_id = $1))";
    Ok(tx.query_one(sql, &[&row.deployment.0, &row.builder(), &BUILDER_ALIVE_SECONDS])?.try_get(0)?)
}
