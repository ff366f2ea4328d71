//! Nodes over REST: the list, what each is to take, where a function answers.

use axum::extract::State;
use chrono::Utc;
use mfaas_ident::{FunctionName, NodeName};
use mfaas_wire::schema;
use mfaas_wire::{Endpoint, NodeView, Page, SetAvailability};

use crate::caller::{Caller, Sight};
use crate::extract::{Json, Path};
use crate::refusal::Refusal;
use crate::responses::nodes::{endpoint, node_view};
use crate::state::App;

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
    let items = nodes.map(|status| endpoint(status, &caller.tenant, &name, served.as_ref()));
    Ok(axum::Json(Page { items: items.collect(), next: None }))
}
