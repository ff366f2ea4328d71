//! Calls that were accepted and are not answered: who waits for which job, and the one answer of each.
//!
//! What a worker reported answers the job that it names and no other; nobody's call is ever answered with what was left over.

use std::sync::Arc;
use std::time::Duration;

use mfaas_abi::{Status, SuspendedFrame};
use mfaas_dispatch::{JobId, Moment, Outcome, Scheduler, WorkerId};
use mfaas_ring::clock::ticks;
use mfaas_ring::{Completion, RingError};
use tokio::sync::oneshot;

use super::clock::Clock;
use super::suspended::{Kept, KeptBytes, Rest, Timers, wipe};
use crate::serving::call::{Answered, Used};
use crate::serving::intake::Call;
use crate::serving::log_forwarder::LogForwarder;
use crate::usage::Usage;

/// A caller that waits.
#[derive(Debug)]
struct Ticket {
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
    tickets: Vec<Option<Ticket>>,
    /// Filled by each collection.
    completion: Completion,
    /// The job that it answers.
    completed: Option<JobId>,
    timers: Timers,
    kept_bytes: KeptBytes,
    /// Who is to hear when nobody waits any more.
    stopped: Option<oneshot::Sender<()>>,
    usage: Arc<Usage>,
    log_forwarder: Arc<LogForwarder>,
}

impl PendingCalls {
    pub(super) fn new(usage: Arc<Usage>, log_forwarder: Arc<LogForwarder>) -> Self {
        let (tickets, completed, stopped, timers, kept_bytes) = Default::default();
        let completion = Completion::new();
        Self { tickets, completion, completed, timers, kept_bytes, stopped, usage, log_forwarder }
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
        match kept {
            Some(kept) => Some(Begin { call, frame: kept.resume(), resumes: true }),
            None => {
                *started = Some(now);
                Some(Begin { call, frame: &call.frame, resumes: false })
            }
        }
    }

    /// Takes over what a worker reported last, of a call that waits, and says what becomes of it.
    pub(super) fn suspend(&mut self, job: JobId, now: Moment, clock: &Clock) -> Rest {
        let Self { tickets, completion, completed, timers, kept_bytes, log_forwarder, .. } = self;
        let Some(ticket) = tickets.get_mut(job.index()).and_then(Option::as_mut) else {
            return Rest::Ends(Outcome::Lost);
        };
        // What was reported is the call's from here on, and not its answer.
        *completed = None;
        ticket.ran += ticket.part.take().map_or(Duration::ZERO, |part| clock.between(part, ticks()));
        let Ticket { call, kept, .. } = ticket;
        // A call that has waited is never run again.
        call.frame = Vec::new();
        let (logs, message) = (std::mem::take(&mut completion.logs), std::mem::take(&mut completion.message));
        log_forwarder.function_output(&call.served, logs, message);
        let kept = kept.get_or_insert_default();
        let rest = kept.suspend((job, now), completion, call.served.body_bytes_max(), timers);
        if call.reply.is_closed() {
            return Rest::Ends(Outcome::DeadlinePassed);
        }
        if kept_bytes.count(&call.served.key.tenant, kept) {
            rest
        } else {
            Rest::Ends(Outcome::TooManySuspended)
        }
    }

    /// Operations that the call began or cancelled whose worker reported last; none if it says so in no frame.
    pub(super) fn operations_collected(&self) -> usize {
        let frame = SuspendedFrame::decode(&self.completion.response, usize::MAX);
        frame.map_or(0, |frame| frame.records.count())
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
            ticket.and_then(|ticket| ticket.kept.as_mut()).is_some_and(|kept| kept.hear(id))
        })
    }

    /// When the next operation ends.
    #[inline]
    pub(super) fn next_wake(&self) -> Option<Moment> {
        self.timers.next()
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
        let Ticket { call: Call { served, since, reply, .. }, started, part, ran, kept, .. } = ticket;
        let mut used = kept.map_or_else(Used::default, |kept| {
            kept.forget(job, &mut self.timers);
            self.kept_bytes.forget(&served.key.tenant, &kept);
            kept.used
        });
        if outcome != Outcome::Finished && self.completed == Some(job) {
            // A part that ended with the call, and was to wait.
            used.add(&self.completion);
        }
        let now = ticks();
        let queued = clock.between(since, started.unwrap_or(now));
        let ran = ran + part.map_or(Duration::ZERO, |part| clock.between(part, now));
        let mut completion = (outcome == Outcome::Finished && self.completed == Some(job))
            .then(|| used.before(std::mem::take(&mut self.completion)));
        let logs = completion
            .as_mut()
            .map(|output| (std::mem::take(&mut output.logs), std::mem::take(&mut output.message)));
        let for_log = Arc::clone(&served);
        let answered = Answered { outcome, completion, served, queued, ran, used };
        self.usage.record(&answered);
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
        if self.stopped.is_some() && scheduler.is_idle() {
            // The task that stopped the node may have lost patience.
            self.stopped.take().map(|stopped| stopped.send(()));
        }
    }
}
