//! The limits of a node's dispatcher: each is demanded, none has a default that means unlimited.

/// Jobs that can be open at once, whatever the limits say: a job's number holds its index.
pub const JOBS_CAP: usize = 1 << 20;
/// Worker processes of one node, at most.
pub const WORKERS_CAP: usize = 4_096;
/// Jobs in one worker, whatever the limits say: the table lies inside of the worker's record.
pub const IN_WORKER_CAP: usize = 16;

/// What bounds the scheduler.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Jobs that may wait on the whole node, for a worker or for their image.
    pub waiting_max: usize,
    /// Jobs of one tenant that may wait, over all of its functions.
    pub waiting_per_tenant: usize,
    /// How long a job may wait, in microseconds.
    pub wait_us_max: u64,
    /// Jobs that may be suspended on the whole node.
    pub suspended_max: usize,
    /// Jobs of one tenant that may be suspended, over all of its functions.
    pub suspended_per_tenant: usize,
    /// How long a job may take that is suspended, from its acceptance on, in microseconds.
    pub call_us_max: u64,
    /// Jobs that one worker may hold, running one included; 1 to [`IN_WORKER_CAP`].
    pub in_worker_max: usize,
    /// A job is put behind others in a worker only while the CPU budgets of those together are below
    /// this, in microseconds: nobody sits behind a long call while another worker may become free.
    pub pipeline_budget_us_max: u64,
    /// The wall backstop is `budget × factor + slack`: a budget is CPU time, and beside a busy
    /// machine the wall runs many times faster than the CPU clock of a waiting process.
    pub backstop_factor: u64,
    /// The fixed part of the wall backstop, in microseconds.
    pub backstop_slack_us: u64,
    /// Crashes of a worker of its own within the window after which a function is banned.
    pub crashes_before_ban: u32,
    /// Crashes of all workers of one tenant within the window after which each of its functions is
    /// banned with its first: a new version for every two crashes must not help.
    pub tenant_crashes_before_ban: u32,
    /// The window in which crashes count together, in microseconds.
    pub crash_window_us: u64,
    /// How long a function runs in workers of its own after a worker that ran others too died, in
    /// microseconds.
    pub suspect_us: u64,
    /// Images that are resident or being loaded, together, in bytes.
    pub resident_bytes_max: u64,
    /// Numbers of functions that may ever be used.
    pub functions_max: usize,
    /// Numbers of tenants that may ever be used.
    pub tenants_max: usize,
    /// Pools that may ever be used.
    pub pools_max: usize,
    /// Workers that are there from the start, in the pool of all tenants; 0 where there is none.
    pub shared_workers: usize,
    /// Processor cores that workers share: one tenant's pool runs so many calls at a time when nobody
    /// else's does.
    pub cores: usize,
    /// Worker processes at a time: each takes memory, idle ones too. Beyond it the one that has
    /// been idle longest leaves, and a pool waits if none is; 1 to [`WORKERS_CAP`].
    pub workers_max: usize,
    /// Calls wait so long for the workers of their pool before it gets another, in microseconds.
    pub grow_after_us: u64,
    /// How long a worker beyond the first of its pool stays idle before it leaves, in microseconds.
    pub surplus_idle_us: u64,
    /// The same for the last one of a pool. Until then it sleeps and costs memory alone.
    pub parked_idle_us: u64,
}

impl Limits {
    /// What a node starts with.
    pub const NODE: Self = Self {
        waiting_max: 16_384,
        waiting_per_tenant: 2_048,
        wait_us_max: 5_000_000,
        suspended_max: 100_000,
        suspended_per_tenant: 50_000,
        call_us_max: 60_000_000,
        in_worker_max: 8,
        pipeline_budget_us_max: 1_000,
        backstop_factor: 20,
        backstop_slack_us: 1_000_000,
        crashes_before_ban: 3,
        tenant_crashes_before_ban: 6,
        crash_window_us: 600_000_000,
        suspect_us: 60_000_000,
        resident_bytes_max: 4 << 30,
        functions_max: 1 << 20,
        tenants_max: 1 << 20,
        pools_max: 1 << 20,
        shared_workers: 0,
        cores: 1,
        workers_max: 1_024,
        grow_after_us: 2_000,
        surplus_idle_us: 10_000_000,
        parked_idle_us: 600_000_000,
    };

    /// What the scheduler of bulk functions starts with: few workers, one call in each, and a long queue in front of
    /// them. `cores` and `workers_max` are the node's to say.
    pub const BULK: Self = Self {
        waiting_max: 256,
        waiting_per_tenant: 64,
        wait_us_max: 600_000_000,
        suspended_max: 1_024,
        suspended_per_tenant: 256,
        call_us_max: 3_600_000_000,
        in_worker_max: 1,
        workers_max: 1,
        // What a call has to wait for is another call, which may take minutes, and not a few microseconds.
        grow_after_us: 20_000,
        // Bulk calls give way to all others, and a call that was not let run is no call that hangs.
        backstop_slack_us: 60_000_000,
        // A worker that sleeps keeps no one else's memory, but a process of its own.
        parked_idle_us: 60_000_000,
        ..Self::NODE
    };

    /// The longest that `budget_us` of CPU time may take by the wall.
    pub(crate) fn backstop_us(&self, budget_us: u64) -> u64 {
        budget_us.saturating_mul(self.backstop_factor).saturating_add(self.backstop_slack_us)
    }
}
