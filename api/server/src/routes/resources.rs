//! Resources over REST: data of the site that functions bind, and which tenants may.

use axum::extract::State;
use axum::response::{IntoResponse as _, Response};
use http::StatusCode;
use mfaas_ident::{ResourceName, TenantName};
use mfaas_wire::schema;
use mfaas_wire::{CreateResource, GrantResource, Page, Removed, ResourceGrantView, ResourceView};
use serde::Deserialize;

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
    let (row, is_new) = app.catalog.create_resource(&sight.actor(), &body.name, body.kind).await?;
    let status = if is_new { StatusCode::CREATED } else { StatusCode::OK };
    Ok((status, axum::Json(resource_view(row, Vec::new()))).into_response())
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
