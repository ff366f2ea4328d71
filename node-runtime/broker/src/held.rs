//! What is held of calls that have not ended: bounded for each tenant and for all.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use mfaas_ident::TenantName;

/// How many bytes are held of whose calls.
#[derive(Debug)]
pub(crate) struct Held {
    /// Of all tenants.
    bytes_max: usize,
    bytes: Mutex<Bytes>,
}

#[derive(Debug, Default)]
struct Bytes {
    all: usize,
    by_tenant: HashMap<TenantName, usize>,
}

impl Held {
    /// So many of all tenants, and a quarter of them of one.
    pub(crate) fn within(bytes_max: usize) -> Self {
        Self { bytes_max, bytes: Mutex::default() }
    }

    fn fits(&self, bytes: &Bytes, tenant: &TenantName) -> bool {
        let of_tenant = bytes.by_tenant.get(tenant).copied().unwrap_or(0);
        of_tenant < self.bytes_max / 4 && bytes.all < self.bytes_max
    }

    /// Whether a call of the tenant may hold more.
    pub(crate) fn has_room(&self, tenant: &TenantName) -> bool {
        self.fits(&self.lock(), tenant)
    }

    /// A call of the tenant holds so many bytes in the place of others. Whether it may.
    pub(crate) fn replace(&self, tenant: &TenantName, before: usize, after: usize) -> bool {
        let mut bytes = self.lock();
        bytes.all = bytes.all - before + after;
        let of_tenant = bytes.by_tenant.entry(tenant.clone()).or_default();
        *of_tenant = *of_tenant - before + after;
        if *of_tenant == 0 {
            bytes.by_tenant.remove(tenant);
        }
        self.fits(&bytes, tenant)
    }

    fn lock(&self) -> MutexGuard<'_, Bytes> {
        self.bytes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[cfg(test)]
    pub(crate) fn of(&self, tenant: &TenantName) -> usize {
        self.lock().by_tenant.get(tenant).copied().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests;
