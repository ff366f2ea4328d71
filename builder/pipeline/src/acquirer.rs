//! `acquire`: answers requests for crates, of people and of deployments.
//!
//! A request is resolved beside the site's crates, and what it pulls in is downloaded, read, compiled with
//! the lint that nothing undoes, judged, and put before reviewers; when they have said yes, the site's next
//! dependency cache is built. Each of these steps ends in one transaction, and each begins by looking what
//! there is: a kill between two of them repeats one. There is one acquirer at a time, because a site has one
//! resolution; another one that is started waits until the first is gone.
//!
//! Nothing here decides: rules judge, people vote, and the database holds both.

mod compare;
mod examine;
mod offer;
mod site_cache;
mod state;

use mfaas_startup::{Shutdown, write_ready_file};
use serde_json::Map;
use std::sync::Arc;
use std::time::{Duration, Instant};

use mfaas_attest::SandboxLevel;
use mfaas_blobs::Blobs;
use mfaas_catalog::{self as catalog, Catalog, Channel, DependencyCache, Request, RequestStatus};
use mfaas_rules::codes;

use crate::acquire::{AcquireContext, AcquireError, first_error, is_about_crates};
use crate::config::AcquireConfig;
use crate::deps::{self, Deps};
use crate::error::BuilderError;
use crate::meters::{self, Shown};
use crate::toolchain::Toolchain;
use examine::Examined;
use offer::Offer;
use state::AcquirerState;

/// Connections to the database: the acquirer's own, the listener, and one to look for the place.
const CONNECTIONS_MAX: u32 = 4;
/// How long this program waits for a wake-up before it looks by itself.
const LOOK_EVERY: Duration = Duration::from_secs(5);
/// How long it waits after something of ours went wrong: a registry or a database that did not answer.
const RETRY_AFTER: Duration = Duration::from_secs(10);

/// Runs until SIGTERM or SIGINT.
pub(crate) fn serve(config: &AcquireConfig) -> Result<(), BuilderError> {
    let toolchain = Toolchain::open(&config.toolchain)?;
    let id = toolchain.id();
    let base = Deps::open(&config.deps, id)?;
    let context = AcquireContext::new(toolchain, &config.work, config.sandbox_minimum)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(BuilderError::io("the asynchronous runtime"))?;
    let result = runtime.block_on(async {
        let shown = Shown::start(config.metrics_listen, "mfaas-acquirer")?;
        meters::begin_acquirer();
        let catalog = Catalog::connect_when_ready(&config.database_url, CONNECTIONS_MAX).await?;
        shown.with(&catalog);
        let blobs = Blobs::open(&config.blobs_url)?;
        let state = AcquirerState {
            catalog: catalog.clone(),
            blobs,
            toolchain: id,
            base,
            seed: config.seed.clone(),
            caches: config.site_deps.clone(),
            automatic: config.automatic_admission,
            context: Arc::new(context),
        };
        let mut stop = Shutdown::listen().map_err(BuilderError::io("the signals of this process"))?;
        if let Some(path) = &config.ready_file {
            let level = ("sandbox".to_owned(), serde_json::json!(state.context.sandbox_level()));
            let ready = Map::from_iter([level].into_iter().chain(shown.ready()));
            write_ready_file(path, ready).map_err(BuilderError::io(path))?;
        }
        if state.context.sandbox_level() != SandboxLevel::Full {
            // Build scripts of crates that nobody has decided about run here. Less than the whole sandbox will do
            // for what a site has reviewed, and not for these.
            tracing::error!("this machine has no full sandbox: requests for crates wait until one is there");
            stop.requested().await;
            return Ok(());
        }
        tracing::info!(toolchain = %id, base = %state.base.key(), automatic = state.automatic, "acquiring");
        tokio::select! {
            _ = stop.requested() => Ok(()),
            () = work(&state, &catalog) => Ok(()),
        }
    });
    // A compiler that still runs dies with this process; its request is taken up again.
    runtime.shutdown_background();
    result
}

/// Never ends: a failure of ours is told and tried again.
async fn work(state: &AcquirerState, catalog: &Catalog) {
    loop {
        let ended = as_acquirer(state, catalog).await;
        meters::acquirer_is_active(false);
        if let Err(error) = ended {
            tracing::warn!(%error, "acquiring failed; trying again");
        }
        tokio::time::sleep(RETRY_AFTER).await;
    }
}

/// Takes the place when it is free, and keeps it until something fails.
async fn as_acquirer(state: &AcquirerState, catalog: &Catalog) -> Result<(), BuilderError> {
    let mut wakes = catalog.listen(&[Channel::Acquirer]).await?;
    let Some(mut session) = catalog.become_acquirer().await? else { return Ok(()) };
    tracing::info!("this is the site's acquirer now");
    meters::acquirer_is_active(true);
    deps::sweep(&state.caches)?;
    match restore(state, &mut session).await {
        // What does not compile any more after an update waits for its next use, which ends it with the reason;
        // everybody else's requests are met meanwhile.
        Err(error) if is_about_crates(&error) => {
            tracing::error!(%error, "what was allowed before cannot be built on top of what ships now");
        }
        other => other?,
    }
    let mut offer = Offer::default();
    loop {
        round(state, &mut session).await?;
        offer.complete(state, &mut session).await?;
        wakes.next(LOOK_EVERY).await?;
    }
}

/// After an update the cache that ships is another one, and what reviewers have allowed is not in it yet.
async fn restore(state: &AcquirerState, session: &mut catalog::Acquirer) -> Result<(), BuilderError> {
    let newest = session.newest_cache(&state.base.key(), &state.toolchain).await?;
    let is_there = newest.is_some_and(|cache| {
        let is_stored = cache.archive.is_some() || cache.key == state.base.key();
        is_stored && site_cache::is_there(state, &cache.key)
    });
    if !is_there && !session.extras(&state.toolchain, &[]).await?.is_empty() {
        tracing::info!("building what was allowed before on top of what ships now");
        build(state, session, &[]).await?;
    }
    Ok(())
}

async fn round(state: &AcquirerState, session: &mut catalog::Acquirer) -> Result<(), BuilderError> {
    let open = session.requests(RequestStatus::Open).await?;
    meters::requests("open", open.len());
    for request in open {
        handle(state, session, &request).await?;
    }
    compare::complete(state, session).await?;
    session.settle().await?;
    let building: Vec<i64> =
        session.requests(RequestStatus::Building).await?.iter().map(|request| request.id).collect();
    meters::requests("building", building.len());
    if !building.is_empty() {
        build_as_far_as_possible(state, session, &building).await?;
    }
    Ok(())
}

/// Finds out what a request comes down to. What cannot be offered ends it; what may pass leaves it open.
async fn handle(
    state: &AcquirerState,
    session: &mut catalog::Acquirer,
    request: &Request,
) -> Result<(), BuilderError> {
    tracing::info!(request = request.id, name = %request.name, requirement = %request.requirement, "resolving");
    match examine::examine(state, session, request).await {
        Ok(Examined::Resolved(resolved)) => Ok(session.resolved(&resolved, &state.toolchain).await?),
        Ok(Examined::Refused(reason)) => Ok(session.fail(&[request.id], codes::MF0210, reason).await?),
        Err(BuilderError::Acquire(error @ AcquireError::Network { .. })) => {
            tracing::warn!(request = request.id, %error, "the registry does not answer; the request waits");
            Ok(())
        }
        Err(error) if is_about_crates(&error) => {
            let reason = format!("crate `{}`: {}", request.name, first_error(&error.to_string()));
            Ok(session.fail(&[request.id], codes::MF0210, reason).await?)
        }
        Err(error) => Err(error),
    }
}

/// Builds for all of them, or, when that does not work, for each by itself: one crate that does not compile
/// against what it was granted must not hold up the others.
async fn build_as_far_as_possible(
    state: &AcquirerState,
    session: &mut catalog::Acquirer,
    ids: &[i64],
) -> Result<(), BuilderError> {
    match build(state, session, ids).await {
        Err(error) if is_about_crates(&error) && ids.len() == 1 => {
            let reason = format!("it cannot be built for this site: {}", first_error(&error.to_string()));
            Ok(session.fail_build(ids, codes::MF0210, &reason).await?)
        }
        Err(error) if is_about_crates(&error) => {
            for id in ids {
                Box::pin(build_as_far_as_possible(state, session, std::slice::from_ref(id))).await?;
            }
            Ok(())
        }
        other => other,
    }
}

async fn build(
    state: &AcquirerState,
    session: &mut catalog::Acquirer,
    ids: &[i64],
) -> Result<(), BuilderError> {
    let began = Instant::now();
    let built = build_and_store(state, session, ids).await;
    meters::cache_built(if built.is_ok() { "built" } else { "failed" }, began.elapsed());
    built
}

async fn build_and_store(
    state: &AcquirerState,
    session: &mut catalog::Acquirer,
    ids: &[i64],
) -> Result<(), BuilderError> {
    let extras = session.extras(&state.toolchain, ids).await?;
    let (deps, lock) = site_cache::build(state, extras).await?;
    let (key, base, toolchain) = (deps.key(), state.base.key(), state.toolchain);
    let mut hold = state.catalog.hold_blobs().await?;
    let archive = site_cache::store(state, &deps).await?;
    let cache = DependencyCache { key, base, toolchain, lock, archive };
    hold.confirm().await?;
    session.built(&cache, &deps.closures(), ids).await?;
    tracing::info!(%key, requests = ids.len(), "the site's dependencies are built");
    Ok(())
}
