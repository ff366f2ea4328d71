//! Call tokens that were issued, and those of them that were revoked. Their texts never come here.

use chrono::{DateTime, Utc};
use mfaas_attest::KeyId;
use mfaas_ident::{CallScope, PersonName, TenantName};
use sqlx::postgres::PgRow;
use sqlx::{PgConnection, Row as _};
use uuid::Uuid;

use crate::audit::{self, Entry};
use crate::decode::{Decoded, bad, parsed};
use crate::{Actor, Catalog, CatalogError};

/// A call token that was issued, for the record.
#[derive(Debug, Clone)]
pub struct IssuedCall<'a> {
    /// Its id.
    pub id: Uuid,
    /// Whose functions it opens.
    pub tenant: &'a TenantName,
    /// Whom it names as the caller.
    pub caller: &'a PersonName,
    /// Which functions.
    pub functions: &'a CallScope,
    /// When it begins.
    pub issued_at: DateTime<Utc>,
    /// Its end.
    pub expires_at: DateTime<Utc>,
    /// The key that signed it.
    pub key: KeyId,
}

/// A call token as it is on record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallToken {
    /// Its id.
    pub id: Uuid,
    /// Whom it names as the caller.
    pub caller: PersonName,
    /// Which functions it opens.
    pub functions: CallScope,
    /// When it was issued.
    pub issued_at: DateTime<Utc>,
    /// From when on it opens nothing by itself.
    pub expires_at: DateTime<Utc>,
    /// Who asked for it, as audit rows name them.
    pub issued_by: String,
    /// When it was revoked.
    pub revoked_at: Option<DateTime<Utc>>,
}

/// A token with its revocation: its own, or one of all tokens that its caller had.
const TOKENS: &str = "SELECT t.id, t.caller, t.functions, t.issued_at, t.expires_at, t.issued_by,
        t.expires_at <= now() AS is_over,
        (SELECT min(r.revoked_at) FROM call_revocations r WHERE r.tenant = t.tenant AND r.caller = t.caller
         AND (r.token = t.id OR r.token IS NULL AND r.issued_until >= t.issued_at)) AS revoked_at
     FROM call_tokens t";

impl Catalog {
    /// Records that a call token was issued. Without the record nobody gets the token.
    pub async fn record_call_token(
        &self,
        actor: &Actor,
        issued: &IssuedCall<'_>,
    ) -> Result<(), CatalogError> {
        let mut tx = self.begin().await?;
        sqlx::query(
            "INSERT INTO call_tokens (id, tenant, caller, functions, issued_at, expires_at, key, issued_by)
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8)",
        )
        .bind(issued.id)
        .bind(issued.tenant.as_str())
        .bind(issued.caller.as_str())
        .bind(Vec::from(issued.functions.clone()))
        .bind(issued.issued_at)
        .bind(issued.expires_at)
        .bind(issued.key.to_string())
        .bind(actor.as_str())
        .execute(&mut *tx)
        .await?;
        let detail = serde_json::json!({
            "caller": issued.caller, "functions": issued.functions, "expires_at": issued.expires_at,
            "key": issued.key,
        });
        let (tenant, subject) = (issued.tenant.as_str(), issued.id.to_string());
        let entry = Entry { actor, action: "call_token.issued", tenant, subject: &subject, detail };
        audit::append(&mut tx, entry).await?;
        Ok(tx.commit().await?)
    }

    /// Until when the tokens of a caller are revoked, if they are: what is issued has to begin later.
    pub async fn caller_revoked_until(
        &self,
        tenant: &TenantName,
        caller: &PersonName,
    ) -> Result<Option<DateTime<Utc>>, CatalogError> {
        let until = sqlx::query_scalar(
            "SELECT max(issued_until) FROM call_revocations WHERE tenant = $1 AND caller = $2 AND token IS NULL",
        );
        Ok(until.bind(tenant.as_str()).bind(caller.as_str()).fetch_one(&self.pool).await?)
    }

    /// The call tokens of a tenant that are not over, those that end last first.
    pub async fn call_tokens(&self, tenant: &TenantName, limit: u32) -> Result<Vec<CallToken>, CatalogError> {
        let sql = format!(
            "{TOKENS} WHERE t.tenant = $1 AND t.expires_at > now() ORDER BY t.expires_at DESC, t.id DESC LIMIT $2"
        );
        let rows = sqlx::query(sqlx::AssertSqlSafe(sql))
            .bind(tenant.as_str())
            .bind(i64::from(limit))
            .fetch_all(&self.pool)
            .await?;
        Ok(rows.iter().map(token).collect::<Result<_, _>>()?)
    }

    /// Revokes a call token of the tenant: the next serving set says so. Repeatable.
    ///
    /// # Errors
    /// [`CatalogError::NotFound`] if the tenant was issued no such token, [`CatalogError::CallTokensOver`] if it is over,
    /// [`CatalogError::TooManyRevocations`] if there is no room for another revocation.
    pub async fn revoke_call_token(
        &self,
        actor: &Actor,
        tenant: &TenantName,
        id: Uuid,
    ) -> Result<CallToken, CatalogError> {
        let mut tx = self.begin().await?;
        let (found, is_over) = find(&mut tx, tenant, id).await?;
        if found.revoked_at.is_some() {
            return Ok(found);
        }
        if is_over {
            return Err(CatalogError::CallTokensOver);
        }
        let made = sqlx::query(
            "INSERT INTO call_revocations (tenant, caller, token, issued_until, ends_at, revoked_by)
             VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT ON CONSTRAINT call_revocations_token_unique DO NOTHING",
        )
        .bind(tenant.as_str())
        .bind(found.caller.as_str())
        .bind(id)
        .bind(found.issued_at)
        .bind(found.expires_at)
        .bind(actor.as_str())
        .execute(&mut *tx)
        .await?
        .rows_affected();
        // Somebody else may have done it meanwhile, and is on record.
        if made > 0 {
            let detail = serde_json::json!({"caller": found.caller, "expires_at": found.expires_at});
            let (tenant, subject) = (tenant.as_str(), id.to_string());
            let entry = Entry { actor, action: "call_token.revoked", tenant, subject: &subject, detail };
            audit::append(&mut tx, entry).await?;
        }
        let (revoked, _) = find(&mut tx, tenant, id).await?;
        tx.commit().await?;
        Ok(revoked)
    }

    /// Revokes every call token of a caller that was issued until now, and answers until when. Repeatable: as long as nothing was
    /// issued since, it is the same time.
    ///
    /// # Errors
    /// As [`Catalog::revoke_call_token`], of all tokens of the caller together.
    pub async fn revoke_caller(
        &self,
        actor: &Actor,
        tenant: &TenantName,
        caller: &PersonName,
    ) -> Result<DateTime<Utc>, CatalogError> {
        let mut tx = self.begin().await?;
        // A server whose clock is ahead issues tokens that begin later than now.
        let row = sqlx::query(
            "SELECT newest.issued_at, newest.ends_at <= now() AS is_over,
                    date_trunc('second', greatest(now(), newest.issued_at)) AS issued_until,
                    (SELECT max(r.issued_until) FROM call_revocations r
                     WHERE r.tenant = $1 AND r.caller = $2 AND r.token IS NULL) AS revoked_until
             FROM (SELECT (SELECT max(issued_at) FROM call_tokens WHERE tenant = $1 AND caller = $2) AS issued_at,
                          (SELECT max(expires_at) FROM call_tokens WHERE tenant = $1 AND caller = $2) AS ends_at) newest",
        )
        .bind(tenant.as_str())
        .bind(caller.as_str())
        .fetch_one(&mut *tx)
        .await?;
        let Some(newest) = row.try_get::<Option<DateTime<Utc>>, _>("issued_at")? else {
            return Err(CatalogError::NotFound { what: "caller with call tokens" });
        };
        let revoked_until: Option<DateTime<Utc>> = row.try_get("revoked_until")?;
        if let Some(until) = revoked_until.filter(|until| newest <= *until) {
            return Ok(until);
        }
        if row.try_get("is_over")? {
            return Err(CatalogError::CallTokensOver);
        }
        let issued_until: DateTime<Utc> = row.try_get("issued_until")?;
        sqlx::query(
            "INSERT INTO call_revocations (tenant, caller, issued_until, ends_at, revoked_by)
             VALUES ($1, $2, $3, $3 + interval '24 hours', $4)",
        )
        .bind(tenant.as_str())
        .bind(caller.as_str())
        .bind(issued_until)
        .bind(actor.as_str())
        .execute(&mut *tx)
        .await?;
        let detail = serde_json::json!({"issued_until": issued_until});
        let (tenant, subject) = (tenant.as_str(), caller.as_str());
        audit::append(&mut tx, Entry { actor, action: "call_tokens.revoked", tenant, subject, detail })
            .await?;
        tx.commit().await?;
        Ok(issued_until)
    }
}

/// A token of the tenant, and whether it is over.
async fn find(
    connection: &mut PgConnection,
    tenant: &TenantName,
    id: Uuid,
) -> Result<(CallToken, bool), CatalogError> {
    let row = sqlx::query(sqlx::AssertSqlSafe(format!("{TOKENS} WHERE t.id = $1 AND t.tenant = $2")))
        .bind(id)
        .bind(tenant.as_str())
        .fetch_optional(connection)
        .await?;
    let row = row.ok_or(CatalogError::NotFound { what: "call token" })?;
    Ok((token(&row)?, row.try_get("is_over")?))
}

fn token(row: &PgRow) -> Decoded<CallToken> {
    let functions: Vec<String> = row.try_get("functions")?;
    Ok(CallToken {
        id: row.try_get("id")?,
        caller: parsed(row, "caller")?,
        functions: CallScope::parse(&functions).map_err(|e| bad("functions", e))?,
        issued_at: row.try_get("issued_at")?,
        expires_at: row.try_get("expires_at")?,
        issued_by: row.try_get("issued_by")?,
        revoked_at: row.try_get("revoked_at")?,
    })
}
