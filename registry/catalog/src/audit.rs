//! The audit log: a chain of hashes, written by one function of the database.
//!
//! Verification computes every hash here again instead of asking the database, so that a changed
//! function in the database does not make a changed row look right.

use chrono::{DateTime, Utc};
use mfaas_attest::{AuditArchive, AuditHead};
use mfaas_ident::Digest;
use sqlx::postgres::PgRow;
use sqlx::{PgConnection, Row as _};

use crate::decode::{Decoded, int8, parsed, unsigned};
use crate::{Actor, Catalog, CatalogError};

/// Rows read at once by the verification.
const PAGE_ROWS: u32 = 1_000;

/// One row.
#[derive(Debug, Clone, PartialEq)]
pub struct AuditRow {
    /// Position, from 1, without gaps.
    pub seq: i64,
    /// When, by the database's clock.
    pub at: DateTime<Utc>,
    /// The database role that wrote it.
    pub role: String,
    /// Who is answerable.
    pub actor: String,
    /// For example `deployment.received`, `version.admitted`, `alias.moved`.
    pub action: String,
    /// Whose thing; empty for things of nobody.
    pub tenant: String,
    /// Which thing, for example a deployment id or `tenant/function@3`.
    pub subject: String,
    /// More.
    pub detail: serde_json::Value,
    /// Hash over the previous hash and this row, 64 hexadecimal digits.
    pub hash: String,
}

/// Where the chain is broken.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ChainError {
    /// A row is missing, or one was put between.
    #[error("audit row {expected} is missing; {found} comes next")]
    Gap {
        /// The number that should come.
        expected: u64,
        /// The number that came.
        found: u64,
    },
    /// A row was changed.
    #[error("audit row {seq} does not match its hash")]
    Changed {
        /// Which one.
        seq: u64,
    },
    /// The end is not where the head says.
    #[error("the audit log ends at row {found}, the head names row {expected}")]
    Cut {
        /// The head's number.
        expected: u64,
        /// The last row's number.
        found: u64,
    },
}

impl ChainError {
    /// How many rows hold before the break.
    pub fn rows(&self) -> u64 {
        match self {
            Self::Gap { expected, .. } => expected - 1,
            Self::Changed { seq } => seq - 1,
            Self::Cut { found, .. } => *found,
        }
    }
}

/// What is written about a change; `tenant` is empty for things of nobody.
pub(crate) struct Entry<'a> {
    pub(crate) actor: &'a Actor,
    pub(crate) action: &'static str,
    pub(crate) tenant: &'a str,
    pub(crate) subject: &'a str,
    pub(crate) detail: serde_json::Value,
}

/// Writes one row in the caller's transaction.
pub(crate) async fn append(connection: &mut PgConnection, entry: Entry<'_>) -> Result<(), CatalogError> {
    sqlx::query("SELECT append_audit($1, $2, $3, $4, $5)")
        .bind(entry.actor.as_str())
        .bind(entry.action)
        .bind(entry.tenant)
        .bind(entry.subject)
        .bind(entry.detail)
        .execute(connection)
        .await?;
    Ok(())
}

impl Catalog {
    /// Rows behind `after`, oldest first, at most `limit`.
    pub async fn audit_after(&self, after: i64, limit: u32) -> Result<Vec<AuditRow>, CatalogError> {
        let rows = sqlx::query(
            "SELECT seq, at, role, actor, action, tenant, subject, detail, hash
             FROM audit_log WHERE seq > $1 ORDER BY seq LIMIT $2",
        )
        .bind(after)
        .bind(i64::from(limit))
        .fetch_all(&self.pool)
        .await?;
        Ok(rows.iter().map(audit_row).collect::<Result<_, _>>()?)
    }

    /// Rows before `before`, or the last ones, newest first, at most `limit`.
    pub async fn audit_before(&self, before: Option<i64>, limit: u32) -> Result<Vec<AuditRow>, CatalogError> {
        let rows = sqlx::query(
            "SELECT seq, at, role, actor, action, tenant, subject, detail, hash
             FROM audit_log WHERE $1::bigint IS NULL OR seq < $1 ORDER BY seq DESC LIMIT $2",
        )
        .bind(before)
        .bind(i64::from(limit))
        .fetch_all(&self.pool)
        .await?;
        Ok(rows.iter().map(audit_row).collect::<Result<_, _>>()?)
    }

    /// Computes the chain again from `start`, which somebody has computed before, to its head; from the last archived row where
    /// that is later. `Ok(Ok(head))` when it holds.
    pub async fn verify_audit(
        &self,
        start: AuditHead,
    ) -> Result<Result<AuditHead, ChainError>, CatalogError> {
        let row = sqlx::query("SELECT seq, hash FROM audit_head").fetch_one(&self.pool).await?;
        let end = AuditHead { row: unsigned(&row, "seq")?, hash: parsed(&row, "hash")? };
        let mut head = match self.archived().await? {
            Some(archived) if archived.row > start.row => archived,
            _ => start,
        };
        while head.row < end.row {
            let page = self.audit_links(head.row, PAGE_ROWS).await?;
            if page.is_empty() {
                break;
            }
            for link in page.iter().take_while(|link| link.row <= end.row) {
                head = match link.follows(head) {
                    Ok(next) => next,
                    Err(error) => return Ok(Err(error)),
                };
            }
        }
        Ok(if head == end { Ok(end) } else { Err(ChainError::Cut { expected: end.row, found: head.row }) })
    }

    /// Rows behind `after` as their hashes cover them, oldest first, at most `limit`.
    pub async fn audit_links(&self, after: u64, limit: u32) -> Result<Vec<AuditLink>, CatalogError> {
        let mut connection = self.pool.acquire().await?;
        read_links(&mut connection, after, limit).await
    }

    /// The last row that is in an archive, if the log says so.
    async fn archived(&self) -> Result<Option<AuditHead>, CatalogError> {
        let row = sqlx::query(
            "SELECT f.seq, f.hash FROM (SELECT seq, hash FROM audit_log ORDER BY seq LIMIT 1) f
             WHERE f.seq > 1 AND EXISTS (
                 SELECT 1 FROM audit_log a WHERE a.subject = '' AND a.action = $1 AND a.detail ->> 'hash' = f.hash)",
        )
        .bind(AuditArchive::ACTION)
        .fetch_optional(&self.pool)
        .await?;
        let head =
            |row| Ok::<_, sqlx::Error>(AuditHead { row: unsigned(row, "seq")?, hash: parsed(row, "hash")? });
        Ok(row.as_ref().map(head).transpose()?)
    }
}

/// Rows behind `after` as their hashes cover them, oldest first, at most `limit`.
pub(crate) async fn read_links(
    connection: &mut PgConnection,
    after: u64,
    limit: u32,
) -> Result<Vec<AuditLink>, CatalogError> {
    let rows = sqlx::query(
        "SELECT seq, (extract(epoch FROM at) * 1000000)::bigint::text AS at_us, role, actor, action, tenant,
                subject, detail::text AS detail_text, hash
         FROM audit_log WHERE seq > $1 ORDER BY seq LIMIT $2",
    )
    .bind(int8(after))
    .bind(i64::from(limit))
    .fetch_all(connection)
    .await?;
    Ok(rows.iter().map(link).collect::<Result<_, _>>()?)
}

/// A row as its hash covers it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditLink {
    /// Its number.
    pub row: u64,
    /// Microseconds since 1970, role, actor, action, tenant, subject, detail: in this order, as the database writes them.
    pub fields: [String; 7],
    /// What should come out.
    pub hash: Digest,
}

impl AuditLink {
    /// The head behind this row, if it is the next one behind `head`.
    pub(crate) fn follows(&self, head: AuditHead) -> Result<AuditHead, ChainError> {
        if self.row != head.row + 1 {
            return Err(ChainError::Gap { expected: head.row + 1, found: self.row });
        }
        let number = self.row.to_string();
        let next = head.next([number.as_str()].into_iter().chain(self.fields.iter().map(String::as_str)));
        if next.hash == self.hash { Ok(next) } else { Err(ChainError::Changed { seq: self.row }) }
    }
}

fn link(row: &PgRow) -> Decoded<AuditLink> {
    let mut fields: [String; 7] = Default::default();
    let columns = ["at_us", "role", "actor", "action", "tenant", "subject", "detail_text"];
    for (field, column) in fields.iter_mut().zip(columns) {
        *field = row.try_get(column)?;
    }
    Ok(AuditLink { row: unsigned(row, "seq")?, fields, hash: parsed(row, "hash")? })
}

fn audit_row(row: &PgRow) -> Decoded<AuditRow> {
    Ok(AuditRow {
        seq: row.try_get("seq")?,
        at: row.try_get("at")?,
        role: row.try_get("role")?,
        actor: row.try_get("actor")?,
        action: row.try_get("action")?,
        tenant: row.try_get("tenant")?,
        subject: row.try_get("subject")?,
        detail: row.try_get("detail")?,
        hash: row.try_get("hash")?,
    })
}
