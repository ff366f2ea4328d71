//! The audit log: a chain of hashes, written by one function of the database.
//!
//! Verification computes every hash here again instead of asking the database, so that a changed
//! function in the database does not make a changed row look right.

use chrono::{DateTime, Utc};
use mfaas_ident::Digest;
use sqlx::postgres::PgRow;
use sqlx::{PgConnection, Row as _};

use crate::decode::Decoded;
use crate::{Actor, Catalog, CatalogError};

/// Rows read at once by the verification.
const PAGE_ROWS: i64 = 1_000;

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
        expected: i64,
        /// The number that came.
        found: i64,
    },
    /// A row was changed.
    #[error("audit row {seq} does not match its hash")]
    Changed {
        /// Which one.
        seq: i64,
    },
    /// The end is not where the head says.
    #[error("the audit log ends at row {found}, the head names row {expected}")]
    Cut {
        /// The head's number.
        expected: i64,
        /// The last row's number.
        found: i64,
    },
}

impl ChainError {
    /// How many rows hold before the break.
    pub fn rows(&self) -> i64 {
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

    /// Computes the whole chain again. `Ok(Ok(rows))` when it holds.
    pub async fn verify_audit(&self) -> Result<Result<i64, ChainError>, CatalogError> {
        let head = sqlx::query("SELECT seq, hash FROM audit_head").fetch_one(&self.pool).await?;
        let (head_seq, head_hash): (i64, String) = (head.try_get("seq")?, head.try_get("hash")?);
        let (mut seq, mut hash) = (0_i64, "0".repeat(64));
        while seq < head_seq {
            let page = self.chain_page(seq, head_seq).await?;
            let Some(last) = page.last().map(|link| (link.seq, link.hash.clone())) else { break };
            if let Err(error) = check_page(&page, seq, &hash) {
                return Ok(Err(error));
            }
            (seq, hash) = last;
        }
        if seq == head_seq && hash == head_hash {
            Ok(Ok(seq))
        } else {
            Ok(Err(ChainError::Cut { expected: head_seq, found: seq }))
        }
    }

    async fn chain_page(&self, after: i64, until: i64) -> Result<Vec<Link>, CatalogError> {
        let rows = sqlx::query(
            "SELECT seq, (extract(epoch FROM at) * 1000000)::bigint::text AS at_us, role, actor, action, tenant,
                    subject, detail::text AS detail_text, hash
             FROM audit_log WHERE seq > $1 AND seq <= $2 ORDER BY seq LIMIT $3",
        )
        .bind(after)
        .bind(until)
        .bind(PAGE_ROWS)
        .fetch_all(&self.pool)
        .await?;
        Ok(rows.iter().map(link).collect::<Result<_, _>>()?)
    }
}

/// A row as the hash sees it.
struct Link {
    seq: i64,
    fields: Vec<String>,
    hash: String,
}

fn check_page(page: &[Link], mut seq: i64, previous: &str) -> Result<(), ChainError> {
    let mut previous = previous;
    for link in page {
        if link.seq != seq + 1 {
            return Err(ChainError::Gap { expected: seq + 1, found: link.seq });
        }
        if chain_hash(previous, &link.fields) != link.hash {
            return Err(ChainError::Changed { seq: link.seq });
        }
        seq = link.seq;
        previous = &link.hash;
    }
    Ok(())
}

/// SHA-256 over `length:field` of the previous hash and of every field; lengths in bytes.
fn chain_hash(previous: &str, fields: &[String]) -> String {
    let mut input = format!("{}:{previous}", previous.len());
    for field in fields {
        input.push_str(&format!("{}:{field}", field.len()));
    }
    Digest::of(input.as_bytes()).to_string()
}

fn link(row: &PgRow) -> Decoded<Link> {
    let seq: i64 = row.try_get("seq")?;
    let mut fields = vec![seq.to_string()];
    for column in ["at_us", "role", "actor", "action", "tenant", "subject", "detail_text"] {
        fields.push(row.try_get(column)?);
    }
    Ok(Link { seq, fields, hash: row.try_get("hash")? })
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
