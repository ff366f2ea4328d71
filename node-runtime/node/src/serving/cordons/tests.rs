#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::collections::BTreeSet;

use mfaas_dispatch::CordonId;
use mfaas_ident::{Isolation, TenantName};

use super::{Cordons, NoCordon};
use crate::agent::ImageKey;
use crate::agent::testing::key;

fn of(tenant: &str, name: &str) -> ImageKey {
    ImageKey { tenant: TenantName::parse(tenant).unwrap(), ..key(name, 1) }
}

fn cordons(isolated: &[&str], declared_max: usize) -> Cordons {
    let isolated: BTreeSet<_> = isolated.iter().map(|name| TenantName::parse(name).unwrap()).collect();
    Cordons::new(&isolated, declared_max)
}

#[test]
fn what_declares_nothing_shares_and_what_declares_has_its_tenants_own() {
    let mut cordons = cordons(&[], 2);
    let shared = cordons.enter(&of("acme", "plain"), Isolation::Shared).unwrap();
    assert_eq!(shared, CordonId::SHARED);
    let own = cordons.enter(&of("acme", "vault"), Isolation::Process).unwrap();
    assert_ne!(own, CordonId::SHARED);
    assert_eq!(cordons.enter(&of("acme", "safe"), Isolation::Process).unwrap(), own, "one for the tenant");
    let other = cordons.enter(&of("umbrella", "vault"), Isolation::Process).unwrap();
    assert!(other != own && other != CordonId::SHARED);
    assert_eq!(cordons.enter(&of("acme", "plain"), Isolation::Shared).unwrap(), CordonId::SHARED);
    assert_eq!(cordons.private(), 2);
}

#[test]
fn the_operators_word_and_the_declaration_add_up() {
    let mut cordons = cordons(&["acme"], 1);
    let own = cordons.enter(&of("acme", "plain"), Isolation::Shared).unwrap();
    assert_ne!(own, CordonId::SHARED, "the operator's tenants share nothing");
    assert_eq!(cordons.enter(&of("acme", "vault"), Isolation::Process).unwrap(), own);
    // The operator's tenants take nobody's place.
    assert_ne!(cordons.enter(&of("umbrella", "vault"), Isolation::Process).unwrap(), own);
    assert_eq!(cordons.private(), 2);
    cordons.leave(&of("acme", "vault"));
    assert_eq!(cordons.enter(&of("acme", "plain"), Isolation::Shared).unwrap(), own);
}

#[test]
fn beyond_the_limit_a_tenant_is_refused_until_another_has_left() {
    let mut cordons = cordons(&[], 1);
    let vault = of("acme", "vault");
    let own = cordons.enter(&vault, Isolation::Process).unwrap();
    cordons.enter(&of("acme", "safe"), Isolation::Process).unwrap();
    let other = of("umbrella", "vault");
    assert_eq!(cordons.enter(&other, Isolation::Process), Err(NoCordon { limit: 1 }));
    assert_eq!(cordons.enter(&of("umbrella", "plain"), Isolation::Shared), Ok(CordonId::SHARED));
    cordons.leave(&vault);
    assert_eq!(cordons.enter(&other, Isolation::Process), Err(NoCordon { limit: 1 }), "one is left");
    cordons.leave(&of("acme", "safe"));
    let theirs = cordons.enter(&other, Isolation::Process).unwrap();
    assert_ne!(theirs, own, "no tenant gets the number, and with it the workers, of another");
    cordons.leave(&other);
    assert_eq!(cordons.enter(&vault, Isolation::Process), Ok(own), "who comes back has its own");
}

#[test]
fn a_node_that_gives_nobody_workers_refuses_everybody() {
    let mut cordons = cordons(&[], 0);
    assert_eq!(cordons.enter(&of("acme", "vault"), Isolation::Process), Err(NoCordon { limit: 0 }));
    assert_eq!(cordons.private(), 0);
}
