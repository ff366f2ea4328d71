//! The REST interface, one module for each noun. Each handler parses its input into checked
//! types, makes one or two calls into the catalog or the blob store, and answers with a type of
//! `mfaas-wire`. Who may call is decided before a handler runs (`access`), never in one.

mod artifacts;
mod bans;
mod builders;
mod calls;
mod deployments;
mod description;
mod functions;
mod health;
mod incoming;
mod index;
mod isolation;
mod nodes;
mod paging;
mod resources;
mod reviews;
mod schedules;
mod series;
mod tokens;
mod triggers;
mod usage;

use axum::Router;
use axum::routing::{get, post, put};
use tower_http::compression::CompressionLayer;
use utoipa::OpenApi as _;
use utoipa::openapi::OpenApi;
use utoipa::openapi::security::{Http, HttpAuthScheme, SecurityScheme};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use self::description::complete;
use crate::state::App;

pub(crate) use calls::{issue as issue_call_token, own_name as caller_name};
pub(crate) use deployments::events as follow_events;
pub(crate) use index::router as index_router;
pub(crate) use resources::demand_no_asset;

#[derive(utoipa::OpenApi)]
#[openapi(
    info(
        title = "mfaas",
        description = "Deploys hostile Rust source as native functions. Errors are problem documents (RFC 9457).",
        contact(name = "mfaas")
    ),
    modifiers(&BearerTokens),
    security(("token" = [])),
    components(schemas(mfaas_wire::Event, mfaas_wire::Problem)),
    tags(
        (name = "deployments", description = "Uploads and what comes of them"),
        (name = "functions", description = "Functions, versions, aliases, logs"),
        (name = "registry", description = "Artifacts, statements, keys, the allowlist"),
        (name = "dependencies", description = "Requests for crates, reviews, revocations"),
        (name = "operation", description = "Nodes, resources, tokens, the audit log, health"),
    )
)]
struct Description;

struct BearerTokens;

impl utoipa::Modify for BearerTokens {
    fn modify(&self, description: &mut OpenApi) {
        let scheme = SecurityScheme::Http(Http::new(HttpAuthScheme::Bearer));
        description.components.get_or_insert_default().add_security_scheme("token", scheme);
    }
}

/// Every described route; that of the numbers is among them where it has no listener of its own.
pub(crate) fn router(with_metrics: bool) -> OpenApiRouter<App> {
    let router = described();
    if with_metrics { router.routes(routes!(health::metrics)) } else { router }
}

/// The description of the whole interface.
pub fn description() -> OpenApi {
    complete(router(true).into_openapi())
}

/// The numbers alone.
pub(crate) fn metrics_router() -> Router<App> {
    Router::new().route("/metrics", get(health::metrics))
}

/// Readiness alone.
pub(crate) fn health_router() -> Router<App> {
    Router::new().route("/healthz", get(health::healthz)).route("/readyz", get(health::readyz))
}

fn described() -> OpenApiRouter<App> {
    OpenApiRouter::with_openapi(Description::openapi())
        .routes(routes!(deployments::create, deployments::list_of_function))
        .routes(routes!(deployments::show))
        .routes(routes!(deployments::events))
        .routes(routes!(functions::list))
        .routes(routes!(functions::show, functions::delete))
        .routes(routes!(functions::versions))
        .routes(routes!(functions::version))
        .routes(routes!(functions::aliases))
        .routes(routes!(functions::move_alias))
        .routes(routes!(functions::logs))
        .routes(routes!(nodes::endpoints))
        .routes(routes!(artifacts::artifact))
        .routes(routes!(artifacts::statement))
        .routes(routes!(artifacts::crates))
        .routes(routes!(artifacts::allowlist))
        .routes(routes!(artifacts::keys))
        .routes(routes!(artifacts::serving_set))
        .routes(routes!(reviews::requests, reviews::request))
        .routes(routes!(reviews::show_request))
        .routes(routes!(reviews::reviews))
        .routes(routes!(reviews::show))
        .routes(routes!(reviews::report))
        .routes(routes!(reviews::vote))
        .routes(routes!(reviews::mark))
        .routes(routes!(reviews::revoke))
        .routes(routes!(reviews::import_advisories))
        .routes(routes!(reviews::import_audits))
        .routes(routes!(nodes::list))
        .routes(routes!(nodes::remove))
        .routes(routes!(nodes::join_tokens, nodes::create_join_token))
        .routes(routes!(nodes::revoke_join_token))
        .routes(routes!(nodes::set_availability))
        .routes(routes!(isolation::history))
        .routes(routes!(isolation::show, isolation::set))
        .routes(routes!(builders::list))
        .routes(routes!(bans::list))
        .routes(routes!(bans::lift))
        .routes(routes!(resources::list, resources::create))
        .routes(routes!(resources::create_asset))
        .routes(routes!(resources::grants))
        .routes(routes!(resources::grant, resources::revoke))
        .routes(routes!(schedules::list))
        .routes(routes!(schedules::set, schedules::delete))
        .routes(routes!(triggers::list))
        .routes(routes!(triggers::set, triggers::delete))
        .routes(routes!(usage::usage))
        .routes(routes!(series::function))
        .routes(routes!(series::tenants))
        .routes(routes!(series::builds))
        .routes(routes!(series::nodes))
        .routes(routes!(tokens::list, tokens::create))
        .routes(routes!(calls::list, calls::create, calls::revoke_caller))
        .routes(routes!(calls::revoke))
        .routes(routes!(calls::rotate))
        .routes(routes!(tokens::revoke))
        .routes(routes!(tokens::whoami))
        .routes(routes!(tokens::audit))
        .routes(routes!(tokens::audit_chain))
        .routes(routes!(health::healthz))
        .routes(routes!(health::readyz))
}

/// Paths of the release before, undescribed.
pub(crate) fn renamed_router() -> Router<App> {
    Router::new()
        .route("/v1/reviews/{id}/voices", post(reviews::vote))
        .route("/v1/reviews/{id}/spots", put(reviews::mark))
}

/// The description itself, rendered once.
pub(crate) fn description_route(description: OpenApi) -> Router<App> {
    // A description that does not serialise is found by the first test that reads it.
    let text = complete(description).to_pretty_json().unwrap_or_default();
    let answer = move || async move { ([(http::header::CONTENT_TYPE, "application/json")], text) };
    Router::new().route("/openapi.json", get(answer)).layer(CompressionLayer::new())
}
