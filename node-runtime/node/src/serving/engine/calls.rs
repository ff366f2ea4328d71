//! Calls that were accepted and are not answered: who waits for which job, and the one answer of each.
//!
//! What a worker reported answers the job that it names and no other; nobody's call is ever answered with what was left over.

use std::sync::Arc;

use mfaas_abi::Status;
use mfaas_dispatch::{JobId, Outcome, Scheduler, WorkerId};
use mfaas_ring::clock::ticks;
use mfaas_ring::{Completion, RingError};
use tokio::sync::oneshot;

use super::clock::Clock;
use crate::serving::call::Answered;
use crate::serving::intake::Call;
use crate::serving::log_forwarder::LogForwarder;
use crate::usage::Usage;

/// A caller that waits.
#[derive(Debug)]
struct Ticket {
    job: JobId,
    call: Call,
    /// When the call was given to a worker last, in ticks.
    started: Option<u64>,
}

/// What a worker reported of a call, as far as the scheduler is to know it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Report {
    pub(super) worker: WorkerId,
    pub(super) job: JobId,
    pub(super) cpu_us: u64,
    pub(super) over_budget: bool,
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
    /// Who is to hear when nobody waits any more.
    stopped: Option<oneshot::Sender<()>>,
    usage: Arc<Usage>,
    log_forwarder: Arc<LogForwarder>,
}

impl PendingCalls {
    pub(super) fn new(usage: Arc<Usage>, log_forwarder: Arc<LogForwarder>) -> Self {
        let (tickets, completed, stopped) = Default::default();
        Self { tickets, completion: Completion::new(), completed, stopped, usage, log_forwarder }
    }

    /// The call was accepted as this job.
    #[inline]
    pub(super) fn insert(&mut self, job: JobId, call: Call) {
        if self.tickets.len() <= job.index() {
            self.tickets.resize_with(job.index() + 1, || None);
        }
        self.tickets[job.index()] = Some(Ticket { job, call, started: None });
    }

    /// Whether the job is not answered.
    #[inline]
    pub(super) fn contains(&self, job: JobId) -> bool {
        self.tickets.get(job.index()).and_then(Option::as_ref).is_some_and(|ticket| ticket.job == job)
    }

    /// The call that a worker is given at `now`, in ticks.
    #[inline]
    pub(super) fn start(&mut self, job: JobId, now: u64) -> Option<&Call> {
        let ticket = self.tickets.get_mut(job.index()).and_then(Option::as_mut)?;
        ticket.started = Some(now);
        Some(&ticket.call)
    }

    /// Has `collect` write what a worker reported, and keeps it for the answer.
    #[inline]
    pub(super) fn collect(
        &mut self,
        collect: impl FnOnce(&mut Completion) -> Result<Option<WorkerId>, RingError>,
    ) -> Result<Option<Report>, RingError> {
        let Some(worker) = collect(&mut self.completion)? else { return Ok(None) };
        let Completion { call_id, cpu_ns, status, .. } = self.completion;
        let job = JobId(call_id);
        self.completed = Some(job);
        Ok(Some(Report { worker, job, cpu_us: cpu_ns / 1_000, over_budget: status == Status::OverBudget }))
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
        let Ticket { call: Call { served, since, reply, .. }, started, .. } = ticket;
        let now = ticks();
        let started = started.unwrap_or(now);
        let (queued, ran) = (clock.between(since, started), clock.between(started, now));
        let mut completion = (outcome == Outcome::Finished && self.completed == Some(job))
            .then(|| std::mem::take(&mut self.completion));
        let logs = completion
            .as_mut()
            .map(|output| (std::mem::take(&mut output.logs), std::mem::take(&mut output.message)));
        let for_log = Arc::clone(&served);
        let answered = Answered { outcome, completion, served, queued, ran };
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
