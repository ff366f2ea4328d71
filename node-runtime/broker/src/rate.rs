//! How many operations a second a tenant may ask for.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use mfaas_ident::TenantName;

/// What a tenant may ask for at once, in the time that it takes by its rate.
const BURST: Duration = Duration::from_secs(1);
/// Tenants that are remembered before it is looked who has asked for nothing for a while.
const REMEMBERED: usize = 1_024;

/// Operations a second, the same for each tenant.
#[derive(Debug)]
pub(crate) struct Rate {
    /// Between two operations, if there is no pause.
    interval: Duration,
    /// When the next operation of a tenant would be due if they came one after the other.
    due: HashMap<TenantName, Instant>,
    /// How many are remembered when it is looked next.
    look_at: usize,
}

impl Rate {
    pub(crate) fn new(per_second: u32) -> Self {
        let interval = Duration::from_secs(1) / per_second.max(1);
        Self { interval, due: HashMap::new(), look_at: REMEMBERED }
    }

    /// Whether the tenant may ask now for something that counts for so many operations.
    pub(crate) fn admits(&mut self, tenant: &TenantName, count: u32, now: Instant) -> bool {
        let due = self.due.get(tenant).map_or(now, |due| (*due).max(now));
        if due > now + BURST {
            return false;
        }
        if self.due.len() >= self.look_at {
            self.due.retain(|_, due| *due > now);
            self.look_at = 2 * self.due.len().max(REMEMBERED);
        }
        let next = due + self.interval * count;
        match self.due.get_mut(tenant) {
            Some(due) => *due = next,
            None => drop(self.due.insert(tenant.clone(), next)),
        }
        true
    }
}

#[cfg(test)]
mod tests;
