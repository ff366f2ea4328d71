//! What every step of the acquirer works with.

use std::path::PathBuf;
use std::sync::Arc;

use mfaas_blobs::Blobs;
use mfaas_catalog::Catalog;
use mfaas_ident::ToolchainId;

use crate::acquire::AcquireContext;
use crate::deps::Deps;
use crate::error::BuilderError;

/// What every step needs.
pub(super) struct AcquirerState {
    /// To hold blobs while they are stored; everything else goes through the one acquirer's connection.
    pub(super) catalog: Catalog,
    pub(super) blobs: Blobs,
    /// Resolves, downloads, reads and compiles; blocking.
    pub(super) context: Arc<AcquireContext>,
    pub(super) toolchain: ToolchainId,
    /// The key of the cache that ships.
    pub(super) base: Deps,
    /// The seed that it was built from.
    pub(super) seed: PathBuf,
    /// Where the site's own caches go.
    pub(super) caches: PathBuf,
    /// Whether the rules may admit a crate by themselves.
    pub(super) automatic: bool,
}

/// Runs what blocks on a thread of its own.
pub(super) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, BuilderError> + Send + 'static,
) -> Result<T, BuilderError> {
    tokio::task::spawn_blocking(work).await.map_err(|_| BuilderError::Panicked)?
}
