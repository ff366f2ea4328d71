//! How many uploads of each tenant are being received.
//!
//! Whoever sends slowly keeps a place for as long as it sends; a tenant that fills all places with such uploads would
//! keep everybody else from deploying.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use mfaas_ident::TenantName;

/// Places by tenant; a tenant without an upload has no row.
#[derive(Debug, Clone, Default)]
pub struct TenantUploads(Arc<Mutex<HashMap<TenantName, usize>>>);

impl TenantUploads {
    /// A place for one more upload of `tenant`, if it has fewer than `uploads_max`.
    pub fn take(&self, tenant: &TenantName, uploads_max: usize) -> Option<Place> {
        let mut taken = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let count = taken.get(tenant).copied().unwrap_or(0);
        if count >= uploads_max {
            return None;
        }
        taken.insert(tenant.clone(), count + 1);
        Some(Place { uploads: self.clone(), tenant: tenant.clone() })
    }
}

/// One tenant's place, given back when dropped.
#[derive(Debug)]
pub struct Place {
    uploads: TenantUploads,
    tenant: TenantName,
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut taken = self.uploads.0.lock().unwrap_or_else(PoisonError::into_inner);
        match taken.get_mut(&self.tenant) {
            Some(count) if *count > 1 => *count -= 1,
            _ => drop(taken.remove(&self.tenant)),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn a_tenant_has_its_places_and_no_others() {
        let uploads = TenantUploads::default();
        let (one, two) = (TenantName::parse("one").unwrap(), TenantName::parse("two").unwrap());
        let first = uploads.take(&one, 2).unwrap();
        let second = uploads.take(&one, 2).unwrap();
        assert!(uploads.take(&one, 2).is_none());
        let other = uploads.take(&two, 2).unwrap();
        drop(first);
        let third = uploads.take(&one, 2).unwrap();
        assert!(uploads.take(&one, 2).is_none());
        drop((second, third, other));
        assert!(uploads.0.lock().unwrap().is_empty(), "nothing is kept of tenants that send nothing");
    }
}
