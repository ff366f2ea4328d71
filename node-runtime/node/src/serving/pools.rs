//! Which workers run a function: those of its tenant's own pool, or those that tenants share.
//!
//! Where tenants share workers, two things still give a tenant its own: the operator's list, for all
//! of its functions, and a function's signed declaration, for the functions that declare it. A function
//! with a long budget runs in a pool beside that of its kind, so that short calls find a worker. Which of
//! its tenant's windows it lies in is found in [`super::windows`].
//!
//! Must never give the shared workers to a function that declared that it does not want them.

use std::collections::BTreeSet;
use std::time::Duration;

use mfaas_dispatch::{FunctionId, PoolKey, PoolKind, TenantId};
use mfaas_ident::Class;
use mfaas_ident::{Isolation, TenantName};

use super::windows::{Fill, Wanted, Windows};
use crate::image::{MachineCode, VerifiedImage};

/// The longest budget of a short call: what a neighbour in a shared pool may have to wait for.
pub(super) const SHORT_BUDGET_MAX: Duration = Duration::from_millis(100);

/// What decides it for functions of each class.
#[derive(Debug)]
pub(super) struct ClassPools {
    pub(super) micro: Pools,
    pub(super) bulk: Pools,
}

impl ClassPools {
    /// Of a class.
    pub(super) fn of(&mut self, class: Class) -> &mut Pools {
        match class {
            Class::Micro => &mut self.micro,
            Class::Bulk => &mut self.bulk,
        }
    }

    /// How full the windows of all are.
    pub(super) fn fill(&self) -> Fill {
        let (micro, bulk) = (self.micro.fill(), self.bulk.fill());
        Fill {
            windows: micro.windows + bulk.windows,
            fullest_bytes: micro.fullest_bytes.max(bulk.fullest_bytes),
        }
    }
}

/// What decides it for functions of one class.
#[derive(Debug)]
pub(super) struct Pools {
    /// There are workers that tenants share.
    shared: bool,
    /// The operator's tenants, which share nothing.
    isolated: BTreeSet<TenantName>,
    /// The least that an image must be.
    minimum: MachineCode,
    windows: Windows,
}

impl Pools {
    /// Pools of a node with or without workers that tenants share, on which so many bytes of images may be
    /// resident.
    pub(super) fn new(
        shared: bool,
        isolated: BTreeSet<TenantName>,
        minimum: MachineCode,
        resident_bytes_max: u64,
    ) -> Self {
        Self { shared, isolated, minimum, windows: Windows::new(resident_bytes_max) }
    }

    /// The least that an image must be to run here.
    pub(super) fn minimum(&self) -> MachineCode {
        self.minimum
    }

    /// The pool that a function runs in from now on. `tenant` is its tenant's number. What does not verify
    /// lies in a slab of its own, never beside what does.
    pub(super) fn of(&mut self, function: FunctionId, tenant: TenantId, image: &VerifiedImage) -> PoolKey {
        let (key, isolation) = (image.key(), image.declared().isolation);
        let own = !self.shared || isolation == Isolation::Process || self.isolated.contains(&key.tenant);
        let wanted = Wanted { bytes: image.bank_bytes(), assets: image.assets() };
        let slab = self.windows.place(function, tenant, image.code(), own, wanted);
        let short = u128::from(image.terms().budget.as_micros()) <= SHORT_BUDGET_MAX.as_micros();
        PoolKey { slab, kind: if short { PoolKind::Short } else { PoolKind::Long } }
    }

    /// A function is not defined any more.
    pub(super) fn release(&mut self, function: FunctionId) {
        self.windows.release(function);
    }

    /// What is planned to lie in each bank of a slab, in bytes.
    pub(super) fn planned_bytes(&self, slab: u32) -> u64 {
        self.windows.planned_bytes(slab)
    }

    /// How full the windows are.
    pub(super) fn fill(&self) -> Fill {
        self.windows.fill()
    }
}

#[cfg(test)]
mod tests;
