#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::collections::BTreeSet;

use mfaas_dispatch::{PoolKey, PoolKind, TenantId};
use mfaas_ident::{Budget, Isolation, TenantName};

use super::{Pools, SHORT_BUDGET_MAX, takes_verified_code_alone};
use crate::agent::testing::key;
use crate::image::{ImageKey, MachineCode};

const ACME: TenantId = TenantId(0);
const UMBRELLA: TenantId = TenantId(1);

fn of(tenant: &str) -> ImageKey {
    ImageKey { tenant: TenantName::parse(tenant).unwrap(), ..key("hello", 1) }
}

fn pools(shared: bool, isolated: &[&str]) -> Pools {
    let isolated = isolated.iter().map(|name| TenantName::parse(name).unwrap()).collect::<BTreeSet<_>>();
    Pools::new(shared, isolated, MachineCode::Verified)
}

#[test]
fn without_shared_workers_no_two_tenants_meet() {
    let pools = pools(false, &[]);
    let acme = pools.of(&of("acme"), Isolation::Shared, ACME, MachineCode::Verified);
    let umbrella = pools.of(&of("umbrella"), Isolation::Shared, UMBRELLA, MachineCode::Verified);
    assert!(!acme.is_shared() && !umbrella.is_shared());
    assert_ne!(acme.slab, umbrella.slab);
    assert_eq!(
        pools.of(&of("acme"), Isolation::Process, ACME, MachineCode::Verified),
        acme,
        "one pool for the tenant"
    );
}

#[test]
fn what_declares_nothing_shares_and_what_declares_has_its_tenants_own() {
    let pools = pools(true, &["umbrella"]);
    assert_eq!(pools.of(&of("acme"), Isolation::Shared, ACME, MachineCode::Verified), PoolKey::SHARED);
    assert!(!pools.of(&of("acme"), Isolation::Process, ACME, MachineCode::Verified).is_shared());
    assert!(
        !pools.of(&of("umbrella"), Isolation::Shared, UMBRELLA, MachineCode::Verified).is_shared(),
        "the operator's word"
    );
}

#[test]
fn a_long_budget_runs_beside_the_short_ones() {
    for shared in [true, false] {
        let pools = pools(shared, &[]);
        let limit = u64::try_from(SHORT_BUDGET_MAX.as_micros()).unwrap();
        let with = |micros: u64| {
            let key = ImageKey { budget: Budget::from_micros(micros).unwrap(), ..of("acme") };
            pools.of(&key, Isolation::Shared, ACME, MachineCode::Verified)
        };
        assert_eq!(with(limit).kind, PoolKind::Short);
        assert_eq!(with(limit + 1).kind, PoolKind::Long);
        assert_eq!(with(limit + 1).slab, with(limit).slab, "one slab for both");
    }
}

/// Code that could leave its window never lies beside code that cannot, of whatever tenant.
#[test]
fn what_is_not_verified_has_slabs_of_its_own() {
    for shared in [true, false] {
        let pools = pools(shared, &[]);
        let mut slabs = Vec::new();
        for (name, tenant) in [("acme", ACME), ("umbrella", UMBRELLA)] {
            let slab = |code: MachineCode| pools.of(&of(name), Isolation::Shared, tenant, code).slab;
            let (verified, unverified) = (slab(MachineCode::Verified), slab(MachineCode::Unverified));
            assert!(takes_verified_code_alone(verified) && !takes_verified_code_alone(unverified));
            slabs.extend([verified, unverified]);
        }
        assert!(slabs[1] != slabs[3] && (shared || slabs[0] != slabs[2]), "{slabs:?}");
    }
}
