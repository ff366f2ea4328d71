//! Resources as people see them: operators who made and granted them, tenants what they may bind.

use mfaas_catalog::{Resource, ResourceGrant};
use mfaas_ident::sanitise_line;
use mfaas_wire::{ResourceGrantView, ResourceView};

use crate::limits;

/// The longest name of who made or granted something, in bytes.
const ACTOR_BYTES_MAX: usize = 200;

/// A resource with grants, of which one more was read than is shown.
pub(crate) fn resource_view(row: Resource, grants: Vec<ResourceGrant>) -> ResourceView {
    let shown = limits::RESOURCE_GRANTS_SHOWN_MAX as usize;
    ResourceView {
        name: row.name,
        kind: row.kind,
        content: row.content.map(Into::into),
        created_at: row.created_at,
        created_by: Some(sanitise_line(&row.created_by, ACTOR_BYTES_MAX)),
        access: None,
        truncated: grants.len() > shown,
        grants: grants.into_iter().take(shown).map(grant_view).collect(),
    }
}

/// A resource as a tenant sees it that was granted it: who else was is no matter of theirs.
pub(crate) fn granted_view((row, grant): (Resource, ResourceGrant)) -> ResourceView {
    ResourceView { created_by: None, access: Some(grant.access), ..resource_view(row, Vec::new()) }
}

/// A grant.
pub(crate) fn grant_view(row: ResourceGrant) -> ResourceGrantView {
    ResourceGrantView {
        tenant: row.tenant,
        access: row.access,
        granted_at: row.granted_at,
        granted_by: sanitise_line(&row.granted_by, ACTOR_BYTES_MAX),
    }
}
