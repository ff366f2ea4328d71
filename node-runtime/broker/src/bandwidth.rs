//! How much is read and written of one volume in a second.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use mfaas_ident::ResourceName;

/// What a volume that was not used may be used more at once.
const BURST: Duration = Duration::from_millis(20);
/// How long it is waited for a volume; who would have to wait longer is refused.
const WAIT_MAX: Duration = Duration::from_secs(10);
/// Volumes that are known at once, before those are forgotten that wait for nothing.
const KNOWN_MAX: usize = 1_024;

/// It is asked for more than there is, for too long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Busy;

/// Up to when each volume is used.
#[derive(Debug)]
pub(crate) struct Bandwidth {
    /// As much as there is if it is 0.
    bytes_per_second: u64,
    used_until: Mutex<HashMap<ResourceName, Instant>>,
}

impl Bandwidth {
    pub(crate) fn new(bytes_per_second: u64) -> Self {
        Self { bytes_per_second, used_until: Mutex::default() }
    }

    /// Waits until so many bytes of a volume may be read or written: in the order in which it is called.
    pub(crate) async fn take(&self, volume: &ResourceName, bytes: usize) -> Result<(), Busy> {
        let wait = self.reserve(volume, bytes, Instant::now())?;
        if !wait.is_zero() {
            tokio::time::sleep(wait).await;
        }
        Ok(())
    }

    fn reserve(&self, volume: &ResourceName, bytes: usize, now: Instant) -> Result<Duration, Busy> {
        if self.bytes_per_second == 0 || bytes == 0 {
            return Ok(Duration::ZERO);
        }
        let takes = Duration::from_secs_f64(bytes as f64 / self.bytes_per_second as f64);
        let mut all = self.used_until.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() >= KNOWN_MAX {
            all.retain(|_, until| *until > now);
        }
        let earliest = now.checked_sub(BURST).unwrap_or(now);
        let until = all.entry(volume.clone()).or_insert(earliest);
        let begins = earliest.max(*until);
        let wait = begins.saturating_duration_since(now);
        if wait > WAIT_MAX {
            return Err(Busy);
        }
        *until = begins + takes;
        Ok(wait)
    }
}

#[cfg(test)]
mod tests;
