#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::collections::BTreeSet;

use mfaas_dispatch::{PoolKey, PoolKind, TenantId};
use mfaas_ident::{Budget, Isolation, TenantName};

use super::{Pools, SHORT_BUDGET_MAX};
use crate::agent::testing::key;
use crate::image::ImageKey;

const ACME: TenantId = TenantId(0);
const UMBRELLA: TenantId = TenantId(1);

fn of(tenant: &str) -> ImageKey {
    ImageKey { tenant: TenantName::parse(tenant).unwrap(), ..key("hello", 1) }
}

fn pools(shared: bool, isolated: &[&str]) -> Pools {
    Pools::new(shared, isolated.iter().map(|name| TenantName::parse(name).unwrap()).collect::<BTreeSet<_>>())
}

#[test]
fn without_shared_workers_no_two_tenants_meet() {
    let pools = pools(false, &[]);
    let acme = pools.of(&of("acme"), Isolation::Shared, ACME);
    let umbrella = pools.of(&of("umbrella"), Isolation::Shared, UMBRELLA);
    assert!(!acme.is_shared() && !umbrella.is_shared());
    assert_ne!(acme.slab, umbrella.slab);
    assert_eq!(pools.of(&of("acme"), Isolation::Process, ACME), acme, "one pool for the tenant");
}

#[test]
fn what_declares_nothing_shares_and_what_declares_has_its_tenants_own() {
    let pools = pools(true, &["umbrella"]);
    assert_eq!(pools.of(&of("acme"), Isolation::Shared, ACME), PoolKey::SHARED);
    assert!(!pools.of(&of("acme"), Isolation::Process, ACME).is_shared());
    assert!(!pools.of(&of("umbrella"), Isolation::Shared, UMBRELLA).is_shared(), "the operator's word");
}

#[test]
fn a_long_budget_runs_beside_the_short_ones() {
    for shared in [true, false] {
        let pools = pools(shared, &[]);
        let limit = u64::try_from(SHORT_BUDGET_MAX.as_micros()).unwrap();
        let with = |micros: u64| {
            let key = ImageKey { budget: Budget::from_micros(micros).unwrap(), ..of("acme") };
            pools.of(&key, Isolation::Shared, ACME)
        };
        assert_eq!(with(limit).kind, PoolKind::Short);
        assert_eq!(with(limit + 1).kind, PoolKind::Long);
        assert_eq!(with(limit + 1).slab, with(limit).slab, "one slab for both");
    }
}
