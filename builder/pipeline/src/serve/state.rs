//! What the builds of one builder share.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::time::Duration;

use mfaas_blobs::Blobs;
use mfaas_catalog::Catalog;
use tokio::sync::watch;

use crate::deps::Deps;
use crate::error::BuilderError;
use crate::stages::BuildContext;

/// How long it waits before it tries a database again that did not answer.
pub(super) const RETRY_AFTER: Duration = Duration::from_secs(2);

/// What every build shares.
#[derive(Debug)]
pub(super) struct BuilderState {
    pub(super) catalog: Catalog,
    pub(super) blobs: Blobs,
    pub(super) context: BuildContext,
    /// Where the acquirer puts caches that hold more than what ships.
    pub(super) site_deps: Option<PathBuf>,
    /// The cache that was opened last.
    pub(super) deps: tokio::sync::Mutex<Arc<Deps>>,
    /// Names this start of the program.
    pub(super) instance: String,
    /// Turns true when running builds are to be cancelled.
    pub(super) stopping: watch::Sender<bool>,
    /// A build was let down by the machine since it was looked at.
    pub(super) let_down: AtomicBool,
    /// How many renewals and endings wait for a database that does not answer. Until they are through nothing is
    /// claimed: a lease that ran out meanwhile may be this program's own.
    pub(super) unanswered: AtomicUsize,
}

impl BuilderState {
    /// The context for one build: a sandbox of its own, and the dependencies of this moment.
    pub(super) async fn build_context(&self) -> Result<BuildContext, BuilderError> {
        let deps = self.dependencies().await?;
        Ok(BuildContext { sandbox: self.context.sandbox.separately(), deps, ..self.context.clone() })
    }

    /// The newest cache of the site, or what ships. One that cannot be used is said and left alone: what is
    /// only in it waits.
    async fn dependencies(&self) -> Result<Arc<Deps>, BuilderError> {
        let (shipped, toolchain) = (&self.context.deps, self.context.toolchain.id());
        let Some(site) = &self.site_deps else { return Ok(shipped.clone()) };
        let newest = self.catalog.newest_cache(&shipped.key(), &toolchain).await?;
        let key = newest.map_or(shipped.key(), |cache| cache.key);
        let mut current = self.deps.lock().await;
        if key == shipped.key() {
            *current = shipped.clone();
        } else if current.key() != key {
            match Deps::open(&site.join(key.to_string()), toolchain) {
                Ok(opened) => {
                    tracing::info!(%key, "switched to another dependency cache");
                    *current = Arc::new(opened);
                }
                Err(error) => tracing::error!(%key, %error, "the site's dependencies cannot be used"),
            }
        }
        Ok(current.clone())
    }
}
