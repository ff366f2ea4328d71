//! Nodes over REST: the list, how they join and leave, what each is to take, where a function answers.

use axum::extract::State;
use axum::response::{IntoResponse as _, Response};
use chrono::Utc;
use http::StatusCode;
use mfaas_catalog::NewJoinToken;
use mfaas_ident::{FunctionName, NodeName};
use mfaas_wire::schema;
use mfaas_wire::{
    CreateJoinToken, Endpoint, JOIN_TOKEN_HOURS_MAX, JOIN_TOKEN_USES_MAX, JoinTokenCreated, JoinTokenView,
    NodeView, Page, Removed, SetAvailability,
};
use uuid::Uuid;

use crate::caller::{Caller, Sight};
use crate::extract::{Json, Path};
use crate::limits;
use crate::refusal::Refusal;
use crate::responses::nodes::{endpoint, join_token_view, node_view};
use crate::state::App;
use crate::token::Secret;

/// Every node.
#[utoipa::path(
    get, path = "/v1/nodes", tag = "operation", operation_id = "list_nodes",
    responses((status = 200, body = Page<NodeView>))
)]
pub(super) async fn list(
    State(app): State<App>,
    _caller: Caller,
) -> Result<axum::Json<Page<NodeView>>, Refusal> {
    let now = Utc::now();
    let items = app.catalog.nodes().await?.into_iter().map(|status| node_view(status, now)).collect();
    Ok(axum::Json(Page { items, next: None }))
}

/// Says what a node is to take: everything, no new versions, or no new calls either.
#[utoipa::path(
    put, path = "/v1/nodes/{name}/availability", tag = "operation", operation_id = "set_availability",
    params(("name" = inline(schema::NodeName), Path, description = "The node")),
    request_body = SetAvailability,
    responses((status = 200, body = NodeView))
)]
pub(super) async fn set_availability(
    State(app): State<App>,
    sight: Sight,
    Path(name): Path<NodeName>,
    Json(body): Json<SetAvailability>,
) -> Result<axum::Json<NodeView>, Refusal> {
    app.catalog.set_availability(&sight.actor(), &name, body.availability).await?;
    let found = app.catalog.nodes().await?.into_iter().find(|status| status.row.node.name == name);
    let status = found.ok_or_else(|| Refusal::not_found(format!("node `{name}`")))?;
    Ok(axum::Json(node_view(status, Utc::now())))
}

/// The join tokens that are not over, or ended within a day. Never what they are shown by.
#[utoipa::path(
    get, path = "/v1/join-tokens", tag = "operation", operation_id = "list_join_tokens",
    responses((status = 200, body = Page<JoinTokenView>))
)]
pub(super) async fn join_tokens(
    State(app): State<App>,
    _sight: Sight,
) -> Result<axum::Json<Page<JoinTokenView>>, Refusal> {
    let listed = app.catalog.join_tokens(limits::PAGE_ROWS_MAX).await?;
    Ok(axum::Json(Page { items: listed.into_iter().map(join_token_view).collect(), next: None }))
}

/// Revokes a join token: nobody joins with it from now on. Nodes that joined with it stay.
#[utoipa::path(
    delete, path = "/v1/join-tokens/{id}", tag = "operation", operation_id = "revoke_join_token",
    params(("id" = Uuid, Path, description = "What `GET /v1/join-tokens` names it by")),
    responses((status = 200, body = JoinTokenView))
)]
pub(super) async fn revoke_join_token(
    State(app): State<App>,
    sight: Sight,
    Path(id): Path<Uuid>,
) -> Result<axum::Json<JoinTokenView>, Refusal> {
    Ok(axum::Json(join_token_view(app.catalog.revoke_join_token(&sight.actor(), id).await?)))
}

/// Makes a token with which nodes join. The answer is the only place where it ever appears.
#[utoipa::path(
    post, path = "/v1/join-tokens", tag = "operation", operation_id = "create_join_token",
    request_body = CreateJoinToken,
    responses((status = 201, body = JoinTokenCreated))
)]
pub(super) async fn create_join_token(
    State(app): State<App>,
    sight: Sight,
    Json(body): Json<CreateJoinToken>,
) -> Result<Response, Refusal> {
    let bounds = [("uses", body.uses, JOIN_TOKEN_USES_MAX), ("hours", body.hours, JOIN_TOKEN_HOURS_MAX)];
    if let Some((field, _, most)) = bounds.into_iter().find(|(_, given, most)| !(1..=*most).contains(given)) {
        return Err(Refusal::invalid(format!("`{field}` is a whole number from 1 to {most}.")));
    }
    let secret = Secret::generate().map_err(Refusal::internal)?;
    let new = NewJoinToken {
        secret_sha256: &secret.hash(),
        node: body.node.as_ref(),
        uses_max: body.uses,
        valid_for_seconds: body.hours * 3_600,
    };
    let made = app.catalog.create_join_token(&sight.actor(), &new).await?;
    let created = JoinTokenCreated {
        id: made.id.to_string(),
        token: secret.reveal_bare().to_owned(),
        uses: body.uses,
        expires_at: made.expires_at,
        node: body.node,
    };
    Ok((StatusCode::CREATED, axum::Json(created)).into_response())
}

/// Removes a node: its certificate opens nothing from now on.
#[utoipa::path(
    delete, path = "/v1/nodes/{name}", tag = "operation", operation_id = "remove_node",
    params(("name" = inline(schema::NodeName), Path, description = "The node")),
    responses((status = 200, body = Removed))
)]
pub(super) async fn remove(
    State(app): State<App>,
    sight: Sight,
    Path(name): Path<NodeName>,
) -> Result<axum::Json<Removed>, Refusal> {
    app.catalog.remove_node(&sight.actor(), &name).await?;
    Ok(axum::Json(Removed { removed: format!("node {name}") }))
}

/// Where the function answers, node by node, and which version each says it has.
#[utoipa::path(
    get, path = "/v1/functions/{name}/endpoints", tag = "functions", operation_id = "list_endpoints",
    params(("name" = inline(schema::FunctionName), Path, description = "The function")),
    responses((status = 200, body = Page<Endpoint>))
)]
pub(super) async fn endpoints(
    State(app): State<App>,
    caller: Caller,
    Path(name): Path<FunctionName>,
) -> Result<axum::Json<Page<Endpoint>>, Refusal> {
    // Says that there is no such function.
    app.catalog.function(&caller.tenant, &name).await?;
    let served = app.catalog.served_function(&caller.tenant, &name).await?;
    let nodes = app.catalog.nodes().await?.into_iter();
    let public_url = app.config.public_ingress_url.as_deref();
    let items = nodes.map(|status| endpoint(status, &caller.tenant, &name, served.as_ref(), public_url));
    Ok(axum::Json(Page { items: items.collect(), next: None }))
}
