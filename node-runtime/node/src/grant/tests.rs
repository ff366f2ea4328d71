#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use mfaas_ident::{Access, FunctionName, TenantName};

use super::{Grant, LocalGrants};

fn opened(grants: &LocalGrants, tenant: &str, function: &str) -> [bool; 3] {
    let (tenant, function) = (TenantName::parse(tenant).unwrap(), FunctionName::parse(function).unwrap());
    let grant = grants.grant(&tenant, &function);
    Access::ALL.map(|access| grant.opens(access))
}

#[test]
fn without_grants_of_the_operator_local_clients_call_what_is_public() {
    let grants = LocalGrants::default();
    assert_eq!(LocalGrants::parse(" , ").unwrap(), grants);
    assert_eq!(opened(&grants, "acme", "pay"), [true, false, false]);
    assert!(!Grant::NOTHING.is_something());
}

#[test]
fn what_the_operator_names_is_what_is_granted() {
    let grants = LocalGrants::parse("acme/*, acme/vault,umbrella/pay").unwrap();
    assert_eq!(opened(&grants, "acme", "pay"), [true, true, false]);
    assert_eq!(opened(&grants, "acme", "vault"), [true, true, true]);
    assert_eq!(opened(&grants, "umbrella", "pay"), [true, true, true]);
    assert_eq!(opened(&grants, "umbrella", "vault"), [true, false, false]);
    assert_eq!(opened(&grants, "other", "pay"), [true, false, false]);
    for bad in ["acme", "acme/", "*/pay", "*", "acme/pay@1", "acme/pay/x"] {
        assert!(LocalGrants::parse(bad).is_err(), "{bad}");
    }
}
