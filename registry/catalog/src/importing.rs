//! What the world says about crates, brought in as a whole: advisories, and audits of others.
//!
//! Importing advisories finds the matches: every allowed version that one of them matches is revoked in the same
//! transaction, and the answer says what runs with it.

use mfaas_ident::{CrateName, PersonName};
use mfaas_rules::crate_facts::{AdvisorySet, AuditSet};
use mfaas_rules::refusing_advisory;
use sqlx::PgConnection;
use sqlx::types::Json;

use crate::allowlist::hold_decisions;
use crate::audit::{self, Entry};
use crate::connection::retried;
use crate::decode::parsed;
use crate::functions::bump;
use crate::requests::{version, wake_acquirer};
use crate::revoking::{built_with, revoke};
use crate::{Actor, AffectedVersion, Catalog, CatalogError, Revocation, Severity};

/// An allowed version that an advisory matches, with the versions of functions that it affects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AdvisoryMatch {
    /// The advisory's id.
    pub advisory: String,
    /// Its title.
    pub title: String,
    /// The crate.
    pub name: CrateName,
    /// The version.
    pub version: semver::Version,
    /// Everything that was built with it.
    pub affected: Vec<AffectedVersion>,
}

/// Advisories to be imported.
#[derive(Debug, Clone)]
pub struct AdvisoryImport<'a> {
    /// All of them; they take the place of what was imported before.
    pub set: &'a AdvisorySet,
    /// What happens to what runs with a version that is refused now.
    pub severity: Severity,
    /// Who imports.
    pub person: &'a PersonName,
    /// With which token.
    pub actor: &'a Actor,
}

impl Catalog {
    /// The advisory matches that an import would make; changes nothing.
    pub async fn advisory_matches(&self, set: &AdvisorySet) -> Result<Vec<AdvisoryMatch>, CatalogError> {
        let mut connection = self.pool.acquire().await?;
        advisory_matches(&mut connection, set).await
    }

    /// Stores the advisories, and revokes every allowed version that one of them matches.
    pub async fn import_advisories(
        &self,
        import: &AdvisoryImport<'_>,
    ) -> Result<Vec<AdvisoryMatch>, CatalogError> {
        retried!(self.import_advisories_once(import))
    }

    async fn import_advisories_once(
        &self,
        import: &AdvisoryImport<'_>,
    ) -> Result<Vec<AdvisoryMatch>, CatalogError> {
        let mut tx = self.begin().await?;
        hold_decisions(&mut tx).await?;
        keep(&mut tx, "advisories", import.actor, &Json(import.set)).await?;
        let matches = advisory_matches(&mut tx, import.set).await?;
        for found in &matches {
            let reason = format!("{}: {}", found.advisory, found.title);
            let revocation = Revocation {
                name: &found.name,
                version: &found.version,
                person: import.person,
                actor: import.actor,
                severity: import.severity,
                reason: &reason,
            };
            revoke(&mut tx, &revocation).await?;
        }
        if import.severity == Severity::Unload && !matches.is_empty() {
            bump(&mut tx).await?;
        }
        let detail = serde_json::json!({
            "advisories": import.set.advisories.len(), "unread": import.set.unread.len(), "matches": matches.len(),
        });
        let actor = import.actor;
        audit::append(
            &mut tx,
            Entry { actor, action: "advisories.imported", tenant: "", subject: "", detail },
        )
        .await?;
        wake_acquirer(&mut tx).await?;
        tx.commit().await?;
        Ok(matches)
    }

    /// Takes other people's audits over, in place of those that were imported before.
    pub async fn import_audits(&self, actor: &Actor, set: &AuditSet) -> Result<(), CatalogError> {
        let mut tx = self.begin().await?;
        keep(&mut tx, "audits", actor, &Json(set)).await?;
        let detail = serde_json::json!({ "audits": set.audits.len(), "unread": set.unread.len() });
        audit::append(&mut tx, Entry { actor, action: "audits.imported", tenant: "", subject: "", detail })
            .await?;
        Ok(tx.commit().await?)
    }
}

async fn keep<T: serde::Serialize + Sync>(
    connection: &mut PgConnection,
    kind: &'static str,
    actor: &Actor,
    body: &Json<&T>,
) -> Result<(), CatalogError> {
    sqlx::query(
        "INSERT INTO imported (kind, body, imported_by) VALUES ($1, $2, $3)
         ON CONFLICT ON CONSTRAINT imported_pkey DO UPDATE
         SET body = excluded.body, imported_by = excluded.imported_by, imported_at = now()",
    )
    .bind(kind)
    .bind(body)
    .bind(actor.as_str())
    .execute(connection)
    .await?;
    Ok(())
}

async fn advisory_matches(
    connection: &mut PgConnection,
    set: &AdvisorySet,
) -> Result<Vec<AdvisoryMatch>, CatalogError> {
    let rows = sqlx::query(
        "SELECT DISTINCT name, version FROM crates WHERE status = 'allowed' ORDER BY name, version",
    )
    .fetch_all(&mut *connection)
    .await?;
    let mut matches = Vec::new();
    for row in &rows {
        let (name, version): (CrateName, _) = (parsed(row, "name")?, version(row, "version")?);
        let Some(advisory) = refusing_advisory(set, &name, &version) else { continue };
        let affected = built_with(connection, &name, &version).await?;
        let (advisory, title) = (advisory.id.clone(), advisory.title.clone());
        matches.push(AdvisoryMatch { advisory, title, name, version, affected });
    }
    Ok(matches)
}
