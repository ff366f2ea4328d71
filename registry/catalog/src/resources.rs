//! Resources: data of the site that functions bind, and which tenants may. What lies under a resource is in the database of
//! functions' data and never here.

use chrono::{DateTime, Utc};
use mfaas_ident::{AssetContent, DataAccess, Digest, ResourceKind, ResourceName, TenantName};
use sqlx::postgres::PgRow;
use sqlx::{PgConnection, Row as _};

use crate::audit::{self, Entry};
use crate::connection::count_alone;
use crate::decode::{Decoded, int8, parsed, unsigned};
use crate::{Actor, Catalog, CatalogError, collecting};

/// Resources of a site, at most.
pub const SITE_RESOURCES_MAX: i64 = 10_000;
/// Resources that one tenant was granted, at most.
pub const TENANT_GRANTS_MAX: i64 = 1_000;

/// The locks under which resources, and grants of one tenant, are counted; any number that nobody else takes.
const COUNTING_LOCKS: i32 = 0x6D66_7265;

/// Data of the site, by name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resource {
    /// Its name, which is never used for anything else.
    pub name: ResourceName,
    /// What it is.
    pub kind: ResourceKind,
    /// The bytes of an asset.
    pub content: Option<AssetContent>,
    /// When it was made.
    pub created_at: DateTime<Utc>,
    /// Who made it, as audit rows name them.
    pub created_by: String,
}

/// That a tenant may bind a resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResourceGrant {
    /// The resource.
    pub resource: ResourceName,
    /// The tenant.
    pub tenant: TenantName,
    /// What functions of the tenant may do with it.
    pub access: DataAccess,
    /// Since when.
    pub granted_at: DateTime<Utc>,
    /// Who said so, as audit rows name them.
    pub granted_by: String,
}

impl Catalog {
    /// Makes a resource that is no asset, with its audit record; says whether it is new. Repeatable.
    ///
    /// # Errors
    /// [`CatalogError::Conflict`] when the name is one of another kind, and for one resource more than a site may have.
    pub async fn create_resource(
        &self,
        actor: &Actor,
        name: &ResourceName,
        kind: ResourceKind,
    ) -> Result<(Resource, bool), CatalogError> {
        let store = std::future::ready(Ok(()));
        self.make_resource(actor, Made { name, kind, content: None }, store).await
    }

    /// Makes an asset of bytes that `store` puts into the blob store. Else as [`Self::create_resource`]; the same again stores
    /// nothing.
    ///
    /// # Errors
    /// Also [`CatalogError::Conflict`] when the name is an asset's of other bytes; and what `store` says.
    pub async fn create_asset<E: From<CatalogError>>(
        &self,
        actor: &Actor,
        name: &ResourceName,
        content: AssetContent,
        store: impl Future<Output = Result<(), E>>,
    ) -> Result<(Resource, bool), E> {
        let made = Made { name, kind: ResourceKind::Asset, content: Some(content) };
        self.make_resource(actor, made, store).await
    }

    async fn make_resource<E: From<CatalogError>>(
        &self,
        actor: &Actor,
        made: Made<'_>,
        store: impl Future<Output = Result<(), E>>,
    ) -> Result<(Resource, bool), E> {
        let mut tx = self.begin().await?;
        count_alone(&mut tx, COUNTING_LOCKS, "").await?;
        if let Some(known) = known(&mut tx, &made).await? {
            return Ok((known, false));
        }
        let row = insert(&mut tx, actor, &made).await?;
        if made.content.is_some() {
            // Whoever removes blobs must not come between the look at this one and its row.
            collecting::hold(&mut tx).await?;
        }
        store.await?;
        tx.commit().await.map_err(CatalogError::from)?;
        Ok((row, true))
    }

    /// Whether an asset of the site has these bytes: then nodes may fetch them.
    pub async fn asset(&self, digest: &Digest) -> Result<Option<AssetContent>, CatalogError> {
        let row = sqlx::query("SELECT digest, bytes FROM resources WHERE digest = $1 LIMIT 1")
            .bind(digest.to_string())
            .fetch_optional(&self.pool)
            .await?;
        Ok(row.as_ref().map(content).transpose()?.flatten())
    }

    /// The resources of the site by name, behind `after`, each with its first `grants` grants by tenant.
    pub async fn resources(
        &self,
        after: Option<&ResourceName>,
        limit: u32,
        grants: u32,
    ) -> Result<Vec<(Resource, Vec<ResourceGrant>)>, CatalogError> {
        // The limit is a question, so that the planner counts on few rows and takes them from the index in order. Where most
        // resources have fewer grants than are wanted, it would else read and sort all that each has.
        let rows = sqlx::query(
            "SELECT r.name AS resource, r.kind, r.digest, r.bytes, r.created_at, r.created_by,
                    g.tenant, g.access, g.granted_at, g.granted_by
             FROM (SELECT name, kind, digest, bytes, created_at, created_by FROM resources
                   WHERE $1::text IS NULL OR name > $1 ORDER BY name LIMIT $2) r
             LEFT JOIN LATERAL (
                 SELECT tenant, access, granted_at, granted_by FROM resource_grants
                 WHERE resource = r.name ORDER BY tenant LIMIT (SELECT $3::bigint)) g ON true
             ORDER BY r.name, g.tenant",
        )
        .bind(after.map(ResourceName::as_str))
        .bind(i64::from(limit))
        .bind(i64::from(grants))
        .fetch_all(&self.pool)
        .await?;
        Ok(with_grants(&rows)?)
    }

    /// One resource with its grants by tenant, behind `after`.
    ///
    /// # Errors
    /// [`CatalogError::NotFound`] when there is no such resource.
    pub async fn resource(
        &self,
        name: &ResourceName,
        after: Option<&TenantName>,
        limit: u32,
    ) -> Result<(Resource, Vec<ResourceGrant>), CatalogError> {
        let found = sqlx::query(
            "SELECT name AS resource, kind, digest, bytes, created_at, created_by FROM resources WHERE name = $1",
        )
        .bind(name.as_str())
        .fetch_optional(&self.pool)
        .await?
        .ok_or(CatalogError::NotFound { what: "resource" })?;
        let rows = sqlx::query(
            "SELECT resource, tenant, access, granted_at, granted_by FROM resource_grants
             WHERE resource = $1 AND ($2::text IS NULL OR tenant > $2) ORDER BY tenant LIMIT $3",
        )
        .bind(name.as_str())
        .bind(after.map(TenantName::as_str))
        .bind(i64::from(limit))
        .fetch_all(&self.pool)
        .await?;
        Ok((resource(&found)?, rows.iter().map(grant).collect::<Result<_, _>>()?))
    }

    /// What a tenant was granted, by the resources' names, behind `after`.
    pub async fn resources_of_tenant(
        &self,
        tenant: &TenantName,
        after: Option<&ResourceName>,
        limit: u32,
    ) -> Result<Vec<(Resource, ResourceGrant)>, CatalogError> {
        let rows = sqlx::query(
            "SELECT g.resource, r.kind, r.digest, r.bytes, r.created_at, r.created_by, g.tenant, g.access, g.granted_at, g.granted_by
             FROM resource_grants g JOIN resources r ON r.name = g.resource
             WHERE g.tenant = $1 AND ($2::text IS NULL OR g.resource > $2) ORDER BY g.resource LIMIT $3",
        )
        .bind(tenant.as_str())
        .bind(after.map(ResourceName::as_str))
        .bind(i64::from(limit))
        .fetch_all(&self.pool)
        .await?;
        Ok(rows.iter().map(|row| Ok((resource(row)?, grant(row)?))).collect::<Decoded<_>>()?)
    }

    /// Says what a tenant may do with a resource, with its audit record: nodes hear of it by the next serving set. Saying the
    /// same again changes nothing.
    ///
    /// # Errors
    /// [`CatalogError::NotFound`] when there is no such resource or tenant, [`CatalogError::Conflict`] for one resource more
    /// than a tenant may be granted.
    pub async fn grant_resource(
        &self,
        actor: &Actor,
        name: &ResourceName,
        tenant: &TenantName,
        access: DataAccess,
    ) -> Result<ResourceGrant, CatalogError> {
        let mut tx = self.begin().await?;
        count_alone(&mut tx, COUNTING_LOCKS, tenant.as_str()).await?;
        let before = sqlx::query(
            "SELECT resource, tenant, access, granted_at, granted_by FROM resource_grants
             WHERE resource = $1 AND tenant = $2",
        )
        .bind(name.as_str())
        .bind(tenant.as_str())
        .fetch_optional(&mut *tx)
        .await?;
        let before = before.as_ref().map(grant).transpose()?;
        match &before {
            Some(before) if before.access == access => return Ok(before.clone()),
            Some(_) => {}
            None => demand_room(&mut tx, tenant).await?,
        }
        let row = sqlx::query(
            "INSERT INTO resource_grants (resource, tenant, access, granted_by) VALUES ($1, $2, $3, $4)
             ON CONFLICT ON CONSTRAINT resource_grants_pkey
             DO UPDATE SET access = $3, granted_at = now(), granted_by = $4
             RETURNING resource, tenant, access, granted_at, granted_by",
        )
        .bind(name.as_str())
        .bind(tenant.as_str())
        .bind(access.as_str())
        .bind(actor.as_str())
        .fetch_one(&mut *tx)
        .await?;
        let detail = serde_json::json!({"access": access, "before": before.map(|before| before.access)});
        let (tenant, subject) = (tenant.as_str(), name.as_str());
        audit::append(&mut tx, Entry { actor, action: "resource.granted", tenant, subject, detail }).await?;
        tx.commit().await?;
        Ok(grant(&row)?)
    }

    /// Revokes a grant, with its audit record: what the tenant's functions bind of the resource, they do not reach any more.
    ///
    /// # Errors
    /// [`CatalogError::NotFound`] when there is no such grant.
    pub async fn revoke_resource(
        &self,
        actor: &Actor,
        name: &ResourceName,
        tenant: &TenantName,
    ) -> Result<ResourceGrant, CatalogError> {
        let mut tx = self.begin().await?;
        let row = sqlx::query(
            "DELETE FROM resource_grants WHERE resource = $1 AND tenant = $2
             RETURNING resource, tenant, access, granted_at, granted_by",
        )
        .bind(name.as_str())
        .bind(tenant.as_str())
        .fetch_optional(&mut *tx)
        .await?
        .ok_or(CatalogError::NotFound { what: "grant of this resource to this tenant" })?;
        let revoked = grant(&row)?;
        let detail = serde_json::json!({"access": revoked.access});
        let (tenant, subject) = (tenant.as_str(), name.as_str());
        audit::append(&mut tx, Entry { actor, action: "resource.revoked", tenant, subject, detail }).await?;
        tx.commit().await?;
        Ok(revoked)
    }
}

/// A resource to be made.
struct Made<'a> {
    name: &'a ResourceName,
    kind: ResourceKind,
    content: Option<AssetContent>,
}

/// The resource of that name, if it is there and the same.
async fn known(connection: &mut PgConnection, made: &Made<'_>) -> Result<Option<Resource>, CatalogError> {
    let row = sqlx::query(
        "SELECT name AS resource, kind, digest, bytes, created_at, created_by FROM resources WHERE name = $1",
    )
    .bind(made.name.as_str())
    .fetch_optional(connection)
    .await?;
    let Some(row) = row else { return Ok(None) };
    // It may be one that a later release knows.
    let kind: String = row.try_get("kind")?;
    let what = if kind == made.kind.as_str() {
        let known = resource(&row)?;
        if known.content == made.content {
            return Ok(Some(known));
        }
        "has other bytes, which never change".to_owned()
    } else {
        format!("is of the kind {kind}")
    };
    Err(CatalogError::Conflict {
        reason: format!("the resource `{}` is there already and {what}", made.name),
    })
}

/// Writes the row of a resource, with its audit record.
async fn insert(
    connection: &mut PgConnection,
    actor: &Actor,
    made: &Made<'_>,
) -> Result<Resource, CatalogError> {
    let others: i64 =
        sqlx::query_scalar("SELECT count(*) FROM resources").fetch_one(&mut *connection).await?;
    if others >= SITE_RESOURCES_MAX {
        let reason = format!("a site has at most {SITE_RESOURCES_MAX} resources");
        return Err(CatalogError::Conflict { reason });
    }
    let row = sqlx::query(
        "INSERT INTO resources (name, kind, digest, bytes, created_by) VALUES ($1, $2, $3, $4, $5)
         RETURNING name AS resource, kind, digest, bytes, created_at, created_by",
    )
    .bind(made.name.as_str())
    .bind(made.kind.as_str())
    .bind(made.content.map(|content| content.digest.to_string()))
    .bind(made.content.map(|content| int8(content.bytes)))
    .bind(actor.as_str())
    .fetch_one(&mut *connection)
    .await?;
    let mut detail = serde_json::json!({"kind": made.kind});
    if let Some(content) = made.content {
        detail["digest"] = content.digest.to_string().into();
        detail["bytes"] = content.bytes.into();
    }
    let subject = made.name.as_str();
    audit::append(connection, Entry { actor, action: "resource.created", tenant: "", subject, detail })
        .await?;
    Ok(resource(&row)?)
}

/// Refuses a further grant of a tenant that has as many as it may.
async fn demand_room(connection: &mut PgConnection, tenant: &TenantName) -> Result<(), CatalogError> {
    let others: i64 = sqlx::query_scalar("SELECT count(*) FROM resource_grants WHERE tenant = $1")
        .bind(tenant.as_str())
        .fetch_one(connection)
        .await?;
    if others < TENANT_GRANTS_MAX {
        return Ok(());
    }
    let reason = format!("a tenant is granted at most {TENANT_GRANTS_MAX} resources; revoke one first");
    Err(CatalogError::Conflict { reason })
}

/// Rows of one resource follow each other; one without a tenant is of a resource without grants.
fn with_grants(rows: &[PgRow]) -> Decoded<Vec<(Resource, Vec<ResourceGrant>)>> {
    let mut found: Vec<(Resource, Vec<ResourceGrant>)> = Vec::new();
    for row in rows {
        let of = resource(row)?;
        if found.last().is_none_or(|(last, _)| last.name != of.name) {
            found.push((of, Vec::new()));
        }
        if let (Some((_, grants)), Some(_)) = (found.last_mut(), row.try_get::<Option<String>, _>("tenant")?)
        {
            grants.push(grant(row)?);
        }
    }
    Ok(found)
}

fn resource(row: &PgRow) -> Decoded<Resource> {
    Ok(Resource {
        name: parsed(row, "resource")?,
        kind: parsed(row, "kind")?,
        content: content(row)?,
        created_at: row.try_get("created_at")?,
        created_by: row.try_get("created_by")?,
    })
}

fn content(row: &PgRow) -> Decoded<Option<AssetContent>> {
    let bytes: Option<i64> = row.try_get("bytes")?;
    let content = |_| Ok(AssetContent { digest: parsed(row, "digest")?, bytes: unsigned(row, "bytes")? });
    bytes.map(content).transpose()
}

fn grant(row: &PgRow) -> Decoded<ResourceGrant> {
    Ok(ResourceGrant {
        resource: parsed(row, "resource")?,
        tenant: parsed(row, "tenant")?,
        access: parsed(row, "access")?,
        granted_at: row.try_get("granted_at")?,
        granted_by: row.try_get("granted_by")?,
    })
}
