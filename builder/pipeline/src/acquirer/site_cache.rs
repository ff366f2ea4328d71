//! The site's own dependency caches: what ships, and what its reviewers and rules allow beyond that.

use std::sync::Arc;

use mfaas_catalog::{CacheArchive, Extra};
use mfaas_ident::Digest;
use mfaas_rules::CrateRequest;

use super::state::{AcquirerState, blocking};
use crate::acquire::resolve::{Workspace, resolve_all};
use crate::acquire::seed::{Grant, extend_seed};
use crate::deps::{self, Deps, is_complete};
use crate::error::BuilderError;

/// The reason that stands beside a grant in the seed of a cache.
const GRANT_REASON: &str = "granted by this site's reviewers";

/// Whether the cache of that key lies where it has to.
pub(super) fn is_there(state: &AcquirerState, key: &Digest) -> bool {
    *key == state.base.key() || is_complete(&state.caches.join(key.to_string()))
}

/// Builds the cache with these crates beside what ships, and answers it with its lock. Without any, it is the
/// one that ships.
pub(super) async fn build(state: &AcquirerState, extras: Vec<Extra>) -> Result<(Deps, String), BuilderError> {
    let (context, seed, caches) = (Arc::clone(&state.context), state.seed.clone(), state.caches.clone());
    let toolchain = state.toolchain;
    if extras.is_empty() {
        let path = seed.join("Cargo.lock");
        let lock = std::fs::read_to_string(&path).map_err(BuilderError::io(&path))?;
        return Ok((state.base.clone(), lock));
    }
    blocking(move || {
        let base = Workspace::of_seed(&seed)?;
        let approved = requests(&extras);
        let resolved = resolve_all(&context.cargo, &base, &approved)?;
        context.fetch(&base, &resolved.manifest, &resolved.lock_text)?;
        let scratch = context.scratch()?;
        let into = scratch.path().join("seed");
        extend_seed(&seed, &approved, &resolved.lock_text, &grants(&extras), &into)?;
        let key = deps::build(&into, &context.sources(), &context.toolchain, &caches, context.minimum())?;
        Ok((Deps::open(&caches.join(key.to_string()), toolchain)?, resolved.lock_text))
    })
    .await
}

/// Stores the cache for builders on other hosts, which have what ships.
pub(super) async fn store(state: &AcquirerState, deps: &Deps) -> Result<Option<CacheArchive>, BuilderError> {
    let key = deps.key();
    if key == state.base.key() {
        return Ok(None);
    }
    let root = deps.root().to_path_buf();
    let packed = blocking(move || deps::pack(&root, &key)).await?;
    let bytes = packed.len() as u64;
    let digest = state.blobs.put(packed.into()).await?;
    tracing::info!(%key, archive = %digest, bytes, "stored the site's dependency cache for builders on other hosts");
    Ok(Some(CacheArchive { digest, bytes }))
}

/// The crates as requests for exactly what was approved.
pub(super) fn requests(extras: &[Extra]) -> Vec<CrateRequest> {
    let request =
        |extra: &Extra| CrateRequest::of_version(extra.name.clone(), &extra.version, &extra.features);
    extras.iter().map(request).collect()
}

fn grants(extras: &[Extra]) -> Vec<Grant> {
    let granted = extras.iter().filter(|extra| !extra.grants.is_empty());
    granted
        .map(|extra| Grant {
            name: extra.name.clone(),
            capabilities: extra.grants.iter().copied().collect(),
            reason: GRANT_REASON.to_owned(),
        })
        .collect()
}
