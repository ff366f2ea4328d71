//! Resources: data of the site that functions bind, and which tenants may.

use chrono::{DateTime, Utc};
use mfaas_ident::{
    Access, AssetContent, Binding, Bindings, Callers, DataAccess, Digest, ResourceKind, ResourceName,
    TenantName,
};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::schema;

/// Body of the request that makes a resource.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CreateResource {
    /// Its name, which is never used for anything else.
    #[schema(value_type = schema::ResourceName)]
    pub name: ResourceName,
    /// What it is.
    #[schema(value_type = schema::ResourceKind)]
    pub kind: ResourceKind,
}

/// Body of the request that grants a resource to a tenant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct GrantResource {
    /// What the tenant's functions may do with it; `write` includes `read`.
    #[schema(value_type = schema::DataAccess)]
    pub access: DataAccess,
}

/// The bytes of an asset, which never change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AssetContentView {
    /// Their SHA-256.
    #[schema(value_type = schema::Digest)]
    pub digest: Digest,
    /// How many.
    pub bytes: u64,
}

impl From<AssetContent> for AssetContentView {
    fn from(content: AssetContent) -> Self {
        Self { digest: content.digest, bytes: content.bytes }
    }
}

/// Data of the site, by name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ResourceView {
    /// What functions bind it by.
    #[schema(value_type = schema::ResourceName)]
    pub name: ResourceName,
    /// What it is.
    #[schema(value_type = schema::ResourceKind)]
    pub kind: ResourceKind,
    /// The bytes of an asset.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content: Option<AssetContentView>,
    /// When it was made.
    pub created_at: DateTime<Utc>,
    /// Who made it, as the audit log names them; for operators.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created_by: Option<String>,
    /// What the one tenant that the list is about may do with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<schema::DataAccess>)]
    pub access: Option<DataAccess>,
    /// The tenants that may bind it, by name; in an operator's list of all resources.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub grants: Vec<ResourceGrantView>,
    /// Whether there are more grants than stand here.
    #[serde(default)]
    pub truncated: bool,
}

/// That a tenant may bind a resource.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ResourceGrantView {
    /// The tenant.
    #[schema(value_type = schema::TenantName)]
    pub tenant: TenantName,
    /// What its functions may do with the resource; `write` includes `read`.
    #[schema(value_type = schema::DataAccess)]
    pub access: DataAccess,
    /// Since when.
    pub granted_at: DateTime<Utc>,
    /// Who said so, as the audit log names them.
    pub granted_by: String,
}

/// Who may call a function, on one line, for example `tenant, functions of bank and shop`.
pub fn callers_text(access: Access, callers: &Callers) -> String {
    let names: Vec<_> = callers.iter().map(TenantName::as_str).collect();
    match names.as_slice() {
        [] => access.to_string(),
        [one] => format!("{access}, functions of {one}"),
        [others @ .., last] => format!("{access}, functions of {} and {last}", others.join(", ")),
    }
}

/// Bindings on one line, for example `links (read kv short-links), rank (call rank-eu)`; `-` for none.
pub fn bindings_text(bindings: &Bindings) -> String {
    let texts: Vec<_> = bindings
        .iter()
        .map(|(name, bound)| match bound {
            Binding::Resource(bound) => {
                format!("{name} ({} {} {})", bound.access, bound.kind, bound.resource)
            }
            Binding::Function(bound) => format!("{name} (call {})", bound.function),
        })
        .collect();
    if texts.is_empty() { "-".to_owned() } else { texts.join(", ") }
}
