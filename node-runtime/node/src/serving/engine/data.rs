//! Calls that reach data or make other calls: who asks the broker for them, and what becomes of them when they have answered.
//!
//! A call that changed something, or saw more than one thing, is answered only when the broker has committed that. If others have
//! changed meanwhile what it saw, it did nothing and runs again, with another identity. What it changed in caches, which are the
//! node's own, takes effect after that. What a call may do is looked up with each operation and once more before its effects: a grant
//! that was revoked counts at once.
//!
//! What a call writes to files is there at once, and so may be what it asks servers for. One that has done so does not run again, nor do
//! those that made it.
//!
//! What a call did that another one made is part of that one, from its commit on; then all of it is looked at once more. What a function
//! of another tenant did is its own: it is committed before its caller hears of it, which does not run again then.

mod make;

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::{Arc, Weak};
use std::time::Duration;

use mfaas_abi::frame::RequestFrame;
use mfaas_abi::{HttpRequest, Status, VolumeRequest, split_binding};
use mfaas_broker_protocol::{Caller, CommitResult, REQUEST_BYTES_MAX, ToBroker};
use mfaas_dispatch::{FunctionId, JobId, Moment, Outcome};
use mfaas_ident::{Binding, DataAccess, ResourceBinding, ResourceKind, ResourceName, TraceParent};
use mfaas_ring::clock::ticks;
use mfaas_rules::{Code, codes};
use uuid::Uuid;

use super::clock::Clock;
use super::kept_bytes::KeptBytes;
use super::outcomes::is_usable;
use crate::serving::broker::BrokerLink;
use crate::serving::caches::{AtOnce, CacheWrites, Caches};
use crate::serving::call::{
    Answered, CallError, ConnectionNumber, Earlier, Lineage, NotBegun, Parent, Reply, Used,
};
use crate::serving::callees::Callees;
use crate::serving::grants::Grants;
use crate::serving::intake::Call;
use crate::serving::services::NodeServices;
use crate::serving::table::Served;
use crate::usage::Usage;

/// How long a commit is waited for, and then for what has become of it.
const COMMIT_US_MAX: u64 = 30_000_000;
/// A call that ran so long after it was accepted does not run again.
const RERUN_MAX: Duration = Duration::from_secs(30);
/// Requests and answers of calls that have run and are not answered, of all tenants and of one, in bytes.
const CONCLUDING_BYTES_MAX: usize = 256 << 20;
const TENANT_CONCLUDING_BYTES_MAX: usize = CONCLUDING_BYTES_MAX / 4;
/// How often a call runs again because others changed what it saw.
const RERUNS_MAX: u32 = 8;
/// What is waited before, at most, doubled each time, in microseconds: calls that met are not to meet again.
const RERUN_PAUSE_US: u64 = 2_000;

/// Says which trace a request is part of.
const TRACE_HEADER: &str = "traceparent";

const NO_OPERATION: NotBegun =
    NotBegun::new(codes::MF1207, "a secret is part of a request to a server, and nothing is asked of it");
const NOT_GRANTED: NotBegun =
    NotBegun::new(codes::MF1201, "the tenant is not granted the resource of this binding any more");
const NO_BINDING: NotBegun = NotBegun::new(codes::MF1207, "the function has no such binding");

/// What is known of a call that reaches data or makes other calls.
#[derive(Debug, Default)]
pub(super) struct DataCall {
    /// Where the broker knows it, if it or a call that it made may have asked for something.
    at_broker: Option<AtBroker>,
    /// It has asked for something itself.
    has_asked: bool,
    /// What it has used.
    used: UsedBindings,
    needs_commit: bool,
    /// What it changes in caches.
    cached: CacheWrites,
    /// If it had to be known.
    lineage: Option<Lineage>,
    /// Why what it did cannot take effect, if it cannot, for what calls did that it made.
    spoilt: Option<Code>,
    /// What requests to functions that it calls begin with, up to the body's length, once it has called one.
    request_head: Option<Box<[u8]>>,
    /// Functions that it was told of which it may call where it is, by the place of its binding, since it came to its worker.
    pub(super) told: Vec<(u32, Arc<Served>)>,
}

/// What a call has done that was made by another one, which is to do it in its place.
#[derive(Debug)]
pub(super) struct Effects {
    used: UsedBindings,
    cached: CacheWrites,
    /// The broker has made it part of that one.
    is_at_broker: bool,
    /// Nobody knows whether it has: that one cannot take effect.
    is_unknown: bool,
}

/// The answer of a call for the one that made it.
#[derive(Debug)]
pub(super) struct Replied {
    pub(super) parent: Box<Parent>,
    pub(super) answer: Result<Answered, CallError>,
    /// Nothing of a call that did nothing.
    pub(super) effects: Option<Effects>,
}

/// Which bindings a call has used, and those that it made: of each function by the binding's place, and what it was allowed to do then.
#[derive(Debug, Default)]
struct UsedBindings(HashMap<FunctionId, (Arc<Served>, BTreeMap<u32, DataAccess>)>);

/// A call that the broker knows.
#[derive(Debug)]
struct AtBroker {
    connection: ConnectionNumber,
    caller: Caller,
}

/// An operation that a call began, as its function wrote it.
#[derive(Debug)]
pub(super) struct Asked {
    pub(super) id: u32,
    pub(super) operation: Vec<u8>,
    /// Of one that calls another function: whether its answer is waited for.
    pub(super) waits: Option<Weak<()>>,
}

/// What a call waits for that has run.
#[derive(Debug)]
enum Waits {
    /// For its commit, or for what has become of it; then its changes of caches take effect.
    Commit {
        at_broker: AtBroker,
        effects: Box<Effects>,
        answered: Box<Answered>,
        lineage: Option<Lineage>,
        is_settling: bool,
    },
    /// For the time to run again.
    Rerun,
}

/// A call that has run and is not answered.
#[derive(Debug)]
struct Concluding {
    call: Call,
    waits: Waits,
    ends: Moment,
    /// What it counts for.
    bytes: usize,
}

/// Calls that reach data, beside their tickets.
#[derive(Debug)]
pub(super) struct DataCalls {
    link: BrokerLink,
    grants: Arc<Grants>,
    caches: Arc<Caches>,
    callees: Arc<Callees>,
    /// Answers for calls that made others, of which they have not heard.
    replied: VecDeque<Replied>,
    /// How many calls that a call made wait for their commit.
    joining: HashMap<JobId, usize>,
    concluding: HashMap<JobId, Concluding>,
    ends: BTreeSet<(Moment, JobId)>,
    bytes: KeptBytes,
    usage: Arc<Usage>,
}

impl DataCalls {
    pub(super) fn new(link: BrokerLink, services: &NodeServices) -> Self {
        let (replied, joining, concluding, ends) = Default::default();
        let bytes = KeptBytes::within(CONCLUDING_BYTES_MAX, TENANT_CONCLUDING_BYTES_MAX);
        let NodeServices { grants, caches, callees, usage, .. } = services.clone();
        Self { link, grants, caches, callees, replied, joining, concluding, ends, bytes, usage }
    }

    /// The way to the broker.
    pub(super) fn link(&self) -> &BrokerLink {
        &self.link
    }

    /// Does what a call began, or asks the broker for it: then nothing comes of it yet.
    pub(super) fn operate(
        &self,
        job: JobId,
        call: &Call,
        data: &mut DataCall,
        asked: Asked,
        at_once: &mut AtOnce,
    ) -> Result<Option<Vec<u8>>, NotBegun> {
        let served = &call.served;
        let Asked { id, operation, .. } = asked;
        let (place, request) = split_binding(&operation).ok_or(NO_BINDING)?;
        let binding = served.bindings.get(place as usize).and_then(Binding::resource).ok_or(NO_BINDING)?;
        if request.len() > REQUEST_BYTES_MAX {
            return Err(NotBegun::new(codes::MF1202, "the operation has more bytes than one may have"));
        }
        let access = self.grants.access(&served.key, binding).ok_or(NOT_GRANTED)?;
        let outcome = match binding.kind {
            ResourceKind::Cache => {
                let what = (&binding.resource, access);
                Some(self.caches.answer(&mut data.cached, what, request, at_once)?)
            }
            ResourceKind::Secret | ResourceKind::Asset => return Err(NO_OPERATION),
            ResourceKind::Kv | ResourceKind::Object | ResourceKind::Volume | ResourceKind::Http => {
                let secrets = self.secrets(data, served, (binding, request))?;
                let at_broker = match &data.at_broker {
                    Some(at_broker) => at_broker,
                    None => data.at_broker.insert(self.begin(job, call)?),
                };
                let connection = at_broker.connection;
                if access >= DataAccess::Write && changes_at_once(binding.kind, request) {
                    // Before it is sent: whether it arrives is not known.
                    data.lineage(call).begin();
                }
                let message = ToBroker::Operate {
                    call: job.0,
                    id,
                    resource: binding.resource.clone(),
                    kind: binding.kind,
                    access,
                    secrets,
                    request: request.to_vec(),
                };
                self.link.send(connection, &served.key.tenant, &message).map_err(|_| NotBegun::AWAY)?;
                data.has_asked = true;
                None
            }
        };
        data.used.note(served, place, access);
        Ok(outcome)
    }

    /// Whether an operation is one on a cache.
    pub(super) fn is_cached(call: &Call, operation: &[u8]) -> bool {
        let binding =
            split_binding(operation).and_then(|(place, _)| call.served.bindings.get(place as usize));
        binding.and_then(Binding::resource).is_some_and(|binding| binding.kind == ResourceKind::Cache)
    }

    /// What comes of an operation, if it is to read a cache and may: it changes nothing.
    pub(super) fn look_up(
        &self,
        call: &Call,
        data: &mut Option<DataCall>,
        operation: &[u8],
        at_once: &mut AtOnce,
    ) -> Option<Vec<u8>> {
        let served = &call.served;
        let (place, request) = split_binding(operation)?;
        let binding = served.bindings.get(place as usize).and_then(Binding::resource);
        let binding = binding.filter(|binding| binding.kind == ResourceKind::Cache)?;
        let access = self.grants.access(&served.key, binding)?;
        let data = data.get_or_insert_default();
        let values = self.caches.look_up(&data.cached, &binding.resource, request, at_once)?;
        data.used.note(served, place, access);
        Some(values)
    }

    /// The secrets that a request to a server names by their bindings: each as any binding, one that the function has and may use.
    fn secrets(
        &self,
        data: &mut DataCall,
        served: &Arc<Served>,
        (binding, request): (&ResourceBinding, &[u8]),
    ) -> Result<Vec<ResourceName>, NotBegun> {
        let places = match HttpRequest::decode(request) {
            Some(HttpRequest::Send { secrets, .. }) if binding.kind == ResourceKind::Http => secrets,
            _ => return Ok(Vec::new()),
        };
        let secret = |place: u32| {
            let binding = served.bindings.get(place as usize).and_then(Binding::resource);
            let binding = binding.filter(|binding| binding.kind == ResourceKind::Secret).ok_or(NO_BINDING)?;
            let access = self.grants.access(&served.key, binding).ok_or(NOT_GRANTED)?;
            data.used.note(served, place, access);
            Ok(binding.resource.clone())
        };
        places.into_iter().map(secret).collect()
    }

    fn begin(&self, job: JobId, call: &Call) -> Result<AtBroker, NotBegun> {
        let served = &call.served;
        let joined = call.reply.joined();
        let connection = match joined {
            None => self.link.connection(),
            // The broker knows over this one whose it is.
            Some(parent) => parent.connection,
        };
        let connection = connection.ok_or(NotBegun::AWAY)?;
        let caller = Caller {
            id: Uuid::new_v4(),
            tenant: served.key.tenant.clone(),
            function: served.key.function.clone(),
            version: served.key.version,
            trace: trace_of(&call.frame),
        };
        let parent = joined.map(|parent| parent.job.0);
        let message = ToBroker::Begin { call: job.0, caller: caller.clone(), parent };
        self.link.send(connection, &caller.tenant, &message).map_err(|_| NotBegun::AWAY)?;
        Ok(AtBroker { connection, caller })
    }

    /// A call has run to its end: it is answered, or is to be committed first.
    pub(super) fn end(&mut self, job: JobId, clock: &Clock, call: Call, answered: Answered, data: DataCall) {
        let response = answered.completion.as_ref().filter(|_| answered.outcome == Outcome::Finished);
        let (is_made, joins) = (call.reply.parent().is_some(), call.reply.joined().is_some());
        let is_ok = response.is_some_and(|completion| {
            // The call that made it takes no other answer.
            completion.status == Status::Ok && (!is_made || is_usable(completion, &answered.served))
        });
        if !is_ok || !data.has_effects(joins) || (joins && call.reply.is_closed()) {
            self.forget(job, data.at_broker.as_ref());
            return self.answer(call, answered, None);
        }
        let bytes = call.frame.capacity()
            + response.map_or(0, |completion| completion.response.capacity())
            + data.cached.bytes();
        let needs_commit = data.needs_commit(joins);
        let DataCall { at_broker, used, cached, spoilt, lineage, .. } = data;
        let refusal = if !used.are_granted(&self.grants) {
            Some(codes::MF1201)
        } else if self.joining.contains_key(&job) {
            // It has not waited for a call that may be part of it, or not.
            Some(codes::MF1205)
        } else {
            spoilt
        };
        if let Some(code) = refusal {
            self.forget(job, at_broker.as_ref());
            return self.fail(call, &answered, code_of(lineage.as_ref(), code));
        }
        if let Some(parent) = call.reply.parent().filter(|_| !joins) {
            // Before it takes effect: whether it did is not always known.
            parent.lineage.begin();
        }
        let effects = Effects { used, cached, is_at_broker: needs_commit, is_unknown: false };
        let at_broker = match at_broker {
            Some(at_broker) if needs_commit => at_broker,
            at_broker => {
                self.forget(job, at_broker.as_ref());
                return self.take_effect(call, answered, effects);
            }
        };
        let tenant = &call.served.key.tenant;
        let has_room = self.bytes.replace(tenant, 0, bytes);
        let is_asked = has_room
            && self.link.send(at_broker.connection, tenant, &ToBroker::Commit { call: job.0 }).is_ok();
        if !is_asked {
            self.bytes.replace(tenant, bytes, 0);
            self.forget(job, Some(&at_broker));
            return self.fail(call, &answered, code_of(lineage.as_ref(), codes::MF1205));
        }
        let (effects, answered) = (Box::new(effects), Box::new(answered));
        let waits = Waits::Commit { at_broker, effects, answered, lineage, is_settling: false };
        let ends = clock.moment().plus(COMMIT_US_MAX);
        self.wait(job, Concluding { call, waits, ends, bytes });
    }

    /// Nothing of the call takes effect. The broker may have gone, and then has forgotten it already.
    fn forget(&self, job: JobId, at_broker: Option<&AtBroker>) {
        if let Some(AtBroker { connection, caller }) = at_broker {
            let _ = self.link.send(*connection, &caller.tenant, &ToBroker::Forget { call: job.0 });
        }
    }

    /// What the call did that the broker has taken: others see it, or it is part of the call that made this one.
    fn take_effect(&mut self, call: Call, answered: Answered, effects: Effects) {
        if call.reply.joined().is_some() {
            return self.answer(call, answered, Some(effects));
        }
        self.caches.apply(effects.cached);
        self.answer(call, answered, None);
    }

    fn answer(&mut self, call: Call, answered: Answered, effects: Option<Effects>) {
        self.usage.record(&answered);
        self.reply(call.reply, Ok(answered), effects);
    }

    /// The same of a call whose changes did not take effect, as far as is known. It ran, and what it used counts.
    fn fail(&mut self, call: Call, answered: &Answered, code: Code) {
        self.usage.record(answered);
        self.reply(call.reply, Err(CallError::NotCommitted(code)), None);
    }

    /// Gives the answer to whoever waits for it. A caller may have hung up; the answer was given all the same.
    pub(super) fn reply(
        &mut self,
        reply: Reply,
        answer: Result<Answered, CallError>,
        effects: Option<Effects>,
    ) {
        match reply {
            Reply::Caller(caller) => drop(caller.send(answer)),
            Reply::Parent(parent) => self.replied.push_back(Replied { parent, answer, effects }),
        }
    }

    /// The next answer of which a call has not heard that made another one.
    pub(super) fn next_replied(&mut self) -> Option<Replied> {
        self.replied.pop_front()
    }

    fn wait(&mut self, job: JobId, concluding: Concluding) {
        if let Some(parent) = joins(&concluding) {
            *self.joining.entry(parent).or_default() += 1;
        }
        self.ends.insert((concluding.ends, job));
        self.concluding.insert(job, concluding);
    }

    fn take(&mut self, job: JobId) -> Option<Concluding> {
        let concluding = self.concluding.remove(&job)?;
        if let Some(parent) = joins(&concluding)
            && let Entry::Occupied(mut joining) = self.joining.entry(parent)
        {
            *joining.get_mut() -= 1;
            if *joining.get() == 0 {
                joining.remove();
            }
        }
        self.ends.remove(&(concluding.ends, job));
        self.bytes.replace(&concluding.call.served.key.tenant, concluding.bytes, 0);
        Some(concluding)
    }

    /// The broker says what became of a call's changes.
    pub(super) fn committed(&mut self, job: JobId, clock: &Clock, result: CommitResult) {
        // One that waits to run again was told of before: what comes now is of the same run.
        let waits = self.concluding.get(&job).map(|concluding| &concluding.waits);
        if !matches!(waits, Some(Waits::Commit { .. })) {
            return;
        }
        let Some(Concluding {
            mut call, waits: Waits::Commit { answered, effects, lineage, .. }, bytes, ..
        }) = self.take(job)
        else {
            return;
        };
        let code = match result {
            CommitResult::Done => {
                return self.take_effect(call, *answered, *effects);
            }
            CommitResult::Conflict => codes::MF1204,
            CommitResult::TooMuch => codes::MF1202,
            CommitResult::Full => codes::MF1208,
            CommitResult::SeveralStores => codes::MF1218,
            CommitResult::Unavailable => codes::MF1205,
            CommitResult::Unknown => codes::MF1206,
        };
        let code = code_of(lineage.as_ref(), code);
        let may_rerun = code == codes::MF1204
            && call.reruns < RERUNS_MAX
            && clock.between(call.since, ticks()) < RERUN_MAX
            // What was too large to be kept is not there to run with.
            && !call.frame.is_empty()
            && !call.reply.is_closed();
        if !may_rerun {
            return self.fail(call, &answered, code);
        }
        let Answered { completion, ran, .. } = *answered;
        let mut used = Used::default();
        completion.iter().for_each(|completion| used.add(completion));
        call.earlier = Earlier { used, ran };
        let pause_us = rand_below(RERUN_PAUSE_US << call.reruns);
        call.reruns += 1;
        self.bytes.replace(&call.served.key.tenant, 0, bytes);
        let ends = clock.moment().plus(pause_us);
        self.wait(job, Concluding { call, waits: Waits::Rerun, ends, bytes });
    }

    /// A connection is over: what was to be committed over it is looked for by the next one.
    pub(super) fn lost(&mut self, over: ConnectionNumber) {
        let lost = self.concluding.iter().filter_map(|(job, concluding)| match &concluding.waits {
            // Also what was looked for by one that is over.
            Waits::Commit { at_broker, .. } if at_broker.connection <= over => Some(*job),
            Waits::Commit { .. } | Waits::Rerun => None,
        });
        let lost: Vec<JobId> = lost.collect();
        lost.into_iter().for_each(|job| self.settle(job, false));
    }

    /// Asks what has become of a commit, and sees to it that nothing does later. Whether the broker may still do it that was asked.
    fn settle(&mut self, job: JobId, is_underway: bool) {
        let Some(Concluding { call, waits: Waits::Commit { at_broker, is_settling, .. }, .. }) =
            self.concluding.get_mut(&job)
        else {
            return;
        };
        if call.reply.joined().is_some() {
            // What it did was to be part of a call that the broker knows over the same connection, or not any more.
            return self.give_up(job, codes::MF1205, is_underway);
        }
        *is_settling = true;
        let caller = at_broker.caller.clone();
        let message = ToBroker::Settle { call: job.0, caller: caller.clone() };
        if self.link.send_when_connected(&caller.tenant, &message).is_err() {
            self.give_up(job, codes::MF1206, false);
        }
    }

    /// The next call that is to run again by now. Those that waited too long for their commit are looked for once, and then
    /// answered. Takes what it looks at from what is `left`.
    pub(super) fn next_rerun(&mut self, now: Moment, left: &mut usize) -> Option<Call> {
        while let Some((ends, job)) = self.ends.first().copied().filter(|(ends, _)| *ends <= now) {
            *left = left.checked_sub(1)?;
            match self.concluding.get_mut(&job) {
                Some(Concluding { waits: Waits::Rerun, .. }) => {
                    return self.take(job).map(|concluding| concluding.call);
                }
                Some(Concluding { waits: Waits::Commit { is_settling: true, .. }, .. }) => {
                    self.give_up(job, codes::MF1206, false);
                }
                Some(concluding) => {
                    concluding.ends = now.plus(COMMIT_US_MAX);
                    self.ends.insert((concluding.ends, job));
                    self.ends.remove(&(ends, job));
                    self.settle(job, true);
                }
                None => drop(self.ends.pop_first()),
            }
        }
        None
    }

    fn give_up(&mut self, job: JobId, code: Code, is_unknown: bool) {
        let Some(Concluding { call, waits: Waits::Commit { answered, mut effects, lineage, .. }, .. }) =
            self.take(job)
        else {
            return;
        };
        effects.is_unknown = is_unknown;
        self.usage.record(&answered);
        let code = code_of(lineage.as_ref(), code);
        let effects = (is_unknown && call.reply.joined().is_some()).then_some(*effects);
        self.reply(call.reply, Err(CallError::NotCommitted(code)), effects);
    }

    /// When something is due.
    pub(super) fn next_due(&self) -> Option<Moment> {
        self.ends.first().map(|(ends, _)| *ends)
    }

    /// Calls that have run and are not answered.
    pub(super) fn concluding(&self) -> usize {
        self.concluding.len()
    }
}

impl DataCall {
    fn lineage(&mut self, call: &Call) -> &Lineage {
        self.lineage.get_or_insert_with(|| Lineage::of(call.reply.parent()))
    }

    /// An operation has ended.
    pub(super) fn heard(&mut self, needs_commit: bool) {
        self.needs_commit |= needs_commit;
    }

    /// Whether the broker knew it over that connection.
    pub(super) fn is_of(&self, connection: ConnectionNumber) -> bool {
        self.at_broker.as_ref().is_some_and(|at_broker| at_broker.connection == connection)
    }

    /// What a caller can make large of it, in bytes: what it changes in caches, and its trace.
    pub(super) fn kept_bytes(&self) -> usize {
        self.cached.bytes() + self.request_head.as_ref().map_or(0, |head| head.len())
    }

    /// Whether the broker is to take what it did before it is answered. Of a call that is part of another one also what it has read
    /// alone: that one has seen it then.
    fn needs_commit(&self, joins: bool) -> bool {
        self.needs_commit || (joins && self.has_asked)
    }

    /// Whether something of it is to take effect, or has to be so still when it is answered.
    fn has_effects(&self, joins: bool) -> bool {
        self.needs_commit(joins) || !self.cached.is_empty() || self.spoilt.is_some()
    }

    /// A call that this one made has succeeded.
    pub(super) fn absorb(&mut self, effects: Effects) {
        let Effects { used, cached, is_at_broker, is_unknown } = effects;
        self.used.absorb(used);
        self.needs_commit |= is_at_broker;
        if is_unknown {
            self.spoilt = Some(codes::MF1205);
        } else if !self.cached.absorb(cached) {
            self.spoilt = Some(codes::MF1202);
        }
    }
}

impl UsedBindings {
    fn note(&mut self, served: &Arc<Served>, place: u32, access: DataAccess) {
        let (_, places) = self.0.entry(served.id).or_insert_with(|| (Arc::clone(served), BTreeMap::new()));
        let used = places.entry(place).or_insert(access);
        *used = access.max(*used);
    }

    fn absorb(&mut self, callee: Self) {
        for (served, places) in callee.0.into_values() {
            places.into_iter().for_each(|(place, access)| self.note(&served, place, access));
        }
    }

    /// Whether all of that may still be done.
    fn are_granted(&self, grants: &Grants) -> bool {
        self.0.values().all(|(served, places)| {
            places.iter().all(|(place, used)| {
                let binding = served.bindings.get(*place as usize).and_then(Binding::resource);
                let access = binding.and_then(|binding| grants.access(&served.key, binding));
                access.is_some_and(|access| access >= *used)
            })
        })
    }
}

/// Whether an operation may change something at once and for good: also what this node does not know, and a broker may.
fn changes_at_once(kind: ResourceKind, request: &[u8]) -> bool {
    match kind {
        ResourceKind::Volume => VolumeRequest::decode(request).is_none_or(|request| request.changes()),
        ResourceKind::Http => HttpRequest::decode(request).is_none_or(|request| request.changes()),
        ResourceKind::Kv
        | ResourceKind::Cache
        | ResourceKind::Object
        | ResourceKind::Secret
        | ResourceKind::Asset => false,
    }
}

/// Why what a call changed did not take effect, where what it did at once is there: nobody is to try again without a look at that.
fn code_of(lineage: Option<&Lineage>, code: Code) -> Code {
    let says_more = code == codes::MF1201 || code == codes::MF1206;
    if lineage.is_some_and(Lineage::has_begun) && !says_more { codes::MF1213 } else { code }
}

/// The call that made this one, if what this one did is to be part of it.
fn joins(concluding: &Concluding) -> Option<JobId> {
    match concluding.waits {
        Waits::Commit { .. } => concluding.call.reply.joined().map(|parent| parent.job),
        Waits::Rerun => None,
    }
}

fn trace_header(frame: &[u8]) -> Option<Box<str>> {
    RequestFrame::decode(frame).ok()?.headers.get(TRACE_HEADER).map(Into::into)
}

/// The trace that a request says that it is part of.
fn trace_of(frame: &[u8]) -> Option<String> {
    Some(TraceParent::parse(&trace_header(frame)?).ok()?.trace_id())
}

/// A number below another one, not the same for all.
fn rand_below(most: u64) -> u64 {
    Uuid::new_v4().as_u64_pair().1 % most.max(1)
}
