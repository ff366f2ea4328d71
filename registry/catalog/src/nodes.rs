//! Nodes: how they join, what they report, what they should have loaded.

use chrono::{DateTime, Utc};
use mfaas_delivery::{Availability, Directives, Report, SERVER_PROTOCOL};
use mfaas_ident::{Digest, Epoch, NodeName};
use sqlx::Row as _;
use sqlx::postgres::PgRow;
use sqlx::types::Json;

use crate::audit::{self, Entry};
use crate::decode::{Decoded, bad, int8, parsed, unsigned, word};
use crate::{Actor, Catalog, CatalogError};

/// A node that holds a certificate of ours.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JoinedNode {
    /// Its name.
    pub name: NodeName,
    /// SHA-256 of its certificate (DER).
    pub certificate_sha256: Digest,
    /// When it joined.
    pub joined_at: DateTime<Utc>,
}

/// A node with its latest report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeRow {
    /// The node.
    pub node: JoinedNode,
    /// What it is meant to take.
    pub availability: Availability,
    /// Since when, if that was ever changed.
    pub availability_since: Option<DateTime<Utc>>,
    /// What it said last, and when.
    pub report: Option<(DateTime<Utc>, Report)>,
}

/// A node beside what it should serve.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeStatus {
    /// The node.
    pub row: NodeRow,
    /// The newest signed epoch; 0 before the first.
    pub desired: Epoch,
    /// The digest of the set that was signed here under the epoch that the node reported, if one was and is kept.
    pub signed_here: Option<Digest>,
}

impl NodeStatus {
    /// The epoch that the node reported; 0 before its first report.
    pub fn reported(&self) -> Epoch {
        self.row.report.as_ref().map_or(Epoch(0), |(_, report)| report.epoch)
    }

    /// False when the node has a set of a history that was lost here: under the same epoch another one was signed. Nodes of
    /// the release before do not say which set they have.
    pub fn is_of_this_history(&self) -> bool {
        let reported = self.row.report.as_ref().and_then(|(_, report)| report.set_digest);
        reported.is_none() || self.signed_here.is_none() || reported == self.signed_here
    }

    /// True when the node serves the newest epoch, or one after it that was lost here, and refused nothing of it.
    pub fn is_converged(&self) -> bool {
        self.is_of_this_history()
            && self.row.report.as_ref().is_some_and(|(_, report)| {
                report.epoch >= self.desired && report.refused.is_empty() && report.refused_total == 0
            })
    }
}

impl Catalog {
    /// Makes a join token for `node`; `valid_for_seconds` by the database's clock.
    pub async fn create_join_token(
        &self,
        actor: &Actor,
        node: &NodeName,
        secret_sha256: &Digest,
        valid_for_seconds: u32,
    ) -> Result<(), CatalogError> {
        let mut tx = self.begin().await?;
        sqlx::query(
            "INSERT INTO join_tokens (secret_sha256, node, expires_at) VALUES ($1, $2, now() + make_interval(secs => $3))",
        )
        .bind(secret_sha256.to_string())
        .bind(node.as_str())
        .bind(f64::from(valid_for_seconds))
        .execute(&mut *tx)
        .await?;
        let detail = serde_json::json!({"valid_for_seconds": valid_for_seconds});
        let entry = Entry { actor, action: "join_token.created", tenant: "", subject: node.as_str(), detail };
        audit::append(&mut tx, entry).await?;
        Ok(tx.commit().await?)
    }

    /// Uses up a join token and records the node with its new certificate, in one transaction.
    ///
    /// # Errors
    /// [`CatalogError::NotFound`] when the token is unknown, used, expired or for another node:
    /// the caller cannot tell these apart, and shall not.
    pub async fn join_node(
        &self,
        node: &NodeName,
        secret_sha256: &Digest,
        certificate_sha256: &Digest,
    ) -> Result<JoinedNode, CatalogError> {
        let mut tx = self.begin().await?;
        let used = sqlx::query(
            "UPDATE join_tokens SET used_at = now()
             WHERE secret_sha256 = $1 AND node = $2 AND used_at IS NULL AND expires_at > now()",
        )
        .bind(secret_sha256.to_string())
        .bind(node.as_str())
        .execute(&mut *tx)
        .await?
        .rows_affected();
        if used != 1 {
            return Err(CatalogError::NotFound { what: "join token" });
        }
        let row = sqlx::query(
            "INSERT INTO nodes (name, certificate_sha256) VALUES ($1, $2)
             ON CONFLICT ON CONSTRAINT nodes_pkey DO UPDATE SET certificate_sha256 = $2, joined_at = now()
             RETURNING name, certificate_sha256, joined_at",
        )
        .bind(node.as_str())
        .bind(certificate_sha256.to_string())
        .fetch_one(&mut *tx)
        .await?;
        let detail = serde_json::json!({"certificate": certificate_sha256});
        let actor = &Actor::node(node);
        audit::append(
            &mut tx,
            Entry { actor, action: "node.joined", tenant: "", subject: node.as_str(), detail },
        )
        .await?;
        tx.commit().await?;
        Ok(joined(&row)?)
    }

    /// The node whose current certificate this is; an older certificate of it finds nothing.
    pub async fn node_by_certificate(&self, sha256: &Digest) -> Result<Option<JoinedNode>, CatalogError> {
        let row = sqlx::query(
            "SELECT name, certificate_sha256, joined_at FROM nodes WHERE certificate_sha256 = $1",
        )
        .bind(sha256.to_string())
        .fetch_optional(&self.pool)
        .await?;
        Ok(row.as_ref().map(joined).transpose()?)
    }

    /// Keeps a checked report if it is newer than the last; says whether it was.
    ///
    /// Another boot always replaces: a restarted node counts its reports from the start.
    pub async fn record_report(&self, node: &NodeName, report: &Report) -> Result<bool, CatalogError> {
        let stored = sqlx::query(
            "INSERT INTO node_reports (node, boot, sequence, epoch, body) VALUES ($1, $2, $3, $4, $5)
             ON CONFLICT ON CONSTRAINT node_reports_pkey DO UPDATE
             SET boot = $2, sequence = $3, epoch = $4, body = $5, at = now()
             WHERE node_reports.boot <> $2 OR node_reports.sequence < $3",
        )
        .bind(node.as_str())
        .bind(report.boot)
        .bind(int8(report.sequence))
        .bind(int8(report.epoch.0))
        .bind(Json(report))
        .execute(&self.pool)
        .await?;
        Ok(stored.rows_affected() == 1)
    }

    /// Every node with its latest report and the desired epoch, by name.
    pub async fn nodes(&self) -> Result<Vec<NodeStatus>, CatalogError> {
        let rows = sqlx::query(
            "SELECT n.name, n.certificate_sha256, n.joined_at, n.availability, n.availability_since, r.at, r.body,
                    (SELECT coalesce(max(epoch), 0) FROM serving_sets) AS desired, s.digest AS signed_here
             FROM nodes n LEFT JOIN node_reports r ON r.node = n.name
             LEFT JOIN serving_sets s ON s.epoch = r.epoch ORDER BY n.name",
        )
        .fetch_all(&self.pool)
        .await?;
        Ok(rows.iter().map(status).collect::<Result<_, _>>()?)
    }

    /// How many nodes are to take that.
    pub async fn count_nodes(&self, availability: Availability) -> Result<i64, CatalogError> {
        Ok(sqlx::query_scalar("SELECT count(*) FROM nodes WHERE availability = $1")
            .bind(availability.as_str())
            .fetch_one(&self.pool)
            .await?)
    }

    /// Says what a node is to take, with its audit record; saying the same again changes nothing.
    ///
    /// # Errors
    /// [`CatalogError::NotFound`] when there is no such node.
    pub async fn set_availability(
        &self,
        actor: &Actor,
        node: &NodeName,
        availability: Availability,
    ) -> Result<(), CatalogError> {
        let mut tx = self.begin().await?;
        let row = sqlx::query("SELECT availability FROM nodes WHERE name = $1 FOR NO KEY UPDATE")
            .bind(node.as_str())
            .fetch_optional(&mut *tx)
            .await?
            .ok_or(CatalogError::NotFound { what: "node" })?;
        let before = word(&row, "availability", Availability::parse)?;
        if before == availability {
            return Ok(());
        }
        // Programs of the release before look at `cordoned` alone.
        sqlx::query(
            "UPDATE nodes SET availability = $2, availability_since = now(), cordoned = $2 <> 'active' WHERE name = $1",
        )
        .bind(node.as_str())
        .bind(availability.as_str())
        .execute(&mut *tx)
        .await?;
        let action = match availability {
            Availability::Active => "node.uncordoned",
            Availability::Cordoned => "node.cordoned",
            Availability::Draining => "node.draining",
        };
        let detail = serde_json::json!({"before": before});
        audit::append(&mut tx, Entry { actor, action, tenant: "", subject: node.as_str(), detail }).await?;
        Ok(tx.commit().await?)
    }

    /// What a node is to take and not to run, as of now.
    ///
    /// # Errors
    /// [`CatalogError::NotFound`] when there is no such node.
    pub async fn directives(&self, node: &NodeName) -> Result<Directives, CatalogError> {
        let row = sqlx::query("SELECT availability FROM nodes WHERE name = $1")
            .bind(node.as_str())
            .fetch_optional(&self.pool)
            .await?
            .ok_or(CatalogError::NotFound { what: "node" })?;
        let availability = word(&row, "availability", Availability::parse)?;
        Ok(Directives { protocol: SERVER_PROTOCOL, availability, bans: self.bans_in_force().await? })
    }
}

fn joined(row: &PgRow) -> Decoded<JoinedNode> {
    Ok(JoinedNode {
        name: parsed(row, "name")?,
        certificate_sha256: parsed(row, "certificate_sha256")?,
        joined_at: row.try_get("joined_at")?,
    })
}

fn status(row: &PgRow) -> Decoded<NodeStatus> {
    let body: Option<serde_json::Value> = row.try_get("body")?;
    let report = match body {
        None => None,
        Some(body) => Some((row.try_get("at")?, serde_json::from_value(body).map_err(|e| bad("body", e))?)),
    };
    let signed_here: Option<String> = row.try_get("signed_here")?;
    Ok(NodeStatus {
        row: NodeRow {
            node: joined(row)?,
            availability: word(row, "availability", Availability::parse)?,
            availability_since: row.try_get("availability_since")?,
            report,
        },
        desired: Epoch(unsigned(row, "desired")?),
        signed_here: signed_here.map(|text| text.parse().map_err(|e| bad("signed_here", e))).transpose()?,
    })
}
