//! What every request shares. It knows no route, so that every module may know it.

use std::net::SocketAddr;
use std::ops::Deref;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use metrics_exporter_prometheus::PrometheusHandle;
use mfaas_attest::AuditHead;
use mfaas_blobs::Blobs;
use mfaas_catalog::{Catalog, ObjectEvents};
use mfaas_ident::TenantName;
use mfaas_push::Push;
use tokio_util::sync::CancellationToken;

use crate::call_keys::CallKeys;
use mfaas_startup::VariableError;

use crate::config::{EVENTS_VARIABLE, ServeConfig};
use crate::issuing::Issuing;
use crate::limits;
use crate::lookups::Lookups;
use crate::news::News;
use crate::oidc::{self, Provider};
use crate::parts::BlobsLook;
use crate::pools::Pools;
use crate::shares::Shares;
use crate::site_use::SiteUse;
use crate::tally::Tally;

/// A handle on the state of the process; cheap to clone.
#[derive(Clone)]
pub(crate) struct App(Arc<Shared>);

/// The state itself.
pub(crate) struct Shared {
    /// The parsed environment.
    pub config: ServeConfig,
    /// Where the console is reached, without a slash at the end.
    pub public_url: String,
    /// The registry.
    pub catalog: Catalog,
    /// Where events of objects are, if this server was told.
    pub events: Option<ObjectEvents>,
    /// Uploads and artifacts.
    pub blobs: Blobs,
    /// Where nodes' certificates come from.
    pub issuing: Issuing,
    /// Signs call tokens.
    pub call_keys: CallKeys,
    /// With which people may sign in to the console, if with any.
    pub provider: Option<Provider>,
    /// Hints for event streams.
    pub news: News,
    /// Where nodes wait for a newer serving set.
    pub push: Push,
    /// What Prometheus scrapes.
    pub metrics: PrometheusHandle,
    /// When the numbers that are counted in the database were, or were tried to be, counted last.
    pub counted: tokio::sync::Mutex<Option<Instant>>,
    /// How the blob store was at the last look.
    pub blobs_look: Arc<BlobsLook>,
    /// Who uses which crate, on the whole site.
    pub site_use: SiteUse,
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
    pub(crate) fn new(
        config: ServeConfig,
        http: SocketAddr,
        catalog: Catalog,
        blobs: Blobs,
        issuing: Issuing,
        metrics: PrometheusHandle,
    ) -> Result<Self, VariableError> {
        let scheme = if config.listen_tls { "https" } else { "http" };
        let local = format!("{scheme}://localhost:{}", http.port());
        let public_url = config.public_url.clone().unwrap_or(local);
        let events = match &config.events_database_url {
            Some(url) => {
                let opened = ObjectEvents::open(url);
                Some(opened.map_err(|error| VariableError::invalid(EVENTS_VARIABLE, error))?)
            }
            None => None,
        };
        Ok(Self(Arc::new(Shared {
            events,
            provider: oidc::load(&config, &public_url)?,
            public_url,
            call_keys: CallKeys::new(config.call_keys_dir.clone()),
            pools: Pools::new(config.tenant_uploads, config.deadlines),
            config,
            push: Push::start(catalog.clone()),
            catalog,
            blobs,
            issuing,
            news: News::default(),
            metrics,
            counted: tokio::sync::Mutex::default(),
            blobs_look: Arc::default(),
            site_use: SiteUse::default(),
            lookups: Lookups::default(),
            tally: Tally::default(),
            streams: Shares::new(limits::STREAMS_MAX, limits::TENANT_STREAMS_MAX),
            audited: Mutex::new(AuditHead::START),
            stop: CancellationToken::new(),
        })))
    }

    /// Where a reviewer decides about dependencies.
    pub(crate) fn review_url(&self) -> String {
        format!("{}/reviews", self.public_url)
    }
}
