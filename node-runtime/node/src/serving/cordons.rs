//! Which workers run a function: those that tenants share, or its tenant's own.
//!
//! Two things give a tenant workers of its own, and they add up: the operator's list, for all of its
//! functions, and a function's signed declaration, for the functions that declare it. How many tenants
//! the second gives them to is bounded, since tenants choose it.
//!
//! Must never give the shared workers to a function that declared that it does not want them.

use std::collections::{BTreeSet, HashMap, HashSet};

use mfaas_dispatch::CordonId;
use mfaas_ident::{Isolation, TenantName};

use crate::agent::ImageKey;

/// As many tenants have workers of their own as this node gives any.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{limit} tenants have worker processes of their own here by what they declare, which is the limit")]
pub(super) struct NoCordon {
    limit: usize,
}

/// Tenants and their cordons.
#[derive(Debug)]
pub(super) struct Cordons {
    /// The operator's tenants.
    isolated: BTreeSet<TenantName>,
    /// Other tenants with a cordon of their own at a time, at most.
    declared_max: usize,
    /// Never given to another tenant, so that workers that are still there never run a stranger's call.
    numbers: HashMap<TenantName, CordonId>,
    /// Defined functions that declare it, by tenant; the operator's tenants and empty sets are not in it.
    declared: HashMap<TenantName, HashSet<ImageKey>>,
}

impl Cordons {
    /// Cordons for the operator's tenants, and for `declared_max` others by what their functions declare.
    pub(super) fn new(isolated: &BTreeSet<TenantName>, declared_max: usize) -> Self {
        let isolated = isolated.clone();
        let (numbers, declared) = Default::default();
        Self { isolated, declared_max, numbers, declared }
    }

    /// The cordon that a function is to run in from now on.
    pub(super) fn enter(&mut self, key: &ImageKey, isolation: Isolation) -> Result<CordonId, NoCordon> {
        let tenant = &key.tenant;
        match isolation {
            _ if self.isolated.contains(tenant) => Ok(self.number(tenant)),
            Isolation::Shared => Ok(CordonId::SHARED),
            Isolation::Process => {
                if !self.declared.contains_key(tenant) && self.declared.len() >= self.declared_max {
                    return Err(NoCordon { limit: self.declared_max });
                }
                self.declared.entry(tenant.clone()).or_default().insert(key.clone());
                Ok(self.number(tenant))
            }
        }
    }

    /// The function is defined no more. With a tenant's last one its place is another tenant's.
    pub(super) fn leave(&mut self, key: &ImageKey) {
        if let Some(functions) = self.declared.get_mut(&key.tenant) {
            functions.remove(key);
            if functions.is_empty() {
                self.declared.remove(&key.tenant);
            }
        }
    }

    /// Tenants that have workers of their own, or would have with their first call.
    pub(super) fn private(&self) -> usize {
        self.isolated.len() + self.declared.len()
    }

    fn number(&mut self, tenant: &TenantName) -> CordonId {
        // Beyond what the scheduler takes, it refuses the definition.
        let next = u32::try_from(self.numbers.len() + 1).unwrap_or(u32::MAX);
        *self.numbers.entry(tenant.clone()).or_insert(CordonId(next))
    }
}

#[cfg(test)]
mod tests;
