//! One request beside the site's resolution, resolved by cargo in a workspace of our own.
//!
//! cargo keeps the versions of a lock where it can; where it does not, the answer is a conflict and
//! never another version of something that was approved. What is resolved is what the one target
//! compiles. Nothing here runs what it resolves.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use cargo_metadata::{DependencyKind, Metadata, MetadataCommand, Node, PackageId};
use mfaas_ident::CrateName;
use mfaas_rules::CrateRequest;
use mfaas_rules::limits::RESOLVE;
use semver::Version;

use super::cargo::Cargo;
use super::closure;
use super::error::AcquireError;
use super::manifest;
use crate::deps::{Lockfile, PackageKey, Seed};
use crate::error::BuilderError;
use crate::toolchain::TARGET;

/// A crate that cargo has to be told about, though it holds nothing.
const LIBRARY: &str = "//! Nothing.\n";

/// What came of a request.
#[derive(Debug)]
pub(crate) struct Resolution {
    /// The Cargo.lock of the site with the request.
    pub(crate) lock: String,
    /// The manifest that it belongs to, with exact versions for what stands beside the seed.
    pub(crate) manifest: String,
    /// The version that the request gets.
    pub(crate) chosen: PackageKey,
    /// Every crate that the target compiles, sorted.
    pub(crate) members: Vec<ResolvedCrate>,
    /// The way from the request to each crate that comes along with it.
    pub(crate) paths: BTreeMap<PackageKey, Vec<PackageKey>>,
}

/// One crate of a resolution.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ResolvedCrate {
    /// Its package name.
    pub(crate) name: CrateName,
    /// Its version.
    pub(crate) version: Version,
    /// sha256 of its archive, as the lock has it; `None` for a crate of the seed's own tree.
    pub(crate) checksum: Option<String>,
    /// Its features, sorted: all that anything of this workspace switches on.
    pub(crate) features: Vec<String>,
    /// Its direct dependencies, development ones left out, sorted.
    pub(crate) needs: Vec<PackageKey>,
    /// The site does not have this version.
    pub(crate) new: bool,
    /// Features of a version that the site has, and that it has not switched on: what was decided about
    /// the crate was decided without them.
    pub(crate) more_features: Vec<String>,
}

impl ResolvedCrate {
    /// Name and version.
    pub(crate) fn key(&self) -> PackageKey {
        (self.name.clone(), self.version.clone())
    }

    /// Whether somebody has to decide about it.
    pub(crate) fn is_undecided(&self) -> bool {
        self.new || !self.more_features.is_empty()
    }
}

/// A workspace to resolve in: the files of a seed.
#[derive(Debug, Clone)]
pub(crate) struct Workspace {
    files: BTreeMap<String, Vec<u8>>,
    manifest: String,
    lock: Lockfile,
}

impl Workspace {
    /// That of a site.
    pub(crate) fn of_seed(seed: &Path) -> Result<Self, BuilderError> {
        let Seed { files, lock, .. } = Seed::read(seed)?;
        let manifest = files.get("Cargo.toml").map(|bytes| String::from_utf8_lossy(bytes).into_owned());
        Ok(Self { manifest: manifest.unwrap_or_else(manifest::empty), files, lock })
    }

    /// One that offers nothing.
    pub(crate) fn empty() -> Self {
        Self { files: BTreeMap::new(), manifest: manifest::empty(), lock: Lockfile::default() }
    }

    /// Its manifest.
    pub(crate) fn manifest(&self) -> &str {
        &self.manifest
    }

    /// Its lock.
    pub(crate) fn lock(&self) -> &Lockfile {
        &self.lock
    }

    /// Writes it to `root` with this manifest.
    pub(crate) fn write(&self, root: &Path, manifest: &str) -> Result<(), BuilderError> {
        let mut files = self.files.clone();
        files.insert("Cargo.toml".to_owned(), manifest.as_bytes().to_vec());
        files.entry("src/lib.rs".to_owned()).or_insert_with(|| LIBRARY.as_bytes().to_vec());
        for (path, bytes) in &files {
            let path = root.join(path);
            let parent = path.parent().unwrap_or(root);
            std::fs::create_dir_all(parent).map_err(BuilderError::io(parent))?;
            std::fs::write(&path, bytes).map_err(BuilderError::io(&path))?;
        }
        Ok(())
    }

    /// Downloads every package of a lock that was resolved in it, other platforms' included.
    pub(crate) fn fetch(&self, cargo: &Cargo, manifest: &str, lock: &str) -> Result<(), BuilderError> {
        let scratch = cargo.scratch()?;
        self.write(scratch.path(), manifest)?;
        let path = scratch.path().join("Cargo.lock");
        std::fs::write(&path, lock).map_err(BuilderError::io(&path))?;
        cargo.run(scratch.path(), &["fetch", "--locked", "--quiet"]).map(drop)
    }
}

/// Resolves `request` beside `base` and what was approved since `base` was built.
pub(crate) fn resolve(
    cargo: &Cargo,
    base: &Workspace,
    approved: &[CrateRequest],
    request: &CrateRequest,
) -> Result<Resolution, BuilderError> {
    let before = features_before(cargo, base)?;
    let asked: Vec<CrateRequest> = approved.iter().chain([request]).cloned().collect();
    let all = resolve_all(cargo, base, &asked)?;
    keeps(&base.lock, &all.lock, request)?;
    let chosen = chosen(&all, request)?;
    let exactly: Vec<CrateRequest> = approved.iter().cloned().chain([request.exactly(&chosen.1)]).collect();
    let manifest = manifest::with(&base.manifest, &base.lock, &exactly)?;
    let mut members = all.members;
    for member in &mut members {
        let known = before.get(&member.key());
        member.new = known.is_none();
        let is_more = |feature: &&String| known.is_some_and(|known| !known.contains(*feature));
        member.more_features = member.features.iter().filter(is_more).cloned().collect();
    }
    let needs = members.iter().map(|member| (member.key(), member.needs.clone())).collect();
    let paths = closure::paths(&chosen, &needs);
    Ok(Resolution { lock: all.lock_text, manifest, chosen, members, paths })
}

/// Several crates at once.
#[derive(Debug)]
pub(crate) struct Resolved {
    pub(crate) lock_text: String,
    pub(crate) lock: Lockfile,
    pub(crate) manifest: String,
    /// Sorted; nothing in them says what is new.
    pub(crate) members: Vec<ResolvedCrate>,
    /// What the workspace's own package names.
    pub(crate) direct: BTreeSet<PackageKey>,
}

/// Resolves `base` with these crates beside it, and downloads what the target compiles.
pub(crate) fn resolve_all(
    cargo: &Cargo,
    base: &Workspace,
    asked: &[CrateRequest],
) -> Result<Resolved, BuilderError> {
    let scratch = cargo.scratch()?;
    let manifest = manifest::with(&base.manifest, &base.lock, asked)?;
    base.write(scratch.path(), &manifest)?;
    let text = cargo
        .run(scratch.path(), &["metadata", "--format-version=1", "--filter-platform", TARGET, "--quiet"])
        .map_err(|error| with_offer(error, &base.lock, asked))?;
    let lock_path = scratch.path().join("Cargo.lock");
    let lock_text = std::fs::read_to_string(&lock_path).map_err(BuilderError::io(&lock_path))?;
    let lock = Lockfile::parse(&lock_text).map_err(|reason| AcquireError::Other { reason })?;
    let metadata = MetadataCommand::parse(text).map_err(|error| AcquireError::Other {
        reason: mfaas_ident::sanitise_line(&error.to_string(), 300),
    })?;
    let (members, direct) = members(&metadata, &lock)?;
    Ok(Resolved { lock_text, lock, manifest, members, direct })
}

/// The features of every crate that the site compiles today.
fn features_before(
    cargo: &Cargo,
    base: &Workspace,
) -> Result<BTreeMap<PackageKey, BTreeSet<String>>, BuilderError> {
    let members = resolve_all(cargo, base, &[])?.members;
    Ok(members.into_iter().map(|member| (member.key(), member.features.into_iter().collect())).collect())
}

/// Tells which version the site has of a crate that was asked for in another one.
fn with_offer(error: BuilderError, locked: &Lockfile, asked: &[CrateRequest]) -> BuilderError {
    match error {
        BuilderError::Acquire(AcquireError::NoVersion { name, requirement, newest, .. }) => {
            let request = asked.iter().find(|request| request.name.as_str() == name);
            let offered = request.and_then(|request| {
                let versions: Vec<Version> = locked.versions(&request.name).cloned().collect();
                mfaas_rules::nearest(&request.requirement, &versions).cloned()
            });
            AcquireError::NoVersion { name, requirement, newest, offered }.into()
        }
        error => error,
    }
}

/// Every version that the site has must still be there.
fn keeps(before: &Lockfile, now: &Lockfile, request: &CrateRequest) -> Result<(), AcquireError> {
    let lost = before.keys().find(|key| !now.contains(key));
    let Some((name, offered)) = lost else { return Ok(()) };
    let instead: Vec<String> = now.versions(name).map(Version::to_string).collect();
    let reason = format!("`{}` needs {name} {}", request.name, instead.join(" and "));
    Err(AcquireError::Conflict { name: name.clone(), offered: offered.clone(), reason })
}

fn chosen(resolved: &Resolved, request: &CrateRequest) -> Result<PackageKey, AcquireError> {
    let fits = |key: &&PackageKey| key.0 == request.name && request.requirement.matches(&key.1);
    resolved.direct.iter().filter(fits).max().cloned().ok_or_else(|| AcquireError::Other {
        reason: format!("cargo resolved no version of {}", request.name),
    })
}

/// Every package but the workspace's own, and what that one names.
fn members(
    metadata: &Metadata,
    lock: &Lockfile,
) -> Result<(Vec<ResolvedCrate>, BTreeSet<PackageKey>), AcquireError> {
    let problem = |text: &str| AcquireError::Other { reason: text.to_owned() };
    let graph = metadata.resolve.as_ref().ok_or_else(|| problem("cargo names no resolution"))?;
    if graph.nodes.len() > RESOLVE.packages_max {
        return Err(problem(&format!("it takes more than {} crates", RESOLVE.packages_max)));
    }
    let root = graph.root.as_ref().ok_or_else(|| problem("cargo names no root"))?;
    let mut keys: BTreeMap<&PackageId, PackageKey> = BTreeMap::new();
    for package in &metadata.packages {
        let name = CrateName::parse(package.name.as_str())
            .map_err(|_| problem("it needs a crate whose name is none"))?;
        keys.insert(&package.id, (name, package.version.clone()));
    }
    let needs = |node: &Node| -> Vec<PackageKey> {
        let kept = node
            .deps
            .iter()
            .filter(|needed| needed.dep_kinds.iter().any(|found| found.kind != DependencyKind::Development));
        let found: BTreeSet<PackageKey> = kept.filter_map(|needed| keys.get(&needed.pkg).cloned()).collect();
        found.into_iter().collect()
    };
    let mut members = Vec::new();
    let mut direct = BTreeSet::new();
    for node in &graph.nodes {
        let Some((name, version)) = keys.get(&node.id).cloned() else { continue };
        if node.id == *root {
            direct.extend(needs(node));
            continue;
        }
        let mut features: Vec<String> = node.features.iter().map(ToString::to_string).collect();
        features.sort();
        members.push(ResolvedCrate {
            checksum: lock.checksum(&(name.clone(), version.clone())).map(str::to_owned),
            name,
            version,
            features,
            needs: needs(node),
            new: false,
            more_features: Vec::new(),
        });
    }
    members.sort_by_key(ResolvedCrate::key);
    Ok((members, direct))
}
