#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::collections::BTreeSet;

use mfaas_attest::Declared;
use mfaas_dispatch::{FunctionId, PoolKey, PoolKind, TenantId};
use mfaas_ident::{Budget, Isolation, TenantName};

use super::{Pools, SHORT_BUDGET_MAX};
use crate::agent::testing::key;
use crate::image::{ImageKey, MachineCode, VerifiedImage};
use crate::serving::windows::takes_verified_code_alone;

const ACME: TenantId = TenantId(0);
const UMBRELLA: TenantId = TenantId(1);

fn of(tenant: &str) -> ImageKey {
    ImageKey { tenant: TenantName::parse(tenant).unwrap(), ..key("hello", 1) }
}

fn image(tenant: &str, isolation: Isolation) -> VerifiedImage {
    VerifiedImage::declaring_for_test(of(tenant), Declared { isolation, ..Declared::default() })
}

fn pools(shared: bool, isolated: &[&str]) -> Pools {
    let isolated = isolated.iter().map(|name| TenantName::parse(name).unwrap()).collect::<BTreeSet<_>>();
    Pools::new(shared, isolated, MachineCode::Verified, 4 << 30)
}

#[test]
fn without_shared_workers_no_two_tenants_meet() {
    let mut pools = pools(false, &[]);
    let acme = pools.of(FunctionId(0), ACME, &image("acme", Isolation::Shared));
    let umbrella = pools.of(FunctionId(1), UMBRELLA, &image("umbrella", Isolation::Shared));
    assert!(!acme.is_shared() && !umbrella.is_shared());
    assert_ne!(acme.slab, umbrella.slab);
    let other = pools.of(FunctionId(2), ACME, &image("acme", Isolation::Process));
    assert_eq!(other, acme, "one pool for the tenant");
}

#[test]
fn what_declares_nothing_shares_and_what_declares_has_its_tenants_own() {
    let mut pools = pools(true, &["umbrella"]);
    assert_eq!(pools.of(FunctionId(0), ACME, &image("acme", Isolation::Shared)), PoolKey::SHARED);
    assert!(!pools.of(FunctionId(1), ACME, &image("acme", Isolation::Process)).is_shared());
    let umbrella = pools.of(FunctionId(2), UMBRELLA, &image("umbrella", Isolation::Shared));
    assert!(!umbrella.is_shared(), "the operator's word");
}

#[test]
fn a_long_budget_runs_beside_the_short_ones() {
    for shared in [true, false] {
        let mut pools = pools(shared, &[]);
        let limit = u64::try_from(SHORT_BUDGET_MAX.as_micros()).unwrap();
        let mut with = |number: u32, micros: u64| {
            let key = ImageKey { budget: Budget::from_micros(micros).unwrap(), ..of("acme") };
            pools.of(FunctionId(number), ACME, &VerifiedImage::for_test(key))
        };
        let (short, long) = (with(0, limit), with(1, limit + 1));
        assert_eq!((short.kind, long.kind), (PoolKind::Short, PoolKind::Long));
        assert_eq!(long.slab, short.slab, "one slab for both");
    }
}

/// Code that could leave its window never lies beside code that cannot, of whatever tenant.
#[test]
fn what_is_not_verified_has_slabs_of_its_own() {
    for shared in [true, false] {
        let mut pools = pools(shared, &[]);
        let mut slabs = Vec::new();
        for (name, tenant) in [("acme", ACME), ("umbrella", UMBRELLA)] {
            for code in [MachineCode::Verified, MachineCode::Unverified] {
                let image = image(name, Isolation::Shared).with_code_for_test(code);
                let slab = pools.of(FunctionId(slabs.len() as u32), tenant, &image).slab;
                assert_eq!(takes_verified_code_alone(slab), code == MachineCode::Verified);
                slabs.push(slab);
            }
        }
        assert!(slabs[1] != slabs[3] && (shared || slabs[0] != slabs[2]), "{slabs:?}");
    }
}
