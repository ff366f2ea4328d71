//! Taking a decision back: what it concerns, and what is done about it.
//!
//! What concerns it is read off the statements that were signed, by name and version of the crate; nothing is
//! guessed from manifests.

use mfaas_ident::{AliasName, CrateName, Digest, FunctionName, PersonName, TenantName, VersionNumber};
use sqlx::postgres::PgRow;
use sqlx::{PgConnection, Row as _};

use crate::allowlist::hold_decisions;
use crate::audit::{self, Entry};
use crate::connection::retried;
use crate::decode::{Decoded, bad, parsed, small};
use crate::functions::bump;
use crate::{Actor, Catalog, CatalogError};

/// What a revocation does to what runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Severity {
    /// Nothing is built with it any more; what runs goes on.
    Block,
    /// Nodes unload every function that was built with it, too.
    Unload,
}

/// A version that was built with a crate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AffectedVersion {
    /// Owner.
    pub tenant: TenantName,
    /// Function.
    pub function: FunctionName,
    /// Version.
    pub version: VersionNumber,
    /// Its artifact.
    pub artifact: Digest,
    /// The aliases that name it today.
    pub aliases: Vec<AliasName>,
    /// True when the artifact was revoked already.
    pub revoked: bool,
}

/// A revocation to be made.
#[derive(Debug, Clone)]
pub struct Revocation<'a> {
    /// The package.
    pub name: &'a CrateName,
    /// The version.
    pub version: &'a semver::Version,
    /// Who takes it back.
    pub person: &'a PersonName,
    /// With which token.
    pub actor: &'a Actor,
    /// What happens to what runs.
    pub severity: Severity,
    /// Why; shown to everybody whose deployment is refused for it.
    pub reason: &'a str,
}

impl Catalog {
    /// Every version that was built with the crate and is not deleted.
    pub async fn built_with(
        &self,
        name: &CrateName,
        version: &semver::Version,
    ) -> Result<Vec<AffectedVersion>, CatalogError> {
        let mut connection = self.pool.acquire().await?;
        built_with(&mut connection, name, version).await
    }

    /// Takes the decision back for every tenant. Answers what it concerns; with [`Severity::Unload`] all of
    /// that is revoked in the same transaction.
    ///
    /// # Errors
    /// [`CatalogError::NotFound`] if the crate version is not allowed.
    pub async fn revoke_crate(
        &self,
        revocation: &Revocation<'_>,
    ) -> Result<Vec<AffectedVersion>, CatalogError> {
        retried!(self.revoke_crate_once(revocation))
    }

    async fn revoke_crate_once(
        &self,
        revocation: &Revocation<'_>,
    ) -> Result<Vec<AffectedVersion>, CatalogError> {
        let mut tx = self.begin().await?;
        hold_decisions(&mut tx).await?;
        let affected = revoke(&mut tx, revocation).await?;
        if revocation.severity == Severity::Unload {
            bump(&mut tx).await?;
        }
        crate::requests::wake_acquirer(&mut tx).await?;
        tx.commit().await?;
        Ok(affected)
    }
}

/// The whole revocation, in the caller's transaction, which holds the decisions. Whoever unloads says when it has revoked all that
/// nodes should serve something else: no artifact's row is locked behind that.
pub(crate) async fn revoke(
    connection: &mut PgConnection,
    revocation: &Revocation<'_>,
) -> Result<Vec<AffectedVersion>, CatalogError> {
    revoke_version(connection, revocation).await?;
    let affected = built_with(connection, revocation.name, revocation.version).await?;
    if revocation.severity == Severity::Unload {
        unload(connection, revocation, &affected).await?;
    }
    let detail = serde_json::json!({
        "person": revocation.person, "reason": revocation.reason, "affected": affected.len(),
        "unloaded": revocation.severity == Severity::Unload,
    });
    let subject = format!("{} {}", revocation.name, revocation.version);
    let actor = revocation.actor;
    let entry = Entry { actor, action: "crate.revoked", tenant: "", subject: &subject, detail };
    audit::append(connection, entry).await?;
    Ok(affected)
}

async fn revoke_version(
    connection: &mut PgConnection,
    revocation: &Revocation<'_>,
) -> Result<(), CatalogError> {
    let taken = sqlx::query(
        "UPDATE crates SET status = 'revoked', decided_by = $3, decided_at = now(), reason = $4
         WHERE name = $1 AND version = $2 AND status = 'allowed'",
    )
    .bind(revocation.name.as_str())
    .bind(revocation.version.to_string())
    .bind(revocation.person.as_str())
    .bind(revocation.reason)
    .execute(&mut *connection)
    .await?;
    if taken.rows_affected() == 0 {
        return Err(CatalogError::NotFound { what: "allowed crate version" });
    }
    sqlx::query(
        "UPDATE reviews SET state = 'revoked', reason = $3, closed_at = now()
         WHERE name = $1 AND version = $2 AND state = 'approved'",
    )
    .bind(revocation.name.as_str())
    .bind(revocation.version.to_string())
    .bind(revocation.reason)
    .execute(connection)
    .await?;
    Ok(())
}

async fn unload(
    connection: &mut PgConnection,
    revocation: &Revocation<'_>,
    affected: &[AffectedVersion],
) -> Result<(), CatalogError> {
    let artifacts: Vec<String> = affected.iter().map(|version| version.artifact.to_string()).collect();
    sqlx::query(
        "INSERT INTO revocations (artifact, reason, revoked_by) SELECT DISTINCT unnest($1::text[]), $2, $3
         ON CONFLICT ON CONSTRAINT revocations_pkey DO NOTHING",
    )
    .bind(artifacts)
    .bind(format!("crate {} {}: {}", revocation.name, revocation.version, revocation.reason))
    .bind(revocation.person.as_str())
    .execute(connection)
    .await?;
    Ok(())
}

pub(crate) async fn built_with(
    connection: &mut PgConnection,
    name: &CrateName,
    version: &semver::Version,
) -> Result<Vec<AffectedVersion>, CatalogError> {
    let rows = sqlx::query(
        "SELECT v.tenant, v.function, v.version, v.artifact,
                ARRAY(SELECT a.alias FROM aliases a WHERE (a.tenant, a.function, a.version)
                      = (v.tenant, v.function, v.version) ORDER BY a.alias) AS aliases,
                r.artifact IS NOT NULL AS revoked
         FROM version_crates c JOIN versions v USING (tenant, function, version)
         LEFT JOIN revocations r ON r.artifact = v.artifact
         WHERE c.name = $1 AND c.crate_version = $2 AND v.retired_at IS NULL
         ORDER BY v.tenant, v.function, v.version",
    )
    .bind(name.as_str())
    .bind(version.to_string())
    .fetch_all(connection)
    .await?;
    Ok(rows.iter().map(affected).collect::<Result<_, _>>()?)
}

fn affected(row: &PgRow) -> Decoded<AffectedVersion> {
    let aliases: Vec<String> = row.try_get("aliases")?;
    Ok(AffectedVersion {
        tenant: parsed(row, "tenant")?,
        function: parsed(row, "function")?,
        version: small(row, "version")?,
        artifact: parsed(row, "artifact")?,
        aliases: aliases
            .iter()
            .map(|alias| AliasName::parse(alias).map_err(|e| bad("aliases", e)))
            .collect::<Result<_, _>>()?,
        revoked: row.try_get("revoked")?,
    })
}
