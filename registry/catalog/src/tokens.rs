//! Tenants and their tokens. Only the SHA-256 of a secret is ever here.

use chrono::{DateTime, Utc};
use mfaas_ident::{Digest, IdentitySource, PersonName, Role, Scope, TenantName};
use sqlx::postgres::PgRow;
use sqlx::{PgConnection, Row as _};
use uuid::Uuid;

use crate::audit::{self, Entry};
use crate::decode::{Decoded, bad, parsed};
use crate::{Actor, Catalog, CatalogError};

/// A token without its secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Token {
    /// Its id, for lists and revocation.
    pub id: Uuid,
    /// Its tenant.
    pub tenant: TenantName,
    /// What its owner calls it.
    pub name: String,
    /// The person that it acts for.
    pub person: PersonName,
    /// Who says that it is them.
    pub identity_source: IdentitySource,
    /// Who made it, as audit rows name them; empty for tokens from before that was kept.
    pub made_by: String,
    /// What it may do.
    pub scopes: Vec<Scope>,
    /// When it was made.
    pub created_at: DateTime<Utc>,
    /// From when on it is refused.
    pub expires_at: Option<DateTime<Utc>>,
    /// When it was revoked.
    pub revoked_at: Option<DateTime<Utc>>,
}

impl Token {
    /// True when one of the token's scopes implies `scope`. Without an identity source it reviews
    /// nothing: such tokens are older than the demand for a person.
    pub fn holds(&self, scope: Scope) -> bool {
        self.has(scope) && !(scope == Scope::Review && self.identity_source == IdentitySource::Nobody)
    }

    /// True when its scopes would let it review, and only a person is missing.
    pub fn lacks_a_person(&self) -> bool {
        self.has(Scope::Review) && !self.holds(Scope::Review)
    }

    /// The role that its scopes make, if they are one.
    pub fn role(&self) -> Option<Role> {
        Role::of(&self.scopes)
    }

    fn has(&self, scope: Scope) -> bool {
        self.scopes.iter().any(|held| held.implies(scope))
    }
}

impl Actor {
    /// A person or script with a token.
    pub fn token(token: &Token) -> Self {
        Self::sanitised(&format!("token:{}:{}", token.id, token.name), 200)
    }
}

/// A token to be made.
#[derive(Debug, Clone)]
pub struct NewToken<'a> {
    /// Its tenant; made if it is new.
    pub tenant: &'a TenantName,
    /// What its owner calls it, 1 to 100 characters.
    pub name: &'a str,
    /// The person that it acts for; its own, `tenant/name`, when absent. Scopes that allow voting demand one.
    pub person: Option<&'a PersonName>,
    /// What it may do.
    pub scopes: &'a [Scope],
    /// SHA-256 of the secret.
    pub secret_sha256: Digest,
    /// From when on it is refused.
    pub expires_at: Option<DateTime<Utc>>,
}

const COLUMNS: &str =
    "id, tenant, name, person, vouched_by, made_by, scopes, created_at, expires_at, revoked_at";

impl Catalog {
    /// Makes the tenant if there is none of that name.
    pub async fn ensure_tenant(&self, actor: &Actor, tenant: &TenantName) -> Result<(), CatalogError> {
        let mut tx = self.begin().await?;
        ensure_tenant(&mut tx, actor, tenant).await?;
        Ok(tx.commit().await?)
    }

    /// Whether there is a tenant of that name.
    pub async fn has_tenant(&self, tenant: &TenantName) -> Result<bool, CatalogError> {
        let found = sqlx::query_scalar("SELECT EXISTS (SELECT 1 FROM tenants WHERE name = $1)");
        Ok(found.bind(tenant.as_str()).fetch_one(&self.pool).await?)
    }

    /// Makes a token, and its tenant if that is new. The person, if any, is whom `actor` says.
    pub async fn create_token(&self, actor: &Actor, new: &NewToken<'_>) -> Result<Token, CatalogError> {
        let source = new.person.map_or(IdentitySource::Nobody, |_| IdentitySource::Admin);
        self.insert_token(actor, new, source).await
    }

    /// Makes the token that stands for somebody whom the OpenID provider has signed in. It has to name the
    /// person and its end.
    pub async fn create_provider_token(
        &self,
        actor: &Actor,
        new: &NewToken<'_>,
    ) -> Result<Token, CatalogError> {
        if new.person.is_none() {
            let reason = "a token of the identity provider needs a person".to_owned();
            return Err(CatalogError::Conflict { reason });
        }
        self.insert_token(actor, new, IdentitySource::Provider).await
    }

    async fn insert_token(
        &self,
        actor: &Actor,
        new: &NewToken<'_>,
        source: IdentitySource,
    ) -> Result<Token, CatalogError> {
        if !(1..=100).contains(&new.name.chars().count()) {
            return Err(CatalogError::Conflict {
                reason: "a token's name has 1 to 100 characters".to_owned(),
            });
        }
        let mut tx = self.begin().await?;
        ensure_tenant(&mut tx, actor, new.tenant).await?;
        let scopes: Vec<&str> = new.scopes.iter().map(|scope| scope.as_str()).collect();
        let sql = format!(
            "INSERT INTO tokens (tenant, name, secret_sha256, scopes, expires_at, person, vouched_by, made_by)
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8) RETURNING {COLUMNS}"
        );
        let row = sqlx::query(sqlx::AssertSqlSafe(sql))
            .bind(new.tenant.as_str())
            .bind(new.name)
            .bind(new.secret_sha256.to_string())
            .bind(&scopes)
            .bind(new.expires_at)
            .bind(new.person.map(PersonName::as_str))
            .bind(source.as_str())
            .bind(actor.as_str())
            .fetch_one(&mut *tx)
            .await?;
        let token = token(&row)?;
        let detail = serde_json::json!({
            "name": new.name, "person": token.person, "identity_source": token.identity_source, "scopes": scopes,
            "role": token.role(), "expires_at": token.expires_at,
        });
        let subject = token.id.to_string();
        let tenant = new.tenant.as_str();
        audit::append(&mut tx, Entry { actor, action: "token.created", tenant, subject: &subject, detail })
            .await?;
        tx.commit().await?;
        Ok(token)
    }

    /// The token with this secret, unless it is revoked or expired by the database's clock.
    pub async fn authenticate(&self, secret_sha256: &Digest) -> Result<Option<Token>, CatalogError> {
        let sql = format!(
            "SELECT {COLUMNS} FROM tokens
             WHERE secret_sha256 = $1 AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > now())"
        );
        let row = sqlx::query(sqlx::AssertSqlSafe(sql))
            .bind(secret_sha256.to_string())
            .fetch_optional(&self.pool)
            .await?;
        Ok(row.as_ref().map(token).transpose()?)
    }

    /// The token of a session, unless either is over by the database's clock.
    pub async fn session_token(&self, cookie_sha256: &Digest) -> Result<Option<Token>, CatalogError> {
        let sql = format!(
            "SELECT {COLUMNS} FROM tokens
             WHERE id = (SELECT token_id FROM sessions WHERE cookie_sha256 = $1 AND expires_at > now())
               AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > now())"
        );
        let row = sqlx::query(sqlx::AssertSqlSafe(sql))
            .bind(cookie_sha256.to_string())
            .fetch_optional(&self.pool)
            .await?;
        Ok(row.as_ref().map(token).transpose()?)
    }

    /// Whether the token is neither revoked nor expired by the database's clock. Its scopes never change.
    pub async fn is_token_good(&self, id: Uuid) -> Result<bool, CatalogError> {
        let found = sqlx::query_scalar(
            "SELECT EXISTS (SELECT 1 FROM tokens
             WHERE id = $1 AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > now()))",
        );
        Ok(found.bind(id).fetch_one(&self.pool).await?)
    }

    /// The tokens of one tenant, or of all, newest first.
    pub async fn tokens(&self, tenant: Option<&TenantName>, limit: u32) -> Result<Vec<Token>, CatalogError> {
        // Two statements, each with its index.
        let sql = match tenant {
            Some(_) => format!(
                "SELECT {COLUMNS} FROM tokens WHERE tenant = $1 ORDER BY created_at DESC, id LIMIT $2"
            ),
            None => format!(
                "SELECT {COLUMNS} FROM tokens WHERE $1::text IS NULL ORDER BY created_at DESC, id LIMIT $2"
            ),
        };
        let rows = sqlx::query(sqlx::AssertSqlSafe(sql))
            .bind(tenant.map(TenantName::as_str))
            .bind(i64::from(limit))
            .fetch_all(&self.pool)
            .await?;
        Ok(rows.iter().map(token).collect::<Result<_, _>>()?)
    }

    /// Revokes a token of `tenant`, or of any tenant when none is given. Repeatable.
    pub async fn revoke_token(
        &self,
        actor: &Actor,
        tenant: Option<&TenantName>,
        id: Uuid,
    ) -> Result<(), CatalogError> {
        let mut tx = self.begin().await?;
        let owner: Option<String> = sqlx::query_scalar(
            "UPDATE tokens SET revoked_at = coalesce(revoked_at, now())
             WHERE id = $1 AND ($2::text IS NULL OR tenant = $2) RETURNING tenant",
        )
        .bind(id)
        .bind(tenant.map(TenantName::as_str))
        .fetch_optional(&mut *tx)
        .await?;
        let owner = owner.ok_or(CatalogError::NotFound { what: "token" })?;
        let (subject, detail) = (id.to_string(), serde_json::json!({}));
        let entry = Entry { actor, action: "token.revoked", tenant: &owner, subject: &subject, detail };
        audit::append(&mut tx, entry).await?;
        Ok(tx.commit().await?)
    }
}

async fn ensure_tenant(
    connection: &mut PgConnection,
    actor: &Actor,
    tenant: &TenantName,
) -> Result<(), CatalogError> {
    let made = sqlx::query(
        "INSERT INTO tenants (name) VALUES ($1) ON CONFLICT ON CONSTRAINT tenants_pkey DO NOTHING",
    )
    .bind(tenant.as_str())
    .execute(&mut *connection)
    .await?
    .rows_affected();
    if made == 1 {
        let (tenant, detail) = (tenant.as_str(), serde_json::json!({}));
        let entry = Entry { actor, action: "tenant.created", tenant, subject: tenant, detail };
        audit::append(connection, entry).await?;
    }
    Ok(())
}

fn token(row: &PgRow) -> Decoded<Token> {
    let scopes: Vec<String> = row.try_get("scopes")?;
    Ok(Token {
        id: row.try_get("id")?,
        tenant: parsed(row, "tenant")?,
        name: row.try_get("name")?,
        person: parsed(row, "person")?,
        identity_source: parsed(row, "vouched_by")?,
        made_by: row.try_get("made_by")?,
        scopes: scopes
            .iter()
            .map(|s| Scope::parse(s).map_err(|e| bad("scopes", e)))
            .collect::<Result<_, _>>()?,
        created_at: row.try_get("created_at")?,
        expires_at: row.try_get("expires_at")?,
        revoked_at: row.try_get("revoked_at")?,
    })
}
