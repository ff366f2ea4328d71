//! Triggers: for which changes of objects the site calls a function by itself. The changes are in the database of functions' data,
//! and never here.
//!
//! Whether the tenant may read the resource is looked at each time anew: a trigger stays when the grant goes, and does nothing then.

use chrono::{DateTime, Utc};
use mfaas_ident::{FunctionName, ResourceKind, ResourceName, TenantName, TriggerName};
use sqlx::Row as _;
use sqlx::postgres::PgRow;
use uuid::Uuid;

use crate::audit::{self, Entry};
use crate::connection::count_alone;
use crate::decode::{Decoded, parsed};
use crate::functions::{Room, lock_function};
use crate::{Actor, Catalog, CatalogError};

/// Triggers of one function, at most.
pub const FUNCTION_TRIGGERS_MAX: i64 = 16;
/// Triggers of all functions of a tenant, at most.
pub const TENANT_TRIGGERS_MAX: i64 = 64;

const ROOM: Room = Room {
    what: "triggers",
    count: "SELECT count(*) AS of_tenant, count(*) FILTER (WHERE function = $2) AS of_function
            FROM triggers WHERE tenant = $1 AND NOT (function = $2 AND name = $3)",
    of_function_max: FUNCTION_TRIGGERS_MAX,
    of_tenant_max: TENANT_TRIGGERS_MAX,
};

/// The lock under which triggers of one tenant are counted; any number that nobody else takes.
const COUNTING_LOCKS: i32 = 0x6D66_7472;

/// For which changes a function is called.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trigger {
    /// A number that no other trigger has, and none that says something else.
    pub id: Uuid,
    /// Whose function is called.
    pub tenant: TenantName,
    /// The function.
    pub function: FunctionName,
    /// The trigger's name, unique within the function.
    pub name: TriggerName,
    /// Which changes.
    pub changes: WatchedChanges,
    /// When that was said last.
    pub set_at: DateTime<Utc>,
    /// Who said it, as audit rows name them.
    pub set_by: String,
    /// Whether the tenant may read the objects, at present.
    pub is_granted: bool,
}

/// Changes of objects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WatchedChanges {
    /// Whose objects.
    pub resource: ResourceName,
    /// What their names begin with.
    pub prefix: String,
    /// Those that are put.
    pub on_put: bool,
    /// Those that are deleted.
    pub on_delete: bool,
}

/// With a limit, so that the planner looks each grant up and does not read all of them.
const SELECT: &str = "SELECT t.tenant, t.function, t.name, t.id, t.resource, t.prefix, t.on_put, t.on_delete, t.set_at, t.set_by,
    g.tenant IS NOT NULL AS is_granted
    FROM triggers t LEFT JOIN LATERAL (
        SELECT tenant FROM resource_grants WHERE resource = t.resource AND tenant = t.tenant LIMIT 1) g ON true";

impl Catalog {
    /// Says for which changes a function is called, with its audit record; what the trigger of that name said before does not count
    /// any more. Saying the same again keeps its number.
    ///
    /// # Errors
    /// [`CatalogError::NotFound`] when there is no such function, [`CatalogError::Conflict`] for one trigger more than the function or
    /// the tenant may have.
    pub async fn set_trigger(
        &self,
        actor: &Actor,
        tenant: &TenantName,
        function: &FunctionName,
        (name, changes): (&TriggerName, &WatchedChanges),
    ) -> Result<Trigger, CatalogError> {
        let mut tx = self.begin().await?;
        count_alone(&mut tx, COUNTING_LOCKS, tenant.as_str()).await?;
        lock_function(&mut tx, tenant, function).await?;
        ROOM.demand(&mut tx, tenant, function, name.as_str()).await?;
        let id: Uuid = sqlx::query_scalar(
            "INSERT INTO triggers AS t (tenant, function, name, id, resource, prefix, on_put, on_delete, set_by)
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)
             ON CONFLICT ON CONSTRAINT triggers_pkey
             DO UPDATE SET resource = $5, prefix = $6, on_put = $7, on_delete = $8, set_at = now(), set_by = $9,
                 id = CASE WHEN (t.resource, t.prefix, t.on_put, t.on_delete) = ($5, $6, $7, $8) THEN t.id ELSE $4 END
             RETURNING id",
        )
        .bind(tenant.as_str())
        .bind(function.as_str())
        .bind(name.as_str())
        .bind(Uuid::new_v4())
        .bind(changes.resource.as_str())
        .bind(&changes.prefix)
        .bind(changes.on_put)
        .bind(changes.on_delete)
        .bind(actor.as_str())
        .fetch_one(&mut *tx)
        .await?;
        let detail = serde_json::json!({"resource": changes.resource, "prefix": changes.prefix, "put": changes.on_put,
            "delete": changes.on_delete});
        let subject = format!("{tenant}/{function}/{name}");
        let (tenant, subject) = (tenant.as_str(), subject.as_str());
        audit::append(&mut tx, Entry { actor, action: "trigger.set", tenant, subject, detail }).await?;
        let sql = format!("{SELECT} WHERE t.id = $1");
        let row = sqlx::query(sqlx::AssertSqlSafe(sql)).bind(id).fetch_one(&mut *tx).await?;
        tx.commit().await?;
        Ok(trigger(&row)?)
    }

    /// The triggers of a function, by name.
    ///
    /// # Errors
    /// [`CatalogError::NotFound`] when there is no such function.
    pub async fn triggers(
        &self,
        tenant: &TenantName,
        function: &FunctionName,
    ) -> Result<Vec<Trigger>, CatalogError> {
        // Says that there is no such function.
        self.function(tenant, function).await?;
        let sql = format!("{SELECT} WHERE t.tenant = $1 AND t.function = $2 ORDER BY t.name");
        let rows = sqlx::query(sqlx::AssertSqlSafe(sql))
            .bind(tenant.as_str())
            .bind(function.as_str())
            .fetch_all(&self.pool)
            .await?;
        Ok(rows.iter().map(trigger).collect::<Result<_, _>>()?)
    }

    /// The trigger of this number, if it still says what it said under it.
    pub async fn trigger(&self, id: Uuid) -> Result<Option<Trigger>, CatalogError> {
        let sql = format!("{SELECT} WHERE t.id = $1");
        let row = sqlx::query(sqlx::AssertSqlSafe(sql)).bind(id).fetch_optional(&self.pool).await?;
        Ok(row.as_ref().map(trigger).transpose()?)
    }

    /// The triggers of all tenants by number, behind `after`.
    pub async fn site_triggers(&self, after: Option<Uuid>, limit: u32) -> Result<Vec<Trigger>, CatalogError> {
        let sql = format!("{SELECT} WHERE $1::uuid IS NULL OR t.id > $1 ORDER BY t.id LIMIT $2");
        let rows = sqlx::query(sqlx::AssertSqlSafe(sql))
            .bind(after)
            .bind(i64::from(limit))
            .fetch_all(&self.pool)
            .await?;
        Ok(rows.iter().map(trigger).collect::<Result<_, _>>()?)
    }

    /// What a resource is that a tenant was granted; nothing if it was not, or there is none.
    pub async fn granted_kind(
        &self,
        tenant: &TenantName,
        resource: &ResourceName,
    ) -> Result<Option<ResourceKind>, CatalogError> {
        let row = sqlx::query(
            "SELECT r.kind FROM resource_grants g JOIN resources r ON r.name = g.resource
             WHERE g.resource = $1 AND g.tenant = $2",
        )
        .bind(resource.as_str())
        .bind(tenant.as_str())
        .fetch_optional(&self.pool)
        .await?;
        Ok(row.as_ref().map(|row| parsed(row, "kind")).transpose()?)
    }

    /// Removes a trigger, with its audit record, and says what its number was. A call that has begun goes on.
    ///
    /// # Errors
    /// [`CatalogError::NotFound`] when there is no such trigger.
    pub async fn delete_trigger(
        &self,
        actor: &Actor,
        tenant: &TenantName,
        function: &FunctionName,
        name: &TriggerName,
    ) -> Result<Uuid, CatalogError> {
        let mut tx = self.begin().await?;
        let id = sqlx::query_scalar(
            "DELETE FROM triggers WHERE tenant = $1 AND function = $2 AND name = $3 RETURNING id",
        )
        .bind(tenant.as_str())
        .bind(function.as_str())
        .bind(name.as_str())
        .fetch_optional(&mut *tx)
        .await?
        .ok_or(CatalogError::NotFound { what: "trigger" })?;
        let (tenant, subject) = (tenant.as_str(), format!("{tenant}/{function}/{name}"));
        let (subject, detail) = (subject.as_str(), serde_json::json!({}));
        audit::append(&mut tx, Entry { actor, action: "trigger.deleted", tenant, subject, detail }).await?;
        tx.commit().await?;
        Ok(id)
    }
}

fn trigger(row: &PgRow) -> Decoded<Trigger> {
    Ok(Trigger {
        id: row.try_get("id")?,
        tenant: parsed(row, "tenant")?,
        function: parsed(row, "function")?,
        name: parsed(row, "name")?,
        changes: WatchedChanges {
            resource: parsed(row, "resource")?,
            prefix: row.try_get("prefix")?,
            on_put: row.try_get("on_put")?,
            on_delete: row.try_get("on_delete")?,
        },
        set_at: row.try_get("set_at")?,
        set_by: row.try_get("set_by")?,
        is_granted: row.try_get("is_granted")?,
    })
}
