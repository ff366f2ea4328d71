//! What the world says about crates, brought in as a whole: advisories, and audits of others.
//!
//! Importing advisories is the alarm: every allowed version that one of them refuses is taken back in the same
//! transaction, and the answer says what runs with it.

use mfaas_ident::{CrateName, PersonName};
use mfaas_rules::crate_facts::{AdvisorySet, AuditSet};
use mfaas_rules::refusing_advisory;
use sqlx::PgConnection;
use sqlx::types::Json;

use crate::audit::{self, Entry};
use crate::decode::parsed;
use crate::requests::{version, wake_acquirer};
use crate::revoking::{built_with, revoke};
use crate::{Actor, Catalog, CatalogError, ConcernedVersion, Revocation, Severity};

/// An allowed version that an advisory refuses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Alarm {
    /// The advisory's id.
    pub advisory: String,
    /// Its title.
    pub title: String,
    /// The crate.
    pub name: CrateName,
    /// The version.
    pub version: semver::Version,
    /// Everything that was built with it.
    pub concerned: Vec<ConcernedVersion>,
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
    /// What an import would raise an alarm about; changes nothing.
    pub async fn alarms(&self, set: &AdvisorySet) -> Result<Vec<Alarm>, CatalogError> {
        let mut connection = self.pool.acquire().await?;
        alarms(&mut connection, set).await
    }

    /// Takes the advisories over, and takes back every allowed version that one of them refuses.
    pub async fn import_advisories(&self, import: &AdvisoryImport<'_>) -> Result<Vec<Alarm>, CatalogError> {
        let mut tx = self.begin().await?;
        keep(&mut tx, "advisories", import.actor, &Json(import.set)).await?;
        let alarms = alarms(&mut tx, import.set).await?;
        for alarm in &alarms {
            let reason = format!("{}: {}", alarm.advisory, alarm.title);
            let revocation = Revocation {
                name: &alarm.name,
                version: &alarm.version,
                person: import.person,
                actor: import.actor,
                severity: import.severity,
                reason: &reason,
            };
            revoke(&mut tx, &revocation).await?;
        }
        let detail = serde_json::json!({
            "advisories": import.set.advisories.len(), "unread": import.set.unread.len(), "alarms": alarms.len(),
        });
        let actor = import.actor;
        audit::append(
            &mut tx,
            Entry { actor, action: "advisories.imported", tenant: "", subject: "", detail },
        )
        .await?;
        wake_acquirer(&mut tx).await?;
        tx.commit().await?;
        Ok(alarms)
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

async fn alarms(connection: &mut PgConnection, set: &AdvisorySet) -> Result<Vec<Alarm>, CatalogError> {
    let rows = sqlx::query(
        "SELECT DISTINCT name, version FROM crates WHERE status = 'allowed' ORDER BY name, version",
    )
    .fetch_all(&mut *connection)
    .await?;
    let mut alarms = Vec::new();
    for row in &rows {
        let (name, version): (CrateName, _) = (parsed(row, "name")?, version(row, "version")?);
        let Some(advisory) = refusing_advisory(set, &name, &version) else { continue };
        let concerned = built_with(connection, &name, &version).await?;
        let (advisory, title) = (advisory.id.clone(), advisory.title.clone());
        alarms.push(Alarm { advisory, title, name, version, concerned });
    }
    Ok(alarms)
}
