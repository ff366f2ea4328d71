//! The engine: it alone owns the scheduler, the host ends of all rings and the tickets of waiting
//! callers. The thread that turns it has it for itself ([`super::shared`]).
//!
//! It looks at its intake and at the rings of busy workers in turn, and at the wall deadlines that
//! workers write for the calls that they run: one that has passed gets one signal, and whether the
//! call has really used up its budget the worker finds out for itself. With nothing to do it looks on
//! for a moment, then sleeps until it is woken, or until the nearest deadline: with calls on the way
//! in here, at rest in the thread, which lets go of it meanwhile.
//!
//! The scheduler decides and the engine carries out: what it says of callers is done by [`calls`], of workers by
//! [`workers`], of images by [`residents`]. What a worker writes is hostile: a ring that breaks its protocol is never
//! read again, and its worker is killed. A call is answered as lost only after its worker's process was waited for.

mod bans;
mod caller;
mod calls;
mod clock;
mod data;
mod inline;
mod kept_bytes;
mod outcomes;
mod publisher;
mod residents;
mod suspended;
mod workers;

use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use mfaas_broker_protocol::FromBroker;
use mfaas_dispatch::{Command, Commands, JobId, Limits, Moment, Outcome, Scheduler, WorkerId};
use mfaas_ident::Budget;
use mfaas_ring::clock::ticks;
use mfaas_ring::{RingError, Submission, wait_any};
use mfaas_rules::codes;

use super::broker::BrokerLink;
use super::call::{CallError, NotBegun};
use super::intake::{Arrival, Call, Definition, Event, Outlet};
use super::loading::Task;
use super::log_forwarder::LogForwarder;
use super::process::RING_SLOTS;
use super::services::NodeServices;
use super::supervisor::{Wanted, WorkerSupervisor};
use bans::Bans;
use calls::{Begin, PendingCalls, Report};
use clock::Clock;
use data::DataCalls;
pub(crate) use publisher::Published;
use publisher::Publisher;
use residents::Residents;
use suspended::Rest;
use workers::Workers;

/// What a call that waits is charged for: so many bytes of it are taken from a worker and given to one again in a microsecond.
const MOVED_BYTES_PER_US: u64 = 2 << 10;
/// And so many operations that it begins or cancels.
const OPERATIONS_PER_US: u64 = 2;
/// What it takes to make a call for another one, besides what that one takes.
const MADE_CALL_US: u64 = 3;
/// The least that a worker takes as a budget: a call that has less is ended by it.
const BUDGET_US_MIN: u32 = Budget::MIN.as_micros() as u32;
/// Events taken in one turn, so that completions never wait behind a flood of calls.
const EVENTS_AT_ONCE: usize = 64;
/// Operations whose time has come that calls hear of in one turn, for the same reason.
const HEARD_AT_ONCE: usize = 256;
/// How long it looks on with nothing to do before it sleeps, in microseconds.
const SPIN_US: u64 = 10;
/// The same after it has asked the broker for something, which a database or a file answers in less. From the first on others run
/// between two looks.
const BROKER_LOOK_US: u64 = 400;
const BROKER_KEEP_US: u64 = 1;
/// It is awake this long before a deadline: waking up takes a while, and a signal is to be on time.
const WAKE_EARLY: Duration = Duration::from_micros(20);
/// The longest sleep; nothing depends on it.
const SLEEP_MAX: Duration = Duration::from_secs(10);

/// The thread's state.
#[derive(Debug)]
pub(crate) struct Engine {
    scheduler: Scheduler,
    /// What the scheduler has decided and is not done.
    commands: Commands,
    outlet: Outlet,
    clock: Clock,
    calls: PendingCalls,
    workers: Workers,
    residents: Residents,
    bans: Bans,
    publisher: Publisher,
    /// What a worker has asked.
    question: Vec<u8>,
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
        broker: BrokerLink,
    ) -> Self {
        let clock = Clock::start();
        let log_forwarder = Arc::new(log_forwarder);
        let data = DataCalls::new(broker, &services);
        Self {
            scheduler: Scheduler::new(limits),
            commands: Commands::with_capacity(EVENTS_AT_ONCE),
            outlet,
            calls: PendingCalls::new(services.usage, Arc::clone(&log_forwarder), data),
            workers: Workers::new(supervisor, clock.rate()),
            residents: Residents::new(loader),
            bans: Bans::new(services.standing, log_forwarder),
            publisher: Publisher::new(clock.rate()),
            clock,
            question: Vec::new(),
            over: false,
        }
    }

    /// What others may see of it.
    pub(crate) fn published(&self) -> Arc<Mutex<Published>> {
        self.publisher.published()
    }

    /// Turns until nothing is on its way and nothing is due. How long nothing will be; nothing
    /// after [`Event::End`].
    pub(super) fn run(&mut self) -> Option<Duration> {
        let mut worked_at = ticks();
        while !self.over {
            match self.turn() {
                Turn::Worked => worked_at = ticks(),
                Turn::Idle if self.looks_on(worked_at) => {}
                Turn::Idle => match self.until_next().checked_sub(WAKE_EARLY) {
                    Some(timeout) => {
                        self.publish();
                        if !self.calls.watch_broker() {
                            continue;
                        }
                        if !self.workers.is_busy() {
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

    /// Spends a moment before the next look, if there is to be one.
    fn looks_on(&self, worked_at: u64) -> bool {
        let now = ticks();
        let (idle, rate) = (now.saturating_sub(worked_at), self.clock.rate());
        let is_broker_asked = self.is_broker_looked_for(now);
        if is_broker_asked && idle >= rate.ticks_of_us(BROKER_KEEP_US) {
            rustix::thread::sched_yield();
            return true;
        }
        std::hint::spin_loop();
        is_broker_asked || idle < rate.ticks_of_us(SPIN_US)
    }

    /// Whether the broker was asked so lately that the engine looks for what it says.
    fn is_broker_looked_for(&self, now: u64) -> bool {
        now.saturating_sub(self.calls.broker_asked_at()) < self.clock.rate().ticks_of_us(BROKER_LOOK_US)
    }

    /// When `timeout` is over, in ticks.
    pub(super) fn after(&self, timeout: Duration) -> u64 {
        self.clock.after(timeout)
    }

    fn turn(&mut self) -> Turn {
        let received = self.receive();
        let collected = self.collect();
        let now = ticks();
        let looks = self.is_broker_looked_for(now) || !self.calls.is_broker_watched();
        let heard = looks && self.hear_from_broker();
        self.workers.watch(now);
        self.wake();
        if self.clock.is_tick_due(now) {
            self.scheduler.tick(self.clock.moment(), &mut self.commands);
            self.execute_commands();
        }
        if self.publisher.is_due(now) {
            self.publish();
        }
        if collected || heard { Turn::Worked } else { received }
    }

    fn receive(&mut self) -> Turn {
        let mut turn = Turn::Idle;
        for _ in 0..EVENTS_AT_ONCE {
            let Some(event) = self.outlet.next() else { break };
            self.handle_event(event);
            self.execute_commands();
            turn = Turn::Worked;
        }
        turn
    }

    fn handle_event(&mut self, event: Event) {
        match event {
            Event::Call(call) => drop(self.submit(call)),
            Event::Define(definition) => self.define(*definition),
            Event::Retire(function) => {
                self.scheduler.retire(function, &mut self.commands);
                self.residents.retire(function, &self.scheduler);
            }
            Event::Withdraw(function) => {
                self.scheduler.withdraw(function, &mut self.commands);
                self.residents.retire(function, &self.scheduler);
            }
            Event::Arrived(arrival) => self.arrived(*arrival),
            Event::Died(worker) => self.died(worker),
            Event::Loaded { function, slab, slot, bytes } => {
                let now = self.clock.moment();
                self.scheduler.loaded(now, function, slab, slot, bytes, &mut self.commands);
                self.residents.resolve(function, Ok(()), &self.scheduler);
            }
            Event::LoadFailed { function, slab, reason } => {
                self.scheduler.load_failed(function, slab, &mut self.commands);
                self.residents.resolve(function, Err(reason), &self.scheduler);
            }
            Event::NoRoom { function, slab } => {
                if let Some(never_fits) = self.scheduler.no_room(function, slab, &mut self.commands) {
                    let reason = || "the slab has no room for it".to_owned();
                    // One that is to be tried again is cold meanwhile: room may not come for long.
                    let result = if never_fits { Err(reason()) } else { Ok(()) };
                    self.residents.answer(function, result, &self.scheduler);
                }
            }
            Event::Unloaded { slab, slot } => self.scheduler.unloaded(slab, slot, &mut self.commands),
            Event::Renewed => {
                self.scheduler.renew(&mut self.commands);
                self.residents.resolve_all(&self.scheduler);
            }
            Event::Broker(message) => self.hear(message),
            Event::BrokerLost(connection) => self.calls.lose_data(connection),
            Event::HoldBans => self.hold_bans(),
            Event::Stop(idle) => {
                self.calls.await_idle(idle);
                self.scheduler.stop(&mut self.commands);
            }
            Event::KillWorkers => {
                self.workers.kill_all();
                self.scheduler.abandon_suspended(&mut self.commands);
            }
            Event::Dismiss => self.workers.dismiss(),
            Event::End => self.over = true,
        }
    }

    /// The job, if the call was accepted; a refusal is answered.
    fn submit(&mut self, call: Call) -> Option<JobId> {
        if call.reply.parent().is_some() && call.reply.is_closed() {
            return None;
        }
        let now = self.clock.moment();
        let submitted = match call.reply.parent() {
            Some(parent) => self.scheduler.submit_child(now, parent.job, call.served.id, &mut self.commands),
            None => {
                let deadline = call.wait_us_max.map(|wait| now.plus(wait));
                self.scheduler.submit(now, call.served.id, deadline, &mut self.commands)
            }
        };
        match submitted {
            Ok(job) => {
                self.calls.insert(job, call);
                Some(job)
            }
            Err(refusal) => {
                // A call that was accepted is not refused for what has become of its function since.
                let error = match call.reruns {
                    0 => CallError::Refused(refusal),
                    _ => CallError::NotCommitted(codes::MF1204),
                };
                self.calls.refuse(call.reply, error);
                None
            }
        }
    }

    fn define(&mut self, definition: Definition) {
        let Definition { served, image, terms, done } = definition;
        // First its ban: the scheduler takes calls of it from its definition on.
        self.bans.hold(&served, &mut self.scheduler, &mut self.commands);
        match self.scheduler.define(served.id, terms, &mut self.commands) {
            Ok(()) => {
                // A number may have meant another version before.
                self.calls.apart.remove(&served.id);
                self.residents.insert(served, image, done, &self.scheduler);
            }
            Err(misuse) => self.residents.refuse(served.id, done, misuse),
        }
    }

    fn arrived(&mut self, arrival: Arrival) {
        let (id, slab) = (arrival.id, arrival.slab);
        self.workers.insert(arrival);
        if let Err(misuse) = self.scheduler.worker_ready(self.clock.moment(), id, slab, &mut self.commands) {
            tracing::error!(%misuse, "a worker is let go");
            self.workers.let_go(id);
        }
    }

    /// What the dead had completed counts; the rest is given up.
    fn died(&mut self, worker: WorkerId) {
        if self.workers.contains(worker) {
            self.scheduler.worker_dying(worker);
            self.collect_from(usize::from(worker.place));
            self.workers.remove(worker);
        }
        self.scheduler.worker_died(self.clock.moment(), worker, &mut self.commands);
    }

    /// Takes what busy workers have completed.
    fn collect(&mut self) -> bool {
        let mut worked = false;
        let mut at = 0;
        while let Some(place) = self.workers.active(at) {
            worked |= self.collect_from(place);
            at += usize::from(self.workers.stays_active(at));
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
                    return worked;
                }
            }
        }
        worked | self.answer_question(place)
    }

    /// Answers what the worker asks for the call that it runs, if it asks something.
    fn answer_question(&mut self, place: usize) -> bool {
        match self.workers.question(place, &mut self.question) {
            Ok(Some(job)) => {
                let (worker, scheduler) = (self.workers.at(place), &mut self.scheduler);
                let mut lend = |function| scheduler.lend(worker?, job, function);
                let told = self.calls.tell(job, &self.question, &mut lend);
                self.workers.tell(place, told.as_deref());
                told.into_iter().chain([std::mem::take(&mut self.question)]).for_each(suspended::wipe);
                true
            }
            Ok(None) => false,
            Err(error) => {
                self.broken(place, &error);
                self.execute_commands();
                false
            }
        }
    }

    fn collect_one(&mut self, place: usize) -> Result<bool, RingError> {
        let collected = self.calls.collect(|completion| self.workers.collect(place, completion))?;
        let Some(report) = collected else { return Ok(false) };
        let now = self.clock.moment();
        let Report { worker, job, cpu_us, over_budget, waits, .. } = report;
        if let Some(believed_us) = self.scheduler.believed_us(now, worker, job, cpu_us) {
            self.calls.count_inline(job, believed_us, &self.clock);
        }
        if waits {
            self.suspend(report);
        } else {
            self.charge_parents(now, report, 0);
            self.scheduler.completed(now, worker, job, cpu_us, over_budget, &mut self.commands);
        }
        self.execute_commands();
        self.calls.forget_collected();
        Ok(true)
    }

    /// What a call took counts for those that wait for it as well.
    fn charge_parents(&mut self, now: Moment, report: Report, moved_us: u64) {
        let mut at = self.calls.parent_of(report.job);
        if at.is_none() {
            return;
        }
        let believed = self.scheduler.believed_us(now, report.worker, report.job, report.cpu_us);
        let used_us = believed.map_or(0, |used_us| used_us + moved_us);
        while let Some(parent) = at {
            if !self.scheduler.charge(parent, used_us) {
                self.calls.owe(parent, used_us);
            }
            at = self.calls.parent_of(parent);
        }
    }

    /// CPU time that a call may still use: no more than those that wait for it may, and none if they do not any more.
    fn budget_us(&self, job: JobId) -> u32 {
        let parents = std::iter::successors(Some(job), |at| self.calls.parent_of(*at));
        parents.map(|job| self.scheduler.budget_us(job)).min().unwrap_or_default()
    }

    /// A worker has put a call aside that waits.
    fn suspend(&mut self, report: Report) {
        let now = self.clock.moment();
        let Report { worker, job, cpu_us, bytes, .. } = report;
        let (operations, calls) = self.calls.operations_collected();
        let operations = (operations + self.calls.looked_up(job)) as u64;
        let moved = (bytes + self.calls.heard_bytes(job)) as u64;
        let moved_us =
            1 + moved / MOVED_BYTES_PER_US + operations / OPERATIONS_PER_US + calls as u64 * MADE_CALL_US;
        self.charge_parents(now, report, moved_us);
        // Only of a job that was on the worker's core is anything taken over.
        if !self.scheduler.suspended(now, worker, job, cpu_us, moved_us, &mut self.commands) {
            return self.calls.refuse_suspension(job);
        }
        self.scheduler.charge(job, self.calls.take_owed(job));
        if self.budget_us(job) < BUDGET_US_MIN {
            self.calls.refuse_suspension(job);
            return self.scheduler.give_up(job, Outcome::OverBudget, &mut self.commands);
        }
        match self.calls.suspend(job, now, &self.clock) {
            Rest::Waits => {}
            Rest::GoesOn => self.scheduler.resume(now, job, &mut self.commands),
            Rest::Ends(outcome) => self.scheduler.give_up(job, outcome, &mut self.commands),
        }
    }

    /// Takes what the broker says, if it says something.
    fn hear_from_broker(&mut self) -> bool {
        let mut heard = false;
        for _ in 0..EVENTS_AT_ONCE {
            let Some(message) = self.calls.next_of_broker() else { break };
            self.hear(message);
            self.execute_commands();
            heard = true;
        }
        heard
    }

    /// The broker says something.
    fn hear(&mut self, message: FromBroker) {
        match message {
            FromBroker::Outcome { call, id, code, bytes, needs_commit } => {
                self.hear_data(JobId(call), id, (code, &bytes), needs_commit);
            }
            FromBroker::Committed { call, result } => {
                self.calls.committed(JobId(call), &self.clock, result);
            }
        }
    }

    /// An operation of a call on data has ended.
    fn hear_data(&mut self, job: JobId, id: u32, outcome: (u32, &[u8]), needs_commit: bool) {
        let rest = self.calls.hear_data(job, id, outcome, needs_commit);
        self.go_on(job, rest);
    }

    /// A call that waited has heard something.
    fn go_on(&mut self, job: JobId, rest: Rest) {
        match rest {
            Rest::Waits => {}
            Rest::GoesOn if self.calls.is_abandoned(job) => {
                self.scheduler.give_up(job, Outcome::DeadlinePassed, &mut self.commands);
            }
            Rest::GoesOn if self.budget_us(job) < BUDGET_US_MIN => {
                self.scheduler.give_up(job, Outcome::OverBudget, &mut self.commands);
            }
            Rest::GoesOn => self.scheduler.resume(self.clock.moment(), job, &mut self.commands),
            Rest::Ends(outcome) => self.scheduler.give_up(job, outcome, &mut self.commands),
        }
    }

    /// Lets calls go on that waited for the time that it is now, and run again that others were in the way of.
    fn wake(&mut self) {
        if self.calls.next_wake().is_none() {
            return;
        }
        let now = self.clock.moment();
        let mut left = HEARD_AT_ONCE;
        while let Some((job, id)) = self.calls.next_lost(&mut left) {
            let NotBegun { code, message } = NotBegun::AWAY;
            self.hear_data(job, id, (code.number(), message.as_bytes()), false);
            self.execute_commands();
        }
        while let Some(call) = self.calls.next_rerun(now, &mut left) {
            self.submit(call);
            self.execute_commands();
        }
        while let Some(job) = self.calls.wake(now, &mut left) {
            self.go_on(job, Rest::GoesOn);
            self.execute_commands();
        }
        // Also where nothing ran again: a call may hear that another one did not.
        self.execute_commands();
    }

    fn broken(&mut self, place: usize, error: &RingError) {
        let Some(worker) = self.workers.poison(place) else { return };
        tracing::error!(?worker, %error, "the ring of a worker broke");
        self.scheduler.violated(worker, &mut self.commands);
    }

    /// Does what the scheduler has decided, and what it decides meanwhile.
    fn execute_commands(&mut self) {
        loop {
            let mut next = 0;
            while let Some(command) = self.commands.get(next).copied() {
                next += 1;
                self.execute(command);
            }
            self.commands.clear();
            if let Some(call) = self.calls.next_made() {
                self.submit(call);
            } else if let Some(replied) = self.calls.next_replied() {
                let job = replied.parent.job;
                let rest = self.calls.hear_call(replied);
                self.go_on(job, rest);
            } else {
                break;
            }
        }
        self.calls.report_if_idle(&self.scheduler);
    }

    /// Must not come back to [`Self::execute_commands`]: further commands wait for their turn.
    fn execute(&mut self, command: Command) {
        match command {
            Command::Start { worker, job, slot } => self.start(worker, job, slot),
            Command::Answer { job, outcome } => self.calls.answer(job, outcome, &self.clock),
            Command::Kill { worker, reason } => {
                tracing::warn!(?worker, ?reason, "a worker is killed");
                self.workers.kill(worker);
            }
            Command::Stop { worker } => self.workers.let_go(worker),
            Command::Spawn { worker, pool, slab } => {
                self.residents.open(slab);
                if !self.workers.spawn(Wanted { id: worker, pool, slab }) {
                    self.scheduler.worker_died(self.clock.moment(), worker, &mut self.commands);
                }
            }
            Command::CloseSlab { slab } => self.residents.close(slab),
            Command::Suspect { function } => {
                if let Some(served) = self.residents.served(function) {
                    tracing::warn!(function = %served.key, "a worker died that had run this function among others: it runs alone for a while");
                }
            }
            Command::Load { function, slab } => {
                if !self.residents.load(function, slab) {
                    self.scheduler.load_failed(function, slab, &mut self.commands);
                }
            }
            Command::Unload { function, slot, slab } => {
                self.residents.unload(function, slot, slab, &self.scheduler);
            }
            Command::Reclaim { slot, slab } => self.residents.reclaim(slot, slab),
            Command::Ban { function, crashes } => {
                self.bans.record(self.residents.served(function), crashes);
                self.publish();
            }
        }
    }

    /// Gives the call to the worker, whose slab has its function in this slot.
    fn start(&mut self, worker: WorkerId, job: JobId, slot: u32) {
        let now = ticks();
        let budget_us = self.budget_us(job).max(BUDGET_US_MIN);
        let Some(Begin { call, frame, resumes }) = self.calls.start(job, now) else { return };
        let submission = Submission {
            call_id: job.0,
            function: slot,
            budget_us,
            memory_bytes: call.served.terms.memory.as_bytes(),
            frame,
            resumes,
            may_ask: call.served.may_ask(),
            yields: call.reply.parent().is_some(),
        };
        if let Err(error) = self.workers.submit(worker, now, submission) {
            self.broken(usize::from(worker.place), &error);
        }
    }

    /// Bans and lifts what the directives ban and no longer ban.
    pub(super) fn hold_bans(&mut self) {
        self.bans.renew(self.residents.all_served(), &mut self.scheduler, &mut self.commands);
        self.publish();
    }

    fn publish(&mut self) {
        self.publisher.publish(&self.scheduler, self.calls.concluding(), self.bans.take_changed());
    }

    /// Sleeps until a bell rings or `timeout` is over.
    fn sleep(&mut self, timeout: Duration) {
        let (bell, mut look) = self.outlet.parts();
        let bells: Vec<_> = std::iter::once(bell).chain(self.workers.bells()).collect();
        let ready = || look() || self.workers.is_ready();
        if let Err(error) = wait_any(&bells, timeout, ready) {
            // Nothing is lost, but without sleep it would use up a core.
            tracing::error!(%error, "the dispatcher cannot sleep");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    fn until_next(&self) -> Duration {
        let watched = self.workers.next_look(ticks());
        let now = self.clock.moment();
        let after = |at: Moment| Duration::from_micros(at.since(now).max(1));
        let scheduled = self.scheduler.next_deadline();
        watched
            .into_iter()
            .chain(scheduled.into_iter().chain(self.calls.next_wake()).map(after))
            .fold(SLEEP_MAX, Duration::min)
    }
}

#[cfg(test)]
mod tests;
