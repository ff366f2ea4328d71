//! The scheduler with its effects: one lock around the decisions, the tickets of waiting callers
//! and the channels to the workers' lanes.
//!
//! Everything under the lock is short and never blocks: channels are unbounded, because the
//! scheduler bounds what goes into them. Naming a version and accepting the call happen under one
//! hold of the lock, so no swap can come between and lose the call.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::time::{Duration, Instant};

use mfaas_dispatch::{
    Command, FunctionId, GenerationId, JobId, Limits, Loaded, Misuse, Moment, Outcome, Plan, Refusal,
    Scheduler, Snapshot, TenantId, WorkerId,
};
use mfaas_ident::{FunctionName, Selector, TenantName};
use mfaas_ring::Completion;
use tokio::sync::oneshot;

use super::table::{Served, Table};
use crate::agent::ImageKey;
use crate::logs::LogSink;
use crate::orders::{BanKey, Standing};
use crate::usage::Usage;

/// One call on its way to a worker.
#[derive(Debug)]
pub(crate) struct Assignment {
    pub(crate) job: JobId,
    /// Index of the image in the worker.
    pub(crate) slot: u32,
    pub(crate) frame: Vec<u8>,
    pub(crate) served: Arc<Served>,
}

/// What the dispatcher holds of a worker: the way to give it work, and the way to end it.
#[derive(Debug)]
pub(crate) struct LaneHandle {
    pub(crate) jobs: mpsc::Sender<Assignment>,
    /// The lane kills its process soon after this is set.
    pub(crate) kill: Arc<AtomicBool>,
}

/// The one answer of an accepted call.
#[derive(Debug)]
pub(crate) struct Answered {
    pub(crate) outcome: Outcome,
    /// What the worker said; present exactly when the outcome is `Finished`.
    pub(crate) completion: Option<Completion>,
    pub(crate) served: Arc<Served>,
    /// From acceptance to the worker.
    pub(crate) queued: Duration,
    /// From the worker to the answer, by this process's clock.
    pub(crate) ran: Duration,
}

/// Why a call has no answer of a function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CallError {
    /// No such tenant, function, alias or version here.
    Unknown,
    /// The scheduler did not accept it.
    Refused(Refusal),
    /// The node is being drained.
    Draining,
    /// The dispatcher went away with the call; only while the process ends.
    Gone,
}

#[derive(Debug)]
struct Ticket {
    reply: oneshot::Sender<Answered>,
    frame: Vec<u8>,
    served: Arc<Served>,
    accepted: Instant,
    started: Option<Instant>,
}

#[derive(Debug)]
struct Inner {
    scheduler: Scheduler,
    table: Table,
    tickets: HashMap<JobId, Ticket>,
    lanes: HashMap<WorkerId, LaneHandle>,
    functions: HashMap<ImageKey, FunctionId>,
    tenants: HashMap<TenantName, TenantId>,
    last_worker: u64,
}

/// The node's dispatcher.
#[derive(Debug)]
pub(crate) struct Dispatcher {
    origin: Instant,
    logs: Arc<LogSink>,
    standing: Arc<Standing>,
    usage: Arc<Usage>,
    inner: Mutex<Inner>,
}

impl Dispatcher {
    pub(crate) fn new(
        limits: Limits,
        logs: Arc<LogSink>,
        standing: Arc<Standing>,
        usage: Arc<Usage>,
    ) -> Self {
        let inner = Inner {
            scheduler: Scheduler::new(limits),
            table: Table::default(),
            tickets: HashMap::new(),
            lanes: HashMap::new(),
            functions: HashMap::new(),
            tenants: HashMap::new(),
            last_worker: 0,
        };
        Self { origin: Instant::now(), logs, standing, usage, inner: Mutex::new(inner) }
    }

    /// Runs one call and waits for its answer. `frame` is an encoded request.
    pub(crate) async fn call(
        &self,
        tenant: &TenantName,
        function: &FunctionName,
        selector: Option<&Selector>,
        frame: Vec<u8>,
    ) -> Result<Answered, CallError> {
        let _inside = self.standing.enter().ok_or(CallError::Draining)?;
        let (reply, answer) = oneshot::channel();
        {
            let mut inner = self.lock();
            let served =
                Arc::clone(inner.table.resolve(tenant, function, selector).ok_or(CallError::Unknown)?);
            let (job, commands) =
                inner.scheduler.submit(self.now(), served.id).map_err(CallError::Refused)?;
            let ticket = Ticket { reply, frame, served, accepted: Instant::now(), started: None };
            inner.tickets.insert(job, ticket);
            self.carry_out(&mut inner, commands, None);
        }
        answer.await.map_err(|_| CallError::Gone)
    }

    /// Announces a generation that will load `images`, in this order.
    pub(crate) fn stage<'k>(
        &self,
        images: impl IntoIterator<Item = &'k ImageKey>,
        workers: usize,
    ) -> GenerationId {
        let mut inner = self.lock();
        let mut functions = BTreeMap::new();
        for (slot, key) in (0..).zip(images) {
            let tenant = inner.tenant(&key.tenant);
            functions.insert(inner.function(key), Loaded { slot, tenant, budget: key.budget });
        }
        inner.scheduler.stage(Plan { functions, workers })
    }

    /// The scheduler's number of an image, the same in every generation.
    pub(crate) fn function(&self, key: &ImageKey) -> FunctionId {
        self.lock().function(key)
    }

    /// Makes a staged generation current and `table` the one that calls are named by.
    pub(crate) fn swap(
        &self,
        generation: GenerationId,
        table: Table,
        withdrawn: &[FunctionId],
    ) -> Result<(), Misuse> {
        let mut inner = self.lock();
        let commands = inner.scheduler.swap(self.now(), generation, withdrawn)?;
        inner.table = table;
        self.carry_out(&mut inner, commands, None);
        self.hold(&mut inner);
        Ok(())
    }

    /// Bans and lifts what the node's orders ban and no longer ban.
    pub(crate) fn hold_bans(&self) {
        self.hold(&mut self.lock());
    }

    /// What the node is to take, and the bans in force.
    pub(crate) fn standing(&self) -> &Standing {
        &self.standing
    }

    /// What calls cost.
    pub(crate) fn usage(&self) -> &Usage {
        &self.usage
    }

    /// Asked for under the lock: a ban that is spoken meanwhile is either in it or comes later.
    fn hold(&self, inner: &mut Inner) {
        let bans = self.standing.bans();
        let banned: HashMap<FunctionId, u32> = inner.scheduler.banned().into_iter().collect();
        let held: Vec<_> =
            inner.functions.iter().map(|(key, id)| (*id, bans.get(&BanKey::of(key)).copied())).collect();
        for (function, ban) in held {
            match (ban, banned.contains_key(&function)) {
                (Some(crashes), false) => {
                    let commands = inner.scheduler.ban(function, crashes);
                    self.carry_out(inner, commands, None);
                }
                // Lifting forgets crashes, so only what is banned is lifted.
                (None, true) => inner.scheduler.lift(function),
                (Some(_), true) | (None, false) => {}
            }
        }
    }

    /// Names the same loaded images anew, for example when an alias moved.
    pub(crate) fn reroute(&self, table: Table) {
        self.lock().table = table;
    }

    /// Gives up a staged generation.
    pub(crate) fn discard(&self, generation: GenerationId) {
        let mut inner = self.lock();
        let commands = inner.scheduler.discard(generation);
        self.carry_out(&mut inner, commands, None);
    }

    /// A worker is ready. `None`: its generation is gone and it is to stop.
    pub(crate) fn worker_ready(&self, generation: GenerationId, lane: LaneHandle) -> Option<WorkerId> {
        let mut inner = self.lock();
        inner.last_worker += 1;
        let id = WorkerId(inner.last_worker);
        inner.lanes.insert(id, lane);
        let (wanted, commands) = inner.scheduler.worker_ready(self.now(), generation, id);
        if !wanted {
            inner.lanes.remove(&id);
        }
        self.carry_out(&mut inner, commands, None);
        wanted.then_some(id)
    }

    /// A worker answered.
    pub(crate) fn completed(&self, worker: WorkerId, job: JobId, completion: Completion) {
        let mut inner = self.lock();
        let commands = inner.scheduler.completed(self.now(), worker, job);
        self.carry_out(&mut inner, commands, Some((job, completion)));
    }

    /// A worker's process is gone.
    pub(crate) fn worker_died(&self, worker: WorkerId) {
        let mut inner = self.lock();
        inner.lanes.remove(&worker);
        let commands = inner.scheduler.worker_died(self.now(), worker);
        self.carry_out(&mut inner, commands, None);
    }

    /// Looks at deadlines.
    pub(crate) fn tick(&self) {
        let mut inner = self.lock();
        let commands = inner.scheduler.tick(self.now());
        self.carry_out(&mut inner, commands, None);
    }

    /// Accepts nothing more and drains.
    pub(crate) fn stop(&self) {
        let mut inner = self.lock();
        let commands = inner.scheduler.stop();
        self.carry_out(&mut inner, commands, None);
    }

    /// Ends every worker; what runs on them is answered as lost.
    pub(crate) fn kill_workers(&self) {
        for lane in self.lock().lanes.values() {
            lane.kill.store(true, Ordering::Release);
        }
    }

    /// Whether every accepted call was answered.
    pub(crate) fn is_idle(&self) -> bool {
        self.lock().scheduler.is_idle()
    }

    pub(crate) fn snapshot(&self) -> Snapshot {
        self.lock().scheduler.snapshot()
    }

    /// Banned versions that are still routed to, with the crashes that led to the ban.
    pub(crate) fn banned(&self) -> Vec<(Arc<Served>, u32)> {
        let inner = self.lock();
        let banned: HashMap<FunctionId, u32> = inner.scheduler.banned().into_iter().collect();
        let served = inner.table.served();
        served.filter_map(|served| Some((Arc::clone(served), *banned.get(&served.id)?))).collect()
    }

    fn now(&self) -> Moment {
        Moment(u64::try_from(self.origin.elapsed().as_micros()).unwrap_or(u64::MAX))
    }

    /// A panic under the lock is a bug of ours; the tables are still the best knowledge there is,
    /// and giving up would leave every caller without an answer.
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn carry_out(&self, inner: &mut Inner, commands: Vec<Command>, said: Option<(JobId, Completion)>) {
        let mut said = said;
        for command in commands {
            match command {
                Command::Start { worker, job, slot } => inner.start(worker, job, slot),
                Command::Answer { job, outcome } => {
                    let completion = said.take_if(|(of, _)| *of == job).map(|(_, completion)| completion);
                    self.answer(inner, job, outcome, completion);
                }
                Command::Kill { worker, reason } => {
                    tracing::warn!(worker = worker.0, ?reason, "a worker is killed");
                    if let Some(lane) = inner.lanes.get(&worker) {
                        lane.kill.store(true, Ordering::Release);
                    }
                }
                // Dropping the handle closes the lane's channel, which ends the lane.
                Command::Retire { generation, workers } => {
                    tracing::info!(
                        generation = generation.0,
                        workers = workers.len(),
                        "a generation retires"
                    );
                    for worker in workers {
                        inner.lanes.remove(&worker);
                    }
                }
                Command::Ban { function, crashes } => {
                    if let Some(key) = inner.key_of(function) {
                        self.standing.ban_spoken(key, crashes);
                    }
                    if let Some(served) = inner.table.served().find(|served| served.id == function) {
                        tracing::error!(function = %served.key, crashes, "a function is banned on this node");
                        let text = format!("banned on this node after {crashes} crashes of its worker");
                        self.logs.node_line(&served.key, &text);
                    }
                }
            }
        }
    }

    fn answer(&self, inner: &mut Inner, job: JobId, outcome: Outcome, completion: Option<Completion>) {
        let Some(ticket) = inner.tickets.remove(&job) else { return };
        let started = ticket.started.unwrap_or_else(Instant::now);
        match outcome {
            Outcome::Lost => self.logs.node_line(&ticket.served.key, "the call was lost with its worker"),
            Outcome::Overdue => {
                self.logs.node_line(&ticket.served.key, "the call ran past its wall backstop")
            }
            Outcome::Finished | Outcome::WaitedTooLong | Outcome::Withdrawn | Outcome::Banned => {}
        }
        let answered = Answered {
            outcome,
            completion,
            served: ticket.served,
            queued: started.saturating_duration_since(ticket.accepted),
            ran: started.elapsed(),
        };
        self.usage.record(&answered);
        // The caller may have hung up; the answer was given all the same.
        let _ = ticket.reply.send(answered);
    }
}

impl Inner {
    fn tenant(&mut self, tenant: &TenantName) -> TenantId {
        let next = u32::try_from(self.tenants.len()).unwrap_or(u32::MAX);
        *self.tenants.entry(tenant.clone()).or_insert(TenantId(next))
    }

    fn function(&mut self, key: &ImageKey) -> FunctionId {
        let next = u32::try_from(self.functions.len()).unwrap_or(u32::MAX);
        *self.functions.entry(key.clone()).or_insert(FunctionId(next))
    }

    fn key_of(&self, function: FunctionId) -> Option<&ImageKey> {
        self.functions.iter().find(|(_, id)| **id == function).map(|(key, _)| key)
    }

    fn start(&mut self, worker: WorkerId, job: JobId, slot: u32) {
        let Some(ticket) = self.tickets.get_mut(&job) else { return };
        ticket.started = Some(Instant::now());
        let frame = std::mem::take(&mut ticket.frame);
        let assignment = Assignment { job, slot, frame, served: Arc::clone(&ticket.served) };
        if let Some(lane) = self.lanes.get(&worker) {
            // A lane that is gone reports its worker's death, which answers the call.
            let _ = lane.jobs.send(assignment);
        }
    }
}
