//! `mfaas-broker`: reads and changes data for the functions of a node, and asks servers for them.
//!
//! It alone holds the credentials and the connections. A node asks over a Unix socket, in the name of calls; what a call may reach
//! the node knows from signed documents. What a call asks for is a function's, and hostile: it is read here, within limits.
//!
//! Calls that have begun live here in memory, each with what it has read and wants to change ([`mfaas_kv`]). If the broker ends,
//! they are lost and have changed nothing.

mod abandoned;
mod bandwidth;
mod broker;
mod call;
mod change_audit;
mod config;
mod connection;
mod data;
mod held;
mod http;
mod kv;
mod meters;
mod objects;
mod rate;
mod reads;
mod refusal;
mod socket;
mod stored;
mod turns;
mod volume_sizes;
mod volume_store;
mod volumes;
mod wait;

use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use clap::Parser as _;
use mfaas_ident::BuildVersion;
use mfaas_kv::{KvError, RedisServer, Store};
use mfaas_outbound::Outbound;
use mfaas_startup::{Shutdown, Variables, write_ready_file};
use serde_json::{Map, Value};
use tokio::runtime::{Builder, Handle};

use crate::broker::{Broker, OBJECT_OPERATIONS, Stores};
use crate::change_audit::CHANGE_CONNECTIONS;
use crate::config::Config;
use crate::volume_store::VolumeStore;

/// How often what has expired is removed.
const SWEEP: Duration = Duration::from_secs(60);
/// How often it is summed up what resources hold, and reads are written down that are audited.
const LOOK: Duration = Duration::from_secs(5);

/// Reads and changes data for the functions of this node; settings are read from the environment.
#[derive(Debug, clap::Parser)]
#[command(name = "mfaas-broker", version = BuildVersion::this().as_str())]
struct Arguments {}

#[expect(clippy::print_stderr, reason = "the one place where this program speaks to a terminal")]
fn main() -> ExitCode {
    let Arguments {} = Arguments::parse();
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("mfaas-broker: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> anyhow::Result<()> {
    mfaas_startup::install_tls_provider()?;
    mfaas_startup::start_log()?;
    let config = Config::read(&Variables::of_process())?;
    let parallel = Builder::new_multi_thread().thread_name("parallel").enable_all().build();
    let parallel = parallel.context("starting the threads for servers and objects")?;
    // One thread: it looks for what nodes ask and what databases answer at the same time.
    let runtime = Builder::new_current_thread().enable_all().build();
    let runtime = runtime.context("starting the asynchronous runtime")?;
    let served = runtime.block_on(serve(config, parallel.handle()));
    // A disk that hangs keeps nobody.
    runtime.shutdown_background();
    parallel.shutdown_background();
    served
}

async fn serve(config: Config, parallel: &Handle) -> anyhow::Result<()> {
    let mut shutdown = Shutdown::listen().context("listening for signals")?;
    let names = (env!("CARGO_PKG_NAME"), BuildVersion::this().as_str());
    let shown = mfaas_process_metrics::show_at(config.metrics_listen, names, meters::describe)?;
    let for_objects = config.objects_url.as_ref().map_or(0, |_| OBJECT_OPERATIONS);
    let changes_at_once = config.volumes_url.is_some() || config.http_file.is_some();
    let for_changes = if changes_at_once { CHANGE_CONNECTIONS } else { 0 };
    let store = Store::open(&config.database_url, config.connections, for_objects + for_changes)
        .await
        .context("MFAAS_DATA_DATABASE_URL: opening the database of functions' data")?;
    let objects = match &config.objects_url {
        Some(url) => Some(
            objects::open(url, &store).await.context("MFAAS_OBJECTS_URL: opening the store of objects")?,
        ),
        None => None,
    };
    let volumes = match &config.volumes_url {
        Some(url) => Some(VolumeStore::open(url, &config.bounds).context("MFAAS_VOLUMES_URL")?),
        None => None,
    };
    let outbound = match &config.http_file {
        Some(file) => Some(Outbound::open(file).context("MFAAS_HTTP_FILE")?),
        None => None,
    };
    let data = open_data(store, config.redis_file.as_deref()).await.context("MFAAS_REDIS_FILE")?;
    let stores = Stores { data, objects, volumes, outbound };
    let broker = Arc::new(Broker::new(stores, config.connections, &config.bounds, parallel.clone()));
    let listener = socket::listen(&config.socket)
        .with_context(|| format!("MFAAS_BROKER_SOCKET: listening at {}", config.socket.display()))?;
    if let Some(file) = &config.ready_file {
        let shown: Map<String, Value> =
            shown.map(|address| ("metrics".to_owned(), address.to_string().into())).into_iter().collect();
        write_ready_file(file, shown).context("MFAAS_READY_FILE")?;
    }
    tracing::info!(socket = %config.socket.display(), "the broker is up");
    tokio::select! {
        () = socket::accept(&listener, &config.users, &broker) => {}
        () = sweep(broker.store(), config.bounds.audit_days) => {}
        () = sweep_objects(&broker) => {}
        () = look_after(&broker) => {}
        () = look_for_homes(&broker) => {}
        () = look_after_servers(&broker) => {}
        () = look_after_volumes(&broker) => {}
        signal = shutdown.requested() => tracing::info!(signal, "the broker stops"),
    }
    broker.audit.write(broker.store()).await;
    Ok(())
}

/// Key-value data: the database, and the servers that a file names.
async fn open_data(store: Store, redis_file: Option<&Path>) -> Result<mfaas_kv::Stores, KvError> {
    let servers = redis_file.map(RedisServer::read).transpose()?.unwrap_or_default();
    mfaas_kv::Stores::open(store, servers).await
}

/// Reaches servers that were away and looks where resources lie, again and again.
async fn look_for_homes(broker: &Broker) {
    loop {
        if let Err(error) = broker.data.reach_servers().await {
            tracing::error!(%error, "a Redis server is not used, and what lies there is refused");
        }
        if let Err(error) = broker.data.renew_homes().await {
            tracing::warn!(%error, "it could not be looked up where resources lie");
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// Moves audit records from the servers to the database and removes there what has expired, again and again.
async fn look_after_servers(broker: &Broker) {
    loop {
        match broker.data.move_audit().await {
            Ok(moved) => meters::audit_moved(moved),
            Err(error) => tracing::warn!(%error, "audit records wait at a Redis server; it is tried again"),
        }
        let may_be_more = match broker.data.sweep_servers().await {
            Ok((entries, may_be_more)) => {
                meters::swept_servers(entries);
                may_be_more
            }
            Err(error) => {
                tracing::warn!(%error, "what has expired could not be removed from a Redis server");
                false
            }
        };
        if !may_be_more {
            tokio::time::sleep(LOOK).await;
        }
    }
}

/// Sums up what resources hold and writes down reads, again and again. Until it was summed up first no resource is known to be full.
async fn look_after(broker: &Broker) {
    loop {
        broker.reads.write(broker.store()).await;
        broker.abandoned.write(broker.store()).await;
        broker.audit.write(broker.store()).await;
        match broker.stored.renew(&broker.data).await {
            Ok(true) => {}
            Ok(false) => tokio::time::sleep(LOOK).await,
            Err(error) => {
                tracing::warn!(%error, "what resources hold could not be summed up");
                tokio::time::sleep(LOOK).await;
            }
        }
    }
}

/// Looks what volumes hold, again and again.
async fn look_after_volumes(broker: &Broker) {
    let Some(volumes) = &broker.volumes else { return std::future::pending().await };
    loop {
        tokio::time::sleep(LOOK).await;
        volumes.renew_sizes();
    }
}

/// Removes objects that have no name any more, again and again.
async fn sweep_objects(broker: &Broker) {
    let Some(objects) = &broker.objects else { return std::future::pending().await };
    let mut may_be_more = false;
    loop {
        if !may_be_more {
            tokio::time::sleep(SWEEP).await;
        }
        may_be_more = objects::sweep(objects, broker.store()).await.unwrap_or_else(|error| {
            tracing::warn!(%error, "objects without a name could not be removed");
            false
        });
    }
}

/// Removes what has expired, again and again.
async fn sweep(store: &Store, audit_days: u32) {
    let mut may_be_more = false;
    loop {
        if !may_be_more {
            tokio::time::sleep(SWEEP).await;
        }
        may_be_more = match store.sweep(audit_days).await {
            Ok(swept) => {
                meters::swept(&swept);
                swept.may_be_more()
            }
            Err(error) => {
                tracing::warn!(%error, "what has expired could not be removed");
                false
            }
        };
    }
}
