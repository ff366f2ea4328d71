//! The engine: it alone owns the scheduler, the host ends of all rings and the tickets of waiting
//! callers. The thread that turns it has it for itself ([`super::shared`]).
//!
//! It looks at its intake and at the rings of busy workers in turn, and at the wall deadlines that
//! workers write for the calls that they run: one that has passed gets one signal, and whether the
//! call has really used up its budget the worker finds out for itself. With nothing to do it looks on
//! for a moment, then sleeps until it is woken, or until the nearest deadline: with calls on the way
//! in here, at rest in the thread, which lets go of it meanwhile.
//!
//! What a worker writes is hostile: a ring that breaks its protocol is never read again, and its
//! worker is killed. A call is answered as lost only after its worker's process was waited for.

mod caller;
mod worker_slot;

use std::collections::HashMap;
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use mfaas_abi::Status;
use mfaas_dispatch::{
    Command, Commands, FunctionId, JobId, Limits, Moment, Outcome, Scheduler, Snapshot, Standing, WorkerId,
};
use mfaas_ring::clock::{Rate, ticks};
use mfaas_ring::{Completion, RingError, Submission, wait_any};
use rustix::process::Signal;
use tokio::sync::oneshot;

use super::call::{Answered, CallError};
use super::intake::{Arrival, Call, Definition, Event, Outlet};
use super::loading::Task;
use super::log_forwarder::LogForwarder;
use super::process::RING_SLOTS;
use super::services::NodeServices;
use super::supervisor::{Wanted, WorkerSupervisor};
use super::table::Served;
use crate::directives::BanKey;
use crate::image::VerifiedImage;
use worker_slot::WorkerSlot;

/// Events taken in one turn, so that completions never wait behind a flood of calls.
const EVENTS_AT_ONCE: usize = 64;
/// How long it looks on with nothing to do before it sleeps, in microseconds.
const SPIN_US: u64 = 10;
/// The scheduler's own deadlines are milliseconds and more.
const TICK_US: u64 = 1_000;
/// Workers' deadlines are looked at this often, in microseconds: the word lies on a line that the
/// worker writes with every call, and each look takes it away from there.
const WATCH_US: u64 = 2;
/// Counts are shown to others this often while there is no rest, in microseconds.
const PUBLISH_US: u64 = 10_000;
/// It is awake this long before a deadline: waking up takes a while, and a signal is to be on time.
const WAKE_EARLY: Duration = Duration::from_micros(20);
/// The longest sleep; nothing depends on it.
const SLEEP_MAX: Duration = Duration::from_secs(10);
/// A worker that shows one passed deadline after the other gets a signal this often at most, in
/// microseconds: it must not decide what its watching costs.
const SIGNAL_PAUSE_US: u64 = 20;
/// A worker that was let go has this long to leave, in microseconds.
const LEAVE_US: u64 = 2_000_000;

/// What others may see of the dispatcher.
#[derive(Debug, Default)]
pub(crate) struct Published {
    pub(crate) snapshot: Snapshot,
    pub(crate) banned: Vec<(FunctionId, u32)>,
}

/// A caller that waits.
#[derive(Debug)]
struct Ticket {
    job: JobId,
    call: Call,
    /// When the call was given to a worker last, in ticks.
    started: Option<u64>,
}

/// A function that was defined.
#[derive(Debug)]
struct Known {
    served: Arc<Served>,
    image: Arc<VerifiedImage>,
    /// Let go of once it is in no slot.
    retired: bool,
}

/// The thread's state.
#[derive(Debug)]
pub(crate) struct Engine {
    scheduler: Scheduler,
    commands: Commands,
    batch: Commands,
    outlet: Outlet,
    /// By the job's index.
    tickets: Vec<Option<Ticket>>,
    /// By the worker's place.
    slots: Vec<Option<WorkerSlot>>,
    /// Places of the workers that have calls or are to leave: thousands of others may sleep.
    active: Vec<usize>,
    known: HashMap<FunctionId, Known>,
    /// Who waits for a definition to be resident.
    pending: HashMap<FunctionId, Vec<oneshot::Sender<Result<(), String>>>>,
    loader: Sender<Task>,
    supervisor: Arc<WorkerSupervisor>,
    log_forwarder: LogForwarder,
    services: NodeServices,
    published: Arc<Mutex<Published>>,
    /// Filled by each collection.
    completion: Completion,
    /// The job that it answers.
    completed: Option<JobId>,
    stopped: Option<oneshot::Sender<()>>,
    rate: Rate,
    origin: u64,
    watched: u64,
    ticked: u64,
    shown: u64,
    /// Workers that come now are let go at once: the node stops.
    dismissed: bool,
    /// What the services ban, as far as it is known here.
    bans: HashMap<BanKey, u32>,
    /// Since they were shown: looking for them goes through all functions.
    bans_changed: bool,
    /// How often in a row a caller looked for its answer in vain.
    misses: u32,
    /// Calls that go by the thread before a caller looks again.
    slow_calls: u32,
    /// [`Event::End`] was received.
    over: bool,
}

/// Whether there was something to do.
#[derive(Debug, PartialEq, Eq)]
enum Turn {
    Worked,
    Idle,
}

impl Engine {
    pub(crate) fn new(
        limits: Limits,
        outlet: Outlet,
        loader: Sender<Task>,
        supervisor: Arc<WorkerSupervisor>,
        log_forwarder: LogForwarder,
        services: NodeServices,
        published: Arc<Mutex<Published>>,
    ) -> Self {
        let (rate, origin) = (Rate::measured(), ticks());
        Self {
            scheduler: Scheduler::new(limits),
            commands: Commands::with_capacity(EVENTS_AT_ONCE),
            batch: Commands::with_capacity(EVENTS_AT_ONCE),
            outlet,
            tickets: Vec::new(),
            slots: Vec::new(),
            active: Vec::new(),
            known: HashMap::new(),
            pending: HashMap::new(),
            loader,
            supervisor,
            log_forwarder,
            services,
            published,
            completion: Completion::new(),
            completed: None,
            stopped: None,
            rate,
            origin,
            watched: 0,
            ticked: 0,
            shown: 0,
            dismissed: false,
            bans: HashMap::new(),
            bans_changed: false,
            misses: 0,
            slow_calls: 0,
            over: false,
        }
    }

    /// Turns until nothing is on its way and nothing is due. How long nothing will be; nothing
    /// after [`Event::End`].
    pub(super) fn run(&mut self) -> Option<Duration> {
        let spin = self.rate.ticks_of_us(SPIN_US);
        let mut worked_at = ticks();
        while !self.over {
            match self.turn() {
                Turn::Worked => worked_at = ticks(),
                Turn::Idle if ticks().saturating_sub(worked_at) < spin => std::hint::spin_loop(),
                Turn::Idle => match self.until_next().checked_sub(WAKE_EARLY) {
                    Some(timeout) => {
                        self.publish();
                        if self.has_no_calls() {
                            return Some(timeout);
                        }
                        self.sleep(timeout);
                        worked_at = ticks();
                    }
                    None => std::hint::spin_loop(),
                },
            }
        }
        None
    }

    /// When `timeout` is over, in ticks.
    pub(super) fn after(&self, timeout: Duration) -> u64 {
        ticks().saturating_add(self.rate.ticks_of(timeout))
    }

    /// Whether no worker has a call.
    fn has_no_calls(&self) -> bool {
        !self.active_slots().any(WorkerSlot::is_busy)
    }

    fn active_slots(&self) -> impl Iterator<Item = &WorkerSlot> {
        self.active.iter().filter_map(|place| self.slots[*place].as_ref())
    }

    /// Looks at the worker at a place until it has nothing to do and may stay.
    fn activate(&mut self, place: usize) {
        if let Some(slot) = &mut self.slots[place]
            && !std::mem::replace(&mut slot.is_active, true)
        {
            self.active.push(place);
        }
    }

    fn turn(&mut self) -> Turn {
        let received = self.receive();
        let collected = self.collect();
        let now = ticks();
        if now.saturating_sub(self.watched) > self.rate.ticks_of_us(WATCH_US) {
            self.watched = now;
            self.watch(now);
        }
        if now.saturating_sub(self.ticked) > self.rate.ticks_of_us(TICK_US) {
            self.ticked = now;
            self.scheduler.tick(self.moment(), &mut self.commands);
            self.execute_commands();
        }
        if now.saturating_sub(self.shown) > self.rate.ticks_of_us(PUBLISH_US) {
            self.publish();
        }
        if collected { Turn::Worked } else { received }
    }

    fn moment(&self) -> Moment {
        Moment(self.rate.ns_of(ticks().saturating_sub(self.origin)) / 1_000)
    }

    fn receive(&mut self) -> Turn {
        let mut turn = Turn::Idle;
        for _ in 0..EVENTS_AT_ONCE {
            match self.outlet.next() {
                None => break,
                Some(Event::Call(call)) => drop(self.submit(call)),
                Some(event) => self.handle_event(event),
            }
            self.execute_commands();
            turn = Turn::Worked;
        }
        turn
    }

    /// The job, if the call was accepted; a refusal is answered.
    fn submit(&mut self, call: Call) -> Option<JobId> {
        let now = self.moment();
        let deadline = call.wait_us_max.map(|wait| now.plus(wait));
        match self.scheduler.submit(now, call.served.id, deadline, &mut self.commands) {
            Ok(job) => {
                if self.tickets.len() <= job.index() {
                    self.tickets.resize_with(job.index() + 1, || None);
                }
                self.tickets[job.index()] = Some(Ticket { job, call, started: None });
                Some(job)
            }
            Err(refusal) => {
                // The caller may have hung up.
                let _ = call.reply.send(Err(CallError::Refused(refusal)));
                None
            }
        }
    }

    /// Everything but calls.
    fn handle_event(&mut self, event: Event) {
        let now = self.moment();
        match event {
            Event::Call(call) => drop(self.submit(call)),
            Event::Define(definition) => self.define(*definition),
            Event::Retire(function) => {
                self.scheduler.retire(function, &mut self.commands);
                self.forget_retired(function);
            }
            Event::Withdraw(function) => {
                self.scheduler.withdraw(function, &mut self.commands);
                self.forget_retired(function);
            }
            Event::Arrived(arrival) => self.arrived(*arrival),
            Event::Died(worker) => self.died(worker),
            Event::Loaded { function, slab, slot, bytes } => {
                self.scheduler.loaded(now, function, slab, slot, bytes, &mut self.commands);
                self.resolve(function, Ok(()));
            }
            Event::LoadFailed { function, slab, reason } => {
                self.scheduler.load_failed(function, slab, &mut self.commands);
                self.resolve(function, Err(reason));
            }
            Event::NoRoom { function, slab } => {
                self.scheduler.no_room(function, slab, &mut self.commands);
                self.resolve(function, Err("the slab has no room for it".to_owned()));
            }
            Event::Renewed => {
                self.scheduler.renew(&mut self.commands);
                let all: Vec<_> = self.pending.keys().copied().collect();
                all.into_iter().for_each(|function| self.resolve(function, Ok(())));
            }
            Event::HoldBans => self.hold_bans(),
            Event::Stop(idle) => {
                self.stopped = Some(idle);
                self.scheduler.stop(&mut self.commands);
            }
            Event::KillWorkers => self.slots.iter().flatten().for_each(|slot| slot.signal(Signal::KILL)),
            Event::Dismiss => {
                self.dismissed = true;
                (0..self.slots.len()).for_each(|place| self.let_go(place));
            }
            Event::End => self.over = true,
        }
    }

    fn define(&mut self, definition: Definition) {
        let Definition { served, image, terms, done } = definition;
        let function = served.id;
        self.known.insert(function, Known { served, image, retired: false });
        self.hold_ban(function);
        if let Err(misuse) = self.scheduler.define(function, terms, &mut self.commands) {
            self.known.remove(&function);
            // The agent may have gone away, here and below.
            return drop(done.send(Err(misuse.to_string())));
        }
        self.pending.entry(function).or_default().push(done);
        self.resolve(function, Ok(()));
    }

    /// Lets go of the image of a retired function, unless something still needs it.
    fn forget_retired(&mut self, function: FunctionId) {
        if let Some(known) = self.known.get_mut(&function) {
            known.retired = true;
        }
        self.forget_if_cold(function);
    }

    fn forget_if_cold(&mut self, function: FunctionId) {
        let retired = self.known.get(&function).is_some_and(|known| known.retired);
        if retired && self.scheduler.standing(function) == Standing::Cold {
            self.known.remove(&function);
        }
    }

    /// Answers all that wait for the function, unless it is still on its way.
    fn resolve(&mut self, function: FunctionId, result: Result<(), String>) {
        if self.scheduler.standing(function) == Standing::Coming {
            return;
        }
        if let (Err(reason), Some(known)) = (&result, self.known.get(&function)) {
            tracing::error!(function = %known.served.key, reason, "an image cannot be loaded");
        }
        for done in self.pending.remove(&function).into_iter().flatten() {
            let _ = done.send(result.clone());
        }
    }

    fn arrived(&mut self, arrival: Arrival) {
        let Arrival { id, slab, ring, process } = arrival;
        let place = usize::from(id.place);
        if self.slots.len() <= place {
            self.slots.resize_with(place + 1, || None);
        }
        let (poisoned, since, signalled, signal_after, leave_by, is_active) = (false, 0, 0, 0, None, false);
        self.slots[place] = Some(WorkerSlot {
            id,
            ring,
            process,
            poisoned,
            since,
            signalled,
            signal_after,
            leave_by,
            is_active,
        });
        if let Err(misuse) = self.scheduler.worker_ready(self.moment(), id, slab, &mut self.commands) {
            tracing::error!(%misuse, "a worker is let go");
            self.let_go(place);
        } else if self.dismissed {
            self.let_go(place);
        }
    }

    /// What the dead had completed counts; the rest is given up.
    fn died(&mut self, worker: WorkerId) {
        let place = usize::from(worker.place);
        if self.slots.get(place).and_then(Option::as_ref).is_some_and(|slot| slot.id == worker) {
            self.scheduler.worker_dying(worker);
            self.collect_from(place);
            self.slots[place] = None;
            self.active.retain(|active| *active != place);
        }
        self.scheduler.worker_died(self.moment(), worker, &mut self.commands);
    }

    /// Takes what busy workers have completed.
    fn collect(&mut self) -> bool {
        let mut worked = false;
        let mut at = 0;
        while let Some(place) = self.active.get(at).copied() {
            worked |= self.collect_from(place);
            match &mut self.slots[place] {
                Some(slot) if slot.is_busy() || slot.leave_by.is_some() => at += 1,
                Some(slot) => {
                    slot.is_active = false;
                    self.active.swap_remove(at);
                }
                None => drop(self.active.swap_remove(at)),
            }
        }
        worked
    }

    /// At most what one ring holds: a worker that answers faster than it is fed must not keep the
    /// thread from everything else.
    fn collect_from(&mut self, place: usize) -> bool {
        let mut worked = false;
        for _ in 0..RING_SLOTS {
            match self.collect_one(place) {
                Ok(true) => worked = true,
                Ok(false) => break,
                Err(error) => {
                    self.broken(place, &error);
                    self.execute_commands();
                    break;
                }
            }
        }
        worked
    }

    fn collect_one(&mut self, place: usize) -> Result<bool, RingError> {
        let Some(slot) = &mut self.slots[place] else { return Ok(false) };
        if !slot.is_busy() || !slot.ring.collect(&mut self.completion)? {
            return Ok(false);
        }
        slot.since = ticks();
        let (worker, job) = (slot.id, JobId(self.completion.call_id));
        let over_budget = self.completion.status == Status::OverBudget;
        self.completed = Some(job);
        let now = self.moment();
        let cpu_us = self.completion.cpu_ns / 1_000;
        self.scheduler.completed(now, worker, job, cpu_us, over_budget, &mut self.commands);
        self.execute_commands();
        self.completed = None;
        Ok(true)
    }

    fn broken(&mut self, place: usize, error: &RingError) {
        let Some(slot) = &mut self.slots[place] else { return };
        slot.poisoned = true;
        tracing::error!(worker = ?slot.id, %error, "the ring of a worker broke");
        self.scheduler.violated(slot.id, &mut self.commands);
    }

    fn execute_commands(&mut self) {
        while !self.commands.is_empty() {
            std::mem::swap(&mut self.commands, &mut self.batch);
            let mut batch = std::mem::take(&mut self.batch);
            batch.drain(..).for_each(|command| self.execute(command));
            self.batch = batch;
        }
        if self.stopped.is_some() && self.scheduler.is_idle() {
            // The task that stopped the node may have lost patience.
            self.stopped.take().map(|idle| idle.send(()));
        }
    }

    fn execute(&mut self, command: Command) {
        match command {
            Command::Start { worker, job, slot } => self.begin(worker, job, slot),
            Command::Answer { job, outcome } => self.answer(job, outcome),
            Command::Kill { worker, reason } => {
                tracing::warn!(?worker, ?reason, "a worker is killed");
                if let Some(slot) = self.slot_of(worker) {
                    slot.signal(Signal::KILL);
                }
            }
            Command::Stop { worker } => self.let_go(usize::from(worker.place)),
            Command::Spawn { worker, pool, slab } => {
                self.send_to_loader(Task::Open(slab));
                self.supervisor.spawn(Wanted { id: worker, pool, slab });
            }
            Command::CloseSlab { slab } => self.send_to_loader(Task::Close(slab)),
            Command::Suspect { function } => self.suspected(function),
            Command::Load { function, slab } => match self.known.get(&function) {
                Some(known) => {
                    let image = Arc::clone(&known.image);
                    self.send_to_loader(Task::Load { function, slab, image });
                }
                // Retired and let go of while its last calls waited for a new slab.
                None => self.scheduler.load_failed(function, slab, &mut self.commands),
            },
            Command::Unload { function, slot, slab } => {
                self.send_to_loader(Task::Unload { slot, slab });
                self.forget_if_cold(function);
            }
            Command::Ban { function, crashes } => self.banned(function, crashes),
        }
    }

    fn send_to_loader(&self, task: Task) {
        // Its thread ends only with the node.
        let _ = self.loader.send(task);
    }

    fn begin(&mut self, worker: WorkerId, job: JobId, function: u32) {
        let Some(ticket) = self.tickets.get_mut(job.index()).and_then(Option::as_mut) else { return };
        let Some(slot) = self.slots.get_mut(usize::from(worker.place)).and_then(Option::as_mut) else {
            return;
        };
        let now = ticks();
        ticket.started = Some(now);
        if slot.ring.in_flight() == 0 {
            slot.since = now;
        }
        if !std::mem::replace(&mut slot.is_active, true) {
            self.active.push(usize::from(worker.place));
        }
        let key = &ticket.call.served.key;
        let submission = Submission {
            call_id: job.0,
            function,
            // At most ten seconds in microseconds, so the cast keeps it.
            budget_us: key.budget.as_micros() as u32,
            memory_bytes: key.memory.as_bytes(),
            frame: &ticket.call.frame,
        };
        if let Err(error) = slot.ring.submit(submission) {
            self.broken(usize::from(worker.place), &error);
        }
    }

    /// Gives the one answer of an accepted call.
    fn answer(&mut self, job: JobId, outcome: Outcome) {
        let Some(ticket) = self.tickets.get_mut(job.index()).and_then(Option::take) else { return };
        let Ticket { call: Call { served, since, reply, .. }, started, .. } = ticket;
        let now = ticks();
        let started = started.unwrap_or(now);
        let spent = |from: u64, to: u64| Duration::from_nanos(self.rate.ns_of(to.saturating_sub(from)));
        let (queued, ran) = (spent(since, started), spent(started, now));
        let mut completion = (outcome == Outcome::Finished && self.completed == Some(job))
            .then(|| std::mem::take(&mut self.completion));
        let logs = completion
            .as_mut()
            .map(|output| (std::mem::take(&mut output.logs), std::mem::take(&mut output.message)));
        let for_log = Arc::clone(&served);
        let answered = Answered { outcome, completion, served, queued, ran };
        self.services.usage.record(&answered);
        // The caller may have hung up; the answer was given all the same.
        let _ = reply.send(Ok(answered));
        // After the answer: nobody waits for log lines.
        match (outcome, logs) {
            (_, Some((logs, message))) => self.log_forwarder.function_output(&for_log, logs, message),
            (Outcome::Lost, None) => {
                self.log_forwarder.node_line(&for_log, "the call was lost with its worker")
            }
            (Outcome::Overdue, None) => {
                self.log_forwarder.node_line(&for_log, "the call ran past its wall backstop");
            }
            (_, None) => {}
        }
    }

    fn suspected(&mut self, function: FunctionId) {
        let Some(known) = self.known.get(&function) else { return };
        tracing::warn!(function = %known.served.key, "a worker died that had run this function among others: it runs alone for a while");
    }

    fn banned(&mut self, function: FunctionId, crashes: u32) {
        self.bans_changed = true;
        let Some(known) = self.known.get(&function) else { return };
        let served = &known.served;
        self.services.standing.record_ban(&served.key, crashes);
        self.bans.insert(BanKey::of(&served.key), crashes);
        tracing::error!(function = %served.key, crashes, "a function is banned on this node");
        self.log_forwarder
            .node_line(served, &format!("banned on this node after {crashes} crashes of its worker"));
        self.publish();
    }

    /// Bans and lifts what the directives ban and no longer ban. Asked for here, where bans are spoken: one
    /// that is spoken meanwhile is in the services before this looks at them.
    pub(super) fn hold_bans(&mut self) {
        self.bans = self.services.standing.bans();
        let all: Vec<FunctionId> = self.known.keys().copied().collect();
        all.into_iter().for_each(|function| self.hold_ban(function));
        self.publish();
    }

    /// The same for one function.
    fn hold_ban(&mut self, function: FunctionId) {
        let Some(known) = self.known.get(&function) else { return };
        match (self.bans.get(&BanKey::of(&known.served.key)), self.scheduler.ban_of(function)) {
            (Some(crashes), None) => {
                self.bans_changed = true;
                if let Err(misuse) = self.scheduler.ban(function, *crashes, &mut self.commands) {
                    tracing::error!(function = %known.served.key, %misuse, "a ban cannot be held");
                }
            }
            // Lifting forgets crashes, so only what is banned is lifted.
            (None, Some(_)) => {
                self.bans_changed = true;
                self.scheduler.lift(function);
            }
            (Some(_), Some(_)) | (None, None) => {}
        }
    }

    fn slot_of(&mut self, worker: WorkerId) -> Option<&mut WorkerSlot> {
        self.slots.get_mut(usize::from(worker.place))?.as_mut().filter(|slot| slot.id == worker)
    }

    /// Asks the worker at a place to leave after its calls.
    fn let_go(&mut self, place: usize) {
        let leave_by = ticks().saturating_add(self.rate.ticks_of_us(LEAVE_US));
        if let Some(slot) = self.slots.get_mut(place).and_then(Option::as_mut) {
            slot.ring.stop();
            slot.leave_by = Some(leave_by);
            self.activate(place);
        }
    }

    /// Signals workers whose call's wall deadline has passed, once for each deadline, and ends those
    /// that did not leave.
    fn watch(&mut self, now: u64) {
        let pause = self.rate.ticks_of_us(SIGNAL_PAUSE_US);
        for place in &self.active {
            let Some(slot) = &mut self.slots[*place] else { continue };
            if slot.leave_by.is_some_and(|leave_by| leave_by <= now) {
                slot.leave_by = None;
                slot.signal(Signal::KILL);
            }
            let deadline = slot.ring.watch_deadline();
            let passed = deadline != 0 && deadline <= now && deadline != slot.signalled;
            if passed && slot.ring.in_flight() > 0 && slot.signal_after <= now {
                slot.signalled = deadline;
                slot.signal_after = now.saturating_add(pause);
                slot.signal(Signal::ALARM);
            }
        }
    }

    fn publish(&mut self) {
        self.shown = ticks();
        let mut published = self.published.lock().unwrap_or_else(PoisonError::into_inner);
        published.snapshot = self.scheduler.snapshot();
        if std::mem::take(&mut self.bans_changed) {
            published.banned.clear();
            published.banned.extend(self.scheduler.banned());
        }
    }

    /// Sleeps until a bell rings or `timeout` is over.
    fn sleep(&mut self, timeout: Duration) {
        let Self { outlet, slots, active, .. } = self;
        let slots = || active.iter().filter_map(|place| slots[*place].as_ref());
        let busy = || slots().filter(|slot| slot.is_busy());
        let (bell, mut look) = outlet.parts();
        let bells: Vec<_> = std::iter::once(bell).chain(busy().map(|slot| slot.ring.bell())).collect();
        let ready = || look() || busy().any(|slot| slot.ring.is_ready());
        if let Err(error) = wait_any(&bells, timeout, ready) {
            // Nothing is lost, but without sleep it would use up a core.
            tracing::error!(%error, "the dispatcher cannot sleep");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    fn until_next(&self) -> Duration {
        let now = ticks();
        let watched = self.active_slots().filter_map(|slot| slot.next_look(now, self.rate)).min();
        let watched = watched.map(|ticks| Duration::from_nanos(self.rate.ns_of(ticks)));
        let scheduled = self.scheduler.next_deadline();
        let scheduled = scheduled.map(|at| Duration::from_micros(at.since(self.moment()).max(1)));
        watched.into_iter().chain(scheduled).fold(SLEEP_MAX, Duration::min)
    }
}

#[cfg(test)]
mod tests;
