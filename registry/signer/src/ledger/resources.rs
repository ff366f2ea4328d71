//! The statements about data: what a tenant was granted, and what versions bind.

use std::collections::BTreeMap;

use mfaas_attest::{Admission, RESOURCES_MAX, ServedFunction};
use mfaas_ident::{
    AssetContent, DataAccess, FunctionName, ResourceKind, ResourceName, TenantName, VersionNumber,
};
use postgres::{Row, Transaction};

use super::{readable, text};

/// A resource that a tenant may bind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct GrantedResource {
    pub(crate) kind: ResourceKind,
    pub(crate) access: DataAccess,
    /// Of an asset, which never changes.
    pub(crate) content: Option<AssetContent>,
}

/// What a tenant may bind.
pub(crate) type GrantedResources = BTreeMap<ResourceName, GrantedResource>;

/// What the tenant was granted of the resources with these names.
pub(crate) fn granted(
    tx: &mut Transaction<'_>,
    tenant: &TenantName,
    names: &[&str],
) -> anyhow::Result<GrantedResources> {
    let rows = tx.query(
        "SELECT g.resource, r.kind, g.access, r.digest, r.bytes FROM resource_grants g JOIN resources r ON r.name = g.resource
         WHERE g.tenant = $1 AND g.resource = ANY($2)",
        &[&tenant.as_str(), &names],
    )?;
    let granted = |row: &Row| {
        let content = row.try_get::<_, Option<i64>>("bytes")?.map(|bytes| {
            anyhow::Ok(AssetContent { digest: text(row, "digest")?, bytes: u64::try_from(bytes)? })
        });
        let (kind, access) = (text(row, "kind")?, text(row, "access")?);
        let granted = GrantedResource { kind, access, content: content.transpose()? };
        Ok((text(row, "resource")?, granted))
    };
    Ok(rows.iter().filter_map(|row| readable("a granted resource", granted(row))).collect())
}

/// Which resources the version binds: how a change of grants finds its function.
pub(crate) fn record_bindings(tx: &mut Transaction<'_>, admission: &Admission) -> anyhow::Result<()> {
    let version = i32::try_from(admission.version.get())?;
    for (name, binding) in admission.bound() {
        let Some(binding) = binding.resource() else { continue };
        tx.execute(
            "INSERT INTO version_bindings (tenant, function, version, name, kind, resource, access)
             VALUES ($1, $2, $3, $4, $5, $6, $7)",
            &[
                &admission.tenant.as_str(),
                &admission.function.as_str(),
                &version,
                &name.as_str(),
                &binding.kind.as_str(),
                &binding.resource.as_str(),
                &binding.access.as_str(),
            ],
        )?;
    }
    Ok(())
}

/// Says of each function what its tenant was granted of what its versions bind: those that an alias names first, then the newest,
/// as far as a function can name them.
pub(super) fn add_granted(
    tx: &mut Transaction<'_>,
    served: &mut BTreeMap<(TenantName, FunctionName), ServedFunction>,
) -> anyhow::Result<()> {
    let (mut tenants, mut functions, mut versions) = (Vec::new(), Vec::new(), Vec::new());
    for ((tenant, name), function) in served.iter() {
        for version in &function.versions {
            tenants.push(tenant.as_str());
            functions.push(name.as_str());
            versions.push(i32::try_from(version.version.get())?);
        }
    }
    let rows = tx.query(
        "SELECT wanted.tenant, wanted.name AS function, wanted.version, b.resource, g.access
         FROM unnest($1::text[], $2::text[], $3::integer[]) AS wanted (tenant, name, version)
         JOIN version_bindings b ON b.tenant = wanted.tenant AND b.function = wanted.name AND b.version = wanted.version
         JOIN resource_grants g ON g.resource = b.resource AND g.tenant = b.tenant
         ORDER BY wanted.version DESC, b.resource",
        &[&tenants, &functions, &versions],
    )?;
    let mut granted = Vec::new();
    for row in &rows {
        let one = || {
            let version = VersionNumber::new(u32::try_from(row.try_get::<_, i32>("version")?)?)?;
            let name: (TenantName, FunctionName) = (text(row, "tenant")?, text(row, "function")?);
            anyhow::Ok((name, version, text(row, "resource")?, text(row, "access")?))
        };
        granted.extend(readable("a granted resource", one()));
    }
    let is_aliased = |(name, version): (&(TenantName, FunctionName), &VersionNumber)| {
        served.get(name).is_some_and(|function| function.aliases.values().any(|aliased| aliased == version))
    };
    granted.sort_by_cached_key(|(name, version, ..)| !is_aliased((name, version)));
    for (name, _, resource, access) in granted {
        let Some(function) = served.get_mut(&name) else { continue };
        if function.resources.len() < RESOURCES_MAX {
            function.resources.insert(resource, access);
        }
    }
    Ok(())
}
