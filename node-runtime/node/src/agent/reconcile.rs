//! From the set that the node follows to what it serves.
//!
//! Each version is obtained and verified by itself: one that fails is reported and stops no other.
//! Where an alias points at a version that failed, the version that answered before goes on
//! answering, unless it is revoked, or was signed by a key that counts no more: after a leak nobody can tell whose it is.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use chrono::Utc;
use mfaas_attest::{ServingSet, Trust};
use mfaas_delivery::{Availability, LoadedVersion, RefusedVersion};
use mfaas_ident::{AliasName, Digest, FunctionName, TenantName, VersionNumber};
use mfaas_rules::codes;

use super::gate::Refused;
use super::image::{self, ARTIFACT_BYTES_MAX, ImageKey, STATEMENT_BYTES_MAX, VerifiedImage};
use super::report;
use super::{Agent, Loaded};
use crate::serving::{Dispatcher, Route, Served, Stalled, Table, VersionName};
use crate::state::KeptAlias;

/// Versions that one node serves, at most: each is a descriptor, and a slot of the slab when it is
/// resident.
const VERSIONS_MAX: usize = 100_000;

/// Names of functions and the images behind them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Routes(BTreeMap<(TenantName, FunctionName), KeyRoute>);

/// One function: its aliases, and the image of each version that an alias or a number can name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct KeyRoute {
    aliases: BTreeMap<AliasName, VersionNumber>,
    versions: BTreeMap<VersionNumber, ImageKey>,
}

/// Images by what they are.
pub(super) type Images = BTreeMap<ImageKey, Arc<VerifiedImage>>;

/// What came of bringing the node to a set.
#[derive(Debug, Default)]
pub(super) struct Outcome {
    /// The set is in force, perhaps without the versions in `refused`.
    pub(super) complete: bool,
    /// Trying again may help.
    pub(super) incomplete: bool,
    /// Whom it may help.
    pub(super) coming: BTreeSet<VersionName>,
    pub(super) refused: Vec<RefusedVersion>,
    pub(super) problems: Vec<mfaas_delivery::NodeProblem>,
}

/// A version that is not available.
struct Missing {
    refused: Refused,
    /// The bytes could not be had, which may change; a verdict on them does not.
    again: bool,
}

impl From<Refused> for Missing {
    fn from(refused: Refused) -> Self {
        Self { refused, again: false }
    }
}

/// Brings the node to `set`, which the caller found valid and made durable.
pub(super) async fn bring_to(agent: &mut Agent, set: &Arc<mfaas_attest::Verified<ServingSet>>) -> Outcome {
    let mut outcome = Outcome::default();
    let mut good = obtain_all(agent, set, &mut outcome).await;
    let kept = kept_aliases(agent);
    let trust = agent.gate.trust(Utc::now());
    // Each round either ends or takes at least one image out, so the rounds end.
    loop {
        let (mut routes, images) = plan(set, &good, &agent.loaded, |image| image.is_vouched_for(&trust));
        routes.restore(set, &kept);
        match put_into_force(agent, set, routes, images).await {
            Ok(()) => {
                outcome.complete = true;
                keep_aliases(agent);
                prune(agent, set);
                return outcome;
            }
            Err(failed) if failed.is_empty() => {
                outcome.incomplete = true;
                outcome
                    .problems
                    .push(report::problem(codes::MF0709, "loader or workers could not be started"));
                return outcome;
            }
            Err(failed) => {
                for (key, refused) in failed {
                    // An image that cannot be loaded stays so, and the dispatcher has said it.
                    outcome.refused.push(row(&key, refused));
                    good.remove(&key);
                    agent.loaded.images.remove(&key);
                }
            }
        }
    }
}

/// A cordoned node that starts again has no version before to fall back to, so it remembers where its aliases led.
/// Without that it serves what the set says as far as it has it.
fn kept_aliases(agent: &Agent) -> Vec<KeptAlias> {
    if !is_cordoned(agent) || !agent.loaded.images.is_empty() {
        return Vec::new();
    }
    agent.state.aliases().unwrap_or_else(|error| {
        tracing::warn!(%error, "aliases that led to older versions are lost");
        Vec::new()
    })
}

fn keep_aliases(agent: &Agent) {
    if is_cordoned(agent)
        && let Err(error) = agent.state.store_aliases(&agent.loaded.routes.aliases())
    {
        tracing::warn!(%error, "where aliases lead is not known after a restart");
    }
}

/// Cordoned, or drained, which is more.
fn is_cordoned(agent: &Agent) -> bool {
    agent.dispatcher.standing().availability() != Availability::Active
}

async fn obtain_all(
    agent: &Agent,
    set: &Arc<mfaas_attest::Verified<ServingSet>>,
    outcome: &mut Outcome,
) -> Images {
    let trust = agent.gate.trust(Utc::now());
    let mut good = Images::new();
    for function in &set.functions {
        for version in &function.versions {
            let key = ImageKey::of(function, version);
            let obtained = if good.len() < VERSIONS_MAX {
                obtain(agent, set, &key, &trust).await
            } else {
                let message = format!("a node loads at most {VERSIONS_MAX} versions");
                Err(Refused::new(codes::MF0709, message).into())
            };
            match obtained {
                Ok(image) => drop(good.insert(key, image)),
                Err(Missing { refused, again }) => {
                    warn_once(agent, &key, &refused);
                    if again {
                        outcome.incomplete = true;
                        outcome.coming.insert(name_of(&key));
                    }
                    outcome.refused.push(row(&key, refused));
                }
            }
        }
    }
    good
}

/// What is tried again every few seconds is said once.
fn warn_once(agent: &Agent, key: &ImageKey, refused: &Refused) {
    let known = agent
        .status
        .borrow()
        .refused
        .iter()
        .any(|row| row.digest == key.digest && row.version == key.version && row.code == refused.code);
    if !known {
        tracing::warn!(function = %key, %refused, "a version is not loaded");
    }
}

/// The verified image of one version: the loaded one if it is still good, else from the bytes.
async fn obtain(
    agent: &Agent,
    set: &Arc<mfaas_attest::Verified<ServingSet>>,
    key: &ImageKey,
    trust: &Trust,
) -> Result<Arc<VerifiedImage>, Missing> {
    if let Some(image) = agent.loaded.images.get(key) {
        image.recheck(set, trust)?;
        return Ok(Arc::clone(image));
    }
    image::check_revoked(set, key)?;
    let artifact = blob(agent, key.digest, Kind::Artifact).await?;
    let statement = blob(agent, key.statement, Kind::Statement).await?;
    let (set, key, trust) = (Arc::clone(set), key.clone(), trust.clone());
    // Hashing and decoding a whole image takes milliseconds: not on the threads that answer calls.
    let verified =
        tokio::task::spawn_blocking(move || image::verify(&set, &key, &artifact, &statement, &trust)).await;
    match verified {
        Ok(verified) => Ok(Arc::new(verified?)),
        Err(e) => Err(Refused::new(codes::MF0708, format!("the inspection did not end well: {e}")).into()),
    }
}

#[derive(Clone, Copy)]
enum Kind {
    Artifact,
    Statement,
}

/// Bytes by digest: from the cache, else from the server, hashed in both cases.
async fn blob(agent: &Agent, digest: Digest, kind: Kind) -> Result<Vec<u8>, Missing> {
    let again = |code, message: String| Missing { refused: Refused::new(code, message), again: true };
    let cached = agent.state.blob(digest).map_err(|e| again(codes::MF0709, e.to_string()))?;
    if let Some(bytes) = cached {
        return Ok(bytes);
    }
    // Not on the disk is not served yet: that is new, and a node that takes nothing new leaves it. What it has served
    // stays on the disk, so it comes back with all of it after a restart.
    if is_cordoned(agent) {
        return Err(again(codes::MF0711, format!("{digest} is new, and the node is cordoned")));
    }
    let fetched = match kind {
        Kind::Artifact => agent.upstream.artifact(digest, ARTIFACT_BYTES_MAX).await,
        Kind::Statement => agent.upstream.statement(digest, STATEMENT_BYTES_MAX).await,
    };
    let bytes = fetched.map_err(|e| again(e.code().unwrap_or(codes::MF0607), e.to_string()))?;
    if Digest::of(&bytes) != digest {
        let message = format!("what the server gave for {digest} has the digest {}", Digest::of(&bytes));
        return Err(again(codes::MF0704, message));
    }
    agent.state.store_blob(&bytes).map_err(|e| again(codes::MF0709, e.to_string()))?;
    Ok(bytes)
}

/// Which names lead where, and which images that takes.
fn plan(
    set: &ServingSet,
    good: &Images,
    before: &Loaded,
    is_vouched_for: impl Fn(&VerifiedImage) -> bool,
) -> (Routes, Images) {
    let mut routes = BTreeMap::new();
    let mut images = Images::new();
    for function in &set.functions {
        let name = (function.tenant.clone(), function.name.clone());
        let mut route = KeyRoute { aliases: function.aliases.clone(), versions: BTreeMap::new() };
        for version in &function.versions {
            let key = ImageKey::of(function, version);
            if let Some(image) = good.get(&key) {
                route.versions.insert(key.version, key.clone());
                images.insert(key, Arc::clone(image));
            }
        }
        let old = before.routes.0.get(&name);
        for alias in function.aliases.keys() {
            keep_or_fall_back(set, alias, &mut route, old, (before, &is_vouched_for), &mut images);
        }
        if !route.versions.is_empty() {
            routes.insert(name, route);
        }
    }
    (Routes(routes), images)
}

/// Leaves the alias where the set puts it, if that version is there; else puts it back to what it
/// named before, if that is still loaded, vouched for and not revoked; else takes it away.
fn keep_or_fall_back(
    set: &ServingSet,
    alias: &AliasName,
    route: &mut KeyRoute,
    old: Option<&KeyRoute>,
    (before, is_vouched_for): (&Loaded, &impl Fn(&VerifiedImage) -> bool),
    images: &mut Images,
) {
    if route.aliases.get(alias).is_some_and(|version| route.versions.contains_key(version)) {
        return;
    }
    route.aliases.remove(alias);
    let previous = old.and_then(|old| old.versions.get(old.aliases.get(alias)?));
    let still_there = previous.and_then(|key| Some((key, before.images.get(key)?)));
    if let Some((key, image)) = still_there
        && !set.revoked.contains(&key.digest)
        && is_vouched_for(image)
    {
        route.aliases.insert(alias.clone(), key.version);
        route.versions.insert(key.version, key.clone());
        images.insert(key.clone(), Arc::clone(image));
    }
}

/// Makes the new images known, lets names lead to them, then retires what no name leads to any more.
/// The error holds the images that are not taken; empty = none is to blame.
async fn put_into_force(
    agent: &mut Agent,
    set: &ServingSet,
    routes: Routes,
    images: Images,
) -> Result<(), Vec<(ImageKey, Refused)>> {
    let new = images.iter().filter(|(key, _)| !agent.loaded.images.contains_key(*key));
    let new: Vec<_> = new.map(|(_, image)| Arc::clone(image)).collect();
    if !new.is_empty() {
        match agent.dispatcher.define(&new).await {
            Ok(failed) if failed.is_empty() => {}
            // The others stay: the next round defines them again, which changes nothing.
            Ok(failed) => return Err(failed),
            Err(Stalled) => {
                tracing::error!("loader or workers did not come up in time");
                return Err(Vec::new());
            }
        }
    }
    let table = routes.table(&agent.dispatcher, &images);
    agent.dispatcher.swap(table, |key| images.contains_key(key), |key| set.revoked.contains(&key.digest));
    agent.loaded = Loaded { images, routes };
    Ok(())
}

/// The cache keeps what the set names and what is loaded.
fn prune(agent: &Agent, set: &ServingSet) {
    let named = set.artifacts().flat_map(|(_, version)| [version.digest, version.statement]);
    let loaded = agent.loaded.images.keys().flat_map(|key| [key.digest, key.statement]);
    let keep: BTreeSet<Digest> = named.chain(loaded).collect();
    agent.state.prune_blobs(|digest| keep.contains(&digest));
}

fn name_of(key: &ImageKey) -> VersionName {
    (key.tenant.clone(), key.function.clone(), key.version)
}

fn row(key: &ImageKey, refused: Refused) -> RefusedVersion {
    RefusedVersion {
        tenant: key.tenant.clone(),
        function: key.function.clone(),
        version: key.version,
        digest: key.digest,
        code: refused.code,
        message: refused.message,
    }
}

impl Routes {
    /// Every version that answers, for the report.
    pub(super) fn loaded(&self) -> Vec<LoadedVersion> {
        let keys = self.0.values().flat_map(|route| route.versions.values());
        keys.map(|key| LoadedVersion {
            tenant: key.tenant.clone(),
            function: key.function.clone(),
            version: key.version,
            digest: key.digest,
        })
        .collect()
    }

    /// Where every alias leads.
    fn aliases(&self) -> Vec<KeptAlias> {
        let row = |((tenant, function), route): (&(TenantName, FunctionName), &KeyRoute)| {
            let (tenant, function) = (tenant.clone(), function.clone());
            let one = move |(alias, version): (&AliasName, &VersionNumber)| KeptAlias {
                tenant: tenant.clone(),
                function: function.clone(),
                alias: alias.clone(),
                version: *version,
            };
            route.aliases.iter().map(one).collect::<Vec<_>>()
        };
        self.0.iter().flat_map(row).collect()
    }

    /// Lets aliases that the set names, and that lead nowhere now, lead where they led before.
    fn restore(&mut self, set: &ServingSet, kept: &[KeptAlias]) {
        if kept.is_empty() {
            return;
        }
        let names: BTreeMap<_, _> =
            set.functions.iter().map(|named| ((&named.tenant, &named.name), &named.aliases)).collect();
        for KeptAlias { tenant, function, alias, version } in kept {
            let is_named = names.get(&(tenant, function)).is_some_and(|aliases| aliases.contains_key(alias));
            if let Some(route) = self.0.get_mut(&(tenant.clone(), function.clone()))
                && is_named
                && route.versions.contains_key(version)
            {
                route.aliases.entry(alias.clone()).or_insert(*version);
            }
        }
    }

    fn table(&self, dispatcher: &Dispatcher, images: &Images) -> Table {
        let mut table = Table::default();
        for ((tenant, function), route) in &self.0 {
            let served = |(version, key): (&VersionNumber, &ImageKey)| {
                // Every route leads to an image; one without would have no statement to say who may call it.
                let access = images.get(key)?.declared().access();
                let id = dispatcher.function(key);
                Some((*version, Arc::new(Served { id, key: key.clone(), access })))
            };
            let versions = route.versions.iter().filter_map(served).collect();
            let route = Route { aliases: route.aliases.clone(), versions };
            table.insert(tenant.clone(), function.clone(), route);
        }
        table
    }
}

#[cfg(test)]
mod tests;
