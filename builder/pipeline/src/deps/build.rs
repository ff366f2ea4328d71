//! Compiles the offered crates, and ours, for one toolchain: a trusted job, sandboxed all the same,
//! because build scripts and procedural macros run in it.
//!
//! No network: every byte comes from the vendored sources, whose checksums cargo compares with
//! the committed Cargo.lock. The result is complete under its key or not there.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use mfaas_catalog::AllowlistSeed;
use mfaas_ident::{CrateName, Digest};
use mfaas_rules::profiles::std_items::Capability;
use mfaas_rules::{AllowedCrate, CrateStatus};

use super::bundle;
use super::cache::{ALLOWLIST_FILE, INDEX_FILE, RECIPE_FILE, SDK_CRATE};
use super::facade::{self, Crate};
use super::index::{CachedCrate, ClosureCrate, Index, Product};
use super::lockfile::PackageKey;
use super::made::Made;
use super::messages::Compiled;
use super::seed::Seed;
use super::site::Site;
use crate::error::BuilderError;
use crate::flags;
use crate::sandbox::{Ran, SandboxMinimum};
use crate::toolchain::Toolchain;

/// The package that only names what is offered.
const SEED_PACKAGE: &str = "mfaas-seed";
/// How the directory of a build that has not ended begins.
const STAGING_PREFIX: &str = ".build-";
/// Crates that the SDK is compiled against.
const SDK_NEEDS: &[&str] = &["serde", "serde_json"];

/// Builds `into/<key>` from `seed` and the vendored sources, and answers the key. A cache that is
/// there already is left alone.
pub(crate) fn build(
    seed: &Path,
    vendor: &Path,
    toolchain: &Toolchain,
    into: &Path,
    minimum: SandboxMinimum,
) -> Result<Digest, BuilderError> {
    std::fs::create_dir_all(into).map_err(BuilderError::io(into))?;
    let seed = Seed::read(seed)?;
    let (sets, generated) = facades(&seed);
    let recipe = recipe(&seed, &generated, toolchain);
    let key = Digest::of(recipe.as_bytes());
    let target = into.join(key.to_string());
    if target.join(INDEX_FILE).exists() {
        return Ok(key);
    }
    let staging =
        tempfile::Builder::new().prefix(STAGING_PREFIX).tempdir_in(into).map_err(BuilderError::io(into))?;
    let site = Site::prepare(&seed, &generated, vendor, toolchain, staging.path(), minimum)?;
    let facade = site.compile_facade(&sets)?;
    site.write_plan(&seed, &facade)?;
    let (compiled, made) = site.run_cargo()?;
    let mut crates = collect(&seed, &site, &compiled, &made)?;
    let (abi, shim) = add_ours(&site, &mut crates)?;
    crates.sort_by(|a, b| (&a.name, &a.version).cmp(&(&b.name, &b.version)));
    let index =
        Index { toolchain: toolchain.id(), abi_version: bundle::abi_version()?, abi, shim, facade, crates };
    finish(&site, &recipe, &index, &key, &target)?;
    Ok(key)
}

/// Removes what builds left that were killed. Nobody else may be building there.
pub(crate) fn sweep(into: &Path) -> Result<(), BuilderError> {
    let entries = match std::fs::read_dir(into) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(BuilderError::io(into)(error)),
    };
    for entry in entries {
        let entry = entry.map_err(BuilderError::io(into))?;
        if entry.file_name().to_string_lossy().starts_with(STAGING_PREFIX) {
            let path = entry.path();
            std::fs::remove_dir_all(&path).map_err(BuilderError::io(&path))?;
        }
    }
    Ok(())
}

/// Compiles the seed as [`build`] does, as far as it goes, and makes nothing of it: the answer is what cargo and
/// the compiler said.
pub(crate) fn try_out(
    seed: &Path,
    vendor: &Path,
    toolchain: &Toolchain,
    work: &Path,
    minimum: SandboxMinimum,
) -> Result<Ran, BuilderError> {
    let staging =
        tempfile::Builder::new().prefix("trial-").tempdir_in(work).map_err(BuilderError::io(work))?;
    let seed = Seed::read(seed)?;
    let (sets, generated) = facades(&seed);
    let site = Site::prepare(&seed, &generated, vendor, toolchain, staging.path(), minimum)?;
    let facade = site.compile_facade(&sets)?;
    site.write_plan(&seed, &facade)?;
    site.check_as_text()
}

/// Compiles the seed as [`build`] does, and answers the crates that it would keep, by package. In one sandbox for everything
/// if `together`, to show what is stopped otherwise.
#[cfg(feature = "ablation")]
pub(crate) fn compile_only(
    seed: &Seed,
    vendor: &Path,
    toolchain: &Toolchain,
    staging: &Path,
    together: bool,
) -> Result<BTreeMap<String, Vec<u8>>, BuilderError> {
    let (sets, generated) = facades(seed);
    let mut site = Site::prepare(seed, &generated, vendor, toolchain, staging, SandboxMinimum::Full)?;
    site.together = together;
    let facade = site.compile_facade(&sets)?;
    site.write_plan(seed, &facade)?;
    let (compiled, made) = site.run_cargo()?;
    let mut kept = BTreeMap::new();
    for entry in collect(seed, &site, &compiled, &made)? {
        if let Some(product) = entry.product {
            let path = site.result.join(super::cache::LIBRARY_PART).join(product.file);
            kept.insert(entry.name.to_string(), std::fs::read(&path).map_err(BuilderError::io(&path))?);
        }
    }
    Ok(kept)
}

/// The stand-ins for the standard library, one for each combination of grants.
type Facades = Vec<(Vec<Capability>, Vec<Crate>)>;

/// Every combination of grants of a seed, and the files that their facades are compiled from.
fn facades(seed: &Seed) -> (Facades, Vec<(String, String)>) {
    let sets: Facades = seed
        .grants
        .sets()
        .into_iter()
        .map(|granted| (granted.clone(), facade::stand_ins(&granted)))
        .collect();
    let crates: Vec<Crate> = sets.iter().flat_map(|(_, crates)| crates.clone()).collect();
    let generated = facade::files(&[crates, facade::compiler_crates()].concat());
    (sets, generated)
}

/// Everything that can change a byte of the result; its digest is the key.
fn recipe(seed: &Seed, generated: &[(String, String)], toolchain: &Toolchain) -> String {
    let mut text = format!(
        "mfaas dependency cache, format 5\ntoolchain {}\nown crates {}\nflags {}\n",
        toolchain.id(),
        bundle::digest(),
        flags::CODE_GENERATION.join(" "),
    );
    for (name, value) in flags::CARGO_PROFILE {
        text.push_str(&format!("{name}={value}\n"));
    }
    for (path, source) in generated {
        text.push_str(&format!("{}  {path}\n", Digest::of(source.as_bytes())));
    }
    for (path, bytes) in &seed.files {
        text.push_str(&format!("{}  {path}\n", Digest::of(bytes)));
    }
    text
}

/// Copies what cargo made into the library directory and describes each crate.
fn collect(
    seed: &Seed,
    site: &Site,
    compiled: &[Compiled],
    made: &Made,
) -> Result<Vec<CachedCrate>, BuilderError> {
    let mut units: BTreeMap<&PackageKey, Vec<&Compiled>> = BTreeMap::new();
    for unit in compiled.iter().filter(|unit| unit.package.0.as_str() != SEED_PACKAGE) {
        units.entry(&unit.package).or_default().push(unit);
    }
    let mut crates = Vec::new();
    for (package, parts) in &units {
        let closure = seed
            .lock
            .closure(package)
            .into_iter()
            .filter(|key| units.contains_key(key))
            .map(|key| ClosureCrate { checksum: seed.checksum(&key), name: key.0, version: key.1 })
            .collect();
        let features: BTreeSet<&String> = parts.iter().flat_map(|unit| &unit.features).collect();
        crates.push(CachedCrate {
            name: package.0.clone(),
            version: package.1.clone(),
            checksum: seed.checksum(package),
            features: features.into_iter().cloned().collect(),
            product: product(site, parts, made)?,
            direct: seed.direct.contains(*package),
            closure,
        });
    }
    Ok(crates)
}

/// What of a package can be linked or loaded; `None` if it only served build scripts and macros.
fn product(site: &Site, parts: &[&Compiled], made: &Made) -> Result<Option<Product>, BuilderError> {
    let Some((unit, kind, path)) =
        parts.iter().find_map(|unit| unit.product.as_ref().map(|(kind, path)| (unit, *kind, path)))
    else {
        return Ok(None);
    };
    let (file, digest) = site.keep_unit(path, made)?;
    Ok(Some(Product { kind, extern_name: unit.extern_name.clone(), file, digest }))
}

/// Compiles ABI, shim and SDK against the crates of the same resolution. The SDK becomes a crate
/// that tenants may name, like any other; ABI and shim are answered.
fn add_ours(site: &Site, crates: &mut Vec<CachedCrate>) -> Result<(Product, Product), BuilderError> {
    let mut externs = Vec::new();
    let mut closure = BTreeSet::new();
    for name in SDK_NEEDS {
        let found = crates.iter().find(|entry| entry.name.as_str() == *name);
        let Some((entry, product)) = found.and_then(|entry| Some((entry, entry.product.as_ref()?))) else {
            return Err(BuilderError::Deps {
                path: site.result.clone(),
                problem: format!("the SDK needs {name}, and the seed does not offer it"),
            });
        };
        externs.push(product.clone());
        closure.extend(entry.closure.iter().cloned());
        closure.insert(entry.as_part());
    }
    let abi = site.compile_own("abi/src/lib.rs", "mfaas_abi", &[], &[])?;
    let shim = site.compile_own(
        "shim/src/lib.rs",
        "mfaas_shim",
        &["feature=\"hosted\""],
        std::slice::from_ref(&abi),
    )?;
    externs.extend([abi.clone(), shim.clone()]);
    let sdk = site.compile_own("sdk/src/lib.rs", SDK_CRATE, &[], &externs)?;
    crates.push(CachedCrate {
        name: own_name(site)?,
        version: super::own::VERSION,
        checksum: bundle::digest().to_string(),
        features: Vec::new(),
        product: Some(sdk),
        direct: true,
        closure: closure.into_iter().collect(),
    });
    Ok((abi, shim))
}

fn own_name(site: &Site) -> Result<CrateName, BuilderError> {
    CrateName::parse(SDK_CRATE)
        .map_err(|error| BuilderError::Deps { path: site.result.clone(), problem: error.to_string() })
}

/// Writes index, allowlist and recipe, and gives the directory its name.
fn finish(site: &Site, recipe: &str, index: &Index, key: &Digest, target: &Path) -> Result<(), BuilderError> {
    use std::os::unix::fs::PermissionsExt as _;
    let write = |name: &str, bytes: &[u8]| {
        let path = site.result.join(name);
        std::fs::write(&path, bytes).map_err(BuilderError::io(&path))
    };
    let json = |value: Result<Vec<u8>, serde_json::Error>| {
        value.map_err(|error| BuilderError::Deps { path: site.result.clone(), problem: error.to_string() })
    };
    write(ALLOWLIST_FILE, &json(serde_json::to_vec_pretty(&allowlist(index, key)))?)?;
    write(RECIPE_FILE, recipe.as_bytes())?;
    write(INDEX_FILE, &json(serde_json::to_vec_pretty(index))?)?;
    std::fs::set_permissions(&site.result, std::fs::Permissions::from_mode(0o755))
        .map_err(BuilderError::io(&site.result))?;
    match std::fs::rename(&site.result, target) {
        Ok(()) => Ok(()),
        // Another build of the same key was faster: its content is the same.
        Err(_) if target.join(INDEX_FILE).exists() => Ok(()),
        Err(error) => Err(BuilderError::io(target)(error)),
    }
}

/// The decisions that a new site starts with, and what the cache holds.
fn allowlist(index: &Index, key: &Digest) -> AllowlistSeed {
    let crates = index
        .crates
        .iter()
        .map(|entry| AllowedCrate {
            name: entry.name.clone(),
            version: entry.version.clone(),
            checksum: entry.checksum.clone(),
            features: entry.features.clone(),
            direct: entry.direct,
            status: CrateStatus::Allowed,
            decided_by: "seed".to_owned(),
            reason: "ships with mfaas; not yet reviewed for hostile callers".to_owned(),
        })
        .collect();
    AllowlistSeed {
        format: AllowlistSeed::FORMAT,
        toolchain: index.toolchain,
        crates,
        cache: *key,
        closures: index.closures(),
    }
}
