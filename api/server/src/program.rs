//! A running server: its listeners, its background tasks, its end.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::Context as _;
use mfaas_blobs::{BlobError, Blobs};
use mfaas_catalog::{Catalog, CatalogError, Channel, CollectError, Wake};
use mfaas_ident::BuildVersion;
use mfaas_startup::write_ready_file;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;

use crate::certificate::ServerCertificate;
use crate::config::ServeConfig;
use crate::issuing::Issuing;
use crate::router::{health_router, http_router, metrics_router, node_router};
use crate::serve::{Listener, serve};
use crate::state::App;
use crate::{limits, metrics, nodes, numbers, parts, schedules, triggers, upkeep};

/// A server that answers.
pub struct Running {
    app: App,
    /// Where HTTP is served.
    pub http: SocketAddr,
    /// Where nodes are served.
    pub nodes: SocketAddr,
    /// Where the numbers are served, if not with HTTP.
    pub metrics: Option<SocketAddr>,
    /// Where readiness is served besides, if anywhere.
    pub health: Option<SocketAddr>,
    tasks: Vec<JoinHandle<()>>,
}

/// The sockets that are listened on.
struct Sockets {
    http: TcpListener,
    nodes: TcpListener,
    metrics: Option<TcpListener>,
    health: Option<TcpListener>,
}

/// What HTTP and nodes are spoken to with.
struct Acceptors {
    http: Option<TlsAcceptor>,
    nodes: TlsAcceptor,
}

/// Starts a server; it answers when this returns, and then the ready file is there.
pub async fn start(config: ServeConfig) -> anyhow::Result<Running> {
    // Before anything that describes what it counts.
    let prometheus = metrics::install()?;
    let (catalog, blobs) = open_stores(&config).await?;
    let issuing =
        Issuing::load(&config.tls_dir).context("MFAAS_TLS_DIR (run `mfaas-signer certify-server`)")?;
    let (certificate, seen) = ServerCertificate::load(config.certificate.clone())?;
    let acceptors = Acceptors {
        http: config.listen_tls.then(|| certificate.acceptor()).transpose()?,
        nodes: nodes::acceptor(&issuing.ca_pem, &certificate)?,
    };
    let sockets = Sockets::bind(&config).await?;
    let (http, nodes) = (sockets.http.local_addr()?, sockets.nodes.local_addr()?);
    let metrics = sockets.metrics.as_ref().map(TcpListener::local_addr).transpose()?;
    let health = sockets.health.as_ref().map(TcpListener::local_addr).transpose()?;
    let ready_file = config.ready_file.clone();
    let app = App::new(config, http, catalog, blobs, issuing, prometheus)?;
    app.call_keys.ensure(&app.catalog).await.context("MFAAS_CALL_KEYS_DIR")?;
    // Whoever asks for readiness first is told something that was looked at.
    let _ = timeout(limits::PART_ANSWER_MAX * 2, parts::look(&app.blobs, &app.blobs_look)).await;
    let listeners = sockets.listeners(&app, acceptors, metrics);
    let mut tasks: Vec<_> =
        listeners.into_iter().map(|listener| tokio::spawn(serve(listener, app.clone()))).collect();
    tasks.extend(in_the_background(&app));
    tasks.push(tokio::spawn(certificate.watch(seen, app.config.certificate_look_every, app.stop.clone())));
    if let Some(path) = ready_file {
        let addresses =
            [("http", Some(http)), ("nodes", Some(nodes)), ("metrics", metrics), ("health", health)];
        let ready =
            addresses.into_iter().filter_map(|(name, at)| Some((name.to_owned(), at?.to_string().into())));
        write_ready_file(&path, ready.collect()).context("MFAAS_READY_FILE")?;
    }
    let shown = |address: Option<SocketAddr>| address.map(tracing::field::display);
    let tls = app.config.listen_tls;
    tracing::info!(%http, tls, %nodes, metrics = shown(metrics), health = shown(health), "serving");
    Ok(Running { app, http, nodes, metrics, health, tasks })
}

async fn open_stores(config: &ServeConfig) -> anyhow::Result<(Catalog, Blobs)> {
    let connected = Catalog::connect_when_ready(&config.database_url, limits::DATABASE_CONNECTIONS_MAX);
    let catalog = connected.await.context("database")?;
    let blobs = Blobs::open(&config.blobs_url).context("MFAAS_BLOBS_URL")?;
    match catalog.mark_blob_store(&blobs).await {
        Err(CollectError::Blobs(error @ BlobError::Unmarked { .. })) => {
            return Err(error).context("MFAAS_BLOBS_URL: nothing is there of what the database refers to");
        }
        // It may answer later; `/readyz` says so until then.
        Err(error) => tracing::warn!(%error, "the blob store does not answer at the start"),
        Ok(()) => {}
    }
    Ok((catalog, blobs))
}

impl Sockets {
    async fn bind(config: &ServeConfig) -> anyhow::Result<Self> {
        Ok(Self {
            http: listener("MFAAS_LISTEN", config.listen).await?,
            nodes: listener("MFAAS_NODE_LISTEN", config.node_listen).await?,
            metrics: match config.metrics_listen {
                Some(address) => Some(listener("MFAAS_METRICS_LISTEN", address).await?),
                None => None,
            },
            health: match config.health_listen {
                Some(address) => Some(listener("MFAAS_HEALTH_LISTEN", address).await?),
                None => None,
            },
        })
    }

    fn listeners(self, app: &App, acceptors: Acceptors, metrics: Option<SocketAddr>) -> Vec<Listener> {
        let http = Listener {
            name: "http",
            socket: self.http,
            bounds: app.config.http_bounds,
            tls: acceptors.http,
            router: http_router(app),
        };
        let nodes = Listener {
            name: "nodes",
            socket: self.nodes,
            bounds: limits::Bounds::NODES,
            tls: Some(acceptors.nodes),
            router: node_router(app),
        };
        let is_loopback = metrics.is_some_and(|address| address.ip().is_loopback());
        let metrics = self.metrics.map(|socket| Listener {
            name: "metrics",
            socket,
            bounds: limits::Bounds::METRICS,
            tls: None,
            router: metrics_router(app, is_loopback),
        });
        let health = self.health.map(|socket| Listener {
            name: "health",
            socket,
            bounds: limits::Bounds::HEALTH,
            tls: None,
            router: health_router(app),
        });
        [http, nodes].into_iter().chain(metrics).chain(health).collect()
    }
}

/// What the server does besides answering.
fn in_the_background(app: &App) -> Vec<JoinHandle<()>> {
    vec![
        tokio::spawn(listen(app.clone())),
        tokio::spawn(upkeep::sweep(app.clone())),
        tokio::spawn(upkeep::forget(app.clone())),
        tokio::spawn(upkeep::collect(app.clone())),
        tokio::spawn(tell_refusals(app.clone())),
        tokio::spawn(parts::watch(
            app.blobs.clone(),
            app.blobs_look.clone(),
            app.config.parts_look_every,
            app.stop.clone(),
        )),
        tokio::spawn(numbers::follow_stages(app.clone())),
        tokio::spawn(watch_process(app.clone())),
        tokio::spawn(schedules::run(app.clone())),
        tokio::spawn(triggers::run(app.clone())),
    ]
}

/// Shows what the process is and uses.
async fn watch_process(app: App) {
    let build = BuildVersion::this().as_str();
    let watch = mfaas_process_metrics::watch(env!("CARGO_PKG_NAME"), build, app.metrics.clone());
    tokio::select! {
        () = watch => {}
        () = app.stop.cancelled() => {}
    }
}

impl Running {
    /// Stops: no new connections, event streams end, open requests get a while to finish.
    pub async fn stop(self) {
        self.app.stop.cancel();
        for task in self.tasks {
            if let Err(error) = task.await {
                tracing::error!(%error, "a task of the server did not end well");
            }
        }
        self.app.catalog.close().await;
        // It blocks, for a second at most.
        let _ = tokio::task::spawn_blocking(|| mfaas_trace::finish(Duration::from_secs(1))).await;
    }
}

/// Turns notices of the database into hints for the streams of this process, for ever. Whoever
/// waits looks by itself now and then, so a gap here only costs time.
async fn listen(app: App) {
    while !app.stop.is_cancelled() {
        let outcome = tokio::select! {
            outcome = hear(&app) => outcome,
            () = app.stop.cancelled() => return,
        };
        if let Err(error) = outcome {
            tracing::warn!(%error, "not listening to the database; trying again");
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    }
}

async fn hear(app: &App) -> Result<(), CatalogError> {
    let mut wakes = app.catalog.listen(&[Channel::Events]).await?;
    loop {
        match wakes.next(Duration::from_secs(60)).await? {
            Wake::Notified(Channel::Events, Some(id)) => app.news.tell(id),
            // After a gap the streams look by themselves, within their poll interval.
            Wake::Notified(_, _) | Wake::Reconnected | Wake::TimedOut => {}
        }
    }
}

/// Tells now and then what was refused without a line of its own.
async fn tell_refusals(app: App) {
    loop {
        tokio::select! {
            () = tokio::time::sleep(limits::TALLY_PERIOD) => app.tally.tell(),
            () = app.stop.cancelled() => return app.tally.tell(),
        }
    }
}

async fn listener(variable: &'static str, address: SocketAddr) -> anyhow::Result<TcpListener> {
    TcpListener::bind(address).await.with_context(|| format!("{variable}: listening on {address}"))
}
