//! The promises of the registry, checked against what is really there. Run after every fault test.
//!
//! Needs a role that may read everything (`mfaas_server` or the owner). Reads only.

use mfaas_attest::{AuditHead, ServingSet, Statement, Trust, verify};
use mfaas_blobs::{BlobError, Blobs};
use mfaas_ident::Digest;
use sqlx::Row as _;
use sqlx::postgres::PgRow;

use crate::decode::{Decoded, parsed};
use crate::{Catalog, CatalogError};

/// Artifacts larger than this cannot have been admitted.
const ARTIFACT_BYTES_MAX: u64 = 64 << 20;

/// A promise that is broken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// `I1` … `I8`.
    pub invariant: &'static str,
    /// What was found.
    pub what: String,
}

/// What must be true of rows alone: a name, a sentence, and a query that finds what breaks it.
const ROW_RULES: &[(&str, &str, &str)] = &[
    (
        "I1",
        "deployment has not exactly one record of its admission",
        "SELECT d.id::text AS what FROM deployments d WHERE d.state = 'admitted'
         AND (SELECT count(*) FROM audit_log a WHERE a.subject = d.id::text AND a.action = 'version.admitted') <> 1",
    ),
    (
        "I1",
        "deployment has not exactly one record of its receipt",
        "SELECT d.id::text AS what FROM deployments d
         WHERE (SELECT count(*) FROM audit_log a WHERE a.subject = d.id::text AND a.action = 'deployment.received') <> 1",
    ),
    (
        "I2",
        "deployment without a place in the queue",
        "SELECT d.id::text AS what FROM deployments d
         WHERE NOT EXISTS (SELECT 1 FROM builds b WHERE b.deployment_id = d.id)",
    ),
    (
        "I2",
        "unfinished deployment that no builder can ever take",
        "SELECT d.id::text AS what FROM deployments d JOIN builds b ON b.deployment_id = d.id
         WHERE d.state IN ('received', 'building') AND b.finished_at IS NOT NULL",
    ),
    (
        "I2",
        "the last event does not tell the state",
        "SELECT d.id::text AS what FROM deployments d WHERE d.state <> coalesce((
             SELECT e.body ->> 'state' FROM deployment_events e
             WHERE e.deployment_id = d.id AND e.body ->> 'kind' = 'state' ORDER BY e.seq DESC LIMIT 1), '')",
    ),
    (
        "I2",
        "event stream with a gap",
        "SELECT d.id::text AS what FROM deployments d WHERE d.last_event <> (
             SELECT count(*) FROM deployment_events e WHERE e.deployment_id = d.id) AND d.forgotten_at IS NULL",
    ),
    (
        "I3",
        "artifact without a version that was signed for it",
        "SELECT a.digest AS what FROM artifacts a WHERE NOT EXISTS (SELECT 1 FROM versions v
             JOIN statements s ON s.digest = v.statement WHERE v.artifact = a.digest AND s.artifact = a.digest)",
    ),
    (
        "I4",
        "version of a deployment that was not admitted as it",
        "SELECT v.tenant || '/' || v.function || '@' || v.version AS what
         FROM versions v JOIN deployments d ON d.id = v.deployment_id
         WHERE d.state <> 'admitted' OR d.version <> v.version OR d.tenant <> v.tenant
            OR d.function <> v.function OR d.source_digest <> v.source_digest",
    ),
    (
        "I4",
        "version whose artifact is not what the highest token committed",
        "SELECT v.tenant || '/' || v.function || '@' || v.version AS what
         FROM versions v JOIN builds b ON b.deployment_id = v.deployment_id
         WHERE b.claim ->> 'artifact' IS DISTINCT FROM v.artifact",
    ),
    (
        "I4",
        "build committed under an older token",
        "SELECT b.deployment_id::text AS what FROM builds b
         JOIN audit_log a ON a.subject = b.deployment_id::text AND a.action = 'build.built'
         WHERE b.claim IS NOT NULL AND NOT EXISTS (
             SELECT 1 FROM audit_log x WHERE x.subject = a.subject AND x.action = 'build.built'
             AND (x.detail ->> 'token')::bigint = b.fencing_token)",
    ),
    (
        "I8",
        "record of an admission without its version",
        "SELECT a.subject AS what FROM audit_log a WHERE a.action = 'version.admitted'
         AND NOT EXISTS (SELECT 1 FROM versions v WHERE v.deployment_id::text = a.subject)",
    ),
];

/// Checks I1–I4 and I8; `trust` holds the keys that statements and sets are signed with.
pub async fn check(catalog: &Catalog, blobs: &Blobs, trust: &Trust) -> Result<Vec<Violation>, CatalogError> {
    let mut found = Vec::new();
    for (invariant, sentence, query) in ROW_RULES.iter().copied() {
        for row in sqlx::query(query).fetch_all(&catalog.pool).await? {
            let what: String = row.try_get("what")?;
            found.push(Violation { invariant, what: format!("{sentence}: {what}") });
        }
    }
    check_artifacts(catalog, blobs, trust, &mut found).await?;
    check_sets(catalog, trust, &mut found).await?;
    if let Err(broken) = catalog.verify_audit(AuditHead::START).await? {
        found.push(Violation { invariant: "I8", what: broken.to_string() });
    }
    Ok(found)
}

/// I3: every version's statement verifies and says what the row says; its blob is whole.
async fn check_artifacts(
    catalog: &Catalog,
    blobs: &Blobs,
    trust: &Trust,
    found: &mut Vec<Violation>,
) -> Result<(), CatalogError> {
    let rows = sqlx::query(
        "SELECT v.tenant, v.function, v.version::text AS version, v.artifact, v.source_digest, s.envelope,
                v.retired_at IS NOT NULL AS retired
         FROM versions v JOIN statements s ON s.digest = v.statement ORDER BY v.tenant, v.function, v.version",
    )
    .fetch_all(&catalog.pool)
    .await?;
    for row in &rows {
        let signed = Signed::read(row)?;
        if let Err(what) = signed.check(trust) {
            found.push(Violation { invariant: "I3", what: format!("{}: {what}", signed.name) });
        }
        match blobs.get(&signed.artifact, ARTIFACT_BYTES_MAX).await {
            Ok(_) => {}
            // Nobody can call it any more, and its artifact is not kept for ever.
            Err(BlobError::Missing { .. }) if row.try_get("retired")? => {}
            Err(
                error @ (BlobError::Missing { .. } | BlobError::Corrupt { .. } | BlobError::TooLarge { .. }),
            ) => {
                found.push(Violation { invariant: "I3", what: format!("{}: {error}", signed.name) });
            }
            Err(error) => {
                found.push(Violation { invariant: "I3", what: format!("{}: unread: {error}", signed.name) })
            }
        }
    }
    Ok(())
}

/// Every stored serving set verifies and has the epoch of its row.
async fn check_sets(
    catalog: &Catalog,
    trust: &Trust,
    found: &mut Vec<Violation>,
) -> Result<(), CatalogError> {
    let rows = sqlx::query("SELECT epoch, envelope FROM serving_sets ORDER BY epoch")
        .fetch_all(&catalog.pool)
        .await?;
    for row in &rows {
        let (epoch, envelope): (i64, String) = (row.try_get("epoch")?, row.try_get("envelope")?);
        match verify::<ServingSet>(envelope.as_bytes(), trust) {
            Ok(set) if i64::try_from(set.epoch.0) == Ok(epoch) => {}
            Ok(set) => {
                let what = format!("serving set {epoch} says it is {}", set.epoch);
                found.push(Violation { invariant: "I3", what });
            }
            Err(error) => {
                found.push(Violation { invariant: "I3", what: format!("serving set {epoch}: {error}") });
            }
        }
    }
    Ok(())
}

struct Signed {
    name: String,
    artifact: Digest,
    source: Digest,
    envelope: String,
}

impl Signed {
    fn read(row: &PgRow) -> Decoded<Self> {
        let text = |column: &str| row.try_get::<String, _>(column);
        Ok(Self {
            name: format!("{}/{}@{}", text("tenant")?, text("function")?, text("version")?),
            artifact: parsed(row, "artifact")?,
            source: parsed(row, "source_digest")?,
            envelope: text("envelope")?,
        })
    }

    fn check(&self, trust: &Trust) -> Result<(), String> {
        let statement = verify::<Statement>(self.envelope.as_bytes(), trust).map_err(|e| e.to_string())?;
        let admitted = &statement.predicate;
        let name = format!("{}/{}@{}", admitted.tenant, admitted.function, admitted.version);
        if name != self.name || admitted.artifact != self.artifact || admitted.source_upload != self.source {
            return Err(format!("the statement is about {name}, artifact {}", admitted.artifact));
        }
        Ok(())
    }
}
