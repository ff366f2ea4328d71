//! The routers of the listeners: routes, and around them who may call, who gets a page for a
//! refusal, and what every answer carries.

use std::any::Any;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::middleware::{from_fn, from_fn_with_state};
use axum::response::{IntoResponse as _, Response};
use http::header::{AUTHORIZATION, COOKIE};
use mfaas_rules::codes;
use tower_http::catch_panic::CatchPanicLayer;
use tower_http::sensitive_headers::SetSensitiveRequestHeadersLayer;

use crate::refusal::Refusal;
use crate::state::App;
use crate::{authorize, console, edge, nodes, routes};

/// The routes of the HTTP listener.
pub(crate) fn http_router(app: &App) -> Router {
    let (api, description) = routes::router(app.config.metrics_listen.is_none()).split_for_parts();
    let routes = api
        .merge(routes::description_route(description))
        .merge(routes::index_router())
        .merge(routes::renamed_router())
        .merge(console::router());
    guarded(routes)
        .layer(from_fn_with_state(app.clone(), authorize::authorize))
        .layer(from_fn(console::problem_page_for_browsers))
        .layer(from_fn_with_state(app.clone(), edge::edge))
        .with_state(app.clone())
}

/// The routes of the node listener.
pub(crate) fn node_router(app: &App) -> Router {
    guarded(nodes::router())
        .layer(from_fn_with_state(app.clone(), nodes::authorize))
        .layer(from_fn_with_state(app.clone(), edge::node_edge))
        .with_state(app.clone())
}

/// The numbers on a listener of their own. On the loopback a page of a stranger may come by, so names are checked there;
/// elsewhere the server is scraped by whatever name or address it has.
pub(crate) fn metrics_router(app: &App, is_loopback: bool) -> Router {
    let router =
        guarded(routes::metrics_router()).layer(from_fn_with_state(app.clone(), authorize::authorize));
    let router = match is_loopback {
        true => router.layer(from_fn_with_state(app.clone(), edge::edge)),
        false => router.layer(from_fn_with_state(app.clone(), edge::node_edge)),
    };
    router.with_state(app.clone())
}

/// Readiness on a listener of its own, under whatever name or address a balancer or a kubelet has for the server.
pub(crate) fn health_router(app: &App) -> Router {
    guarded(routes::health_router())
        .layer(from_fn_with_state(app.clone(), authorize::authorize))
        .layer(from_fn_with_state(app.clone(), edge::node_edge))
        .with_state(app.clone())
}

/// What stands around the handlers of every listener: an answer for a path without a route and for a panic, and secrets that
/// no debug output of a request shows. Bodies were measured before (`pools`); only an upload goes past that, and its handler
/// measures it.
fn guarded<S: Clone + Send + Sync + 'static>(routes: Router<S>) -> Router<S> {
    routes
        .fallback(no_route)
        .layer(DefaultBodyLimit::disable())
        .layer(CatchPanicLayer::custom(panicked))
        .layer(SetSensitiveRequestHeadersLayer::new([AUTHORIZATION, COOKIE]))
}

/// A panic costs the request that it happened in, not the others of its connection.
#[expect(clippy::needless_pass_by_value, reason = "the layer hands it over so")]
fn panicked(payload: Box<dyn Any + Send + 'static>) -> Response {
    let text = payload.downcast_ref::<&str>().copied();
    let text = text.or_else(|| payload.downcast_ref::<String>().map(String::as_str));
    Refusal::internal(format!("a handler panicked: {}", text.unwrap_or("without a text"))).into_response()
}

async fn no_route() -> Refusal {
    Refusal::new(codes::MF0911, "There is no such route.")
}

#[cfg(test)]
mod tests;
