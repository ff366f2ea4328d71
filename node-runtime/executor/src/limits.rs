//! What a caller demands of one call.

use mfaas_ident::{Budget, MemoryLimit};

/// What one call may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// CPU time, of all runs of a call that is run again because it outgrew its memory.
    pub budget: Budget,
    /// Arena. At most what the executor was made for; more counts as that.
    pub memory: MemoryLimit,
}
