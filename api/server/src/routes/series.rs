//! Charts as numbers: of the caller's tenant, and of everybody, nodes and builds for those who operate the site.

use axum::extract::State;
use mfaas_ident::FunctionName;
use mfaas_wire::schema;
use mfaas_wire::{BuildSeriesView, FunctionSeriesView, NodeSeriesView, TenantSeriesView};

use crate::caller::Sight;
use crate::extract::{Path, Query};
use crate::refusal::Refusal;
use crate::responses::series::{self, SeriesParameters};
use crate::state::App;

/// Calls and run times of a function over time, in steps of a minute, a quarter of an hour or six hours: the finest
/// that cover the time and are still kept (160 of each).
#[utoipa::path(
    get, path = "/v1/functions/{name}/series", tag = "operation", operation_id = "function_series",
    params(
        ("name" = inline(schema::FunctionName), Path, description = "The function"),
        ("version" = inline(Option<schema::VersionNumber>), Query, description = "One version; all together when absent"),
        ("since" = inline(Option<schema::Moment>), Query, description = "RFC 3339, or how long ago (`90m`, `24h`, `30d`), at most 37 days; 1h by default"),
        ("until" = inline(Option<schema::Moment>), Query, description = "The same; now by default"),
        ("tenant" = inline(Option<schema::TenantName>), Query, description = "Whose function; others than the token's own need scope `operate`"),
    ),
    responses((status = 200, body = FunctionSeriesView))
)]
pub(super) async fn function(
    State(app): State<App>,
    sight: Sight,
    Path(name): Path<FunctionName>,
    Query(parameters): Query<SeriesParameters>,
) -> Result<axum::Json<FunctionSeriesView>, Refusal> {
    let tenant = sight.tenant.as_ref().unwrap_or(&sight.token.tenant);
    Ok(axum::Json(series::function_series(&app.catalog, tenant, &name, &parameters).await?))
}

/// CPU time and memory of tenants over time.
#[utoipa::path(
    get, path = "/v1/series/tenants", tag = "operation", operation_id = "tenant_series",
    params(
        ("since" = inline(Option<schema::Moment>), Query, description = "RFC 3339, or how long ago (`90m`, `24h`, `30d`), at most 37 days; 1h by default"),
        ("until" = inline(Option<schema::Moment>), Query, description = "The same; now by default"),
        ("tenant" = inline(Option<schema::TenantName>), Query, description = "One tenant; for scope `operate` all when absent, for others their own"),
    ),
    responses((status = 200, body = TenantSeriesView))
)]
pub(super) async fn tenants(
    State(app): State<App>,
    sight: Sight,
    Query(parameters): Query<SeriesParameters>,
) -> Result<axum::Json<TenantSeriesView>, Refusal> {
    Ok(axum::Json(series::tenant_series(&app.catalog, sight.tenant.as_ref(), &parameters).await?))
}

/// Builds of all tenants over time: how long they were queued, and how long they took.
#[utoipa::path(
    get, path = "/v1/series/builds", tag = "operation", operation_id = "build_series",
    params(
        ("since" = inline(Option<schema::Moment>), Query, description = "RFC 3339, or how long ago (`90m`, `24h`, `30d`), at most 37 days; 1h by default"),
        ("until" = inline(Option<schema::Moment>), Query, description = "The same; now by default"),
    ),
    responses((status = 200, body = BuildSeriesView))
)]
pub(super) async fn builds(
    State(app): State<App>,
    _sight: Sight,
    Query(parameters): Query<SeriesParameters>,
) -> Result<axum::Json<BuildSeriesView>, Refusal> {
    Ok(axum::Json(series::build_series(&app.catalog, &parameters).await?))
}

/// Load and worker pools of each node over time.
#[utoipa::path(
    get, path = "/v1/series/nodes", tag = "operation", operation_id = "node_series",
    params(
        ("since" = inline(Option<schema::Moment>), Query, description = "RFC 3339, or how long ago (`90m`, `24h`, `30d`), at most 37 days; 1h by default"),
        ("until" = inline(Option<schema::Moment>), Query, description = "The same; now by default"),
    ),
    responses((status = 200, body = NodeSeriesView))
)]
pub(super) async fn nodes(
    State(app): State<App>,
    _sight: Sight,
    Query(parameters): Query<SeriesParameters>,
) -> Result<axum::Json<NodeSeriesView>, Refusal> {
    Ok(axum::Json(series::node_series(&app.catalog, &parameters).await?))
}
