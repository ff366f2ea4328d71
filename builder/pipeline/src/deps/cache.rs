//! A cache of compiled dependencies as a build opens it.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use mfaas_catalog::{AllowlistSeed, CrateClosure};
use mfaas_ident::{CrateName, Digest, ToolchainId};
use mfaas_rules::AllowlistSnapshot;

use super::index::{CachedCrate, Index, Product};
use crate::error::BuilderError;

/// The description of a cache: what is in it, and where from.
pub(super) const INDEX_FILE: &str = "deps.json";
/// The decisions that the site starts with: the seed's crates, decided by `seed`.
pub(super) const ALLOWLIST_FILE: &str = "allowlist.json";
/// The text whose digest is the cache's key.
pub(super) const RECIPE_FILE: &str = "recipe.txt";
/// The compiled crates.
pub(super) const LIBRARY_PART: &str = "lib";
/// The crate that functions are written against.
pub(super) const SDK_CRATE: &str = "mfaas";

/// Whether a cache lies there: it gets its name when it is complete.
pub(crate) fn is_complete(root: &Path) -> bool {
    root.join(INDEX_FILE).is_file()
}

/// A dependency cache that was built for the toolchain in use.
#[derive(Debug, Clone)]
pub(crate) struct Deps {
    root: PathBuf,
    key: Digest,
    index: Index,
    /// Keeps others from removing it.
    _held: Option<Arc<File>>,
}

impl Deps {
    /// Opens `…/deps/<key>`. Its recipe must hash to its name, and it must have been built by
    /// `toolchain`: rlibs of another compiler cannot be linked.
    pub(crate) fn open(root: &Path, toolchain: ToolchainId) -> Result<Self, BuilderError> {
        let problem = |problem: String| BuilderError::Deps { path: root.to_path_buf(), problem };
        let root = root.canonicalize().map_err(BuilderError::io(root))?;
        let name = root.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let key =
            Digest::parse(name).map_err(|_| problem("the directory is not named by a digest".to_owned()))?;
        let recipe = root.join(RECIPE_FILE);
        let recipe_bytes = std::fs::read(&recipe).map_err(BuilderError::io(&recipe))?;
        if Digest::of(&recipe_bytes) != key {
            return Err(problem("the recipe does not match the directory's name".to_owned()));
        }
        let path = root.join(INDEX_FILE);
        let bytes = std::fs::read(&path).map_err(BuilderError::io(&path))?;
        let index: Index =
            serde_json::from_slice(&bytes).map_err(|error| problem(format!("{INDEX_FILE}: {error}")))?;
        if index.toolchain != toolchain {
            return Err(problem(format!(
                "it was built by toolchain {}, not by {toolchain}",
                index.toolchain
            )));
        }
        let deps = Self { root, key, index, _held: None };
        deps.verify()?;
        Ok(deps)
    }

    /// The same with one of the site's, which nobody removes while it is open.
    pub(crate) fn open_held(root: &Path, toolchain: ToolchainId) -> Result<Self, BuilderError> {
        let path = root.join(INDEX_FILE);
        let held = File::open(&path).map_err(BuilderError::io(&path))?;
        held.lock_shared().map_err(BuilderError::io(&path))?;
        // After the lock: what was removed before it is not there any more.
        Ok(Self { _held: Some(Arc::new(held)), ..Self::open(root, toolchain)? })
    }

    /// Where it lies.
    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// Hashes every compiled crate: what is linked into functions must be what was built.
    fn verify(&self) -> Result<(), BuilderError> {
        let products = self.index.crates.iter().filter_map(|entry| entry.product.as_ref());
        for product in products.chain([&self.index.abi, &self.index.shim]).chain(self.index.facade.products())
        {
            let path = self.library_root().join(&product.file);
            let bytes = std::fs::read(&path).map_err(BuilderError::io(&path))?;
            if Digest::of(&bytes) != product.digest {
                let problem = format!("{} was changed after it was built", product.file);
                return Err(BuilderError::Deps { path: self.root.clone(), problem });
            }
        }
        Ok(())
    }

    /// The digest over everything that went into the cache.
    pub(crate) fn key(&self) -> Digest {
        self.key
    }

    /// Every crate with what it needs, as the registry records it.
    pub(crate) fn closures(&self) -> Vec<CrateClosure> {
        self.index.closures()
    }

    /// The directory of compiled crates; `/deps` in the sandbox.
    pub(crate) fn library_root(&self) -> PathBuf {
        self.root.join(LIBRARY_PART)
    }

    /// The crate of that name and version, if the cache has it.
    pub(crate) fn find(&self, name: &CrateName, version: &semver::Version) -> Option<&CachedCrate> {
        self.index.crates.iter().find(|entry| entry.name == *name && entry.version == *version)
    }

    /// What stands in for the standard library where a function is compiled.
    pub(crate) fn stand_ins(&self) -> Result<Vec<Product>, BuilderError> {
        let found = self.index.facade.stand_ins(&[]).map(|products| products.cloned().collect());
        found.ok_or_else(|| BuilderError::Deps {
            path: self.root.clone(),
            problem: "it has no facade for functions".to_owned(),
        })
    }

    /// File name of our own half inside every artifact.
    pub(crate) fn shim(&self) -> &str {
        &self.index.shim.file
    }

    /// The version of the interface that the shim speaks.
    pub(crate) fn abi_version(&self) -> u32 {
        self.index.abi_version
    }

    /// The SDK, which the generated entry calls.
    pub(crate) fn sdk(&self) -> Result<&Product, BuilderError> {
        self.index
            .crates
            .iter()
            .find(|entry| entry.name.as_str() == SDK_CRATE)
            .and_then(|entry| entry.product.as_ref())
            .ok_or_else(|| BuilderError::Deps {
                path: self.root.clone(),
                problem: "it has no SDK".to_owned(),
            })
    }

    /// The decisions that a site starts with, as written when the cache was built; for checks
    /// without a registry.
    pub(crate) fn seed_allowlist(&self) -> Result<AllowlistSnapshot, BuilderError> {
        let path = self.root.join(ALLOWLIST_FILE);
        let bytes = std::fs::read(&path).map_err(BuilderError::io(&path))?;
        let seed: AllowlistSeed = serde_json::from_slice(&bytes)
            .map_err(|error| BuilderError::Deps { path, problem: error.to_string() })?;
        Ok(AllowlistSnapshot { policy_version: 0, crates: seed.crates })
    }
}
