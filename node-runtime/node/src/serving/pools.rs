//! Which workers run a function: those of its tenant's own pool, or those that tenants share.
//!
//! Where tenants share workers, two things still give a tenant its own: the operator's list, for all
//! of its functions, and a function's signed declaration, for the functions that declare it. A function
//! with a long budget runs in a pool beside that of its kind, so that short calls find a worker.
//!
//! Must never give the shared workers to a function that declared that it does not want them.

use std::collections::BTreeSet;
use std::time::Duration;

use mfaas_dispatch::{PoolKey, PoolKind, SHARED_SLAB, TenantId};
use mfaas_ident::{Isolation, TenantName};

use crate::image::{ImageKey, MachineCode};

/// The longest budget of a short call: what a neighbour in a shared pool may have to wait for.
pub(super) const SHORT_BUDGET_MAX: Duration = Duration::from_millis(100);

/// Whether images must pass the verifier to lie in a slab: those of all but the second slab of a tenant.
pub(super) fn takes_verified_code_alone(slab: u32) -> bool {
    slab == SHARED_SLAB || !slab.is_multiple_of(2)
}

/// What decides it.
#[derive(Debug, Clone)]
pub(super) struct Pools {
    /// There are workers that tenants share.
    shared: bool,
    /// The operator's tenants, which share nothing.
    isolated: BTreeSet<TenantName>,
    /// The least that an image must be.
    minimum: MachineCode,
}

impl Pools {
    /// Pools of a node with or without workers that tenants share.
    pub(super) fn new(shared: bool, isolated: BTreeSet<TenantName>, minimum: MachineCode) -> Self {
        Self { shared, isolated, minimum }
    }

    /// The least that an image must be to run here.
    pub(super) fn minimum(&self) -> MachineCode {
        self.minimum
    }

    /// The pool that a function runs in. `tenant` is its tenant's number. What does not verify lies in a slab
    /// of its own, never beside what does.
    pub(super) fn of(
        &self,
        key: &ImageKey,
        isolation: Isolation,
        tenant: TenantId,
        code: MachineCode,
    ) -> PoolKey {
        let own = !self.shared || isolation == Isolation::Process || self.isolated.contains(&key.tenant);
        let slab = match code {
            MachineCode::Verified if !own => SHARED_SLAB,
            MachineCode::Verified => SHARED_SLAB + 1 + 2 * tenant.0,
            MachineCode::Unverified => SHARED_SLAB + 2 + 2 * tenant.0,
        };
        let short = u128::from(key.budget.as_micros()) <= SHORT_BUDGET_MAX.as_micros();
        PoolKey { slab, kind: if short { PoolKind::Short } else { PoolKind::Long } }
    }
}

#[cfg(test)]
mod tests;
