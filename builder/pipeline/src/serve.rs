//! `serve`: takes builds from the registry, one lease each, and ends every one of them definitely.
//!
//! A build runs on a thread of its own and knows no database; what it tells is written by a
//! task, its lease is renewed by another, and its ending is one transaction that only the
//! holder of the highest fencing token can commit. No transaction is open while hostile code
//! runs.

mod lease;
mod state;

use mfaas_startup::{Shutdown, write_ready_file};
use serde_json::Map;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant, SystemTime};

use mfaas_blobs::Blobs;
use mfaas_catalog::{Catalog, CatalogError, Channel, ClaimedBuild};
use mfaas_delivery::DeploymentState;
use mfaas_rules::limits::LEASE_SECONDS;
use mfaas_trace::Work;
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::config::ServeConfig;
use crate::deps::Deps;
use crate::error::BuilderError;
use crate::health;
use crate::meters::{self, Shown};
use crate::sandbox::Sandbox;
use crate::stages::{self, BuildContext};
use crate::toolchain::Toolchain;
use crate::workspace::InstanceDirectory;
use state::{BuilderState, RETRY_AFTER};

/// Connections to the database: the listener, claims, and heartbeats beside events.
const CONNECTIONS_MAX: u32 = 4;
/// How long this program waits for a notification before it looks by itself: a lease that ran
/// out notifies nobody.
const LOOK_EVERY: Duration = Duration::from_secs(2);
/// How long the machine is believed to be well before it is looked at again. A build that it lets down is a reason to
/// look at once.
const WELL_FOR: Duration = Duration::from_secs(30);
/// How long running builds may go on after SIGTERM before they are given back.
const FINISH_WITHIN: Duration = Duration::from_secs(5);
/// How long cancelled builds may take to clear up.
const CLEAR_WITHIN: Duration = Duration::from_secs(4);
/// How long the last spans and log lines may take on their way to a collector.
const TELL_WITHIN: Duration = Duration::from_secs(1);
/// Builds at a time: one a core, within reason.
const BUILDS_MAX: usize = 8;

/// Runs until SIGTERM or SIGINT.
pub(crate) fn serve(config: &ServeConfig) -> Result<(), BuilderError> {
    let instance = uuid::Uuid::new_v4().to_string();
    let directory = InstanceDirectory::make(&config.work, &instance)?;
    let sandbox = Sandbox::new(config.sandbox_minimum)?.placed_by(config.isolation_socket.clone());
    let programs = stages::Programs::find()?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(BuilderError::io("the asynchronous runtime"))?;
    let result = runtime.block_on(run(config, sandbox, programs, &directory, instance));
    runtime.shutdown_timeout(CLEAR_WITHIN);
    result
}

async fn run(
    config: &ServeConfig,
    sandbox: Sandbox,
    programs: stages::Programs,
    directory: &InstanceDirectory,
    instance: String,
) -> Result<(), BuilderError> {
    let mut stop = Shutdown::listen().map_err(BuilderError::io("the signals of this process"))?;
    let shown = Shown::start(config.metrics_listen, env!("CARGO_PKG_NAME"))?;
    meters::begin_builder(slots());
    let catalog = tokio::select! {
        catalog = Catalog::connect_when_ready(&config.database_url, CONNECTIONS_MAX) => catalog?,
        _ = stop.requested() => return Ok(()),
    };
    shown.with(&catalog);
    let blobs = Blobs::open(&config.blobs_url)?;
    let materials = tokio::select! {
        materials = materials_when_there(config, &catalog, &instance) => materials?,
        _ = stop.requested() => {
            tracing::info!("stopped before it served");
            catalog.builder_gone(&instance).await?;
            return Ok(());
        }
    };
    let (toolchain, deps) = materials;
    let context = BuildContext::new(sandbox, toolchain, deps, directory.path().to_path_buf(), programs);
    let deps = tokio::sync::Mutex::new(context.deps.clone());
    let site_deps = config.site_deps.clone();
    let stopping = watch::Sender::new(false);
    let (let_down, unanswered) = Default::default();
    let builder =
        BuilderState { catalog, blobs, context, site_deps, deps, instance, stopping, let_down, unanswered };
    let builder = Arc::new(builder);
    tracing::info!(
        instance = %builder.instance, toolchain = %builder.context.toolchain.id(), deps = %builder.context.deps.key(),
        sandbox = ?builder.context.sandbox.level(), limits = %mfaas_sandbox::tree_limits(mfaas_sandbox::Filter::Compiler), "serving"
    );
    if let Some(path) = &config.ready_file {
        let level = ("sandbox".to_owned(), serde_json::json!(builder.context.sandbox.level()));
        let ready = Map::from_iter([level].into_iter().chain(shown.ready()));
        write_ready_file(path, ready).map_err(BuilderError::io(path))?;
    }
    let mut builds = JoinSet::new();
    work_until(&builder, &mut builds, &mut stop).await;
    drain(&builder, &mut builds).await;
    builder.catalog.builder_gone(&builder.instance).await?;
    builder.catalog.close().await;
    mfaas_trace::finish(TELL_WITHIN);
    Ok(())
}

/// Toolchain and dependency cache, waited for as long as one of them is not there or not whole: a disk may be mounted late,
/// a copy may be under way. Meanwhile the registry says of this builder that it cannot build, and why.
async fn materials_when_there(
    config: &ServeConfig,
    catalog: &Catalog,
    instance: &str,
) -> Result<(Toolchain, Deps), BuilderError> {
    let mut said: Option<String> = None;
    loop {
        let (toolchain, deps) = (config.toolchain.clone(), config.deps.clone());
        let opened = tokio::task::spawn_blocking(move || {
            let toolchain = Toolchain::open(&toolchain)?;
            let deps = Deps::open(&deps, toolchain.id())?;
            Ok::<_, BuilderError>((toolchain, deps))
        });
        let cause = match opened.await.map_err(|_| BuilderError::Panicked)? {
            Ok(materials) => {
                if said.is_some() {
                    tracing::info!("this machine can build again");
                    tell_health(catalog, instance, None).await;
                    meters::builder_is_well(true);
                }
                return Ok(materials);
            }
            Err(error) => error.to_string(),
        };
        if said.as_ref() != Some(&cause) {
            tracing::error!(cause, "this machine cannot build; no builds are taken until it can");
        }
        // Again and again: whoever has not been heard for half a minute is not counted.
        tell_health(catalog, instance, Some(&cause)).await;
        meters::builder_is_well(false);
        said = Some(cause);
        tokio::time::sleep(RETRY_AFTER).await;
    }
}

/// Records what is wrong with this machine, or that nothing is.
async fn tell_health(catalog: &Catalog, instance: &str, cause: Option<&str>) {
    if let Err(error) = catalog.builder_is(instance, cause).await {
        tracing::warn!(%error, "the health of this machine could not be recorded in the registry");
    }
}

/// Builds at a time.
fn slots() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from).min(BUILDS_MAX)
}

/// Claims and starts builds until told to stop. A database that does not answer is waited for.
async fn work_until(builder: &Arc<BuilderState>, builds: &mut JoinSet<()>, stop: &mut Shutdown) {
    let slots = slots();
    let mut health = Health::default();
    loop {
        let mut wakes = match builder.catalog.listen(&[Channel::Builds]).await {
            Ok(wakes) => wakes,
            Err(error) => {
                tracing::warn!(%error, "cannot listen for builds; trying again");
                tokio::select! {
                    _ = stop.requested() => return,
                    () = tokio::time::sleep(RETRY_AFTER) => continue,
                }
            }
        };
        loop {
            while builds.len() < slots {
                // Bringing what the site has may take minutes. A claim is never left in its middle.
                let is_allowed = tokio::select! {
                    biased;
                    _ = stop.requested() => return,
                    is_allowed = health.allows(builder, builds.len()) => is_allowed,
                };
                if !is_allowed || !claim_one(builder, builds).await {
                    break;
                }
            }
            tokio::select! {
                _ = stop.requested() => return,
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
    async fn allows(&mut self, builder: &BuilderState, running: usize) -> bool {
        if builder.unanswered.load(Ordering::Relaxed) > 0 {
            return false;
        }
        // With little room there are fewer builds at a time, which is nothing to complain about.
        if running > 0 && health::has_room_for_builds(&builder.context, running + 1).is_err() {
            return false;
        }
        let let_down = builder.let_down.swap(false, Ordering::Relaxed);
        let is_recent = !let_down && self.well_at.is_some_and(|at| at.elapsed() < WELL_FOR);
        let has_what_the_site_has = builder.has_what_the_site_has().await;
        let is_well = is_recent && has_what_the_site_has.is_ok();
        if is_well && health::has_room_for_builds(&builder.context, 1).is_ok() {
            return true;
        }
        let found = match has_what_the_site_has {
            Ok(()) => health::check(&builder.context, &builder.blobs).await,
            Err(error) => Err(error),
        };
        self.well_at = found.is_ok().then(Instant::now);
        self.report(builder, found.as_ref().err().map(ToString::to_string)).await;
        found.is_ok()
    }

    async fn report(&mut self, builder: &BuilderState, cause: Option<String>) {
        match &cause {
            Some(cause) if !self.unwell => {
                tracing::error!(cause, "this machine cannot build; no builds are taken until it can");
            }
            None if self.unwell => tracing::info!("this machine can build again"),
            _ => {}
        }
        if self.unwell || cause.is_some() {
            tell_health(&builder.catalog, &builder.instance, cause.as_deref()).await;
        }
        self.unwell = cause.is_some();
        meters::builder_is_well(!self.unwell);
    }
}

/// Takes one build if there is one, and starts it. Answers whether it is worth asking again.
async fn claim_one(builder: &Arc<BuilderState>, builds: &mut JoinSet<()>) -> bool {
    match builder.catalog.claim(&builder.instance, Duration::from_secs(LEASE_SECONDS.into())).await {
        Ok(Some(claimed)) => {
            tracing::info!(
                deployment = %claimed.lease.deployment(), attempt = claimed.attempt, function = %claimed.function,
                "claimed"
            );
            builds.spawn(one_build(builder.clone(), claimed));
            true
        }
        Ok(None) => false,
        Err(error) => {
            tracing::warn!(%error, "cannot claim a build; trying again later");
            false
        }
    }
}

async fn one_build(builder: Arc<BuilderState>, claimed: ClaimedBuild) {
    let deployment = claimed.lease.deployment();
    let (_held, began, began_at) = (meters::HeldLease::new(), Instant::now(), SystemTime::now());
    let left = lease::execute(&builder, &claimed).await;
    let outcome = match &left {
        Ok(DeploymentState::Received) => "returned",
        Ok(state) => state.as_str(),
        Err(BuilderError::Catalog(CatalogError::Fenced)) => meters::LOST,
        Err(_) => "given_up",
    };
    meters::build_left(outcome, began.elapsed());
    if let Some(place) = &claimed.trace_parent {
        let attributes = [
            ("mfaas.deployment", deployment.to_string()),
            ("mfaas.outcome", outcome.to_owned()),
            ("mfaas.attempt", claimed.attempt.to_string()),
        ];
        let (ended, attributes) = (SystemTime::now(), attributes.as_slice());
        mfaas_trace::record(place, Work { name: "build", began: began_at, ended, attributes });
    }
    match left {
        Ok(state) => tracing::info!(%deployment, %state, "build ended"),
        Err(error) => tracing::error!(%deployment, %error, "build given up"),
    }
}

/// Lets running builds finish for a while, then cancels the rest; a cancelled build gives its
/// lease back.
async fn drain(builder: &BuilderState, builds: &mut JoinSet<()>) {
    let _ = tokio::time::timeout(FINISH_WITHIN, async { while builds.join_next().await.is_some() {} }).await;
    builder.stopping.send_replace(true);
    let _ = tokio::time::timeout(CLEAR_WITHIN, async { while builds.join_next().await.is_some() {} }).await;
}
