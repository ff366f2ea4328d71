use proptest::prelude::*;

use super::*;

fn any_decision() -> impl Strategy<Value = (u8, CrateStatus, bool)> {
    let status =
        prop_oneof![Just(CrateStatus::Allowed), Just(CrateStatus::Denied), Just(CrateStatus::Revoked)];
    (0..4_u8, status, any::<bool>())
}

fn chosen(decisions: &[(u8, CrateStatus, bool)]) -> Vec<(u8, CrateStatus, bool)> {
    deciding(decisions.iter().copied(), |(subject, status, tenant)| {
        (*subject, Precedence::new(*status, *tenant))
    })
}

#[test]
fn a_tenants_decision_outweighs_the_sites_and_a_revocation_outweighs_both() {
    use CrateStatus::{Allowed, Denied, Revoked};
    // Of the site, of the tenant, the one that counts.
    for (site, tenant, counts) in [
        (Allowed, Denied, (Denied, true)),
        (Denied, Allowed, (Allowed, true)),
        (Revoked, Allowed, (Revoked, false)),
        (Revoked, Denied, (Revoked, false)),
        (Allowed, Revoked, (Revoked, true)),
        (Revoked, Revoked, (Revoked, true)),
    ] {
        let mut both = [(0, site, false), (0, tenant, true)];
        for _ in 0..2 {
            assert_eq!(chosen(&both), [(0, counts.0, counts.1)], "{site:?} for all, {tenant:?} for one");
            both.reverse();
        }
    }
}

proptest! {
    #[test]
    fn each_subject_has_one_decision_and_none_that_outweighs_it(
        decisions in prop::collection::vec(any_decision(), 0..12)
    ) {
        let counting = chosen(&decisions);
        let mut subjects: Vec<_> = decisions.iter().map(|decision| decision.0).collect();
        subjects.sort_unstable();
        subjects.dedup();
        prop_assert_eq!(counting.iter().map(|decision| decision.0).collect::<Vec<_>>(), subjects);
        for (subject, status, tenant) in counting {
            for (_, other, for_tenant) in decisions.iter().filter(|decision| decision.0 == subject) {
                let has_revocation = *other == CrateStatus::Revoked;
                prop_assert!(!has_revocation || status == CrateStatus::Revoked);
                let same_kind = has_revocation == (status == CrateStatus::Revoked);
                prop_assert!(!(same_kind && *for_tenant) || tenant);
            }
        }
    }
}
