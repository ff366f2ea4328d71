//! `serve`: takes builds from the registry, one lease each, and ends every one of them definitely.
//!
//! A build runs on a thread of its own and knows no database; what it tells is written by a
//! task, its lease is renewed by another, and its ending is one transaction that only the
//! holder of the highest fencing token can commit. No transaction is open while hostile code
//! runs.

mod lease;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use mfaas_attest::CageLevel;
use mfaas_blobs::Blobs;
use mfaas_catalog::{Catalog, Channel, ClaimedBuild};
use mfaas_rules::limits::LEASE_SECONDS;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::cage::Cage;
use crate::config::ServeConfig;
use crate::deps::Deps;
use crate::error::BuilderError;
use crate::health;
use crate::stages::{self, Workshop};
use crate::toolchain::Toolchain;
use crate::workspace::InstanceDirectory;

/// Connections to the database: the listener, claims, and heartbeats beside events.
const CONNECTIONS_MAX: u32 = 4;
/// How long this program waits for a notification before it looks by itself: a lease that ran
/// out notifies nobody.
const LOOK_EVERY: Duration = Duration::from_secs(2);
/// How long it waits before it tries a database again that did not answer.
const RETRY_AFTER: Duration = Duration::from_secs(2);
/// How long the machine is believed to be well before it is looked at again. A build that it lets down is a reason to
/// look at once.
const WELL_FOR: Duration = Duration::from_secs(30);
/// How long running builds may go on after SIGTERM before they are given back.
const FINISH_WITHIN: Duration = Duration::from_secs(5);
/// How long cancelled builds may take to clear up.
const CLEAR_WITHIN: Duration = Duration::from_secs(4);
/// Builds at a time: one a core, within reason.
const BUILDS_MAX: usize = 8;

/// What every build shares.
#[derive(Debug)]
struct Shop {
    catalog: Catalog,
    blobs: Blobs,
    workshop: Workshop,
    /// Where the acquirer puts caches that hold more than what ships.
    site_deps: Option<PathBuf>,
    /// The cache that was opened last.
    deps: tokio::sync::Mutex<Arc<Deps>>,
    /// Names this start of the program.
    instance: String,
    /// Turns true when running builds are to be cancelled.
    stopping: watch::Sender<bool>,
    /// A build was let down by the machine since it was looked at.
    let_down: AtomicBool,
    /// How many renewals and endings wait for a database that does not answer. Until they are through nothing is
    /// claimed: a lease that ran out meanwhile may be this program's own.
    unanswered: AtomicUsize,
}

impl Shop {
    /// The workshop for one build: a cage of its own, and the dependencies of this moment.
    async fn workshop(&self) -> Result<Workshop, BuilderError> {
        let deps = self.dependencies().await?;
        Ok(Workshop { cage: self.workshop.cage.separately(), deps, ..self.workshop.clone() })
    }

    /// The newest cache of the site, or what ships. One that cannot be used is said and left alone: what is
    /// only in it waits.
    async fn dependencies(&self) -> Result<Arc<Deps>, BuilderError> {
        let (shipped, toolchain) = (&self.workshop.deps, self.workshop.toolchain.id());
        let Some(site) = &self.site_deps else { return Ok(shipped.clone()) };
        let newest = self.catalog.newest_cache(&shipped.key(), &toolchain).await?;
        let key = newest.map_or(shipped.key(), |cache| cache.key);
        let mut current = self.deps.lock().await;
        if key == shipped.key() {
            *current = shipped.clone();
        } else if current.key() != key {
            match Deps::open(&site.join(key.to_string()), toolchain) {
                Ok(opened) => {
                    tracing::info!(%key, "other dependencies from now on");
                    *current = Arc::new(opened);
                }
                Err(error) => tracing::error!(%key, %error, "the site's dependencies cannot be used"),
            }
        }
        Ok(current.clone())
    }
}

/// Runs until SIGTERM or SIGINT.
pub(crate) fn serve(config: &ServeConfig) -> Result<(), BuilderError> {
    let instance = uuid::Uuid::new_v4().to_string();
    let directory = InstanceDirectory::make(&config.work, &instance)?;
    let toolchain = Toolchain::open(&config.toolchain)?;
    let deps = Deps::open(&config.deps, toolchain.id())?;
    let cage = Cage::new(config.cage_minimum)?;
    let workshop =
        Workshop::new(cage, toolchain, deps, directory.path().to_path_buf(), stages::find_worker()?);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(BuilderError::io("the asynchronous runtime"))?;
    let result = runtime.block_on(run(config, workshop, instance));
    runtime.shutdown_timeout(CLEAR_WITHIN);
    result
}

async fn run(config: &ServeConfig, workshop: Workshop, instance: String) -> Result<(), BuilderError> {
    let mut stop = Shutdown::listen()?;
    let catalog = Catalog::connect(&config.database_url, CONNECTIONS_MAX).await?;
    catalog.ready().await?;
    let blobs = Blobs::open(&config.blobs_url)?;
    blobs.ready().await?;
    let deps = tokio::sync::Mutex::new(workshop.deps.clone());
    let site_deps = config.site_deps.clone();
    let stopping = watch::Sender::new(false);
    let (let_down, unanswered) = Default::default();
    let shop = Shop { catalog, blobs, workshop, site_deps, deps, instance, stopping, let_down, unanswered };
    let shop = Arc::new(shop);
    tracing::info!(
        instance = %shop.instance, toolchain = %shop.workshop.toolchain.id(), deps = %shop.workshop.deps.key(),
        cage = ?shop.workshop.cage.level(), limits = %mfaas_sandbox::tree_limits(mfaas_sandbox::Filter::Compiler), "serving"
    );
    if let Some(path) = &config.ready_file {
        write_ready_file(path, shop.workshop.cage.level())?;
    }
    let mut builds = JoinSet::new();
    work_until(&shop, &mut builds, &mut stop).await;
    drain(&shop, &mut builds).await;
    shop.catalog.builder_gone(&shop.instance).await?;
    shop.catalog.close().await;
    Ok(())
}

/// Claims and starts builds until told to stop. A database that does not answer is waited for.
async fn work_until(shop: &Arc<Shop>, builds: &mut JoinSet<()>, stop: &mut Shutdown) {
    let slots = std::thread::available_parallelism().map_or(1, usize::from).min(BUILDS_MAX);
    let mut health = Health::default();
    loop {
        let mut wakes = match shop.catalog.listen(&[Channel::Builds]).await {
            Ok(wakes) => wakes,
            Err(error) => {
                tracing::warn!(%error, "cannot listen for builds; trying again");
                tokio::select! {
                    () = stop.requested() => return,
                    () = tokio::time::sleep(RETRY_AFTER) => continue,
                }
            }
        };
        loop {
            while builds.len() < slots
                && health.allows(shop, builds.len()).await
                && claim_one(shop, builds).await
            {}
            tokio::select! {
                () = stop.requested() => return,
                Some(_) = builds.join_next(), if !builds.is_empty() => {}
                wake = wakes.next(LOOK_EVERY) => if let Err(error) = wake {
                    tracing::warn!(%error, "the listening connection is lost; opening another");
                    break;
                }
            }
        }
        tokio::time::sleep(RETRY_AFTER).await;
    }
}

/// What is known of the machine.
#[derive(Debug, Default)]
struct Health {
    /// When it was found well.
    well_at: Option<Instant>,
    /// It was found unwell, and that was said.
    unwell: bool,
}

impl Health {
    /// Whether a build may be taken beside `running` others. Says once what is wrong, and once that it is not any more.
    async fn allows(&mut self, shop: &Shop, running: usize) -> bool {
        if shop.unanswered.load(Ordering::Relaxed) > 0 {
            return false;
        }
        // With little room there are fewer builds at a time, which is nothing to complain about.
        if running > 0 && health::has_room_for_builds(&shop.workshop, running + 1).is_err() {
            return false;
        }
        let let_down = shop.let_down.swap(false, Ordering::Relaxed);
        let is_recent = !let_down && self.well_at.is_some_and(|at| at.elapsed() < WELL_FOR);
        if is_recent && health::has_room_for_builds(&shop.workshop, 1).is_ok() {
            return true;
        }
        let found = health::check(&shop.workshop, &shop.blobs).await;
        self.well_at = found.is_ok().then(Instant::now);
        self.tell(shop, found.as_ref().err().map(ToString::to_string)).await;
        found.is_ok()
    }

    async fn tell(&mut self, shop: &Shop, cause: Option<String>) {
        match &cause {
            Some(cause) if !self.unwell => {
                tracing::error!(cause, "this machine cannot build; no builds are taken until it can");
            }
            None if self.unwell => tracing::info!("this machine can build again"),
            _ => {}
        }
        if (self.unwell || cause.is_some())
            && let Err(error) = shop.catalog.builder_is(&shop.instance, cause.as_deref()).await
        {
            tracing::warn!(%error, "the registry was not told how this machine is");
        }
        self.unwell = cause.is_some();
    }
}

/// Takes one build if there is one, and starts it. Answers whether it is worth asking again.
async fn claim_one(shop: &Arc<Shop>, builds: &mut JoinSet<()>) -> bool {
    match shop.catalog.claim(&shop.instance, Duration::from_secs(LEASE_SECONDS.into())).await {
        Ok(Some(claimed)) => {
            tracing::info!(
                deployment = %claimed.lease.deployment(), attempt = claimed.attempt, function = %claimed.function,
                "claimed"
            );
            builds.spawn(one_build(shop.clone(), claimed));
            true
        }
        Ok(None) => false,
        Err(error) => {
            tracing::warn!(%error, "cannot claim a build; trying again later");
            false
        }
    }
}

async fn one_build(shop: Arc<Shop>, claimed: ClaimedBuild) {
    let deployment = claimed.lease.deployment();
    match lease::carry_out(&shop, &claimed).await {
        Ok(state) => tracing::info!(%deployment, %state, "build ended"),
        Err(error) => tracing::error!(%deployment, %error, "build given up"),
    }
}

/// Lets running builds finish for a while, then cancels the rest; a cancelled build gives its
/// lease back.
async fn drain(shop: &Shop, builds: &mut JoinSet<()>) {
    let _ = tokio::time::timeout(FINISH_WITHIN, async { while builds.join_next().await.is_some() {} }).await;
    shop.stopping.send_replace(true);
    let _ = tokio::time::timeout(CLEAR_WITHIN, async { while builds.join_next().await.is_some() {} }).await;
}

/// SIGTERM and SIGINT.
pub(crate) struct Shutdown {
    terminate: Signal,
    interrupt: Signal,
}

impl Shutdown {
    pub(crate) fn listen() -> Result<Self, BuilderError> {
        let failed = BuilderError::io("the signals of this process");
        let listen = || Ok((signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?));
        let (terminate, interrupt) = listen().map_err(failed)?;
        Ok(Self { terminate, interrupt })
    }

    pub(crate) async fn requested(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}

/// Written beside and renamed, so that whoever waits for it never reads half of it.
pub(crate) fn write_ready_file(path: &Path, cage: CageLevel) -> Result<(), BuilderError> {
    let text = serde_json::json!({ "pid": std::process::id(), "cage": cage }).to_string();
    let part = path.with_extension("part");
    std::fs::write(&part, text).map_err(BuilderError::io(&part))?;
    std::fs::rename(&part, path).map_err(BuilderError::io(path))
}
