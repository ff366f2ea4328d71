//! Who runs where: the decisions of a node's dispatcher, as a state machine without a clock.
//!
//! Time is an argument ([`Moment`]), every effect is a returned [`Command`], and nothing in here
//! sleeps, locks, sends or reads: so a test can drive millions of steps in any order. Names are small
//! integers that index dense tables, commands go into a buffer that the caller reuses, and a call of
//! a resident function on a node with room neither hashes nor allocates.
//!
//! Images lie in slabs: one of each tenant's own, which only workers of that tenant map, or one that
//! all share where the site decided so. Functions come and go while workers stay. A function is
//! *cold* (known, no slot), *loading* or *resident* (it has a slot); calls of one that is
//! not resident wait for it. A worker belongs to a *pool* ([`PoolKey`]) and holds a bounded number of
//! calls that it answers in order. A call that waits for what it asked the node for is *suspended*: it is in no worker, and its
//! image stays ([`Scheduler::suspended`], [`Scheduler::resume`]). Pools get workers when calls wait and lose them when nobody calls
//! ([`Command::Spawn`], [`Command::Stop`]), within a number of processes that all share.
//!
//! What it never does:
//! - it never gives a job two answers, or none ([`Command::Answer`] is emitted once for each
//!   accepted job, and the job is forgotten in the same step);
//! - it never unloads an image that a queued or running call needs, or may call where it is, and never starts a call on a
//!   worker that maps another slab than the one that the slot lies in;
//! - it never starts a job on a worker that is doomed or leaves, or on a worker of another pool;
//! - it never bans for the death of a worker that ran anything but the banned function;
//! - it never lets a call go on that was suspended with another image than the one that it was suspended in;
//! - it never believes a worker: a completion for a job that the worker does not run is a
//!   violation, and the worker is killed.

mod departures;
mod functions;

mod jobs;
mod limits;
mod loans;
mod pool;
mod reclaim;
mod recovery;
mod residency;
mod room;
mod scaling;
mod scheduler;
mod slabs;
mod strikes;
mod suspended;
mod suspension;
mod turns;
mod waiting;
mod worker;

pub use limits::{IN_WORKER_CAP, JOBS_CAP, Limits, WORKERS_CAP};
pub use scheduler::{Scheduler, Snapshot};

use mfaas_ident::Budget;
pub use mfaas_ident::Moment;

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
    /// A small number that no other living worker has, below [`WORKERS_CAP`].
    pub place: u16,
    /// Grows with each worker at the place, so that news of the dead are not taken for news of the living.
    pub life: u32,
}

/// One version of one function: an index into dense tables, chosen by the caller from 0 on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FunctionId(pub u32);

/// One tenant, from 0 on: the unit of fairness and of the waiting limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TenantId(pub u32);

/// Which workers run a function: those of one slab and kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PoolKey {
    /// The number of the slab that its workers map: 0 is all tenants', every other is one tenant's.
    pub slab: u32,
    /// What runs there.
    pub kind: PoolKind,
}

impl PoolKey {
    /// The pool that tenants share where the site says so. Its workers are always there.
    pub const SHARED: Self = Self { slab: SHARED_SLAB, kind: PoolKind::Short };

    /// Whether its workers run functions of more than one tenant.
    pub fn is_shared(self) -> bool {
        self.slab == SHARED_SLAB && matches!(self.kind, PoolKind::Short | PoolKind::Long)
    }
}

impl std::fmt::Display for PoolKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.slab {
            SHARED_SLAB => f.write_str("all tenants, ")?,
            slab => write!(f, "slab {slab}, ")?,
        }
        match self.kind {
            PoolKind::Short => f.write_str("short calls"),
            PoolKind::Long => f.write_str("long calls"),
            PoolKind::Alone(function) => write!(f, "function {} alone", function.0),
        }
    }
}

/// The number of the slab with the images of all tenants.
pub const SHARED_SLAB: u32 = 0;

/// What runs in the workers of a pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PoolKind {
    /// Functions with short budgets.
    Short,
    /// Functions with long budgets, which would keep workers from short ones.
    Long,
    /// One function alone, because a worker died that had run it among others.
    Alone(FunctionId),
}

/// One life of one slab. Slots of different slabs, and of different lives of a slab, have nothing to do
/// with each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct SlabId {
    /// Whose images lie in it: see [`PoolKey::slab`].
    pub number: u32,
    /// Grows when the slab goes away, with its loader or because nobody needs it.
    pub life: u32,
}

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
    /// Which workers run it. Its slab stays the same as long as the function has one.
    pub pool: PoolKey,
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
    /// Start a worker; [`Scheduler::worker_ready`] or [`Scheduler::worker_died`] is expected.
    Spawn {
        /// What it will be called.
        worker: WorkerId,
        /// What it runs.
        pool: PoolKey,
        /// The slab that it is to map, there by then or after loads that were asked for.
        slab: SlabId,
    },
    /// The worker is not needed any more: let it leave. It has nothing in flight;
    /// [`Scheduler::worker_died`] is expected afterwards.
    Stop {
        /// The worker, which gets no job any more.
        worker: WorkerId,
    },
    /// Load the image; [`Scheduler::loaded`] or [`Scheduler::load_failed`] is expected with this slab.
    /// Loads and unloads are to be carried out one after the other, in the order given.
    Load {
        /// The function.
        function: FunctionId,
        /// The slab that it is to lie in.
        slab: SlabId,
    },
    /// Put traps in the place of the image in the slot; [`Scheduler::unloaded`] is expected with this slab. No
    /// call of the function is queued or in flight there, but calls of others may jump into the image until
    /// the traps stand. Its room is not free until [`Command::Reclaim`].
    Unload {
        /// The function, which is cold from now on.
        function: FunctionId,
        /// Its slot.
        slot: u32,
        /// The slab.
        slab: SlabId,
    },
    /// Free the room of an image that was unloaded: every worker that maps the slab has ended all calls that it
    /// had when [`Scheduler::unloaded`] said so, or its life.
    Reclaim {
        /// Its slot.
        slot: u32,
        /// The slab.
        slab: SlabId,
    },
    /// Nobody needs the slab any more: no image lies in it, no worker maps it. Its number comes back with
    /// another life.
    CloseSlab {
        /// The slab.
        slab: SlabId,
    },
    /// A worker died that had run the function among others: it runs alone for a while.
    Suspect {
        /// The function.
        function: FunctionId,
    },
    /// The function was on the core in too many crashes of workers of its own; calls of it are refused
    /// from now on.
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
    /// The worker answered; the caller of [`Scheduler::completed`] holds its output.
    Finished,
    /// It was suspended, and had no CPU time left to go on with.
    OverBudget,
    /// It was suspended, and took longer than a call may.
    TookTooLong,
    /// It was to be suspended, and as many calls were as may be.
    TooManySuspended,
    /// It was suspended, and what it waited for could never come.
    Stuck,
    /// The worker died with the job on its core or behind it, or no worker is left to run it, or the image is gone that it was
    /// suspended in.
    Lost,
    /// The job was still running at its wall backstop and its worker was killed.
    Overdue,
    /// No worker became free within the waiting limit.
    WaitedTooLong,
    /// The caller's own deadline passed while the job waited or was suspended.
    DeadlinePassed,
    /// The function was revoked while the job waited or was suspended.
    Withdrawn,
    /// The function was banned while the job waited or was suspended.
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
    /// The worker was not asked for, or has said so before.
    #[error("worker {0:?} is not expected")]
    NotExpected(WorkerId),
    /// There is no pool that tenants share, or its images lie elsewhere.
    #[error("the function cannot run in {0:?}")]
    NoSuchPool(PoolKey),
}

#[cfg(test)]
mod tests;
