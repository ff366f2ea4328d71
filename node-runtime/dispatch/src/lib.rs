//! Who runs where: the decisions of a node's dispatcher, as a state machine without a clock.
//!
//! Time is an argument ([`Moment`]), every effect is a returned [`Command`], and nothing in here
//! sleeps, locks, sends or reads: so a test can drive millions of steps in any order. Names are small
//! integers that index dense tables, commands go into a buffer that the caller reuses, and a call of
//! a resident function on a node with room neither hashes nor allocates.
//!
//! Images lie in a slab that every worker maps, so functions come and go while workers stay. A
//! function is *cold* (known, no slot), *loading* or *resident* (it has a slot); calls of one that is
//! not resident wait for it. A worker belongs to a *cordon*, the set of workers that a tenant shares
//! with others or has for itself, and holds a bounded number of calls that it answers in order.
//!
//! What it never does:
//! - it never gives a job two answers, or none ([`Command::Answer`] is emitted once for each
//!   accepted job, and the job is forgotten in the same step);
//! - it never unloads an image that a queued or running call needs, and never starts a call on a
//!   worker that maps another slab than the one that the slot lies in;
//! - it never starts a job on a worker that is doomed or leaves, or behind a job that runs alone;
//! - it never believes a worker: a completion for a job that the worker does not run is a
//!   violation, and the worker is killed.

mod cordon;
mod functions;
mod jobs;
mod limits;
mod recovery;
mod residency;
mod scheduler;
mod strikes;
mod worker;

pub use limits::{IN_WORKER_CAP, JOBS_CAP, Limits, WORKERS_CAP};
pub use scheduler::{Scheduler, Snapshot};

use mfaas_ident::Budget;

/// Microseconds since an origin that the caller chose; never decreasing between two calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Moment(pub u64);

impl Moment {
    /// A moment that never comes.
    pub const NEVER: Self = Self(u64::MAX);

    /// This moment and `us` microseconds more.
    pub fn plus(self, us: u64) -> Self {
        Self(self.0.saturating_add(us))
    }

    /// Microseconds from `earlier` to this moment, 0 when it lies ahead.
    pub fn since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}

/// One accepted invocation. A number comes back only after 2⁴⁴ other jobs, never while it is open.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct JobId(pub u64);

impl JobId {
    const INDEX_BITS: u32 = JOBS_CAP.trailing_zeros();

    pub(crate) fn new(index: u32, sequence: u64) -> Self {
        Self(sequence << Self::INDEX_BITS | u64::from(index))
    }

    /// A small number that no other open job has, below [`JOBS_CAP`]: the caller's own tables of open
    /// jobs are indexed by it.
    pub fn index(self) -> usize {
        (self.0 & (JOBS_CAP as u64 - 1)) as usize
    }
}

/// One life of one worker process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WorkerId {
    /// Where the supervisor keeps it: below [`WORKERS_CAP`], the same for a replacement.
    pub place: u16,
    /// Grows with each replacement, so that news of the dead are not taken for news of the living.
    pub life: u32,
}

/// One version of one function: an index into dense tables, chosen by the caller from 0 on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FunctionId(pub u32);

/// One tenant, from 0 on: the unit of fairness and of the waiting limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TenantId(pub u32);

/// A set of workers, from 0 on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CordonId(pub u32);

impl CordonId {
    /// The cordon that tenants share unless they have their own. Its workers are always wanted.
    pub const SHARED: Self = Self(0);
}

/// One slab, and with it the life of the loader that fills it. Slots of different slabs have nothing
/// to do with each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct SlabId(pub u32);

/// When the image of a function is loaded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Residency {
    /// With its first call.
    OnDemand,
    /// At its definition if there is room without unloading another, else with its first call.
    Preloaded,
    /// At its definition, and it stays.
    Pinned,
}

/// Where the image of a function is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// In no slot.
    Cold,
    /// On its way into one, or waiting for room.
    Coming,
    /// In its slot.
    Resident,
}

/// What the scheduler needs to know of a function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Loaded {
    /// Whose it is.
    pub tenant: TenantId,
    /// Which workers run it.
    pub cordon: CordonId,
    /// CPU time of one call; the wall backstop is derived from it.
    pub budget: Budget,
    /// A call may run a second time when its worker died.
    pub idempotent: bool,
    /// What its image takes in the slab, in bytes; an estimate until it was loaded.
    pub bytes: u64,
    /// When it is loaded.
    pub residency: Residency,
}

/// An effect that the caller must carry out, in the order given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Command {
    /// Hand the job to the worker, behind those that it was given before.
    Start {
        /// A ready worker that maps the current slab.
        worker: WorkerId,
        /// The job.
        job: JobId,
        /// Where the image lies in the slab.
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
    /// The worker's slab is gone: let it leave and put another in its place. It has nothing in
    /// flight; [`Scheduler::worker_died`] is expected afterwards.
    Replace {
        /// The worker, which gets no job any more.
        worker: WorkerId,
    },
    /// The worker's cordon is idle: let it leave, and put none in its place until
    /// [`Command::Unpark`]. It has nothing in flight; [`Scheduler::worker_died`] is expected.
    Park {
        /// The worker, which gets no job any more.
        worker: WorkerId,
    },
    /// A call came for a cordon without workers: start them.
    Unpark {
        /// The cordon.
        cordon: CordonId,
    },
    /// Load the image; [`Scheduler::loaded`] or [`Scheduler::load_failed`] is expected with this slab.
    /// Loads and unloads are to be carried out one after the other, in the order given.
    Load {
        /// The function.
        function: FunctionId,
        /// The slab that it is to lie in.
        slab: SlabId,
    },
    /// Free the slot. No call of the function is queued or in flight in this slab.
    Unload {
        /// The function, which is cold from now on.
        function: FunctionId,
        /// Its slot.
        slot: u32,
        /// The slab.
        slab: SlabId,
    },
    /// The function was on the core in too many crashes; calls of it are refused from now on.
    Ban {
        /// The function.
        function: FunctionId,
        /// Crashes counted within the window.
        crashes: u32,
    },
}

/// Commands in the order in which they are to be carried out. The caller empties and reuses it.
pub type Commands = Vec<Command>;

/// How an accepted job ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// The worker answered; the caller of [`Scheduler::completed`] holds what it said.
    Finished,
    /// The worker died with the job on its core or behind it, or no worker is left to run it.
    Lost,
    /// The job was still running at its wall backstop and its worker was killed.
    Overdue,
    /// No worker became free within the waiting limit.
    WaitedTooLong,
    /// The caller's own deadline passed while the job waited; it did not run.
    DeadlinePassed,
    /// The function was revoked while the job waited.
    Withdrawn,
    /// The function was banned while the job waited.
    Banned,
    /// The function was cold and its image could not be loaded.
    LoadFailed,
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
    /// The node stops.
    #[error("this node serves nothing at the moment")]
    NotServing,
    /// The function is not defined, or retired.
    #[error("the function is not served by this node")]
    NotServed,
    /// The image could not be loaded when it was tried last.
    #[error("the function could not be loaded on this node")]
    NotLoadable,
    /// The function crashed its worker too often, here or elsewhere.
    #[error("the function is banned after {crashes} crashes")]
    Banned {
        /// Crashes counted when the ban was spoken.
        crashes: u32,
    },
    /// The caller's deadline lies in the past.
    #[error("the deadline of the call has passed")]
    DeadlinePassed,
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
    /// A number is beyond the limit of its table.
    #[error("{what} {number} is beyond the limit of {limit}")]
    TooMany {
        /// Which table.
        what: &'static str,
        /// The number that was given.
        number: u64,
        /// Entries of the table, at most.
        limit: u64,
    },
    /// The image alone is larger than the memory budget.
    #[error("an image of {bytes} bytes is larger than the node's {limit} bytes for images")]
    ImageTooLarge {
        /// The image, in bytes.
        bytes: u64,
        /// All images together, in bytes.
        limit: u64,
    },
    /// The place has a living worker.
    #[error("place {0} has a worker already")]
    PlaceTaken(u16),
}

#[cfg(test)]
mod tests;
