//! The console: server-rendered pages over the same rows as the API.
//!
//! Templates escape by default, and what a tenant or a node wrote has passed the sanitiser before
//! it gets there. Pages work without script; the one module of a page is allowed by its nonce. What is
//! changed here is changed by a form of the very session that sends it (`form`), through the calls
//! that the API makes. No page loads anything from another host.

mod allowlist;
mod audit;
mod call;
mod call_graph;
mod chart;
mod charts;
mod closure;
mod comparison;
mod decide;
mod delta;
mod diff;
mod file;
mod form;
mod frame;
mod function;
mod graph;
mod history;
mod hotspots;
mod isolation;
mod nodes;
mod pages;
mod provider;
mod queue;
mod report;
mod resources;
mod review;
mod rows;
mod sign;
mod source;
mod statement;
mod usage;

use axum::Router;
use axum::extract::Path;
use axum::middleware::from_fn;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use http::header::{CACHE_CONTROL, CONTENT_TYPE, ETAG, IF_NONE_MATCH};
use http::{HeaderMap, StatusCode};
use mfaas_ident::Digest;
use tower_http::compression::CompressionLayer;

use crate::oidc::CALLBACK_PATH;
use crate::refusal::Refusal;
use crate::routes;
use crate::state::App;

pub(crate) use frame::problem_page_for_browsers;

/// The pages, the forms and the static files.
pub(crate) fn router() -> Router<App> {
    Router::new()
        .route("/", get(pages::dashboard))
        .route("/functions", get(pages::functions))
        .route("/functions/{name}", get(function::show))
        .route("/functions/{name}/comparison", get(comparison::show))
        .route("/functions/{name}/calls", post(function::call))
        .route("/deployments/{id}", get(pages::deployment))
        .route("/crates", get(allowlist::show))
        .route("/crates/{name}", get(history::show))
        .route("/crates/{name}/{version}/revocation", get(history::ask).post(history::revoke))
        .route("/reviews", get(queue::show))
        .route("/reviews/{id}", get(review::show))
        .route("/reviews/{id}/votes", post(decide::vote))
        .route("/reviews/{id}/voices", post(decide::vote))
        .route("/reviews/{id}/spots", post(decide::mark))
        .route("/reviews/{id}/hotspots", post(decide::mark))
        .route("/reviews/{id}/files/{*path}", get(file::show))
        .route("/usage", get(usage::show))
        .route("/charts", get(charts::tenants))
        .route("/charts/builds", get(charts::builds))
        .route("/charts/nodes", get(charts::nodes))
        .route("/functions/{name}/charts", get(charts::function))
        .route("/nodes", get(nodes::show))
        .route("/nodes/{name}", get(isolation::show))
        .route("/nodes/{name}/availability", post(nodes::set_availability))
        .route("/bans/{id}/lift", post(nodes::lift))
        .route("/resources", get(resources::list).post(resources::create))
        .route("/resources/{name}", get(resources::show))
        .route("/resources/{name}/grants", post(resources::grant))
        .route("/resources/{name}/grants/{tenant}/revocation", post(resources::revoke))
        .route("/audit", get(audit::show))
        .route("/sign-in", get(sign::form).post(sign::sign_in))
        .route("/sign-in/provider", get(provider::begin))
        .route(CALLBACK_PATH, get(provider::finish))
        .route("/sign-out", post(sign::sign_out))
        .layer(from_fn(frame::problem_page))
        .route("/deployments/{id}/events", get(routes::follow_events))
        .route("/static/{file}", get(static_file).layer(CompressionLayer::new()))
}

/// Files as they are in `web/static`, built into the program.
const STATIC_FILES: &[(&str, &str, &str)] = &[
    ("console.css", "text/css; charset=utf-8", include_str!("../../../web/static/console.css")),
    ("live.js", "text/javascript; charset=utf-8", include_str!("../../../web/static/live.js")),
    ("hotspots.js", "text/javascript; charset=utf-8", include_str!("../../../web/static/hotspots.js")),
    ("icon.svg", "image/svg+xml", include_str!("../../../web/static/icon.svg")),
];

/// A browser that has the file asks by its digest and is sent nothing.
async fn static_file(Path(name): Path<String>, headers: HeaderMap) -> Result<Response, Refusal> {
    let file = STATIC_FILES.iter().find(|(known, _, _)| *known == name);
    let (_, media_type, text) = file.ok_or_else(|| Refusal::not_found("such file"))?;
    let tag = format!("\"{}\"", Digest::of(text.as_bytes()));
    let is_known = headers.get(IF_NONE_MATCH).is_some_and(|known| known.as_bytes() == tag.as_bytes());
    let fresh = [(CACHE_CONTROL, "public, max-age=300".to_owned()), (ETAG, tag)];
    if is_known {
        return Ok((StatusCode::NOT_MODIFIED, fresh).into_response());
    }
    Ok((fresh, [(CONTENT_TYPE, *media_type)], *text).into_response())
}
