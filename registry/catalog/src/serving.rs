//! Signed documents and who may read them: serving sets, key lists, statements, artifacts.
//!
//! Envelopes are passed on as the bytes that were signed; nothing here opens them.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use mfaas_attest::{ServedFunction, Shard, ShardPrefix, ShardRef};
use mfaas_ident::{Digest, Epoch, FunctionName, TenantName};
use sqlx::Row as _;
use sqlx::postgres::PgRow;

use crate::audit::{self, Entry};
use crate::connection::retried;
use crate::decode::{Decoded, bad, int8, parsed, small, unsigned};
use crate::{Actor, Catalog, CatalogError};

/// The newest serving set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredServingSet {
    /// Its epoch.
    pub epoch: Epoch,
    /// The envelope, to be sent as it is.
    pub envelope: String,
    /// When it was signed.
    pub issued_at: DateTime<Utc>,
    /// When it ends.
    pub expires_at: DateTime<Utc>,
}

/// A function as the newest serving set has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SetFunction {
    /// What nodes are told.
    pub function: ServedFunction,
    /// The first set that says so.
    pub epoch: Epoch,
    /// Something has changed that no set says yet.
    pub is_changing: bool,
}

/// Which serving set somebody has already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Held {
    /// None that it could go on with.
    Nothing,
    /// The one with this digest. After a failover the newest set may be another one of the same epoch, or of an earlier one.
    Set(Digest),
    /// One of this epoch: all that a node of the release before says.
    Epoch(Epoch),
}

/// A signed statement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredStatement {
    /// SHA-256 of the envelope.
    pub digest: Digest,
    /// The artifact that it is about.
    pub artifact: Digest,
    /// The envelope, to be sent as it is.
    pub envelope: String,
}

impl Catalog {
    /// The newest serving set, unless that is the one that is held.
    pub async fn serving_set_unless(&self, held: &Held) -> Result<Option<StoredServingSet>, CatalogError> {
        let (epoch, digest) = match held {
            Held::Nothing => (0, None),
            Held::Epoch(epoch) => (int8(epoch.0), None),
            Held::Set(digest) => (0, Some(digest.to_string())),
        };
        let row = sqlx::query(
            "SELECT epoch, envelope, issued_at, expires_at
             FROM (SELECT * FROM serving_sets ORDER BY epoch DESC LIMIT 1) newest
             WHERE epoch > $1 AND digest IS DISTINCT FROM $2",
        )
        .bind(epoch)
        .bind(digest)
        .fetch_optional(&self.pool)
        .await?;
        Ok(row.as_ref().map(serving_set).transpose()?)
    }

    /// The bytes of these shards, as far as they are there.
    pub async fn shards(&self, digests: &[Digest]) -> Result<BTreeMap<Digest, String>, CatalogError> {
        let names: Vec<String> = digests.iter().map(Digest::to_string).collect();
        let rows = sqlx::query("SELECT digest, body FROM shards WHERE digest = ANY($1)")
            .bind(names)
            .fetch_all(&self.pool)
            .await?;
        let shard = |row: &PgRow| Ok((parsed(row, "digest")?, row.try_get("body")?));
        Ok(rows.iter().map(shard).collect::<Decoded<_>>()?)
    }

    /// What the newest serving set says of a function; nothing where it names no such function.
    pub async fn served_function(
        &self,
        tenant: &TenantName,
        name: &FunctionName,
    ) -> Result<Option<SetFunction>, CatalogError> {
        let row = sqlx::query(
            "SELECT s.shard, s.functions, f.set_epoch,
                    EXISTS (SELECT 1 FROM changed_functions c WHERE c.tenant = $1 AND c.name = $2) AS is_changing
             FROM (SELECT shard, functions FROM serving_sets ORDER BY epoch DESC LIMIT 1) s
             JOIN functions f ON f.tenant = $1 AND f.name = $2
             WHERE s.shard IS NOT NULL",
        )
        .bind(tenant.as_str())
        .bind(name.as_str())
        .fetch_optional(&self.pool)
        .await?;
        let Some(row) = row else { return Ok(None) };
        let mut named = ShardRef { digest: parsed(&row, "shard")?, functions: small(&row, "functions")? };
        let (place, mut at) = (ShardPrefix::of(tenant, name), ShardPrefix::default());
        loop {
            let body = self.shards(&[named.digest]).await?.remove(&named.digest);
            // A set that was signed meanwhile leads elsewhere: whoever asks again is told.
            let Some(body) = body else { return Ok(None) };
            let shard = Shard::read(body.as_bytes(), &named, &at).map_err(|error| bad("body", error))?;
            let child = shard.child_towards(&at, &place);
            if let Shard::Leaf(functions) = shard {
                let found = functions.into_iter().find(|row| row.tenant == *tenant && row.name == *name);
                let (epoch, is_changing) = (Epoch(unsigned(&row, "set_epoch")?), row.try_get("is_changing")?);
                return Ok(found.map(|function| SetFunction { function, epoch, is_changing }));
            }
            let Some((below, child)) = child else { return Ok(None) };
            (at, named) = (below, child);
        }
    }

    /// The digest of the newest serving set's envelope, as it is stored.
    pub async fn serving_set_digest(&self) -> Result<Option<String>, CatalogError> {
        Ok(sqlx::query_scalar("SELECT digest FROM serving_sets ORDER BY epoch DESC LIMIT 1")
            .fetch_optional(&self.pool)
            .await?)
    }

    /// The envelope of the newest key list.
    pub async fn key_list(&self) -> Result<Option<String>, CatalogError> {
        Ok(sqlx::query_scalar("SELECT envelope FROM key_lists ORDER BY version DESC LIMIT 1")
            .fetch_optional(&self.pool)
            .await?)
    }

    /// The envelope of the next key list after that version: who verifies the root goes from one to the next.
    pub async fn key_list_after(&self, version: u32) -> Result<Option<String>, CatalogError> {
        let envelope =
            sqlx::query_scalar("SELECT envelope FROM key_lists WHERE version > $1 ORDER BY version LIMIT 1");
        Ok(envelope.bind(i64::from(version)).fetch_optional(&self.pool).await?)
    }

    /// A statement by the digest of its envelope; for nodes, which serve every tenant.
    pub async fn statement(&self, digest: &Digest) -> Result<Option<StoredStatement>, CatalogError> {
        let row = sqlx::query("SELECT digest, artifact, envelope FROM statements WHERE digest = $1")
            .bind(digest.to_string())
            .fetch_optional(&self.pool)
            .await?;
        Ok(row.as_ref().map(stored_statement).transpose()?)
    }

    /// The statement of digest `statement` about an artifact, or the newest one, if a version of
    /// `tenant` uses it. One artifact can belong to several versions and tenants: whoever uploads
    /// the same source.
    pub async fn statement_of(
        &self,
        tenant: &TenantName,
        artifact: &Digest,
        statement: Option<&Digest>,
    ) -> Result<StoredStatement, CatalogError> {
        let row = sqlx::query(
            "SELECT s.digest, s.artifact, s.envelope FROM statements s JOIN versions v ON v.statement = s.digest
             WHERE v.tenant = $1 AND v.artifact = $2 AND ($3::text IS NULL OR s.digest = $3)
                 AND v.retired_at IS NULL
             ORDER BY s.created_at DESC, v.version DESC LIMIT 1",
        )
        .bind(tenant.as_str())
        .bind(artifact.to_string())
        .bind(statement.map(Digest::to_string))
        .fetch_optional(&self.pool)
        .await?;
        let row = row.ok_or(CatalogError::NotFound { what: "artifact" })?;
        Ok(stored_statement(&row)?)
    }

    /// Whether a version of `tenant` uses the artifact.
    pub async fn owns_artifact(&self, tenant: &TenantName, artifact: &Digest) -> Result<bool, CatalogError> {
        Ok(sqlx::query_scalar(
            "SELECT EXISTS (SELECT 1 FROM versions WHERE tenant = $1 AND artifact = $2 AND retired_at IS NULL)",
        )
        .bind(tenant.as_str())
        .bind(artifact.to_string())
        .fetch_one(&self.pool)
        .await?)
    }

    /// Whether nodes may fetch the artifact: it is registered and not revoked.
    pub async fn is_servable(&self, artifact: &Digest) -> Result<bool, CatalogError> {
        Ok(sqlx::query_scalar(
            "SELECT EXISTS (SELECT 1 FROM artifacts a WHERE a.digest = $1
                            AND NOT EXISTS (SELECT 1 FROM revocations r WHERE r.artifact = a.digest))",
        )
        .bind(artifact.to_string())
        .fetch_one(&self.pool)
        .await?)
    }

    /// Takes an artifact back everywhere: the next serving set names it as revoked. Repeatable.
    pub async fn revoke_artifact(
        &self,
        actor: &Actor,
        artifact: &Digest,
        reason: &str,
    ) -> Result<(), CatalogError> {
        retried!(self.revoke_artifact_once(actor, artifact, reason))
    }

    async fn revoke_artifact_once(
        &self,
        actor: &Actor,
        artifact: &Digest,
        reason: &str,
    ) -> Result<(), CatalogError> {
        let mut tx = self.begin().await?;
        let made = sqlx::query(
            "INSERT INTO revocations (artifact, reason, revoked_by) VALUES ($1, $2, $3)
             ON CONFLICT ON CONSTRAINT revocations_pkey DO NOTHING",
        )
        .bind(artifact.to_string())
        .bind(reason)
        .bind(actor.as_str())
        .execute(&mut *tx)
        .await?
        .rows_affected();
        if made == 1 {
            let (subject, detail) = (artifact.to_string(), serde_json::json!({"reason": reason}));
            let entry = Entry { actor, action: "artifact.revoked", tenant: "", subject: &subject, detail };
            audit::append(&mut tx, entry).await?;
            crate::functions::bump(&mut tx).await?;
        }
        Ok(tx.commit().await?)
    }
}

fn serving_set(row: &PgRow) -> Decoded<StoredServingSet> {
    Ok(StoredServingSet {
        epoch: Epoch(unsigned(row, "epoch")?),
        envelope: row.try_get("envelope")?,
        issued_at: row.try_get("issued_at")?,
        expires_at: row.try_get("expires_at")?,
    })
}

fn stored_statement(row: &PgRow) -> Decoded<StoredStatement> {
    Ok(StoredStatement {
        digest: parsed(row, "digest")?,
        artifact: parsed(row, "artifact")?,
        envelope: row.try_get("envelope")?,
    })
}
