//! Keys that call tokens are signed with: their public halves. Private ones never come here.

use chrono::{DateTime, TimeDelta, Utc};
use mfaas_attest::{CALL_TOKEN_LIFE_MAX, KeyId, PublicKey};
use sqlx::Row as _;
use sqlx::postgres::PgRow;

use crate::audit::{self, Entry};
use crate::decode::{Decoded, parsed};
use crate::functions::bump;
use crate::{Actor, Catalog, CatalogError};

/// How long a key is good for.
pub const CALL_KEY_LIFE: TimeDelta = TimeDelta::days(90);
/// How long nodes have to hear of a new key before it is used, while an older one still is.
pub const CALL_KEY_SETTLE: TimeDelta = TimeDelta::minutes(1);
/// Keys at a time that have not ended: half of what a serving set takes.
const CALL_KEYS_MAX: i64 = 8;

/// A key that has not ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallKeyRow {
    /// SHA-256 of the public key.
    pub id: KeyId,
    /// From when on tokens are signed with it.
    pub used_from: DateTime<Utc>,
    /// Until when its tokens count.
    pub not_after: DateTime<Utc>,
}

/// What becomes of the keys before a new one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Before<'a> {
    /// These, whose place it takes, count until the last token is over that they may have signed. Nodes hear of the new one before
    /// it is used, if there are any; other servers of the site have theirs.
    RunOut(&'a [KeyId]),
    /// None of the site's counts any more, and no token that they signed.
    Withdrawn,
}

impl Catalog {
    /// The keys that have not ended, newest first.
    pub async fn call_keys(&self) -> Result<Vec<CallKeyRow>, CatalogError> {
        let rows = sqlx::query(
            "SELECT id, used_from, not_after FROM call_keys WHERE not_after > now() ORDER BY made_at DESC, id",
        )
        .fetch_all(&self.pool)
        .await?;
        Ok(rows.iter().map(row).collect::<Result<_, _>>()?)
    }

    /// Lists a new key, so that the next serving set names it.
    ///
    /// # Errors
    /// [`CatalogError::Conflict`] when too many keys have not ended yet.
    pub async fn add_call_key(
        &self,
        actor: &Actor,
        key: &PublicKey,
        before: Before<'_>,
    ) -> Result<CallKeyRow, CatalogError> {
        let mut tx = self.begin().await?;
        // First: it holds the row that makes whoever else adds a key wait.
        bump(&mut tx).await?;
        let (ends, older) = match before {
            Before::RunOut(older) => (CALL_KEY_SETTLE + CALL_TOKEN_LIFE_MAX, Some(older)),
            Before::Withdrawn => (TimeDelta::zero(), None),
        };
        let older = older.map(|ids| ids.iter().map(ToString::to_string).collect::<Vec<_>>());
        let changed = sqlx::query_scalar::<_, String>(
            "UPDATE call_keys SET not_after = least(not_after, now() + make_interval(secs => $1))
             WHERE not_after > now() AND ($2::text[] IS NULL OR id = ANY($2)) RETURNING id",
        )
        .bind(seconds(ends))
        .bind(older)
        .fetch_all(&mut *tx)
        .await?;
        let left: i64 = sqlx::query_scalar("SELECT count(*) FROM call_keys WHERE not_after > now()")
            .fetch_one(&mut *tx)
            .await?;
        if left >= CALL_KEYS_MAX {
            let reason = format!("{left} keys have not ended yet; the oldest does within a day");
            return Err(CatalogError::Conflict { reason });
        }
        let settles = before != Before::Withdrawn && !changed.is_empty();
        let made = sqlx::query(
            "INSERT INTO call_keys (id, public_key, used_from, not_after)
             VALUES ($1, $2, now() + make_interval(secs => $3), now() + make_interval(secs => $4))
             RETURNING id, used_from, not_after",
        )
        .bind(key.id().to_string())
        .bind(key.to_hex())
        .bind(if settles { seconds(CALL_KEY_SETTLE) } else { 0.0 })
        .bind(seconds(CALL_KEY_LIFE))
        .fetch_one(&mut *tx)
        .await?;
        let detail = serde_json::json!({"older": changed, "withdrawn": before == Before::Withdrawn});
        let subject = key.id().to_string();
        let entry = Entry { actor, action: "call_key.made", tenant: "", subject: &subject, detail };
        audit::append(&mut tx, entry).await?;
        let made = row(&made)?;
        tx.commit().await?;
        Ok(made)
    }
}

/// As PostgreSQL counts intervals. A day of seconds is far below where a double is not exact.
fn seconds(time: TimeDelta) -> f64 {
    time.num_seconds() as f64
}

fn row(row: &PgRow) -> Decoded<CallKeyRow> {
    let id: mfaas_ident::Digest = parsed(row, "id")?;
    Ok(CallKeyRow {
        id: KeyId(id),
        used_from: row.try_get("used_from")?,
        not_after: row.try_get("not_after")?,
    })
}
