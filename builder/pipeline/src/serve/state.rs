//! What the builds of one builder share.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::time::{Duration, Instant};

use mfaas_blobs::Blobs;
use mfaas_catalog::{Catalog, DependencyCache, ToolchainStanding};
use mfaas_rules::LinkedCrate;
use mfaas_rules::limits::CACHE_ARCHIVE;
use tokio::sync::watch;

use crate::deps::{self, Deps};
use crate::error::BuilderError;
use crate::meters;
use crate::stages::BuildContext;

/// How long it waits before it tries a database again that did not answer.
pub(super) const RETRY_AFTER: Duration = Duration::from_secs(2);

/// Runs what blocks on a thread of its own: leases are renewed meanwhile.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, BuilderError> + Send + 'static,
) -> Result<T, BuilderError> {
    tokio::task::spawn_blocking(work).await.map_err(|_| BuilderError::Panicked)?
}

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

    /// Whether this builder has the toolchain and the dependencies that the site's builds are made with. A database that
    /// does not answer says nothing about it, and the claim that follows says that it does not.
    pub(super) async fn has_what_the_site_has(&self) -> Result<(), BuilderError> {
        let found = match self.toolchain_problem(false).await {
            Ok(None) => self.dependencies().await.map(|_| ()),
            Ok(Some(error)) | Err(error) => Err(error),
        };
        match found {
            Err(BuilderError::Catalog(_)) => Ok(()),
            found => found,
        }
    }

    /// The newest cache of the site, or what ships while the site has none. Without the newest nothing is built here:
    /// what is only in it would have to wait for reviewers who have allowed it already.
    pub(super) async fn dependencies(&self) -> Result<Arc<Deps>, BuilderError> {
        let (shipped, toolchain) = (&self.context.deps, self.context.toolchain.id());
        let newest = self.catalog.newest_cache(&shipped.key(), &toolchain).await?;
        let mut current = self.deps.lock().await;
        let Some(newest) = newest.filter(|cache| cache.key != shipped.key()) else {
            meters::cache_was("open");
            *current = shipped.clone();
            return Ok(shipped.clone());
        };
        let key = newest.key;
        if current.key() == key {
            meters::cache_was("open");
        } else {
            let Some(site) = &self.site_deps else {
                let problem = "it is the site's, and MFAAS_SITE_DEPS_DIR does not say where this builder keeps the site's";
                return Err(BuilderError::Deps { path: key.to_string().into(), problem: problem.to_owned() });
            };
            let brought = self.bring(&newest, site).await;
            meters::cache_was(match &brought {
                Ok((_, place)) => place,
                Err(_) => "missing",
            });
            *current = Arc::new(brought?.0);
            tracing::info!(%key, "switched to another dependency cache");
            // Others may still build with what this one has left.
            if let Err(error) = self.remove_replaced(site).await {
                tracing::warn!(%error, "dependency caches that are not needed any more could not be removed");
            }
        }
        Ok(current.clone())
    }

    async fn remove_replaced(&self, site: &Path) -> Result<(), BuilderError> {
        let (base, toolchain) = (self.context.deps.key(), self.context.toolchain.id());
        let replaced = self.catalog.replaced_caches(&base, &toolchain, &deps::lying_in(site)?).await?;
        let from = site.to_path_buf();
        blocking(move || deps::remove_unused(&from, &replaced)).await
    }

    /// The cache as it lies here, or else from the blob store, and where it was.
    async fn bring(
        &self,
        cache: &DependencyCache,
        site: &Path,
    ) -> Result<(Deps, &'static str), BuilderError> {
        let (key, toolchain, into) = (cache.key, cache.toolchain, site.to_path_buf());
        let path = into.join(key.to_string());
        let not_here = match blocking(move || Deps::open_held(&path, toolchain)).await {
            Ok(deps) => return Ok((deps, "here")),
            Err(error) => error,
        };
        let Some(archive) = cache.archive else { return Err(not_here) };
        let began = Instant::now();
        let bytes = self.blobs.get(&archive.digest, CACHE_ARCHIVE.archive_bytes_max).await;
        let bytes = bytes.map_err(|error| BuilderError::Deps {
            path: site.join(key.to_string()),
            problem: format!("it is not here, and its archive cannot be fetched: {error}"),
        })?;
        let deps = blocking(move || deps::unpack(&bytes, &key, toolchain, &into)).await?;
        let (bytes, seconds) = (archive.bytes, began.elapsed().as_secs_f64());
        tracing::info!(
            %key, archive = %archive.digest, bytes, seconds, "fetched the site's dependency cache from the blob store"
        );
        Ok((deps, "fetched"))
    }

    /// Why this builder cannot say that a build has to wait for reviewers: another one, with what the site has, may find
    /// that it need not. `unbuilt` are crates that are allowed and that `deps`, which the build had, does not hold.
    pub(super) async fn lacks(
        &self,
        deps: &Deps,
        unbuilt: &[LinkedCrate],
    ) -> Result<Option<BuilderError>, BuilderError> {
        if let Some(error) = self.toolchain_problem(true).await? {
            return Ok(Some(error));
        }
        let held = self.catalog.newest_cache_with(&self.context.toolchain.id(), unbuilt).await?;
        let shipped = self.context.deps.key();
        Ok(held.filter(|held| held.key != deps.key()).map(|held| BuilderError::Deps {
            path: held.key.to_string().into(),
            problem: format!(
                "the site has it, on top of the shipped cache {}, and this build had {}, where {shipped} ships",
                held.base,
                deps.key()
            ),
        }))
    }

    /// What is wrong with this builder's toolchain at this site: it is not accepted, or, if `newest`, another one was
    /// accepted later.
    pub(super) async fn toolchain_problem(&self, newest: bool) -> Result<Option<BuilderError>, BuilderError> {
        let toolchain = &self.context.toolchain;
        let problem = match self.catalog.toolchain_standing(&toolchain.id()).await? {
            ToolchainStanding::Replaced(other) if newest => format!(
                "the site's newest is {other}, and only a builder that has it says what has to wait for reviewers"
            ),
            ToolchainStanding::Newest | ToolchainStanding::Replaced(_) => return Ok(None),
            ToolchainStanding::NotAccepted => {
                format!("this site does not accept {}; install one that it accepts", toolchain.id())
            }
        };
        Ok(Some(BuilderError::Toolchain { path: toolchain.compiler_file(), problem }))
    }
}
