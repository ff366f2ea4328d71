//! From the set that the node follows to what it serves, function by function.
//!
//! Each version is obtained and verified by itself: one that fails is reported and stops no other.
//! Where an alias points at a version that failed, the version that answered before goes on
//! answering, unless it is revoked, or was signed by a key that counts no more: after a leak its author is unknown.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs::File;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};
use std::time::{Instant, SystemTime};

use mfaas_attest::{ServedFunction, ServingSet, Trust, Verified};
use mfaas_delivery::{Availability, RefusedVersion};
use mfaas_ident::{AliasName, AssetContent, Binding, Digest, Epoch, TraceParent, VersionNumber};
use mfaas_rules::{Code, codes};
use mfaas_trace::Work;
use tokio::sync::Mutex;
use tokio::task;

use crate::function_tree::{FunctionTree, Name, Walk};
use crate::image::{
    self, ARTIFACT_BYTES_MAX, ImageAsset, ImageKey, MachineCode, STATEMENT_BYTES_MAX, VerifiedImage,
};
use crate::meters;
use crate::refused::Refused;
use crate::serving::{Awaited, Dispatcher, Route, RouteChange, Stalled};
use crate::state::{KeptAlias, StateDir};
use crate::upstream::Upstream;

/// Versions that one node serves, at most: each is a descriptor, and a slot of the slab when it is
/// resident.
const VERSIONS_MAX: usize = 100_000;
/// Versions that are fetched and verified side by side.
const OBTAINED_AT_ONCE: usize = 8;

/// Brings functions to what the tree says of them, and knows what is in force.
#[derive(Debug)]
pub(super) struct Reconciler {
    state: StateDir,
    upstream: Upstream,
    dispatcher: Arc<Dispatcher>,
    /// The functions of the set that the node follows.
    tree: Arc<RwLock<FunctionTree>>,
    loaded: Loaded,
    exceptions: Exceptions,
    /// Where aliases led before a cordoned node was started again, until it serves.
    kept: KeptAliases,
}

/// Aliases of functions with the version that each led to.
type KeptAliases = BTreeMap<Name, Vec<(AliasName, VersionNumber)>>;

/// What is in force.
#[derive(Debug, Default)]
struct Loaded {
    functions: BTreeMap<Name, Route>,
    versions: usize,
}

/// A version of the set that is not loaded.
#[derive(Debug)]
struct Exception {
    row: RefusedVersion,
    /// The bytes could not be had, which may change; a verdict on them does not.
    again: bool,
}

/// Versions of the set that are not loaded.
type Exceptions = BTreeMap<Name, Vec<Exception>>;

/// Why a version is not available.
struct Missing {
    refused: Refused,
    again: bool,
}

/// What may be had later.
fn again(code: Code, message: String) -> Missing {
    Missing { refused: Refused::new(code, message), again: true }
}

impl From<Refused> for Missing {
    fn from(refused: Refused) -> Self {
        Self { refused, again: false }
    }
}

impl Loaded {
    /// Artifacts and statements that are in use.
    fn digests(&self) -> impl Iterator<Item = Digest> {
        let images = self.functions.values().flat_map(|route| route.images.values());
        images.flat_map(|image| {
            let assets = image.assets().iter().map(|asset| asset.content.digest);
            [image.key().digest, image.key().statement].into_iter().chain(assets)
        })
    }

    /// Where every alias leads.
    fn aliases(&self) -> Vec<KeptAlias> {
        let all = self.functions.iter().flat_map(|(name, route)| {
            route.aliases.iter().map(move |(alias, version)| (name, alias, version))
        });
        all.map(|((tenant, function), alias, version)| KeptAlias {
            tenant: tenant.clone(),
            function: function.clone(),
            alias: alias.clone(),
            version: *version,
        })
        .collect()
    }

    fn image(&self, name: &Name, key: &ImageKey) -> Option<&Arc<VerifiedImage>> {
        let image = self.functions.get(name)?.images.get(&key.version)?;
        (image.key() == key).then_some(image)
    }

    fn put(&mut self, name: Name, route: Route) {
        self.versions += route.images.len();
        let old = if route.images.is_empty() {
            self.functions.remove(&name)
        } else {
            self.functions.insert(name, route)
        };
        self.versions -= old.map_or(0, |old| old.images.len());
    }
}

/// Images of functions by version.
type Good = BTreeMap<Name, BTreeMap<VersionNumber, Arc<VerifiedImage>>>;
type Obtained = Result<Arc<VerifiedImage>, Missing>;
/// Functions, one of them perhaps twice, with what the tree says of them; nothing of one that it does not name any more.
type Wanted<'a> = Vec<(&'a Name, Option<ServedFunction>)>;

impl Reconciler {
    /// One that has loaded nothing.
    pub(super) fn new(state: StateDir, upstream: Upstream, dispatcher: Arc<Dispatcher>) -> Self {
        let (tree, loaded, exceptions, kept) = Default::default();
        Self { state, upstream, dispatcher, tree, loaded, exceptions, kept }
    }

    /// The functions of the set that the node follows.
    pub(super) fn tree(&self) -> RwLockReadGuard<'_, FunctionTree> {
        self.tree.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the tree of another set; the functions of which something changed. Until everything of it was tried, a name of
    /// it that leads nowhere is no unknown name.
    pub(super) fn take(&mut self, walk: Walk) -> BTreeSet<Name> {
        let changed = self.tree.write().unwrap_or_else(PoisonError::into_inner).take(walk);
        self.dispatcher.await_set(Awaited { tree: Arc::clone(&self.tree), only: None });
        changed
    }

    /// Every function that the tree names or of which a version answers.
    pub(super) fn names(&self) -> BTreeSet<Name> {
        let tree = self.tree();
        let named = tree.functions().map(|row| (row.tenant.clone(), row.name.clone()));
        named.chain(self.loaded.functions.keys().cloned()).collect()
    }

    /// How many versions answer.
    pub(super) fn versions(&self) -> usize {
        self.loaded.versions
    }

    /// Versions of the set that are not loaded.
    pub(super) fn refused(&self) -> impl Iterator<Item = &RefusedVersion> {
        self.exceptions.values().flatten().map(|exception| &exception.row)
    }

    /// Functions on their way that were called since this was asked before.
    pub(super) fn take_wanted(&self) -> BTreeSet<Name> {
        self.dispatcher.take_wanted()
    }

    /// Functions of which something could not be had that may come.
    pub(super) fn unfinished(&self) -> impl Iterator<Item = &Name> {
        let unfinished = self.exceptions.iter().filter(|(_, rows)| rows.iter().any(|row| row.again));
        unfinished.map(|(name, _)| name)
    }

    /// What was revoked of what these functions reach counts at once.
    pub(super) fn narrow_grants<'a>(&self, names: impl IntoIterator<Item = &'a Name>) {
        let tree = self.tree();
        for name in names {
            let function = tree.function(&name.0, &name.1);
            self.dispatcher.narrow_grants(name, function.map(|function| &function.resources));
        }
    }

    /// Brings these functions to what the tree says of them.
    pub(super) async fn bring(
        &mut self,
        set: &Arc<Verified<ServingSet>>,
        trust: Trust,
        names: &[Name],
    ) -> Result<(), Stalled> {
        let wanted: Wanted<'_> = {
            let tree = self.tree();
            names.iter().map(|name| (name, tree.function(&name.0, &name.1).cloned())).collect()
        };
        let trust = Arc::new(trust);
        let mut exceptions = Exceptions::new();
        let mut good = self.obtain_all(set, &trust, &wanted, &mut exceptions).await;
        let new = good.iter().flat_map(|(name, images)| {
            images.values().filter(|image| self.loaded.image(name, image.key()).is_none()).cloned()
        });
        let new: Vec<_> = new.collect();
        let loading = SystemTime::now();
        let failed = if new.is_empty() { Vec::new() } else { self.dispatcher.define(&new).await? };
        for (key, refused) in failed {
            let name = (key.tenant.clone(), key.function.clone());
            good.entry(name).or_default().remove(&key.version);
            // An image that cannot be loaded stays so, and the dispatcher has logged it.
            note(&mut exceptions, &key, Missing::from(refused));
        }
        self.put_into_force(&wanted, &good, &trust);
        for image in &new {
            let key = image.key();
            let is_good = |images: &BTreeMap<_, _>| images.contains_key(&key.version);
            let is_loaded = good.get(&(key.tenant.clone(), key.function.clone())).is_some_and(is_good);
            meters::version_loaded(is_loaded);
            if is_loaded {
                let trace = image.trace_parent().map(|place| place.trace_id());
                tell_load(image, set.epoch, loading);
                tracing::info!(
                    trace,
                    function = %key, deployment = %image.deployment(), epoch = %set.epoch, "a version is loaded"
                );
            }
        }
        for name in names {
            self.exceptions.remove(name);
        }
        self.exceptions.append(&mut exceptions);
        Ok(())
    }

    /// Lets names lead to the images that are good, and retires what no name leads to any more.
    fn put_into_force(&mut self, wanted: &Wanted<'_>, good: &Good, trust: &Trust) {
        let planned = wanted.iter().map(|(name, function)| {
            let before = self.loaded.functions.get(*name);
            let kept = self.kept.get(*name).map_or(&[][..], Vec::as_slice);
            let good = good.get(*name).cloned().unwrap_or_default();
            plan(function.as_ref(), good, before, kept, |image| image.is_vouched_for(trust))
        });
        let planned: Vec<Route> = planned.collect();
        let changes = wanted.iter().zip(&planned).map(|((name, function), route)| {
            let revoked = function.as_ref().map(|function| &function.revoked);
            let resources = function.as_ref().map(|function| &function.resources);
            RouteChange { name, route, revoked, resources }
        });
        self.dispatcher.route(&changes.collect::<Vec<_>>());
        for ((name, _), route) in wanted.iter().zip(planned) {
            self.loaded.put((*name).clone(), route);
        }
    }

    /// Everything of the set was tried. What was refused for good does not come.
    pub(super) fn settle(&mut self) {
        let coming = self.exceptions.values().flatten().filter(|exception| exception.again);
        let coming =
            coming.map(|Exception { row, .. }| (row.tenant.clone(), row.function.clone(), row.version));
        let only = Some(coming.collect());
        self.dispatcher.await_set(Awaited { tree: Arc::clone(&self.tree), only });
        // A node that has nothing of what it serves, and may still get it, is not worth calling.
        let has_nothing = self.loaded.versions == 0;
        if !has_nothing || self.unfinished().next().is_none() {
            self.dispatcher.note_whole();
        }
        self.kept.clear();
        self.keep_aliases();
    }

    /// A cordoned node that starts again has no version before to fall back to, so it remembers where its aliases led.
    /// Without that it serves what the set says as far as it has it.
    pub(super) fn recall_aliases(&mut self) {
        if !self.is_cordoned() {
            return;
        }
        let aliases = self.state.aliases().unwrap_or_else(|error| {
            tracing::warn!(%error, "aliases that led to older versions are lost");
            Vec::new()
        });
        for KeptAlias { tenant, function, alias, version } in aliases {
            self.kept.entry((tenant, function)).or_default().push((alias, version));
        }
    }

    /// Remembers where aliases lead, on a node that takes nothing new.
    fn keep_aliases(&self) {
        if self.is_cordoned()
            && let Err(error) = self.state.store_aliases(&self.loaded.aliases())
        {
            tracing::warn!(%error, "cannot persist alias targets");
        }
    }

    /// The cache keeps what the set names and what is loaded. Nothing may be stored meanwhile.
    pub(super) async fn prune(&self, set: Option<&ServingSet>) {
        let keep: BTreeSet<Digest> = {
            let tree = self.tree();
            let versions = tree.functions().flat_map(|function| &function.versions);
            let named = versions.flat_map(|version| [version.digest, version.statement]);
            let revoked = set.and_then(|set| set.revoked_calls);
            named.chain(tree.digests()).chain(self.loaded.digests()).chain(revoked).collect()
        };
        let state = self.state.clone();
        let pruning = task::spawn_blocking(move || state.prune_blobs(|digest| keep.contains(&digest)));
        // What is left over costs space.
        drop(pruning.await);
    }

    /// Cordoned, or drained, which is more.
    fn is_cordoned(&self) -> bool {
        self.dispatcher.standing().availability() != Availability::Active
    }

    /// Every version that is wanted and can be had.
    async fn obtain_all(
        &self,
        set: &Arc<Verified<ServingSet>>,
        trust: &Arc<Trust>,
        wanted: &Wanted<'_>,
        exceptions: &mut Exceptions,
    ) -> Good {
        let source = Source {
            state: self.state.clone(),
            upstream: self.upstream.clone(),
            is_cordoned: self.is_cordoned(),
            set: Arc::clone(set),
            trust: Arc::clone(trust),
            minimum: self.dispatcher.minimum(),
            assets: Arc::default(),
        };
        let mut good = Good::new();
        let mut found = |key: ImageKey, obtained: Obtained| match obtained {
            Ok(image) => {
                drop(good.entry((key.tenant, key.function)).or_default().insert(key.version, image));
            }
            Err(missing) => {
                self.warn_once(&key, &missing.refused);
                meters::version_loaded(false);
                note(exceptions, &key, missing);
            }
        };
        let replaced = wanted.iter().filter_map(|(name, _)| self.loaded.functions.get(*name));
        let replaced: usize = replaced.map(|old| old.images.len()).sum();
        // What an alias falls back to counts too, and may be more than that.
        let mut room = (VERSIONS_MAX + replaced).saturating_sub(self.loaded.versions);
        let (mut obtaining, mut keys) = (task::JoinSet::new(), HashMap::new());
        for (name, function) in wanted {
            let Some(function) = function else { continue };
            for version in &function.versions {
                let key = ImageKey::of(function, version);
                if let Err(refused) = image::check_revoked(function, &key) {
                    found(key, Err(refused.into()));
                    continue;
                }
                if room == 0 {
                    let message = format!("a node loads at most {VERSIONS_MAX} versions");
                    found(key, Err(Refused::new(codes::MF0709, message).into()));
                    continue;
                }
                room -= 1;
                if let Some(image) = self.loaded.image(name, &key) {
                    let good = image.recheck(set, trust).map(|()| Arc::clone(image));
                    found(key, good.map_err(Missing::from));
                    continue;
                }
                while obtaining.len() >= OBTAINED_AT_ONCE
                    && let Some(joined) = obtaining.join_next_with_id().await
                {
                    ended(joined, &mut keys, &mut found);
                }
                let (source, sought) = (source.clone(), key.clone());
                let task = obtaining.spawn(async move { source.obtain(&sought).await });
                keys.insert(task.id(), key);
            }
        }
        while let Some(joined) = obtaining.join_next_with_id().await {
            ended(joined, &mut keys, &mut found);
        }
        self.hold_grants(wanted, &mut good, exceptions);
        good
    }

    /// Leaves out what reads an asset that its tenant is not granted.
    fn hold_grants(&self, wanted: &Wanted<'_>, good: &mut Good, exceptions: &mut Exceptions) {
        for (name, function) in wanted {
            let (Some(function), Some(images)) = (function, good.get_mut(*name)) else { continue };
            images.retain(|_, image| match demand_assets(function, image) {
                Ok(()) => true,
                Err(refused) => {
                    self.warn_once(image.key(), &refused);
                    note(exceptions, image.key(), refused.into());
                    false
                }
            });
        }
    }

    /// What is tried again every few seconds is logged once.
    fn warn_once(&self, key: &ImageKey, refused: &Refused) {
        let name = (key.tenant.clone(), key.function.clone());
        let is_known = self.exceptions.get(&name).is_some_and(|rows| {
            rows.iter().any(|Exception { row, .. }| {
                (row.digest, row.version, row.code) == (key.digest, key.version, refused.code)
            })
        });
        if !is_known {
            tracing::warn!(function = %key, %refused, "a version is not loaded");
        }
    }
}

/// Tells of a load: a span from when it was handed to the loader until calls reach it.
fn tell_load(image: &VerifiedImage, epoch: Epoch, began: SystemTime) {
    if let Some(place) = image.trace_parent() {
        let attributes = [
            ("mfaas.deployment", image.deployment().to_string()),
            ("mfaas.function", image.key().to_string()),
            ("mfaas.epoch", epoch.to_string()),
        ];
        let (ended, attributes) = (SystemTime::now(), attributes.as_slice());
        mfaas_trace::record(&place, Work { name: "load", began, ended, attributes });
    }
}

/// What it takes to obtain an image.
#[derive(Clone)]
struct Source {
    state: StateDir,
    upstream: Upstream,
    is_cordoned: bool,
    set: Arc<Verified<ServingSet>>,
    trust: Arc<Trust>,
    /// The least that an image must be.
    minimum: MachineCode,
    /// Held by whoever has an asset in memory.
    assets: Arc<Mutex<()>>,
}

/// Whatever became of a task, its version is found or missing.
fn ended(
    joined: Result<(task::Id, Obtained), task::JoinError>,
    keys: &mut HashMap<task::Id, ImageKey>,
    found: &mut impl FnMut(ImageKey, Obtained),
) {
    let (id, obtained) = joined.unwrap_or_else(|error| {
        let refused = Refused::new(codes::MF0709, format!("it was lost while it was obtained: {error}"));
        (error.id(), Err(Missing { refused, again: true }))
    });
    if let Some(key) = keys.remove(&id) {
        found(key, obtained);
    }
}

fn note(exceptions: &mut Exceptions, key: &ImageKey, Missing { refused, again }: Missing) {
    let row = RefusedVersion {
        tenant: key.tenant.clone(),
        function: key.function.clone(),
        version: key.version,
        digest: key.digest,
        code: refused.code,
        message: refused.message,
    };
    exceptions.entry((key.tenant.clone(), key.function.clone())).or_default().push(Exception { row, again });
}

#[derive(Clone, Copy)]
enum Kind {
    Artifact,
    Statement,
}

impl Source {
    /// The verified image of one version, from its bytes.
    async fn obtain(self, key: &ImageKey) -> Result<Arc<VerifiedImage>, Missing> {
        let began = Instant::now();
        let (artifact, _) = self.blob(key, Kind::Artifact).await?;
        let (statement, trace_parent) = self.blob(key, Kind::Statement).await?;
        let source = self.clone();
        let (set, key, trust, minimum) = (self.set, key.clone(), self.trust, self.minimum);
        // Hashing and decoding a whole image takes milliseconds: not on the threads that answer calls.
        let verified =
            task::spawn_blocking(move || image::verify(&set, &key, &artifact, &statement, &trust, minimum))
                .await;
        match verified {
            Ok(verified) => {
                let image = verified?.traced(trace_parent);
                let files = source.asset_files(image.assets()).await?;
                meters::version_obtained(began.elapsed());
                Ok(Arc::new(image.with_asset_files(files)))
            }
            Err(e) => {
                Err(Refused::new(codes::MF0708, format!("the inspection did not end well: {e}")).into())
            }
        }
    }

    /// Files with the bytes of assets: from the cache, else from the server. One at a time: they are large.
    async fn asset_files(&self, assets: &[ImageAsset]) -> Result<Vec<File>, Missing> {
        let mut files = Vec::new();
        for ImageAsset { content, .. } in assets {
            let _alone = self.assets.lock().await;
            if let Some(file) = self.cached_asset(*content).await? {
                files.push(file);
                continue;
            }
            self.fetch_asset(*content).await?;
            let file = self.cached_asset(*content).await?;
            let lost = || again(codes::MF0709, format!("the asset {} is not kept", content.digest));
            files.push(file.ok_or_else(lost)?);
        }
        Ok(files)
    }

    async fn cached_asset(&self, content: AssetContent) -> Result<Option<File>, Missing> {
        let state = self.state.clone();
        let read = task::spawn_blocking(move || state.asset(&content)).await;
        let read = read.map_err(|e| again(codes::MF0709, format!("an asset was not read: {e}")))?;
        read.map_err(|e| again(codes::MF0709, e.to_string()))
    }

    async fn fetch_asset(&self, AssetContent { digest, bytes }: AssetContent) -> Result<(), Missing> {
        if self.is_cordoned {
            return Err(again(codes::MF0711, format!("{digest} is new, and the node is cordoned")));
        }
        let most = usize::try_from(bytes).unwrap_or(usize::MAX);
        let fetched = self.upstream.asset(digest, most).await;
        let fetched = fetched.map_err(|e| again(e.code().unwrap_or(codes::MF0607), e.to_string()))?;
        let state = self.state.clone();
        let kept = task::spawn_blocking(move || {
            let found = Digest::of(&fetched);
            if found != digest {
                let message = format!("what the server gave for {digest} has the digest {found}");
                return Err(again(codes::MF0704, message));
            }
            state.store_blob(&fetched).map_err(|e| again(codes::MF0709, e.to_string()))
        });
        kept.await.map_err(|e| again(codes::MF0709, format!("an asset was not kept: {e}")))?
    }

    /// Bytes by digest: from the cache, else from the server, hashed in both cases.
    /// A statement that is fetched comes with the place of its deployment in a trace.
    async fn blob(&self, key: &ImageKey, kind: Kind) -> Result<(Vec<u8>, Option<TraceParent>), Missing> {
        let digest = match kind {
            Kind::Artifact => key.digest,
            Kind::Statement => key.statement,
        };
        let cached = self.state.blob(digest).map_err(|e| again(codes::MF0709, e.to_string()))?;
        if let Some(bytes) = cached {
            return Ok((bytes, None));
        }
        // Not on the disk is not served yet: that is new, and a node that takes nothing new leaves it. What it has served
        // stays on the disk, so it comes back with all of it after a restart.
        if self.is_cordoned {
            return Err(again(codes::MF0711, format!("{digest} is new, and the node is cordoned")));
        }
        let fetched = match kind {
            Kind::Artifact => {
                self.upstream.artifact(digest, ARTIFACT_BYTES_MAX).await.map(|bytes| (bytes, None))
            }
            Kind::Statement => self.upstream.statement(key, STATEMENT_BYTES_MAX).await,
        };
        let (bytes, trace_parent) =
            fetched.map_err(|e| again(e.code().unwrap_or(codes::MF0607), e.to_string()))?;
        if Digest::of(&bytes) != digest {
            let message = format!("what the server gave for {digest} has the digest {}", Digest::of(&bytes));
            return Err(again(codes::MF0704, message));
        }
        self.state.store_blob(&bytes).map_err(|e| again(codes::MF0709, e.to_string()))?;
        Ok((bytes, trace_parent))
    }
}

/// Where the names of a function lead, and the images that that takes.
fn plan(
    function: Option<&ServedFunction>,
    good: BTreeMap<VersionNumber, Arc<VerifiedImage>>,
    before: Option<&Route>,
    kept: &[(AliasName, VersionNumber)],
    is_vouched_for: impl Fn(&VerifiedImage) -> bool,
) -> Route {
    let Some(function) = function else { return Route::default() };
    let mut planned = Route { aliases: BTreeMap::new(), images: good };
    for (alias, version) in &function.aliases {
        if planned.images.contains_key(version) {
            planned.aliases.insert(alias.clone(), *version);
            continue;
        }
        let image = before.and_then(|before| before.images.get(before.aliases.get(alias)?));
        if let Some(image) = image.filter(|image| goes_on(function, image) && is_vouched_for(image)) {
            planned.aliases.insert(alias.clone(), image.key().version);
            planned.images.insert(image.key().version, Arc::clone(image));
        } else if let Some((_, version)) = kept.iter().find(|(kept, _)| kept == alias)
            && planned.images.contains_key(version)
        {
            planned.aliases.insert(alias.clone(), *version);
        }
    }
    planned
}

/// Whether an image that the set names no more may answer for an alias: only while the set says that it is not revoked.
fn goes_on(function: &ServedFunction, image: &VerifiedImage) -> bool {
    let key = image.key();
    let is_granted = demand_assets(function, image).is_ok();
    function.tells_of(key.version) && !function.revoked.contains(&key.digest) && is_granted
}

/// What a function binds of assets it reads without asking: where one is not granted any more, it is not served.
fn demand_assets(function: &ServedFunction, image: &VerifiedImage) -> Result<(), Refused> {
    for asset in image.assets() {
        let binding = image.bindings().get(asset.place).and_then(Binding::resource);
        let resource = binding.map(|binding| &binding.resource);
        if !resource.is_some_and(|resource| function.resources.contains_key(resource)) {
            let name = resource.map_or_else(String::new, ToString::to_string);
            let message = format!("the asset `{name}` of {} is not granted to its tenant", image.key());
            return Err(Refused::new(codes::MF1201, message));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
