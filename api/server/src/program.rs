//! A running server: its listeners, its background tasks, its end.

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use anyhow::Context as _;
use mfaas_blobs::Blobs;
use mfaas_catalog::{Catalog, CatalogError, Channel, Wake};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use crate::app::{App, http_router, node_router};
use crate::authority::Authority;
use crate::config::ServeConfig;
use crate::serve::{Listener, serve};
use crate::{limits, metrics, nodes, upkeep};

/// A server that answers.
pub struct Running {
    app: App,
    /// Where HTTP is served.
    pub http: SocketAddr,
    /// Where nodes are served.
    pub nodes: SocketAddr,
    tasks: Vec<JoinHandle<()>>,
}

/// Starts a server; it answers when this returns, and then the ready file is there.
pub async fn start(config: ServeConfig) -> anyhow::Result<Running> {
    let catalog =
        Catalog::connect(&config.database_url, limits::DATABASE_CONNECTIONS_MAX).await.context("database")?;
    catalog.ready().await.context("database")?;
    let blobs = Blobs::open(&config.blobs_url).context("MFAAS_BLOBS_URL")?;
    let authority = Authority::load(&config.tls_dir).context("MFAAS_TLS_DIR (run `mfaas-server init`)")?;
    let acceptor = nodes::acceptor(&authority)?;
    let http_listener = listener("MFAAS_LISTEN", config.listen).await?;
    let node_listener = listener("MFAAS_NODE_LISTEN", config.node_listen).await?;
    let (http, nodes) = (http_listener.local_addr()?, node_listener.local_addr()?);
    let ready_file = config.ready_file.clone();
    let app = App::new(config, http, catalog, blobs, authority, metrics::install()?)?;
    app.call_keys.ensure(&app.catalog).await.context("MFAAS_CALL_KEYS_DIR")?;
    let (http_routes, _) = http_router(&app);
    let http_side = Listener {
        name: "http",
        socket: http_listener,
        bounds: app.config.http_bounds,
        tls: None,
        router: http_routes,
    };
    let node_side = Listener {
        name: "nodes",
        socket: node_listener,
        bounds: limits::Bounds::NODES,
        tls: Some(acceptor),
        router: node_router(&app),
    };
    let tasks = vec![
        tokio::spawn(serve(http_side, app.clone())),
        tokio::spawn(serve(node_side, app.clone())),
        tokio::spawn(listen(app.clone())),
        tokio::spawn(upkeep::sweep(app.clone())),
        tokio::spawn(upkeep::forget(app.clone())),
        tokio::spawn(upkeep::collect(app.clone())),
        tokio::spawn(tell_refusals(app.clone())),
    ];
    if let Some(path) = ready_file {
        write_ready_file(&path, http, nodes).context("MFAAS_READY_FILE")?;
    }
    tracing::info!(%http, %nodes, "serving");
    Ok(Running { app, http, nodes, tasks })
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

/// Whoever waits for the file never sees half of it.
fn write_ready_file(path: &Path, http: SocketAddr, nodes: SocketAddr) -> std::io::Result<()> {
    let ready = serde_json::json!({
        "pid": std::process::id(), "http": http.to_string(), "nodes": nodes.to_string(),
    });
    let half = path.with_extension("half");
    std::fs::write(&half, ready.to_string())?;
    std::fs::rename(&half, path)
}
