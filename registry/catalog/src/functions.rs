//! Functions, their immutable versions, and the aliases that move.

use chrono::{DateTime, Utc};
use mfaas_attest::ALIASES_MAX;
use mfaas_ident::{
    Access, AliasName, Bindings, Budget, Callers, Class, DeploymentId, Digest, FunctionName, HandlerPath,
    Isolation, MemoryLimit, TenantName, ToolchainId, VersionNumber,
};
use sqlx::postgres::PgRow;
use sqlx::{PgConnection, Row as _};

use crate::audit::{self, Entry};
use crate::connection::retried;
use crate::decode::{Decoded, all_parsed, json, parsed, parsed_opt, small, small_opt, unsigned};
use crate::{Actor, Catalog, CatalogError};

/// A function that has at least one version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Function {
    /// Owner.
    pub tenant: TenantName,
    /// Name within the tenant.
    pub name: FunctionName,
    /// The newest version.
    pub last_version: VersionNumber,
    /// What the alias `live` names.
    pub live_version: Option<VersionNumber>,
    /// The class of that version.
    pub class: Option<Class>,
    /// When the first version was admitted.
    pub created_at: DateTime<Utc>,
}

/// One immutable version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Version {
    /// Owner.
    pub tenant: TenantName,
    /// Function.
    pub function: FunctionName,
    /// Number.
    pub version: VersionNumber,
    /// The upload that it came from.
    pub deployment: DeploymentId,
    /// The artifact.
    pub artifact: Digest,
    /// Size of the artifact in bytes.
    pub artifact_bytes: u64,
    /// Digest of the statement's envelope.
    pub statement: Digest,
    /// Digest of the upload.
    pub source_digest: Digest,
    /// Where the handler is.
    pub handler: HandlerPath,
    /// CPU time per invocation.
    pub budget: Budget,
    /// Arena.
    pub memory: MemoryLimit,
    /// Declared: a lost call may run a second time.
    pub idempotent: bool,
    /// Declared: with whom it shares workers.
    pub isolation: Isolation,
    /// Who may call it.
    pub access: Access,
    /// The other tenants whose functions may.
    pub callers: Callers,
    /// What kind of calls it has.
    pub class: Class,
    /// What data it may reach.
    pub bindings: Bindings,
    /// What compiled it.
    pub toolchain: ToolchainId,
    /// ABI of the shim inside.
    pub abi_version: u32,
    /// Version of the allowlist when it was signed.
    pub policy_version: i64,
    /// When it was admitted.
    pub created_at: DateTime<Utc>,
    /// True when the artifact must not run any more.
    pub revoked: bool,
}

/// An alias and what it names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Alias {
    /// Name.
    pub alias: AliasName,
    /// What it names.
    pub version: VersionNumber,
    /// When it moved last.
    pub updated_at: DateTime<Utc>,
}

impl Catalog {
    /// The tenant's functions by name, behind `after`.
    pub async fn functions(
        &self,
        tenant: &TenantName,
        after: Option<&FunctionName>,
        limit: u32,
    ) -> Result<Vec<Function>, CatalogError> {
        let rows = sqlx::query(
            "SELECT f.tenant, f.name, f.last_version, f.created_at, a.version AS live_version, v.class
             FROM functions f
             LEFT JOIN aliases a ON a.tenant = f.tenant AND a.function = f.name AND a.alias = 'live'
             LEFT JOIN versions v ON v.tenant = f.tenant AND v.function = f.name AND v.version = a.version
             WHERE f.tenant = $1 AND f.deleted_at IS NULL AND ($2::text IS NULL OR f.name > $2)
             ORDER BY f.name LIMIT $3",
        )
        .bind(tenant.as_str())
        .bind(after.map(FunctionName::as_str))
        .bind(i64::from(limit))
        .fetch_all(&self.pool)
        .await?;
        Ok(rows.iter().map(function).collect::<Result<_, _>>()?)
    }

    /// One function.
    pub async fn function(&self, tenant: &TenantName, name: &FunctionName) -> Result<Function, CatalogError> {
        let row = sqlx::query(
            "SELECT f.tenant, f.name, f.last_version, f.created_at, a.version AS live_version, v.class
             FROM functions f
             LEFT JOIN aliases a ON a.tenant = f.tenant AND a.function = f.name AND a.alias = 'live'
             LEFT JOIN versions v ON v.tenant = f.tenant AND v.function = f.name AND v.version = a.version
             WHERE f.tenant = $1 AND f.name = $2 AND f.deleted_at IS NULL",
        )
        .bind(tenant.as_str())
        .bind(name.as_str())
        .fetch_optional(&self.pool)
        .await?;
        let row = row.ok_or(CatalogError::NotFound { what: "function" })?;
        Ok(function(&row)?)
    }

    /// The versions of a function, newest first, below `before` if given.
    pub async fn versions(
        &self,
        tenant: &TenantName,
        name: &FunctionName,
        before: Option<VersionNumber>,
        limit: u32,
    ) -> Result<Vec<Version>, CatalogError> {
        let rows = sqlx::query(
            "SELECT v.tenant, v.function, v.version, v.deployment_id, v.artifact, v.statement, v.source_digest,
                    v.handler, v.budget_us, v.memory_bytes, v.idempotent, v.isolation, v.access, v.callers, v.class, v.toolchain,
                    v.abi_version, v.policy_version, v.created_at, a.bytes, r.artifact IS NOT NULL AS revoked,
                    (SELECT coalesce(jsonb_object_agg(b.name, jsonb_build_object(
                                'kind', b.kind, 'resource', b.resource, 'access', b.access)), '{}')
                     FROM version_bindings b
                     WHERE (b.tenant, b.function, b.version) = (v.tenant, v.function, v.version))
                    || (SELECT coalesce(jsonb_object_agg(c.name, jsonb_build_object(
                                   'kind', 'function', 'function', c.callee)), '{}')
                        FROM version_calls c
                        WHERE (c.tenant, c.function, c.version) = (v.tenant, v.function, v.version)) AS bindings
             FROM versions v JOIN artifacts a ON a.digest = v.artifact
             LEFT JOIN revocations r ON r.artifact = v.artifact
             WHERE v.tenant = $1 AND v.function = $2 AND v.retired_at IS NULL
               AND ($3::integer IS NULL OR v.version < $3)
             ORDER BY v.version DESC LIMIT $4",
        )
        .bind(tenant.as_str())
        .bind(name.as_str())
        .bind(before.map(int4))
        .bind(i64::from(limit))
        .fetch_all(&self.pool)
        .await?;
        Ok(rows.iter().map(version).collect::<Result<_, _>>()?)
    }

    /// One version.
    pub async fn version(
        &self,
        tenant: &TenantName,
        name: &FunctionName,
        number: VersionNumber,
    ) -> Result<Version, CatalogError> {
        read_version(&mut *self.pool.acquire().await?, tenant, name, number).await
    }

    /// The aliases of a function by name.
    pub async fn aliases(
        &self,
        tenant: &TenantName,
        name: &FunctionName,
    ) -> Result<Vec<Alias>, CatalogError> {
        let rows = sqlx::query(
            "SELECT alias, version, updated_at FROM aliases WHERE tenant = $1 AND function = $2 ORDER BY alias",
        )
        .bind(tenant.as_str())
        .bind(name.as_str())
        .fetch_all(&self.pool)
        .await?;
        Ok(rows.iter().map(alias).collect::<Result<_, _>>()?)
    }

    /// Makes or moves an alias; going back to an older version is the same call.
    ///
    /// # Errors
    /// [`CatalogError::NotFound`] for an unknown or deleted version, [`CatalogError::Conflict`]
    /// for a revoked one, and for one alias more than a function may have.
    pub async fn put_alias(
        &self,
        actor: &Actor,
        tenant: &TenantName,
        name: &FunctionName,
        alias_name: &AliasName,
        number: VersionNumber,
    ) -> Result<Alias, CatalogError> {
        retried!(self.put_alias_once(actor, tenant, name, alias_name, number))
    }

    async fn put_alias_once(
        &self,
        actor: &Actor,
        tenant: &TenantName,
        name: &FunctionName,
        alias_name: &AliasName,
        number: VersionNumber,
    ) -> Result<Alias, CatalogError> {
        let mut tx = self.begin().await?;
        lock_function(&mut tx, tenant, name).await?;
        // Behind the lock: a deletion, and what was deployed under the name since, came first or comes later.
        let target = read_version(&mut tx, tenant, name, number).await?;
        if target.revoked {
            let reason = format!("version {number} is revoked; an alias cannot name it");
            return Err(CatalogError::Conflict { reason });
        }
        let others: i64 = sqlx::query_scalar(
            "SELECT count(*) FROM aliases WHERE tenant = $1 AND function = $2 AND alias <> $3",
        )
        .bind(tenant.as_str())
        .bind(name.as_str())
        .bind(alias_name.as_str())
        .fetch_one(&mut *tx)
        .await?;
        if usize::try_from(others).is_ok_and(|others| others >= ALIASES_MAX) {
            let reason = format!("a function has at most {ALIASES_MAX} aliases; move one that is there");
            return Err(CatalogError::Conflict { reason });
        }
        let row = sqlx::query(
            "INSERT INTO aliases (tenant, function, alias, version) VALUES ($1, $2, $3, $4)
             ON CONFLICT ON CONSTRAINT aliases_pkey DO UPDATE SET version = $4, updated_at = now()
             RETURNING alias, version, updated_at",
        )
        .bind(tenant.as_str())
        .bind(name.as_str())
        .bind(alias_name.as_str())
        .bind(int4(number))
        .fetch_one(&mut *tx)
        .await?;
        let entry = Entry {
            actor,
            action: "alias.moved",
            tenant: tenant.as_str(),
            subject: &format!("{tenant}/{name}@{alias_name}"),
            detail: serde_json::json!({"version": number, "artifact": target.artifact}),
        };
        audit::append(&mut tx, entry).await?;
        bump(&mut tx).await?;
        tx.commit().await?;
        Ok(alias(&row)?)
    }

    /// Deletes a function: its aliases go, its versions are retired, nodes stop serving it. The
    /// record stays, and a later function of that name goes on counting.
    pub async fn delete_function(
        &self,
        actor: &Actor,
        tenant: &TenantName,
        name: &FunctionName,
    ) -> Result<(), CatalogError> {
        retried!(self.delete_function_once(actor, tenant, name))
    }

    async fn delete_function_once(
        &self,
        actor: &Actor,
        tenant: &TenantName,
        name: &FunctionName,
    ) -> Result<(), CatalogError> {
        let mut tx = self.begin().await?;
        lock_function(&mut tx, tenant, name).await?;
        for statement in [
            "DELETE FROM aliases WHERE tenant = $1 AND function = $2",
            "DELETE FROM schedules WHERE tenant = $1 AND function = $2",
            "DELETE FROM triggers WHERE tenant = $1 AND function = $2",
            // In the order in which the signer locks them that signs their statements again.
            "SELECT 1 FROM versions WHERE tenant = $1 AND function = $2 AND retired_at IS NULL ORDER BY version FOR UPDATE",
            "UPDATE versions SET retired_at = now() WHERE tenant = $1 AND function = $2 AND retired_at IS NULL",
            "UPDATE functions SET deleted_at = now() WHERE tenant = $1 AND name = $2",
        ] {
            sqlx::query(statement).bind(tenant.as_str()).bind(name.as_str()).execute(&mut *tx).await?;
        }
        let entry = Entry {
            actor,
            action: "function.deleted",
            tenant: tenant.as_str(),
            subject: &format!("{tenant}/{name}"),
            detail: serde_json::json!({}),
        };
        audit::append(&mut tx, entry).await?;
        bump(&mut tx).await?;
        Ok(tx.commit().await?)
    }
}

/// Locks the function's row, so that a deploy, a move and a deletion come one after another.
pub(crate) async fn lock_function(
    connection: &mut PgConnection,
    tenant: &TenantName,
    name: &FunctionName,
) -> Result<(), CatalogError> {
    sqlx::query("SELECT 1 FROM functions WHERE tenant = $1 AND name = $2 AND deleted_at IS NULL FOR UPDATE")
        .bind(tenant.as_str())
        .bind(name.as_str())
        .fetch_optional(connection)
        .await?
        .map(|_| ())
        .ok_or(CatalogError::NotFound { what: "function" })
}

async fn read_version(
    connection: &mut PgConnection,
    tenant: &TenantName,
    name: &FunctionName,
    number: VersionNumber,
) -> Result<Version, CatalogError> {
    let row = sqlx::query(
        "SELECT v.tenant, v.function, v.version, v.deployment_id, v.artifact, v.statement, v.source_digest,
                v.handler, v.budget_us, v.memory_bytes, v.idempotent, v.isolation, v.access, v.callers, v.class, v.toolchain,
                v.abi_version, v.policy_version, v.created_at, a.bytes,
                EXISTS (SELECT 1 FROM revocations r WHERE r.artifact = v.artifact) AS revoked,
                (SELECT coalesce(jsonb_object_agg(b.name, jsonb_build_object(
                            'kind', b.kind, 'resource', b.resource, 'access', b.access)), '{}')
                 FROM version_bindings b
                 WHERE (b.tenant, b.function, b.version) = (v.tenant, v.function, v.version))
                || (SELECT coalesce(jsonb_object_agg(c.name, jsonb_build_object(
                               'kind', 'function', 'function', c.callee)), '{}')
                    FROM version_calls c
                    WHERE (c.tenant, c.function, c.version) = (v.tenant, v.function, v.version)) AS bindings
         FROM versions v JOIN artifacts a ON a.digest = v.artifact
         WHERE v.tenant = $1 AND v.function = $2 AND v.version = $3 AND v.retired_at IS NULL",
    )
    .bind(tenant.as_str())
    .bind(name.as_str())
    .bind(int4(number))
    .fetch_optional(connection)
    .await?;
    let row = row.ok_or(CatalogError::NotFound { what: "version" })?;
    Ok(version(&row)?)
}

/// Nodes should serve something else than before; wakes the signer.
pub(crate) async fn bump(connection: &mut PgConnection) -> Result<(), CatalogError> {
    sqlx::query("SELECT bump_desired_generation()").execute(connection).await?;
    Ok(())
}

/// A version's number as the database's integer; the type holds nothing past its range.
pub(crate) fn int4(number: VersionNumber) -> i32 {
    i32::try_from(number.get()).unwrap_or(i32::MAX)
}

fn function(row: &PgRow) -> Decoded<Function> {
    Ok(Function {
        tenant: parsed(row, "tenant")?,
        name: parsed(row, "name")?,
        last_version: small(row, "last_version")?,
        live_version: small_opt(row, "live_version")?,
        class: parsed_opt(row, "class")?,
        created_at: row.try_get("created_at")?,
    })
}

/// Of what a function has several, each under a name of its own.
pub(crate) struct Room {
    /// What they are called.
    pub(crate) what: &'static str,
    /// Counts as `of_tenant` and `of_function` those of tenant `$1` and of its function `$2` but the one named `$3`.
    pub(crate) count: &'static str,
    pub(crate) of_function_max: i64,
    pub(crate) of_tenant_max: i64,
}

impl Room {
    /// Refuses a further one where there are as many as may be.
    pub(crate) async fn demand(
        &self,
        connection: &mut PgConnection,
        tenant: &TenantName,
        function: &FunctionName,
        name: &str,
    ) -> Result<(), CatalogError> {
        let Self { what, count, of_function_max, of_tenant_max } = self;
        let row = sqlx::query(*count)
            .bind(tenant.as_str())
            .bind(function.as_str())
            .bind(name)
            .fetch_one(connection)
            .await?;
        let (of_tenant, of_function): (i64, i64) = (row.try_get("of_tenant")?, row.try_get("of_function")?);
        let reason = if of_function >= *of_function_max {
            format!("a function has at most {of_function_max} {what}; delete one first")
        } else if of_tenant >= *of_tenant_max {
            format!("a tenant has at most {of_tenant_max} {what}; delete one first")
        } else {
            return Ok(());
        };
        Err(CatalogError::Conflict { reason })
    }
}

fn version(row: &PgRow) -> Decoded<Version> {
    Ok(Version {
        tenant: parsed(row, "tenant")?,
        function: parsed(row, "function")?,
        version: small(row, "version")?,
        deployment: DeploymentId(row.try_get("deployment_id")?),
        artifact: parsed(row, "artifact")?,
        artifact_bytes: unsigned(row, "bytes")?,
        statement: parsed(row, "statement")?,
        source_digest: parsed(row, "source_digest")?,
        handler: parsed(row, "handler")?,
        budget: unsigned(row, "budget_us")?,
        memory: unsigned(row, "memory_bytes")?,
        idempotent: row.try_get("idempotent")?,
        isolation: parsed(row, "isolation")?,
        access: parsed(row, "access")?,
        callers: all_parsed(row, "callers")?,
        class: parsed(row, "class")?,
        bindings: json(row, "bindings")?,
        toolchain: parsed(row, "toolchain")?,
        abi_version: small(row, "abi_version")?,
        policy_version: row.try_get("policy_version")?,
        created_at: row.try_get("created_at")?,
        revoked: row.try_get("revoked")?,
    })
}

fn alias(row: &PgRow) -> Decoded<Alias> {
    Ok(Alias {
        alias: parsed(row, "alias")?,
        version: small(row, "version")?,
        updated_at: row.try_get("updated_at")?,
    })
}
