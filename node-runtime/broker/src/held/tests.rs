#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use super::*;

#[test]
fn a_tenant_holds_a_part_of_what_all_may() {
    let tenant = |number: usize| TenantName::parse(&format!("t{number}")).unwrap();
    const TENANT_BYTES_MAX: usize = 1_000;
    let held = Held::within(4 * TENANT_BYTES_MAX);
    for number in 0..4 {
        assert!(held.replace(&tenant(number), 0, TENANT_BYTES_MAX - 1) && held.has_room(&tenant(number)));
        assert!(!held.replace(&tenant(number), 0, 1), "its part is used up");
        assert!(!held.has_room(&tenant(number)));
    }
    assert!(!held.has_room(&tenant(9)), "and all of it");
    held.replace(&tenant(0), TENANT_BYTES_MAX, 0);
    assert!(held.has_room(&tenant(9)) && held.has_room(&tenant(0)));
    assert_eq!(held.lock().by_tenant.len(), 3);
}
