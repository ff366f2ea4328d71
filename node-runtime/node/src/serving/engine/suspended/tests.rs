#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use super::*;

#[test]
fn a_tenant_keeps_half_of_what_all_may_keep() {
    let (acme, umbrella) = (TenantName::parse("acme").unwrap(), TenantName::parse("umbrella").unwrap());
    let mut bytes = KeptBytes::default();
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

/// A worker's answer may have come in a buffer that is much larger than what is kept.
#[test]
fn what_is_kept_is_counted_as_what_it_takes() {
    let tenant = TenantName::parse("acme").unwrap();
    let mut bytes = KeptBytes::default();
    let mut kept = Kept::default();
    kept.frame = Vec::with_capacity(700 << 10);
    kept.open.insert(1, Moment(9));
    assert!(bytes.count(&tenant, &mut kept));
    assert_eq!(bytes.all, kept.frame.capacity() + OPERATION_BYTES);
    bytes.forget(&tenant, &kept);
    assert_eq!(bytes.all, 0);
}

/// However many operations end at one moment.
#[test]
fn so_many_operations_are_told_of_in_one_turn() {
    let mut timers = Timers::default();
    for id in 0..10 {
        timers.0.insert((Moment(5), JobId(1), id));
    }
    let (mut left, mut told) = (4, Vec::new());
    let hear = |_, id| {
        told.push(id);
        false
    };
    assert_eq!(timers.wake(Moment(5), &mut left, hear), None);
    assert_eq!((left, told.len(), timers.0.len()), (0, 4, 6));
    assert_eq!(timers.wake(Moment(5), &mut left, |_, _| true), None, "nothing is left of the turn");
    assert_eq!(timers.wake(Moment(5), &mut 1, |_, _| true), Some(JobId(1)));
}
