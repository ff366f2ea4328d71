//! The site's own dependency caches: what ships, and what its reviewers and rules allow beyond that.

use std::sync::Arc;

use mfaas_catalog::Extra;
use mfaas_ident::Digest;

use super::extend::{Grant, extend_seed};
use super::manifest::{self, CrateRequest};
use super::resolve::{Workspace, resolve_all};
use super::serve::{Site, blocking};
use crate::deps::{self, is_complete};
use crate::error::BuilderError;

/// The reason that stands beside a grant in the seed of a cache.
const GRANT_REASON: &str = "granted by this site's reviewers";

/// Whether the cache of that key lies where it has to.
pub(super) fn is_there(site: &Site, key: &Digest) -> bool {
    *key == site.base || is_complete(&site.caches.join(key.to_string()))
}

/// Builds the cache with these crates beside what ships, and answers its key and its lock. Without any, it is
/// the one that ships.
pub(super) async fn build(site: &Site, extras: Vec<Extra>) -> Result<(Digest, String), BuilderError> {
    let (bench, seed, caches) = (Arc::clone(&site.bench), site.seed.clone(), site.caches.clone());
    if extras.is_empty() {
        let path = seed.join("Cargo.lock");
        let lock = std::fs::read_to_string(&path).map_err(BuilderError::io(&path))?;
        return Ok((site.base, lock));
    }
    blocking(move || {
        let base = Workspace::of_seed(&seed)?;
        let approved = requests(&extras);
        let resolved = resolve_all(&bench.cargo, &base, &approved)?;
        bench.fetch(&base, &resolved.manifest, &resolved.lock_text)?;
        let scratch = bench.scratch()?;
        let into = scratch.path().join("seed");
        extend_seed(&seed, &approved, &resolved.lock_text, &grants(&extras), &into)?;
        let key = deps::build(&into, &bench.sources(), &bench.toolchain, &caches, bench.minimum())?;
        Ok((key, resolved.lock_text))
    })
    .await
}

/// The crates as requests for exactly what was approved.
pub(super) fn requests(extras: &[Extra]) -> Vec<CrateRequest> {
    let request = |extra: &Extra| CrateRequest {
        name: extra.name.clone(),
        requirement: manifest::exact(&extra.version),
        features: extra.features.iter().filter(|name| *name != "default").cloned().collect(),
        default_features: extra.features.iter().any(|name| name == "default"),
    };
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
