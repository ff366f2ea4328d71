//! Calls that were accepted and are not answered: who waits for which job, and the one answer of each.
//!
//! What a worker reported answers the job that it names and no other; nobody's call is ever answered with what was left over.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use mfaas_abi::{DONE, OperationKind, Record, Records, Status, SuspendedFrame, limits};
use mfaas_broker_protocol::{CommitResult, FromBroker};
use mfaas_dispatch::{FunctionId, JobId, Moment, Outcome, Scheduler, WorkerId};
use mfaas_ring::clock::ticks;
use mfaas_ring::{Completion, RingError};
use tokio::sync::oneshot;

use super::clock::Clock;
use super::data::{DataCalls, Replied};
use super::kept_bytes::KeptBytes;
use super::outcomes::outcome_of;
use super::suspended::{Kept, Rest, Timers, wipe};
use crate::serving::caches::AtOnce;
use crate::serving::call::{Answered, CallError, ConnectionNumber, Earlier, NotBegun, Reply};
use crate::serving::intake::Call;
use crate::serving::log_forwarder::LogForwarder;
use crate::usage::Usage;

/// A caller that waits.
#[derive(Debug)]
pub(super) struct Ticket {
    job: JobId,
    call: Call,
    /// When the call was given to a worker first, in ticks.
    started: Option<u64>,
    /// When the part of it was that is in a worker; nothing while it waits.
    part: Option<u64>,
    /// What earlier parts took.
    ran: Duration,
    /// Of a call that waits, or has waited.
    kept: Option<Box<Kept>>,
}

/// What a worker is given.
#[derive(Debug)]
pub(super) struct Begin<'a> {
    pub(super) call: &'a Call,
    pub(super) frame: &'a [u8],
    /// Whether the call has waited: then the frame is not its request.
    pub(super) resumes: bool,
}

/// What a worker reported of a call, as far as the scheduler is to know it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Report {
    pub(super) worker: WorkerId,
    pub(super) job: JobId,
    pub(super) cpu_us: u64,
    pub(super) over_budget: bool,
    /// The call has not ended.
    pub(super) waits: bool,
    /// What was reported with it, in bytes.
    pub(super) bytes: usize,
}

/// Every caller that waits.
#[derive(Debug)]
pub(super) struct PendingCalls {
    /// By the job's index.
    pub(super) tickets: Vec<Option<Ticket>>,
    /// Filled by each collection.
    pub(super) completion: Completion,
    /// The job that it answers.
    completed: Option<JobId>,
    timers: Timers,
    kept_bytes: KeptBytes,
    /// Calls that reach data.
    pub(super) data: DataCalls,
    /// Versions that wait or log, and so are called by themselves.
    pub(super) apart: HashSet<FunctionId>,
    /// Calls that others have made and that are not submitted.
    made: VecDeque<Call>,
    /// Operations that ended with a connection to the broker, of which their calls have not heard.
    lost: Vec<(JobId, u32)>,
    /// Who is to hear when nobody waits any more.
    stopped: Option<oneshot::Sender<()>>,
    pub(super) usage: Arc<Usage>,
    log_forwarder: Arc<LogForwarder>,
}

impl PendingCalls {
    pub(super) fn new(usage: Arc<Usage>, log_forwarder: Arc<LogForwarder>, data: DataCalls) -> Self {
        let (tickets, completed, stopped, timers, made, lost, apart) = Default::default();
        let kept_bytes = KeptBytes::of_waiting();
        let completion = Completion::new();
        Self {
            tickets,
            completion,
            completed,
            timers,
            kept_bytes,
            data,
            apart,
            made,
            lost,
            stopped,
            usage,
            log_forwarder,
        }
    }

    /// The call was accepted as this job.
    #[inline]
    pub(super) fn insert(&mut self, job: JobId, call: Call) {
        if self.tickets.len() <= job.index() {
            self.tickets.resize_with(job.index() + 1, || None);
        }
        self.tickets[job.index()] =
            Some(Ticket { job, call, started: None, part: None, ran: Duration::ZERO, kept: None });
    }

    /// Whether the job is not answered.
    #[inline]
    pub(super) fn contains(&self, job: JobId) -> bool {
        self.tickets.get(job.index()).and_then(Option::as_ref).is_some_and(|ticket| ticket.job == job)
    }

    /// What a worker is given at `now`, in ticks.
    #[inline]
    pub(super) fn start(&mut self, job: JobId, now: u64) -> Option<Begin<'_>> {
        let Ticket { call, started, part, kept, .. } =
            self.tickets.get_mut(job.index()).and_then(Option::as_mut)?;
        *part = Some(now);
        if let Some(data) = kept.as_mut().and_then(|kept| kept.data.as_mut()) {
            data.told.clear();
        }
        match kept.as_mut().filter(|kept| kept.is_suspended()) {
            Some(kept) => {
                Some(Begin { call, frame: kept.resume(call.served.body_bytes_max()), resumes: true })
            }
            None => {
                *started = Some(now);
                Some(Begin { call, frame: &call.frame, resumes: false })
            }
        }
    }

    /// What comes of the operations that a call began which stays in its worker, as records, if all of that is to be had at once and
    /// nothing else is to be told. It has changed nothing, and may be asked again.
    pub(super) fn tell(
        &mut self,
        job: JobId,
        asked: &[u8],
        lend: &mut dyn FnMut(FunctionId) -> Option<u32>,
    ) -> Option<Vec<u8>> {
        let asked = Records::decode(asked)?;
        if { asked }.any(|record| record.code == OperationKind::Call as u32) {
            return self.tell_callees(job, asked, lend);
        }
        let (call, kept) = ticket_of(&mut self.tickets, job)?;
        if !{ asked }.all(|record| DataCalls::is_cached(call, record.bytes)) {
            return None;
        }
        let kept = kept.get_or_insert_default();
        let is_data = |kind| matches!(kind, OperationKind::Data | OperationKind::Part);
        if !kept.hears_only(asked, is_data) {
            return None;
        }
        // What it is not told in the end is not counted.
        let (mut told, mut at_once) = (Vec::new(), kept.at_once);
        for Record { id, bytes, .. } in asked {
            let Some(values) = self.data.look_up(call, &mut kept.data, bytes, &mut at_once) else {
                wipe(told);
                return None;
            };
            Record { id, code: DONE, bytes: &values }.append_to(&mut told);
            wipe(values);
        }
        kept.at_once = at_once;
        if told.len() > limits::records_bytes_max(call.served.body_bytes_max()) {
            wipe(told);
            return None;
        }
        Some(told)
    }

    /// Takes over what a worker reported last, of a call that waits, and says what becomes of it.
    pub(super) fn suspend(&mut self, job: JobId, now: Moment, clock: &Clock) -> Rest {
        let Self { tickets, completion, completed, timers, kept_bytes, data, made, log_forwarder, .. } = self;
        let Some(ticket) = tickets.get_mut(job.index()).and_then(Option::as_mut) else {
            return Rest::Ends(Outcome::Lost);
        };
        // What was reported is the call's from here on, and not its answer.
        *completed = None;
        ticket.ran += ticket.part.take().map_or(Duration::ZERO, |part| clock.between(part, ticks()));
        let Ticket { call, kept, .. } = ticket;
        let (logs, message) = (std::mem::take(&mut completion.logs), std::mem::take(&mut completion.message));
        log_forwarder.function_output(&call.served, logs, message);
        let kept = kept.get_or_insert_default();
        let asked = match kept.suspend((job, now), completion, call.served.body_bytes_max(), timers) {
            Ok(asked) => asked,
            Err(outcome) => return Rest::Ends(outcome),
        };
        if call.reply.is_closed() {
            return Rest::Ends(Outcome::DeadlinePassed);
        }
        kept.at_once = AtOnce::default();
        for asked in asked {
            let id = asked.id;
            let known = kept.data.get_or_insert_default();
            let begun = if asked.waits.is_some() {
                data.make(job, call, known, asked).map(|call| {
                    made.push_back(call);
                    None
                })
            } else {
                data.operate(job, call, known, asked, &mut kept.at_once)
            };
            match begun {
                Ok(None) => {}
                Ok(Some(outcome)) => {
                    kept.hear(id, DONE, &outcome);
                    wipe(outcome);
                }
                Err(NotBegun { code, message }) => {
                    kept.hear(id, code.number(), message.as_bytes());
                }
            }
        }
        // A call that has waited is run again only if others have changed the data that it saw.
        if call.served.bindings.is_empty() || call.frame.len() > limits::FRAME_BYTES_MAX {
            call.frame = Vec::new();
        }
        if kept.count(kept_bytes, &call.served.key.tenant, call.frame.capacity()) {
            kept.rest()
        } else {
            Rest::Ends(Outcome::TooManySuspended)
        }
    }

    /// When the broker was asked for something last, in ticks.
    pub(super) fn broker_asked_at(&self) -> u64 {
        self.data.link().asked_at()
    }

    /// The next thing that the broker says, for an engine that looks.
    pub(super) fn next_of_broker(&self) -> Option<FromBroker> {
        self.data.link().next()
    }

    /// Whether the engine hears of the broker though it does not look.
    pub(super) fn is_broker_watched(&self) -> bool {
        self.data.link().is_watched()
    }

    /// The engine does not look for what the broker says any more. `false` where it must.
    pub(super) fn watch_broker(&self) -> bool {
        self.data.link().watch()
    }

    /// The broker says what came of an operation: what becomes of its call, if it waits for that.
    pub(super) fn hear_data(
        &mut self,
        job: JobId,
        id: u32,
        (code, bytes): (u32, &[u8]),
        needs_commit: bool,
    ) -> Rest {
        let Self { tickets, kept_bytes, .. } = self;
        let Some((call, kept)) = kept_of(tickets, job) else { return Rest::Waits };
        if let Some(data) = &mut kept.data {
            data.heard(needs_commit);
        }
        if !kept.awaits_data(id) {
            return Rest::Waits;
        }
        hear((call, kept), kept_bytes, id, (code, bytes))
    }

    /// A call that another one made has an answer: what becomes of that one, if it waits for it.
    pub(super) fn hear_call(&mut self, replied: Replied) -> Rest {
        let Replied { parent, answer, effects } = replied;
        let Self { tickets, kept_bytes, .. } = self;
        let Some((call, kept)) = kept_of(tickets, parent.job) else { return Rest::Waits };
        // Also of one that it waits for no longer: it is part of it.
        if let Some(effects) = effects {
            kept.data.get_or_insert_default().absorb(effects);
        }
        // One of the same identity may have begun since that was cancelled.
        if parent.waits.strong_count() == 0 || !kept.awaits_call(parent.operation) {
            return Rest::Waits;
        }
        let (code, bytes) = outcome_of(answer);
        hear((call, kept), kept_bytes, parent.operation, (code, &bytes))
    }

    /// The next call that another one has made, to be submitted.
    pub(super) fn next_made(&mut self) -> Option<Call> {
        self.made.pop_front()
    }

    /// The next answer of a call that another one made.
    pub(super) fn next_replied(&mut self) -> Option<Replied> {
        self.data.next_replied()
    }

    /// A call was not accepted.
    pub(super) fn refuse(&mut self, reply: Reply, error: CallError) {
        self.data.reply(reply, Err(error), None);
    }

    /// The call that made this one, if one did.
    pub(super) fn parent_of(&self, job: JobId) -> Option<JobId> {
        let ticket = self.tickets.get(job.index()).and_then(Option::as_ref);
        let parent = ticket.filter(|ticket| ticket.job == job)?.call.reply.parent()?;
        Some(parent.job)
    }

    /// A call that this one made took so much CPU time, which it is charged for when it waits again.
    pub(super) fn owe(&mut self, job: JobId, us: u64) {
        if let Some((_, kept)) = kept_of(&mut self.tickets, job) {
            kept.owed_us = kept.owed_us.saturating_add(us);
        }
    }

    /// What the call is to be charged for calls that it made while it ran.
    pub(super) fn take_owed(&mut self, job: JobId) -> u64 {
        kept_of(&mut self.tickets, job).map_or(0, |(_, kept)| std::mem::take(&mut kept.owed_us))
    }

    /// A connection to the broker is over, and the operations that were asked over it.
    pub(super) fn lose_data(&mut self, connection: ConnectionNumber) {
        self.data.lost(connection);
        let of_connection = self.tickets.iter().flatten().filter_map(|ticket| {
            let kept = ticket.kept.as_ref()?;
            let is_of = kept.data.as_ref().is_some_and(|data| data.is_of(connection));
            is_of.then(|| kept.open_data().into_iter().map(|id| (ticket.job, id)))
        });
        let lost: Vec<_> = of_connection.flatten().collect();
        self.lost.extend(lost);
    }

    /// The next operation that was lost, of which its call is to hear. Takes what it tells from what is `left`.
    pub(super) fn next_lost(&mut self, left: &mut usize) -> Option<(JobId, u32)> {
        *left = left.checked_sub(1)?;
        self.lost.pop()
    }

    /// The broker says what became of a call's changes.
    pub(super) fn committed(&mut self, job: JobId, clock: &Clock, result: CommitResult) {
        self.data.committed(job, clock, result);
    }

    /// The next call that is to run again by now. Takes what it looks at from what is `left`.
    pub(super) fn next_rerun(&mut self, now: Moment, left: &mut usize) -> Option<Call> {
        self.data.next_rerun(now, left)
    }

    /// What was copied for the call whose worker reported last, since it went on: what it heard of, in bytes.
    pub(super) fn heard_bytes(&self, job: JobId) -> usize {
        let ticket =
            self.tickets.get(job.index()).and_then(Option::as_ref).filter(|ticket| ticket.job == job);
        ticket.and_then(|ticket| ticket.kept.as_ref()).map_or(0, |kept| kept.heard_bytes())
    }

    /// Keys that were looked up in caches for the call whose worker reported last, since it began to wait before.
    pub(super) fn looked_up(&self, job: JobId) -> usize {
        let ticket =
            self.tickets.get(job.index()).and_then(Option::as_ref).filter(|ticket| ticket.job == job);
        ticket.and_then(|ticket| ticket.kept.as_ref()).map_or(0, |kept| kept.at_once.keys())
    }

    /// Calls that have run and are not answered.
    pub(super) fn concluding(&self) -> usize {
        self.data.concluding()
    }

    /// Operations that the call began or cancelled whose worker reported last, and calls of functions among them; none if it says so in
    /// no frame.
    pub(super) fn operations_collected(&self) -> (usize, usize) {
        let frame = SuspendedFrame::decode(&self.completion.response, usize::MAX);
        let Some(SuspendedFrame { records, .. }) = frame else { return (0, 0) };
        let calls = records.filter(|record| record.code == OperationKind::Call as u32).count();
        (records.count(), calls)
    }

    /// The call whose worker reported last does not go on: nothing of what was put aside of it stays. What the part took counts.
    pub(super) fn refuse_suspension(&mut self, job: JobId) {
        wipe(std::mem::take(&mut self.completion.response));
        let ticket = self.tickets.get(job.index()).and_then(Option::as_ref);
        if let Some(ticket) = ticket.filter(|ticket| ticket.job == job) {
            let Completion { logs, message, .. } = &mut self.completion;
            let output = (std::mem::take(logs), std::mem::take(message));
            self.log_forwarder.function_output(&ticket.call.served, output.0, output.1);
        }
    }

    /// Whether nobody waits for the answer any more.
    pub(super) fn is_abandoned(&self, job: JobId) -> bool {
        let ticket = self.tickets.get(job.index()).and_then(Option::as_ref);
        ticket.is_some_and(|ticket| ticket.call.reply.is_closed())
    }

    /// The next call that is to go on, since an operation of it has ended by `now`. Looks at so many of those that are `left`.
    pub(super) fn wake(&mut self, now: Moment, left: &mut usize) -> Option<JobId> {
        let Self { tickets, timers, .. } = self;
        timers.wake(now, left, |job, id| {
            let ticket = tickets.get_mut(job.index()).and_then(Option::as_mut);
            let ticket = ticket.filter(|ticket| ticket.job == job);
            ticket.and_then(|ticket| ticket.kept.as_mut()).is_some_and(|kept| kept.hear(id, DONE, &[]))
        })
    }

    /// When the next operation ends, or something else of calls that wait is due.
    #[inline]
    pub(super) fn next_wake(&self) -> Option<Moment> {
        let lost = (!self.lost.is_empty()).then_some(Moment(0));
        self.timers.next().into_iter().chain(self.data.next_due()).chain(lost).min()
    }

    /// Has `collect` write what a worker reported, and keeps it for the answer.
    #[inline]
    pub(super) fn collect(
        &mut self,
        collect: impl FnOnce(&mut Completion) -> Result<Option<WorkerId>, RingError>,
    ) -> Result<Option<Report>, RingError> {
        let Some(worker) = collect(&mut self.completion)? else { return Ok(None) };
        let Completion { call_id, cpu_ns, status, waits, .. } = self.completion;
        let job = JobId(call_id);
        self.completed = Some(job);
        let (cpu_us, over_budget) = (cpu_ns / 1_000, status == Status::OverBudget);
        let bytes = self.completion.response.len() + self.completion.logs.len();
        Ok(Some(Report { worker, job, cpu_us, over_budget, waits, bytes }))
    }

    /// What was collected last answers nobody any more.
    #[inline]
    pub(super) fn forget_collected(&mut self) {
        self.completed = None;
    }

    /// Gives the one answer of an accepted call.
    #[inline]
    pub(super) fn answer(&mut self, job: JobId, outcome: Outcome, clock: &Clock) {
        let Some(ticket) = self.tickets.get_mut(job.index()).and_then(Option::take) else { return };
        let Ticket { call, started, part, ran, kept, .. } = ticket;
        let (served, mut data) = (Arc::clone(&call.served), None);
        // What it used when it ran before, too.
        let Earlier { mut used, ran: ran_before } = call.earlier;
        if let Some(mut kept) = kept {
            kept.forget(job, &mut self.timers);
            kept.release(&mut self.kept_bytes, &served.key.tenant);
            data = kept.data.take();
            used.add_used(&kept.used);
        }
        if outcome != Outcome::Finished && self.completed == Some(job) {
            // A part that ended with the call, and was to wait.
            used.add(&self.completion);
        }
        let now = ticks();
        let queued = clock.between(call.since, started.unwrap_or(now));
        let ran = ran_before + ran + part.map_or(Duration::ZERO, |part| clock.between(part, now));
        let mut completion = (outcome == Outcome::Finished && self.completed == Some(job))
            .then(|| used.before(std::mem::take(&mut self.completion)));
        let logs = completion
            .as_mut()
            .map(|output| (std::mem::take(&mut output.logs), std::mem::take(&mut output.message)));
        let for_log = Arc::clone(&served);
        let answered = Answered { outcome, completion, served, queued, ran, used };
        match data {
            None => {
                self.usage.record(&answered);
                self.data.reply(call.reply, Ok(answered), None);
            }
            Some(data) => self.data.end(job, clock, call, answered, data),
        }
        // After the answer: nobody waits for log lines.
        match (outcome, logs) {
            (_, Some((logs, message))) => self.log_forwarder.function_output(&for_log, logs, message),
            (Outcome::Lost, None) => {
                self.log_forwarder.node_line(&for_log, "the call was lost with its worker")
            }
            (Outcome::Overdue, None) => {
                self.log_forwarder.node_line(&for_log, "the call ran past its wall backstop");
            }
            (Outcome::TookTooLong, None) => {
                self.log_forwarder.node_line(&for_log, "the call waited longer than a call may take");
            }
            (Outcome::Stuck, None) => self.log_forwarder.node_line(
                &for_log,
                "the handler waited for nothing that could come: await what the crate mfaas offers",
            ),
            (Outcome::OverBudget, None) => {
                self.log_forwarder.node_line(&for_log, "the call waited with no CPU time left of its budget")
            }
            (_, None) => {}
        }
    }

    /// `stopped` is to hear when nobody waits any more.
    pub(super) fn await_idle(&mut self, stopped: oneshot::Sender<()>) {
        self.stopped = Some(stopped);
    }

    /// Tells who asked for it once nobody waits any more.
    #[inline]
    pub(super) fn report_if_idle(&mut self, scheduler: &Scheduler) {
        if self.stopped.is_some() && scheduler.is_idle() && self.data.concluding() == 0 {
            // The task that stopped the node may have lost patience.
            self.stopped.take().map(|stopped| stopped.send(()));
        }
    }
}

/// The call of an open job, and what is kept of it.
pub(super) fn ticket_of(
    tickets: &mut [Option<Ticket>],
    job: JobId,
) -> Option<(&Call, &mut Option<Box<Kept>>)> {
    let ticket = tickets.get_mut(job.index()).and_then(Option::as_mut).filter(|ticket| ticket.job == job)?;
    Some((&ticket.call, &mut ticket.kept))
}

/// When the call of an open job came to its worker, in ticks.
pub(super) fn part_of(tickets: &[Option<Ticket>], job: JobId) -> Option<u64> {
    tickets.get(job.index()).and_then(Option::as_ref).filter(|ticket| ticket.job == job)?.part
}

/// What is kept of a call that waits, or has waited.
fn kept_of(tickets: &mut [Option<Ticket>], job: JobId) -> Option<(&Call, &mut Kept)> {
    let (call, kept) = ticket_of(tickets, job)?;
    Some((call, kept.as_mut()?))
}

/// An operation of a call has ended: what becomes of the call.
fn hear(
    (call, kept): (&Call, &mut Kept),
    kept_bytes: &mut KeptBytes,
    id: u32,
    (code, bytes): (u32, &[u8]),
) -> Rest {
    let goes_on = kept.hear(id, code, bytes);
    match (kept.count(kept_bytes, &call.served.key.tenant, call.frame.capacity()), goes_on) {
        // In a worker it hears of it with the next part, or has no room then.
        (_, false) => Rest::Waits,
        (true, true) => Rest::GoesOn,
        (false, true) => Rest::Ends(Outcome::TooManySuspended),
    }
}
