//! `acquire`: meets what people and deployments ask for.
//!
//! A request is resolved beside the site's crates, and what it pulls in is downloaded, read, compiled with
//! the lint that nothing undoes, judged, and put before reviewers; when they have said yes, the site's next
//! dependency cache is built. Each of these steps ends in one transaction, and each begins by looking what
//! there is: a kill between two of them repeats one. There is one acquirer at a time, because a site has one
//! resolution; whoever else is started waits for the place.
//!
//! Nothing here decides: rules judge, people vote, and the database holds both.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use mfaas_attest::CageLevel;
use mfaas_blobs::Blobs;
use mfaas_catalog::{self as catalog, Catalog, Channel, DependencyCache, Request, RequestStatus};
use mfaas_ident::{Digest, ToolchainId};
use mfaas_rules::codes;

use super::compare;
use super::error::AcquireError;
use super::examine::{self, Examined};
use super::offer::Offer;
use super::report::Acquirer;
use super::site_cache;
use crate::config::AcquireConfig;
use crate::deps::{self, Deps};
use crate::error::BuilderError;
use crate::serve::{Shutdown, write_ready_file};
use crate::toolchain::Toolchain;

/// Connections to the database: the acquirer's own, the listener, and one to look for the place.
const CONNECTIONS_MAX: u32 = 4;
/// How long this program waits for a wake-up before it looks by itself.
const LOOK_EVERY: Duration = Duration::from_secs(5);
/// How long it waits after something of ours went wrong: a registry or a database that did not answer.
const RETRY_AFTER: Duration = Duration::from_secs(10);

/// What every step needs.
pub(super) struct Site {
    /// To hold blobs while they are stored; everything else goes through the one acquirer's connection.
    pub(super) catalog: Catalog,
    pub(super) blobs: Blobs,
    /// Resolves, downloads, reads and compiles; blocking.
    pub(super) bench: Arc<Acquirer>,
    pub(super) toolchain: ToolchainId,
    /// The key of the cache that ships.
    pub(super) base: Digest,
    /// The seed that it was built from.
    pub(super) seed: PathBuf,
    /// Where the site's own caches go.
    pub(super) caches: PathBuf,
    /// Whether the rules may admit a crate by themselves.
    pub(super) automatic: bool,
}

/// Runs until SIGTERM or SIGINT.
pub(crate) fn serve(config: &AcquireConfig) -> Result<(), BuilderError> {
    let toolchain = Toolchain::open(&config.toolchain)?;
    let id = toolchain.id();
    let base = Deps::open(&config.deps, id)?.key();
    let bench = Acquirer::new(toolchain, &config.work, config.cage_minimum)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(BuilderError::io("the asynchronous runtime"))?;
    let result = runtime.block_on(async {
        let catalog = Catalog::connect(&config.database_url, CONNECTIONS_MAX).await?;
        catalog.ready().await?;
        let blobs = Blobs::open(&config.blobs_url)?;
        blobs.ready().await?;
        let site = Site {
            catalog: catalog.clone(),
            blobs,
            toolchain: id,
            base,
            seed: config.seed.clone(),
            caches: config.site_deps.clone(),
            automatic: config.automatic_admission,
            bench: Arc::new(bench),
        };
        let mut stop = Shutdown::listen()?;
        if let Some(path) = &config.ready_file {
            write_ready_file(path, site.bench.cage_level())?;
        }
        if site.bench.cage_level() != CageLevel::Full {
            // Build scripts of crates that nobody has decided about run here. Less than the whole cage will do
            // for what a site has reviewed, and not for these.
            tracing::error!("this machine has no full cage: requests for crates wait until one is there");
            stop.requested().await;
            return Ok(());
        }
        tracing::info!(toolchain = %id, base = %site.base, automatic = site.automatic, "acquiring");
        tokio::select! {
            () = stop.requested() => Ok(()),
            () = work(&site, &catalog) => Ok(()),
        }
    });
    // A compiler that still runs dies with this process; its request is met again.
    runtime.shutdown_background();
    result
}

/// Never ends: a failure of ours is told and tried again.
async fn work(site: &Site, catalog: &Catalog) {
    loop {
        if let Err(error) = as_acquirer(site, catalog).await {
            tracing::warn!(%error, "acquiring failed; trying again");
        }
        tokio::time::sleep(RETRY_AFTER).await;
    }
}

/// Takes the place when it is free, and keeps it until something fails.
async fn as_acquirer(site: &Site, catalog: &Catalog) -> Result<(), BuilderError> {
    let mut wakes = catalog.listen(&[Channel::Acquirer]).await?;
    let Some(mut office) = catalog.become_acquirer().await? else { return Ok(()) };
    tracing::info!("this is the site's acquirer now");
    deps::sweep(&site.caches)?;
    match restore(site, &mut office).await {
        // What does not compile any more after an update waits for its next use, which ends it with the reason;
        // everybody else's requests are met meanwhile.
        Err(error) if is_about_crates(&error) => {
            tracing::error!(%error, "what was allowed before cannot be built on top of what ships now");
        }
        other => other?,
    }
    let mut offer = Offer::default();
    loop {
        round(site, &mut office).await?;
        offer.complete(site, &mut office).await?;
        wakes.next(LOOK_EVERY).await?;
    }
}

/// After an update the cache that ships is another one, and what reviewers have allowed is not in it yet.
async fn restore(site: &Site, office: &mut catalog::Acquirer) -> Result<(), BuilderError> {
    let newest = office.newest_cache(&site.base, &site.toolchain).await?;
    let is_there = newest.is_some_and(|cache| site_cache::is_there(site, &cache.key));
    if !is_there && !office.extras(&site.toolchain, &[]).await?.is_empty() {
        tracing::info!("building what was allowed before on top of what ships now");
        build(site, office, &[]).await?;
    }
    Ok(())
}

async fn round(site: &Site, office: &mut catalog::Acquirer) -> Result<(), BuilderError> {
    for request in office.requests(RequestStatus::Open).await? {
        meet(site, office, &request).await?;
    }
    compare::complete(site, office).await?;
    office.settle().await?;
    let building: Vec<i64> =
        office.requests(RequestStatus::Building).await?.iter().map(|request| request.id).collect();
    if !building.is_empty() {
        build_as_far_as_possible(site, office, &building).await?;
    }
    Ok(())
}

/// Finds out what a request comes down to. What cannot be offered ends it; what may pass leaves it open.
async fn meet(site: &Site, office: &mut catalog::Acquirer, request: &Request) -> Result<(), BuilderError> {
    tracing::info!(request = request.id, name = %request.name, requirement = %request.requirement, "looking");
    match examine::examine(site, office, request).await {
        Ok(Examined::Resolved(resolved)) => Ok(office.resolved(&resolved, &site.toolchain).await?),
        Ok(Examined::Refused(reason)) => Ok(office.fail(&[request.id], codes::MF0210, reason).await?),
        Err(BuilderError::Acquire(error @ AcquireError::Network { .. })) => {
            tracing::warn!(request = request.id, %error, "the registry does not answer; the request waits");
            Ok(())
        }
        Err(error) if is_about_crates(&error) => {
            let reason = format!("crate `{}`: {}", request.name, first_error(&error.to_string()));
            Ok(office.fail(&[request.id], codes::MF0210, reason).await?)
        }
        Err(error) => Err(error),
    }
}

/// Builds for all of them, or, when that does not work, for each by itself: one crate that does not compile
/// against what it was granted must not hold up the others.
async fn build_as_far_as_possible(
    site: &Site,
    office: &mut catalog::Acquirer,
    ids: &[i64],
) -> Result<(), BuilderError> {
    match build(site, office, ids).await {
        Err(error) if is_about_crates(&error) && ids.len() == 1 => {
            let reason = format!("it cannot be built for this site: {}", first_error(&error.to_string()));
            Ok(office.fail_build(ids, codes::MF0210, &reason).await?)
        }
        Err(error) if is_about_crates(&error) => {
            for id in ids {
                Box::pin(build_as_far_as_possible(site, office, std::slice::from_ref(id))).await?;
            }
            Ok(())
        }
        other => other,
    }
}

/// Bytes of a build's failure that whoever waits, or decides, is told.
pub(super) const REASON_BYTES_MAX: usize = 1_000;

/// What cargo printed from the compiler's first error on; what compiled before is of no use to anybody.
pub(super) fn first_error(said: &str) -> String {
    let at = said.lines().position(|line| line.starts_with("error"));
    let lines: Vec<&str> = said.lines().skip(at.unwrap_or(0)).collect();
    mfaas_ident::sanitise(&lines.join("\n"), REASON_BYTES_MAX)
}

/// Whether another attempt would end in the same way.
pub(super) fn is_about_crates(error: &BuilderError) -> bool {
    match error {
        BuilderError::Acquire(AcquireError::Network { .. }) => false,
        BuilderError::Acquire(_)
        | BuilderError::Command { .. }
        | BuilderError::Deps { .. }
        | BuilderError::Unit { .. } => true,
        _ => false,
    }
}

async fn build(site: &Site, office: &mut catalog::Acquirer, ids: &[i64]) -> Result<(), BuilderError> {
    let extras = office.extras(&site.toolchain, ids).await?;
    let (key, lock) = site_cache::build(site, extras).await?;
    let cache = DependencyCache { key, base: site.base, toolchain: site.toolchain, lock };
    office.built(&cache, ids).await?;
    tracing::info!(%key, requests = ids.len(), "the site's dependencies are built");
    Ok(())
}

/// Runs what blocks on a thread of its own.
pub(super) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, BuilderError> + Send + 'static,
) -> Result<T, BuilderError> {
    tokio::task::spawn_blocking(work).await.map_err(|_| BuilderError::Panicked)?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_waits_is_told_the_first_error() {
        let said = "cargo failed: Code(101)\n   Compiling memchr v2\nerror[E0433]: cannot find `env` in `std`\n --> src/lib.rs:1:10\n";
        assert!(first_error(said).starts_with("error[E0433]: cannot find `env` in `std`\n --> src"));
        assert_eq!(first_error("the disk is full"), "the disk is full");
    }
}
