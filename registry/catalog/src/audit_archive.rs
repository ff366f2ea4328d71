//! The oldest rows of the audit log, taken out of it once they are kept elsewhere.
//!
//! The last row that goes into an archive stays in the table too: with its hash the rest of the chain is computed, and a
//! record behind it, `audit.archived`, names it. So the chain holds with the archive and without it, and whoever removes rows
//! and leaves no such record is found out. Must never remove a row before the caller has said that its archive is whole.

use chrono::{DateTime, Utc};
use mfaas_attest::{AuditArchive, AuditHead};
use sqlx::{Connection as _, PgConnection};

use crate::audit::{self, AuditLink, ChainError, Entry, read_links};
use crate::connection::connect_as_owner;
use crate::decode::{parsed, unsigned};
use crate::{Actor, CatalogError};

/// Rows that can be archived: those behind `start`, to `end`.
#[derive(Debug)]
pub struct AuditArchiving {
    connection: PgConnection,
    start: AuditHead,
    end: AuditHead,
}

impl AuditArchiving {
    /// As the owner: everything older than `before`; `None` where there is nothing.
    pub async fn before(owner_url: &str, before: DateTime<Utc>) -> Result<Option<Self>, CatalogError> {
        let mut connection = connect_as_owner(owner_url, "mfaas-archive").await?;
        let Some(first) =
            head_of(&mut connection, "SELECT seq, hash FROM audit_log ORDER BY seq LIMIT 1").await?
        else {
            return Ok(None);
        };
        let start = if first.row == 1 { AuditHead::START } else { first };
        // Up to the first row that is younger: a clock that was set back leaves no hole.
        let last = sqlx::query(
            "SELECT seq, hash FROM audit_log
             WHERE seq < coalesce((SELECT min(seq) FROM audit_log WHERE at >= $1), 9223372036854775807)
             ORDER BY seq DESC LIMIT 1",
        )
        .bind(before)
        .fetch_optional(&mut connection)
        .await?;
        let Some(last) = last else { return Ok(None) };
        let end = AuditHead { row: unsigned(&last, "seq")?, hash: parsed(&last, "hash")? };
        Ok((end.row > start.row).then_some(Self { connection, start, end }))
    }

    /// The head before the first row.
    pub fn start(&self) -> AuditHead {
        self.start
    }

    /// The head behind the last one.
    pub fn end(&self) -> AuditHead {
        self.end
    }

    /// The next rows behind `head`, at most `limit`, and the head behind them, if the chain holds that far; none at the end.
    pub async fn read(
        &mut self,
        head: AuditHead,
        limit: u32,
    ) -> Result<Result<(Vec<AuditLink>, AuditHead), ChainError>, CatalogError> {
        let mut links = read_links(&mut self.connection, head.row, limit).await?;
        links.retain(|link| link.row <= self.end.row);
        let computed = links.iter().try_fold(head, |head, link| link.follows(head));
        Ok(computed.map(|head| (links, head)))
    }

    /// Removes what was archived, with a record that says where it is: the rows themselves, and nothing else, go. Answers how
    /// many.
    pub async fn remove(&mut self, actor: &Actor) -> Result<u64, CatalogError> {
        let detail = serde_json::json!({
            "after_row": self.start.row, "last_row": self.end.row, "hash": self.end.hash,
        });
        let mut tx = self.connection.begin().await?;
        audit::append(
            &mut tx,
            Entry { actor, action: AuditArchive::ACTION, tenant: "", subject: "", detail },
        )
        .await?;
        let last = i64::try_from(self.end.row).unwrap_or(i64::MAX);
        let removed =
            sqlx::query("DELETE FROM audit_log WHERE seq < $1").bind(last).execute(&mut *tx).await?;
        tx.commit().await?;
        Ok(removed.rows_affected())
    }
}

async fn head_of(
    connection: &mut PgConnection,
    sql: &'static str,
) -> Result<Option<AuditHead>, CatalogError> {
    let row = sqlx::query(sql).fetch_optional(connection).await?;
    let head =
        |row| Ok::<_, sqlx::Error>(AuditHead { row: unsigned(row, "seq")?, hash: parsed(row, "hash")? });
    Ok(row.as_ref().map(head).transpose()?)
}
