//! Bans: artifacts that crashed workers on some node and therefore run on none, until somebody lifts them.

use chrono::{DateTime, Utc};
use mfaas_delivery::{Ban, BanNotice, DIRECTIVES_BANS_MAX};
use mfaas_ident::{FunctionName, NodeName, TenantName};
use sqlx::postgres::PgRow;
use sqlx::{PgConnection, Row as _};

use crate::audit::{self, Entry};
use crate::decode::{Decoded, parsed, small};
use crate::functions::int4;
use crate::{Actor, Catalog, CatalogError};

/// Bans of one node that are in force at once. One that is broken or taken over must not ban everything everywhere;
/// what it bans beyond this holds on itself alone.
pub const NODE_BANS_MAX: i64 = 100;

/// A ban with its history.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BanRow {
    /// Its number.
    pub id: i64,
    /// What is banned, and since when by the database's clock.
    pub ban: Ban,
    /// The node that reported it.
    pub node: NodeName,
    /// When it was lifted, and who did it.
    pub lifted: Option<(DateTime<Utc>, String)>,
}

/// What became of a ban that a node reported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BanOutcome {
    /// It is in force on every node.
    InForce,
    /// It was reported before, or another node's ban of the same artifact is in force.
    Known,
    /// There is no such version with this artifact.
    Unknown,
    /// The node has too many bans in force already: [`NODE_BANS_MAX`].
    TooMany,
}

impl Catalog {
    /// Puts a checked ban of a node in force on all nodes, with its audit record.
    pub async fn record_ban(&self, node: &NodeName, notice: &BanNotice) -> Result<BanOutcome, CatalogError> {
        let mut tx = self.begin().await?;
        // One ban of a node at a time, so that two cannot pass the limit together.
        sqlx::query("SELECT 1 FROM nodes WHERE name = $1 FOR NO KEY UPDATE")
            .bind(node.as_str())
            .execute(&mut *tx)
            .await?;
        if let Some(why_not) = why_not(&mut tx, node, notice).await? {
            return Ok(why_not);
        }
        let ban = &notice.ban;
        let stored = sqlx::query(
            "INSERT INTO bans (told, tenant, function, version, artifact, node, crashes)
             VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT DO NOTHING",
        )
        .bind(notice.notice_id)
        .bind(ban.tenant.as_str())
        .bind(ban.function.as_str())
        .bind(int4(ban.version))
        .bind(ban.digest.to_string())
        .bind(node.as_str())
        .bind(i32::try_from(ban.crashes).unwrap_or(i32::MAX))
        .execute(&mut *tx)
        .await?;
        if stored.rows_affected() == 0 {
            return Ok(BanOutcome::Known);
        }
        let detail = serde_json::json!({"artifact": ban.digest, "crashes": ban.crashes});
        let (actor, subject) = (&Actor::node(node), subject(ban));
        let tenant = ban.tenant.as_str();
        let entry = Entry { actor, action: "function.banned", tenant, subject: &subject, detail };
        audit::append(&mut tx, entry).await?;
        tx.commit().await?;
        Ok(BanOutcome::InForce)
    }

    /// Lifts a ban, with its audit record.
    ///
    /// # Errors
    /// [`CatalogError::NotFound`] when there is no such ban, [`CatalogError::Conflict`] when it is lifted already.
    pub async fn lift_ban(&self, actor: &Actor, id: i64) -> Result<BanRow, CatalogError> {
        let mut tx = self.begin().await?;
        let lifted = sqlx::query(
            "UPDATE bans SET lifted_at = now(), lifted_by = $2 WHERE id = $1 AND lifted_at IS NULL
             RETURNING id, tenant, function, version, artifact, node, crashes, since, lifted_at, lifted_by",
        )
        .bind(id)
        .bind(actor.as_str())
        .fetch_optional(&mut *tx)
        .await?;
        let Some(lifted) = lifted else {
            let known: bool = sqlx::query_scalar("SELECT EXISTS (SELECT 1 FROM bans WHERE id = $1)")
                .bind(id)
                .fetch_one(&mut *tx)
                .await?;
            let already = CatalogError::Conflict { reason: "the ban is lifted already".to_owned() };
            return Err(if known { already } else { CatalogError::NotFound { what: "ban" } });
        };
        let lifted = ban_row(&lifted)?;
        let detail = serde_json::json!({"ban": id, "artifact": lifted.ban.digest, "node": lifted.node});
        let (tenant, subject) = (lifted.ban.tenant.as_str(), subject(&lifted.ban));
        let entry = Entry { actor, action: "function.unbanned", tenant, subject: &subject, detail };
        audit::append(&mut tx, entry).await?;
        tx.commit().await?;
        Ok(lifted)
    }

    /// Bans in force, newest first, of one tenant or of all, of one function or of all.
    pub async fn bans(
        &self,
        tenant: Option<&TenantName>,
        function: Option<&FunctionName>,
        limit: u32,
    ) -> Result<Vec<BanRow>, CatalogError> {
        let rows = sqlx::query(
            "SELECT id, tenant, function, version, artifact, node, crashes, since, lifted_at, lifted_by
             FROM bans WHERE lifted_at IS NULL AND ($1::text IS NULL OR tenant = $1)
                 AND ($2::text IS NULL OR function = $2)
             ORDER BY id DESC LIMIT $3",
        )
        .bind(tenant.map(TenantName::as_str))
        .bind(function.map(FunctionName::as_str))
        .bind(i64::from(limit))
        .fetch_all(&self.pool)
        .await?;
        Ok(rows.iter().map(ban_row).collect::<Result<_, _>>()?)
    }

    /// How many bans are in force.
    pub async fn count_bans(&self) -> Result<i64, CatalogError> {
        Ok(sqlx::query_scalar("SELECT count(*) FROM bans WHERE lifted_at IS NULL")
            .fetch_one(&self.pool)
            .await?)
    }

    /// What the directives of every node name: bans in force of versions that are not deleted, always in the same order.
    pub(crate) async fn bans_in_force(&self) -> Result<Vec<Ban>, CatalogError> {
        // OFFSET 0 keeps the planner from joining the two, for which it reads all versions of each function.
        let rows = sqlx::query(
            "SELECT id, tenant, function, version, artifact, node, crashes, since, lifted_at, lifted_by
             FROM bans WHERE lifted_at IS NULL AND EXISTS (
                 SELECT 1 FROM versions v WHERE v.tenant = bans.tenant AND v.function = bans.function
                     AND v.artifact = bans.artifact AND v.retired_at IS NULL OFFSET 0)
             ORDER BY id LIMIT $1",
        )
        .bind(i64::try_from(DIRECTIVES_BANS_MAX).unwrap_or(i64::MAX))
        .fetch_all(&self.pool)
        .await?;
        Ok(rows.iter().map(|row| ban_row(row).map(|row| row.ban)).collect::<Result<_, _>>()?)
    }
}

/// Why a ban is not put in force, if it is not.
async fn why_not(
    connection: &mut PgConnection,
    node: &NodeName,
    notice: &BanNotice,
) -> Result<Option<BanOutcome>, CatalogError> {
    let ban = &notice.ban;
    let row = sqlx::query(
        "SELECT EXISTS (SELECT 1 FROM bans WHERE told = $1 OR (tenant, function, artifact) = ($2, $3, $5)
                     AND lifted_at IS NULL) AS known,
                EXISTS (SELECT 1 FROM versions WHERE (tenant, function, version, artifact) = ($2, $3, $4, $5)) AS exists,
                (SELECT count(*) FROM bans WHERE node = $6 AND lifted_at IS NULL) AS others",
    )
    .bind(notice.notice_id)
    .bind(ban.tenant.as_str())
    .bind(ban.function.as_str())
    .bind(int4(ban.version))
    .bind(ban.digest.to_string())
    .bind(node.as_str())
    .fetch_one(connection)
    .await?;
    if row.try_get("known")? {
        return Ok(Some(BanOutcome::Known));
    }
    if !row.try_get::<bool, _>("exists")? {
        return Ok(Some(BanOutcome::Unknown));
    }
    Ok((row.try_get::<i64, _>("others")? >= NODE_BANS_MAX).then_some(BanOutcome::TooMany))
}

fn subject(ban: &Ban) -> String {
    format!("{}/{}@{}", ban.tenant, ban.function, ban.version)
}

fn ban_row(row: &PgRow) -> Decoded<BanRow> {
    let lifted_at: Option<DateTime<Utc>> = row.try_get("lifted_at")?;
    let lifted_by: Option<String> = row.try_get("lifted_by")?;
    Ok(BanRow {
        id: row.try_get("id")?,
        ban: Ban {
            tenant: parsed(row, "tenant")?,
            function: parsed(row, "function")?,
            version: small(row, "version")?,
            digest: parsed(row, "artifact")?,
            crashes: small(row, "crashes")?,
            since: row.try_get("since")?,
        },
        node: parsed(row, "node")?,
        lifted: lifted_at.zip(lifted_by),
    })
}
