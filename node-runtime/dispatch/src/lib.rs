//! Who runs where: the decisions of a node's dispatcher, as a state machine without a clock.
//!
//! Time is an argument ([`Moment`]), every effect is a returned [`Command`], and nothing in here
//! sleeps, locks, sends or reads: so a test can drive millions of steps in any order.
//!
//! What it never does:
//! - it never gives a job two answers, or none ([`Command::Answer`] is emitted once for each
//!   accepted job, and the job is forgotten in the same step);
//! - it never starts a job on a worker that runs another one, that is doomed, or whose generation
//!   is retired;
//! - it never believes a worker: a completion for a job that the worker does not run is a
//!   violation, and the worker is killed.

mod generation;
mod limits;
mod scheduler;
mod strikes;

pub use limits::Limits;
pub use scheduler::{Scheduler, Snapshot};

use std::collections::BTreeMap;

use mfaas_ident::Budget;

/// Microseconds since an origin that the caller chose; never decreasing between two calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Moment(pub u64);

impl Moment {
    /// This moment and `us` microseconds more.
    pub fn plus(self, us: u64) -> Self {
        Self(self.0.saturating_add(us))
    }

    /// Microseconds from `earlier` to this moment, 0 when it lies ahead.
    pub fn since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}

/// One accepted invocation. Numbers are never used twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct JobId(pub u64);

/// One worker process. Numbers are never used twice: a replacement is another worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WorkerId(pub u64);

/// One set of images, loaded by each of its workers before it was locked down.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GenerationId(pub u64);

/// One version of one function, the same number in every generation that serves it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FunctionId(pub u32);

/// One tenant: the unit of fairness and of the waiting limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TenantId(pub u32);

/// What the scheduler needs to know of a loaded function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Loaded {
    /// The index of its image in every worker of the generation.
    pub slot: u32,
    /// Whose it is.
    pub tenant: TenantId,
    /// CPU time of one call; the wall backstop is derived from it.
    pub budget: Budget,
}

/// A new generation: what it serves and how many workers it is meant to have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// Every function with its image.
    pub functions: BTreeMap<FunctionId, Loaded>,
    /// Workers that the supervisor keeps alive for it; bounds the queue even while some are dead.
    pub workers: usize,
}

/// An effect that the caller must carry out, in the order given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Command {
    /// Hand the job to the worker, to be run from this image.
    Start {
        /// An idle, ready worker.
        worker: WorkerId,
        /// The job.
        job: JobId,
        /// The image's index in that worker.
        slot: u32,
    },
    /// The one answer of the job.
    Answer {
        /// The job, forgotten by the scheduler with this command.
        job: JobId,
        /// What became of it.
        outcome: Outcome,
    },
    /// End the worker process now; [`Scheduler::worker_died`] is expected afterwards.
    Kill {
        /// The worker, which gets no job any more.
        worker: WorkerId,
        /// Why, for the log.
        reason: KillReason,
    },
    /// The generation is drained: stop these workers. None of them gets a job any more.
    Retire {
        /// The generation, forgotten with this command.
        generation: GenerationId,
        /// Its living workers.
        workers: Vec<WorkerId>,
    },
    /// The function was on the core in too many crashes; calls of it are refused from now on.
    Ban {
        /// The function.
        function: FunctionId,
        /// Crashes counted within the window.
        crashes: u32,
    },
}

/// How an accepted job ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// The worker answered; the caller of [`Scheduler::completed`] holds what it said.
    Finished,
    /// The worker died with the job on its core, or no worker is left that could run it.
    Lost,
    /// The job was still running at its wall backstop and its worker was killed.
    Overdue,
    /// No worker became free within the waiting limit.
    WaitedTooLong,
    /// The function was revoked while the job waited.
    Withdrawn,
    /// The function was banned while the job waited.
    Banned,
}

/// Why a worker is killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KillReason {
    /// Its job passed the wall backstop.
    Overdue,
    /// It reported a job that it was not running.
    Violation,
}

/// Why an invocation was not accepted. Nothing of it is kept, no answer follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// No generation serves yet, or the node stops.
    #[error("this node serves nothing at the moment")]
    NotServing,
    /// The current generation has no such function.
    #[error("the function is not loaded on this node")]
    NotLoaded,
    /// The function crashed its worker too often.
    #[error("the function is banned on this node after {crashes} crashes")]
    Banned {
        /// Crashes counted when the ban was spoken.
        crashes: u32,
    },
    /// The node's queue, or the tenant's share of it, is full.
    #[error("too many calls are waiting")]
    QueueFull {
        /// When trying again makes sense, in seconds, at least 1.
        retry_after_s: u32,
    },
}

/// Misuse by the caller, not by a tenant or a worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Misuse {
    /// The generation was never staged, or is already retired.
    #[error("generation {} is not staged", .0.0)]
    NotStaged(GenerationId),
}

#[cfg(test)]
mod tests;
