//! Functions, their versions, their aliases, their logs.

use axum::extract::State;
use mfaas_ident::{AliasName, FunctionName, VersionNumber};
use mfaas_wire::schema;
use mfaas_wire::{AliasView, FunctionView, LogLine, MoveAlias, Page, Problem, Removed, VersionView};
use serde::Deserialize;

use super::paging::{cursor, page, rows};
use crate::caller::Caller;
use crate::extract::{Json, Path, Query};
use crate::refusal::Refusal;
use crate::responses;
use crate::state::App;

/// What part of the list is wanted.
#[derive(Debug, Deserialize)]
pub(super) struct ListQuery {
    after: Option<FunctionName>,
    limit: Option<u32>,
}

/// The tenant's functions by name.
#[utoipa::path(
    get, path = "/v1/functions", tag = "functions", operation_id = "list_functions",
    params(
        ("after" = inline(Option<schema::FunctionName>), Query, description = "`next` of the page before"),
        ("limit" = inline(Option<schema::PageRows>), Query, description = "How many rows at most"),
        ("tenant" = inline(Option<schema::TenantName>), Query, description = "Another tenant, for scope `admin`; on every route"),
    ),
    responses((status = 200, body = Page<FunctionView>))
)]
pub(super) async fn list(
    State(app): State<App>,
    caller: Caller,
    Query(query): Query<ListQuery>,
) -> Result<axum::Json<Page<FunctionView>>, Refusal> {
    let limit = rows(query.limit)?;
    let found = app.catalog.functions(&caller.tenant, query.after.as_ref(), limit + 1).await?;
    let views = found.into_iter().map(responses::function).collect();
    Ok(axum::Json(page(views, limit, |view: &FunctionView| view.name.to_string())))
}

/// One function.
#[utoipa::path(
    get, path = "/v1/functions/{name}", tag = "functions", operation_id = "show_function",
    params(("name" = inline(schema::FunctionName), Path, description = "The function")),
    responses((status = 200, body = FunctionView))
)]
pub(super) async fn show(
    State(app): State<App>,
    caller: Caller,
    Path(name): Path<FunctionName>,
) -> Result<axum::Json<FunctionView>, Refusal> {
    Ok(axum::Json(responses::function(app.catalog.function(&caller.tenant, &name).await?)))
}

/// Deletes a function: nodes stop serving it, its record stays.
#[utoipa::path(
    delete, path = "/v1/functions/{name}", tag = "functions", operation_id = "delete_function",
    params(("name" = inline(schema::FunctionName), Path, description = "The function")),
    responses((status = 200, body = Removed))
)]
pub(super) async fn delete(
    State(app): State<App>,
    caller: Caller,
    Path(name): Path<FunctionName>,
) -> Result<axum::Json<Removed>, Refusal> {
    app.catalog.delete_function(&caller.actor(), &caller.tenant, &name).await?;
    Ok(axum::Json(Removed { removed: format!("function {name}") }))
}

/// What part of the list is wanted.
#[derive(Debug, Deserialize)]
pub(super) struct VersionsQuery {
    after: Option<VersionNumber>,
    limit: Option<u32>,
}

/// The versions of a function, newest first.
#[utoipa::path(
    get, path = "/v1/functions/{name}/versions", tag = "functions", operation_id = "list_versions",
    params(
        ("name" = inline(schema::FunctionName), Path, description = "The function"),
        ("after" = inline(Option<schema::VersionNumber>), Query, description = "`next` of the page before"),
        ("limit" = inline(Option<schema::PageRows>), Query, description = "How many rows at most"),
    ),
    responses((status = 200, body = Page<VersionView>))
)]
pub(super) async fn versions(
    State(app): State<App>,
    caller: Caller,
    Path(name): Path<FunctionName>,
    Query(query): Query<VersionsQuery>,
) -> Result<axum::Json<Page<VersionView>>, Refusal> {
    let limit = rows(query.limit)?;
    app.catalog.function(&caller.tenant, &name).await?;
    let found = app.catalog.versions(&caller.tenant, &name, query.after, limit + 1).await?;
    let aliases = app.catalog.aliases(&caller.tenant, &name).await?;
    let views = found.into_iter().map(|row| responses::version(row, &aliases)).collect();
    Ok(axum::Json(page(views, limit, |view: &VersionView| view.version.to_string())))
}

/// One version.
#[utoipa::path(
    get, path = "/v1/functions/{name}/versions/{version}", tag = "functions", operation_id = "show_version",
    params(("name" = inline(schema::FunctionName), Path, description = "The function"), ("version" = inline(schema::VersionNumber), Path, description = "The version")),
    responses((status = 200, body = VersionView))
)]
pub(super) async fn version(
    State(app): State<App>,
    caller: Caller,
    Path((name, version)): Path<(FunctionName, VersionNumber)>,
) -> Result<axum::Json<VersionView>, Refusal> {
    let row = app.catalog.version(&caller.tenant, &name, version).await?;
    let aliases = app.catalog.aliases(&caller.tenant, &name).await?;
    Ok(axum::Json(responses::version(row, &aliases)))
}

/// The aliases of a function.
#[utoipa::path(
    get, path = "/v1/functions/{name}/aliases", tag = "functions", operation_id = "list_aliases",
    params(("name" = inline(schema::FunctionName), Path, description = "The function")),
    responses((status = 200, body = Page<AliasView>))
)]
pub(super) async fn aliases(
    State(app): State<App>,
    caller: Caller,
    Path(name): Path<FunctionName>,
) -> Result<axum::Json<Page<AliasView>>, Refusal> {
    app.catalog.function(&caller.tenant, &name).await?;
    let found = app.catalog.aliases(&caller.tenant, &name).await?;
    Ok(axum::Json(Page { items: found.into_iter().map(responses::alias).collect(), next: None }))
}

/// Makes or moves an alias; a rollback is a move of `live` to an older version.
#[utoipa::path(
    put, path = "/v1/functions/{name}/aliases/{alias}", tag = "functions", operation_id = "move_alias",
    params(("name" = inline(schema::FunctionName), Path, description = "The function"), ("alias" = inline(schema::AliasName), Path, description = "For example `live`")),
    request_body = MoveAlias,
    responses(
        (status = 200, body = AliasView),
        (status = 409, description = "The version is revoked (MF0908)", body = Problem, content_type = "application/problem+json"),
    )
)]
pub(super) async fn move_alias(
    State(app): State<App>,
    caller: Caller,
    Path((name, alias)): Path<(FunctionName, AliasName)>,
    Json(body): Json<MoveAlias>,
) -> Result<axum::Json<AliasView>, Refusal> {
    let moved = app.catalog.put_alias(&caller.actor(), &caller.tenant, &name, &alias, body.version).await?;
    Ok(axum::Json(responses::alias(moved)))
}

/// What part of the log is wanted.
#[derive(Debug, Deserialize)]
pub(super) struct LogQuery {
    after: Option<i64>,
    limit: Option<u32>,
}

/// Log lines of a function, oldest first: without `after` the newest ones, with it those behind.
#[utoipa::path(
    get, path = "/v1/functions/{name}/logs", tag = "functions", operation_id = "list_logs",
    params(
        ("name" = inline(schema::FunctionName), Path, description = "The function"),
        ("after" = inline(Option<schema::RowCursor>), Query, description = "`seq` of the last line seen"),
        ("limit" = inline(Option<schema::PageRows>), Query, description = "How many rows at most"),
    ),
    responses((status = 200, body = Page<LogLine>))
)]
pub(super) async fn logs(
    State(app): State<App>,
    caller: Caller,
    Path(name): Path<FunctionName>,
    Query(query): Query<LogQuery>,
) -> Result<axum::Json<Page<LogLine>>, Refusal> {
    let limit = rows(query.limit)?;
    let after = cursor(query.after)?;
    app.catalog.function(&caller.tenant, &name).await?;
    let found = app.catalog.logs_after(&caller.tenant, &name, after, limit).await?;
    let next =
        if found.len() == limit as usize { found.last().map(|line| line.id.to_string()) } else { None };
    Ok(axum::Json(Page { items: found.into_iter().map(responses::log_line).collect(), next }))
}
