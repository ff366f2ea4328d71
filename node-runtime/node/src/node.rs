//! The parts put together: start in order, run, stop in order.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use metrics_exporter_prometheus::PrometheusHandle;
use mfaas_attest::TrustedRoot;
use mfaas_dispatch::Limits;
use mfaas_ident::Class;
use mfaas_process_metrics::MetricsListener;
use mfaas_startup::{Shutdown, write_ready_file};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde_json::Map;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::agent::{Agent, Reporter, Status};
use crate::config::{Config, WorkerConfig};
use crate::cores::Cores;
use crate::directives::Follower;
use crate::ingress::{self, Callers, Face, Hosts, Peers};
use crate::isolation::Isolation;
use crate::local_api::{self, LocalSocket};
use crate::logs;
use crate::meters;
use crate::primary;
use crate::renewal::Renewal;
use crate::serving::{self, Caches, Callees, Dispatcher, Fleet, NodeServices, Protection, WorkerSetup};
use crate::state::StateDir;
use crate::upstream::Upstream;
use crate::usage::{self, Load};

/// Accepted calls get this long to end when the node stops.
const DRAIN_WAIT_MAX: Duration = Duration::from_secs(5);
/// Calls that were given up get this long to be answered as lost.
const GIVE_UP_WAIT_MAX: Duration = Duration::from_secs(1);
/// Workers get this long after it.
const WORKERS_WAIT_MAX: Duration = Duration::from_secs(2);
/// The last log lines get this long.
const LAST_LINES_WAIT_MAX: Duration = Duration::from_secs(1);
/// The last report of usage gets this long.
const LAST_USAGE_WAIT_MAX: Duration = Duration::from_secs(1);
/// Upper bounds of the histograms of run times and of whole requests in seconds: 1 µs to 10 s.
const RUN_SECONDS: &[f64] = &[
    1e-6, 2e-6, 5e-6, 1e-5, 2e-5, 5e-5, 1e-4, 2e-4, 5e-4, 1e-3, 2e-3, 5e-3, 1e-2, 2e-2, 5e-2, 0.1, 0.5, 1.0,
    5.0, 10.0,
];

/// Runs the node until SIGTERM or SIGINT.
pub(crate) async fn serve(config: Config, cores: Cores) -> anyhow::Result<()> {
    raise_descriptor_limit();
    let mut shutdown = Shutdown::listen().context("listening for SIGTERM and SIGINT")?;
    let metrics = config.metrics_listen.map(MetricsListener::bind).transpose()?;
    let metrics_address = metrics.as_ref().map(MetricsListener::address);
    let prometheus = start_metrics()?;
    let state = StateDir::open(&config.membership.state_dir)?;
    let identity = state
        .identity()?
        .context("this node has not joined: run `mfaas-node join --token-file FILE` first")?;
    let upstream = Upstream::joined(&config.membership, &identity)?;
    let root = read_root(&config.root_key_file)?;

    let node = Node::start(&config, cores, &state, upstream)?;
    // When its threads are there: not all of them belong into real time.
    if let Some(socket) = &config.isolation_socket {
        primary::announce(socket.clone(), config.workers.cores.iter().copied().collect())
            .context("MFAAS_ISOLATION_SOCKET")?;
    }
    let callers = Arc::new(Callers::new(config.ingress.caller_share));
    let at_ingress = metrics.is_none().then(|| prometheus.clone());
    if let Some(listener) = metrics {
        let usage = Arc::clone(&node.services.usage);
        listener.show(prometheus.clone(), move || usage.render())?;
    }
    let face = Face::new(Arc::clone(&node.dispatcher), at_ingress, Arc::clone(&callers));
    let (upstream, dispatcher) = (node.upstream.clone(), Arc::clone(&node.dispatcher));
    let (agent, status) = Agent::new(root, state.clone(), upstream, dispatcher, callers)?;
    let listeners = Listeners::bind(&config).await?;
    let address = listeners.address;

    let peers = Peers::new(config.ingress.bounds.clone());
    let mut answering = Answering::start(agent, listeners, face, peers, node.local_host(&config))?;
    let stopping = answering.stop.subscribe();
    let ingress_url = ingress_url(&config, address);
    let renewal = Renewal {
        membership: config.membership.clone(),
        state: state.clone(),
        upstream: node.upstream.clone(),
    };
    let renewal = tokio::spawn(renewal.run());
    let isolation = config.isolation_socket.clone().map(|socket| {
        let isolation = Isolation::new(socket, node.upstream.clone());
        tokio::spawn(isolation.run())
    });
    let reporting = node.start_reporting(state, status, prometheus, ingress_url, stopping);
    announce(&config, (address, metrics_address), &node.services.protection)?;

    tokio::select! {
        signal = shutdown.requested() => tracing::info!(signal, "stopping"),
        // Workers end with the node, and whoever supervises it starts it again.
        ended = answering.ended(&node.dispatcher) => anyhow::bail!("{ended} ended"),
    }
    renewal.abort();
    if let Some(isolation) = isolation {
        isolation.abort();
    }
    answering.stop(&node.dispatcher).await;
    let gone = node.fleet.ended(WORKERS_WAIT_MAX).await;
    reporting.stop().await;
    node.report_last_usage().await;
    let _ = tokio::task::spawn_blocking(|| mfaas_trace::finish(LAST_LINES_WAIT_MAX)).await;
    anyhow::ensure!(gone, "some workers did not end in time");
    Ok(())
}

/// The dispatcher and the workers behind it, and who hears of them.
struct Node {
    /// This life of the node, for the server.
    boot: uuid::Uuid,
    upstream: Upstream,
    services: NodeServices,
    dispatcher: Arc<Dispatcher>,
    fleet: Fleet,
    /// That run calls.
    cores: usize,
}

impl Node {
    /// Starts dispatcher, loader and workers. What the directives on the disk say holds from the first call on.
    fn start(config: &Config, cores: Cores, state: &StateDir, upstream: Upstream) -> anyhow::Result<Self> {
        let services = NodeServices {
            protection: Arc::new(Protection::taking(config.workers.speculation)),
            callees: Arc::new(Callees::new(config.ingress.caller_share)),
            caches: Arc::new(Caches::within(config.cache_memory_mib << 20)),
            broker: config.broker_socket.clone(),
            ..NodeServices::default()
        };
        services.standing.recall(state)?;
        let setup = worker_setup(&config.workers, cores, config.isolation_socket.clone())?;
        let limits = limits(&config.workers, &setup, &services.protection)?;
        let (dispatcher, fleet) =
            serving::start(limits, services.clone(), setup).context("starting the dispatcher")?;
        Ok(Self {
            boot: uuid::Uuid::now_v7(),
            upstream,
            services,
            dispatcher,
            fleet,
            cores: config.workers.count,
        })
    }

    /// Whom local clients call, and what they may.
    fn local_host(&self, config: &Config) -> local_api::Host {
        let grants = config.local_api.grants.clone();
        local_api::Host { dispatcher: Arc::clone(&self.dispatcher), grants }
    }

    /// Starts what tells the server and the operator of the node, and follows the server's directives.
    fn start_reporting(
        &self,
        state: StateDir,
        status: watch::Receiver<Status>,
        prometheus: PrometheusHandle,
        ingress_url: String,
        stopping: watch::Receiver<bool>,
    ) -> Reporting {
        let (boot, upstream, dispatcher) = (self.boot, &self.upstream, &self.dispatcher);
        let NodeServices { logs, standing, usage, caches, protection, .. } = self.services.clone();
        let reporter = Reporter {
            upstream: upstream.clone(),
            dispatcher: Arc::clone(dispatcher),
            status: status.clone(),
            boot,
            ingress_url,
            protection: Arc::clone(&protection),
        };
        let follower =
            Follower { standing, dispatcher: Arc::clone(dispatcher), state, upstream: upstream.clone() };
        let counted = Arc::clone(dispatcher);
        let load = Load::of(move || counted.snapshot_of(Class::Micro), self.cores);
        let (name, build) = (env!("CARGO_PKG_NAME"), mfaas_ident::BuildVersion::this().as_str());
        let watchers = [
            tokio::spawn(reporter.run()),
            tokio::spawn(meters::watch(Arc::clone(dispatcher), status, protection, caches)),
            tokio::spawn(follower.run()),
            tokio::spawn(mfaas_process_metrics::watch(name, build, prometheus)),
            tokio::spawn(usage::report_periodically(usage, load, upstream.clone(), boot)),
        ];
        let upstream = upstream.clone();
        let shipper = tokio::spawn(async move { logs::ship(&logs, &upstream, boot, stopping).await });
        Reporting { watchers, shipper }
    }

    /// What calls cost since the last report; it is lost if the server does not take it now.
    async fn report_last_usage(&self) {
        let report = usage::report_all(&self.services.usage, &self.upstream, self.boot);
        match tokio::time::timeout(LAST_USAGE_WAIT_MAX, report).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::warn!(%error, "the last usage could not be reported and is lost"),
            Err(_) => tracing::warn!("the last usage could not be reported in time and is lost"),
        }
    }
}

/// Where calls come in.
struct Listeners {
    ingress: TcpListener,
    address: SocketAddr,
    local: Option<LocalSocket>,
}

impl Listeners {
    async fn bind(config: &Config) -> anyhow::Result<Self> {
        let listen = config.ingress.listen;
        let ingress = TcpListener::bind(listen)
            .await
            .with_context(|| format!("MFAAS_INGRESS_LISTEN: listening on {listen}"))?;
        let address = ingress.local_addr().context("reading the ingress address")?;
        let socket = config.local_api.socket.as_deref();
        let local = socket.map(LocalSocket::bind).transpose().context("MFAAS_LOCAL_SOCKET")?;
        Ok(Self { ingress, address, local })
    }
}

/// What brings functions and calls to the dispatcher. None of it ends by itself: without one part of it the node
/// would only seem to work.
struct Answering {
    agent: JoinHandle<()>,
    ingress: JoinHandle<()>,
    /// Without a local API it only waits for the end.
    local_api: JoinHandle<anyhow::Result<()>>,
    stop: watch::Sender<bool>,
}

impl Answering {
    fn start(
        agent: Agent,
        listeners: Listeners,
        face: Face,
        peers: Arc<Peers>,
        local_host: local_api::Host,
    ) -> anyhow::Result<Self> {
        let (stop, mut stopping) = watch::channel(false);
        let agent = tokio::spawn(agent.run());
        let hosts = Hosts::start(std::thread::available_parallelism().map_or(1, usize::from))?;
        let calls = (Arc::new(face), peers);
        let ingress = tokio::spawn(ingress::serve(listeners.ingress, hosts, calls, stopping.clone()));
        let local_api = tokio::spawn(async move {
            match listeners.local {
                Some(socket) => local_api::serve(socket, local_host, stopping).await,
                None => stopping.wait_for(|stop| *stop).await.map(drop).context("waiting for the end"),
            }
        });
        Ok(Self { agent, ingress, local_api, stop })
    }

    /// Waits for the end of a part, for ever while all is well; which it was.
    async fn ended(&mut self, dispatcher: &Dispatcher) -> &'static str {
        tokio::select! {
            _ = &mut self.agent => "the agent",
            () = dispatcher.ended() => "the dispatcher",
            _ = &mut self.ingress => "the ingress",
            _ = &mut self.local_api => "the local API",
        }
    }

    /// Takes no more functions and calls. The ingress closes its listener and ends what is open; accepted calls still get
    /// answers.
    async fn stop(self, dispatcher: &Dispatcher) {
        self.agent.abort();
        self.stop.send_replace(true);
        drain(dispatcher).await;
        let _ = self.ingress.await;
        let _ = self.local_api.await;
    }
}

/// What tells others of the node.
struct Reporting {
    watchers: [JoinHandle<()>; 5],
    /// Sends the last log lines when the node stops.
    shipper: JoinHandle<()>,
}

impl Reporting {
    /// Waits for the last log lines. Afterwards no report of usage is on its way, which the last one could otherwise overtake.
    async fn stop(self) {
        let _ = tokio::time::timeout(LAST_LINES_WAIT_MAX, self.shipper).await;
        for watcher in self.watchers {
            watcher.abort();
            let _ = watcher.await;
        }
    }
}

/// The programs beside this one, and the workers that the configuration asks for.
fn worker_setup(
    config: &WorkerConfig,
    cores: Cores,
    isolation: Option<PathBuf>,
) -> anyhow::Result<WorkerSetup> {
    Ok(WorkerSetup {
        worker: sibling("mfaas-worker")?,
        loader: sibling("mfaas-loader")?,
        cores,
        sharing: config.sharing,
        minimum: config.minimum,
        isolated: config.isolated.clone(),
        bulk: config.bulk,
        isolation,
    })
}

/// The scheduler's limits on this machine. Tenants share workers only where what the site trusts is there.
fn limits(config: &WorkerConfig, setup: &WorkerSetup, protection: &Protection) -> anyhow::Result<Limits> {
    let started = serving::ask_protection(&setup.worker, protection.speculation())
        .context("asking a worker what holds calls")?;
    let shares = config.sharing.allows(started.keys.on);
    protection.record(started);
    protection.pools_are(shares, config.sharing, config.minimum);
    Ok(Limits {
        shared_workers: if shares { config.count } else { 0 },
        cores: config.count,
        workers_max: config.processes_max,
        ..Limits::NODE
    })
}

/// Where callers are told that the ingress is.
fn ingress_url(config: &Config, address: SocketAddr) -> String {
    if config.ingress.advertise.is_none() && address.ip().is_unspecified() {
        tracing::warn!(
            %address, "nobody reaches the ingress at the address that it listens on: set MFAAS_INGRESS_ADVERTISE"
        );
    }
    config.ingress.advertise.clone().unwrap_or_else(|| format!("http://{address}"))
}

/// Says where the node is, to people and to the program that waits for the ready file.
fn announce(
    config: &Config,
    (address, metrics): (SocketAddr, Option<SocketAddr>),
    protection: &Protection,
) -> anyhow::Result<()> {
    if let Some(path) = &config.ready_file {
        let ready = [("ingress", address.to_string()), ("workers", protection.text().to_string())];
        let ready = ready.into_iter().chain(metrics.map(|address| ("metrics", address.to_string())));
        let ready = ready.map(|(name, value)| (name.to_owned(), value.into()));
        write_ready_file(path, Map::from_iter(ready)).context("MFAAS_READY_FILE")?;
    }
    let metrics = metrics.map(tracing::field::display);
    tracing::info!(%address, metrics, node = %config.membership.name, workers = config.workers.count, "the node is up");
    Ok(())
}

/// Refuses new calls and waits until the accepted ones are answered; those that take too long lose
/// their worker and are answered as lost.
async fn drain(dispatcher: &Dispatcher) {
    let mut idle = pin!(dispatcher.stop());
    if tokio::time::timeout(DRAIN_WAIT_MAX, &mut idle).await.is_err() {
        tracing::warn!("calls that did not end are given up");
        dispatcher.kill_workers();
        if tokio::time::timeout(GIVE_UP_WAIT_MAX, idle).await.is_err() {
            tracing::error!("some calls were not answered");
        }
    }
}

fn start_metrics() -> anyhow::Result<PrometheusHandle> {
    let buckets = [("mfaas_run_seconds", RUN_SECONDS), (ingress::REQUEST_SECONDS, RUN_SECONDS)];
    let prometheus = mfaas_process_metrics::install_recorder(&buckets).context("setting up metrics")?;
    meters::describe();
    Ok(prometheus)
}

fn read_root(path: &Path) -> anyhow::Result<TrustedRoot> {
    let content = std::fs::read_to_string(path)
        .with_context(|| format!("MFAAS_ROOT_KEY_FILE: reading {}", path.display()))?;
    TrustedRoot::of_file(&content).with_context(|| format!("MFAAS_ROOT_KEY_FILE: {}", path.display()))
}

/// Worker and loader lie beside this program, so that all are of one release.
fn sibling(name: &str) -> anyhow::Result<PathBuf> {
    let own = std::env::current_exe().context("finding this program")?;
    let program = own.with_file_name(name);
    anyhow::ensure!(program.is_file(), "{} does not exist", program.display());
    Ok(program)
}

/// Each image is a descriptor here.
fn raise_descriptor_limit() {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    if let Err(error) = setrlimit(Resource::Nofile, raised) {
        tracing::warn!(%error, "the limit of open files stays as it is");
    }
}
