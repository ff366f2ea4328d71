//! The limits of a node's dispatcher: each is demanded, none has a default that means unlimited.

/// Jobs that can be open at once, whatever the limits say: a job's number holds its index.
pub const JOBS_CAP: usize = 1 << 20;
/// Workers of one node, at most: their sets are bit masks.
pub const WORKERS_CAP: usize = 256;
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
    /// Crashes within the window after which a function is banned.
    pub crashes_before_ban: u32,
    /// The window in which crashes count together, in microseconds.
    pub crash_window_us: u64,
    /// Images that are resident or being loaded, together, in bytes.
    pub resident_bytes_max: u64,
    /// Numbers of functions that may ever be used.
    pub functions_max: usize,
    /// Numbers of tenants that may ever be used.
    pub tenants_max: usize,
    /// Numbers of cordons that may ever be used, the shared one included.
    pub cordons_max: usize,
    /// How long a cordon of one tenant stays idle before its workers are parked, in microseconds. One
    /// that no function runs in any more does not wait.
    pub park_after_us: u64,
}

impl Limits {
    /// What a node starts with.
    pub const NODE: Self = Self {
        waiting_max: 8_192,
        waiting_per_tenant: 512,
        wait_us_max: 5_000_000,
        in_worker_max: 8,
        pipeline_budget_us_max: 1_000,
        backstop_factor: 20,
        backstop_slack_us: 1_000_000,
        crashes_before_ban: 3,
        crash_window_us: 600_000_000,
        resident_bytes_max: 4 << 30,
        functions_max: 1 << 20,
        tenants_max: 1 << 20,
        cordons_max: 1 << 16,
        park_after_us: 60_000_000,
    };

    /// The longest that `budget_us` of CPU time may take by the wall.
    pub(crate) fn backstop_us(&self, budget_us: u64) -> u64 {
        budget_us.saturating_mul(self.backstop_factor).saturating_add(self.backstop_slack_us)
    }
}
