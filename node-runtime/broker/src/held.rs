//! What is held of calls that have not ended: bounded for each tenant and for all.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use mfaas_ident::TenantName;

/// What calls have read and want to change, of all tenants, in bytes.
const BYTES_MAX: usize = 1 << 30;
/// The same of one tenant.
const TENANT_BYTES_MAX: usize = BYTES_MAX / 4;

/// How many bytes are held of whose calls.
#[derive(Debug, Default)]
pub(crate) struct Held(Mutex<Bytes>);

#[derive(Debug, Default)]
struct Bytes {
    all: usize,
    by_tenant: HashMap<TenantName, usize>,
}

impl Bytes {
    fn fits(&self, tenant: &TenantName) -> bool {
        let of_tenant = self.by_tenant.get(tenant).copied().unwrap_or(0);
        of_tenant < TENANT_BYTES_MAX && self.all < BYTES_MAX
    }
}

impl Held {
    /// Whether a call of the tenant may hold more.
    pub(crate) fn has_room(&self, tenant: &TenantName) -> bool {
        self.lock().fits(tenant)
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
        bytes.fits(tenant)
    }

    fn lock(&self) -> MutexGuard<'_, Bytes> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[cfg(test)]
    pub(crate) fn of(&self, tenant: &TenantName) -> usize {
        self.lock().by_tenant.get(tenant).copied().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests;
