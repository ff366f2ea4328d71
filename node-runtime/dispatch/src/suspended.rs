//! Calls that are suspended, as far as they are counted: how many there are, of whom, and when the first has taken too long.

use std::collections::BTreeSet;

use crate::{Limits, Moment};

/// Who is suspended, as far as it is counted, and when each is to be answered at the latest.
#[derive(Debug, Default)]
pub(crate) struct Suspended {
    by_tenant: Vec<u32>,
    ends: BTreeSet<(Moment, u32)>,
}

impl Suspended {
    /// Calls that are suspended.
    pub(crate) fn all(&self) -> usize {
        self.ends.len()
    }

    fn of(&self, tenant: u32) -> u32 {
        self.by_tenant.get(tenant as usize).copied().unwrap_or(0)
    }

    /// Whether no further call of the tenant may be suspended.
    pub(crate) fn is_full(&self, tenant: u32, limits: &Limits) -> bool {
        self.all() >= limits.suspended_max || self.of(tenant) as usize >= limits.suspended_per_tenant
    }

    /// A call of the tenant is suspended, until `ends` at the latest.
    pub(crate) fn add(&mut self, tenant: u32, ends: Moment, index: u32) {
        let tenants = tenant as usize + 1;
        if self.by_tenant.len() < tenants {
            self.by_tenant.resize(tenants, 0);
        }
        self.by_tenant[tenant as usize] += 1;
        self.ends.insert((ends, index));
    }

    /// It is no more.
    pub(crate) fn remove(&mut self, tenant: u32, ends: Moment, index: u32) {
        if self.ends.remove(&(ends, index)) {
            self.by_tenant[tenant as usize] -= 1;
        }
    }

    /// When the first of them has taken too long.
    pub(crate) fn due(&self) -> Moment {
        self.ends.first().map_or(Moment::NEVER, |(ends, _)| *ends)
    }

    /// The first of them, if it has taken too long.
    pub(crate) fn first_due(&self, now: Moment) -> Option<u32> {
        self.ends.first().filter(|(ends, _)| *ends <= now).map(|(_, index)| *index)
    }

    /// Their places in the table of jobs.
    pub(crate) fn indexes(&self) -> impl Iterator<Item = u32> + '_ {
        self.ends.iter().map(|(_, index)| *index)
    }

    #[cfg(test)]
    pub(crate) fn count_of(&self, tenant: u32) -> usize {
        self.of(tenant) as usize
    }
}
