//! What the registry holds: artifacts, statements, keys, the allowlist. Bytes are hashed again on
//! their way out; an artifact of another tenant is not found.

use axum::extract::State;
use axum::response::Response;
use mfaas_catalog::Held;
use mfaas_ident::{Digest, ToolchainId};
use mfaas_wire::schema;
use mfaas_wire::{AllowlistView, CrateView, Page};
use serde::Deserialize;

use crate::caller::Caller;
use crate::extract::{Path, Query};
use crate::refusal::Refusal;
use crate::responses;
use crate::responses::artifacts::{KeyListQuery, artifact_response, envelope_response, key_list_response};
use crate::responses::crates::crate_views;
use crate::state::App;

/// The bytes of an artifact.
#[utoipa::path(
    get, path = "/v1/artifacts/{digest}", tag = "registry", operation_id = "artifact",
    params(("digest" = inline(schema::Digest), Path, description = "SHA-256 of the artifact")),
    responses((status = 200, description = "The shared object", body = inline(schema::Binary), content_type = "application/octet-stream"))
)]
pub(super) async fn artifact(
    State(app): State<App>,
    caller: Caller,
    Path(digest): Path<Digest>,
) -> Result<Response, Refusal> {
    if !app.catalog.owns_artifact(&caller.tenant, &digest).await? {
        return Err(Refusal::not_found("such artifact"));
    }
    artifact_response(&app.blobs, &digest).await
}

/// Which statement is wanted.
#[derive(Debug, Deserialize)]
pub(super) struct StatementQuery {
    statement: Option<Digest>,
}

/// The signed statement about an artifact, as the bytes that were signed. Versions of the same
/// source share an artifact; without `statement` it is that of the newest.
#[utoipa::path(
    get, path = "/v1/artifacts/{digest}/statement", tag = "registry", operation_id = "statement",
    params(
        ("digest" = inline(schema::Digest), Path, description = "SHA-256 of the artifact"),
        ("statement" = inline(Option<schema::Digest>), Query, description = "`statement_digest` of a version"),
    ),
    responses((status = 200, description = "A DSSE envelope", body = serde_json::Value, content_type = "application/json"))
)]
pub(super) async fn statement(
    State(app): State<App>,
    caller: Caller,
    Path(digest): Path<Digest>,
    Query(query): Query<StatementQuery>,
) -> Result<Response, Refusal> {
    let statement = app.catalog.statement_of(&caller.tenant, &digest, query.statement.as_ref()).await?;
    Ok(envelope_response(statement.envelope))
}

/// The newest list of keys, signed by the root, or the next one after the version that a verifier has: it goes from one to
/// the next, since each may name another root.
#[utoipa::path(
    get, path = "/v1/keys", tag = "registry", operation_id = "keys",
    params(("after" = inline(Option<schema::KeyListVersion>), Query, description = "The next list after this version; the newest without it")),
    responses(
        (status = 200, description = "A DSSE envelope", body = serde_json::Value, content_type = "application/json"),
        (status = 204, description = "There is no list after that version")
    )
)]
pub(super) async fn keys(
    State(app): State<App>,
    _caller: Caller,
    Query(query): Query<KeyListQuery>,
) -> Result<Response, Refusal> {
    key_list_response(&app.catalog, query).await
}

/// The newest serving set, as nodes get it.
#[utoipa::path(
    get, path = "/v1/serving-set", tag = "registry", operation_id = "serving_set",
    responses((status = 200, description = "A DSSE envelope", body = serde_json::Value, content_type = "application/json"))
)]
pub(super) async fn serving_set(State(app): State<App>, _caller: Caller) -> Result<Response, Refusal> {
    let set = app.catalog.serving_set_unless(&Held::Nothing).await?;
    Ok(envelope_response(set.ok_or_else(|| Refusal::not_found("serving set yet"))?.envelope))
}

/// The allowlist by name, and before it what waits for a decision: the caller's own requests, or
/// everybody's for a reviewer.
#[utoipa::path(
    get, path = "/v1/crates", tag = "registry", operation_id = "list_crates",
    responses((status = 200, body = Page<CrateView>))
)]
pub(super) async fn crates(
    State(app): State<App>,
    caller: Caller,
) -> Result<axum::Json<Page<CrateView>>, Refusal> {
    let items = crate_views(&app.catalog, &caller).await?;
    Ok(axum::Json(Page { items, next: None }))
}

/// Which toolchain is meant.
#[derive(Debug, Deserialize)]
pub(super) struct AllowlistQuery {
    toolchain: Option<ToolchainId>,
}

/// The decisions that a build of the caller's tenant is judged by at this moment.
#[utoipa::path(
    get, path = "/v1/allowlist", tag = "registry", operation_id = "show_allowlist",
    params(("toolchain" = inline(Option<schema::Digest>), Query, description = "For which compiler; the one accepted last by default")),
    responses((status = 200, body = AllowlistView))
)]
pub(super) async fn allowlist(
    State(app): State<App>,
    caller: Caller,
    Query(query): Query<AllowlistQuery>,
) -> Result<axum::Json<AllowlistView>, Refusal> {
    let found = app.catalog.allowlist_of(&caller.tenant, query.toolchain).await?;
    let (toolchain, snapshot) = found.ok_or_else(|| Refusal::not_found("toolchain yet"))?;
    Ok(axum::Json(responses::allowlist(toolchain, snapshot)))
}
