//! The routers of the three listeners: routes, and around them who may call, who gets a page for a
//! refusal, and what every answer carries.

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::middleware::{from_fn, from_fn_with_state};
use mfaas_rules::codes;
use utoipa::openapi::OpenApi;

use crate::refusal::Refusal;
use crate::state::App;
use crate::{authorize, console, edge, nodes, routes};

/// The routes of the HTTP listener with their gate and their edge, and the API's description.
pub(crate) fn http_router(app: &App) -> (Router, OpenApi) {
    let (api, description) = routes::router(app.config.metrics_listen.is_none()).split_for_parts();
    let description = routes::complete(description);
    let router = api
        .merge(routes::description_route(&description))
        .merge(routes::index_router())
        .merge(routes::renamed_router())
        .merge(console::router())
        .fallback(no_route)
        // The gate has measured bodies; only an upload goes past it, and its handler measures it.
        .layer(DefaultBodyLimit::disable())
        .layer(from_fn_with_state(app.clone(), authorize::authorize))
        .layer(from_fn(console::problem_page_for_browsers))
        .layer(from_fn_with_state(app.clone(), edge::edge))
        .with_state(app.clone());
    (router, description)
}

/// The routes of the node listener with their gate and their edge.
pub(crate) fn node_router(app: &App) -> Router {
    nodes::router()
        .fallback(no_route)
        .layer(DefaultBodyLimit::disable())
        .layer(from_fn_with_state(app.clone(), nodes::authorize))
        .layer(from_fn_with_state(app.clone(), edge::node_edge))
        .with_state(app.clone())
}

/// The numbers on a listener of their own, with the gate of the others. On the loopback a page of a stranger may come by, so
/// names are checked there; elsewhere the server is scraped by whatever name or address it has.
pub(crate) fn metrics_router(app: &App, is_loopback: bool) -> Router {
    let router = routes::metrics_router()
        .fallback(no_route)
        .layer(DefaultBodyLimit::disable())
        .layer(from_fn_with_state(app.clone(), authorize::authorize));
    let router = match is_loopback {
        true => router.layer(from_fn_with_state(app.clone(), edge::edge)),
        false => router.layer(from_fn_with_state(app.clone(), edge::node_edge)),
    };
    router.with_state(app.clone())
}

async fn no_route() -> Refusal {
    Refusal::new(codes::MF0911, "There is no such route.")
}
