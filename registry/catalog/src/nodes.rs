//! Nodes: how they join, what they report, what they should have loaded.

use std::time::Duration;

use chrono::{DateTime, Utc};
use mfaas_delivery::{Availability, Directives, IsolationReport, Report, SERVER_PROTOCOL};
use mfaas_ident::{BuildVersion, Digest, Epoch, NodeName};
use sqlx::Row as _;
use sqlx::postgres::PgRow;
use sqlx::types::Json;
use uuid::Uuid;

use crate::audit::{self, Entry};
use crate::decode::{Decoded, bad, int8, json, parsed, small, unsigned, word};
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

/// A join token, without what it is shown by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JoinToken {
    /// What it is revoked by.
    pub id: Uuid,
    /// The only name that it lets join; any that no node has when absent.
    pub node: Option<NodeName>,
    /// How many nodes have joined with it.
    pub uses: u32,
    /// How many may.
    pub uses_max: u32,
    /// Who made it, as audit rows name them; empty if a server of the release before did.
    pub created_by: String,
    /// When it was made.
    pub created_at: DateTime<Utc>,
    /// Its end.
    pub expires_at: DateTime<Utc>,
    /// When it was revoked.
    pub revoked_at: Option<DateTime<Utc>>,
}

/// What a report was to the catalog.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecordedReport {
    /// Older than the last one of that boot, and dropped.
    Old,
    /// Kept; the node is where it was, or its set is none that was signed here.
    Kept,
    /// Kept, and the first to say that a set is in force, so long after its signature. The first set of a node's boot does not count:
    /// it was there before the node was.
    Reached(Duration),
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
    /// What it said of its machine last, and when; nothing of one without an isolation controller.
    pub isolation: Option<(DateTime<Utc>, IsolationReport)>,
    /// Its build when it said that; programs of releases up to 0.2 do not tell.
    pub build: Option<BuildVersion>,
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
    /// Makes a join token, with its audit record.
    pub async fn create_join_token(
        &self,
        actor: &Actor,
        new: &NewJoinToken<'_>,
    ) -> Result<JoinToken, CatalogError> {
        let mut tx = self.begin().await?;
        let row = sqlx::query(
            "INSERT INTO join_tokens (secret_sha256, node, uses_max, expires_at, created_by)
             VALUES ($1, $2, $3, now() + make_interval(secs => $4), $5)
             RETURNING id, node, uses, uses_max, created_by, created_at, expires_at, revoked_at",
        )
        .bind(new.secret_sha256.to_string())
        .bind(new.node.map(NodeName::as_str))
        .bind(i32::try_from(new.uses_max).unwrap_or(i32::MAX))
        .bind(f64::from(new.valid_for_seconds))
        .bind(actor.as_str())
        .fetch_one(&mut *tx)
        .await?;
        let token = join_token(&row)?;
        let detail = serde_json::json!({
            "id": token.id, "uses": new.uses_max, "ends_at": token.expires_at,
        });
        let subject = new.node.map_or("", NodeName::as_str);
        audit::append(&mut tx, Entry { actor, action: "join_token.created", tenant: "", subject, detail })
            .await?;
        tx.commit().await?;
        Ok(token)
    }

    /// The join tokens whose end has not come or came within a day, those that end last first.
    pub async fn join_tokens(&self, limit: u32) -> Result<Vec<JoinToken>, CatalogError> {
        let rows = sqlx::query(
            "SELECT id, node, uses, uses_max, created_by, created_at, expires_at, revoked_at FROM join_tokens
             WHERE expires_at > now() - interval '1 day' ORDER BY expires_at DESC, id DESC LIMIT $1",
        )
        .bind(i64::from(limit))
        .fetch_all(&self.pool)
        .await?;
        Ok(rows.iter().map(join_token).collect::<Result<_, _>>()?)
    }

    /// Revokes a join token, with its audit record: nobody joins with it from now on. What joined stays. Repeatable.
    ///
    /// # Errors
    /// [`CatalogError::NotFound`] when there is no such token.
    pub async fn revoke_join_token(&self, actor: &Actor, id: Uuid) -> Result<JoinToken, CatalogError> {
        let mut tx = self.begin().await?;
        let revoked = sqlx::query(
            "UPDATE join_tokens SET revoked_at = now(), expires_at = least(expires_at, now())
             WHERE id = $1 AND revoked_at IS NULL
             RETURNING id, node, uses, uses_max, created_by, created_at, expires_at, revoked_at",
        )
        .bind(id)
        .fetch_optional(&mut *tx)
        .await?;
        let Some(row) = revoked else {
            let row = sqlx::query(
                "SELECT id, node, uses, uses_max, created_by, created_at, expires_at, revoked_at FROM join_tokens
                 WHERE id = $1",
            )
            .bind(id)
            .fetch_optional(&mut *tx)
            .await?
            .ok_or(CatalogError::NotFound { what: "join token" })?;
            return Ok(join_token(&row)?);
        };
        let token = join_token(&row)?;
        let detail = serde_json::json!({"uses": token.uses, "uses_max": token.uses_max});
        let subject = &id.to_string();
        audit::append(&mut tx, Entry { actor, action: "join_token.revoked", tenant: "", subject, detail })
            .await?;
        tx.commit().await?;
        Ok(token)
    }

    /// Uses a join token once and records the node with its new certificate, in one transaction. A node that was removed
    /// begins anew. The same key under the same name, while the token lasts, is the same join, whose answer was lost.
    ///
    /// # Errors
    /// [`CatalogError::NotFound`] when the token is unknown, used up, over, revoked or for another node:
    /// the caller cannot tell these apart, and shall not. [`CatalogError::Conflict`] when a node has the name and the token
    /// is not for it: that does not use the token.
    pub async fn join_node(
        &self,
        node: &NodeName,
        secret_sha256: &Digest,
        key_sha256: &Digest,
        certificate_sha256: &Digest,
    ) -> Result<JoinedNode, CatalogError> {
        let mut tx = self.begin().await?;
        let outcome: String = sqlx::query_scalar("SELECT join_node($1, $2, $3, $4, $5)")
            .bind(node.as_str())
            .bind(secret_sha256.to_string())
            .bind(key_sha256.to_string())
            .bind(certificate_sha256.to_string())
            .bind(Actor::node(node).as_str())
            .fetch_one(&mut *tx)
            .await?;
        match outcome.as_str() {
            "joined" => {}
            "taken" => return Err(CatalogError::name_taken(node)),
            _ => return Err(CatalogError::NotFound { what: "join token" }),
        }
        let row = sqlx::query("SELECT name, certificate_sha256, joined_at FROM nodes WHERE name = $1")
            .bind(node.as_str())
            .fetch_one(&mut *tx)
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
        let renewed: bool = sqlx::query_scalar("SELECT renew_node($1, $2, $3, $4)")
            .bind(node.as_str())
            .bind(by.to_string())
            .bind(certificate.to_string())
            .bind(Actor::node(node).as_str())
            .fetch_one(&mut *tx)
            .await?;
        if !renewed {
            return Err(CatalogError::certificate_is_new());
        }
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

    /// Keeps a checked report, and the build of the node that sent it, if it is newer than the last; says what that was.
    ///
    /// Another boot always replaces: a restarted node counts its reports from the start.
    pub async fn record_report(
        &self,
        node: &NodeName,
        report: &Report,
        build: Option<&BuildVersion>,
    ) -> Result<RecordedReport, CatalogError> {
        let stored = sqlx::query(
            "WITH before AS (SELECT epoch FROM node_reports WHERE node = $1)
             INSERT INTO node_reports (node, boot, sequence, epoch, body, build) VALUES ($1, $2, $3, $4, $5, $7)
             ON CONFLICT ON CONSTRAINT node_reports_pkey DO UPDATE
             SET boot = $2, sequence = $3, epoch = $4, body = $5, build = $7, at = now()
             WHERE node_reports.boot <> $2 OR node_reports.sequence < $3
             RETURNING (SELECT extract(epoch FROM now() - s.issued_at)::float8 FROM serving_sets s, before
                        WHERE s.epoch = $4 AND s.digest = $6 AND before.epoch BETWEEN 1 AND $4 - 1)",
        )
        .bind(node.as_str())
        .bind(report.boot)
        .bind(int8(report.sequence))
        .bind(int8(report.epoch.0))
        .bind(Json(report))
        .bind(report.set_digest.map(|digest| digest.to_string()))
        .bind(build.map(BuildVersion::as_str))
        .fetch_optional(&self.pool)
        .await?;
        let Some(row) = stored else { return Ok(RecordedReport::Old) };
        let seconds: Option<f64> = row.try_get(0)?;
        // The signer's clock and the database's may differ a little.
        Ok(seconds.map_or(RecordedReport::Kept, |seconds| {
            RecordedReport::Reached(Duration::try_from_secs_f64(seconds.max(0.0)).unwrap_or(Duration::MAX))
        }))
    }

    /// Every node that was not removed, with its latest report and the desired epoch, by name.
    pub async fn nodes(&self) -> Result<Vec<NodeStatus>, CatalogError> {
        let rows = sqlx::query(
            "SELECT n.name, n.certificate_sha256, n.joined_at, n.availability, n.availability_since, r.at, r.body, r.build,
                    r.isolation, r.isolation_at,
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

impl CatalogError {
    /// A node has the name, and the join token is not for it.
    #[must_use]
    pub fn name_taken(node: &NodeName) -> Self {
        let reason = format!(
            "A node `{node}` has joined already: take another name, remove that node (`mfaas node remove {node}`), \
             or make a token for it (`mfaas node join-token --node {node}`)."
        );
        Self::Conflict { reason }
    }

    /// The certificate was renewed a moment ago.
    #[must_use]
    pub fn certificate_is_new() -> Self {
        Self::Conflict { reason: "A certificate is renewed once in 30 minutes.".to_owned() }
    }
}

fn join_token(row: &PgRow) -> Decoded<JoinToken> {
    let node: Option<String> = row.try_get("node")?;
    Ok(JoinToken {
        id: row.try_get("id")?,
        node: node.map(|name| name.parse().map_err(|e| bad("node", e))).transpose()?,
        uses: small(row, "uses")?,
        uses_max: small(row, "uses_max")?,
        created_by: row.try_get("created_by")?,
        created_at: row.try_get("created_at")?,
        expires_at: row.try_get("expires_at")?,
        revoked_at: row.try_get("revoked_at")?,
    })
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
    let isolation = match row.try_get::<Option<serde_json::Value>, _>("isolation")? {
        None => None,
        Some(_) => Some((row.try_get("isolation_at")?, json(row, "isolation")?)),
    };
    let signed_here: Option<String> = row.try_get("signed_here")?;
    Ok(NodeStatus {
        row: NodeRow {
            node: joined(row)?,
            availability: word(row, "availability", Availability::parse)?,
            availability_since: row.try_get("availability_since")?,
            report,
            isolation,
            build: row
                .try_get::<Option<String>, _>("build")?
                .map(|text| text.parse().map_err(|e| bad("build", e)))
                .transpose()?,
        },
        desired: Epoch(unsigned(row, "desired")?),
        signed_here: signed_here.map(|text| text.parse().map_err(|e| bad("signed_here", e))).transpose()?,
    })
}
