//! What every request shares, and the assembly of the routes.

use std::net::SocketAddr;
use std::ops::Deref;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::middleware::{from_fn, from_fn_with_state};
use metrics_exporter_prometheus::PrometheusHandle;
use mfaas_attest::AuditHead;
use mfaas_blobs::Blobs;
use mfaas_catalog::Catalog;
use mfaas_ident::TenantName;
use mfaas_push::Push;
use mfaas_rules::codes;
use tokio_util::sync::CancellationToken;
use utoipa::openapi::OpenApi;

use crate::authority::Authority;
use crate::call_keys::CallKeys;
use crate::config::{ConfigError, ServeConfig};
use crate::console::{self, Sessions};
use crate::live::News;
use crate::lookups::Lookups;
use crate::oidc::{self, Provider};
use crate::parts::BlobsLook;
use crate::pools::Pools;
use crate::refusal::Refusal;
use crate::shares::Shares;
use crate::tally::Tally;
use crate::{access, edge, limits, nodes, routes};

/// A handle on the state of the process; cheap to clone.
#[derive(Clone)]
pub struct App(Arc<Shared>);

/// The state itself.
pub struct Shared {
    /// The parsed environment.
    pub config: ServeConfig,
    /// Where the console is reached, without a slash at the end.
    pub public_url: String,
    /// The registry.
    pub catalog: Catalog,
    /// Uploads and artifacts.
    pub blobs: Blobs,
    /// Signs nodes' certificates.
    pub authority: Authority,
    /// Signs call tokens.
    pub call_keys: CallKeys,
    /// With which people may sign in to the console, if with any.
    pub provider: Option<Provider>,
    /// Who is signed in to the console.
    pub sessions: Sessions,
    /// Hints for event streams.
    pub news: News,
    /// Where nodes wait for a newer serving set.
    pub push: Push,
    /// What Prometheus scrapes.
    pub metrics: PrometheusHandle,
    /// When the numbers that are counted in the database were, or were tried to be, counted last.
    pub counted: tokio::sync::Mutex<Option<Instant>>,
    /// How the blob store was at the last look.
    pub blobs_look: BlobsLook,
    /// Permits of requests that are worked on.
    pub pools: Pools,
    /// Who calls.
    pub lookups: Lookups,
    /// Refusals without a log line of their own.
    pub tally: Tally,
    /// Open event streams by tenant.
    pub streams: Shares<TenantName>,
    /// How far this server has computed the audit chain.
    pub audited: Mutex<AuditHead>,
    /// Cancelled when the server stops.
    pub stop: CancellationToken,
}

impl Deref for App {
    type Target = Shared;
    fn deref(&self) -> &Shared {
        &self.0
    }
}

impl App {
    /// The state of a server that is reached at `http`. Needs a tokio runtime.
    pub fn new(
        config: ServeConfig,
        http: SocketAddr,
        catalog: Catalog,
        blobs: Blobs,
        authority: Authority,
        metrics: PrometheusHandle,
    ) -> Result<Self, ConfigError> {
        let local = format!("http://localhost:{}", http.port());
        let public_url = config.public_url.clone().unwrap_or(local);
        Ok(Self(Arc::new(Shared {
            provider: oidc::load(&config, &public_url)?,
            public_url,
            call_keys: CallKeys::new(config.call_keys_dir.clone()),
            pools: Pools::new(config.tenant_uploads),
            config,
            push: Push::start(catalog.clone()),
            catalog,
            blobs,
            authority,
            sessions: Sessions::new(limits::SESSIONS_MAX, limits::SESSION_LIFE),
            news: News::default(),
            metrics,
            counted: tokio::sync::Mutex::default(),
            blobs_look: BlobsLook::default(),
            lookups: Lookups::default(),
            tally: Tally::default(),
            streams: Shares::new(limits::STREAMS_MAX, limits::TENANT_STREAMS_MAX),
            audited: Mutex::new(AuditHead::START),
            stop: CancellationToken::new(),
        })))
    }

    /// Where a reviewer decides about dependencies.
    pub fn review_url(&self) -> String {
        format!("{}/reviews", self.public_url)
    }
}

/// The routes of the HTTP listener with their gate and their edge, and the API's description.
pub fn http_router(app: &App) -> (Router, OpenApi) {
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
        .layer(from_fn_with_state(app.clone(), access::gate))
        .layer(from_fn(console::problem_page_for_browsers))
        .layer(from_fn_with_state(app.clone(), edge::edge))
        .with_state(app.clone());
    (router, description)
}

/// The routes of the node listener with their gate and their edge.
pub fn node_router(app: &App) -> Router {
    nodes::router()
        .fallback(no_route)
        .layer(DefaultBodyLimit::disable())
        .layer(from_fn_with_state(app.clone(), nodes::gate))
        .layer(from_fn_with_state(app.clone(), edge::node_edge))
        .with_state(app.clone())
}

/// The numbers on a listener of their own, with the gate of the others. On the loopback a page of a stranger may come by, so
/// names are checked there; elsewhere the server is scraped by whatever name or address it has.
pub fn metrics_router(app: &App, is_loopback: bool) -> Router {
    let router = routes::metrics_router()
        .fallback(no_route)
        .layer(DefaultBodyLimit::disable())
        .layer(from_fn_with_state(app.clone(), access::gate));
    let router = match is_loopback {
        true => router.layer(from_fn_with_state(app.clone(), edge::edge)),
        false => router.layer(from_fn_with_state(app.clone(), edge::node_edge)),
    };
    router.with_state(app.clone())
}

async fn no_route() -> Refusal {
    Refusal::new(codes::MF0911, "There is no such route.")
}
