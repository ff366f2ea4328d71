//! What callers and the agent hold of the dispatcher: names, numbers, and the way into its thread.
//!
//! Naming a version and handing the call in happen under one hold of the table, and a function is
//! retired only after the table that names it was swapped: so no swap comes between the two and
//! loses a call. Nothing in here waits for the dispatcher but a caller that awaits an answer.
//!
//! Names are common to all functions; behind them each class has a dispatcher of its own ([`Lane`]).

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Duration;

use mfaas_abi::limits;
use mfaas_dispatch::{FunctionId, Loaded, Refusal, Residency, Snapshot, TenantId};
use mfaas_ident::{
    Access, Binding, Class, DataAccess, Digest, FunctionName, ResourceName, Selector, TenantName,
};
use mfaas_ring::clock::ticks;
use mfaas_rules::codes;
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::awaited::Awaited;
use super::call::{Answered, Asked, CallError, Reply, Way};
use super::engine::Published;
use super::intake::{Call, Definition, Event, Intake};
use super::pools::ClassPools;
use super::process::WorkerKind;
use super::services::NodeServices;
use super::shared::SharedEngine;
use super::table::{Names, Route, Served, Table};
use super::windows::Fill;
use crate::directives::Standing;
use crate::function_tree::Name;
use crate::image::{ImageKey, MachineCode, VerifiedImage};
use crate::refused::Refused;
use crate::usage::Usage;

/// How long a caller is asked to wait when not even the queue to the dispatcher has room, in seconds.
const RETRY_AFTER_S: u32 = 1;

/// Loading a whole set, and starting workers, at most.
const DEFINE_WAIT_MAX: Duration = Duration::from_secs(30);
/// Functions on their way that are remembered because they were called.
const WANTED_MAX: usize = 100;
/// How often it is looked whether workers have come.
const LOOK: Duration = Duration::from_millis(5);

/// The loader or the workers did not come up in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stalled;

/// What calls of a function mean from now on.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RouteChange<'a> {
    pub(crate) name: &'a Name,
    pub(crate) route: &'a Route,
    /// Artifacts of it that must not run any more.
    pub(crate) revoked: Option<&'a BTreeSet<Digest>>,
    /// What its tenant was granted of what it binds.
    pub(crate) resources: Option<&'a BTreeMap<ResourceName, DataAccess>>,
}

/// The numbers that the scheduler knows names by. None is ever given to another name.
#[derive(Debug)]
struct Numbers {
    functions: HashMap<ImageKey, Numbered>,
    tenants: HashMap<TenantName, TenantId>,
    /// What was defined and not retired.
    defined: HashMap<Name, HashSet<ImageKey>>,
    pools: ClassPools,
}

/// What a function is known by: its number, which no function of another class has either.
#[derive(Debug, Clone, Copy)]
struct Numbered {
    id: FunctionId,
    class: Class,
}

impl Numbers {
    fn new(pools: ClassPools) -> Self {
        let (functions, tenants, defined) = Default::default();
        Self { functions, tenants, defined, pools }
    }

    fn function(&mut self, image: &VerifiedImage) -> FunctionId {
        let next = u32::try_from(self.functions.len()).unwrap_or(u32::MAX);
        let numbered = Numbered { id: FunctionId(next), class: image.terms().class };
        // The key names the statement that says the class.
        self.functions.entry(image.key().clone()).or_insert(numbered).id
    }

    fn tenant(&mut self, tenant: &TenantName) -> TenantId {
        let next = u32::try_from(self.tenants.len()).unwrap_or(u32::MAX);
        *self.tenants.entry(tenant.clone()).or_insert(TenantId(next))
    }

    fn served(&mut self, image: &VerifiedImage) -> Served {
        let (id, key) = (self.function(image), image.key().clone());
        let (callers, bindings) = (Arc::clone(image.callers()), Arc::clone(image.bindings()));
        Served { id, key, access: image.declared().access(), callers, terms: image.terms(), bindings }
    }

    /// What the scheduler learns of an image: its declaration decides where it runs, and whether twice.
    fn define(&mut self, image: &VerifiedImage) -> (Served, Loaded) {
        let key = image.key();
        let tenant = self.tenant(&key.tenant);
        self.defined.entry(name_of(key)).or_default().insert(key.clone());
        let served = self.served(image);
        let terms = Loaded {
            tenant,
            pool: self.pools.of(served.terms.class).of(served.id, tenant, image),
            budget: served.terms.budget,
            idempotent: image.declared().idempotent,
            bytes: image.resident_bytes(),
            residency: Residency::Preloaded,
        };
        (served, terms)
    }

    /// Gives back the room that was planned for an image.
    fn release(&mut self, key: &ImageKey) -> Option<Numbered> {
        let numbered = *self.functions.get(key)?;
        self.pools.of(numbered.class).release(numbered.id);
        Some(numbered)
    }

    fn forget(&mut self, key: &ImageKey) {
        let _ = self.release(key);
        if let Some(defined) = self.defined.get_mut(&name_of(key)) {
            defined.remove(key);
        }
    }

    /// Forgets what was defined of that function and is not `kept`: artifacts and their functions.
    fn forget_others(&mut self, name: &Name, kept: &Route) -> Vec<(Digest, Numbered)> {
        let Some(defined) = self.defined.get_mut(name) else { return Vec::new() };
        let is_kept = |key: &ImageKey| kept.images.get(&key.version).is_some_and(|image| image.key() == key);
        let gone: Vec<ImageKey> = defined.extract_if(|key| !is_kept(key)).collect();
        if defined.is_empty() {
            self.defined.remove(name);
        }
        gone.into_iter().filter_map(|key| Some((key.digest, self.release(&key)?))).collect()
    }
}

/// The dispatcher of one class: the way to its engine, and what that shows of itself.
#[derive(Debug, Clone)]
pub(super) struct Lane {
    pub(super) kind: WorkerKind,
    pub(super) intake: Intake,
    pub(super) engine: Arc<SharedEngine>,
    pub(super) published: Arc<Mutex<Published>>,
    /// Workers that tenants share, and that are there from the start.
    pub(super) workers: usize,
}

impl Lane {
    fn snapshot(&self) -> Snapshot {
        self.published.lock().unwrap_or_else(PoisonError::into_inner).snapshot
    }

    /// Puts a call into the queue, for the engine's thread.
    fn offer(&self, call: Call) -> Result<(), CallError> {
        let full = CallError::Refused(Refusal::QueueFull { retry_after_s: RETRY_AFTER_S });
        self.intake.offer(call).map_err(|_| full)
    }
}

/// The node's dispatcher, as others see it. Its threads end when this is dropped.
#[derive(Debug)]
pub(crate) struct Dispatcher {
    micro: Lane,
    /// Where bulk functions run here.
    bulk: Option<Lane>,
    table: RwLock<Table>,
    /// Names of this one that lead nowhere are on their way.
    awaited: RwLock<Option<Awaited>>,
    /// Functions on their way that were called since the last look, `WANTED_MAX` at most.
    wanted: Mutex<BTreeSet<Name>>,
    numbers: Mutex<Numbers>,
    /// A table was given, even if it is empty.
    serving: AtomicBool,
    /// A whole set was in force once.
    whole: AtomicBool,
    services: NodeServices,
}

impl Dispatcher {
    /// The handle of the threads behind these. `pools` says which workers run what.
    pub(super) fn new(micro: Lane, bulk: Option<Lane>, pools: ClassPools, services: &NodeServices) -> Self {
        let (table, awaited, wanted, serving, whole) = Default::default();
        let numbers = Mutex::new(Numbers::new(pools));
        Self { micro, bulk, table, awaited, wanted, numbers, serving, whole, services: services.clone() }
    }

    /// The one for functions of a class, if they run here.
    fn lane(&self, class: Class) -> Option<&Lane> {
        match class {
            Class::Micro => Some(&self.micro),
            Class::Bulk => self.bulk.as_ref(),
        }
    }

    fn lanes(&self) -> impl Iterator<Item = &Lane> {
        std::iter::once(&self.micro).chain(&self.bulk)
    }

    /// Runs one call and waits for its answer. `frame` is an encoded request.
    pub(crate) async fn call(&self, asked: Asked<'_>, frame: Vec<u8>) -> Result<Answered, CallError> {
        let Asked { tenant, function, selector, wait_max, grant, way } = asked;
        let wait_us_max = wait_max.map(|wait| u64::try_from(wait.as_micros()).unwrap_or(u64::MAX));
        let since = ticks();
        let _inside = self.services.standing.enter().ok_or(CallError::Draining)?;
        let (reply, answer) = oneshot::channel();
        let named = |table: &Table| {
            let Some(found) = table.resolve(tenant, function, selector) else {
                return Err(self.not_found(tenant, function, selector));
            };
            if !grant.opens(found.access) {
                return Err(CallError::Unknown);
            }
            // The name may lead to another class than when the request was read.
            if frame.len() > limits::frame_bytes_max(found.body_bytes_max()) {
                return Err(CallError::TooLarge);
            }
            let served = Arc::clone(found);
            let (reply, (reruns, earlier)) = (Reply::Caller(reply), Default::default());
            Ok(Call { served, frame, since, wait_us_max, reply, reruns, earlier })
        };
        self.hand_in(named, way)?;
        answer.await.unwrap_or(Err(CallError::Gone))
    }

    /// Who may call the version that is named now, and its class.
    pub(crate) fn named(
        &self,
        tenant: &TenantName,
        function: &FunctionName,
        selector: Option<&Selector>,
    ) -> Option<(Access, Class)> {
        let table = self.table.read().unwrap_or_else(PoisonError::into_inner);
        table.resolve(tenant, function, selector).map(|served| (served.access, served.terms.class))
    }

    /// Why a name leads nowhere.
    fn not_found(
        &self,
        tenant: &TenantName,
        function: &FunctionName,
        selector: Option<&Selector>,
    ) -> CallError {
        let is_coming = self.hasten(tenant, function, selector);
        if is_coming || !self.is_serving() { CallError::NotLoaded } else { CallError::Unknown }
    }

    /// Whether what a name leads to is on its way, and then among the next.
    pub(crate) fn hasten(
        &self,
        tenant: &TenantName,
        function: &FunctionName,
        selector: Option<&Selector>,
    ) -> bool {
        let awaited = self.awaited.read().unwrap_or_else(PoisonError::into_inner);
        let is_coming = awaited.as_ref().is_some_and(|set| set.names(tenant, function, selector));
        if is_coming {
            let mut wanted = self.wanted.lock().unwrap_or_else(PoisonError::into_inner);
            if wanted.len() < WANTED_MAX {
                wanted.insert((tenant.clone(), function.clone()));
            }
        }
        is_coming
    }

    /// What the node is being brought to.
    pub(crate) fn await_set(&self, awaited: Awaited) {
        *self.awaited.write().unwrap_or_else(PoisonError::into_inner) = Some(awaited);
    }

    /// Functions on their way that were called since this was asked before.
    pub(crate) fn take_wanted(&self) -> BTreeSet<Name> {
        std::mem::take(&mut *self.wanted.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Hands a call in that is named by the table: past the queue if the engine is at rest.
    fn hand_in(
        &self,
        named: impl FnOnce(&Table) -> Result<Call, CallError>,
        way: Way,
    ) -> Result<(), CallError> {
        let table = || self.table.read().unwrap_or_else(PoisonError::into_inner);
        let queue = |call: Call| {
            let lane = self.lane(call.served.terms.class).ok_or(CallError::Unknown)?;
            lane.offer(call)
        };
        let engine = (way == Way::Direct).then(|| self.micro.engine.hold()).flatten();
        let Some(mut engine) = engine else {
            let table = table();
            return queue(named(&table)?);
        };
        let job = {
            let table = table();
            let call = named(&table)?;
            if call.served.terms.class != Class::Micro {
                // The other engine's, which no caller turns: its calls take long to hand over.
                return queue(call);
            }
            engine.submit(call)
        };
        engine.look(job);
        Ok(())
    }

    /// Makes these images known and waits until each is resident, or cold because there is no room
    /// for it now, and workers are there to run them. What comes back is not served, each with the
    /// reason, and is not known any more.
    pub(crate) async fn define(
        &self,
        images: &[Arc<VerifiedImage>],
    ) -> Result<Vec<(ImageKey, Refused)>, Stalled> {
        let mut failed = Vec::new();
        let mut waiting = Vec::new();
        for image in images {
            let lane = match self.lane_for(image) {
                Ok(lane) => lane,
                Err(refused) => {
                    tracing::error!(function = %image.key(), %refused, "a function is not served here");
                    failed.push((image.key().clone(), refused));
                    continue;
                }
            };
            let (served, terms) = self.numbers().define(image);
            let (done, result) = oneshot::channel();
            waiting.push((image.key(), lane, served.id, result));
            let definition = Definition { served: Arc::new(served), image: Arc::clone(image), terms, done };
            lane.intake.send(Event::Define(Box::new(definition)));
        }
        let deadline = Instant::now() + DEFINE_WAIT_MAX;
        for (key, lane, function, result) in waiting {
            match tokio::time::timeout_at(deadline, result).await {
                Ok(Ok(Ok(()))) => {}
                Ok(Ok(Err(reason))) => {
                    self.numbers().forget(key);
                    lane.intake.send(Event::Retire(function));
                    let message = format!("{key} cannot be loaded: {reason}");
                    failed.push((key.clone(), Refused::new(codes::MF0709, message)));
                }
                Ok(Err(_)) | Err(_) => return Err(Stalled),
            }
        }
        self.await_workers(deadline).await?;
        Ok(failed)
    }

    /// Where an image runs, if this node has workers for it.
    fn lane_for(&self, image: &VerifiedImage) -> Result<&Lane, Refused> {
        let (key, terms) = (image.key(), image.terms());
        let Some(lane) = self.lane(terms.class) else {
            return Err(Refused::new(codes::MF0722, format!("{key}: this node runs no bulk functions")));
        };
        let mut resources = image.bindings().iter().filter_map(Binding::resource);
        if self.services.broker.is_none() && resources.any(|binding| binding.kind.is_of_broker()) {
            return Err(Refused::new(codes::MF0723, format!("{key} binds data, and this node reaches none")));
        }
        let most = lane.kind.memory_max;
        if terms.memory > most {
            let message =
                format!("{key} asks for {} of memory, this node's workers have {most}", terms.memory);
            return Err(Refused::new(codes::MF0722, message));
        }
        Ok(lane)
    }

    /// Waits for the shared workers, if there are any; some are enough at the deadline.
    async fn await_workers(&self, deadline: Instant) -> Result<(), Stalled> {
        loop {
            match self.micro.snapshot().workers {
                all if all >= self.micro.workers => return Ok(()),
                0 if Instant::now() >= deadline => return Err(Stalled),
                _ if Instant::now() >= deadline => return Ok(()),
                _ => tokio::time::sleep(LOOK).await,
            }
        }
    }

    /// The least that an image must be to run here.
    pub(crate) fn minimum(&self) -> MachineCode {
        self.numbers().pools.micro.minimum()
    }

    /// How full the windows of workers are.
    pub(crate) fn fill(&self) -> Fill {
        self.numbers().pools.fill()
    }

    /// What is planned to lie in each bank of a slab, in bytes.
    pub(super) fn planned_bytes(&self, class: Class, slab: u32) -> u64 {
        self.numbers().pools.of(class).planned_bytes(slab)
    }

    fn numbers(&self) -> MutexGuard<'_, Numbers> {
        self.numbers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// From now on calls are named by these routes of these functions. Afterwards what was defined of them and is not in
    /// its route is served no more: what was accepted still runs, unless it is revoked, then it does not start.
    pub(crate) fn route(&self, changes: &[RouteChange<'_>]) {
        // First: no version is named that may do less than it is believed to.
        for RouteChange { name, resources, .. } in changes {
            self.services.grants.replace(name, *resources);
        }
        let names: Vec<(Name, Names)> = {
            let mut numbers = self.numbers();
            let mut names = |route| Names::of(route, |image| numbers.served(image));
            changes.iter().map(|change| (change.name.clone(), names(change.route))).collect()
        };
        {
            // A caller that named a version by the old route has handed its call in once this is held.
            let mut table = self.table.write().unwrap_or_else(PoisonError::into_inner);
            for (name, names) in names {
                self.services.callees.replace(&name, names.live().map(Arc::clone));
                table.replace(name, names);
            }
        }
        self.serving.store(true, Ordering::Release);
        let mut numbers = self.numbers();
        for RouteChange { name, route, revoked, .. } in changes {
            for (artifact, Numbered { id, class }) in numbers.forget_others(name, route) {
                let Some(lane) = self.lane(class) else { continue };
                let is_revoked = revoked.is_some_and(|revoked| revoked.contains(&artifact));
                lane.intake.send(if is_revoked { Event::Withdraw(id) } else { Event::Retire(id) });
            }
        }
    }

    /// What a tenant is not granted any more its functions do not reach from now on, whatever else of a set is on its way.
    pub(crate) fn narrow_grants(&self, name: &Name, resources: Option<&BTreeMap<ResourceName, DataAccess>>) {
        self.services.grants.narrow(name, resources);
    }

    /// Bans and lifts what the node's directives ban and no longer ban.
    pub(crate) fn hold_bans(&self) {
        self.lanes().for_each(|lane| lane.intake.send(Event::HoldBans));
    }

    /// What the node is to take, and the bans in force.
    pub(crate) fn standing(&self) -> &Standing {
        &self.services.standing
    }

    /// What calls cost.
    pub(crate) fn usage(&self) -> &Usage {
        &self.services.usage
    }

    /// Accepts nothing more. Resolves when every accepted call is answered.
    pub(crate) fn stop(&self) -> impl Future<Output = ()> + use<> {
        let idle = self.lanes().map(|lane| {
            let (idle, result) = oneshot::channel();
            lane.intake.send(Event::Stop(idle));
            result
        });
        let idle: Vec<_> = idle.collect();
        async move {
            for result in idle {
                // A thread that is gone has answered everybody.
                let _ = result.await;
            }
        }
    }

    /// Resolves when a thread is gone, which none is while this is held, but for a bug of ours.
    pub(crate) async fn ended(&self) {
        let bulk = async {
            match &self.bulk {
                Some(lane) => lane.intake.closed().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = self.micro.intake.closed() => {}
            () = bulk => {}
        }
    }

    /// Ends every worker; what runs on them is answered as lost.
    pub(crate) fn kill_workers(&self) {
        self.lanes().for_each(|lane| lane.intake.send(Event::KillWorkers));
    }

    /// Whether calls can be named at all.
    pub(crate) fn is_serving(&self) -> bool {
        self.serving.load(Ordering::Acquire)
    }

    /// Everything of a set was tried: from now on the node is worth calling.
    pub(crate) fn note_whole(&self) {
        self.whole.store(true, Ordering::Release);
    }

    /// Whether a whole set was in force. A node that joins a large site serves functions before that, as they come.
    pub(crate) fn is_whole(&self) -> bool {
        self.whole.load(Ordering::Acquire)
    }

    /// Whether no call was on its way a moment ago.
    pub(crate) fn is_idle(&self) -> bool {
        let Snapshot { waiting, running, suspended, .. } = self.snapshot();
        waiting == 0 && running == 0 && suspended == 0
    }

    /// Counts of a moment ago, over all functions.
    pub(crate) fn snapshot(&self) -> Snapshot {
        self.lanes().map(Lane::snapshot).fold(Snapshot::default(), Snapshot::and)
    }

    /// The same over those of one class.
    pub(crate) fn snapshot_of(&self, class: Class) -> Snapshot {
        self.lane(class).map_or_else(Snapshot::default, Lane::snapshot)
    }

    /// Banned versions that are still routed to, with the crashes that led to the ban.
    pub(crate) fn banned(&self) -> Vec<(Arc<Served>, u32)> {
        let of_lane =
            |lane: &Lane| lane.published.lock().unwrap_or_else(PoisonError::into_inner).banned.clone();
        let banned: Vec<_> = self.lanes().flat_map(of_lane).collect();
        if banned.is_empty() {
            return Vec::new();
        }
        let table = self.table.read().unwrap_or_else(PoisonError::into_inner);
        let crashes =
            |served: &Served| banned.iter().find(|(id, _)| *id == served.id).map(|(_, crashes)| *crashes);
        table.served().filter_map(|served| Some((Arc::clone(served), crashes(served)?))).collect()
    }
}

fn name_of(key: &ImageKey) -> Name {
    (key.tenant.clone(), key.function.clone())
}

impl Drop for Dispatcher {
    fn drop(&mut self) {
        self.lanes().for_each(|lane| lane.intake.send(Event::End));
    }
}
