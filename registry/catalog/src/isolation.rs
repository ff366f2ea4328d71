//! Performance isolation: what nodes say of their machines, and the settings of the site.

use chrono::{DateTime, Utc};
use mfaas_delivery::{IsolationReport, IsolationSettings, SERVER_PROTOCOL, SiteIsolation};
use mfaas_ident::NodeName;
use sqlx::Row as _;
use sqlx::postgres::PgRow;
use sqlx::types::Json;

use crate::audit::{self, Entry};
use crate::decode::{Decoded, json, unsigned};
use crate::{Actor, Catalog, CatalogError};

/// Samples that are kept of each node, and how long each stands for, in seconds: an hour.
pub const ISOLATION_SAMPLES_MAX: u32 = 360;
const SAMPLE_S: u32 = 10;

/// What the site wants of every machine with a controller, and who said so.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SiteSettings {
    /// Grows with every change.
    pub revision: u64,
    /// All of them.
    pub settings: IsolationSettings,
    /// Who changed them last, as audit rows name them.
    pub set_by: String,
    /// When.
    pub set_at: DateTime<Utc>,
}

impl Catalog {
    /// Keeps a checked report of a node: the last one, and one for every ten seconds of the last hour.
    pub async fn record_isolation(
        &self,
        node: &NodeName,
        report: &IsolationReport,
    ) -> Result<(), CatalogError> {
        sqlx::query(
            "WITH last AS (UPDATE node_reports SET isolation = $2, isolation_at = now() WHERE node = $1)
             INSERT INTO isolation_samples (node, slot, body)
             VALUES ($1, (extract(epoch FROM now())::bigint / $3 % $4)::integer, $2)
             ON CONFLICT ON CONSTRAINT isolation_samples_pkey DO UPDATE SET at = now(), body = $2",
        )
        .bind(node.as_str())
        .bind(Json(report))
        .bind(i64::from(SAMPLE_S))
        .bind(i64::from(ISOLATION_SAMPLES_MAX))
        .execute(&self.pool)
        .await?;
        Ok(())
    }

    /// What a node said within the last hour, the oldest first: [`ISOLATION_SAMPLES_MAX`] at most.
    ///
    /// # Errors
    /// [`CatalogError::NotFound`] when there is no such node.
    pub async fn isolation_samples(
        &self,
        node: &NodeName,
    ) -> Result<Vec<(DateTime<Utc>, IsolationReport)>, CatalogError> {
        let known: bool =
            sqlx::query_scalar("SELECT EXISTS (SELECT 1 FROM nodes WHERE name = $1 AND removed_at IS NULL)")
                .bind(node.as_str())
                .fetch_one(&self.pool)
                .await?;
        if !known {
            return Err(CatalogError::NotFound { what: "node" });
        }
        let rows = sqlx::query(
            "SELECT at, body FROM isolation_samples WHERE node = $1 AND at > now() - make_interval(secs => $2)
             ORDER BY at",
        )
        .bind(node.as_str())
        .bind(f64::from(ISOLATION_SAMPLES_MAX * SAMPLE_S))
        .fetch_all(&self.pool)
        .await?;
        Ok(rows.iter().map(sample).collect::<Result<_, _>>()?)
    }

    /// What the site wants; nothing if it never had settings.
    pub async fn site_isolation(&self) -> Result<Option<SiteSettings>, CatalogError> {
        let row = sqlx::query("SELECT revision, body, set_by, set_at FROM site_isolation")
            .fetch_optional(&self.pool)
            .await?;
        Ok(row.as_ref().map(site_settings).transpose()?)
    }

    /// Changes what is named of the site's settings, with its audit record; the rest stays.
    pub async fn set_site_isolation(
        &self,
        actor: &Actor,
        change: &IsolationSettings,
    ) -> Result<SiteSettings, CatalogError> {
        let mut tx = self.begin().await?;
        let row = sqlx::query(
            "INSERT INTO site_isolation AS s (body, set_by) VALUES ($1, $2)
             ON CONFLICT ON CONSTRAINT site_isolation_pkey DO UPDATE
             SET revision = greatest(s.revision + 1, excluded.revision), body = s.body || $1, set_by = $2, set_at = now()
             RETURNING revision, body, set_by, set_at",
        )
        .bind(Json(change))
        .bind(actor.as_str())
        .fetch_one(&mut *tx)
        .await?;
        let set = site_settings(&row)?;
        let detail =
            serde_json::json!({"revision": set.revision, "changed": change, "settings": set.settings});
        audit::append(&mut tx, Entry { actor, action: "isolation.set", tenant: "", subject: "", detail })
            .await?;
        tx.commit().await?;
        Ok(set)
    }
}

impl SiteSettings {
    /// As nodes are told of it.
    pub fn told(found: Option<Self>) -> SiteIsolation {
        let (revision, settings) =
            found.map_or_else(Default::default, |found| (found.revision, found.settings));
        SiteIsolation { protocol: SERVER_PROTOCOL, revision, settings }
    }
}

fn sample(row: &PgRow) -> Decoded<(DateTime<Utc>, IsolationReport)> {
    Ok((row.try_get("at")?, json(row, "body")?))
}

fn site_settings(row: &PgRow) -> Decoded<SiteSettings> {
    Ok(SiteSettings {
        revision: unsigned(row, "revision")?,
        settings: json(row, "body")?,
        set_by: row.try_get("set_by")?,
        set_at: row.try_get("set_at")?,
    })
}
