//! The newest log lines of each function; bounded, and stored once.

use chrono::{DateTime, Utc};
use mfaas_delivery::{LogBatch, LogLevel, LogLine};
use mfaas_ident::{FunctionName, NodeName, TenantName, VersionNumber, sanitise};
use sqlx::Row as _;
use sqlx::postgres::PgRow;

use crate::decode::{Decoded, int8, parsed, small, word};
use crate::functions::int4;
use crate::{Catalog, CatalogError};

/// Lines kept for one function.
pub const FUNCTION_LOG_LINES_MAX: i64 = 1_000;

/// The locks under which lines of one function are numbered; any number that nobody else takes.
const LINES_LOCKS: i32 = 0x6D66_6C6E;

/// A stored line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredLine {
    /// Its number; grows with gaps, for each function in the order in which lines can be seen.
    pub id: i64,
    /// When, by the node's clock.
    pub at: DateTime<Utc>,
    /// Where.
    pub node: NodeName,
    /// Which version wrote it.
    pub version: VersionNumber,
    /// How loud.
    pub level: LogLevel,
    /// The text, sanitised.
    pub text: String,
}

impl Catalog {
    /// Stores a checked batch of a node; a repeated batch changes nothing. Older lines of the
    /// same functions make room.
    pub async fn append_logs(&self, node: &NodeName, batch: &LogBatch) -> Result<(), CatalogError> {
        let mut tx = self.begin().await?;
        let column = |f: fn(&LogLine) -> String| batch.lines.iter().map(f).collect::<Vec<_>>();
        let places: Vec<i64> =
            (0..batch.lines.len() as u64).map(|n| int8(batch.first.saturating_add(n))).collect();
        let versions: Vec<i32> = batch.lines.iter().map(|l| int4(l.version)).collect();
        let times: Vec<DateTime<Utc>> = batch.lines.iter().map(|l| l.at).collect();
        let mut functions: Vec<_> = batch.lines.iter().map(|l| (&l.tenant, &l.function)).collect();
        functions.sort_unstable();
        functions.dedup();
        // Whoever follows a function reads on behind the highest number that it saw, so a lower one must not be
        // committed later. Locks are taken in one order by everybody.
        sqlx::query(
            "SELECT pg_advisory_xact_lock($1, key)
             FROM (SELECT DISTINCT hashtext(tenant || '/' || function) AS key
                   FROM unnest($2::text[], $3::text[]) AS f (tenant, function) ORDER BY key) AS keys",
        )
        .bind(LINES_LOCKS)
        .bind(functions.iter().map(|(tenant, _)| tenant.to_string()).collect::<Vec<_>>())
        .bind(functions.iter().map(|(_, function)| function.to_string()).collect::<Vec<_>>())
        .execute(&mut *tx)
        .await?;
        // Only what exists can be logged about: a taken-over node must not invent functions.
        sqlx::query(
            "INSERT INTO function_logs (tenant, function, version, node, boot, line, at, level, text)
             SELECT n.tenant, n.function, n.version, $1, $2, n.line, n.at, n.level, n.text
             FROM unnest($3::bigint[], $4::text[], $5::text[], $6::integer[], $7::timestamptz[], $8::text[],
                         $9::text[]) AS n (line, tenant, function, version, at, level, text)
             JOIN versions v ON v.tenant = n.tenant AND v.function = n.function AND v.version = n.version
             ORDER BY n.line
             ON CONFLICT ON CONSTRAINT function_logs_once DO NOTHING",
        )
        .bind(node.as_str())
        .bind(batch.boot)
        .bind(places)
        .bind(column(|l| l.tenant.to_string()))
        .bind(column(|l| l.function.to_string()))
        .bind(versions)
        .bind(times)
        .bind(column(|l| l.level.as_str().to_owned()))
        // PostgreSQL takes no NUL in a text; the sanitiser makes it visible.
        .bind(column(|l| sanitise(&l.text, mfaas_delivery::LOG_LINE_BYTES_MAX)))
        .execute(&mut *tx)
        .await?;
        for (tenant, function) in functions {
            sqlx::query(
                "DELETE FROM function_logs WHERE tenant = $1 AND function = $2 AND id <= (
                     SELECT id FROM function_logs WHERE tenant = $1 AND function = $2
                     ORDER BY id DESC OFFSET $3 LIMIT 1)",
            )
            .bind(tenant.as_str())
            .bind(function.as_str())
            .bind(FUNCTION_LOG_LINES_MAX)
            .execute(&mut *tx)
            .await?;
        }
        Ok(tx.commit().await?)
    }

    /// Lines behind `after`, oldest first; with `after` 0 the newest `limit` lines.
    pub async fn logs_after(
        &self,
        tenant: &TenantName,
        function: &FunctionName,
        after: i64,
        limit: u32,
    ) -> Result<Vec<StoredLine>, CatalogError> {
        let rows = sqlx::query(
            "SELECT id, at, node, version, level, text FROM (
                 SELECT id, at, node, version, level, text FROM function_logs
                 WHERE tenant = $1 AND function = $2 AND id > $3
                 ORDER BY CASE WHEN $3 = 0 THEN -id ELSE id END LIMIT $4) AS page
             ORDER BY id",
        )
        .bind(tenant.as_str())
        .bind(function.as_str())
        .bind(after)
        .bind(i64::from(limit))
        .fetch_all(&self.pool)
        .await?;
        Ok(rows.iter().map(stored_line).collect::<Result<_, _>>()?)
    }
}

fn stored_line(row: &PgRow) -> Decoded<StoredLine> {
    Ok(StoredLine {
        id: row.try_get("id")?,
        at: row.try_get("at")?,
        node: parsed(row, "node")?,
        version: small(row, "version")?,
        level: word(row, "level", LogLevel::parse)?,
        text: row.try_get("text")?,
    })
}
