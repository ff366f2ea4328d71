//! The limits of a node's dispatcher: each is demanded, none has a default that means unlimited.

/// What bounds the scheduler.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Jobs that may wait, for each worker that the generation is meant to have.
    pub waiting_per_worker: usize,
    /// Jobs of one tenant that may wait, over all of its functions.
    pub waiting_per_tenant: usize,
    /// How long a job may wait for a worker, in microseconds.
    pub wait_us_max: u64,
    /// The wall backstop is `budget × factor + slack`: a budget is CPU time, and beside a busy
    /// machine the wall runs many times faster than the CPU clock of a waiting process.
    pub backstop_factor: u64,
    /// The fixed part of the wall backstop, in microseconds.
    pub backstop_slack_us: u64,
    /// Crashes within the window after which a function is banned.
    pub crashes_before_ban: u32,
    /// The window in which crashes count together, in microseconds.
    pub crash_window_us: u64,
}

impl Limits {
    /// What a node starts with.
    pub const NODE: Self = Self {
        waiting_per_worker: 256,
        waiting_per_tenant: 512,
        wait_us_max: 5_000_000,
        backstop_factor: 20,
        backstop_slack_us: 1_000_000,
        crashes_before_ban: 3,
        crash_window_us: 600_000_000,
    };

    /// The longest that `budget_us` of CPU time may take by the wall.
    pub(crate) fn backstop_us(&self, budget_us: u64) -> u64 {
        budget_us.saturating_mul(self.backstop_factor).saturating_add(self.backstop_slack_us)
    }
}
