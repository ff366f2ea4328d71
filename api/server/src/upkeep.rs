//! What the server does by itself so that nothing grows for ever: it forgets rows that are old, and removes files and
//! blobs that nobody needs.
//!
//! Each task works in small batches, at start and then again and again; what fails is tried again later. What may go is
//! decided by the catalog, and by triggers of the database that hold even if this program is somebody else's.

use std::fmt::Display;
use std::time::Duration;

use mfaas_catalog::{CatalogError, CollectError};

use crate::limits;
use crate::state::App;

/// Removes what writers that died left in the blob store.
pub(crate) async fn sweep(app: App) {
    let sweep = async |app: &App| app.blobs.sweep().await;
    repeat(&app, limits::SWEEP_EVERY, "what broken writes left in the blob store", sweep).await;
}

/// Forgets rows that are older than they are kept.
pub(crate) async fn forget(app: App) {
    repeat(&app, app.config.forget_every, "rows that are older than they are kept", forget_all).await;
}

/// Removes blobs that no row refers to.
pub(crate) async fn collect(app: App) {
    repeat(&app, limits::COLLECT_EVERY, "blobs that no row refers to", collect_all).await;
}

/// Removes `what`, now and then every so often, until the server stops.
async fn repeat<E: Display>(
    app: &App,
    every: Duration,
    what: &str,
    remove: impl AsyncFn(&App) -> Result<u64, E>,
) {
    loop {
        match remove(app).await {
            Ok(0) => tracing::debug!("there is nothing to remove of {what}"),
            Ok(number) => tracing::info!(number, "removed {what}"),
            Err(error) => tracing::warn!(%error, "could not remove {what}; trying again later"),
        }
        if !wait(app, every).await {
            return;
        }
    }
}

async fn forget_all(app: &App) -> Result<u64, CatalogError> {
    let mut rows = 0;
    loop {
        let batch = app.catalog.forget(&app.config.retention).await?;
        rows += batch;
        if batch == 0 || !wait(app, limits::FORGET_PAUSE).await {
            return Ok(rows);
        }
    }
}

async fn collect_all(app: &App) -> Result<u64, CollectError> {
    let mut removed = 0;
    for first_byte in 0..=u8::MAX {
        let (kept, grace) = (&app.config.retention, app.config.blob_grace);
        removed += app.catalog.collect_blobs(&app.blobs, kept, grace, first_byte).await?;
        if app.stop.is_cancelled() {
            break;
        }
    }
    Ok(removed)
}

/// `false` when the server stops meanwhile.
async fn wait(app: &App, time: Duration) -> bool {
    tokio::select! {
        () = tokio::time::sleep(time) => true,
        () = app.stop.cancelled() => false,
    }
}
