//! What this machine has: cores and memory.

use std::io;

use crate::groups::DiskCounts;
use mfaas_isolation::CoreSet;
use rustix::thread::{CpuSet, sched_getaffinity};

/// What the kernel counts sectors in, whatever a disk's own are.
const SECTOR_BYTES: u64 = 512;

/// Memory of the machine, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Memory {
    pub(crate) total_bytes: u64,
    /// What programs can have without anything being swapped or ended.
    pub(crate) available_bytes: u64,
}

/// The cores that this process may use.
pub(crate) fn cores() -> io::Result<CoreSet> {
    let allowed = sched_getaffinity(None)?;
    let mut cores = CoreSet::EMPTY;
    for core in (0..CpuSet::MAX_CPU).filter(|core| allowed.is_set(*core)) {
        cores.insert(core).map_err(io::Error::other)?;
    }
    Ok(cores)
}

/// From `/proc/meminfo`.
pub(crate) fn memory() -> io::Result<Memory> {
    parse(&std::fs::read_to_string("/proc/meminfo")?)
        .ok_or_else(|| io::Error::other("/proc/meminfo lacks a line"))
}

fn parse(text: &str) -> Option<Memory> {
    let bytes = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
        line.trim().strip_suffix(" kB")?.parse::<u64>().ok()?.checked_mul(1024)
    };
    Some(Memory { total_bytes: bytes("MemTotal")?, available_bytes: bytes("MemAvailable")? })
}

/// What the machine has done on a disk, from `/proc/diskstats`.
pub(crate) fn disk(device: &str) -> Option<DiskCounts> {
    disk_of(device, &std::fs::read_to_string("/proc/diskstats").ok()?)
}

fn disk_of(device: &str, text: &str) -> Option<DiskCounts> {
    let (major, minor) = device.split_once(':')?;
    let mut rows = text.lines().map(|line| line.split_ascii_whitespace().collect::<Vec<_>>());
    let row = rows.find(|row| row.get(..2) == Some(&[major, minor]))?;
    let number = |at: usize| row.get(at)?.parse::<u64>().ok();
    Some(DiskCounts {
        reads: number(3)?,
        read_bytes: number(5)?.saturating_mul(SECTOR_BYTES),
        writes: number(7)?,
        written_bytes: number(9)?.saturating_mul(SECTOR_BYTES),
    })
}

#[cfg(test)]
mod tests;
