#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use super::*;

#[test]
fn a_tenant_keeps_half_of_what_all_may_keep() {
    let (acme, umbrella) = (TenantName::parse("acme").unwrap(), TenantName::parse("umbrella").unwrap());
    let mut bytes = KeptBytes::of_waiting();
    assert!(bytes.replace(&acme, 0, TENANT_KEPT_BYTES_MAX));
    assert!(!bytes.replace(&acme, 0, 1));
    assert!(bytes.replace(&acme, 1, 0));
    assert!(bytes.replace(&umbrella, 0, TENANT_KEPT_BYTES_MAX));
    let third = TenantName::parse("third").unwrap();
    assert!(!bytes.replace(&third, 0, 1), "the node's is used up");
    assert!(bytes.replace(&third, 1, 0) && bytes.replace(&acme, TENANT_KEPT_BYTES_MAX, 0));
    assert!(bytes.replace(&third, 0, 1));
    assert_eq!(bytes.by_tenant.len(), 2, "who keeps nothing is forgotten");
}
