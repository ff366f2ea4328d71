//! What the server does by itself so that nothing grows for ever: it forgets rows that are old, and removes files and
//! blobs that nobody needs.
//!
//! Each task works in small batches, at start and then again and again; what fails is tried again later. What may go is
//! decided by the catalog, and by triggers of the database that hold even if this program is somebody else's.

use std::time::Duration;

use mfaas_catalog::{CatalogError, CollectError};

use crate::app::App;
use crate::limits;

/// Removes what writers that died left in the blob store.
pub(crate) async fn sweep(app: App) {
    loop {
        match app.blobs.sweep().await {
            Ok(0) => tracing::debug!("nothing was left behind in the blob store"),
            Ok(files) => tracing::info!(files, "removed what broken writes left in the blob store"),
            Err(error) => tracing::warn!(%error, "the blob store could not be swept; trying again later"),
        }
        if !wait(&app, limits::SWEEP_EVERY).await {
            return;
        }
    }
}

/// Forgets rows that are older than they are kept.
pub(crate) async fn forget(app: App) {
    loop {
        match forget_all(&app).await {
            Ok(0) => tracing::debug!("nothing is old enough to be forgotten"),
            Ok(rows) => tracing::info!(rows, "forgot what is older than it is kept"),
            Err(error) => tracing::warn!(%error, "old rows could not be forgotten; trying again later"),
        }
        if !wait(&app, limits::FORGET_EVERY).await {
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

/// Removes blobs that no row refers to.
pub(crate) async fn collect(app: App) {
    loop {
        match collect_all(&app).await {
            Ok(0) => tracing::debug!("every blob is needed"),
            Ok(blobs) => tracing::info!(blobs, "removed blobs that no row refers to"),
            Err(error) => tracing::warn!(%error, "blobs could not be collected; trying again later"),
        }
        if !wait(&app, limits::COLLECT_EVERY).await {
            return;
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
