//! How many bytes are kept of whose calls, while they wait or until they are answered.

use std::collections::HashMap;

use mfaas_ident::TenantName;

/// What is kept of all calls together, and of those of one tenant, in bytes.
const KEPT_BYTES_MAX: usize = 1 << 30;
const TENANT_KEPT_BYTES_MAX: usize = KEPT_BYTES_MAX / 2;

/// What is kept of all calls, in bytes.
#[derive(Debug)]
pub(super) struct KeptBytes {
    all_max: usize,
    tenant_max: usize,
    all: usize,
    by_tenant: HashMap<TenantName, usize>,
}

impl KeptBytes {
    /// Of calls that wait.
    pub(super) fn of_waiting() -> Self {
        Self::within(KEPT_BYTES_MAX, TENANT_KEPT_BYTES_MAX)
    }

    /// Nothing so far, and at most so much of all tenants and of one.
    pub(super) fn within(all_max: usize, tenant_max: usize) -> Self {
        Self { all_max, tenant_max, all: 0, by_tenant: HashMap::new() }
    }

    /// Of all tenants.
    #[cfg(test)]
    pub(super) fn all(&self) -> usize {
        self.all
    }

    /// Something is kept in the place of something else. Whether it may be.
    pub(super) fn replace(&mut self, tenant: &TenantName, before: usize, after: usize) -> bool {
        self.all = self.all - before + after;
        let of_tenant = match self.by_tenant.get_mut(tenant) {
            Some(of_tenant) => of_tenant,
            None => self.by_tenant.entry(tenant.clone()).or_default(),
        };
        *of_tenant = *of_tenant - before + after;
        let fits = *of_tenant <= self.tenant_max && self.all <= self.all_max;
        if *of_tenant == 0 {
            self.by_tenant.remove(tenant);
        }
        fits
    }
}

#[cfg(test)]
mod tests;
