//! What a call may use, as the node says it.

use mfaas_executor::Limits;
use mfaas_ident::{Budget, MemoryLimit};

/// `None` for a budget or an arena that no function can have.
pub(crate) fn of(budget_us: u32, memory_bytes: u64) -> Option<Limits> {
    let budget = Budget::from_micros(u64::from(budget_us)).ok()?;
    Some(Limits { budget, memory: MemoryLimit::from_bytes(memory_bytes).ok()? })
}
