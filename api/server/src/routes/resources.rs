//! Resources over REST: data of the site that functions bind, and which tenants may.

use axum::body::Body;
use axum::extract::State;
use axum::response::{IntoResponse as _, Response};
use http::{HeaderMap, StatusCode};
use mfaas_ident::{ASSET_BYTES_MAX, AssetContent, Digest, ResourceKind, ResourceName, TenantName};
use mfaas_rules::codes;
use mfaas_wire::schema;
use mfaas_wire::{CreateResource, GrantResource, Page, Problem, Removed, ResourceGrantView, ResourceView};
use serde::Deserialize;

use super::incoming::{publish, receive};
use super::paging::{page, rows};
use crate::caller::Sight;
use crate::extract::{Json, Path, Query};
use crate::limits;
use crate::refusal::Refusal;
use crate::responses::resources::{grant_view, granted_view, resource_view};
use crate::state::App;

/// What part of the list is wanted.
#[derive(Debug, Deserialize)]
pub(super) struct ListQuery {
    after: Option<ResourceName>,
    limit: Option<u32>,
}

/// Resources by name: those that the caller's tenant was granted, for scope `operate` all, each with its first grants.
#[utoipa::path(
    get, path = "/v1/resources", tag = "operation", operation_id = "list_resources",
    params(
        ("after" = inline(Option<schema::ResourceName>), Query, description = "`next` of the page before"),
        ("limit" = inline(Option<schema::PageRows>), Query, description = "How many rows at most"),
        ("tenant" = inline(Option<schema::TenantName>), Query, description = "What one tenant was granted; for scope `operate` all when absent, for others their own"),
    ),
    responses((status = 200, body = Page<ResourceView>))
)]
pub(super) async fn list(
    State(app): State<App>,
    sight: Sight,
    Query(query): Query<ListQuery>,
) -> Result<axum::Json<Page<ResourceView>>, Refusal> {
    let limit = rows(query.limit)?;
    let after = query.after.as_ref();
    let views: Vec<ResourceView> = match &sight.tenant {
        Some(tenant) => {
            let found = app.catalog.resources_of_tenant(tenant, after, limit + 1).await?;
            found.into_iter().map(granted_view).collect()
        }
        None => {
            let grants = limits::RESOURCE_GRANTS_SHOWN_MAX + 1;
            let found = app.catalog.resources(after, limit + 1, grants).await?;
            found.into_iter().map(|(row, grants)| resource_view(row, grants)).collect()
        }
    };
    Ok(axum::Json(page(views, limit, |view: &ResourceView| view.name.to_string())))
}

/// Makes a resource. The same again changes nothing.
#[utoipa::path(
    post, path = "/v1/resources", tag = "operation", operation_id = "create_resource",
    request_body = CreateResource,
    responses(
        (status = 200, description = "It was there already", body = ResourceView),
        (status = 201, body = ResourceView),
    )
)]
pub(super) async fn create(
    State(app): State<App>,
    sight: Sight,
    Json(body): Json<CreateResource>,
) -> Result<Response, Refusal> {
    demand_no_asset(body.kind)?;
    let (row, is_new) = app.catalog.create_resource(&sight.actor(), &body.name, body.kind).await?;
    let status = if is_new { StatusCode::CREATED } else { StatusCode::OK };
    Ok((status, axum::Json(resource_view(row, Vec::new()))).into_response())
}

/// Refuses to make an asset without bytes.
pub(crate) fn demand_no_asset(kind: ResourceKind) -> Result<(), Refusal> {
    match kind {
        ResourceKind::Asset => Err(Refusal::new(codes::MF1221, "An asset comes with its bytes.")),
        ResourceKind::Kv
        | ResourceKind::Cache
        | ResourceKind::Object
        | ResourceKind::Volume
        | ResourceKind::Http
        | ResourceKind::Secret => Ok(()),
    }
}

/// What the bytes of an asset have to be.
#[derive(Debug, Deserialize)]
pub(super) struct AssetQuery {
    digest: Digest,
}

/// Makes an asset of the body, which never changes. The same again changes nothing.
#[utoipa::path(
    put, path = "/v1/resources/{name}/asset", tag = "operation", operation_id = "create_asset",
    params(
        ("name" = inline(schema::ResourceName), Path, description = "Its name, which is never used for anything else"),
        ("digest" = inline(schema::Digest), Query, description = "SHA-256 of the body"),
    ),
    request_body(content = inline(schema::Binary), content_type = "application/octet-stream", description = "At most 254 MiB"),
    responses(
        (status = 200, description = "It was there already", body = ResourceView),
        (status = 201, body = ResourceView),
        (status = 409, description = "The name has other bytes, or is a resource's of another kind (MF0908)", body = Problem, content_type = "application/problem+json"),
        (status = 422, description = "It is empty or too large, or is not what the digest says (MF1221)", body = Problem, content_type = "application/problem+json"),
    )
)]
pub(super) async fn create_asset(
    State(app): State<App>,
    sight: Sight,
    Path(name): Path<ResourceName>,
    Query(query): Query<AssetQuery>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Refusal> {
    let incoming = receive(&app, &headers, body, (ASSET_BYTES_MAX, too_large)).await?;
    let content = AssetContent { digest: incoming.digest(), bytes: incoming.bytes() };
    let made = if content.digest == query.digest {
        app.catalog.create_asset(&sight.actor(), &name, content, publish(&app, &incoming)).await
    } else {
        Err(Refusal::new(codes::MF1221, format!("What arrived has the SHA-256 {}.", content.digest)))
    };
    if !matches!(made, Ok((_, true)))
        && let Err(error) = app.blobs.discard(&incoming).await
    {
        tracing::warn!(%error, "an asset that was not made is left to the sweep");
    }
    let (row, is_new) = made?;
    let status = if is_new { StatusCode::CREATED } else { StatusCode::OK };
    Ok((status, axum::Json(resource_view(row, Vec::new()))).into_response())
}

fn too_large() -> Refusal {
    Refusal::new(codes::MF1221, format!("The asset is larger than {ASSET_BYTES_MAX} bytes."))
}

/// What part of the list is wanted.
#[derive(Debug, Deserialize)]
pub(super) struct GrantsQuery {
    after: Option<TenantName>,
    limit: Option<u32>,
}

/// The grants of a resource, by tenant.
#[utoipa::path(
    get, path = "/v1/resources/{name}/grants", tag = "operation", operation_id = "list_resource_grants",
    params(
        ("name" = inline(schema::ResourceName), Path, description = "The resource"),
        ("after" = inline(Option<schema::TenantName>), Query, description = "`next` of the page before"),
        ("limit" = inline(Option<schema::PageRows>), Query, description = "How many rows at most"),
    ),
    responses((status = 200, body = Page<ResourceGrantView>))
)]
pub(super) async fn grants(
    State(app): State<App>,
    _sight: Sight,
    Path(name): Path<ResourceName>,
    Query(query): Query<GrantsQuery>,
) -> Result<axum::Json<Page<ResourceGrantView>>, Refusal> {
    let limit = rows(query.limit)?;
    let (_, found) = app.catalog.resource(&name, query.after.as_ref(), limit + 1).await?;
    let views = found.into_iter().map(grant_view).collect();
    Ok(axum::Json(page(views, limit, |view: &ResourceGrantView| view.tenant.to_string())))
}

/// Says what a tenant's functions may do with a resource. Nodes know as soon as they have the next serving set.
#[utoipa::path(
    put, path = "/v1/resources/{name}/grants/{tenant}", tag = "operation", operation_id = "grant_resource",
    params(("name" = inline(schema::ResourceName), Path, description = "The resource"), ("tenant" = inline(schema::TenantName), Path, description = "The tenant")),
    request_body = GrantResource,
    responses((status = 200, body = ResourceGrantView))
)]
pub(super) async fn grant(
    State(app): State<App>,
    sight: Sight,
    Path((name, tenant)): Path<(ResourceName, TenantName)>,
    Json(body): Json<GrantResource>,
) -> Result<axum::Json<ResourceGrantView>, Refusal> {
    let granted = app.catalog.grant_resource(&sight.actor(), &name, &tenant, body.access).await?;
    Ok(axum::Json(grant_view(granted)))
}

/// Revokes a grant: the tenant's functions reach nothing of the resource as soon as nodes have the next serving set.
#[utoipa::path(
    delete, path = "/v1/resources/{name}/grants/{tenant}", tag = "operation", operation_id = "revoke_resource",
    params(("name" = inline(schema::ResourceName), Path, description = "The resource"), ("tenant" = inline(schema::TenantName), Path, description = "The tenant")),
    responses((status = 200, body = Removed))
)]
pub(super) async fn revoke(
    State(app): State<App>,
    sight: Sight,
    Path((name, tenant)): Path<(ResourceName, TenantName)>,
) -> Result<axum::Json<Removed>, Refusal> {
    app.catalog.revoke_resource(&sight.actor(), &name, &tenant).await?;
    Ok(axum::Json(Removed { removed: format!("grant of {name} to {tenant}") }))
}
