//! Performance isolation of a node: what builds and long functions may have of a machine that answers calls.
//!
//! The **primary** is what answers calls: dispatcher, workers, ingress. The **secondary** is everything that can
//! wait. Three state machines look at what was measured and say what the secondary may have: [`CpuIsolation`] of
//! cores (CPU blind isolation), [`MemoryIsolation`] of memory, [`DiskIsolation`] of a disk (deficit weighted round robin).
//! After "PerfIso: Performance Isolation for Commercial Latency-Sensitive Services", USENIX ATC 2018.
//!
//! Time is an argument ([`mfaas_ident::Moment`]), measurements are arguments, every effect is a returned value: nothing
//! in here reads a clock, a file or a counter, so a simulation runs the code that runs on machines.
//!
//! What it never does:
//! - it never limits the primary, and never moves it;
//! - it never changes a limit unless what was measured, a setting or the kill switch asks for it;
//! - it never limits anything between a kill switch ([`CpuIsolation::lift`] and its like) and the next
//!   [`CpuIsolation::engage`].

mod cores;
mod cpu;
mod disk;
mod memory;
mod siblings;

pub use cores::{CORES_MAX, CoreSet, CoreSetError};
pub use cpu::{CpuIsolation, CpuLimit, CpuSample, CpuSettings, Occupancy};
pub use disk::{DISK_GROUPS_MAX, DiskGroup, DiskIsolation, DiskLimit, DiskRate, DiskSettings, DiskUse};
pub use memory::{Member, MemberId, MemoryAction, MemoryIsolation, MemorySample, MemorySettings};
pub use siblings::Siblings;

/// A setting that no machine could keep; the text names it and says what is possible.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{setting} is {value}: {rule}")]
pub struct SettingError {
    /// The field of the settings.
    pub setting: &'static str,
    /// What it was set to.
    pub value: u64,
    /// What it may be, as a sentence fragment.
    pub rule: &'static str,
}

/// Refuses `value` unless it lies in `bounds`.
fn check(
    setting: &'static str,
    value: u64,
    bounds: std::ops::RangeInclusive<u64>,
    rule: &'static str,
) -> Result<(), SettingError> {
    if bounds.contains(&value) { Ok(()) } else { Err(SettingError { setting, value, rule }) }
}
