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

/// Before a certificate is renewed again. A node asks every hour.
const RENEWAL_PAUSE_MINUTES: i32 = 30;

/// A join token that is to be made.
#[derive(Debug, Clone, Copy)]
pub struct NewJoinToken<'a> {
    /// The digest of its secret.
    pub secret_sha256: &'a Digest,
    /// The only name that it lets join, also in the place of a node that has it; any name that no node has when absent.
    pub node: Option<&'a NodeName>,
    /// How many nodes may join with it.
    pub uses_max: u32,
    /// How long, by the database's clock.
    pub valid_for_seconds: u32,
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
    /// Makes a join token, with its audit record. Says when it ends.
    pub async fn create_join_token(
        &self,
        actor: &Actor,
        new: &NewJoinToken<'_>,
    ) -> Result<DateTime<Utc>, CatalogError> {
        let mut tx = self.begin().await?;
        let ends_at: DateTime<Utc> = sqlx::query_scalar(
            "INSERT INTO join_tokens (secret_sha256, node, uses_max, expires_at)
             VALUES ($1, $2, $3, now() + make_interval(secs => $4)) RETURNING expires_at",
        )
        .bind(new.secret_sha256.to_string())
        .bind(new.node.map(NodeName::as_str))
        .bind(i32::try_from(new.uses_max).unwrap_or(i32::MAX))
        .bind(f64::from(new.valid_for_seconds))
        .fetch_one(&mut *tx)
        .await?;
        let detail = serde_json::json!({"uses": new.uses_max, "ends_at": ends_at});
        let subject = new.node.map_or("", NodeName::as_str);
        audit::append(&mut tx, Entry { actor, action: "join_token.created", tenant: "", subject, detail })
            .await?;
        tx.commit().await?;
        Ok(ends_at)
    }

    /// Uses a join token once and records the node with its new certificate, in one transaction. A node that was removed
    /// begins anew.
    ///
    /// # Errors
    /// [`CatalogError::NotFound`] when the token is unknown, used up, expired or for another node:
    /// the caller cannot tell these apart, and shall not. [`CatalogError::Conflict`] when a node has the name and the token
    /// is not for it: that does not use the token.
    pub async fn join_node(
        &self,
        node: &NodeName,
        secret_sha256: &Digest,
        certificate_sha256: &Digest,
    ) -> Result<JoinedNode, CatalogError> {
        let mut tx = self.begin().await?;
        // Used without a count: by a server of the release before.
        let is_for_it: Option<bool> = sqlx::query_scalar(
            "UPDATE join_tokens SET used_at = now(), uses = uses + 1
             WHERE secret_sha256 = $1 AND (node IS NULL OR node = $2) AND (used_at IS NULL OR uses > 0)
                   AND uses < uses_max AND expires_at > now() RETURNING node IS NOT NULL",
        )
        .bind(secret_sha256.to_string())
        .bind(node.as_str())
        .fetch_optional(&mut *tx)
        .await?;
        let Some(is_for_it) = is_for_it else { return Err(CatalogError::NotFound { what: "join token" }) };
        let row = sqlx::query(
            "INSERT INTO nodes AS n (name, certificate_sha256) VALUES ($1, $2)
             ON CONFLICT ON CONSTRAINT nodes_pkey DO UPDATE
             SET certificate_sha256 = $2, previous_certificate_sha256 = NULL, renewed_at = NULL, joined_at = now(),
                 removed_at = NULL,
                 availability = CASE WHEN n.removed_at IS NULL THEN n.availability ELSE 'active' END,
                 availability_since = CASE WHEN n.removed_at IS NULL THEN n.availability_since END,
                 cordoned = n.cordoned AND n.removed_at IS NULL
             WHERE $3 OR n.removed_at IS NOT NULL
             RETURNING name, certificate_sha256, joined_at",
        )
        .bind(node.as_str())
        .bind(certificate_sha256.to_string())
        .bind(is_for_it)
        .fetch_optional(&mut *tx)
        .await?
        .ok_or_else(|| CatalogError::Conflict {
            reason: format!(
                "A node `{node}` has joined already: take another name, remove that node (`mfaas node remove {node}`), \
                 or make a token for it (`mfaas node join-token --node {node}`)."
            ),
        })?;
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

    /// Removes a node, with its audit record: its certificate opens nothing from now on. What it has done stays.
    ///
    /// # Errors
    /// [`CatalogError::NotFound`] when there is no such node.
    pub async fn remove_node(&self, actor: &Actor, node: &NodeName) -> Result<(), CatalogError> {
        let mut tx = self.begin().await?;
        let row = sqlx::query(
            "SELECT certificate_sha256 FROM nodes WHERE name = $1 AND removed_at IS NULL FOR NO KEY UPDATE",
        )
        .bind(node.as_str())
        .fetch_optional(&mut *tx)
        .await?
        .ok_or(CatalogError::NotFound { what: "node" })?;
        let certificate: Digest = parsed(&row, "certificate_sha256")?;
        sqlx::query(
            "UPDATE nodes SET removed_at = now(), certificate_sha256 = $2, previous_certificate_sha256 = NULL
             WHERE name = $1",
        )
        .bind(node.as_str())
        .bind(no_certificate_of(node).to_string())
        .execute(&mut *tx)
        .await?;
        let detail = serde_json::json!({"certificate": certificate});
        audit::append(
            &mut tx,
            Entry { actor, action: "node.removed", tenant: "", subject: node.as_str(), detail },
        )
        .await?;
        Ok(tx.commit().await?)
    }

    /// Records a new certificate of a node that shows the one `by`, with its audit record. Both open from now on, until the
    /// next renewal: the node may never hear of the new one.
    ///
    /// # Errors
    /// [`CatalogError::Conflict`] when that was done a moment ago, or `by` opens nothing any more.
    pub async fn renew_node(
        &self,
        node: &NodeName,
        by: &Digest,
        certificate: &Digest,
    ) -> Result<(), CatalogError> {
        let mut tx = self.begin().await?;
        let renewed = sqlx::query(
            "UPDATE nodes SET previous_certificate_sha256 = $2, certificate_sha256 = $3, renewed_at = now()
             WHERE name = $1 AND removed_at IS NULL AND $2 IN (certificate_sha256, previous_certificate_sha256)
                   AND (renewed_at IS NULL OR renewed_at < now() - make_interval(mins => $4))",
        )
        .bind(node.as_str())
        .bind(by.to_string())
        .bind(certificate.to_string())
        .bind(RENEWAL_PAUSE_MINUTES)
        .execute(&mut *tx)
        .await?;
        if renewed.rows_affected() != 1 {
            return Err(CatalogError::Conflict {
                reason: format!("A certificate is renewed once in {RENEWAL_PAUSE_MINUTES} minutes."),
            });
        }
        let detail = serde_json::json!({"by": by, "certificate": certificate});
        let actor = &Actor::node(node);
        audit::append(
            &mut tx,
            Entry { actor, action: "node.renewed", tenant: "", subject: node.as_str(), detail },
        )
        .await?;
        Ok(tx.commit().await?)
    }

    /// The node to which this certificate opens: the newest of it, or the one by which that was renewed.
    pub async fn node_by_certificate(&self, sha256: &Digest) -> Result<Option<JoinedNode>, CatalogError> {
        let row = sqlx::query(
            "SELECT name, $1 AS certificate_sha256, joined_at FROM nodes
             WHERE (certificate_sha256 = $1 OR previous_certificate_sha256 = $1) AND removed_at IS NULL",
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

    /// Every node that was not removed, with its latest report and the desired epoch, by name.
    pub async fn nodes(&self) -> Result<Vec<NodeStatus>, CatalogError> {
        let rows = sqlx::query(
            "SELECT n.name, n.certificate_sha256, n.joined_at, n.availability, n.availability_since, r.at, r.body,
                    (SELECT coalesce(max(epoch), 0) FROM serving_sets) AS desired, s.digest AS signed_here
             FROM nodes n LEFT JOIN node_reports r ON r.node = n.name
             LEFT JOIN serving_sets s ON s.epoch = r.epoch WHERE n.removed_at IS NULL ORDER BY n.name",
        )
        .fetch_all(&self.pool)
        .await?;
        Ok(rows.iter().map(status).collect::<Result<_, _>>()?)
    }

    /// How many nodes are to take that.
    pub async fn count_nodes(&self, availability: Availability) -> Result<i64, CatalogError> {
        Ok(sqlx::query_scalar("SELECT count(*) FROM nodes WHERE availability = $1 AND removed_at IS NULL")
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
        let row = sqlx::query(
            "SELECT availability FROM nodes WHERE name = $1 AND removed_at IS NULL FOR NO KEY UPDATE",
        )
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
        let row = sqlx::query("SELECT availability FROM nodes WHERE name = $1 AND removed_at IS NULL")
            .bind(node.as_str())
            .fetch_optional(&self.pool)
            .await?
            .ok_or(CatalogError::NotFound { what: "node" })?;
        let availability = word(&row, "availability", Availability::parse)?;
        Ok(Directives { protocol: SERVER_PROTOCOL, availability, bans: self.bans_in_force().await? })
    }
}

/// What stands in the place of the certificate of a node that was removed: the digest of what is no certificate.
fn no_certificate_of(node: &NodeName) -> Digest {
    Digest::of(format!("no certificate of {node}").as_bytes())
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
