//! Whether this machine can build: room for scratch files, a blob store that takes bytes, what every build runs, and the
//! sandbox that it runs in.
//!
//! It looks and tells. Whether a build is started, and what a failed one means, others decide.

use std::path::PathBuf;
use std::time::Duration;

use mfaas_blobs::Blobs;
use mfaas_rules::limits::{SCRATCH_FREE_BYTES_MIN, SCRATCH_FREE_FILES_MIN};

use crate::disk::{has_room, takes_bytes};
use crate::error::BuilderError;
use crate::stages::BuildContext;

/// How long the blob store may take to say that it takes bytes.
const STORE_ANSWER_MAX: Duration = Duration::from_secs(10);

/// Looks for a reason why no build can succeed here.
pub(crate) async fn check(context: &BuildContext, blobs: &Blobs) -> Result<(), BuilderError> {
    let local = context.clone();
    // A disk that does not answer must not hold up the renewal of leases.
    let local_checks = tokio::task::spawn_blocking(move || {
        has_room_for_builds(&local, 1)?;
        takes_bytes(&local.work)?;
        is_there(&local)?;
        local.sandbox.still_stands()
    });
    local_checks.await.map_err(|_| BuilderError::Panicked)??;
    match tokio::time::timeout(STORE_ANSWER_MAX, blobs.writable()).await {
        Ok(answer) => Ok(answer?),
        Err(_) => Err(blobs.silent(STORE_ANSWER_MAX).into()),
    }
}

/// Whether so many builds find the room that they may use.
pub(crate) fn has_room_for_builds(context: &BuildContext, builds: usize) -> Result<(), BuilderError> {
    let builds = builds as u64;
    has_room(&context.work, SCRATCH_FREE_BYTES_MIN * builds, SCRATCH_FREE_FILES_MIN * builds)
}

/// Whether compiler, libraries and programs are where they were at the start.
fn is_there(context: &BuildContext) -> Result<(), BuilderError> {
    let gone = |path: PathBuf| (!path.exists()).then_some((path, "it is gone".to_owned()));
    if let Some((path, problem)) = gone(context.toolchain.compiler_file()) {
        return Err(BuilderError::Toolchain { path, problem });
    }
    if let Some((path, problem)) = gone(context.deps.library_root()) {
        return Err(BuilderError::Deps { path, problem });
    }
    context.programs.are_there()
}
