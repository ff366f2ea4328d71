#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use super::*;

#[test]
fn a_node_is_told_which_pools_to_have() {
    assert_eq!(Pools::PerTenant.variables(), [("MFAAS_SHARE_WORKERS", "never".into())]);
    assert_eq!(Pools::Shared.variables(), [("MFAAS_SHARE_WORKERS", "with-verified-code".into())]);
}

#[test]
fn a_node_is_not_taken_for_what_it_is_not() {
    assert!(Pools::PerTenant.verify(5, 5).is_ok() && Pools::PerTenant.verify(7, 5).is_ok());
    assert!(Pools::PerTenant.verify(2, 5).is_err());
    assert!(Pools::Shared.verify(2, 5).is_ok() && Pools::Shared.verify(4, 5).is_ok());
    assert!(Pools::Shared.verify(5, 5).is_err());
}
